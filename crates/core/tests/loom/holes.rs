//! Places given back from the middle of a line.

use flowgate_core::holes::{Hole, Holes};
use loom::sync::Arc;
use loom::thread;

use super::model;

const HOLE: Hole = Hole {
    release_ns: 50,
    cost: 3,
};

fn takes(holes: &Holes) -> Option<Hole> {
    holes.take(0, 2, 100)
}

/// Fails if a hole is not claimed before it is read.
#[test]
fn two_newcomers_never_take_one_hole_both() {
    model(3, || {
        let holes = Arc::new(Holes::default());
        holes.leave(HOLE, 0);
        let other = Arc::clone(&holes);
        let newcomer = thread::spawn(move || takes(&other));
        let found = [takes(&holes), newcomer.join().unwrap()];
        assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), [HOLE]);
        assert!(holes.is_empty());
    });
}

/// The slot is used anew while somebody looks at it. Fails if the cost is
/// written after the hole is shown, or if one that is taken is counted on.
#[test]
fn a_hole_is_taken_whole_while_it_is_left_and_while_another_is_taken() {
    model(2, || {
        let holes = Arc::new(Holes::default());
        let dear = Hole {
            release_ns: 60,
            cost: 9,
        };
        holes.leave(HOLE, 0);
        let other = Arc::clone(&holes);
        let leaver = thread::spawn(move || other.leave(dear, 0));
        let other = Arc::clone(&holes);
        let newcomer = thread::spawn(move || takes(&other));
        let mut found: Vec<_> = takes(&holes).into_iter().collect();
        leaver.join().unwrap();
        found.extend(newcomer.join().unwrap());
        found.extend(takes(&holes));
        found.extend(takes(&holes));
        found.sort_unstable_by_key(|hole| hole.cost);
        assert_eq!(found, [HOLE, dear]);
        assert!(holes.is_empty());
    });
}

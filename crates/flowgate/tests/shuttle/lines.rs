//! Lines: calls that are let go one after another.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use flowgate::{Arg, Outcome, Request};

use super::world::{World, at_once, draw, explore, one_of};

const APART_MS: u64 = 100;
const LAST_MS: u64 = 700;

const LINES: [&str; 2] = [
    r#"{"flow": [{"resource": "a", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 700}]}"#,
    r#"{"paramFlow": [{"resource": "a", "paramIdx": 0, "count": 10, "controlBehavior": 2,
                       "maxQueueingTimeMs": 700}]}"#,
];

fn ask(world: &World) -> Request<'static, 'static> {
    const ARGS: [Arg<'static>; 1] = [Arg::Int(7)];
    world.engine.request("a").args(&ARGS)
}

// Fails if a place is given back that somebody has taken since.
#[test]
fn places_that_are_given_up_are_there_again_and_none_is_there_twice() {
    explore(15_000, || {
        let world = World::new(one_of(&LINES));
        let taken = Arc::new(Mutex::new(BTreeSet::new()));
        let caller = |_| {
            let (world, taken) = (Arc::clone(&world), Arc::clone(&taken));
            let task = move || {
                for _ in 0..2 {
                    let entry = match draw(0..5) {
                        0 => world.enter(1, || ask(&world).try_entry()),
                        1 | 2 => world.reserve(1, false, || ask(&world).reserve()),
                        _ => world.reserve(1, true, || ask(&world).reserve()),
                    };
                    let Some(entry) = entry else { continue };
                    let place = entry.waited().as_millis() as u64;
                    let is_new = taken.lock().expect("nobody fails in it").insert(place);
                    assert!(is_new, "{place} ms twice");
                    world.exit(entry, 1, Outcome::Success);
                }
            };
            Box::new(task) as Box<dyn FnOnce() + Send>
        };
        at_once((0..draw(2..5)).map(caller).collect());
        world.nothing_is_held("a");
        world.statistics_agree(&["a"]);

        // The line is as if those who gave up had never come.
        let taken = taken.lock().expect("nobody fails in it");
        let every = (0..=LAST_MS).step_by(APART_MS as usize);
        let free: Vec<_> = every.filter(|place| !taken.contains(place)).collect();
        let fresh: Vec<_> = (0..10).map_while(|_| ask(&world).reserve().ok()).collect();
        let mut waits: Vec<_> = fresh.iter().map(|p| p.wait().as_millis() as u64).collect();
        waits.sort_unstable();
        assert_eq!(waits, free, "beside {taken:?}");
    });
}

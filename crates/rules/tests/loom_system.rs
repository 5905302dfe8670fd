//! A model of the calls that are older than the budget: every interleaving. See
//! `crates/core/tests/loom.rs` for the rules of the game.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p flowgate-rules --test
//! loom_system --release`. Where a comment says "fails if", the code was broken
//! in that way and the model was seen to fail.
#![cfg(loom)]
#![allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    reason = "a part of a crate, taken out of it"
)]

#[path = "../src/system/older.rs"]
mod older;

use flowgate_core::sync::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;
use older::OlderCalls;

/// Two resources, and what the budget knows of older calls.
struct World {
    resources: [AtomicU64; 2],
    older: OlderCalls,
}

impl World {
    /// With this many calls in flight on each resource already.
    fn new(first: u64, second: u64) -> Arc<Self> {
        Arc::new(World {
            resources: [AtomicU64::new(first), AtomicU64::new(second)],
            older: OlderCalls::new(first + second),
        })
    }

    /// A call of ours, as the slots and the node count it.
    fn call(&self, resource: usize) {
        let node = &self.resources[resource];
        node.fetch_add(1, Ordering::Relaxed);
        let is_settled = self.older.settle();
        if is_settled {
            self.older.leave();
        }
        node.fetch_add(u64::MAX, Ordering::Relaxed);
    }

    fn old_call_leaves(&self, resource: usize) {
        self.resources[resource].fetch_add(u64::MAX, Ordering::Relaxed);
    }

    fn look_up(&self) -> u64 {
        let counts = self.resources.iter();
        let sum = || Some(counts.map(|node| node.load(Ordering::Relaxed)).sum());
        self.older.look_up(sum)
    }
}

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// An old call stays; others come and go on both resources.
///
/// Fails if `left` is read before the resources, if `settled` is read after
/// them, if it is raised without release, and if the fence in `leave` or the one
/// in `look_up` is missing.
#[test]
fn a_look_up_never_misses_an_older_call() {
    model(3, || {
        let world = World::new(0, 1);
        let other = Arc::clone(&world);
        let calls = thread::spawn(move || {
            other.call(0);
            other.call(1);
        });
        assert!(world.look_up() >= 1);
        calls.join().unwrap();
        assert_eq!(world.look_up(), 1);
    });
}

/// Two look at once while an old call leaves and another comes.
#[test]
fn what_is_left_after_all_have_gone_is_nothing() {
    model(2, || {
        let world = World::new(1, 0);
        let [other, another] = [Arc::clone(&world), Arc::clone(&world)];
        let leaving = thread::spawn(move || {
            other.old_call_leaves(0);
            other.look_up();
        });
        let calls = thread::spawn(move || another.call(0));
        world.look_up();
        leaving.join().unwrap();
        calls.join().unwrap();
        assert_eq!(world.look_up(), 0);
        assert!(!world.older.settle());
    });
}

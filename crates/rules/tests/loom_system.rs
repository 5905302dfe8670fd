//! Models of the calls that are older than the budget, and of the figures of the
//! machine: every interleaving. See `crates/core/tests/loom.rs` for the rules of
//! the game.
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

#[path = "../src/system/figures.rs"]
mod figures;
#[path = "../src/system/older.rs"]
mod older;

use std::time::Duration;

use figures::{Figures, Sample};
use flowgate_core::Timestamp;
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

// The figures of the machine.

fn sample(load1: f64) -> Sample {
    Sample {
        load1: Some(load1),
        ..Sample::default()
    }
}

/// Samples count for 10 ns. Whoever looks at 105 ns sees the sample of 100 ns, or
/// that the one of 1 ns is too old.
fn nobody_takes_an_old_figure_for_a_new_one(readers: usize, preemptions: usize) {
    model(preemptions, move || {
        let figures = Figures::default();
        figures.keep_for(Duration::from_nanos(10));
        figures.feed(Timestamp::from_nanos(1), sample(1.0));
        let figures = Arc::new(figures);
        let threads: Vec<_> = (0..readers)
            .map(|_| {
                let figures = Arc::clone(&figures);
                thread::spawn(move || {
                    let load = figures.load1(Timestamp::from_nanos(105));
                    assert!(load.is_none() || load == Some(2.0), "{load:?}");
                })
            })
            .collect();
        figures.feed(Timestamp::from_nanos(100), sample(2.0));
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(figures.load1(Timestamp::from_nanos(105)), Some(2.0));
    });
}

/// Fails if the time of a sample is stored, or read, with `Relaxed`, and if it is
/// stored before the figures.
#[test]
fn a_reader_does_not_take_an_old_figure_for_a_new_one() {
    nobody_takes_an_old_figure_for_a_new_one(1, 3);
}

#[test]
fn two_readers_do_not_take_an_old_figure_for_a_new_one() {
    nobody_takes_an_old_figure_for_a_new_one(2, 2);
}

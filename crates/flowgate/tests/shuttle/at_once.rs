//! Limits on calls at once, with a line of those that wait.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use flowgate::Entry;
use shuttle::future::block_on;
use shuttle::thread;

use super::world::{OUTCOMES, World, at_once, draw, explore, one_of};

fn document(kind: &str, limit: u64) -> String {
    let rule = match kind {
        "isolation" => format!(
            r#"{{"resource": "a", "count": {limit}, "maxQueueLength": 3, "maxQueueingTimeMs": 1000}}"#
        ),
        _ => format!(r#"{{"resource": "a", "count": {limit}, "grade": 0}}"#),
    };
    format!(r#"{{"{kind}": [{rule}]}}"#)
}

/// What is inside now.
#[derive(Default)]
struct Inside(AtomicU64);

impl Inside {
    /// Counted after it was admitted, so there are never fewer than counted.
    fn come(&self, weight: u32, limit: u64) {
        let inside = self.0.fetch_add(weight.into(), SeqCst) + u64::from(weight);
        assert!(inside <= limit, "{inside} at once");
    }

    fn go(&self, weight: u32) {
        self.0.fetch_sub(weight.into(), SeqCst);
    }
}

// Fails if a permit that was granted is not taken by who left the line at that
// moment, or if whoever leaves looks at the line before its permits are back.
#[test]
fn calls_in_line_are_woken_and_never_too_many() {
    explore(15_000, || {
        let world = World::new(&document("isolation", 2));
        let inside = Arc::new(Inside::default());
        let caller = |_| {
            let (world, inside) = (Arc::clone(&world), Arc::clone(&inside));
            let task = move || {
                for _ in 0..2 {
                    let weight = draw(1..3) as u32;
                    let entry = world.enter_waiting(weight);
                    let Some(entry) = entry else { continue };
                    inside.come(weight, 2);
                    thread::yield_now();
                    inside.go(weight);
                    world.exit(entry, weight, one_of(&OUTCOMES));
                }
            };
            Box::new(task) as Box<dyn FnOnce() + Send>
        };
        at_once((0..draw(3..5)).map(caller).collect());
        world.nothing_is_held("a");
        world.statistics_agree(&["a"]);
        lets_in(&world, 2);
    });
}

#[test]
fn limits_at_once_hold_while_they_are_changed() {
    explore(15_000, || {
        let kind = one_of(&["flow", "isolation"]);
        let world = World::new(&document(kind, 2));
        let inside = Arc::new(Inside::default());
        let caller = |_| {
            let (world, inside) = (Arc::clone(&world), Arc::clone(&inside));
            let task = move || {
                for _ in 0..2 {
                    let weight = draw(1..3) as u32;
                    let request = world.engine.request("a").weight(weight);
                    let entry = match draw(0..3) {
                        0 => world.reserve(weight, true, || request.reserve()),
                        1 => world.enter_waiting(weight),
                        _ => world.enter(weight, || request.try_entry()),
                    };
                    let Some(entry) = entry else { continue };
                    // A flow rule counts calls, isolation counts permits.
                    let counts = if kind == "flow" { 1 } else { weight };
                    inside.come(counts, 3);
                    thread::yield_now();
                    inside.go(counts);
                    world.exit(entry, weight, one_of(&OUTCOMES));
                }
            };
            Box::new(task) as Box<dyn FnOnce() + Send>
        };
        let mut tasks: Vec<_> = (0..draw(2..4)).map(caller).collect();
        let loading = Arc::clone(&world);
        tasks.push(Box::new(move || {
            for limit in [one_of(&[1, 2, 3]), one_of(&[1, 2, 3]), 2] {
                let loaded = loading.engine.load_document(document(kind, limit));
                loaded.expect("the document is fine");
            }
            // Who waits for a limit that is not raised again is not forgotten.
            loading.advance(1_000);
        }));
        at_once(tasks);
        world.nothing_is_held("a");
        world.statistics_agree(&["a"]);
        lets_in(&world, 2);
    });
}

/// Exactly `limit` calls enter at once: no place was lost, and none is there
/// twice.
fn lets_in(world: &World, limit: usize) {
    let entries: Vec<_> = (0..limit + 2)
        .map_while(|_| world.engine.try_entry("a").ok())
        .collect();
    assert_eq!(entries.len(), limit);
}

impl World {
    /// Stands in line until the permits come, or for a few looks.
    fn enter_waiting(&self, weight: u32) -> Option<Entry<'static>> {
        let request = self.engine.request("a").weight(weight);
        if draw(0..3) > 0 {
            return self.enter(weight, || block_on(request.acquire()));
        }
        let mut waiting = pin!(request.acquire());
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..draw(1..4) {
            if let Poll::Ready(answer) = waiting.as_mut().poll(&mut context) {
                return self.enter(weight, || answer);
            }
            thread::yield_now();
        }
        // Dropped with the future.
        self.saw.cancelled.fetch_add(weight.into(), SeqCst);
        None
    }
}

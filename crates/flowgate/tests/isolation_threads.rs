//! Isolation rules under threads that meet, and callers that block.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use common::totals;
use flowgate::{Engine, Isolation, IsolationRule, Resource};

const THREADS: u32 = 8;
/// Nobody waits so long; it is there to be bounded.
const MINUTE_MS: u32 = 60_000;

/// Sums up who is inside, by itself.
#[derive(Default)]
struct Watch {
    inside: AtomicU64,
    most: AtomicU64,
}

impl Watch {
    fn during(&self, weight: u32, work: impl FnOnce()) {
        let weight = u64::from(weight);
        let inside = self.inside.fetch_add(weight, Ordering::SeqCst) + weight;
        self.most.fetch_max(inside, Ordering::SeqCst);
        work();
        self.inside.fetch_sub(weight, Ordering::SeqCst);
    }
}

fn guarded(rule: IsolationRule) -> (Engine, Resource) {
    let engine = Engine::new();
    engine.load_rules::<Isolation>(vec![rule]).unwrap();
    let resource = engine.resource("pay");
    (engine, resource)
}

fn held(resource: &Resource) -> (u64, u64, u64) {
    let node = resource.node();
    (node.in_flight, node.permits, node.queued)
}

/// Waits for others, who need no time of their own to get there.
fn until(mut happened: impl FnMut() -> bool) {
    while !happened() {
        thread::yield_now();
    }
}

#[test]
fn callers_that_block_never_run_too_many_at_once_and_all_have_their_turn() {
    const CALLS: u32 = 500;
    let rule = IsolationRule::at_once("pay", 5).wait_ms(MINUTE_MS);
    let (_engine, pay) = guarded(rule);
    let watch = Watch::default();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pay, watch) = (&pay, &watch);
            scope.spawn(move || {
                let weight = 1 + thread % 3;
                for _ in 0..CALLS {
                    let entry = pay.request().weight(weight).entry().unwrap();
                    watch.during(weight, thread::yield_now);
                    entry.exit();
                }
            });
        }
    });
    let most = watch.most.load(Ordering::SeqCst);
    assert!((1..=5).contains(&most), "{most}");
    assert_eq!(held(&pay), (0, 0, 0));
    let weights: u32 = (0..THREADS).map(|thread| 1 + thread % 3).sum();
    let expected = u64::from(CALLS * weights);
    let totals = totals(&pay);
    assert_eq!((totals.pass, totals.success), (expected, expected));
    assert_eq!((totals.block, totals.cancelled), (0, 0));
}

#[test]
fn callers_that_do_not_wait_take_exactly_what_is_free() {
    let (_engine, pay) = guarded(IsolationRule::at_once("pay", 10));
    let watch = Watch::default();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pay, watch) = (&pay, &watch);
            scope.spawn(move || {
                let weight = 1 + thread % 4;
                for _ in 0..5_000 {
                    if let Ok(entry) = pay.request().weight(weight).try_entry() {
                        watch.during(weight, || {});
                        entry.exit();
                    }
                }
            });
        }
    });
    let most = watch.most.load(Ordering::SeqCst);
    assert!((1..=10).contains(&most), "{most}");
    assert_eq!(held(&pay), (0, 0, 0));
    let all: Vec<_> = (0..10).map(|_| pay.try_entry().unwrap()).collect();
    assert!(pay.try_entry().is_err());
    drop(all);
}

#[test]
fn a_thread_that_blocks_goes_on_as_soon_as_another_leaves() {
    let rule = IsolationRule::at_once("pay", 1).wait_ms(MINUTE_MS);
    let (_engine, pay) = guarded(rule);
    let inside = pay.entry().unwrap();
    thread::scope(|scope| {
        let waiters: Vec<_> = (1..=3)
            .map(|queued| {
                let waiter = scope.spawn(|| pay.entry().map(|entry| entry.waited()));
                until(|| pay.node().queued == queued);
                waiter
            })
            .collect();
        assert_eq!(held(&pay), (1, 1, 3));
        inside.exit();
        for waiter in waiters {
            assert!(!waiter.join().unwrap().unwrap().is_zero());
        }
    });
    assert_eq!(held(&pay), (0, 0, 0));
}

#[test]
fn a_thread_that_waits_in_vain_is_refused() {
    let (engine, pay) = guarded(IsolationRule::at_once("pay", 1).wait_ms(1));
    let inside = pay.entry().unwrap();
    let arrived = engine.clock().now();
    let refused = pay.entry().unwrap_err();
    let waited = engine.clock().now().since(arrived);
    assert!(waited >= common::ms(1), "{waited:?}");
    assert_eq!((refused.limit(), refused.retry_after()), (1.0, None));
    assert_eq!((totals(&pay).block, held(&pay)), (1, (1, 1, 0)));
    inside.exit();
}

/// Limits rise and fall while callers wait, step out and run into the end of
/// their wait; nothing is held in the end.
#[test]
fn reloads_under_load_leave_nothing_held() {
    let rule = |count| {
        IsolationRule::at_once("pay", count)
            .wait_ms(1)
            .queue_length(4)
    };
    let (engine, pay) = guarded(rule(4));
    thread::scope(|scope| {
        let callers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let pay = &pay;
                scope.spawn(move || {
                    for call in 0..400 {
                        let request = pay.request().weight(1 + (thread + call) % 3);
                        let entry = match call % 3 {
                            0 => request.try_entry(),
                            _ => request.entry(),
                        };
                        if entry.is_ok() {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let mut counts = [1, 6, 3, 8].into_iter().cycle();
        while callers.iter().any(|caller| !caller.is_finished()) {
            let next = counts.next().map(rule);
            engine
                .load_rules::<Isolation>(next.into_iter().collect())
                .unwrap();
        }
    });
    assert_eq!(held(&pay), (0, 0, 0));
}

//! Reported bugs of peers, kind K07: concurrency limits and races. b078 for flow
//! rules is among the stress tests, b080 is tested with the rules too.

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};

use common::{document, flow, on_paused_time, seen_by_all, totals};
use flowgate::{Arg, BlockKind, Entry};
use tokio::sync::Semaphore;

// https://github.com/alibaba/Sentinel/issues/628, for every other kind that
// counts calls at once.
#[test]
fn b078_of_ten_threads_that_meet_at_a_barrier_two_enter_under_every_kind() {
    for rules in [
        r#"{"paramFlow": [{"resource": "r", "paramIdx": 0, "count": 2, "grade": 0}]}"#,
        r#"{"isolation": [{"resource": "r", "count": 2}]}"#,
        r#"{"system": [{"maxThread": 2}]}"#,
    ] {
        let (engine, _time) = document(rules);
        let r = engine.resource("r");
        let (barrier, entered) = (Barrier::new(10), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    for round in 0..300 {
                        barrier.wait();
                        let entry = seen_by_all(&r).entry();
                        entered.fetch_add(u64::from(entry.is_ok()), Ordering::Relaxed);
                        if barrier.wait().is_leader() {
                            assert_eq!(entered.swap(0, Ordering::Relaxed), 2, "{round} {rules}");
                            assert_eq!(r.in_flight(), 2);
                        }
                        barrier.wait();
                        drop(entry);
                        barrier.wait();
                    }
                });
            }
        });
        let node = r.node();
        assert_eq!((node.in_flight, node.permits), (0, 0), "{rules}");
    }
}

// https://github.com/alibaba/Sentinel/issues/3058, on whole calls: values come,
// go and make room for others.
#[test]
fn b080_no_more_run_per_value_than_may_while_values_come_and_go() {
    for values_max in [100, 2] {
        let (engine, _time) = document(&format!(
            r#"{{"paramFlow": [{{"resource": "r", "paramIdx": 0, "count": 8, "grade": 0,
                                 "maxValues": {values_max}}}]}}"#
        ));
        let r = engine.resource("r");
        let inside: [AtomicU64; 4] = Default::default();
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let (r, inside) = (&r, &inside);
                scope.spawn(move || {
                    for n in 0..2_000 {
                        let key = (thread + n) % 4;
                        let args = [Arg::from(key as u64)];
                        let Ok(entry) = r.request().args(&args).try_entry() else {
                            continue;
                        };
                        let together = inside[key].fetch_add(1, Ordering::SeqCst) + 1;
                        assert!(together <= 8, "{together} of {key}");
                        if n % 16 == 0 {
                            std::thread::yield_now();
                        }
                        inside[key].fetch_sub(1, Ordering::SeqCst);
                        entry.exit();
                    }
                });
            }
        });
        assert_eq!(r.in_flight(), 0);
        for key in 0..4 {
            let args = [Arg::from(key)];
            let ask = || r.request().args(&args).try_entry().ok();
            let held: Vec<Entry<'_>> = std::iter::from_fn(ask).collect();
            assert_eq!(held.len(), 8, "{key} of {values_max}");
        }
    }
}

// https://github.com/failsafe-lib/failsafe/pull/400. Calls that wait are in
// flight, so those that give up must free their places.
#[tokio::test]
async fn b083_waiters_that_give_up_swallow_no_places() {
    let (engine, _time) = flow(
        r#"[{"resource": "r", "count": 8, "grade": 0},
            {"resource": "r", "count": 100, "controlBehavior": 2, "maxQueueingTimeMs": 5000}]"#,
    );
    let r = engine.resource("r");
    for _ in 0..10 {
        let mut waiters: Vec<Pin<Box<dyn Future<Output = _>>>> = Vec::new();
        for _ in 0..8 {
            let mut waiter: Pin<Box<dyn Future<Output = _>>> = Box::pin(r.acquire());
            let polled = waiter
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
            // The first of a line goes ahead at once and leaves.
            if polled.is_pending() {
                waiters.push(waiter);
            }
        }
        assert!(r.in_flight() >= 7);
        drop(waiters);
        assert_eq!(r.in_flight(), 0);
        let entered: Vec<Entry<'_>> = (0..8).map(|_| r.entry().unwrap()).collect();
        assert!(r.try_entry().is_err());
        drop(entered);
    }
    assert_eq!(totals(&r).in_flight, 0);
}

// https://github.com/failsafe-lib/failsafe/pull/400, with permits: who waits
// for them is not in flight, and takes nothing along when the time is over.
#[tokio::test(start_paused = true)]
async fn b083_waiters_whose_time_is_over_swallow_no_permits() {
    let engine = on_paused_time("[]");
    let rules = r#"[{"resource": "r", "count": 8, "maxQueueingTimeMs": 50}]"#;
    engine.load_json("isolation", rules).unwrap();
    let r = engine.resource("r");
    for _ in 0..10 {
        let inside: Vec<Entry<'_>> = (0..8).map(|_| r.try_entry().unwrap()).collect();
        let waiters: Vec<_> = (0..8)
            .map(|_| {
                let r = r.clone();
                tokio::spawn(async move { r.acquire().await.map(drop) })
            })
            .collect();
        for waiter in waiters {
            let refused = waiter.await.unwrap().unwrap_err();
            assert_eq!(refused.kind(), BlockKind::Isolation);
        }
        drop(inside);
        let entered: Vec<Entry<'_>> = (0..8).map(|_| r.try_entry().unwrap()).collect();
        assert!(r.try_entry().is_err());
        drop(entered);
    }
    assert_eq!((r.node().permits, r.node().queued), (0, 0));
    assert_eq!((totals(&r).pass, totals(&r).block), (160, 90));
}

// https://github.com/joshrotenberg/tower-resilience/issues/365. Here readiness
// is a reservation, or is not there.
#[tokio::test]
async fn b082_as_many_run_as_have_reserved() {
    let (engine, _time) =
        document(r#"{"isolation": [{"resource": "r", "count": 4, "maxQueueingTimeMs": 60000}]}"#);
    let r = engine.resource("r");
    for _ in 0..100 {
        let gate = Arc::new(Semaphore::new(0));
        let calls: Vec<_> = (0..64)
            .map(|_| {
                let (r, gate) = (r.clone(), Arc::clone(&gate));
                tokio::spawn(
                    async move { r.call_async(async { gate.acquire().await.map(drop) }).await },
                )
            })
            .collect();
        while r.node().queued < 60 {
            tokio::task::yield_now().await;
        }
        assert_eq!((r.in_flight(), r.node().permits), (4, 4));
        // Half of them are dropped, running or waiting.
        for call in calls.iter().step_by(2) {
            call.abort();
        }
        gate.add_permits(64);
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.is_ok(), n % 2 == 1, "{n}");
        }
        let node = r.node();
        assert_eq!((node.in_flight, node.permits, node.queued), (0, 0, 0));
        let entered: Vec<Entry<'_>> = (0..4).map(|_| r.try_entry().unwrap()).collect();
        assert!(r.try_entry().is_err());
        drop(entered);
    }
}

// https://github.com/joshrotenberg/tower-resilience/pull/367. Nothing here can
// be closed; an engine that is let go of leaves nobody behind either.
#[tokio::test]
async fn b084_who_waits_outlives_the_engine_and_goes_or_is_refused() {
    let (engine, _time) =
        document(r#"{"isolation": [{"resource": "r", "count": 2, "maxQueueingTimeMs": 60000}]}"#);
    let r = engine.resource("r");
    let inside: Vec<_> = (0..2)
        .map(|_| r.request().into_owned().entry().unwrap())
        .collect();
    let waiters: Vec<_> = (0..5)
        .map(|_| {
            let r = r.clone();
            tokio::spawn(async move { r.acquire().await.map(|entry| entry.exit()) })
        })
        .collect();
    while r.node().queued < 5 {
        tokio::task::yield_now().await;
    }
    engine.set_enabled(false);
    drop((engine, r));
    drop(inside);
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), Ok(()));
    }
}

// https://github.com/apollographql/router/pull/9034
#[tokio::test]
async fn b087_a_task_that_never_yields_is_not_refused_for_it() {
    let (engine, _time) = document(
        r#"{"flow": [{"resource": "r", "count": 1000, "grade": 0}, {"resource": "r", "count": 1e9},
                     {"resource": "r", "count": 1e9, "controlBehavior": 2}],
            "isolation": [{"resource": "r", "count": 1000, "maxQueueingTimeMs": 10}]}"#,
    );
    let r = engine.resource("r");
    for _ in 0..100_000 {
        r.acquire().await.unwrap().exit();
    }
    let node = totals(&r);
    assert_eq!((node.pass, node.block, node.in_flight), (100_000, 0, 0));
}

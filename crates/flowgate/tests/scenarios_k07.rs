//! Reported bugs of peers, kind K07: concurrency limits and races. b078 is among
//! the stress tests.

mod common;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use common::{flow, totals};
use flowgate::Entry;

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

// https://github.com/apollographql/router/pull/9034
#[tokio::test]
async fn b087_a_task_that_never_yields_is_not_refused_for_it() {
    let (engine, _time) = flow(
        r#"[{"resource": "r", "count": 1000, "grade": 0}, {"resource": "r", "count": 1e9},
            {"resource": "r", "count": 1e9, "controlBehavior": 2}]"#,
    );
    let r = engine.resource("r");
    for _ in 0..100_000 {
        r.acquire().await.unwrap().exit();
    }
    let node = totals(&r);
    assert_eq!((node.pass, node.block, node.in_flight), (100_000, 0, 0));
}

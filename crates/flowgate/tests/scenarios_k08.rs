//! Reported bugs of peers, kind K08: cancellation, panics and the life of
//! guards. b096 is among the tests of custom slots.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use common::{
    KEY, Totals, at, document, flow, ms, passed, refusal, release_ms, seen_by_all, totals,
};
use flowgate::{CircuitState, Entry, Measure, Outcome};
use tokio::sync::Semaphore;

// https://github.com/alibaba/Sentinel/pull/1089
#[tokio::test]
async fn b088_a_cancelled_call_leaves() {
    let (engine, _time) = flow(r#"[{"resource": "r", "count": 50, "grade": 0}]"#);
    let r = engine.resource("r");
    let gate: &'static Semaphore = Box::leak(Box::new(Semaphore::new(0)));
    for _ in 0..20 {
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let r = r.clone();
                tokio::spawn(
                    async move { r.call_async(async { gate.acquire().await.map(drop) }).await },
                )
            })
            .collect();
        while r.in_flight() < 50 {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            r.try_entry().unwrap_err(),
            refusal(Measure::Concurrency, "flow/r#1", 50.0, 50.0, None)
        );
        for task in tasks {
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
    }
    let expected = Totals {
        pass: 1_000,
        block: 20,
        cancelled: 1_000,
        ..Totals::default()
    };
    assert_eq!(totals(&r), expected);
    let entered: Vec<Entry<'_>> = (0..50).map(|_| r.entry().unwrap()).collect();
    assert_eq!(entered.len(), 50);
}

/// Fifty calls at once under every kind that counts them.
const FIFTY_AT_ONCE: &str = r#"{
    "paramFlow": [{"resource": "r", "paramIdx": 0, "count": 50, "grade": 0}],
    "isolation": [{"resource": "r", "count": 50}],
    "system": [{"maxThread": 50}],
    "flow": [{"resource": "r", "count": 50, "grade": 0}]}"#;

// https://github.com/alibaba/Sentinel/pull/1089, with places of every kind.
#[tokio::test]
async fn b088_a_cancelled_call_gives_the_places_of_every_kind_back() {
    let (engine, _time) = document(FIFTY_AT_ONCE);
    let r = engine.resource("r");
    let gate: &'static Semaphore = Box::leak(Box::new(Semaphore::new(0)));
    for _ in 0..20 {
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let request = seen_by_all(&r).into_owned();
                tokio::spawn(async move {
                    let entry = request.acquire().await.unwrap();
                    let _held_up = gate.acquire().await;
                    entry.exit();
                })
            })
            .collect();
        while r.in_flight() < 50 {
            tokio::task::yield_now().await;
        }
        assert!(seen_by_all(&r).try_entry().is_err());
        for task in tasks {
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
        assert_eq!((r.in_flight(), r.node().permits), (0, 0));
    }
    // A guard that is only dropped has succeeded.
    let expected = Totals {
        pass: 1_000,
        block: 20,
        success: 1_000,
        ..Totals::default()
    };
    assert_eq!(totals(&r), expected);
    let entered: Vec<Entry<'_>> = std::iter::from_fn(|| seen_by_all(&r).try_entry().ok()).collect();
    assert_eq!(entered.len(), 50);
}

// https://github.com/alibaba/Sentinel/issues/2374
#[test]
fn b090_a_place_of_a_value_comes_back_however_the_call_ends() {
    for rules in [
        r#"[{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0}]"#,
        r#"[{"resource": "r", "paramKey": "user", "count": 1, "grade": 0}]"#,
    ] {
        let (engine, _time) = document(&format!(r#"{{"paramFlow": {rules}}}"#));
        let r = engine.resource("r");
        let user = [("user", KEY[0])];
        let ask = || r.request().args(&KEY).attachments(&user).try_entry();
        for round in 0..1_000 {
            let entry = ask().unwrap();
            assert!(ask().is_err());
            match round % 4 {
                0 => entry.exit(),
                1 => entry.exit_with(Outcome::Error),
                2 => entry.exit_with(Outcome::Cancelled),
                _ => drop(entry),
            }
        }
        assert!(ask().is_ok());
        assert_eq!((totals(&r).in_flight, totals(&r).pass), (0, 1_001));
    }
}

// https://github.com/alibaba/Sentinel/pull/1353: what a call says about itself
// is said with the call, so a worker has nothing to leave behind.
#[test]
fn b092_a_refused_request_leaves_nothing_behind_on_its_worker() {
    let (engine, _time) = flow(
        r#"[{"resource": "/a", "count": 0, "limitApp": "x"},
            {"resource": "/b", "count": 0, "limitApp": "x"},
            {"resource": "/b", "count": 0, "strategy": 2, "refResource": "in x"}]"#,
    );
    let first = engine.request("/a").origin("x").context("in x").entry();
    assert!(first.is_err());
    let second = engine.request("/b").origin("y").entry().unwrap();
    assert_eq!(second.resource(), Some("/b"));
    second.exit();
    assert!(engine.entry("/b").is_ok());
    let refused = Totals {
        block: 1,
        ..Totals::default()
    };
    let of = |resource, origin| engine.origin_node(resource, origin).map(Totals::from);
    assert_eq!(of("/a", "x"), Some(refused));
    assert_eq!(of("/b", "x"), None);
    assert_eq!(of("/b", "y").unwrap().block, 0);
    assert_eq!(engine.context_node("/b", "in x"), None);
}

// https://github.com/alibaba/Sentinel/issues/1531. That nobody exits twice is
// the compiler's to see: `exit` takes the guard.
#[test]
fn b094_guards_that_leave_in_the_wrong_order_are_counted_once_each() {
    let (engine, _time) = flow("[]");
    let names = ["a", "b", "c"];
    let orders: [&[usize]; 4] = [&[0, 1], &[1, 2, 0], &[2, 1, 0], &[0, 2, 1]];
    for order in orders {
        let mut guards: Vec<Option<Entry<'static>>> = names[..order.len()]
            .iter()
            .map(|name| engine.entry(name).ok())
            .collect();
        for index in order {
            let guard = guards[*index].take().unwrap();
            std::thread::scope(|scope| {
                if index % 2 == 0 {
                    scope.spawn(move || guard.exit());
                } else {
                    guard.exit();
                }
            });
        }
    }
    let of = |name| {
        let node = engine.node(name).unwrap();
        (node.total_pass, node.total_success, node.in_flight)
    };
    assert_eq!(names.map(of), [(4, 4, 0), (4, 4, 0), (3, 3, 0)]);
}

// https://github.com/apache/dubbo-go-pixiu/pull/876
#[test]
fn b098_a_breaker_sees_the_time_and_the_failure_of_the_work() {
    let slow = r#"{"resource": "slow", "grade": 0, "count": 100, "slowRatioThreshold": 0.9,
                   "timeWindow": 10, "minRequestAmount": 5, "statIntervalMs": 10000}"#;
    let errors = r#"{"resource": "errors", "grade": 2, "count": 4, "timeWindow": 10,
                     "minRequestAmount": 5, "statIntervalMs": 10000}"#;
    let (engine, time) = document(&format!(r#"{{"degrade": [{slow}, {errors}]}}"#));
    for name in ["slow", "errors"] {
        let r = engine.resource(name);
        for n in 0..5 {
            assert_eq!(engine.breakers(name), [CircuitState::Closed], "{name} {n}");
            let result = r.call(|| {
                time.advance(ms(200));
                Err::<(), _>("it failed")
            });
            assert!(result.is_err());
        }
        assert_eq!(engine.breakers(name), [CircuitState::Open], "{name}");
        assert_eq!(r.node().min_rt, Some(ms(200)));
    }
}

// https://github.com/golang/go/issues/56924, on a line in place of a bucket.
#[test]
fn b100_a_place_given_back_frees_what_it_took_and_moves_nobody() {
    let rule =
        r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 2000}]"#;
    // The last in line gives back all that it took.
    let (engine, time) = flow(rule);
    let r = engine.resource("r");
    assert_eq!(release_ms(r.request(), &time), Some(0));
    at(&time, 50);
    drop(r.request().weight(10).reserve().unwrap());
    assert_eq!(release_ms(r.request().weight(6), &time), Some(600));
    assert_eq!(release_ms(r.request(), &time), Some(700));

    // With somebody behind, that one keeps its place, and the place given back
    // is taken by one call at most.
    let (engine, time) = flow(rule);
    let r = engine.resource("r");
    assert_eq!(release_ms(r.request(), &time), Some(0));
    let heavy = r.request().weight(10).reserve().unwrap();
    let other = r.request().weight(2).reserve().unwrap();
    assert_eq!((heavy.wait(), other.wait()), (ms(1_000), ms(1_200)));
    drop(heavy);
    assert_eq!(other.wait(), ms(1_200));
    let mut releases: Vec<u64> = (0..12)
        .filter_map(|_| release_ms(r.request(), &time))
        .collect();
    releases.push(1_200);
    releases.sort_unstable();
    let expected: Vec<u64> = [1_000]
        .into_iter()
        .chain((12..=20).map(|k| k * 100))
        .collect();
    assert_eq!(releases, expected);
    drop(other);
}

// https://github.com/golang/go/issues/56924, in the line and in the bucket of
// one value.
#[test]
fn b100_what_a_call_gives_back_of_a_value_is_what_it_took() {
    let (engine, time) = document(
        r#"{"paramFlow": [{"resource": "line", "paramIdx": 0, "count": 10, "controlBehavior": 2,
                           "maxQueueingTimeMs": 2000},
                          {"resource": "bucket", "paramIdx": 0, "count": 10, "burstCount": 10,
                           "durationInSec": 10}],
            "flow": [{"resource": "bucket", "count": 100, "controlBehavior": 2,
                      "maxQueueingTimeMs": 1000}]}"#,
    );
    let line = engine.resource("line");
    let ask = |weight| line.request().args(&KEY).weight(weight);
    assert_eq!(release_ms(ask(1), &time), Some(0));
    at(&time, 50);
    drop(ask(10).reserve().unwrap());
    assert_eq!(release_ms(ask(6), &time), Some(600));
    assert_eq!(release_ms(ask(1), &time), Some(700));

    let bucket = engine.resource("bucket");
    let ask = |weight| bucket.request().args(&KEY).weight(weight).reserve();
    ask(15).unwrap().begin().exit();
    // Tokens are taken when a place in the queue is, and go back with it.
    drop(ask(5).unwrap());
    assert!(ask(6).is_err());
    assert!(ask(5).is_ok());
}

// https://github.com/exaring/hoglet/pull/3, with places of every kind.
#[test]
fn b103_a_panicking_handler_gives_the_places_of_every_kind_back() {
    let (engine, _time) = document(&FIFTY_AT_ONCE.replace("50", "1"));
    let r = engine.resource("r");
    for n in 1..=3 {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _entry = seen_by_all(&r).entry().unwrap();
            assert!(seen_by_all(&r).try_entry().is_err());
            resume_unwind(Box::new(n))
        }));
        assert_eq!(*panic.unwrap_err().downcast::<i32>().unwrap(), n);
        assert_eq!((r.in_flight(), r.node().permits), (0, 0));
        assert_eq!(totals(&r).exception, n as u64);
    }
    assert!(seen_by_all(&r).try_entry().is_ok());
}

// https://github.com/exaring/hoglet/pull/3
#[test]
fn b103_a_panicking_handler_is_an_error_and_its_panic_goes_on() {
    let (engine, time) = document(
        r#"{"flow": [{"resource": "r", "count": 1, "grade": 0}],
            "degrade": [{"resource": "r", "grade": 2, "count": 2, "timeWindow": 5,
                         "minRequestAmount": 3, "statIntervalMs": 10000}]}"#,
    );
    let r = engine.resource("r");
    for n in 1..=3 {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            r.call(|| -> Result<(), ()> { resume_unwind(Box::new(n)) })
        }));
        assert_eq!(*panic.unwrap_err().downcast::<i32>().unwrap(), n);
        assert_eq!((r.in_flight(), totals(&r).exception), (0, n as u64));
    }
    assert_eq!(engine.breakers("r"), [CircuitState::Open]);
    assert!(r.entry().is_err());
    at(&time, 5_000);
    r.entry().unwrap().exit();
    assert_eq!(engine.breakers("r"), [CircuitState::Closed]);
    assert_eq!(passed(&r, 3), 3);
}

// https://github.com/exaring/hoglet/pull/3, in tasks.
#[tokio::test]
async fn b103_a_panicking_task_is_an_error_and_leaves() {
    let (engine, _time) = flow(r#"[{"resource": "r", "count": 1, "grade": 0}]"#);
    for n in 1..=3 {
        let engine = engine.clone();
        let task = tokio::spawn(async move {
            let _entry = engine.acquire("r").await.unwrap();
            tokio::task::yield_now().await;
            resume_unwind(Box::new(n));
        });
        let panic = task.await.unwrap_err().into_panic();
        assert_eq!(*panic.downcast::<i32>().unwrap(), n);
    }
    let expected = Totals {
        pass: 3,
        success: 3,
        exception: 3,
        ..Totals::default()
    };
    assert_eq!(totals(&engine.resource("r")), expected);
    engine.entry("r").unwrap().exit_with(Outcome::Success);
}

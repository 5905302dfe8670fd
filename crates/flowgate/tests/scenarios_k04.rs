//! Reported bugs of peers, kind K04: clock jumps, idle periods and time
//! sources. Those that need no engine (b044, b045, b047, b053) are tests of the
//! core.

mod common;

use std::sync::{Mutex, PoisonError};

use common::{at, flow, ms, release_ms};
use flowgate::{Clock, Engine, TimeSource, Timestamp};

// https://github.com/uber-go/ratelimit/issues/106: a line saves no places, so
// an idle spell earns exactly the one call that comes first.
#[test]
fn b052_an_idle_spell_does_not_make_a_line_unlimited() {
    let (engine, time) = flow(
        r#"[{"resource": "r", "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 10000}]"#,
    );
    let r = engine.resource("r");
    let next = || release_ms(r.request(), &time);
    assert_eq!(next(), Some(0));
    at(&time, 30_000);
    let expected: Vec<_> = (30..40).map(|s| Some(s * 1_000)).collect();
    assert_eq!((0..10).map(|_| next()).collect::<Vec<_>>(), expected);
}

/// Says what it was told to say last, also when that is earlier.
struct Told(&'static Mutex<u64>);

impl TimeSource for Told {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(*self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn sleep(&self, _: std::time::Duration) {}
}

// https://github.com/JSONbored/loopover/pull/5855, through every behaviour of
// an engine: a clock that steps back stands still.
#[test]
fn b047_no_rule_tells_a_longer_wait_because_the_clock_stepped_back() {
    static MILLIS: Mutex<u64> = Mutex::new(1_000_000);
    let set = |millis| *MILLIS.lock().unwrap() = millis;
    let engine = Engine::builder()
        .clock(Clock::custom(Told(&MILLIS)))
        .build();
    engine
        .load_document(
            r#"{"flow": [{"resource": "rate", "count": 1},
                         {"resource": "warm", "count": 3, "controlBehavior": 1},
                         {"resource": "queue", "count": 1, "controlBehavior": 2,
                          "maxQueueingTimeMs": 2000}],
                "degrade": [{"resource": "breaker", "grade": 2, "count": 0,
                             "minRequestAmount": 1, "timeWindow": 5}]}"#,
        )
        .unwrap();
    for name in ["rate", "warm", "queue"] {
        engine.entry(name).unwrap().exit();
    }
    let failed = engine.entry("breaker").unwrap();
    failed.exit_with(flowgate::Outcome::Error);
    set(700_000);
    let retry = |name| engine.try_entry(name).unwrap_err().retry_after();
    assert_eq!(retry("rate"), Some(ms(1_000)));
    assert_eq!(retry("warm"), Some(ms(1_000)));
    assert_eq!(retry("queue"), Some(ms(1_000)));
    assert_eq!(retry("breaker"), Some(ms(5_000)));
    let queued = engine.request("queue").reserve().unwrap();
    assert_eq!(queued.wait(), ms(1_000));
    // It runs on to where it was, and goes on.
    set(1_000_999);
    assert_eq!(retry("rate"), Some(ms(1)));
    set(1_001_000);
    assert!(engine.try_entry("rate").is_ok());
}

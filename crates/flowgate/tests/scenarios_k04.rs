//! Reported bugs of peers, kind K04: clock jumps, idle periods and time
//! sources. Those that need no engine (b044, b045, b047, b053) are tests of the
//! core.

mod common;

use std::sync::{Mutex, PoisonError};

use common::{KEY, at, document, flow, ms, passed_with, release_ms};
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

// https://github.com/uber-go/ratelimit/issues/106, in the line of one value.
#[test]
fn b052_an_idle_spell_does_not_make_the_line_of_a_value_unlimited() {
    let (engine, time) = document(
        r#"{"paramFlow": [{"resource": "r", "paramIdx": 0, "count": 1, "controlBehavior": 2,
                           "maxQueueingTimeMs": 10000}]}"#,
    );
    let r = engine.resource("r");
    let next = || release_ms(r.request().args(&KEY), &time);
    assert_eq!(next(), Some(0));
    at(&time, 30_000);
    let expected: Vec<_> = (30..40).map(|s| Some(s * 1_000)).collect();
    assert_eq!((0..10).map(|_| next()).collect::<Vec<_>>(), expected);
}

// https://github.com/udoprog/leaky-bucket/pull/30, with the bucket and the line
// of one value.
#[test]
fn b051_an_idle_hour_overflows_neither_the_bucket_nor_the_line_of_a_value() {
    let hour_ms = 3_600_000;
    let rule = |more: &str| {
        let list = format!(r#"[{{"resource": "r", "paramIdx": 0, "count": 10 {more}}}]"#);
        document(&format!(r#"{{"paramFlow": {list}}}"#))
    };
    let (engine, time) = rule("");
    let r = engine.resource("r");
    assert_eq!(passed_with(&r, &KEY, 1), 1);
    at(&time, hour_ms);
    assert_eq!(passed_with(&r, &KEY, 20), 10);
    let (engine, time) = rule(r#", "controlBehavior": 2, "maxQueueingTimeMs": 2000"#);
    let r = engine.resource("r");
    let ten = || release_ms(r.request().args(&KEY).weight(10), &time);
    assert_eq!(ten(), Some(0));
    at(&time, hour_ms);
    assert_eq!([ten(), ten()], [Some(hour_ms), Some(hour_ms + 1_000)]);
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
                "paramFlow": [{"resource": "hot", "paramIdx": 0, "count": 1},
                              {"resource": "hot line", "paramIdx": 0, "count": 1,
                               "controlBehavior": 2, "maxQueueingTimeMs": 2000}],
                "degrade": [{"resource": "breaker", "grade": 2, "count": 0,
                             "minRequestAmount": 1, "timeWindow": 5}]}"#,
        )
        .unwrap();
    let ask = |name| engine.request(name).args(&KEY);
    for name in ["rate", "warm", "queue", "hot", "hot line"] {
        ask(name).entry().unwrap().exit();
    }
    let failed = engine.entry("breaker").unwrap();
    failed.exit_with(flowgate::Outcome::Error);
    set(700_000);
    let retry = |name| ask(name).try_entry().unwrap_err().retry_after();
    assert_eq!(retry("rate"), Some(ms(1_000)));
    assert_eq!(retry("warm"), Some(ms(1_000)));
    assert_eq!(retry("queue"), Some(ms(1_000)));
    assert_eq!(retry("hot"), Some(ms(1_001)));
    assert_eq!(retry("hot line"), Some(ms(1_000)));
    assert_eq!(retry("breaker"), Some(ms(5_000)));
    for name in ["queue", "hot line"] {
        assert_eq!(ask(name).reserve().unwrap().wait(), ms(1_000), "{name}");
    }
    // It runs on to where it was, and goes on.
    set(1_000_999);
    assert_eq!(retry("rate"), Some(ms(1)));
    set(1_001_000);
    assert!(engine.try_entry("rate").is_ok());
}

// https://github.com/golang/go/issues/56287, for what is refilled or paced: one
// per second, of readings that alternate.
#[test]
fn b044_alternating_readings_credit_no_second_twice_to_a_value_or_a_line() {
    static MILLIS: Mutex<u64> = Mutex::new(1_000_000);
    let engine = Engine::builder()
        .clock(Clock::custom(Told(&MILLIS)))
        .build();
    engine
        .load_document(
            r#"{"flow": [{"resource": "line", "count": 1, "controlBehavior": 2,
                          "maxQueueingTimeMs": 0},
                         {"resource": "minute", "count": 1, "statIntervalMs": 60000}],
                "paramFlow": [{"resource": "hot", "paramIdx": 0, "count": 1},
                              {"resource": "hot line", "paramIdx": 0, "count": 1,
                               "controlBehavior": 2, "maxQueueingTimeMs": 0}]}"#,
        )
        .unwrap();
    for name in ["line", "minute", "hot", "hot line"] {
        let passes: Vec<u64> = (0..200)
            .filter(|reading| {
                *MILLIS.lock().unwrap() = 1_010_000 - reading % 2 * 1_000;
                engine.request(name).args(&KEY).try_entry().is_ok()
            })
            .collect();
        assert_eq!(passes, [0], "{name}");
    }
}

// https://github.com/ProfessionalWiki/MediaWiki-MCP-Server/issues/557, with the
// bucket of one value. A clock that goes back stands still, so nothing is owed.
#[test]
fn b045_a_step_back_takes_no_token_away_and_locks_nobody_out() {
    static MILLIS: Mutex<u64> = Mutex::new(1_100_000);
    let set = |millis| *MILLIS.lock().unwrap() = millis;
    let engine = Engine::builder()
        .clock(Clock::custom(Told(&MILLIS)))
        .build();
    let rules = r#"[{"resource": "r", "paramIdx": 0, "count": 10, "durationInSec": 10}]"#;
    engine.load_json("paramFlow", rules).unwrap();
    let r = engine.resource("r");
    assert_eq!(passed_with(&r, &KEY, 3), 3);
    set(1_089_000);
    assert_eq!(passed_with(&r, &KEY, 7), 7);
    let refused = r.request().args(&KEY).try_entry().unwrap_err();
    assert_eq!(refused.retry_after(), Some(ms(10_001)));
    set(1_110_001);
    assert_eq!(passed_with(&r, &KEY, 20), 10);
}

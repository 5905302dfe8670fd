//! Reported bugs of peers, kind K10: reload and stale state. b122 is among the
//! stress tests; b121 and b130 are tested with the rules.

mod common;

use common::{at, document, flow, ms, passed, refusal};
use flowgate::{CircuitState, Measure, Outcome};

// https://github.com/mailgun/gubernator/pull/40, in windows of a second.
#[test]
fn b124_a_limit_changed_inside_a_running_window_sees_what_was_used() {
    let rule = |count: u32| format!(r#"[{{"resource": "r", "count": {count}}}]"#);
    for (count, left) in [(50, 0), (200, 120), (80, 0), (81, 1)] {
        let (engine, time) = flow(&rule(100));
        let r = engine.resource("r");
        at(&time, 100);
        assert_eq!(passed(&r, 80), 80);
        engine.load_json("flow", rule(count)).unwrap();
        at(&time, 110);
        assert_eq!(passed(&r, 200), left, "{count}");
        let used = 80.0 + left as f64;
        let expected = refusal(Measure::Rate, "flow/r#1", count.into(), used, Some(ms(890)));
        assert_eq!(r.entry().unwrap_err(), expected);
    }
}

// https://github.com/mailgun/gubernator/pull/40, with the interval reported, and
// shortened: the shorter one begins to count when it is first asked for.
#[test]
fn b124_a_limit_or_length_changed_inside_a_running_minute_applies_at_once() {
    let rule = |count: u32, seconds: u32| {
        let ms = seconds * 1_000;
        format!(r#"[{{"resource": "r", "count": {count}, "statIntervalMs": {ms}}}]"#)
    };
    for (count, seconds, left) in [(50, 60, 0), (200, 60, 120), (100, 30, 100)] {
        let (engine, time) = flow(&rule(100, 60));
        let r = engine.resource("r");
        at(&time, 10_000);
        assert_eq!(passed(&r, 80), 80);
        at(&time, 11_000);
        engine.load_json("flow", rule(count, seconds)).unwrap();
        assert_eq!(passed(&r, 300), left, "{count} in {seconds} s");
        let reset = r.entry().unwrap_err().retry_after().unwrap();
        assert!(reset <= ms(u64::from(seconds) * 1_000), "{reset:?}");
    }
}

// https://github.com/resilience4j/resilience4j/issues/2489
#[test]
fn b125_a_limit_that_was_lowered_refills() {
    for behavior in [0, 1] {
        // A warm-up with no room for a slope has its stable rate.
        let rule = |count: u32| {
            format!(
                r#"[{{"resource": "r", "count": {count}, "controlBehavior": {behavior},
                      "warmUpPeriodSec": 1, "warmUpColdFactor": 1000}}]"#
            )
        };
        let (engine, time) = flow(&rule(5));
        let r = engine.resource("r");
        engine.load_json("flow", rule(2)).unwrap();
        at(&time, 1_000);
        assert_eq!(passed(&r, 3), 2, "{behavior}");
        engine.load_json("flow", rule(4)).unwrap();
        at(&time, 2_000);
        assert_eq!(passed(&r, 5), 4, "{behavior}");
    }
}

// https://github.com/alibaba/Sentinel/issues/3363
#[test]
fn b129_reloading_a_list_leaves_one_breaker_with_its_state() {
    let rules = r#"{"degrade": [{"resource": "r", "grade": 2, "count": 0, "timeWindow": 10,
                                 "minRequestAmount": 1}]}"#;
    let (engine, time) = document(rules);
    let r = engine.resource("r");
    r.entry().unwrap().exit_with(Outcome::Error);
    let reload = || {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..5).for_each(|_| drop(engine.load_document(rules).unwrap())));
            }
        });
    };
    reload();
    assert_eq!(engine.breakers("r"), [CircuitState::Open]);
    at(&time, 5_000);
    assert_eq!(r.entry().unwrap_err().retry_after(), Some(ms(5_000)));
    at(&time, 10_100);
    let probe = r.entry().unwrap();
    assert_eq!(engine.breakers("r"), [CircuitState::HalfOpen]);
    // In the middle of the probe too.
    reload();
    probe.exit();
    assert_eq!(engine.breakers("r"), [CircuitState::Closed]);
    assert_eq!(passed(&r, 3), 3);
}

// https://github.com/alibaba/sentinel-golang/commit/2ac02ec. A breaker does not
// refuse a first call, whatever its count.
#[test]
fn b131_a_flow_rule_of_zero_alone_refuses_before_and_after_the_first_use() {
    let rules = [
        r#"{"resource": "r", "count": 0}"#,
        r#"{"resource": "r", "count": 0, "grade": 0}"#,
        r#"{"resource": "r", "count": 0, "controlBehavior": 1}"#,
        r#"{"resource": "r", "count": 0, "controlBehavior": 2}"#,
        r#"{"resource": "r", "count": 0, "controlBehavior": 3}"#,
        r#"{"resource": "r|s", "count": 0, "regex": true}"#,
    ];
    for rule in rules {
        let list = format!("[{rule}]");
        let (engine, _time) = flow(&list);
        let block = engine.entry("r").unwrap_err();
        assert_eq!(block.kind(), flowgate::BlockKind::Flow, "{rule}");
        engine.load_json("flow", "[]").unwrap();
        assert!(engine.entry("r").is_ok());
        engine.load_json("flow", &list).unwrap();
        assert!(engine.entry("r").is_err(), "{rule}");
    }
}

// https://github.com/alibaba/sentinel-golang/commit/2ac02ec, for breakers.
#[test]
fn b131_a_breaker_of_zero_alone_refuses_after_the_first_failure() {
    let (engine, _time) = document(
        r#"{"degrade": [{"resource": "r", "grade": 2, "count": 0, "timeWindow": 10,
                         "minRequestAmount": 1}]}"#,
    );
    engine.entry("r").unwrap().exit_with(Outcome::Error);
    let block = engine.entry("r").unwrap_err();
    assert_eq!(block.kind(), flowgate::BlockKind::Degrade);
}

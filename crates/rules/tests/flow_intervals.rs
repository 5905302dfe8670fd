//! Flow rules with an interval of their own, and those that follow the memory:
//! what is read, what is refused, and what the limits are.

use std::time::Duration;

use flowgate_core::{Interval, Node, NodeSettings, Timestamp};
use flowgate_rules::flow::{FlowState, MemoryLimits};
use flowgate_rules::system::Sample;
use flowgate_rules::{FlowRule, OnInvalid, RuleSet, Settings};

/// Faults, or warnings, of one rule for `a` with these members.
fn remarks(members: &str) -> (Vec<String>, Vec<String>) {
    let text = format!(r#"[{{"resource": "a", {members}}}]"#);
    let settings = Settings::default();
    match RuleSet::default().with_list("flow", text, &settings, OnInvalid::Refuse) {
        Ok((_, report)) => {
            let warnings = report.warnings.iter().map(ToString::to_string);
            (vec![], warnings.map(without_place).collect())
        }
        Err(error) => {
            let faults = error.faults.iter().map(ToString::to_string);
            (faults.map(without_place).collect(), vec![])
        }
    }
}

/// `flow[0].x: y (line 1, column 2)` without the list and the place.
fn without_place(remark: String) -> String {
    let remark = remark.trim_start_matches("flow[0].");
    let end = remark.rfind(" (line").unwrap_or(remark.len());
    remark[..end].to_owned()
}

fn state(rule: &FlowRule) -> FlowState {
    FlowState::new(rule, &Settings::default())
}

fn interval(ms: u64, boxes: u32) -> Option<Interval> {
    Interval::new(Duration::from_millis(ms), boxes).ok()
}

fn node() -> Node {
    Node::new(&std::sync::Arc::new(NodeSettings::default()))
}

#[test]
fn count_is_per_interval_in_ten_boxes_unless_the_rule_says_otherwise() {
    let rule = FlowRule::qps("a", 100.0);
    let table = [
        (rule.clone(), None),
        (rule.clone().per_ms(0), None),
        // The second view is just that.
        (rule.clone().per_ms(1_000), None),
        (rule.clone().per_ms(1_000).boxes(2), interval(1_000, 2)),
        (rule.clone().per_ms(60_000), interval(60_000, 10)),
        (rule.clone().per_ms(60_000).boxes(0), interval(60_000, 10)),
        (
            rule.clone().per_ms(86_400_000).boxes(1),
            interval(86_400_000, 1),
        ),
        (rule.clone().per_ms(u32::MAX), interval(u32::MAX.into(), 10)),
        (FlowRule::concurrency("a", 100.0).per_ms(60_000), None),
    ];
    for (rule, view) in table {
        let state = state(&rule);
        assert_eq!((state.interval(), state.limit()), (view, 100), "{rule:?}");
    }
    // A queue spaces calls and counts none.
    let queue = state(&rule.per_ms(60_000).rate_limiter(0));
    assert_eq!(queue.interval(), None);
    // 29 per 100 s are 29, whatever doubles make of 0.29.
    let slow = state(&FlowRule::qps("a", 28.999_999_999).per_ms(100_000));
    assert_eq!(slow.limit(), 28);
}

#[test]
fn a_view_of_two_seconds_counts_per_second_unless_the_rule_gives_that_interval() {
    let settings = Settings {
        interval_ms: 2_000,
        ..Settings::default()
    };
    let limit = |rule: FlowRule| {
        let state = FlowState::new(&rule, &settings);
        (state.interval(), state.limit(), state.per_period(6))
    };
    let rule = FlowRule::qps("a", 5.0);
    assert_eq!(limit(rule.clone()), (None, 10, 3.0));
    assert_eq!(limit(rule.clone().per_ms(2_000)), (None, 5, 6.0));
    assert_eq!(limit(rule.per_ms(1_000)), (interval(1_000, 10), 5, 6.0));
}

#[test]
fn a_queue_spaces_calls_by_the_interval_over_the_count() {
    let state = state(
        &FlowRule::qps("a", 60.0)
            .per_ms(3_600_000)
            .rate_limiter(120_000),
    );
    let now = Timestamp::from_millis(1_000_000);
    let allowed = state.allowed(now, &node());
    let release = |weight| {
        let place = state.line_up(now, weight, allowed);
        place.map(|place| (place.release_ns - now.as_nanos()) / 1_000_000_000)
    };
    assert_eq!(release(1), Ok(0));
    assert_eq!(release(2), Ok(120));
    let refused = release(1).unwrap_err();
    assert_eq!(refused.wait, Duration::from_secs(180));
    assert_eq!(refused.retry_after, Some(Duration::from_secs(60)));
    // An hour and two minutes are room for 62.
    assert!(release(62).unwrap_err().retry_after.is_some());
    assert_eq!(release(63).unwrap_err().retry_after, None);
}

#[test]
fn a_limit_that_warms_up_is_per_interval_too() {
    let rule = FlowRule::qps("a", 600.0).per_ms(60_000).warm_up(10);
    let state = state(&rule);
    let node = node();
    let second = |second: u64| Timestamp::from_millis(1_000_000 + second * 1_000);
    let cold = state.allowed(second(0), &node);
    assert_eq!((state.limit_at(cold), state.limit_at(600.0)), (200, 600));
    for at in 0..30 {
        let _ = node.pass(second(at), 10);
        let _ = state.allowed(second(at), &node);
    }
    assert_eq!(state.allowed(second(30), &node), 600.0);
}

#[test]
fn the_limit_follows_the_memory_in_use() {
    let settings = Settings::default();
    let limits = MemoryLimits {
        low_usage: 1_000.0,
        high_usage: 100.0,
        low_mark_bytes: 1_024,
        high_mark_bytes: 2_048,
    };
    let rule = FlowRule::qps("a", 0.0).memory(limits);
    assert!(rule.needs_memory() && !FlowRule::qps("a", 1.0).needs_memory());
    let (state, node) = (FlowState::new(&rule, &settings), node());
    assert!(state.moves());
    for (bytes, limit) in [
        (0, 1_000),
        (1_024, 1_000),
        (1_536, 550),
        (2_048, 100),
        (4_096, 100),
    ] {
        let now = Timestamp::from_millis(1_000_000);
        let memory_used_bytes = Some(bytes).filter(|bytes| *bytes > 0);
        let sample = Sample {
            memory_used_bytes,
            ..Sample::default()
        };
        settings.machine.feed(now, sample);
        let allowed = state.allowed(now, &node);
        assert_eq!(state.limit_at(allowed), limit, "{bytes}");
    }
}

#[test]
fn odd_intervals_are_told() {
    let none = || (vec![], vec![]);
    let fault = |text: &str| (vec![text.to_owned()], vec![]);
    let warning = |text: &str| (vec![], vec![text.to_owned()]);
    let table = [
        (r#""count": 1, "statIntervalMs": 60000"#, none()),
        (r#""count": 1, "statIntervalMs": 0"#, none()),
        (
            r#""count": 1, "statIntervalMs": 60000, "statSlidingWindowBucketCount": 60"#,
            none(),
        ),
        (
            r#""count": 1, "statIntervalMs": 4294967296"#,
            fault(
                "statIntervalMs: 4294967296 is above 4294967295; give milliseconds, or leave it out for a second",
            ),
        ),
        (
            r#""count": 1, "statIntervalMs": -1"#,
            fault(
                "statIntervalMs: -1 is negative; give milliseconds, or leave it out for a second",
            ),
        ),
        (
            r#""count": 1, "statIntervalMs": 1000, "statSlidingWindowBucketCount": 7"#,
            fault(
                "statSlidingWindowBucketCount: 7 boxes do not divide 1000 ms into whole nanoseconds; give 1 to 1000 boxes that divide the interval, or leave it out",
            ),
        ),
        (
            r#""count": 1, "statIntervalMs": 86400000, "statSlidingWindowBucketCount": 1440"#,
            fault(
                "statSlidingWindowBucketCount: 1440 boxes are too many, as each refused call looks at all; give 1 to 1000 boxes that divide the interval, or leave it out",
            ),
        ),
        (
            r#""count": 0.5, "statIntervalMs": 60000"#,
            warning(
                "count: 0.5 in 60000 ms is no whole call, so none can ever pass; give at least 1, and a longer statIntervalMs, or write accounting tokenBucket",
            ),
        ),
        (
            r#""count": 1, "grade": 0, "statIntervalMs": 60000"#,
            warning("statIntervalMs: not used: calls at once have no interval; leave it out"),
        ),
        (
            r#""count": 1, "statSlidingWindowBucketCount": 10"#,
            warning(
                "statSlidingWindowBucketCount: not used: the second view has boxes of its own; write statIntervalMs too, or leave it out",
            ),
        ),
        (
            r#""count": 1, "controlBehavior": 2, "statIntervalMs": 60000, "statSlidingWindowBucketCount": 10"#,
            warning(
                "statSlidingWindowBucketCount: not used: a queue spaces calls and counts none; leave it out",
            ),
        ),
    ];
    for (members, expected) in table {
        assert_eq!(remarks(members), expected, "{members}");
    }
}

#[test]
fn odd_memory_limits_are_told() {
    const FINE: &str = r#""lowMemUsageThreshold": 1000, "highMemUsageThreshold": 100, "memLowWaterMarkBytes": 1024, "memHighWaterMarkBytes": 2048"#;
    assert_eq!(remarks(FINE), (vec![], vec![]));
    let zero = r#""count": 1, "lowMemUsageThreshold": 0, "highMemUsageThreshold": 0, "memLowWaterMarkBytes": 0, "memHighWaterMarkBytes": 0"#;
    assert_eq!(remarks(zero), (vec![], vec![]));
    let queue = format!(r#"{FINE}, "controlBehavior": "rateLimiter""#);
    assert_eq!(remarks(&queue), (vec![], vec![]));
    let unused = "count: not used: the limit follows the memory in use; leave it out";
    let both = format!(r#"{FINE}, "count": 5"#);
    assert_eq!(remarks(&both), (vec![], vec![unused.to_owned()]));

    let warm = format!(r#"{FINE}, "controlBehavior": "warmUp""#);
    let message = "controlBehavior: a limit moves with the temperature or with memory, not with both; write 0 (reject) or 2 (rateLimiter)";
    assert_eq!(remarks(&warm).0, [message]);
    let at_once = format!(r#"{FINE}, "grade": 0"#);
    let message = "lowMemUsageThreshold: calls at once do not follow memory; write grade 1 (qps), or count instead";
    assert_eq!(remarks(&at_once).0, [message]);
    let swapped = r#""lowMemUsageThreshold": 100, "highMemUsageThreshold": 100, "memLowWaterMarkBytes": 2048, "memHighWaterMarkBytes": 1024"#;
    assert_eq!(
        remarks(swapped).0,
        [
            "highMemUsageThreshold: 100 is not below lowMemUsageThreshold 100; give less for high use",
            "memHighWaterMarkBytes: 1024 is not above memLowWaterMarkBytes 2048; give more bytes",
        ]
    );
    assert_eq!(
        remarks(r#""highMemUsageThreshold": 100, "memHighWaterMarkBytes": 1024"#).0,
        [
            "lowMemUsageThreshold: missing; give more than 0, all four memory fields go together",
            "memLowWaterMarkBytes: missing; give bytes, all four memory fields go together",
        ]
    );
}

#[test]
fn a_rule_with_another_interval_boxes_or_memory_is_another_rule() {
    let rule = FlowRule::qps("a", 1.0).per_ms(60_000).boxes(6);
    let limits = |bytes| MemoryLimits {
        low_usage: 2.0,
        high_usage: 1.0,
        low_mark_bytes: 1,
        high_mark_bytes: bytes,
    };
    let others = [
        rule.clone().per_ms(60_001),
        rule.clone().boxes(5),
        rule.clone().memory(limits(2)),
        rule.clone().memory(limits(3)),
        FlowRule::qps("a", 1.0),
    ];
    for (index, other) in others.iter().enumerate() {
        assert!(rule != *other && others[..index].iter().all(|before| before != other));
    }
}

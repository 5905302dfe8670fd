//! Reported bugs of peers, kind K10: reload and stale state. b122 for flow rules
//! is among the stress tests; b121 and b130 are tested with the rules too.

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{KEY, at, document, flow, ms, passed, passed_with, refusal, release_ms, seen_by_all};
use flowgate::{BlockKind, CircuitState, Engine, Entry, Measure, Outcome};

// https://github.com/alibaba/Sentinel/commit/d716f0f14
#[test]
fn b121_a_longest_wait_that_alone_was_changed_is_in_force_on_the_next_call() {
    for kind in ["flow", "paramFlow"] {
        let rule = |wait_ms_max: u32| {
            let index = if kind == "flow" {
                ""
            } else {
                r#""paramIdx": 0,"#
            };
            format!(
                r#"[{{"resource": "r", {index} "count": 10, "controlBehavior": 2,
                      "maxQueueingTimeMs": {wait_ms_max}}}]"#
            )
        };
        let (engine, time) = flow("[]");
        engine.load_json(kind, rule(0)).unwrap();
        let r = engine.resource("r");
        let accepted = || {
            let ask = |_: &u32| release_ms(r.request().args(&KEY), &time).is_some();
            (0..7).filter(ask).count()
        };
        assert_eq!(accepted(), 1, "{kind}");
        at(&time, 10_000);
        engine.load_json(kind, rule(500)).unwrap();
        assert_eq!(accepted(), 6, "{kind}");
    }
}

/// Of each kind a rule, and for each of its fields what that may be changed to
/// alone. With what names a rule otherwise: another rule, not a changed one.
const CHANGES: &[(&str, &str, &[&str])] = &[
    (
        "authority",
        r#""resource": "r", "limitApp": "web""#,
        &[r#""limitApp": "batch""#, r#""strategy": 1"#],
    ),
    (
        "system",
        r#""qps": 10"#,
        &[
            r#""qps": 11"#,
            r#""highestSystemLoad": 4"#,
            r#""highestCpuUsage": 0.5"#,
            r#""avgRt": 100"#,
            r#""maxThread": 7"#,
            r#""bbr": "off""#,
        ],
    ),
    (
        "paramFlow",
        r#""resource": "r", "paramIdx": 0, "count": 10"#,
        &[
            r#""paramIdx": 1"#,
            r#""paramIdx": null, "paramKey": "user""#,
            r#""grade": 0"#,
            r#""count": 11"#,
            r#""controlBehavior": 2"#,
            r#""maxQueueingTimeMs": 500"#,
            r#""burstCount": 5"#,
            r#""accounting": "tokenBucket""#,
            r#""durationInSec": 2"#,
            r#""paramFlowItemList": [{"object": "a", "count": 1}]"#,
            r#""maxValues": 7"#,
        ],
    ),
    (
        "flow",
        r#""resource": "r", "count": 10, "refResource": "s""#,
        &[
            r#""limitApp": "web""#,
            r#""grade": 0"#,
            r#""count": 11"#,
            r#""strategy": 1"#,
            r#""strategy": 2"#,
            r#""refResource": "t""#,
            r#""accounting": "strict""#,
            r#""accounting": "tokenBucket""#,
            r#""accounting": "tokenBucket", "burstCount": 9"#,
            r#""burstCount": 9"#,
            r#""statIntervalMs": 5000"#,
            r#""statIntervalMs": 1000, "statSlidingWindowBucketCount": 4"#,
            r#""lowMemUsageThreshold": 9, "highMemUsageThreshold": 2, "memLowWaterMarkBytes": 10,
               "memHighWaterMarkBytes": 20"#,
            r#""controlBehavior": 1"#,
            r#""controlBehavior": 2"#,
            r#""warmUpPeriodSec": 11"#,
            r#""warmUpColdFactor": 4"#,
            r#""maxQueueingTimeMs": 501"#,
        ],
    ),
    (
        "isolation",
        r#""resource": "r", "count": 10"#,
        &[
            r#""count": 11"#,
            r#""count": null, "threshold": 12"#,
            r#""maxQueueingTimeMs": 500"#,
            r#""maxQueueLength": 7"#,
        ],
    ),
    (
        "degrade",
        r#""resource": "r", "count": 10, "timeWindow": 5"#,
        &[
            r#""grade": 2"#,
            r#""count": 11"#,
            r#""slowRatioThreshold": 0.5"#,
            r#""timeWindow": 6"#,
            r#""timeWindow": null, "timeWindowMs": 5001"#,
            r#""backoffMultiplier": 2"#,
            r#""backoffMultiplier": 2, "maxTimeWindow": 60"#,
            r#""maxTimeWindow": 60"#,
            r#""jitter": 0.1"#,
            r#""force": "open""#,
            r#""minRequestAmount": 6"#,
            r#""statIntervalMs": 2000"#,
            r#""statSlidingWindowBucketCount": 2"#,
            r#""statWindowCalls": 20"#,
            r#""halfOpenTimeoutMs": 7"#,
            r#""probeNum": 2"#,
            r#""probeSuccessRatio": 0.5"#,
        ],
    ),
];

// https://github.com/alibaba/Sentinel/commit/d716f0f14: for each field of each
// kind. That none is left out is seen from what the kinds say of themselves.
#[test]
fn b121_each_field_of_each_kind_alone_makes_a_changed_rule() {
    let members = |base: &str, change: &str| {
        let mut rule: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&format!("{{{base}}}")).unwrap();
        rule.extend(
            serde_json::from_str::<serde_json::Map<_, _>>(&format!("{{{change}}}")).unwrap(),
        );
        serde_json::to_string(&[rule]).unwrap()
    };
    let engine = Engine::new();
    let named: Vec<&str> = CHANGES.iter().map(|(kind, ..)| *kind).collect();
    let kinds: Vec<&str> = engine.kinds().iter().map(|kind| kind.name).collect();
    assert_eq!(
        named.iter().collect::<BTreeSet<_>>(),
        kinds.iter().collect::<BTreeSet<_>>()
    );
    for (kind, base, changes) in CHANGES {
        let of_all = [r#""mode": "observe""#, r#""enabled": false"#];
        for change in changes.iter().chain(&of_all) {
            engine.load_json(kind, format!("[{{{base}}}]")).unwrap();
            let report = engine.load_json(kind, members(base, change)).unwrap();
            let report = report.kind(kind).unwrap();
            assert_eq!(
                (report.kept.len(), report.changed.len()),
                (0, 1),
                "{kind} {change}"
            );
        }
        let spec = engine.kinds().into_iter().find(|spec| spec.name == *kind);
        for field in spec.unwrap().fields {
            // Accepted, and said to decide nothing.
            let decides = !field.help.starts_with("accepted") && field.name != "metricType";
            let quoted = format!("\"{}\":", field.name);
            let is_changed = changes.iter().any(|change| change.contains(&quoted));
            assert!(
                is_changed || !decides,
                "{kind}: no change of {}",
                field.name
            );
        }
    }
}

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

// https://github.com/mailgun/gubernator/pull/40: what counts on the node sees
// what was used, for all inbound calls and for permits too.
#[test]
fn b124_a_limit_of_the_whole_or_of_permits_that_is_changed_sees_what_is_used() {
    for (kind, rule) in [
        ("system", r#"{"qps": COUNT}"#),
        ("system", r#"{"maxThread": COUNT}"#),
        ("isolation", r#"{"resource": "r", "count": COUNT}"#),
    ] {
        for (count, left) in [(50, 0), (200, 120), (80, 0), (81, 1)] {
            let rules = |count: u32| format!("[{}]", rule.replace("COUNT", &count.to_string()));
            let (engine, time) = flow("[]");
            engine.load_json(kind, rules(100)).unwrap();
            let r = engine.resource("r");
            let enter = |calls: usize| -> Vec<Entry<'_>> {
                (0..calls)
                    .map_while(|_| seen_by_all(&r).try_entry().ok())
                    .collect()
            };
            at(&time, 100);
            let used = enter(80);
            assert_eq!(used.len(), 80);
            engine.load_json(kind, rules(count)).unwrap();
            at(&time, 110);
            assert_eq!(enter(200).len(), left, "{kind} {rule} {count}");
        }
    }
}

// https://github.com/mailgun/gubernator/pull/40. A table of values starts anew
// with a changed rule, and lives on with an equal one.
#[test]
fn b124_a_changed_limit_of_values_starts_anew_and_an_equal_one_lives_on() {
    let rules = |count: u32, more: &str| {
        format!(
            r#"[{{"resource": "r", "paramIdx": 0, "count": {count}, "durationInSec": 60 {more}}}]"#
        )
    };
    for (count, more, left) in [
        (100, "", 20),
        (100, r#", "id": "renamed""#, 20),
        (50, "", 50),
        (200, "", 200),
    ] {
        let (engine, time) = flow("[]");
        engine.load_json("paramFlow", rules(100, "")).unwrap();
        let r = engine.resource("r");
        assert_eq!(passed_with(&r, &KEY, 80), 80);
        at(&time, 1_000);
        engine.load_json("paramFlow", rules(count, more)).unwrap();
        assert_eq!(passed_with(&r, &KEY, 300), left, "{count} {more}");
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

// https://github.com/resilience4j/resilience4j/issues/2489, for values, permits
// and the whole. Nothing here refills in the background.
#[test]
fn b125_a_limit_of_any_kind_that_was_lowered_refills() {
    for (kind, rule) in [
        (
            "paramFlow",
            r#"{"resource": "r", "paramIdx": 0, "count": COUNT}"#,
        ),
        ("isolation", r#"{"resource": "r", "count": COUNT}"#),
        ("system", r#"{"qps": COUNT}"#),
        ("system", r#"{"maxThread": COUNT}"#),
    ] {
        let (engine, time) = flow("[]");
        let r = engine.resource("r");
        let held = |count: u32, calls: usize| {
            let rules = format!("[{}]", rule.replace("COUNT", &count.to_string()));
            engine.load_json(kind, rules).unwrap();
            let held: Vec<Entry<'_>> = (0..calls)
                .filter_map(|_| seen_by_all(&r).try_entry().ok())
                .collect();
            held.len()
        };
        assert_eq!(held(5, 0), 0);
        assert_eq!(held(2, 0), 0);
        at(&time, 1_001);
        assert_eq!(held(2, 3), 2, "{kind}");
        at(&time, 2_002);
        assert_eq!(held(4, 5), 4, "{kind}");
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
    // A breaker whose rule has changed starts closed and has seen nothing.
    r.entry().unwrap().exit_with(Outcome::Error);
    assert_eq!(engine.breakers("r"), [CircuitState::Open]);
    let changed = rules.replace(r#""count": 0"#, r#""count": 1"#);
    engine.load_document(changed).unwrap();
    for state in [CircuitState::Closed, CircuitState::Open] {
        r.entry().unwrap().exit_with(Outcome::Error);
        assert_eq!(engine.breakers("r"), [state]);
    }
}

/// Of each kind a rule that lets nobody in, and what it is that refuses.
const NOBODY: &[(BlockKind, &str)] = &[
    (
        BlockKind::Authority,
        r#"{"resource": "r", "limitApp": "nobody"}"#,
    ),
    (
        BlockKind::Authority,
        r#"{"resource": "r", "limitApp": "web", "strategy": 1}"#,
    ),
    (BlockKind::System, r#"{"qps": 0}"#),
    (BlockKind::System, r#"{"maxThread": 0}"#),
    (
        BlockKind::ParamFlow,
        r#"{"resource": "r", "paramIdx": 0, "count": 0}"#,
    ),
    (
        BlockKind::ParamFlow,
        r#"{"resource": "r", "paramIdx": 0, "count": 0, "grade": 0}"#,
    ),
    (
        BlockKind::ParamFlow,
        r#"{"resource": "r", "paramIdx": 0, "count": 0, "controlBehavior": 2}"#,
    ),
    (BlockKind::Flow, r#"{"resource": "r", "count": 0}"#),
    (
        BlockKind::Flow,
        r#"{"resource": "r", "count": 0, "statIntervalMs": 60000}"#,
    ),
    (BlockKind::Isolation, r#"{"resource": "r", "count": 0}"#),
    (
        BlockKind::Degrade,
        r#"{"resource": "r", "count": 10, "timeWindow": 5, "force": "open"}"#,
    ),
];

// https://github.com/alibaba/sentinel-golang/commit/2ac02ec: each kind alone, on
// a resource that no other rule names.
#[test]
fn b131_a_rule_of_zero_of_any_kind_alone_refuses_before_and_after_the_first_use() {
    for (kind, rule) in NOBODY {
        let ask = |engine: &Engine| seen_by_all(&engine.resource("r")).try_entry().map(drop);
        let load = |engine: &Engine, list: &str| {
            engine.load_json(kind.name(), list).unwrap();
        };
        let list = format!("[{rule}]");
        // Known by the rule, and known before it.
        let (engine, _time) = flow("[]");
        load(&engine, &list);
        for _ in 0..2 {
            assert_eq!(ask(&engine).unwrap_err().kind(), *kind, "{rule}");
        }
        load(&engine, "[]");
        assert_eq!(ask(&engine), Ok(()), "{rule}");
        load(&engine, &list);
        assert_eq!(ask(&engine).unwrap_err().kind(), *kind, "{rule}");
    }
    let named: BTreeSet<&str> = NOBODY.iter().map(|(kind, _)| kind.name()).collect();
    let kinds: BTreeSet<&str> = Engine::new().kinds().iter().map(|kind| kind.name).collect();
    assert_eq!(named, kinds);
}

// https://github.com/alibaba/Sentinel/pull/1783, for every kind.
#[test]
fn b122_no_call_passes_a_rule_of_zero_of_any_kind_while_it_is_reloaded() {
    for (kind, rule) in NOBODY {
        let another = match kind {
            BlockKind::System => r#"{"avgRt": 1e6}"#.to_owned(),
            _ => rule.replace(r#""r""#, r#""another""#),
        };
        let lists = [format!("[{rule}]"), format!("[{another}, {rule}]")];
        let (engine, _time) = flow("[]");
        engine.load_json(kind.name(), &lists[0]).unwrap();
        let r = engine.resource("r");
        let (done, passes) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(Ordering::Acquire) {
                        let entry = seen_by_all(&r).try_entry();
                        passes.fetch_add(u64::from(entry.is_ok()), Ordering::Relaxed);
                        assert!(matches!(engine.rules().len(), 1 | 2));
                    }
                });
            }
            for n in 0..300 {
                engine.load_json(kind.name(), &lists[n % 2]).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        assert_eq!(passes.into_inner(), 0, "{rule}");
    }
}

// https://github.com/sentinel-group/sentinel-rust/commit/bec77e7, for every kind:
// two rules each, on the same resource.
#[test]
fn b130_rules_of_any_kind_without_ids_do_not_collide() {
    let (engine, _time) = flow("[]");
    for (kind, base, changes) in CHANGES {
        let second = match *kind {
            "degrade" => r#""resource": "r", "count": 11, "timeWindow": 5"#.to_owned(),
            "authority" => r#""resource": "r", "limitApp": "batch""#.to_owned(),
            "system" => changes[0].to_owned(),
            _ => base.replace("10", "11"),
        };
        let list = format!("[{{{base}}}, {{{second}}}]");
        engine.load_json(kind, list).unwrap();
    }
    let rules = engine.rules();
    let ids: BTreeSet<&str> = rules.iter().map(|rule| &*rule.id).collect();
    assert_eq!(
        (rules.len(), ids.len()),
        (2 * CHANGES.len(), 2 * CHANGES.len())
    );
    // The last first: those behind one that is gone move up.
    for (left, rule) in rules.iter().enumerate().rev() {
        let report = engine.remove_rule(rule.kind, &rule.id).unwrap();
        assert_eq!(report.kinds[0].removed, [rule.id.as_str().into()]);
        assert_eq!(engine.rules().len(), left, "{}", rule.id);
    }
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

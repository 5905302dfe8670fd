//! Reported bugs of peers, kind K05: bad or extreme configuration. What is
//! refused at load (b060, b061, b062) is tested with the rules.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::{
    KEY, Totals, at, document, flow, ms, passed, passed_with, refusal, seen_by_all, totals,
};
use flowgate::{BlockKind, OnInvalid};

// https://github.com/alibaba/Sentinel/pull/461
#[test]
fn b055_a_line_at_rate_zero_refuses_everybody_at_once_and_for_ever() {
    for behavior in [2, 3] {
        let (engine, time) = flow(&format!(
            r#"[{{"resource": "r", "count": 0, "controlBehavior": {behavior},
                  "maxQueueingTimeMs": 500}}]"#
        ));
        let r = engine.resource("r");
        let passes = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let calls = passed(&r, 12_500) as u64;
                    passes.fetch_add(calls, Ordering::Relaxed);
                    time.advance(ms(700));
                });
            }
        });
        assert_eq!(passes.into_inner(), 0);
        let node = totals(&r);
        assert!(r.request().weight(0).try_entry().is_ok());
        assert_eq!(totals(&r), node);
        assert_eq!(r.try_entry().unwrap_err().retry_after(), None);
    }
}

// https://github.com/alibaba/Sentinel/pull/461, for the other behaviours.
#[test]
fn b055_count_zero_refuses_all_but_weight_zero() {
    for fields in [
        r#""grade": 0"#,
        r#""controlBehavior": 0"#,
        r#""controlBehavior": 1"#,
    ] {
        let (engine, time) = flow(&format!(r#"[{{"resource": "r", "count": 0, {fields}}}]"#));
        let r = engine.resource("r");
        for second in 0..20 {
            at(&time, second * 1_000);
            assert_eq!(passed(&r, 100), 0, "{fields}");
            assert_eq!(
                r.request().weight(0).try_entry().map(drop),
                Ok(()),
                "{fields}"
            );
        }
        let expected = Totals {
            block: 2_000,
            ..Totals::default()
        };
        assert_eq!(totals(&r), expected);
    }
}

// https://github.com/alibaba/Sentinel/pull/461, for each value of an argument.
// Capacity and rate are one number there, so this is
// https://github.com/spring-cloud/spring-cloud-gateway/issues/1312 too.
#[test]
fn b055_count_zero_of_a_value_refuses_all_but_weight_zero() {
    for fields in [
        r#""burstCount": 0"#,
        r#""burstCount": 5"#,
        r#""controlBehavior": 2, "maxQueueingTimeMs": 500"#,
        r#""maxValues": 1"#,
    ] {
        let (engine, time) = document(&format!(
            r#"{{"paramFlow": [{{"resource": "r", "paramIdx": 0, "count": 0, {fields}}}]}}"#
        ));
        let r = engine.resource("r");
        for second in 0..20 {
            at(&time, second * 2_000);
            assert_eq!(passed_with(&r, &KEY, 500), 0, "{fields}");
            assert_eq!(passed_with(&r, &[second.into()], 2), 0, "{fields}");
            let probe = r.request().args(&KEY).weight(0).try_entry();
            assert_eq!(probe.map(drop), Ok(()), "{fields}");
        }
        let block = r.request().args(&KEY).try_entry().unwrap_err();
        assert_eq!(block.retry_after(), None, "{fields}");
        assert_eq!((totals(&r).pass, totals(&r).block), (0, 20 * 502 + 1));
    }
}

// https://github.com/spring-cloud/spring-cloud-gateway/issues/1312: a bucket
// that never holds a whole token is told at load, and closed.
#[test]
fn b057_a_bucket_of_no_capacity_is_closed_and_not_switched_off() {
    let (engine, time) = document("{}");
    let list = r#"[{"resource": "r", "paramIdx": 0, "count": 0.9}]"#;
    let report = engine.load_json("paramFlow", list).unwrap();
    assert_eq!(report.warnings.len(), 1, "{report}");
    let r = engine.resource("r");
    for second in 0..100 {
        at(&time, second * 2_000);
        assert_eq!(passed_with(&r, &KEY, 1), 0);
    }
}

// https://github.com/alibaba/sentinel-golang/commit/46ea824. A number that is
// none can only come from code.
#[test]
fn b061_of_breakers_that_can_never_work_each_is_named_and_the_good_ones_are_active() {
    let (engine, _time) = document("{}");
    let rule = |resource: &str, members: &str| {
        format!(r#"{{"resource": "{resource}", "grade": 1, "timeWindow": 5, {members}}}"#)
    };
    let list = [
        rule("r", r#""count": -0.1"#),
        rule("r", r#""count": 1.1"#),
        rule("r", r#""count": 0.5, "minRequestAmount": 0"#),
        rule("r", r#""count": 0.5, "statIntervalMs": 0"#),
        rule("", r#""count": 0.5"#),
        r#"{"resource": "r", "grade": 1, "count": 0.5, "timeWindow": 0}"#.to_owned(),
        rule("none", r#""count": 0.0"#),
        rule("all", r#""count": 1.0"#),
    ];
    let list = format!("[{}]", list.join(","));
    assert!(engine.load_json("degrade", &list).is_err());
    let report = engine
        .load_json_with("degrade", &list, OnInvalid::Skip)
        .unwrap();
    let named: Vec<&str> = report.skipped.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(
        named,
        [
            "degrade[0].count",
            "degrade[1].count",
            "degrade[2].minRequestAmount",
            "degrade[3].statIntervalMs",
            "degrade[4].resource",
            "degrade[5].timeWindow",
        ]
    );
    assert_eq!(report.active("degrade"), 2);
    let none = flowgate::DegradeRule::error_ratio("r", f64::NAN, 5);
    let error = engine.load_degrade(vec![none]).unwrap_err();
    assert_eq!(error.faults[0].path, "degrade[0].count");
    assert_eq!(engine.degrade_rules().len(), 2);
}

// https://github.com/cowprotocol/services/pull/4804: no place is no place in
// every kind, and a line for it is not stood in.
#[test]
fn b064_zero_places_of_any_kind_are_closed_and_nobody_waits_for_them() {
    for (kind, rules) in [
        (BlockKind::Isolation, r#"[{"resource": "r", "count": 0}]"#),
        (
            BlockKind::Isolation,
            r#"[{"resource": "r", "count": 0, "maxQueueingTimeMs": 60000}]"#,
        ),
        (
            BlockKind::Isolation,
            r#"[{"resource": "r", "count": 0, "maxQueueingTimeMs": 60000, "maxQueueLength": 5}]"#,
        ),
        (
            BlockKind::ParamFlow,
            r#"[{"resource": "r", "paramIdx": 0, "count": 0, "grade": 0}]"#,
        ),
        (BlockKind::System, r#"[{"maxThread": 0}]"#),
        (BlockKind::System, r#"[{"qps": 0}]"#),
    ] {
        let (engine, time) = document(&format!(r#"{{"{}": {rules}}}"#, kind.name()));
        let r = engine.resource("r");
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    let refused = seen_by_all(&r).entry().map(drop).unwrap_err();
                    assert_eq!(refused.kind(), kind, "{rules}");
                });
            }
        });
        assert_eq!((totals(&r).in_flight, totals(&r).block), (0, 10));
        assert_eq!(time.now(), common::START);
    }
}

// https://github.com/cowprotocol/services/pull/4804: a wait of zero is no wait
// for permits either.
#[test]
fn b064_a_wait_of_zero_for_permits_is_no_wait() {
    let (engine, _time) =
        document(r#"{"isolation": [{"resource": "r", "count": 1, "maxQueueingTimeMs": 0}]}"#);
    let r = engine.resource("r");
    let inside = r.entry().unwrap();
    assert!(r.entry().is_err());
    inside.exit();
    assert!(r.entry().is_ok());
}

// https://github.com/cowprotocol/services/pull/4804
#[test]
fn b064_zero_places_are_closed_and_a_wait_of_zero_is_no_wait() {
    let (engine, _time) = flow(r#"[{"resource": "r", "count": 0, "grade": 0}]"#);
    let r = engine.resource("r");
    let closed = refusal(flowgate::Measure::Concurrency, "flow/r#1", 0.0, 0.0, None);
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| assert_eq!(r.entry().map(drop), Err(closed.clone())));
        }
    });
    let (engine, time) =
        flow(r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 0}]"#);
    let r = engine.resource("r");
    let passes: Vec<usize> = (0..4)
        .map(|n| {
            at(&time, n * 100);
            passed(&r, 10)
        })
        .collect();
    assert_eq!(passes, [1, 1, 1, 1]);
    assert_eq!(time.now(), common::START + ms(300));
}

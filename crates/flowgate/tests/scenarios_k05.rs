//! Reported bugs of peers, kind K05: bad or extreme configuration. What is
//! refused at load (b060, b061, b062) is tested with the rules.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::{Totals, at, flow, ms, passed, refusal, totals};

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

//! Reported bugs of peers, kind K02: window boundaries. Those that need no
//! engine (b018, b025, and b021 and b024 without one) are tests of the core.

mod common;

use common::{KEY, at, built, document, ms, passed};
use flowgate::Engine;

// https://github.com/tower-rs/tower/issues/842. Waiting for a window is what
// prioritized calls do; with ten boxes the window slides by 100 ms.
#[test]
fn b020_a_waiting_call_is_released_when_the_sliding_window_has_room() {
    let builder = Engine::builder()
        .second_view(10, ms(1_000))
        .borrow_wait_max(ms(1_000));
    let (engine, time) = built(builder);
    engine
        .load_json("flow", r#"[{"resource": "r", "count": 3}]"#)
        .unwrap();
    let r = engine.resource("r");
    at(&time, 900);
    assert_eq!(common::passed(&r, 3), 3);
    at(&time, 1_100);
    let waits: Vec<_> = (0..4)
        .map(|_| {
            let pending = r.request().prioritized().reserve().ok()?;
            let wait = pending.wait();
            pending.begin().exit();
            Some(wait)
        })
        .collect();
    // At 1.9 s, not at 2.0 s and not before; the next three then fill a second.
    assert_eq!(waits, [Some(ms(800)), Some(ms(800)), Some(ms(800)), None]);
    at(&time, 1_900);
    assert!(r.try_entry().is_err());
    at(&time, 2_899);
    assert!(r.try_entry().is_err());
    at(&time, 2_900);
    assert_eq!(common::passed(&r, 5), 3);
}

// https://github.com/salvo-rs/salvo/issues/1324
#[test]
fn b021_a_periodic_caller_recovers_after_a_burst() {
    let rule = r#"[{"resource": "r", "count": 10, "statIntervalMs": 60000,
                    "statSlidingWindowBucketCount": 6}]"#;
    for (step, last_refusal) in [(10, 50), (15, 45), (20, 40), (30, 30), (60, 0)] {
        let (engine, time) = common::flow(rule);
        let r = engine.resource("r");
        assert_eq!(common::passed(&r, 20), 10);
        let refused = (1..=600 / step).map(|n| n * step).filter(|second| {
            at(&time, second * 1_000);
            r.try_entry().is_err()
        });
        assert_eq!(refused.max().unwrap_or(0), last_refusal, "each {step} s");
    }
}

// https://github.com/mailgun/gubernator/issues/118, with a window in place of
// the bucket: what comes back comes box by box, never all at once.
#[test]
fn b023_a_quota_does_not_jump_back_to_full_once_per_period() {
    let (engine, time) = common::flow(r#"[{"resource": "r", "count": 3, "statIntervalMs": 1000}]"#);
    let r = engine.resource("r");
    let passes: Vec<u64> = (0..100)
        .filter(|n| {
            at(&time, n * 100);
            r.try_entry().is_ok()
        })
        .collect();
    assert_eq!(passes.len(), 30);
    for (first, fourth) in passes.iter().zip(&passes[3..]) {
        assert!(fourth - first >= 10, "four calls within a second");
    }
}

// https://github.com/alisaifee/limits/issues/28
#[test]
fn b024_a_call_does_not_prolong_the_window() {
    for boxes in [1, 2, 6, 10] {
        let (engine, time) = common::flow(&format!(
            r#"[{{"resource": "r", "count": 2, "statIntervalMs": 6000,
                  "statSlidingWindowBucketCount": {boxes}}}]"#
        ));
        let r = engine.resource("r");
        for n in 0..10 {
            at(&time, n * 5_000);
            assert!(r.try_entry().is_ok(), "call {n} with {boxes} boxes");
        }
    }
}

// https://github.com/alisaifee/limits/issues/28, for one value of an argument.
#[test]
fn b024_a_call_does_not_prolong_the_span_of_a_value() {
    let (engine, time) = document(
        r#"{"paramFlow": [{"resource": "r", "paramIdx": 0, "count": 2, "durationInSec": 6}]}"#,
    );
    let r = engine.resource("r");
    for n in 0..10 {
        at(&time, n * 5_000);
        assert!(r.request().args(&KEY).try_entry().is_ok(), "call {n}");
    }
}

// https://github.com/alibaba/Sentinel/issues/2859, as a rule with boxes of its
// own. The bound of two boxes is in guarantees.md.
#[test]
fn b018_a_rule_of_ten_boxes_slides_and_one_of_two_keeps_only_its_bound() {
    for (boxes, middle, last) in [(10, 0, 5), (2, 5, 0)] {
        let (engine, time) = common::flow(&format!(
            r#"[{{"resource": "r", "count": 5, "statIntervalMs": 1000,
                  "statSlidingWindowBucketCount": {boxes}}}]"#
        ));
        let r = engine.resource("r");
        let passes = [300, 1_000, 1_300].map(|millis| {
            at(&time, millis);
            passed(&r, 5)
        });
        assert_eq!(passes, [5, middle, last], "{boxes} boxes");
    }
}

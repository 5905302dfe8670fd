//! Flow rules that are accounted strictly, and what is said of accountings.

mod common;

use std::time::Duration;

use common::{START, at, built, flow, ms, passed, refusal, totals};
use flowgate::{Accounting, Block, Engine, FlowRule, HitCounts, ManualClock, Measure, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

const SECOND: u64 = 1_000;

/// An engine with these rules on a clock that only moves when told to.
fn with(rules: Vec<FlowRule>) -> (Engine, ManualClock) {
    let (engine, time) = built(Engine::builder());
    engine.load_flow(rules).expect("the rules are fine");
    (engine, time)
}

fn strict(count: f64) -> FlowRule {
    FlowRule::qps("r", count).strict()
}

fn refused(id: &str, measure: Measure, limit: f64, after: Option<Duration>) -> Block {
    refusal(measure, id, limit, limit, after).accounted_in(Accounting::Strict)
}

/// In Sentinel's windows the first hundred have left the sum when the next box
/// begins: 200 in 516 ms at 100 per second.
#[test]
fn two_bursts_516_ms_apart_pass_once_in_strict_and_twice_in_windows() {
    let run = |rule: FlowRule| {
        let (engine, time) = with(vec![rule]);
        let r = engine.resource("r");
        [484, 1_000].map(|millis| {
            at(&time, millis);
            passed(&r, 150)
        })
    };
    assert_eq!(run(FlowRule::qps("r", 100.0)), [100, 100]);
    assert_eq!(run(strict(100.0)), [100, 0]);
}

#[test]
fn a_strict_limit_is_free_again_when_its_box_has_left_the_interval() {
    let (engine, time) = with(vec![strict(10.0)]);
    let r = engine.resource("r");
    at(&time, 5);
    assert_eq!(passed(&r, 12), 10);
    let block = r.entry().unwrap_err();
    // The box of the ten ends at 20 ms, and leaves a second later.
    assert_eq!(
        block,
        refused("flow/r#1", Measure::Rate, 10.0, Some(ms(1_015)))
    );
    assert_eq!(
        block.to_string(),
        "refused by flow rule flow/r#1: 10 of 10 calls per second (strict), retry after 1015 ms"
    );
    assert_eq!(
        r.request().weight(11).entry().unwrap_err().retry_after(),
        None
    );
    at(&time, 1_019);
    assert_eq!(passed(&r, 12), 0);
    at(&time, 1_020);
    assert_eq!(passed(&r, 12), 10);
}

#[test]
fn boxes_and_interval_are_those_of_the_rule() {
    let day = strict(3.0).per_ms(86_400_000).boxes(24);
    let (engine, time) = with(vec![day, strict(2.0).boxes(4)]);
    let r = engine.resource("r");
    // Of a second in four boxes the fifth counts too: 1,249 ms at most.
    at(&time, 1);
    assert_eq!(passed(&r, 5), 2);
    at(&time, 1_249);
    assert_eq!(passed(&r, 5), 0);
    at(&time, 1_250);
    assert_eq!(passed(&r, 5), 1);
    let block = r.entry().unwrap_err();
    let since_epoch = (START + ms(1_250)).as_nanos();
    let hour_ns = 3_600 * 1_000_000_000;
    let after = Duration::from_nanos(25 * hour_ns - since_epoch % hour_ns);
    let measure = Measure::RatePer(ms(86_400_000));
    assert_eq!(block, refused("flow/r#1", measure, 3.0, Some(after)));
    time.advance(after);
    assert_eq!(passed(&r, 5), 2);
}

#[test]
fn a_limit_that_is_changed_sees_what_has_passed() {
    let (engine, time) = with(vec![strict(10.0)]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 20), 10);
    engine.load_flow(vec![strict(12.0)]).unwrap();
    assert_eq!(passed(&r, 20), 2);
    engine.load_flow(vec![strict(5.0)]).unwrap();
    at(&time, 1_000);
    assert_eq!(passed(&r, 20), 0);
    // Whatever the rule says: the count is the node's.
    engine.load_flow(vec![strict(13.0).id("other")]).unwrap();
    assert_eq!(passed(&r, 20), 1);
    at(&time, 1_020);
    assert_eq!(passed(&r, 20), 12);
}

#[test]
fn a_strict_rule_and_a_window_each_hold_and_refused_calls_take_nothing() {
    let (engine, time) = with(vec![strict(5.0), FlowRule::qps("r", 3.0)]);
    let r = engine.resource("r");
    at(&time, 484);
    assert_eq!(passed(&r, 9), 3);
    let block = r.entry().unwrap_err();
    assert_eq!(block.accounting(), Some(Accounting::Window));
    // The window is empty again, and the strict rule has two left.
    at(&time, 1_000);
    assert_eq!(passed(&r, 9), 2);
    let block = r.entry().unwrap_err();
    assert_eq!(block.accounting(), Some(Accounting::Strict));
    assert_eq!(totals(&r).pass, 5);
}

#[test]
fn a_call_that_is_given_up_takes_nothing_of_a_strict_limit() {
    let queue = FlowRule::qps("r", 1.0).rate_limiter(5_000);
    let (engine, _time) = with(vec![queue, strict(2.0)]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 1), 1);
    drop(r.reserve().expect("there is a place in line"));
    let pending = r.reserve().expect("what was given up is free");
    assert!(r.reserve().is_err());
    drop(pending);
}

#[test]
fn nothing_of_a_strict_limit_is_lent() {
    let (engine, _time) = with(vec![strict(3.0)]);
    let r = engine.resource("r");
    let ask = || r.request().prioritized().entry();
    assert_eq!((0..5).filter(|_| ask().is_ok()).count(), 3);
    assert_eq!(ask().unwrap_err().accounting(), Some(Accounting::Strict));
}

#[test]
fn strict_rules_warm_up() {
    let (engine, time) = with(vec![strict(30.0).warm_up(10)]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 50), 10);
    let mut last = 10;
    for step in 1..20 {
        at(&time, step * (SECOND + 20));
        last = passed(&r, 50);
        assert!(last >= 10, "{last}");
    }
    assert!(last > 12, "{last}");
}

#[test]
fn strict_counts_are_kept_by_origin_by_context_and_of_another_resource() {
    let (engine, time) = flow(
        r#"[{"resource": "r", "count": 2, "accounting": "strict", "limitApp": "other"},
            {"resource": "r", "count": 1, "accounting": 1, "strategy": 2, "refResource": "c"},
            {"resource": "s", "count": 3, "accounting": "STRICT", "strategy": 1,
             "refResource": "r"}]"#,
    );
    let (r, s) = (engine.resource("r"), engine.resource("s"));
    let of = |origin| r.request().origin(origin);
    at(&time, 484);
    // Of another resource it is counted from the first look on.
    assert!(of("a").try_entry().is_ok());
    assert!(s.try_entry().is_ok());
    for (origin, left) in [("a", 1), ("b", 2)] {
        let ok = (0..5).filter(|_| of(origin).try_entry().is_ok()).count();
        assert_eq!(ok, left, "{origin}");
    }
    at(&time, 1_000);
    assert!(of("a").try_entry().is_err());
    assert!(s.try_entry().is_err());
    let inside = || r.request().context("c").try_entry();
    assert!(inside().is_ok() && inside().is_err());
    at(&time, 1_500);
    assert!(of("a").try_entry().is_ok() && s.try_entry().is_ok());
}

#[test]
fn an_observed_strict_rule_refuses_nobody_and_counts() {
    let (engine, time) =
        flow(r#"[{"resource": "r", "count": 3, "accounting": "strict", "mode": "observe"}]"#);
    let r = engine.resource("r");
    at(&time, 484);
    assert_eq!(passed(&r, 3), 3);
    at(&time, 1_000);
    assert_eq!(passed(&r, 2), 2);
    let expected = HitCounts {
        passed: 3,
        would_block: 2,
        ..HitCounts::default()
    };
    assert_eq!(engine.rules()[0].hits, expected);
}

#[test]
fn lists_and_reports_name_the_accounting() {
    let (engine, _time) = built(Engine::builder());
    let report = engine
        .load_json(
            "flow",
            r#"[{"resource": "a", "count": 1},
                {"resource": "b", "count": 1, "accounting": "strict"},
                {"resource": "c", "count": 1, "accounting": "tokenBucket", "burstCount": 7},
                {"resource": "d", "count": 1, "accounting": "tokenBucket", "controlBehavior": 2},
                {"resource": "e", "count": 1, "controlBehavior": 2},
                {"resource": "f", "count": 1, "grade": 0}]"#,
        )
        .unwrap();
    assert_eq!(
        report.to_string(),
        "flow: 6 in force (1 strict, 2 tokenBucket), 6 added, 0 changed, 0 kept, 0 removed"
    );
    let rules = engine.rules();
    let accountings: Vec<_> = rules.iter().map(|rule| rule.accounting).collect();
    let bucket = Some(Accounting::TokenBucket);
    let expected = [
        Some(Accounting::Window),
        Some(Accounting::Strict),
        bucket,
        bucket,
        None,
        None,
    ];
    assert_eq!(accountings, expected);
    let json = serde_json::to_value(&rules[2]).unwrap();
    assert_eq!(json["accounting"], "tokenBucket");
    assert_eq!(json["rule"]["accounting"], "tokenBucket");
    assert_eq!(json["rule"]["burstCount"], 7);
    let json = serde_json::to_value(&rules[4]).unwrap();
    assert_eq!(json.get("accounting"), None);
}

#[test]
fn refusals_of_rates_say_how_they_are_accounted_and_others_do_not() {
    let (engine, _time) = with(vec![
        FlowRule::qps("window", 0.0),
        FlowRule::qps("minute", 0.0).per_ms(60_000),
        FlowRule::qps("warm", 0.0).warm_up(10),
        FlowRule::qps("strict", 0.0).strict(),
        FlowRule::qps("bucket", 0.0).token_bucket(5),
        FlowRule::qps("queue", 0.0).rate_limiter(500),
        FlowRule::concurrency("at once", 0.0),
    ]);
    for (name, accounting) in [
        ("window", Some(Accounting::Window)),
        ("minute", Some(Accounting::Window)),
        ("warm", Some(Accounting::Window)),
        ("strict", Some(Accounting::Strict)),
        ("bucket", Some(Accounting::TokenBucket)),
        ("queue", None),
        ("at once", None),
    ] {
        let block = engine.resource(name).entry().unwrap_err();
        assert_eq!(block.accounting(), accounting, "{name}");
    }
    // One that would borrow, and does not wait, too.
    let (engine, _time) = with(vec![FlowRule::qps("r", 1.0)]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 1), 1);
    let block = r.request().prioritized().try_entry().unwrap_err();
    assert_eq!(block.accounting(), Some(Accounting::Window));
}

proptest! {
    /// Whatever comes when: never more than the limit in any span of the
    /// interval, its two ends included.
    #[test]
    fn no_span_of_the_interval_has_more_than_the_limit(
        calls in vec((0..400_u64, 1..4_u32, any::<bool>()), 1..150),
        limit in 3..20_u32,
        boxes in prop::sample::select(vec![1, 4, 50]),
    ) {
        let (engine, time) = with(vec![strict(limit.into()).boxes(boxes)]);
        let r = engine.resource("r");
        let mut passed: Vec<(Timestamp, u64)> = Vec::new();
        for (gap, weight, given_up) in calls {
            time.advance(ms(gap));
            if let Ok(pending) = r.request().weight(weight).reserve()
                && !given_up
            {
                pending.begin().exit();
                passed.push((time.now(), weight.into()));
            }
        }
        for (index, (first, _)) in passed.iter().enumerate() {
            let span = passed[index..].iter();
            let span = span.take_while(|(then, _)| *then <= *first + ms(SECOND));
            let sum: u64 = span.map(|(_, weight)| weight).sum();
            prop_assert!(sum <= limit.into(), "{} from {:?}", sum, first);
        }
    }
}

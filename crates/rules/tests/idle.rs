//! What rules remember of a resource may be forgotten when it decides as a new
//! state would, and not before.

use std::time::Duration;

use flowgate_core::{Outcome, Timestamp};
use flowgate_rules::{
    Degrade, Flow, Forced, Idle, OnInvalid, ParamFlow, RuleKind, RuleSet, Settings, Whose,
};

fn ms(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn idle(now_ms: u64, since_ms: u64) -> Idle {
    Idle {
        now: ms(now_ms),
        since: Duration::from_millis(since_ms),
    }
}

fn rules(kind: &str, fields: &str) -> RuleSet {
    let text = format!(r#"[{{"resource": "/.*", "regex": true, {fields}}}]"#);
    let (rules, _) = RuleSet::default()
        .with_list(kind, text, &Settings::default(), OnInvalid::Refuse)
        .expect("the rule is fine");
    rules
}

fn state<K: RuleKind>(rules: &RuleSet) -> std::sync::Arc<K::State> {
    rules.table::<K>().entries()[0].state_for("/a", &Settings::default())
}

fn is_as_new(rules: &RuleSet, now_ms: u64) -> bool {
    rules.is_as_new("/a", Whose::Resource, idle(now_ms, 0))
}

#[test]
fn a_rule_that_has_not_met_the_resource_has_nothing_to_keep() {
    let rules = rules("degrade", r#""count": 1, "grade": 2, "timeWindow": 1"#);
    assert!(is_as_new(&rules, 0));
}

#[test]
fn a_line_is_kept_until_every_call_that_may_stand_in_it_passes_at_once() {
    let rules = rules(
        "flow",
        r#""count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 400"#,
    );
    let line = state::<Flow>(&rules);
    assert!(is_as_new(&rules, 1_000));
    for _ in 0..3 {
        assert!(line.line_up(ms(1_000), 1, 10.0).is_ok());
    }
    // Its end is at 1,200 ms; then a second and the longest wait.
    assert!(!is_as_new(&rules, 2_599));
    assert!(is_as_new(&rules, 2_600));
}

#[test]
fn a_bucket_is_kept_until_it_is_full() {
    let rules = rules(
        "flow",
        r#""count": 10, "accounting": "tokenBucket", "burstCount": 20"#,
    );
    let bucket = state::<Flow>(&rules);
    assert!(bucket.take(ms(1_000), 10, false).is_ok());
    assert!(!is_as_new(&rules, 1_999));
    assert!(is_as_new(&rules, 2_000));
}

#[test]
fn a_warm_resource_is_kept_until_it_is_cold() {
    let rules = rules(
        "flow",
        r#""count": 100, "controlBehavior": 1, "warmUpPeriodSec": 10"#,
    );
    let temperature = state::<Flow>(&rules);
    let node = flowgate_core::Node::new(&Default::default());
    let mut second = 1;
    while temperature.allowed(ms(second * 1_000), &node) < 100.0 {
        let _taken = node.pass(ms(second * 1_000), 90);
        second += 1;
        assert!(second < 100, "it does not warm up");
    }
    // It cools by 100 tokens a second, of which it holds 1,000 at most.
    assert!(!is_as_new(&rules, (second + 4) * 1_000));
    assert!(is_as_new(&rules, (second + 10) * 1_000));
}

#[test]
fn a_breaker_is_kept_while_a_result_counts_and_while_it_is_not_as_its_rule_makes_it() {
    let rules = rules("degrade", r#""count": 1, "grade": 2, "timeWindow": 1"#);
    let breaker = state::<Degrade>(&rules);
    let report = |now: u64, outcome| {
        if let Ok(admitted) = breaker.admit(ms(now), |_| {}) {
            breaker.report(admitted, outcome, Duration::ZERO, ms(now), |_| {});
        }
    };
    report(1_000, Outcome::Success);
    assert!(!is_as_new(&rules, 1_999));
    assert!(is_as_new(&rules, 2_000));
    (0..5).for_each(|_| report(2_000, Outcome::Error));
    // Open, and stays so until a call probes it.
    assert!(!is_as_new(&rules, 1_000_000));
    report(1_000_000, Outcome::Success);
    assert!(is_as_new(&rules, 1_001_000));
    assert!(breaker.force(Forced::Closed, ms(1_001_000), |_| {}));
    assert!(!is_as_new(&rules, 2_000_000));
    assert!(breaker.release(ms(2_000_000), |_| {}));
    assert!(is_as_new(&rules, 2_000_000));
}

#[test]
fn values_are_kept_for_as_long_as_any_may_have_used_something_up() {
    let table = [
        (r#""count": 5, "durationInSec": 60"#, 120_002),
        (
            r#""count": 5, "durationInSec": 60, "burstCount": 10"#,
            240_002,
        ),
        (
            r#""count": 5, "controlBehavior": 2, "maxQueueingTimeMs": 500"#,
            2_000,
        ),
        (r#""count": 5, "grade": 0"#, 0),
    ];
    for (fields, after) in table {
        let rules = rules("paramFlow", &format!(r#""paramIdx": 0, {fields}"#));
        let _values = state::<ParamFlow>(&rules);
        let kept = |since| !rules.is_as_new("/a", Whose::Resource, idle(0, since));
        assert!(after == 0 || kept(after - 1), "{fields}");
        assert!(!kept(after), "{fields}");
    }
}

#[test]
fn what_was_forgotten_begins_anew() {
    let rules = rules("degrade", r#""count": 1, "grade": 2, "timeWindow": 1"#);
    let entry = std::sync::Arc::clone(&rules.table::<Degrade>().entries()[0]);
    let _kept = (
        state::<Degrade>(&rules),
        entry.state_for("(others)", &Settings::default()),
    );
    rules.forget("/a", Whose::Resource);
    assert!(entry.state_of("/a").is_none());
    // A name that the pattern does not match is found only where asked for.
    rules.forget("(others)", Whose::Resource);
    assert!(entry.state_of("(others)").is_some());
    rules.forget("(others)", Whose::Many);
    assert!(entry.state_of("(others)").is_none());
}

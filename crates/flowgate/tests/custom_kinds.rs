//! Kinds of the service's own whose rules fail: the call passes as far as they
//! are concerned, and what the other rules of the kind have taken comes back.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

mod common;

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{built, ms};
use flowgate::{
    BlockKind, Call, Decide, Decision, Departure, Engine, FieldKind, FieldSpec, Fields, Head,
    InForce, Position, RuleKind, Settings,
};
use serde::Serialize;

/// Rules that take a place each, and do what they say besides.
#[derive(Debug)]
struct Places;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
struct PlaceRule {
    #[serde(flatten)]
    head: Head,
    does: String,
}

impl RuleKind for Places {
    const NAME: &'static str = "places";
    const ABOUT: &'static str = "takes a place";
    type Rule = PlaceRule;
    /// Places taken.
    type State = AtomicU64;

    fn fields() -> &'static [FieldSpec] {
        const FIELDS: &[FieldSpec] = &[FieldSpec::new("does", FieldKind::Text, "what it does")];
        FIELDS
    }

    fn parse(head: Head, fields: &mut Fields<'_>) -> PlaceRule {
        PlaceRule {
            head,
            does: fields.text("does").unwrap_or_default(),
        }
    }

    fn validate(_: &PlaceRule, _: &Settings, _: &mut Fields<'_>) {}

    fn head(rule: &PlaceRule) -> &Head {
        &rule.head
    }

    fn new_state(_: &PlaceRule, _: &Settings) -> AtomicU64 {
        AtomicU64::new(0)
    }
}

fn panic_if(rule: &InForce<Places>, does: &str) {
    if rule.rule().does == does {
        resume_unwind(Box::new("boom"));
    }
}

impl Decide for Places {
    const BLOCK: BlockKind = BlockKind::Custom("places");
    const HEARS_EXITS: bool = true;
    const HEARS_PASSES: bool = true;

    fn decide(rule: &InForce<Self>, call: &mut Call<'_>) -> Decision {
        panic_if(rule, "panics");
        rule.state.fetch_add(1, Ordering::Relaxed);
        rule.leave_ticket(call, [0; 3]);
        match rule.rule().does.as_str() {
            "waits" => Decision::Wait(ms(500)),
            _ => Decision::Pass,
        }
    }

    fn passed(rule: &InForce<Self>, _: &mut [u64; 3]) {
        panic_if(rule, "panics when the call has passed");
    }

    fn undo(rule: &InForce<Self>, _: [u64; 3], _: &Call<'_>) {
        rule.state.fetch_sub(1, Ordering::Relaxed);
    }

    fn exited(rule: &InForce<Self>, _: [u64; 3], _: &Departure<'_>) {
        rule.state.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lets one call through these rules; returns how long it was told to wait, how
/// many places are taken when it has ended, and how many faults were counted.
fn after_a_call(rules: &str) -> (Duration, u64, u64) {
    let (engine, _time) = built(Engine::builder().kind::<Places>(Position::Last));
    engine.load_json("places", rules).unwrap();
    let entry = engine.entry("a").unwrap();
    let waited = entry.waited();
    entry.exit();
    let rules = engine.table::<Places>();
    let states = rules.entries().iter().flat_map(|rule| rule.states());
    let taken = states.map(|(_, state)| state.load(Ordering::Relaxed)).sum();
    (waited, taken, engine.stats().slot_faults)
}

#[test]
fn where_a_rule_panics_those_before_it_give_back() {
    let rules =
        r#"[{"resource": "a"}, {"resource": "a", "does": "panics"}, {"resource": "a", "id": 3}]"#;
    assert_eq!(after_a_call(rules), (Duration::ZERO, 0, 1));
}

#[test]
fn nobody_waits_for_a_place_that_was_given_back_as_a_rule_panicked() {
    let rules = r#"[{"resource": "a", "does": "waits"}, {"resource": "a", "does": "panics"}]"#;
    assert_eq!(after_a_call(rules), (Duration::ZERO, 0, 1));
}

#[test]
fn rules_hear_of_the_exit_though_an_observed_one_has_panicked() {
    let rules = r#"[{"resource": "a"}, {"resource": "a", "does": "panics", "mode": "observe"}]"#;
    assert_eq!(after_a_call(rules), (Duration::ZERO, 0, 1));
}

#[test]
fn rules_hear_of_the_exit_though_one_panicked_when_the_call_had_passed() {
    let rules =
        r#"[{"resource": "a"}, {"resource": "a", "does": "panics when the call has passed"}]"#;
    assert_eq!(after_a_call(rules), (Duration::ZERO, 0, 1));
}

//! What new rules leave of the chains and rules before them: a chain stays as
//! long as nothing that it is made of changes, and rules that are gone are
//! dropped by who loads.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use std::cell::Cell;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use common::built;
use flowgate::{
    BlockKind, Call, Decide, Decision, Engine, FieldSpec, Fields, FlowRule, Head, InForce,
    Matching, Position, Resource, RuleKind, Settings,
};
use serde::Serialize;

/// Rules that tell where they are, and when their memory is dropped.
#[derive(Debug)]
struct Telling;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
struct TellingRule {
    #[serde(flatten)]
    head: Head,
}

/// What a rule remembers: whose it is.
struct Remembers(String);

thread_local! {
    /// Where the rule was that was asked last.
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

/// Whose memory was dropped, and on which thread.
static DROPPED: Mutex<Vec<(String, ThreadId)>> = Mutex::new(Vec::new());

impl Drop for Remembers {
    fn drop(&mut self) {
        let dropped = (self.0.clone(), thread::current().id());
        DROPPED.lock().unwrap().push(dropped);
    }
}

impl RuleKind for Telling {
    const NAME: &'static str = "telling";
    const ABOUT: &'static str = "tells where it is";
    type Rule = TellingRule;
    type State = Remembers;

    fn fields() -> &'static [FieldSpec] {
        &[]
    }

    fn parse(head: Head, _: &mut Fields<'_>) -> TellingRule {
        TellingRule { head }
    }

    fn validate(_: &TellingRule, _: &Settings, _: &mut Fields<'_>) {}

    fn head(rule: &TellingRule) -> &Head {
        &rule.head
    }

    fn new_state(rule: &TellingRule, _: &Settings) -> Remembers {
        Remembers(rule.head.resource.clone())
    }
}

impl Decide for Telling {
    const BLOCK: BlockKind = BlockKind::Custom("telling");
    const HEARS_EXITS: bool = false;

    fn decide(rule: &InForce<Self>, _: &mut Call<'_>) -> Decision {
        ASKED.set(std::ptr::from_ref(rule).addr());
        Decision::Pass
    }
}

fn engine(names: &[&str]) -> Engine {
    let engine = built(Engine::builder().kind::<Telling>(Position::Last)).0;
    load(&engine, names);
    engine
}

fn load(engine: &Engine, names: &[&str]) {
    let rules = names.iter().map(|name| TellingRule {
        head: Head::of(*name),
    });
    engine.load_rules::<Telling>(rules.collect()).unwrap();
}

/// Where the chain of `resource` has its rule. A new chain is made before the
/// old one is dropped, so it is elsewhere.
fn asked(resource: &Resource) -> usize {
    ASKED.set(0);
    resource.entry().unwrap().exit();
    ASKED.get()
}

#[test]
fn a_chain_stays_the_same_object_while_only_the_rules_of_others_change() {
    let engine = engine(&["a", "b"]);
    let a = engine.resource("a");
    let first = asked(&a);
    assert_ne!(first, 0);
    load(&engine, &["c", "b", "a"]);
    engine
        .load_flow(vec![FlowRule::qps("b", 1.0), FlowRule::qps("c", 1.0)])
        .unwrap();
    engine.load_json_of("flow", "b", "[]").unwrap();
    engine
        .append_json(
            "degrade",
            r#"[{"resource": "c", "count": 5, "timeWindow": 1}]"#,
        )
        .unwrap();
    engine.remove_rule("telling", "telling/c#1").unwrap();
    assert!(engine.load_json("flow", "[{}]").is_err());
    assert_eq!(asked(&a), first);
}

#[test]
fn a_chain_is_made_anew_when_a_rule_of_its_resource_comes_changes_or_goes() {
    let engine = engine(&["a"]);
    let a = engine.resource("a");
    let flow = |count: f64| FlowRule::qps("a", count);
    let lists = [
        vec![flow(100.0)],
        vec![flow(200.0)],
        vec![flow(200.0).id("mine")],
        vec![flow(200.0).observe()],
        vec![],
        vec![flow(100.0).matching(Matching::Prefix)],
        vec![FlowRule::qps("*", 100.0)],
        vec![],
    ];
    let mut before = asked(&a);
    for list in lists {
        engine.load_flow(list.clone()).unwrap();
        let now = asked(&a);
        assert_ne!(now, before, "{list:?}");
        engine.load_flow(list.clone()).unwrap();
        assert_eq!(asked(&a), now, "{list:?}");
        before = now;
    }
}

#[test]
fn what_a_rule_remembers_is_dropped_by_who_loads_and_not_by_a_caller() {
    let engine = engine(&["dropped", "dropped too"]);
    let resources = ["dropped", "dropped too"].map(|name| engine.resource(name));
    let dropped = || -> Vec<ThreadId> {
        let dropped = DROPPED.lock().unwrap();
        let own = dropped
            .iter()
            .filter(|(name, _)| name.starts_with("dropped"));
        own.map(|(_, thread)| *thread).collect()
    };
    let call = || {
        resources
            .iter()
            .for_each(|resource| assert_ne!(asked(resource), 0))
    };
    let (loader, caller) = (thread::current().id(), |call: &(dyn Fn() + Sync)| {
        thread::scope(|scope| scope.spawn(call).join().unwrap());
    });
    // Not on this thread, which would keep their chains at hand.
    caller(&call);
    // Both rules go. Their chains still have them, and no call has come since.
    load(&engine, &[]);
    assert_eq!(dropped(), []);
    caller(&|| {
        resources
            .iter()
            .for_each(|resource| assert_eq!(asked(resource), 0))
    });
    assert_eq!(dropped(), [], "the callers' chains were not the last");
    engine.load_json("flow", "[]").unwrap();
    assert_eq!(dropped(), [loader; 2]);
}

//! Changes of some rules, against lists that replace all.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::sync::Arc;

use flowgate_rules::{
    Acting, Flow, FlowRule, FlowState, LoadReport, Matching, OnInvalid, RuleError, RuleMode,
    RuleSet, Settings,
};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    All(Vec<FlowRule>),
    Of(&'static str, Vec<FlowRule>),
    More(Vec<FlowRule>),
    Without(String),
}

const RESOURCES: [&str; 5] = ["a", "ab", "b", "*", "flow/a#1"];
const IDS: [&str; 5] = ["x", "flow/a#1", "flow/a#2", "flow/b#1", "flow/*#1"];

fn rule() -> impl Strategy<Value = FlowRule> {
    let matching = prop_oneof![
        4 => Just(Matching::Exact),
        1 => Just(Matching::Prefix),
        1 => Just(Matching::Glob),
    ];
    let mode = prop_oneof![5 => Just(RuleMode::Enforce), 1 => Just(RuleMode::Off)];
    let id = prop_oneof![3 => Just(None), 1 => (0..IDS.len()).prop_map(Some)];
    (
        0..RESOURCES.len(),
        1..4_u8,
        matching,
        mode,
        id,
        any::<bool>(),
    )
        .prop_map(|(resource, count, matching, mode, id, relates)| {
            let rule = FlowRule::qps(RESOURCES[resource], f64::from(count));
            let rule = rule.matching(matching).mode(mode);
            let rule = if relates { rule.relate("b") } else { rule };
            match id {
                Some(id) => rule.id(IDS[id]),
                None => rule,
            }
        })
}

fn step() -> impl Strategy<Value = Step> {
    let of = (0..RESOURCES.len(), vec(rule(), 0..3)).prop_map(|(resource, mut rules)| {
        let resource = RESOURCES[resource];
        for rule in &mut rules {
            rule.head.resource = resource.to_owned();
        }
        Step::Of(resource, rules)
    });
    let id = prop_oneof![
        (0..IDS.len()).prop_map(|id| IDS[id].to_owned()),
        (0..RESOURCES.len(), 1..3_u8)
            .prop_map(|(resource, n)| { format!("flow/{}#{n}", RESOURCES[resource]) }),
    ];
    prop_oneof![
        2 => vec(rule(), 0..8).prop_map(Step::All),
        3 => of,
        2 => vec(rule(), 0..3).prop_map(Step::More),
        2 => id.prop_map(Step::Without),
    ]
}

type Loaded = Result<(RuleSet, LoadReport), RuleError>;

fn all(set: &RuleSet, rules: Vec<FlowRule>) -> Loaded {
    set.with_rules::<Flow>(rules, &Settings::default(), OnInvalid::Refuse)
}

fn take(set: &RuleSet, step: &Step) -> Loaded {
    let settings = Settings::default();
    let text = |rules: &[FlowRule]| serde_json::to_string(rules).unwrap();
    let refuse = OnInvalid::Refuse;
    match step {
        Step::All(rules) => all(set, rules.clone()),
        Step::Of(resource, rules) => {
            set.with_list_of("flow", resource, text(rules), &settings, refuse)
        }
        Step::More(rules) => set.with_more("flow", text(rules), &settings, refuse),
        Step::Without(id) => set.without("flow", id, &settings),
    }
}

/// The list of all rules after the step, as somebody would write it.
fn spliced(set: &RuleSet, step: &Step) -> Vec<FlowRule> {
    let table = set.table::<Flow>();
    let entries = table.entries();
    let goes = |index: usize| match step {
        Step::All(_) => true,
        Step::Of(resource, _) => entries[index].head().resource == *resource,
        Step::More(_) => false,
        Step::Without(id) => **entries[index].id() == **id,
    };
    let new = match step {
        Step::All(rules) | Step::Of(_, rules) | Step::More(rules) => rules.clone(),
        Step::Without(_) => Vec::new(),
    };
    let place = (0..entries.len()).find(|index| goes(*index));
    let place = place.unwrap_or(entries.len());
    let stay = |range: std::ops::Range<usize>| {
        let staying = range.filter(|index| !goes(*index));
        staying
            .map(|index| entries[index].rule().clone())
            .collect::<Vec<_>>()
    };
    [stay(0..place), new, stay(place..entries.len())].concat()
}

/// What can be seen of a table, states included.
fn seen(set: &RuleSet) -> Vec<(FlowRule, Option<String>, String, Arc<FlowState>)> {
    let table = set.table::<Flow>();
    let entries = table.entries().iter();
    entries
        .map(|entry| {
            let (rule, id) = (entry.rule().clone(), entry.id().to_string());
            let state = entry.state_for("r", &Settings::default());
            (rule.clone(), rule.head.id, id, state)
        })
        .collect()
}

fn sorted(ids: &[Arc<str>]) -> Vec<Arc<str>> {
    let mut ids = ids.to_vec();
    ids.sort();
    ids
}

/// What decides about calls of `resource`.
fn decides(set: &RuleSet, resource: &str) -> Vec<(String, *const FlowState)> {
    let rules = set.table::<Flow>().matching(resource).into_iter();
    rules
        .map(|entry| {
            let state = entry.state_for("r", &Settings::default());
            (entry.id().to_string(), Arc::as_ptr(&state))
        })
        .collect()
}

proptest! {
    #[test]
    fn a_change_of_some_rules_leaves_what_a_list_of_all_would(steps in vec(step(), 1..8)) {
        let mut set = RuleSet::default();
        let mut acting: Vec<(Acting, &str, _)> = Vec::new();
        for step in steps {
            for resource in ["a", "ab", "b", "c", "*"] {
                acting.push((set.acting_on(resource), resource, decides(&set, resource)));
            }
            // States of all rules, so that it is seen which live on.
            let before = seen(&set);
            let changed = take(&set, &step);
            let listed = all(&set, spliced(&set, &step));
            prop_assert_eq!(changed.is_ok(), listed.is_ok(), "{:?}", step);
            let (Ok((changed, said)), Ok((listed, meant))) = (changed, listed) else {
                continue;
            };
            for (ours, theirs) in seen(&changed).iter().zip(seen(&listed)) {
                prop_assert_eq!((&ours.0, &ours.1, &ours.2), (&theirs.0, &theirs.1, &theirs.2));
                let is_old = before.iter().any(|old| Arc::ptr_eq(&old.3, &ours.3));
                let is_old_there = before.iter().any(|old| Arc::ptr_eq(&old.3, &theirs.3));
                prop_assert_eq!(is_old, is_old_there);
            }
            let (table, list) = (changed.table::<Flow>(), listed.table::<Flow>());
            prop_assert_eq!(table.len(), list.len());
            prop_assert_eq!(table.has_patterns(), list.has_patterns());
            for name in RESOURCES {
                prop_assert_eq!(changed.names(name), listed.names(name));
                prop_assert_eq!(changed.looks_at(name), listed.looks_at(name));
            }
            for entry in table.entries() {
                prop_assert!(Arc::ptr_eq(table.by_id(entry.id()).unwrap(), entry));
            }
            let (said, meant) = (&said.kinds[0], &meant.kinds[0]);
            prop_assert_eq!(said.to_string(), meant.to_string());
            prop_assert_eq!(sorted(&said.added), sorted(&meant.added));
            prop_assert_eq!(sorted(&said.changed), sorted(&meant.changed));
            prop_assert_eq!(&said.removed, &meant.removed);
            set = changed;
            for (acting, resource, decided) in &acting {
                if set.still_acts(*acting, resource) {
                    prop_assert_eq!(&decides(&set, resource), decided, "{}", resource);
                }
            }
        }
    }
}

#[test]
fn rules_act_on_as_long_as_nothing_that_is_said_of_their_resource_changes() {
    let rules = |counts: &[(&str, f64)]| {
        let rules = counts.iter();
        rules
            .map(|(name, count)| FlowRule::qps(*name, *count))
            .collect::<Vec<_>>()
    };
    let (set, _) = all(&RuleSet::default(), rules(&[("a", 1.0), ("b", 1.0)])).unwrap();
    let (a, c) = (set.acting_on("a"), set.acting_on("c"));
    let still = |set: &RuleSet| (set.still_acts(a, "a"), set.still_acts(c, "c"));
    // Others change, and the list is in another order.
    let (set, _) = all(&set, rules(&[("b", 2.0), ("d", 1.0), ("a", 1.0)])).unwrap();
    let (set, _) = take(&set, &Step::Of("b", Vec::new())).unwrap();
    assert_eq!(still(&set), (true, true));
    // One comes for a resource that had none, and goes again.
    let (with_c, _) = take(&set, &Step::More(rules(&[("c", 1.0)]))).unwrap();
    assert_eq!(still(&with_c), (true, false));
    let acting = with_c.acting_on("c");
    let (without_c, _) = take(&with_c, &Step::Without("flow/c#1".to_owned())).unwrap();
    assert!(!without_c.still_acts(acting, "c"));
    // Another id goes into what refusals say.
    let renamed = vec![FlowRule::qps("a", 1.0).id("mine")];
    let (renamed, _) = take(&set, &Step::Of("a", renamed)).unwrap();
    assert_eq!(still(&renamed), (false, true));
    // A pattern may be for anybody.
    let pattern = vec![FlowRule::qps("x", 1.0).matching(Matching::Prefix)];
    let (pattern, _) = take(&set, &Step::More(pattern)).unwrap();
    assert_eq!(still(&pattern), (false, false));
}

#[test]
fn a_change_of_one_resource_leaves_the_groups_of_the_others_where_they_are() {
    let names: Vec<String> = (0..1_000).map(|n| format!("r{n}")).collect();
    let list = names.iter().map(|name| FlowRule::qps(name, 1.0));
    let (set, _) = all(&RuleSet::default(), list.collect()).unwrap();
    let one = [FlowRule::qps("r500", 2.0), FlowRule::qps("r500", 3.0)];
    let text = serde_json::to_string(&one).unwrap();
    let refuse = OnInvalid::Refuse;
    let (new, report) = set
        .with_list_of("flow", "r500", &text, &Settings::default(), refuse)
        .unwrap();
    let report = &report.kinds[0];
    assert_eq!(
        (report.untouched, report.kept.len(), report.active),
        (999, 0, 1_001)
    );
    let (old, new) = (set.table::<Flow>(), new.table::<Flow>());
    let (old, new) = (old.entries(), new.entries());
    assert!((0..500).all(|at| Arc::ptr_eq(&old[at], &new[at])));
    assert!((501..1_000).all(|at| Arc::ptr_eq(&old[at], &new[at + 1])));
}

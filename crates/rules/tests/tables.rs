//! Tables: who matches, what lives through a reload, what is reported.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use flowgate_rules::{
    DegradeRule, Flow, FlowRule, Head, KindReport, LoadReport, OnInvalid, RuleKind, RuleSet,
    RuleTable, Settings,
};

fn load(set: &RuleSet, rules: Vec<FlowRule>) -> (RuleSet, LoadReport) {
    set.with_rules::<Flow>(rules, &Settings::default(), OnInvalid::Refuse)
        .unwrap()
}

fn first(rules: Vec<FlowRule>) -> RuleSet {
    load(&RuleSet::default(), rules).0
}

fn matching(set: &RuleSet, resource: &str) -> Vec<usize> {
    set.table::<Flow>()
        .matching(resource)
        .iter()
        .map(|entry| entry.position())
        .collect()
}

fn state<K: RuleKind>(table: &RuleTable<K>, index: usize, resource: &str) -> Arc<K::State> {
    table.entries()[index].state_for(resource, &Settings::default())
}

#[test]
fn rules_match_by_name_and_by_full_pattern_in_the_order_of_the_document() {
    let set = first(vec![
        FlowRule::qps("/orders/.*|/x", 1.0).regex(),
        FlowRule::qps("/orders/1", 2.0),
        FlowRule::qps("/orders/.*", 3.0),
        FlowRule::qps(".*", 4.0).regex(),
        FlowRule::qps("/orders/1", 5.0),
    ]);
    for (resource, positions) in [
        ("/orders/1", vec![0, 1, 3, 4]),
        ("/orders/2", vec![0, 3]),
        ("/orders/.*", vec![0, 2, 3]),
        ("/x", vec![0, 3]),
        ("/x/orders/2", vec![3]),
        ("a\nb", vec![]),
        ("", vec![3]),
    ] {
        assert_eq!(matching(&set, resource), positions, "{resource:?}");
    }
    let table = set.table::<Flow>();
    let mut names: Vec<&str> = table.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["/orders/.*", "/orders/1"]);
    assert_eq!(set.table::<Flow>().by_resource(".*").count(), 1);
    assert!(set.table::<Flow>().has_patterns());
    assert!(RuleSet::default().table::<Flow>().is_empty());
}

#[test]
fn an_equal_rule_keeps_its_state_and_a_changed_one_starts_anew() {
    let old = first(vec![FlowRule::qps("a", 1.0), FlowRule::qps("b", 1.0)]);
    let (a, b) = (
        state(&old.table::<Flow>(), 0, "a"),
        state(&old.table::<Flow>(), 1, "b"),
    );
    // Another order, another id: what the rule says is the same.
    let (new, report) = load(
        &old,
        vec![FlowRule::qps("b", 2.0), FlowRule::qps("a", 1.0).id("mine")],
    );
    assert!(Arc::ptr_eq(&state(&new.table::<Flow>(), 1, "a"), &a));
    assert!(!Arc::ptr_eq(&state(&new.table::<Flow>(), 0, "b"), &b));
    assert_eq!(
        report.kinds,
        [KindReport {
            kind: "flow",
            active: 2,
            changed: vec!["flow/b#1".into()],
            kept: vec!["mine".into()],
            ..KindReport::default()
        }]
    );
    // The old set, which calls may still use, is as it was.
    assert!(Arc::ptr_eq(&state(&old.table::<Flow>(), 1, "b"), &b));
}

#[test]
fn a_refused_load_leaves_states_alone_and_an_equal_one_keeps_the_very_entries() {
    let old = first(vec![
        FlowRule::qps("a", 1.0),
        FlowRule::qps("b", 1.0).id("b"),
    ]);
    let (same, report) = load(
        &old,
        vec![FlowRule::qps("a", 1.0), FlowRule::qps("b", 1.0).id("b")],
    );
    for (old, new) in old
        .table::<Flow>()
        .entries()
        .iter()
        .zip(same.table::<Flow>().entries())
    {
        assert!(Arc::ptr_eq(old, new));
    }
    assert!(report.is_unchanged());
    let faulty = vec![FlowRule::qps("a", 1.0), FlowRule::qps("", 1.0)];
    assert!(
        old.with_rules::<Flow>(faulty, &Settings::default(), OnInvalid::Refuse)
            .is_err()
    );
}

#[test]
fn each_resource_that_a_pattern_matches_has_a_state_of_its_own() {
    let set = first(vec![FlowRule::qps("/.*", 1.0).regex()]);
    let (a, b) = (
        state(&set.table::<Flow>(), 0, "/a"),
        state(&set.table::<Flow>(), 0, "/b"),
    );
    assert!(!Arc::ptr_eq(&a, &b));
    assert!(Arc::ptr_eq(&a, &state(&set.table::<Flow>(), 0, "/a")));
    let (kept, _) = load(
        &set,
        vec![FlowRule::qps("x", 1.0), FlowRule::qps("/.*", 1.0).regex()],
    );
    assert!(Arc::ptr_eq(&a, &state(&kept.table::<Flow>(), 1, "/a")));
    let table = set.table::<Flow>();
    let entry = &table.entries()[0];
    entry.forget("/a");
    assert!(entry.state_of("/a").is_none() && entry.state_of("/b").is_some());
}

#[test]
fn added_changed_kept_and_removed_go_by_content_first_and_by_id_second() {
    let old = || {
        first(vec![
            FlowRule::qps("a", 1.0),
            FlowRule::qps("a", 2.0),
            FlowRule::qps("b", 1.0).id("x"),
        ])
    };
    type Ids<'a> = &'a [&'a str];
    let cases: [(Vec<FlowRule>, Ids<'_>, Ids<'_>, Ids<'_>, Ids<'_>); 5] = [
        (vec![], &[], &[], &[], &["flow/a#1", "flow/a#2", "x"]),
        // The first goes; the second moves up under another made-up id.
        (
            vec![FlowRule::qps("a", 2.0)],
            &[],
            &[],
            &["flow/a#1"],
            &["flow/a#1", "x"],
        ),
        // One is put in front: it is new, nobody changed.
        (
            vec![
                FlowRule::qps("a", 3.0),
                FlowRule::qps("a", 1.0),
                FlowRule::qps("a", 2.0),
            ],
            &["flow/a#1"],
            &[],
            &["flow/a#2", "flow/a#3"],
            &["x"],
        ),
        (
            vec![FlowRule::qps("c", 9.0).id("x")],
            &[],
            &["x"],
            &[],
            &["flow/a#1", "flow/a#2"],
        ),
        (
            vec![
                FlowRule::qps("a", 1.0),
                FlowRule::qps("a", 5.0),
                FlowRule::qps("b", 1.0),
            ],
            &[],
            &["flow/a#2"],
            &["flow/a#1", "flow/b#1"],
            &[],
        ),
    ];
    for (rules, added, changed, kept, removed) in cases {
        let (_, report) = load(&old(), rules.clone());
        let arcs = |ids: &[&str]| ids.iter().map(|id| Arc::from(*id)).collect();
        let expected = KindReport {
            kind: "flow",
            active: rules.len(),
            added: arcs(added),
            changed: arcs(changed),
            kept: arcs(kept),
            removed: arcs(removed),
            ..KindReport::default()
        };
        assert_eq!(report.kinds, [expected], "{rules:?}");
    }
}

#[test]
fn b121_each_field_alone_makes_another_rule() {
    let base = || FlowRule::qps("a", 5.0).relate("r").rate_limiter(0);
    let changed = [
        FlowRule {
            head: Head::of("b"),
            ..base()
        },
        base().limit_app("web"),
        FlowRule {
            grade: flowgate_rules::Grade::Concurrency,
            ..base()
        },
        FlowRule {
            count: 6.0,
            ..base()
        },
        base().chain("r"),
        base().relate("s"),
        base().warm_up(10),
        FlowRule {
            warm_up_period_sec: 11,
            ..base()
        },
        base().cold_factor(2),
        base().rate_limiter(500),
        base().regex(),
    ];
    for rule in changed {
        assert_ne!(rule, base());
        let (set, report) = load(&first(vec![base()]), vec![rule.clone()]);
        assert_eq!(report.kinds[0].kept, [], "{rule:?}");
        assert_eq!(set.table::<Flow>().entries()[0].rule(), &rule);
    }
    assert_eq!(base().id("named"), base());

    let breaker = || DegradeRule::slow_ratio("a", 5.0, 0.5, 1);
    let changed = [
        DegradeRule {
            head: Head::of("b"),
            ..breaker()
        },
        DegradeRule {
            grade: flowgate_rules::BreakerStrategy::ErrorCount,
            ..breaker()
        },
        DegradeRule {
            count: 6.0,
            ..breaker()
        },
        DegradeRule {
            slow_ratio_threshold: 0.6,
            ..breaker()
        },
        DegradeRule {
            time_window_sec: 2,
            ..breaker()
        },
        breaker().min_requests(6),
        breaker().stat_interval_ms(2000),
        breaker().half_open_timeout_ms(1),
        breaker().probes(1),
        breaker().regex(),
    ];
    for rule in changed {
        assert_ne!(rule, breaker());
    }
    assert_eq!(breaker().id("named"), breaker());
}

#[test]
fn b130_rules_without_ids_do_not_collide() {
    let rules = vec![
        FlowRule::qps("r", 10.0),
        FlowRule::concurrency("r", 1.0),
        FlowRule::qps("s", 10.0),
        FlowRule::concurrency("s", 1.0),
    ];
    let set = first(rules.clone());
    let table = set.table::<Flow>();
    let ids: Vec<&str> = table.entries().iter().map(|e| &**e.id()).collect();
    assert_eq!(ids, ["flow/r#1", "flow/r#2", "flow/s#1", "flow/s#2"]);
    let (three, report) = load(&set, rules[..3].to_vec());
    assert_eq!(three.table::<Flow>().len(), 3);
    assert_eq!(report.kinds[0].removed, [Arc::from("flow/s#2")]);
}

#[test]
fn ten_thousand_rules_load_and_reload_in_no_time() {
    let settings = Settings::default();
    // Half on resources of their own, half on one: both index and equality
    // have to be hashed.
    let rules: Vec<FlowRule> = (0..10_000)
        .map(|n| {
            let resource = if n % 2 == 0 {
                format!("r{n}")
            } else {
                "one".to_owned()
            };
            FlowRule::qps(resource, f64::from(n) + 1.0)
        })
        .collect();
    let text = serde_json::to_string(&rules).unwrap();
    let start = Instant::now();
    let (set, _) = RuleSet::default()
        .with_list("flow", &text, &settings, OnInvalid::Refuse)
        .unwrap();
    let read = start.elapsed();
    let (again, report) = load(&set, rules);
    let took = start.elapsed();
    assert_eq!(
        (again.table::<Flow>().len(), report.kinds[0].kept.len()),
        (10_000, 10_000)
    );
    println!("read {read:?}, reload {:?}", took - read);
    // Far above what it takes, far below what anything quadratic would.
    assert!(took < Duration::from_secs(2), "{took:?}");
}

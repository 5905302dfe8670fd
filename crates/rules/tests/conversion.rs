//! From one dialect to the other and back: the same rules, or a word about
//! what is not.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::path::Path;

use flowgate_rules::{
    Degrade, DegradeRule, Dialect, Flow, FlowRule, Isolation, IsolationRule, Kinds, Matching,
    OnInvalid, ParamFlow, ParamFlowRule, RuleKind, RuleMode, RuleSet, Settings, System, SystemRule,
};

fn set<K: RuleKind>(rules: Vec<K::Rule>) -> RuleSet {
    let none = RuleSet::default();
    let (set, _) = none
        .with_rules::<K>(rules, &Settings::default(), OnInvalid::Refuse)
        .unwrap();
    set
}

/// The rules of `set` after a detour through `dialect`.
fn detour(set: &RuleSet, kind: &str, dialect: Dialect) -> RuleSet {
    let written = set.write_list(kind, dialect);
    assert_eq!((&*written.left_out, &*written.lost), (&[][..], &[][..]));
    let text = written.text;
    let (there, report) = RuleSet::default()
        .with_list(kind, &text, &Settings::default(), dialect)
        .unwrap_or_else(|error| panic!("{text}{error}"));
    assert_eq!(report.duplicates, [], "{text}");
    there
}

fn rules<K: RuleKind>(set: &RuleSet) -> Vec<K::Rule> {
    let table = set.table::<K>();
    table.entries().iter().map(|e| e.rule().clone()).collect()
}

fn comes_back<K: RuleKind>(there: Vec<K::Rule>) {
    let before = set::<K>(there.clone());
    let golang = detour(&before, K::NAME, Dialect::Golang);
    let back = detour(&golang, K::NAME, Dialect::Sentinel);
    assert_eq!(rules::<K>(&back), there);
}

#[test]
fn flow_rules_come_back_as_they_were() {
    let base = |name: &str| FlowRule::qps(name, 7.25);
    comes_back::<Flow>(vec![
        base("a"),
        base("b").id("b").rate_limiter(0),
        base("c").rate_limiter(500).warm_up(3),
        base("d").warm_up(10).cold_factor(5),
        base("e").relate("x"),
        base("f").per_ms(60_000).boxes(6),
        base("g.*").regex(),
        FlowRule {
            warm_up_period_sec: 3,
            max_queueing_time_ms: 9,
            ..base("j")
        },
    ]);
}

#[test]
fn breakers_come_back_as_they_were() {
    comes_back::<Degrade>(vec![
        DegradeRule::slow_ratio("a", 200.0, 0.5, 10).buckets(10),
        DegradeRule::error_ratio("b", 0.5, 3).probes(3),
        DegradeRule::error_count("c", 7.0, 0).time_window_ms(1_500),
        DegradeRule::error_ratio("d", 0.5, 3).jitter(0.25),
        DegradeRule::error_ratio("f", 0.5, 3).half_open_timeout_ms(77),
    ]);
}

#[test]
fn hot_parameters_isolation_and_system_come_back_as_they_were() {
    comes_back::<ParamFlow>(vec![
        ParamFlowRule::qps("a", 0, 5.0)
            .burst(2)
            .item("vip", 50.0)
            .item(7, 3.0)
            .item(true, 0.0)
            .item(1.5, 1.0),
        ParamFlowRule::qps("b", -1, 5.0)
            .rate_limiter(300)
            .duration_in_sec(60),
        ParamFlowRule::concurrency("c", 1, 2.0).max_values(100),
        ParamFlowRule::qps("d", 0, 5.0).by_key("tenant"),
    ]);
    comes_back::<Isolation>(vec![IsolationRule::at_once("a", 4)]);
    comes_back::<System>(vec![
        SystemRule::default().qps(100.0).id("q"),
        SystemRule::default().load(4.0),
        SystemRule::default().cpu(0.8),
        SystemRule::default().avg_rt_ms(250.5),
        SystemRule::default().concurrency(20),
    ]);
}

/// One rule of Sentinel's is several of sentinel-golang's.
#[test]
fn a_system_rule_of_several_metrics_becomes_one_of_each() {
    let rule = SystemRule::default().qps(100.0).concurrency(20).id("s");
    let there = detour(&set::<System>(vec![rule]), "system", Dialect::Golang);
    let table = there.table::<System>();
    let ids: Vec<&str> = table.entries().iter().map(|e| &**e.id()).collect();
    assert_eq!(ids, ["s", "s-2"]);
    assert_eq!(
        rules::<System>(&there),
        [
            SystemRule::default().qps(100.0),
            SystemRule::default().concurrency(20)
        ]
    );
}

#[test]
fn what_golang_cannot_say_is_told_and_left_out() {
    let flow = set::<Flow>(vec![
        FlowRule::qps("a", 1.0),
        FlowRule::qps("b", 1.0).limit_app("web"),
        FlowRule::qps("c", 1.0).chain("entrance"),
        FlowRule::concurrency("d", 1.0),
    ]);
    let said = |remarks: &[flowgate_rules::Remark]| -> Vec<String> {
        remarks.iter().map(ToString::to_string).collect()
    };
    let written = flow.write_list("flow", Dialect::Golang);
    assert_eq!(
        said(&written.left_out),
        [
            "flow[1].limitApp: sentinel-golang knows no origins, so the rule would be for all calls; leave it out",
            "flow[2].strategy: sentinel-golang knows no contexts, so the rule would be for all calls; leave it out",
            "flow[3].grade: sentinel-golang has no flow rules on calls at once; write an isolation rule",
        ]
    );
    assert_eq!(written.text.matches("resource").count(), 1);
    let param = set::<ParamFlow>(vec![
        ParamFlowRule::qps("a", 0, 5.5)
            .item('x', 1.0)
            .item("y", 1.0),
    ]);
    let written = param.write_list("paramFlow", Dialect::Golang);
    assert_eq!(
        said(&written.lost),
        [
            "paramFlow[0].count: 5.5 becomes 5, as sentinel-golang has whole ones; give a whole number",
            "paramFlow[0].paramFlowItemList: sentinel-golang has no type for x; give a number of 64 bits, text, true or false",
        ]
    );
    let breakers = set::<Degrade>(vec![
        DegradeRule::slow_ratio("a", 10.5, 0.5, 1),
        DegradeRule::consecutive_errors("b", 3.0, 1),
    ]);
    let written = breakers.write_list("degrade", Dialect::Golang);
    assert_eq!((written.lost.len(), written.left_out.len()), (1, 1));
    let nobody = set::<Isolation>(vec![IsolationRule::at_once("a", 0)]);
    assert_eq!(
        nobody
            .write_list("isolation", Dialect::Golang)
            .left_out
            .len(),
        1
    );
}

#[test]
fn a_slow_limit_that_golang_would_round_becomes_the_longest_there_is() {
    let breaker = set::<Degrade>(vec![DegradeRule::slow_ratio("a", 1e300, 0.5, 1)]);
    let written = breaker.write_list("degrade", Dialect::Golang);
    assert_eq!(written.lost.len(), 1);
    let (there, _) = RuleSet::default()
        .with_list(
            "degrade",
            &written.text,
            &Settings::default(),
            Dialect::Golang,
        )
        .unwrap();
    assert_eq!(rules::<Degrade>(&there)[0].count, 2_f64.powi(53));
}

/// The fields that rules are left out for.
fn left_out<K: RuleKind>(rule: K::Rule) -> Vec<String> {
    let written = set::<K>(vec![rule]).write_list(K::NAME, Dialect::Golang);
    assert_eq!((&*written.text, &*written.lost), ("[]\n", &[][..]));
    assert!(written.own.is_empty(), "{:?}", written.own);
    let remarks = written.left_out.into_iter();
    remarks.map(|remark| remark.path).collect()
}

/// Written all the same they would be enforced, be for a resource of another
/// name, or open and close at other times.
#[test]
fn a_rule_that_golang_would_take_for_another_one_is_left_out() {
    let flow = || FlowRule::qps("a", 1.0);
    let breaker = || DegradeRule::error_ratio("a", 0.5, 3);
    for (field, rule) in [
        ("mode", flow().observe()),
        ("mode", flow().mode(RuleMode::Off)),
        ("match", flow().matching(Matching::Prefix)),
        ("match", flow().matching(Matching::Glob)),
        ("resource", FlowRule::qps("*", 1.0)),
    ] {
        assert_eq!(left_out::<Flow>(rule), [format!("flow[0].{field}")]);
    }
    for (field, rule) in [
        ("backoffMultiplier", breaker().back_off(2.0, 600)),
        ("statWindowCalls", breaker().last_calls(100)),
        ("probeSuccessRatio", breaker().probe_success_ratio(0.6)),
        ("grade", DegradeRule::consecutive_errors("a", 3.0, 1)),
    ] {
        assert_eq!(left_out::<Degrade>(rule), [format!("degrade[0].{field}")]);
    }
    assert_eq!(
        left_out::<ParamFlow>(ParamFlowRule::qps("a", 0, 1.0).token_bucket()),
        ["paramFlow[0].accounting"]
    );
    assert_eq!(
        left_out::<Isolation>(IsolationRule::at_once("a", 4).wait_ms(300)),
        ["isolation[0].maxQueueingTimeMs"]
    );
    assert_eq!(
        left_out::<System>(SystemRule::default().qps(1.0).observe()),
        ["system[0].mode"]
    );
}

#[test]
fn what_only_refines_a_rule_is_kept_and_named() {
    let rule = DegradeRule::error_ratio("a", 0.5, 3)
        .jitter(0.25)
        .half_open_timeout_ms(77);
    let written = set::<Degrade>(vec![rule]).write_list("degrade", Dialect::Golang);
    let own: Vec<&str> = written.own.iter().map(String::as_str).collect();
    assert_eq!(own, ["degrade.halfOpenTimeoutMs", "degrade.jitter"]);
    assert!(written.left_out.is_empty());
}

#[test]
fn an_attachment_is_golangs_own_way_to_count() {
    let rule = ParamFlowRule::qps("a", 0, 5.0).by_key("tenant");
    let written = set::<ParamFlow>(vec![rule]).write_list("paramFlow", Dialect::Golang);
    assert!(written.own.is_empty() && written.left_out.is_empty());
    assert!(
        written.text.contains(r#""paramKey": "tenant""#),
        "{}",
        written.text
    );
    assert!(!written.text.contains("paramIndex"), "{}", written.text);
}

#[test]
fn a_rule_that_becomes_several_takes_no_id_of_another() {
    let rules = vec![
        SystemRule::default()
            .qps(1.0)
            .concurrency(2)
            .load(3.0)
            .id("m"),
        SystemRule::default().qps(4.0).id("m-2"),
    ];
    let there = detour(&set::<System>(rules), "system", Dialect::Golang);
    let table = there.table::<System>();
    let ids: Vec<&str> = table.entries().iter().map(|e| &**e.id()).collect();
    assert_eq!(ids, ["m", "m-3", "m-4", "m-2"]);
}

#[test]
fn sentinels_rules_are_short_and_name_what_sentinel_does_not_read() {
    let breakers = set::<Degrade>(vec![
        DegradeRule::error_count("a", 5000.0, 0).time_window_ms(2_500),
        DegradeRule::consecutive_errors("b", 3.0, 1),
        DegradeRule::error_ratio("*", 0.5, 3),
    ]);
    let written = breakers.write_list("degrade", Dialect::Sentinel);
    assert_eq!(
        written.text,
        r#"[
  {"resource": "a", "grade": 2, "count": 5000, "timeWindowMs": 2500},
  {"resource": "b", "grade": "consecutiveErrors", "count": 3, "timeWindow": 1},
  {"resource": "*", "grade": 1, "count": 0.5, "timeWindow": 3}
]
"#
    );
    let own: Vec<&str> = written.own.iter().map(String::as_str).collect();
    assert_eq!(
        own,
        ["degrade.grade consecutiveErrors", "degrade.timeWindowMs"]
    );
    let flow = set::<Flow>(vec![
        FlowRule::qps("*", 0.0),
        FlowRule::qps("a", 1.0).observe().matching(Matching::Prefix),
    ]);
    let written = flow.write_list("flow", Dialect::Sentinel);
    assert_eq!(
        written.text,
        r#"[
  {"resource": "*", "grade": 1, "count": 0},
  {"resource": "a", "match": "prefix", "mode": "observe", "grade": 1, "count": 1}
]
"#
    );
    let own: Vec<&str> = written.own.iter().map(String::as_str).collect();
    assert_eq!(own, ["flow.match", "flow.mode", "flow.resource *"]);
}

/// No rule is lost or made twice on the way of a whole document.
#[test]
fn a_document_of_every_kind_comes_back_with_the_same_meaning() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/rules/every_kind.json");
    let text = std::fs::read_to_string(path).unwrap();
    let load = |text: &str| {
        let none = RuleSet::default();
        none.with_document(text, &Settings::default(), OnInvalid::Refuse)
            .unwrap_or_else(|error| panic!("{text}{error}"))
    };
    let (rules, _) = load(&text);
    let specs = Kinds::standard().specs();
    let kinds: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
    // In Flowgate's own spelling nothing is lost.
    let short = rules.write(&kinds, Dialect::Sentinel);
    let (same, report) = load(&short.text);
    assert_eq!(
        (report.dialect, &*report.warnings),
        (Dialect::Sentinel, &[][..])
    );
    let said = |set: &RuleSet| -> Vec<_> {
        let infos = set.infos().into_iter();
        infos.map(|info| (info.kind, info.rule)).collect()
    };
    assert_eq!(said(&same), said(&rules));
    let there = rules.write(&kinds, Dialect::Golang);
    let left_out: Vec<&str> = there.left_out.iter().map(|it| &*it.path).collect();
    assert_eq!(
        left_out,
        [
            "authority[0].resource",
            "paramFlow[1].accounting",
            "flow[2].accounting",
            "flow[3].accounting",
            "flow[4].match",
            "flow[5].mode",
            "isolation[0].maxQueueingTimeMs"
        ]
    );
    assert!(there.own.is_empty(), "{:?}", there.own);
    assert!(!there.text.contains("authority"), "{}", there.text);
    let (golang, report) = load(&there.text);
    assert_eq!(report.dialect, Dialect::Golang);
    let back = golang.write(&kinds, Dialect::Sentinel);
    let (again, report) = load(&back.text);
    assert_eq!(
        (report.dialect, &*report.warnings),
        (Dialect::Sentinel, &[][..])
    );
    // The system rule has become four; written once more, they are the same.
    assert_eq!(again.write(&kinds[1..], Dialect::Golang).text, there.text);
    assert_eq!(again.infos().len(), rules.infos().len() + 3 - 7);
}

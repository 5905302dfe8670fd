//! System rules as documents: what loads, what is refused, what is written
//! back, and what rules ask for together.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::sync::Arc;

use flowgate_rules::system::{Demand, Machine};
use flowgate_rules::{
    Bbr, LoadReport, OnInvalid, RuleError, RuleSet, Settings, System, SystemRule,
};

fn load(list: &str) -> Result<(RuleSet, LoadReport), RuleError> {
    RuleSet::default().with_list("system", list, &Settings::default(), OnInvalid::Refuse)
}

fn rules(list: &str) -> Vec<SystemRule> {
    let (set, _) = load(list).unwrap();
    let table = set.table::<System>();
    table.entries().iter().map(|e| e.rule().clone()).collect()
}

fn warnings(list: &str) -> Vec<String> {
    let (_, report) = load(list).unwrap();
    report.warnings.iter().map(ToString::to_string).collect()
}

fn fault(rule: &str) -> String {
    load(&format!("[{rule}]")).unwrap_err().to_string()
}

#[test]
fn minus_one_null_and_absent_are_off() {
    let read = rules(
        r#"[{"highestSystemLoad": 4.0, "highestCpuUsage": -1, "qps": 1000.0, "avgRt": null, "maxThread": -1.0}]"#,
    );
    assert_eq!(read, [SystemRule::default().load(4.0).qps(1000.0)]);
    let read = rules(r#"[{"highestCpuUsage": 0.8, "avgRt": 20, "maxThread": 7}]"#);
    assert_eq!(
        read,
        [SystemRule::default()
            .cpu(0.8)
            .avg_rt_ms(20.0)
            .concurrency(7)]
    );
}

#[test]
fn what_sentinels_dashboard_writes_loads() {
    let list = r#"[{"id": 5, "app": "shop", "ip": "10.0.0.1", "port": 8719, "gmtCreate": null,
        "gmtModified": null, "highestSystemLoad": -1.0, "avgRt": -1, "maxThread": 50, "qps": -1.0,
        "highestCpuUsage": -1.0, "resource": null, "limitApp": null}]"#;
    assert_eq!(rules(list), [SystemRule::default().concurrency(50)]);
}

#[test]
fn faults_say_what_would_do() {
    assert_eq!(
        fault(r#"{"highestCpuUsage": 80}"#),
        "system[0].highestCpuUsage: 80 is above 1; give a share from 0 to 1, for example 0.8 for 80 % \
         (line 1, column 22)"
    );
    let error = |rule: SystemRule| {
        let settings = Settings::default();
        let refuse = OnInvalid::Refuse;
        let loaded = RuleSet::default().with_rules::<System>(vec![rule], &settings, refuse);
        loaded.unwrap_err().to_string()
    };
    assert_eq!(
        error(SystemRule::default().qps(f64::NAN)),
        "system[0].qps: NaN is not a finite number; leave it out"
    );
    assert_eq!(
        error(SystemRule::default().load(-2.0)),
        "system[0].highestSystemLoad: -2 is negative; leave it out for off"
    );
}

#[test]
fn what_a_rule_hardly_means_is_warned_about() {
    let starts = |list: &str, expected: &[&str]| {
        let found = warnings(list);
        assert_eq!(found.len(), expected.len(), "{list}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{list}: {found}");
        }
    };
    starts(r#"[{"qps": 5}]"#, &[]);
    starts(r#"[{"qps": 0}]"#, &[]);
    starts(
        r#"[{"qps": 0.5}]"#,
        &["system[0].qps: 0.5 lets nothing in; write 0 if you mean that, or at least 1"],
    );
    starts(
        r#"[{"qps": -7, "maxThread": 1}]"#,
        &["system[0].qps: -7 is taken as off"],
    );
    starts(
        r#"[{"maxThread": 2.5}]"#,
        &["system[0].maxThread: 2.5 is no whole number of calls, and is taken as 2"],
    );
    starts(r#"[{}]"#, &["system[0].qps: the rule looks at nothing"]);
    starts(
        r#"[{"qps": 1, "resource": "a"}]"#,
        &["system[0].resource: not used"],
    );
}

#[test]
fn figures_that_nobody_can_know_are_warned_about() {
    let machine = Arc::new(Machine::default());
    machine.lacks_load_and_cpu();
    let settings = Settings {
        machine,
        ..Settings::default()
    };
    let warnings = |list| {
        let loaded = RuleSet::default().with_list("system", list, &settings, OnInvalid::Refuse);
        loaded.unwrap().1.warnings.len()
    };
    assert_eq!(warnings(r#"[{"highestSystemLoad": 3}]"#), 1);
    assert_eq!(warnings(r#"[{"highestCpuUsage": 0.5, "qps": 3}]"#), 1);
    assert_eq!(warnings(r#"[{"qps": 3}]"#), 0);
}

#[test]
fn what_is_written_loads_as_the_same_rule() {
    let read = rules(
        r#"[{"id": "a", "mode": "observe", "highestSystemLoad": 1.5, "highestCpuUsage": 0.5,
             "qps": 10, "avgRt": 20, "maxThread": 30},
            {"maxThread": 0}]"#,
    );
    let written = serde_json::to_string(&read).unwrap();
    assert_eq!(
        written,
        r#"[{"id":"a","mode":"observe","highestSystemLoad":1.5,"highestCpuUsage":0.5,"qps":10.0,"avgRt":20.0,"maxThread":30},{"maxThread":0}]"#
    );
    assert_eq!(rules(&written), read);
}

#[test]
fn rules_in_force_say_what_they_need() {
    let demand = |list| Demand::of(&load(list).unwrap().0.table::<System>());
    let nothing = Demand {
        counts_inbound: false,
        needs_memory: false,
        needs_samples: false,
    };
    assert_eq!(demand("[]"), nothing);
    assert_eq!(
        demand(r#"[{"qps": -1}, {"qps": 5, "mode": "off"}]"#),
        nothing
    );
    let counts = Demand {
        counts_inbound: true,
        ..nothing
    };
    assert_eq!(demand(r#"[{"qps": 1, "mode": "observe"}]"#), counts);
    assert_eq!(
        demand(r#"[{"qps": 1e300}, {"highestCpuUsage": 1, "mode": "observe"}]"#),
        Demand {
            needs_samples: true,
            ..counts
        }
    );
}

#[test]
fn each_of_sentinel_golangs_metrics_is_a_rule() {
    let one = |rule: &str| {
        let (set, report) = load(&format!("[{rule}]")).unwrap();
        assert!(report.warnings.is_empty(), "{rule}: {report:?}");
        set.table::<System>().entries()[0].rule().clone()
    };
    let default = SystemRule::default;
    for (rule, expected) in [
        (
            r#"{"metricType": 0, "triggerCount": 4, "strategy": 1}"#,
            default().load(4.0),
        ),
        (
            r#"{"metricType": 0, "triggerCount": 4}"#,
            default().load(4.0).bbr(Bbr::Off),
        ),
        (
            r#"{"metricType": 1, "triggerCount": 20.5}"#,
            default().avg_rt_ms(20.5),
        ),
        (
            r#"{"metricType": 2, "triggerCount": 7}"#,
            default().concurrency(7),
        ),
        (
            r#"{"metricType": "inboundQps", "triggerCount": 9}"#,
            default().qps(9.0),
        ),
        (
            r#"{"metricType": 4, "triggerCount": 0.8, "strategy": -1}"#,
            default().cpu(0.8),
        ),
        (
            r#"{"metricType": 4, "triggerCount": 0.8, "strategy": 1}"#,
            default().cpu(0.8).bbr(Bbr::Both),
        ),
    ] {
        assert_eq!(one(rule), expected, "{rule}");
    }
    for (rule, message) in [
        (
            r#"{"metricType": 3}"#,
            "system[0].triggerCount: missing; give a number, at least 0",
        ),
        (
            r#"{"metricType": 4, "triggerCount": 80}"#,
            "system[0].triggerCount: 80 is above 1",
        ),
        (
            r#"{"triggerCount": 1, "strategy": 2}"#,
            "system[0].strategy: 2 is no strategy",
        ),
    ] {
        let found = fault(rule);
        assert!(found.starts_with(message), "{rule}: {found}");
    }
}

#[test]
fn an_empty_rule_is_sentinels() {
    assert_eq!(rules("[{}]"), [SystemRule::default()]);
}

#[test]
fn where_bbr_decides_is_written_by_name_and_told_by_what_it_decides() {
    let read =
        rules(r#"[{"highestCpuUsage": 0.5, "bbr": "cpu"}, {"highestSystemLoad": 1, "bbr": 1}]"#);
    assert_eq!(
        serde_json::to_string(&read).unwrap(),
        r#"[{"highestCpuUsage":0.5,"bbr":"cpu"},{"highestSystemLoad":1.0,"bbr":"off"}]"#
    );
    // Said otherwise, meant alike: load is not looked at.
    let same =
        r#"[{"highestCpuUsage": 0.5, "bbr": "cpu"}, {"highestCpuUsage": 0.5, "bbr": "both"}]"#;
    assert_eq!(warnings(same).len(), 1);
}

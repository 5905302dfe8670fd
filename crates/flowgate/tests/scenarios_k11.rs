//! Reported bugs of peers, kind K11: documents of rules. Those about watching
//! files wait for rule sources.

mod common;

use common::{at, flow, passed};
use flowgate::{Dialect, LoadOptions, OnInvalid};

/// Faults as text, without places.
fn faults(faults: &[flowgate::Fault]) -> Vec<String> {
    let faults = faults.iter();
    faults
        .map(|f| format!("{}: {}", f.path, f.message))
        .collect()
}

// https://github.com/Kuadrant/limitador/pull/79,
// https://github.com/alibaba/Sentinel/issues/1333
#[test]
fn b135_a_broken_document_leaves_the_old_rules_in_force_and_says_where_it_is_broken() {
    let (engine, time) = flow(r#"[{"resource": "r", "count": 5}]"#);
    let r = engine.resource("r");
    let broken: [(&str, &str, (usize, usize)); 3] = [
        (
            "[\n  {\"resource\": \"r\", \"count\": 7",
            "flow: EOF while parsing an object; the text ends too early, see whether it was cut off",
            (2, 30),
        ),
        (
            r#"{"resource": "r", "count": 7}"#,
            "flow: a single rule, not a list; write it in brackets: [{...}]",
            (1, 1),
        ),
        (
            "[{\"resource\": \"r\", \"count\": 7},\n {\"resource\": \"r\", \"count\": -7}]",
            "flow[1].count: -7 is negative; give calls per second or at once, 0 means none",
            (2, 29),
        ),
    ];
    for (text, message, place) in broken {
        let error = engine.load_json("flow", text).unwrap_err();
        assert_eq!(faults(&error.faults), [message]);
        let found = error.faults[0].place.unwrap();
        assert_eq!((found.line, found.column), place, "{text}");
    }
    at(&time, 1_000);
    assert_eq!(passed(&r, 20), 5);
    engine
        .load_json("flow", r#"[{"resource": "r", "count": 7}]"#)
        .unwrap();
    at(&time, 2_000);
    assert_eq!(passed(&r, 20), 7);
}

// https://github.com/alibaba/Sentinel/issues/684,
// https://github.com/alibaba/Sentinel/issues/159,
// https://github.com/alibaba/Sentinel/issues/1824
#[test]
fn b139_a_rule_without_its_resource_is_named_and_the_good_one_is_active() {
    let text = r#"[
        {"count": 1},
        {"resource": null, "count": 1},
        {"resource": "", "count": 1},
        {"Resource": "d", "count": 1},
        {"resource": "good", "count": 2}
    ]"#;
    let (engine, time) = flow("[]");
    let report = engine
        .load_json_with("flow", text, OnInvalid::Skip)
        .unwrap();
    let missing = "missing; give the name of the resource that the rule limits";
    assert_eq!(
        faults(&report.skipped),
        [
            format!("flow[0].resource: {missing}"),
            format!("flow[1].resource: {missing}"),
            format!("flow[2].resource: {missing}"),
            format!("flow[3].resource: {missing}"),
            "flow[3].Resource: unknown field; did you mean `resource`?".to_owned(),
        ]
    );
    assert_eq!((report.active("flow"), report.kinds[0].skipped), (1, 4));
    at(&time, 1_000);
    assert_eq!(passed(&engine.resource("good"), 9), 2);
    assert_eq!(passed(&engine.resource("d"), 9), 9);
    assert_eq!(passed(&engine.resource(""), 9), 9);
    assert_eq!(passed(&engine.resource("null"), 9), 9);
    // By default nothing at all is loaded.
    assert_eq!(engine.load_json("flow", text).unwrap_err().faults.len(), 5);
}

// https://github.com/alibaba/spring-cloud-alibaba/issues/564
#[test]
fn b140_what_a_dashboard_adds_loads_with_one_warning_and_a_misspelt_field_does_not() {
    let rule = |resource: &str, more: &str| {
        format!(
            r#"{{"id": 13, "app": "shop", "ip": "10.0.0.1", "port": 8719, "gmtCreate": 1721000000000,
                "gmtModified": null, "clusterConfig": {{"flowId": 13, "rule": {{"count": 1}}}},
                "resource": "{resource}", {more}}}"#
        )
    };
    let (engine, time) = flow("[]");
    let report = engine
        .load_json("flow", format!("[{}]", rule("r", r#""count": 3"#)))
        .unwrap();
    assert_eq!(
        faults(&report.warnings),
        [
            "document: fields that decide nothing here were ignored: app, clusterConfig, gmtCreate, ip, port"
        ]
    );
    at(&time, 1_000);
    assert_eq!(passed(&engine.resource("r"), 9), 3);
    let misspelt = [
        (
            "flow",
            Dialect::Sentinel,
            r#""cuont": 3"#,
            "flow[0].cuont: unknown field; did you mean `count`?",
        ),
        (
            "flow",
            Dialect::Golang,
            r#""treshold": 3"#,
            "flow[0].treshold: unknown field; did you mean `threshold`?",
        ),
    ];
    for (kind, dialect, field, message) in misspelt {
        let text = format!("[{}]", rule("r", field));
        let error = engine.load_json_with(kind, text, dialect).unwrap_err();
        assert_eq!(faults(&error.faults), [message]);
    }
    // The old rules stay.
    at(&time, 2_000);
    assert_eq!(passed(&engine.resource("r"), 9), 3);
}

// https://github.com/IrosTheBeggar/mStream/pull/910,
// https://github.com/alvinunreal/oh-my-opencode-slim/issues/1028
#[test]
fn b141_a_byte_order_mark_and_crlf_change_nothing_and_utf_16_is_refused() {
    let text = "[\r\n{\"resource\": \"r\", \"count\": 3}\r\n]";
    let (engine, _) = flow("[]");
    let rules = || -> Vec<serde_json::Value> {
        let infos = engine.rules().into_iter();
        infos.map(|info| info.rule).collect()
    };
    let mut seen = Vec::new();
    for text in [
        text.replace('\r', ""),
        format!("\u{FEFF}{text}"),
        text.to_owned(),
    ] {
        engine.load_json("flow", text).unwrap();
        seen.push(rules());
    }
    assert_eq!(seen[0].len(), 1);
    assert!(seen.iter().all(|rules| *rules == seen[0]));
    let utf16: Vec<u8> = std::iter::once(0xFEFF)
        .chain(text.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let error = engine.load_json("flow", &utf16).unwrap_err();
    assert_eq!(
        faults(&error.faults),
        ["flow: the text is UTF-16 (or has zero bytes); save it as UTF-8"]
    );
    assert_eq!(rules(), seen[0]);
}

/// The same rule in both dialects is one rule: nothing changes on the way.
#[test]
fn a_reload_in_the_other_dialect_keeps_what_rules_remember() {
    let (engine, time) =
        flow(r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 0}]"#);
    at(&time, 1_000);
    assert_eq!(passed(&engine.resource("r"), 5), 1);
    let options = LoadOptions {
        on_invalid: OnInvalid::Refuse,
        dialect: Some(Dialect::Golang),
    };
    let golang = r#"[{"resource": "r", "threshold": 10, "controlBehavior": 1}]"#;
    let report = engine.load_json_with("flow", golang, options).unwrap();
    assert!(report.is_unchanged(), "{report}");
    at(&time, 1_099);
    assert_eq!(passed(&engine.resource("r"), 5), 0);
    at(&time, 1_100);
    assert_eq!(passed(&engine.resource("r"), 5), 1);
}

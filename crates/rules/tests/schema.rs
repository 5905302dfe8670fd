//! The schemas, read by a validator that knows nothing of Flowgate.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::path::Path;

use flowgate_rules::{Dialect, Kinds, OnInvalid, RuleSet, Settings};
use jsonschema::Validator;
use serde_json::Value;

fn document_schema(dialect: Dialect) -> Validator {
    jsonschema::draft202012::new(&Kinds::standard().schema(dialect)).unwrap()
}

fn list_schema(kind: &str, dialect: Dialect) -> Validator {
    let kinds = Kinds::standard().specs();
    let spec = kinds.iter().find(|spec| spec.name == kind).unwrap();
    jsonschema::draft202012::new(&spec.schema(dialect)).unwrap()
}

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/rules")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn verdict(schema: &Validator, value: &Value) -> Result<(), String> {
    schema.validate(value).map_err(|error| error.to_string())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn schemas_are_schemas() {
    for dialect in Dialect::ALL {
        let whole = Kinds::standard().schema(dialect);
        jsonschema::meta::validate(&whole).unwrap();
        for spec in Kinds::standard().specs() {
            jsonschema::meta::validate(&spec.schema(dialect)).unwrap();
        }
    }
}

#[test]
fn sound_documents_are_valid_and_faulty_ones_are_not() {
    let schema = document_schema(Dialect::Sentinel);
    for name in [
        "every_kind.json",
        "access_log.json",
        "demo/reject.json",
        "demo/warm_up.json",
    ] {
        assert_eq!(verdict(&schema, &json(&file(name))), Ok(()), "{name}");
    }
    assert!(!schema.is_valid(&json(&file("faulty.json"))));
    // All but three are faults that a schema can see: a pattern that does not
    // compile, a value that is not of its type, and no open time in either of
    // the two fields for it.
    let faulty = json(&file("ten_faults.json"));
    assert_eq!(schema.iter_errors(&faulty).count(), 7);
    for kind in ["flow", "degrade"] {
        let golang = json(&file(&format!("golang/{kind}.json")));
        let found = verdict(&list_schema(kind, Dialect::Golang), &golang);
        assert_eq!(found, Ok(()), "{kind}");
        assert!(!list_schema(kind, Dialect::Sentinel).is_valid(&golang));
    }
}

/// Each of these is a fault to the loader as well.
#[test]
fn faults_of_single_fields_are_found() {
    for (kind, dialect, rule) in [
        ("flow", Dialect::Sentinel, r#"{"count": 1}"#),
        (
            "flow",
            Dialect::Sentinel,
            r#"{"resource": " ", "count": 1}"#,
        ),
        (
            "flow",
            Dialect::Sentinel,
            r#"{"resource": null, "count": 1}"#,
        ),
        (
            "flow",
            Dialect::Sentinel,
            r#"{"resource": "a", "count": -1}"#,
        ),
        (
            "flow",
            Dialect::Sentinel,
            r#"{"resource": "a", "count": "1"}"#,
        ),
        (
            "flow",
            Dialect::Sentinel,
            r#"{"resource": "a", "cuont": 1}"#,
        ),
        (
            "flow",
            Dialect::Sentinel,
            r#"{"resource": "a", "count": 1, "grade": 2}"#,
        ),
        (
            "flow",
            Dialect::Sentinel,
            r#"{"resource": "a", "count": 1, "mode": "sometimes"}"#,
        ),
        (
            "flow",
            Dialect::Sentinel,
            r#"{"resource": "a", "count": 1, "regex": 1}"#,
        ),
        (
            "flow",
            Dialect::Sentinel,
            r#"{"resource": "a", "threshold": 1}"#,
        ),
        (
            "isolation",
            Dialect::Sentinel,
            r#"{"resource": "a", "count": 16777216}"#,
        ),
        (
            "paramFlow",
            Dialect::Sentinel,
            r#"{"resource": "a", "paramIdx": 0, "count": 1, "paramFlowItemList": [{"object": "x"}]}"#,
        ),
        ("flow", Dialect::Sentinel, "[]"),
        ("flow", Dialect::Golang, r#"{"resource": "a", "count": 1}"#),
        (
            "flow",
            Dialect::Golang,
            r#"{"resource": "a", "threshold": 1, "controlBehavior": 2}"#,
        ),
        (
            "degrade",
            Dialect::Sentinel,
            r#"{"resource": "a", "count": 1, "timeWindow": 1, "slowRatioThreshold": 1.5}"#,
        ),
        (
            "degrade",
            Dialect::Sentinel,
            r#"{"resource": "a", "count": 1, "timeWindow": 1.5}"#,
        ),
        (
            "degrade",
            Dialect::Golang,
            r#"{"resource": "a", "threshold": 1, "retryTimeoutMs": 0, "statIntervalMs": 1}"#,
        ),
        (
            "degrade",
            Dialect::Golang,
            r#"{"resource": "a", "threshold": 1, "statIntervalMs": 1}"#,
        ),
    ] {
        let list = format!("[{rule}]");
        let loaded = RuleSet::default().with_list(kind, &list, &Settings::default(), dialect);
        assert!(loaded.is_err(), "{kind} {rule}");
        let schema = list_schema(kind, dialect);
        assert!(!schema.is_valid(&json(&list)), "{kind} {rule}");
    }
}

#[test]
fn what_loads_in_many_ways_is_valid_in_all_of_them() {
    for rule in [
        r#"{"resource": "a", "count": 20.0, "grade": 1.0, "id": 7}"#,
        r#"{"resource": "a", "count": 20, "grade": "thread", "limitApp": null, "id": "x"}"#,
        r#"{"resource": "a", "count": 20, "controlBehavior": "rateLimiter", "maxQueueingTimeMs": 0}"#,
        r#"{"resource": "a", "count": 20, "app": "shop", "clusterMode": false, "clusterConfig": {"flowId": 1}}"#,
        r#"{"resource": "a.*", "regex": true, "count": 1, "mode": "observe", "enabled": true}"#,
    ] {
        let list = format!("[{rule}]");
        let loaded =
            RuleSet::default().with_list("flow", &list, &Settings::default(), OnInvalid::Refuse);
        assert!(loaded.is_ok(), "{rule}");
        let found = verdict(&list_schema("flow", Dialect::Sentinel), &json(&list));
        assert_eq!(found, Ok(()), "{rule}");
    }
}

/// What the loader takes for a default is what the schema says, and every rule
/// that is written out is valid.
#[test]
fn rules_written_in_a_dialect_are_valid_in_it() {
    let text = file("access_log.json");
    let (rules, _) = RuleSet::default()
        .with_document(&text, &Settings::default(), OnInvalid::Refuse)
        .unwrap();
    for dialect in Dialect::ALL {
        let written = rules.write(&["flow", "degrade"], dialect);
        let found = verdict(&document_schema(dialect), &json(&written.text));
        assert_eq!(found, Ok(()), "{}", written.text);
    }
}

//! Every recorded document loads as many rules as it did in Sentinel, or as
//! the documentation says.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::fs;
use std::path::{Path, PathBuf};

use flowgate_rules::{Kinds, OnInvalid, RuleSet, Settings};
use serde_json::Value;

fn json_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            json_files(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            found.push(path);
        }
    }
}

/// Loads the lists of `rules` that we know and compares what is in force.
fn load(set: &mut RuleSet, rules: &Value, expected: &Value, place: &str) -> usize {
    let mut compared = 0;
    for kind in Kinds::standard().specs() {
        let key = match kind.name {
            "paramFlow" => "param_flow",
            name => name,
        };
        let Some(list) = rules.get(key) else {
            continue;
        };
        let (next, report) = set
            .with_list(
                kind.name,
                list.to_string(),
                &Settings::default(),
                OnInvalid::Skip,
            )
            .unwrap_or_else(|error| panic!("{place}: {error}"));
        if let Some(active) = expected["active"][key].as_u64() {
            assert_eq!(report.active(kind.name) as u64, active, "{place}\n{report}");
            compared += 1;
        }
        *set = next;
    }
    compared
}

#[test]
fn recorded_documents_have_the_recorded_number_of_rules_in_force() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
    let mut files = Vec::new();
    for area in [
        "flow",
        "degrade",
        "param_flow",
        "mixed",
        "ideal/flow",
        "ideal/degrade",
        "ideal/param_flow",
        "ideal/mixed",
    ] {
        json_files(&traces.join(area), &mut files);
    }
    let mut compared = 0;
    for file in &files {
        let place = file.display().to_string();
        let trace: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let mut set = RuleSet::default();
        compared += load(&mut set, &trace["rules"], &trace["rules_expect"], &place);
        for step in trace["steps"].as_array().unwrap() {
            if step["op"] == "load" {
                compared += load(&mut set, &step["rules"], &step["expect"], &place);
            }
        }
    }
    assert!(
        files.len() > 200 && compared > 200,
        "{} files, {compared} lists",
        files.len()
    );
}

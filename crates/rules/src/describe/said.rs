//! What the loader says to faulty and odd rules: by asking it.

use std::fmt::Write as _;

use crate::document::{OnInvalid, RuleError};
use crate::kinds::Kinds;
use crate::set::RuleSet;
use crate::{LoadReport, Settings};

/// What is found, and a list of flow rules, or a document, that has it.
const REFUSED: &[(&str, &str)] = &[
    ("an empty text", ""),
    ("UTF-16", "[\0]\0"),
    ("`NaN`", r#"[{"resource": "a", "count": NaN}]"#),
    ("a comma too many", r#"[{"resource": "a", "count": 1},]"#),
    (
        "a field twice",
        r#"[{"resource": "a", "count": 1, "count": 2}]"#,
    ),
    ("an unknown field", r#"[{"resource": "a", "cuont": 1}]"#),
    (
        "an id twice",
        r#"[{"id": 7, "resource": "a"}, {"id": 7, "resource": "b"}]"#,
    ),
    ("an unknown kind", r#"{"flows": []}"#),
    (
        "an object where a list is due",
        r#"{"flow": {"orders": 5}}"#,
    ),
    (
        "relate or chain without `refResource`",
        r#"[{"resource": "a", "count": 1, "strategy": 1}]"#,
    ),
    (
        "a field of each dialect",
        r#"[{"resource": "a", "count": 1, "threshold": 1}]"#,
    ),
    (
        "two readings",
        r#"[{"resource": "a", "controlBehavior": 1}]"#,
    ),
];

/// Lists of flow rules that load with a warning.
const ODD: &[&str] = &[
    r#"[{"resource": "a", "count": 0.5}]"#,
    r#"[{"resource": "a", "count": 1}, {"resource": "a", "count": 1}]"#,
    r#"[{"resource": "a", "count": 1}, {"resource": "a", "count": 1, "maxQueueingTimeMs": 9}]"#,
    r#"[{"resource": "a", "count": 1, "grade": 0, "controlBehavior": 2}]"#,
    r#"[{"resource": "a", "count": 1, "controlBehavior": 4}]"#,
    r#"[{"resource": "a", "count": 1, "limitApp": "a,b"}]"#,
    r#"[{"resource": "a", "count": 1, "clusterMode": true, "clusterConfig": {}, "app": "shop", "ip": "::1", "port": 8719, "gmtCreate": 1}]"#,
];

/// The faults of a document.
pub(super) fn faults(kinds: &Kinds, document: &str) -> String {
    let said = match load(kinds, document) {
        Err(error) => error.to_string(),
        Ok(report) => report.to_string(),
    };
    format!("```text\n{said}\n```")
}

pub(super) fn refused(kinds: &Kinds) -> String {
    let mut table = String::from("| found | the error says |\n|---|---|\n");
    for (what, text) in REFUSED {
        let said = match load(kinds, text) {
            Err(error) => error.to_string(),
            Ok(report) => report.to_string(),
        };
        let cells: Vec<String> = said.lines().map(code).collect();
        let _ = writeln!(table, "| {what} | {} |", cells.join("<br>"));
    }
    table.trim_end().to_owned()
}

pub(super) fn warnings(kinds: &Kinds) -> String {
    let mut lines = Vec::new();
    for text in ODD {
        let warnings = load(kinds, text).map(|report| report.warnings);
        lines.extend(warnings.iter().flatten().map(ToString::to_string));
    }
    format!("```text\n{}\n```", lines.join("\n"))
}

fn load(kinds: &Kinds, text: &str) -> Result<LoadReport, RuleError> {
    let (none, settings) = (RuleSet::new(kinds), Settings::default());
    let loaded = match text.trim_start().starts_with('{') {
        true => none.with_document(text, &settings, OnInvalid::Refuse),
        false => none.with_list("flow", text, &settings, OnInvalid::Refuse),
    };
    loaded.map(|(_, report)| report)
}

/// As code in a table; with two backticks around it where it has one.
fn code(line: &str) -> String {
    let line = line.replace('|', "\\|");
    match line.contains('`') {
        true => format!("`` {line} ``"),
        false => format!("`{line}`"),
    }
}

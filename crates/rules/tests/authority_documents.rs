//! Lists of callers as documents: what loads, what is refused, what is written
//! back.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use flowgate_rules::{Authority, AuthorityRule, OnInvalid, RuleSet, Settings};

fn load(list: &str) -> Result<(RuleSet, flowgate_rules::LoadReport), flowgate_rules::RuleError> {
    RuleSet::default().with_list("authority", list, &Settings::default(), OnInvalid::Refuse)
}

fn rules(list: &str) -> Vec<AuthorityRule> {
    let (set, _) = load(list).unwrap();
    let table = set.table::<Authority>();
    table.entries().iter().map(|e| e.rule().clone()).collect()
}

#[test]
fn names_are_trimmed_and_their_order_does_not_count() {
    let read = rules(r#"[{"resource": "a", "limitApp": " web,batch , web,, "}]"#);
    assert_eq!(read, [AuthorityRule::white("a", ["batch", "web"])]);
    assert_eq!(read[0].origins(), ["batch", "web"]);
    // A rule of the same meaning is loaded once.
    let (_, report) = load(
        r#"[{"resource": "a", "limitApp": "x,y", "strategy": 1},
            {"resource": "a", "limitApp": "y, x", "strategy": "deny"}]"#,
    )
    .unwrap();
    assert_eq!(report.active("authority"), 1);
}

#[test]
fn a_list_of_nobody_is_a_fault() {
    for names in ["", "  ", " , ,"] {
        let error = load(&format!(r#"[{{"resource": "a", "limitApp": "{names}"}}]"#));
        let message = error.unwrap_err().to_string();
        assert!(
            message.starts_with("authority[0].limitApp: names nobody"),
            "{names:?}: {message}"
        );
    }
    let message = load(r#"[{"resource": "a"}]"#).unwrap_err().to_string();
    assert!(
        message.contains("limitApp: missing; give names"),
        "{message}"
    );
}

#[test]
fn words_for_all_callers_are_warned_about() {
    let (_, report) = load(r#"[{"resource": "a", "limitApp": "web, default"}]"#).unwrap();
    assert_eq!(
        report.warnings[0].message,
        "default is taken as the name of a caller; a list knows no word for all others"
    );
}

#[test]
fn what_is_written_loads_as_the_same_rule() {
    let read = rules(
        r#"[{"id": 7, "resource": "a.*", "regex": true, "limitApp": "b, a", "strategy": 1, "mode": "observe"},
            {"resource": "b", "limitApp": "c"}]"#,
    );
    let written = serde_json::to_string(&read).unwrap();
    assert_eq!(
        written,
        r#"[{"id":"7","resource":"a.*","regex":true,"mode":"observe","limitApp":"a,b","strategy":1},{"resource":"b","limitApp":"c","strategy":0}]"#
    );
    assert_eq!(rules(&written), read);
}

//! How isolation rules are read.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use flowgate_rules::{Isolation, IsolationRule, OnInvalid, RuleError, RuleSet, Settings};

fn read(list: &str) -> Result<Vec<IsolationRule>, RuleError> {
    let (settings, refuse) = (Settings::default(), OnInvalid::Refuse);
    let (rules, _) = RuleSet::default().with_list("isolation", list, &settings, refuse)?;
    let table = rules.table::<Isolation>();
    Ok(table.entries().iter().map(|e| e.rule().clone()).collect())
}

fn warnings(list: &str) -> Vec<String> {
    let (settings, refuse) = (Settings::default(), OnInvalid::Refuse);
    let (_, report) = RuleSet::default()
        .with_list("isolation", list, &settings, refuse)
        .unwrap();
    report.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_rule_says_the_limit_and_who_may_wait() {
    for (json, rule) in [
        (
            r#"{"resource": "pay", "count": 20}"#,
            IsolationRule::at_once("pay", 20),
        ),
        // sentinel-golang's.
        (
            r#"{"id": "7", "resource": "pay", "metricType": 0, "threshold": 20}"#,
            IsolationRule::at_once("pay", 20).id("7"),
        ),
        (
            r#"{"resource": "pay", "metricType": "concurrency", "count": 20.0}"#,
            IsolationRule::at_once("pay", 20),
        ),
        (
            r#"{"resource": "pay", "count": 0, "maxQueueingTimeMs": 300, "maxQueueLength": 7}"#,
            IsolationRule::at_once("pay", 0)
                .wait_ms(300)
                .queue_length(7),
        ),
        (
            r#"{"resource": "pay", "count": 16777215, "threshold": null}"#,
            IsolationRule::at_once("pay", (1 << 24) - 1),
        ),
    ] {
        let read = read(&format!("[{json}]")).unwrap();
        assert_eq!(read, [rule], "{json}");
        let again = serde_json::to_string(&read).unwrap();
        assert_eq!(self::read(&again).unwrap(), read, "{again}");
    }
    let default = IsolationRule::at_once("pay", 1);
    assert_eq!(
        (default.max_queueing_time_ms, default.max_queue_length),
        (0, 1000)
    );
}

#[test]
fn what_cannot_be_meant_is_a_fault() {
    for (fields, fault) in [
        (
            "",
            "isolation[0].count: missing; give the permits that calls may hold at once",
        ),
        (
            r#", "count": 1, "threshold": 1"#,
            "isolation[0].threshold: count says the same; keep one of them",
        ),
        (
            r#", "count": -1"#,
            "isolation[0].count: -1 is negative; give a number of permits, 0 means that no call may run",
        ),
        (
            r#", "threshold": 16777216"#,
            "isolation[0].threshold: 16777216 is too large; give at most 16777215",
        ),
        (
            r#", "count": 1, "metricType": 1"#,
            "isolation[0].metricType: 1 is not known; write 0 (concurrency)",
        ),
        (
            r#", "count": 1, "maxQueueTimeMs": 5"#,
            "isolation[0].maxQueueTimeMs: unknown field; did you mean `maxQueueingTimeMs`?",
        ),
    ] {
        let error = read(&format!(r#"[{{"resource": "pay"{fields}}}]"#)).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(fault), "{text}");
    }
}

#[test]
fn both_names_of_the_limit_are_read_in_either_dialect() {
    let golang = r#"{"flow": [{"resource": "a", "threshold": 5, "tokenCalculateStrategy": 0}],
                     "isolation": [{"resource": "pay", "metricType": 0, "threshold": 20},
                                   {"resource": "get", "count": 7, "maxQueueingTimeMs": 10}]}"#;
    let sentinel = r#"{"flow": [{"resource": "a", "count": 5, "grade": 1}],
                       "isolation": [{"resource": "pay", "threshold": 20},
                                     {"resource": "get", "count": 7, "maxQueueingTimeMs": 10}]}"#;
    let expected = [
        IsolationRule::at_once("pay", 20),
        IsolationRule::at_once("get", 7).wait_ms(10),
    ];
    for document in [golang, sentinel] {
        let (settings, refuse) = (Settings::default(), OnInvalid::Refuse);
        let (rules, _) = RuleSet::default()
            .with_document(document, &settings, refuse)
            .unwrap();
        let table = rules.table::<Isolation>();
        let read: Vec<_> = table.entries().iter().map(|e| e.rule().clone()).collect();
        assert_eq!(read, expected);
    }
}

#[test]
fn a_line_for_nobody_is_a_warning() {
    let list = r#"[{"resource": "pay", "count": 1, "maxQueueingTimeMs": 5, "maxQueueLength": 0}]"#;
    let [warning] = &warnings(list)[..] else {
        panic!("one warning");
    };
    assert!(warning.contains("0 lets nobody wait"), "{warning}");
    assert!(!read(list).unwrap()[0].waits());
}

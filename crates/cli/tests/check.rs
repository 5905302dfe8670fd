//! `flowgate check` as it is run.

mod common;

use common::{file, flowgate};
use serde_json::{Value, json};

#[test]
fn all_faults_are_shown_in_their_lines() {
    let ran = flowgate(&["check", "testdata/rules/faulty.json"], b"");
    assert_eq!(ran.code, 1);
    assert_eq!(ran.out, "");
    let expected = r#"
error: flow[1].maxQueueingTimeMs: -5 is negative; give milliseconds, 0 means do not wait
 --> testdata/rules/faulty.json:4:86
  |
4 |     {"resource": "mail", "count": "many", "controlBehavior": 2, "maxQueueingTimeMs": -5},
  |                                                                                      ^^
"#;
    assert!(ran.err.contains(expected), "{}", ran.err);
    assert_eq!(ran.err.matches("error: ").count(), 6, "{}", ran.err);
    let last = "faulty.json: 6 faults, nothing would be loaded\n";
    assert!(ran.err.ends_with(last), "{}", ran.err);
}

#[test]
fn the_example_rules_are_sound() {
    for (file, said) in [
        (
            "testdata/rules/access_log.json",
            "6 flow rules for 3 resources and 3 patterns",
        ),
        (
            "testdata/rules/demo/reject.json",
            "1 flow rule for 1 resource and 0 patterns",
        ),
        (
            "testdata/rules/demo/warm_up.json",
            "1 flow rule for 1 resource and 0 patterns",
        ),
        (
            "testdata/rules/demo/queueing.json",
            "1 flow rule for 1 resource and 0 patterns",
        ),
    ] {
        let ran = flowgate(&["check", file, "--deny-warnings"], b"");
        assert_eq!((ran.code, &*ran.err), (0, ""), "{file}");
        assert_eq!(ran.out, format!("{file}: ok: {said}\n"));
    }
}

#[test]
fn a_document_of_every_kind_is_sound_and_ten_faults_in_it_are_all_shown() {
    let (sound, faulty) = (
        "testdata/rules/every_kind.json",
        "testdata/rules/ten_faults.json",
    );
    let ran = flowgate(&["check", sound, "--deny-warnings"], b"");
    assert_eq!((ran.code, &*ran.err), (0, ""));
    let said = "1 authority rule, 1 system rule, 3 paramFlow rules (1 tokenBucket), 6 flow rules (1 strict, 1 tokenBucket), 1 isolation rule, 2 degrade rules";
    assert_eq!(
        ran.out,
        format!("{sound}: ok: {said} for 6 resources and 2 patterns\n")
    );
    let ran = flowgate(&["check", sound, "--json"], b"");
    let checked: Value = serde_json::from_str(&ran.out).expect("the output is JSON");
    let accountings = json!({
        "flow": {"strict": 1, "tokenBucket": 1},
        "paramFlow": {"strict": 0, "tokenBucket": 1},
    });
    assert_eq!(checked["accountings"], accountings);
    let ran = flowgate(&["check", faulty, "--json"], b"");
    assert_eq!(ran.code, 1);
    let checked: Value = serde_json::from_str(&ran.out).expect("the output is JSON");
    let faults = checked["faults"].as_array().expect("a list of faults");
    let paths: Vec<&str> = faults.iter().filter_map(|f| f["path"].as_str()).collect();
    assert_eq!(
        paths,
        [
            "authority[0].limitApp",
            "system[0].highestCpuUsage",
            "paramFlow[0].durationInSec",
            "paramFlow[0].paramFlowItemList[0].object",
            "flow[0].count",
            "flow[1].controlBehavior",
            "flow[2].resource",
            "flow[3].cuont",
            "isolation[0].count",
            "degrade[0].timeWindow",
        ]
    );
}

#[test]
fn warnings_are_shown_and_can_be_denied() {
    let rules = br#"{"flow": [{"resource": "a", "count": 0.5}]}"#;
    let ran = flowgate(&["check", "-"], rules);
    assert_eq!(ran.code, 0);
    assert_eq!(
        ran.out,
        "<stdin>: ok: 1 flow rule for 1 resource and 0 patterns; 1 warning\n"
    );
    let title = "warning: flow[0].count: 0.5 per second allows no whole call in 1000 ms";
    assert!(ran.err.starts_with(title), "{}", ran.err);
    let line = r#"
 --> <stdin>:1:38
  |
1 | {"flow": [{"resource": "a", "count": 0.5}]}
  |                                      ^^^
"#;
    assert!(ran.err.contains(line), "{}", ran.err);
    assert_eq!(flowgate(&["check", "--deny-warnings", "-"], rules).code, 1);
}

#[test]
fn a_list_is_of_the_kind_of_the_option_of_the_file_name_or_flow() {
    let breaker = r#"[{"resource": "a", "grade": 2, "count": 5, "timeWindow": 1}]"#;
    let named = file("degrade-a.json", breaker);
    let ran = flowgate(&["check", &named], b"");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out
            .ends_with(": ok: 1 degrade rule for 1 resource and 0 patterns\n")
    );
    assert!(
        ran.err.contains("read as degrade rules by its file name"),
        "{}",
        ran.err
    );

    let ran = flowgate(&["check", "-"], breaker.as_bytes());
    assert_eq!(ran.code, 1);
    assert!(
        ran.err
            .contains("read as flow rules as nothing says otherwise"),
        "{}",
        ran.err
    );

    let ran = flowgate(&["check", "-", "--kind", "degrade"], breaker.as_bytes());
    assert_eq!((ran.code, &*ran.err), (0, ""));
}

#[test]
fn the_result_can_be_had_as_json() {
    let text = r#"[{"resource": "a", "count": -1}]"#;
    let ran = flowgate(&["check", "-", "--json", "--kind", "flow"], text.as_bytes());
    assert_eq!((ran.code, &*ran.err), (1, ""));
    let expected = json!({
        "file": "<stdin>", "ok": false, "kind": "flow", "kindAssumed": false,
        "rules": {}, "resources": 0, "patterns": 0, "warnings": [],
        "faults": [{
            "path": "flow[0].count",
            "message": "-1 is negative; give calls per second or at once, 0 means none",
            "line": 1, "column": 29, "offset": 28, "length": 2,
        }],
    });
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), expected);
}

#[test]
fn a_document_may_be_no_text_no_json_or_empty() {
    for (text, said) in [
        (&b""[..], "empty"),
        (b"{\"flow\": [", "error: "),
        (b"\xEF\xBB\xBF[x]", "<stdin>:1:2"),
        (b"{\"flow\": \xff}", "UTF-8"),
        (b"5", "not an object"),
        ("[".repeat(100_000).as_bytes(), "error: "),
    ] {
        let ran = flowgate(&["check", "-"], text);
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains(said), "{}", ran.err);
    }
}

#[test]
fn an_unreadable_file_and_wrong_usage_are_no_faults() {
    let ran = flowgate(&["check", "no/such/file"], b"");
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.starts_with("flowgate: no/such/file: "),
        "{}",
        ran.err
    );
    assert_eq!(flowgate(&["check"], b"").code, 2);
    assert_eq!(flowgate(&["check", "-", "--kind", "flaw"], b"").code, 2);
    assert_eq!(flowgate(&[], b"").code, 2);
    assert_eq!(flowgate(&["check", "--help"], b"").code, 0);
}

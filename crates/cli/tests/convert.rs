//! `flowgate convert` and `flowgate schema` as they are run.

mod common;

use common::{file, flowgate};
use serde_json::Value;

#[test]
fn a_document_is_converted_and_back_again() {
    let sentinel = r#"{
  "flow": [
    {"id": "mail", "resource": "mail", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 500}
  ],
  "degrade": [
    {"resource": "pay", "grade": 1, "count": 0.5, "timeWindow": 10}
  ]
}"#;
    let there = flowgate(&["convert", "--to", "golang", "-"], sentinel.as_bytes());
    assert_eq!((there.code, &*there.err), (0, ""));
    assert_eq!(
        there.out,
        r#"{
  "flow": [
    {"id": "mail", "resource": "mail", "tokenCalculateStrategy": 0, "controlBehavior": 1, "threshold": 10, "maxQueueingTimeMs": 500}
  ],
  "degrade": [
    {"resource": "pay", "strategy": 1, "threshold": 0.5, "retryTimeoutMs": 10000, "minRequestAmount": 5, "statIntervalMs": 1000, "statSlidingWindowBucketCount": 1}
  ]
}
"#
    );
    let back = flowgate(&["convert", "--to", "sentinel", "-"], there.out.as_bytes());
    assert_eq!((back.code, &*back.err), (0, ""));
    let again = flowgate(&["convert", "--to", "golang", "-"], back.out.as_bytes());
    assert_eq!(again.out, there.out);
}

#[test]
fn an_accounting_is_kept_in_sentinels_spelling_and_cannot_be_said_in_golangs() {
    let rules = br#"[{"resource": "a", "count": 1, "accounting": 2, "burstCount": 3}]"#;
    let there = flowgate(
        &["convert", "--to", "sentinel", "--kind", "flow", "-"],
        rules,
    );
    assert_eq!(there.code, 0);
    assert!(
        there
            .out
            .contains(r#""accounting": "tokenBucket", "burstCount": 3"#),
        "{}",
        there.out
    );
    assert!(
        there.err.contains("flow.accounting, flow.burstCount"),
        "{}",
        there.err
    );
    let there = flowgate(&["convert", "--to", "golang", "--kind", "flow", "-"], rules);
    assert_eq!((there.code, &*there.out), (1, ""));
    let message = "error: flow[0].accounting: sentinel-golang counts in windows and knows no tokenBucket, so the limit would be another one; leave it out";
    assert!(there.err.contains(message), "{}", there.err);
}

#[test]
fn what_cannot_be_said_is_an_error_or_with_lossy_a_warning() {
    let rules =
        br#"[{"resource": "a", "count": 1, "limitApp": "web"}, {"resource": "b", "count": 2}]"#;
    let strict = flowgate(&["convert", "--to", "golang", "--kind", "flow", "-"], rules);
    assert_eq!((strict.code, &*strict.out), (1, ""));
    let message = "flow[0].limitApp: sentinel-golang knows no origins, so the rule would be for all calls; leave it out";
    assert!(
        strict.err.contains(&format!("error: {message}")),
        "{}",
        strict.err
    );
    let lossy = flowgate(
        &[
            "convert", "--to", "golang", "--kind", "flow", "--lossy", "-",
        ],
        rules,
    );
    assert_eq!(lossy.code, 0);
    assert_eq!(
        lossy.out,
        "[\n  {\"resource\": \"b\", \"tokenCalculateStrategy\": 0, \"controlBehavior\": 0, \"threshold\": 2}\n]\n"
    );
    assert!(
        lossy.err.contains(&format!("warning: {message}")),
        "{}",
        lossy.err
    );
    assert!(
        lossy.err.ends_with("<stdin>: 1 of the rules left out\n"),
        "{}",
        lossy.err
    );
}

#[test]
fn what_only_flowgate_reads_is_said() {
    let rules = br#"{"flow": [{"resource": "*", "threshold": 1, "statIntervalInMs": 60000, "mode": "observe"}]}"#;
    let ran = flowgate(&["convert", "--to", "sentinel", "-"], rules);
    assert_eq!(ran.code, 0);
    assert_eq!(
        ran.err,
        "<stdin>: Flowgate's own, which Sentinel itself does not read, so that there these rules are others: flow.mode, flow.resource *, flow.statIntervalMs\n"
    );
    let rules = br#"{"degrade": [{"resource": "a", "grade": 2, "count": 5, "timeWindow": 3, "jitter": 0.5}]}"#;
    let ran = flowgate(&["convert", "--to", "golang", "-"], rules);
    assert_eq!(ran.code, 0);
    assert_eq!(
        ran.err,
        "<stdin>: Flowgate reads these in either dialect, sentinel-golang itself does not: degrade.jitter\n"
    );
}

#[test]
fn an_observed_rule_is_not_made_an_enforced_one() {
    let rules = br#"{"flow": [{"resource": "a", "count": 1, "mode": "observe"}]}"#;
    let strict = flowgate(&["convert", "--to", "golang", "-"], rules);
    assert_eq!((strict.code, &*strict.out), (1, ""));
    assert!(
        strict
            .err
            .contains("error: flow[0].mode: sentinel-golang would enforce the rule"),
        "{}",
        strict.err
    );
    let lossy = flowgate(&["convert", "--to", "golang", "--lossy", "-"], rules);
    assert_eq!((lossy.code, &*lossy.out), (0, "{\n  \"flow\": []\n}\n"));
}

#[test]
fn a_document_is_not_taken_for_a_list() {
    for command in [
        &["check", "--kind", "flow", "-"][..],
        &["convert", "--to", "golang", "--kind", "flow", "-"],
    ] {
        let ran = flowgate(command, br#"{"flow": []}"#);
        assert_eq!(ran.code, 2);
        assert!(
            ran.err.ends_with(
                "<stdin>: a whole document, not a list of flow rules; leave out --kind\n"
            ),
            "{}",
            ran.err
        );
    }
}

#[test]
fn faults_are_shown_and_nothing_is_converted() {
    let rules = br#"{"flow": [{"resource": "a", "threshold": -1}]}"#;
    let ran = flowgate(&["convert", "--to", "sentinel", "-"], rules);
    assert_eq!((ran.code, &*ran.out), (1, ""));
    assert!(
        ran.err.contains("error: flow[0].threshold: -1 is negative"),
        "{}",
        ran.err
    );
    let ran = flowgate(
        &["convert", "--from", "sentinel", "--to", "golang", "-"],
        rules,
    );
    assert!(
        ran.err
            .contains("this is sentinel-golang's field; here it is count"),
        "{}",
        ran.err
    );
}

#[test]
fn rule_files_of_golang_are_checked() {
    for (file, said) in [
        (
            "testdata/rules/golang/flow.json",
            "5 flow rules for 5 resources and 0 patterns",
        ),
        (
            "testdata/rules/golang/degrade.json",
            "3 degrade rules for 3 resources and 0 patterns",
        ),
    ] {
        let ran = flowgate(&["check", file, "--dialect", "golang"], b"");
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(
            ran.out,
            format!("{file}: ok: {said}, in sentinel-golang's dialect\n")
        );
    }
}

#[test]
fn a_schema_is_printed_for_documents_and_lists() {
    let ran = flowgate(&["schema"], b"");
    let schema: Value = serde_json::from_str(&ran.out).expect("the output is JSON");
    assert_eq!(ran.code, 0);
    assert!(schema["$defs"]["flow"]["properties"]["count"].is_object());
    let ran = flowgate(&["schema", "--dialect", "golang", "--kind", "degrade"], b"");
    let schema: Value = serde_json::from_str(&ran.out).expect("the output is JSON");
    assert_eq!(schema["type"], "array");
    let open = &schema["$defs"]["rule"]["properties"]["retryTimeoutMs"];
    assert_eq!(open["type"][0], "integer");
    assert_eq!(flowgate(&["schema", "--kind", "flwo"], b"").code, 2);
}

#[test]
fn a_list_is_converted_as_a_list_of_the_kind_that_its_file_name_tells() {
    let rules = r#"[{"resource": "a", "count": 200, "timeWindow": 3}]"#;
    let ran = flowgate(
        &["convert", "--to", "golang", &file("degrade-eu.json", rules)],
        b"",
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("read as degrade rules by its file name"),
        "{}",
        ran.err
    );
    assert!(ran.out.contains(r#""retryTimeoutMs": 3000"#), "{}", ran.out);
}

//! Hot-parameter rules as documents.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use flowgate_core::Accounting;
use flowgate_rules::param_flow::{Param, ParamFlow, ParamFlowRule, ParamItem, ParamValue};
use flowgate_rules::{ControlBehavior, Dialect, Grade, LoadReport, OnInvalid, RuleSet, Settings};

fn load(
    text: &str,
    on_invalid: OnInvalid,
) -> Result<(Vec<ParamFlowRule>, LoadReport), Vec<String>> {
    let loaded = RuleSet::default().with_list("paramFlow", text, &Settings::default(), on_invalid);
    let (set, report) = loaded.map_err(|error| {
        let faults = error.faults.iter();
        faults
            .map(|f| format!("{}: {}", f.path, f.message))
            .collect::<Vec<_>>()
    })?;
    let table = set.table::<ParamFlow>();
    let rules = table
        .entries()
        .iter()
        .map(|entry| entry.rule().clone())
        .collect();
    Ok((rules, report))
}

fn rule(members: &str) -> ParamFlowRule {
    let text = format!(r#"[{{"resource": "a", {members}}}]"#);
    let (rules, report) = load(&text, OnInvalid::Refuse).unwrap();
    assert_eq!(report.warnings, [], "{text}");
    rules[0].clone()
}

fn faults(members: &str) -> Vec<String> {
    load(
        &format!(r#"[{{"resource": "a", {members}}}]"#),
        OnInvalid::Refuse,
    )
    .unwrap_err()
}

fn warnings(members: &str) -> Vec<String> {
    let text = format!(r#"[{{"resource": "a", {members}}}]"#);
    let (_, report) = load(&text, OnInvalid::Refuse).unwrap();
    let warnings = report.warnings.iter();
    warnings
        .map(|w| format!("{}: {}", w.path, w.message))
        .collect()
}

#[test]
fn sentinels_json_is_read_as_it_is() {
    let read = rule(
        r#""limitApp": "default", "grade": 1, "paramIdx": 0, "count": 5, "controlBehavior": 2,
           "maxQueueingTimeMs": 300, "burstCount": 0, "durationInSec": 2, "clusterMode": false,
           "paramFlowItemList": [
             {"object": "vip", "count": 50, "classType": "java.lang.String"},
             {"object": "7", "count": 3, "classType": "int"},
             {"object": "1.5", "count": 2, "classType": "double"},
             {"object": "q", "count": 1, "classType": "char"},
             {"object": "true", "count": 0, "classType": "boolean"},
             {"object": "plain", "count": 4, "classType": null}]"#,
    );
    let built = ParamFlowRule::qps("a", 0, 5.0)
        .rate_limiter(300)
        .duration_in_sec(2)
        .item("vip", 50.0)
        .item(7, 3.0)
        .item(1.5, 2.0)
        .item('q', 1.0)
        .item(true, 0.0)
        .item("plain", 4.0);
    assert_eq!(read, built);
    assert_eq!(
        rule(r#""grade": 0, "paramIdx": -1, "count": 2"#),
        ParamFlowRule::concurrency("a", -1, 2.0)
    );
    let by_key = rule(r#""paramKey": "user", "count": 2, "maxValues": 100, "burstCount": 3"#);
    assert_eq!(by_key.param, Param::Key("user".to_owned()));
    assert_eq!(
        by_key,
        ParamFlowRule::qps("a", 0, 2.0)
            .by_key("user")
            .max_values(100)
            .burst(3)
    );
}

#[test]
fn what_is_written_reads_back_as_the_same_rule() {
    for rule in [
        ParamFlowRule::qps("a", -2, 2.5)
            .burst(3)
            .duration_in_sec(60)
            .max_values(7),
        ParamFlowRule::qps("a", 0, 2.5).token_bucket().burst(1),
        ParamFlowRule::concurrency("a", 1, 2.0).id("mine").regex(),
        ParamFlowRule::qps("a", 0, 1.0)
            .by_key("user")
            .rate_limiter(500)
            .observe()
            .item("vip", 10.0)
            .item(i128::MAX, 1.0)
            .item(-7, 2.0)
            .item(0.1, 0.5)
            .item('ü', 1.0)
            .item(false, 0.0),
    ] {
        let text = serde_json::to_string(&[&rule]).unwrap();
        let (read, _) = load(&text, OnInvalid::Refuse).unwrap();
        assert_eq!(read, std::slice::from_ref(&rule), "{text}");
        assert_eq!(read[0].head.id, rule.head.id);
    }
}

#[test]
fn each_fault_says_where_it_is_and_what_would_do() {
    let found = faults(
        r#""grade": 1, "paramIdx": 0, "count": -1, "burstCount": -2, "durationInSec": 0,
           "maxQueueingTimeMs": -1, "maxValues": 0, "parmIdx": 1"#,
    );
    assert_eq!(
        found,
        [
            "paramFlow[0].count: -1 is negative; give a number of calls, 0 means none",
            "paramFlow[0].burstCount: -2 is negative; give a number of calls, 0 means none",
            "paramFlow[0].durationInSec: 0 is no time to count in; give seconds, at least 1",
            "paramFlow[0].maxQueueingTimeMs: -1 is negative; give milliseconds, 0 means do not wait",
            "paramFlow[0].maxValues: 0 is out of range; give a number of values from 1 to 16777216, or leave it out",
            "paramFlow[0].parmIdx: unknown field; did you mean `paramIdx`?",
        ]
    );
    assert_eq!(
        faults(r#""count": 1"#),
        [
            "paramFlow[0].paramIdx: missing; give the argument's position, 0 is the first, -1 the last, or an attachment's name as paramKey"
        ]
    );
    assert_eq!(
        faults(r#""count": 1, "paramIdx": 0, "paramKey": "user""#),
        [
            "paramFlow[0].paramKey: paramIdx is given too; keep one of them: a rule counts by an argument or by an attachment"
        ]
    );
    assert_eq!(
        faults(r#""count": 1, "paramIdx": 3000000000"#),
        [
            "paramFlow[0].paramIdx: 3000000000 is beyond 2147483647; give the argument's position, 0 is the first, -1 the last"
        ]
    );
}

const BAD_ITEMS: &str = r#""paramIdx": 0, "count": 1, "paramFlowItemList": [
    {"object": "abc", "count": 5, "classType": "int"},
    {"object": "neg", "count": -1},
    {"object": "nul", "count": null},
    {"object": null, "count": 3},
    {"object": "odd", "cuont": 3, "count": 3},
    {"object": 7, "count": 3},
    "vip",
    {"object": "ok", "count": 2, "classType": ""}]"#;

#[test]
fn each_faulty_special_value_is_named_by_its_path() {
    assert_eq!(
        faults(BAD_ITEMS),
        [
            r#"paramFlow[0].paramFlowItemList[0].object: "abc" is not a whole number; write its digits, or another classType"#,
            "paramFlow[0].paramFlowItemList[1].count: -1 is negative; give a number of calls, 0 means none",
            "paramFlow[0].paramFlowItemList[2].count: missing; give the limit of this value, 0 means none",
            "paramFlow[0].paramFlowItemList[3].object: missing; give the value as text",
            "paramFlow[0].paramFlowItemList[4].cuont: unknown field; did you mean `count`?",
            "paramFlow[0].paramFlowItemList[5].object: 7 is not text; give the value as text",
            "paramFlow[0].paramFlowItemList[6]: \"vip\" is not an object; write {...}",
        ]
    );
    assert_eq!(
        faults(r#""paramIdx": 0, "count": 1, "paramFlowItemList": {"object": "a"}"#),
        [
            r#"paramFlow[0].paramFlowItemList: an object is not a list; give a list [{"object": ..., "count": ..., "classType": ...}, ...]"#
        ]
    );
}

#[test]
fn where_faulty_rules_are_skipped_a_faulty_special_value_is_and_its_rule_stays() {
    let text = format!(r#"[{{"resource": "a", {BAD_ITEMS}}}]"#);
    let (rules, report) = load(&text, OnInvalid::Skip).unwrap();
    assert_eq!(rules, [ParamFlowRule::qps("a", 0, 1.0).item("ok", 2.0)]);
    assert_eq!(report.skipped.len(), 7);
    assert_eq!(report.active("paramFlow"), 1);
}

#[test]
fn a_rule_built_in_code_is_checked_alike() {
    let rule = ParamFlowRule {
        behavior: ControlBehavior::WarmUp,
        ..ParamFlowRule::qps("a", 0, f64::NAN)
            .item("a", 1.0)
            .item("b", -1.0)
    };
    let error = RuleSet::default()
        .with_rules::<ParamFlow>(vec![rule], &Settings::default(), OnInvalid::Refuse)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "paramFlow[0].count: NaN is not a finite number; give a number of calls\n\
         paramFlow[0].paramFlowItemList[1].count: -1 is negative; give a number of calls, 0 means none\n\
         paramFlow[0].controlBehavior: hot parameters do not warm up; give 0 (reject) or 2 (rateLimiter)"
    );
}

#[test]
fn what_a_rule_hardly_means_is_a_warning() {
    let table: &[(&str, &str)] = &[
        (
            r#""paramIdx": 0, "count": 0.5, "durationInSec": 3"#,
            "count: 0.5 per 3 s makes no whole call, so none can ever pass; for one call each 6 s write count 1 and durationInSec 6",
        ),
        (
            r#""paramIdx": 0, "count": 0.5, "durationInSec": 3, "accounting": "tokenBucket""#,
            "count: 0.5 per 3 s makes no whole call, so none can ever pass; for one call each 6 s write burstCount 1",
        ),
        (
            r#""paramIdx": 0, "count": 1, "grade": 0, "accounting": "tokenBucket""#,
            "accounting: not used: calls at once have no interval; leave it out",
        ),
        (
            r#""paramIdx": 0, "count": 0.5, "grade": 0"#,
            "count: 0.5 is below 1, so no call can ever run; give at least 1",
        ),
        (
            r#""paramIdx": 0"#,
            "count: missing, so no call may pass; write count",
        ),
        (
            r#""paramIdx": 0, "count": 1, "limitApp": "web""#,
            "limitApp: not used: a value is limited over the calls of all origins; leave it out",
        ),
        (
            r#""paramIdx": 0, "count": 1, "controlBehavior": 1"#,
            "controlBehavior: 1 is not known for hot parameters and refuses beyond the limit, as in Sentinel; write 0 (reject) or 2 (rateLimiter)",
        ),
        (
            r#""paramIdx": 0, "count": 1, "controlBehavior": 2, "burstCount": 1"#,
            "burstCount: not used: a queue has no burst; leave it out, or refuse at once (controlBehavior 0)",
        ),
        (
            r#""paramIdx": 0, "count": 1, "grade": 0, "controlBehavior": "queue""#,
            "controlBehavior: not used: a rule on concurrency refuses at once; leave it out, or count calls per second (grade 1)",
        ),
        (
            r#""paramIdx": 0, "count": 1, "paramFlowItemList": [{"object": "7", "count": 1, "classType": "com.example.User"}]"#,
            "paramFlowItemList[0].classType: com.example.User is no type that values are compared by, so the value is text; write int, double, boolean, char or String",
        ),
        (
            r#""paramIdx": 0, "count": 1, "paramFlowItemList": [{"object": "7", "count": 1, "classType": "int"}, {"object": "7", "count": 2, "classType": "long"}]"#,
            "paramFlowItemList: 7 is given twice, and the last counts; keep one",
        ),
    ];
    for (members, warning) in table {
        assert_eq!(
            warnings(members),
            [format!("paramFlow[0].{warning}")],
            "{members}"
        );
    }
    // A fraction of a call is one with a burst, and in a queue.
    for members in [
        r#""paramIdx": 0, "count": 0.5, "burstCount": 1"#,
        r#""paramIdx": 0, "count": 0.5, "controlBehavior": 2"#,
    ] {
        assert_eq!(warnings(members), Vec::<String>::new());
    }
}

#[test]
fn the_number_of_values_follows_the_duration_as_in_sentinel() {
    let values = |rule: ParamFlowRule| rule.max_values_or_default();
    let qps = ParamFlowRule::qps("a", 0, 1.0);
    assert_eq!(values(qps.clone()), 4_000);
    assert_eq!(values(qps.clone().duration_in_sec(10)), 40_000);
    assert_eq!(values(qps.clone().duration_in_sec(3_600)), 200_000);
    assert_eq!(values(qps.max_values(5)), 5);
    let at_once = ParamFlowRule::concurrency("a", 0, 1.0).duration_in_sec(10);
    assert_eq!(
        (at_once.grade, values(at_once)),
        (Grade::Concurrency, 4_000)
    );
}

#[test]
fn an_item_is_equal_by_what_it_says() {
    let item = |value: ParamValue, count| ParamItem { value, count };
    assert_eq!(item(7_i32.into(), 0.0), item(7_u64.into(), -0.0));
    assert_ne!(item(7_i32.into(), 1.0), item("7".into(), 1.0));
}

#[test]
fn an_accounting_is_read_by_name_and_number() {
    let window = || ParamFlowRule::qps("a", 0, 5.0);
    for (members, expected) in [
        (r#""accounting": "window""#, window()),
        (r#""accounting": 0"#, window()),
        (r#""accounting": null"#, window()),
        (r#""accounting": "token_bucket""#, window().token_bucket()),
        (
            r#""accounting": 2, "burstCount": 3"#,
            window().token_bucket().burst(3),
        ),
    ] {
        let members = format!(r#""paramIdx": 0, "count": 5, {members}"#);
        assert_eq!(rule(&members), expected, "{members}");
    }
}

#[test]
fn what_an_accounting_cannot_do_is_a_fault() {
    let table: &[(&str, &str)] = &[
        (
            r#""count": 5, "accounting": "strict""#,
            "accounting: strict counts in boxes, and a value has none; write tokenBucket, which is exact for values",
        ),
        (
            r#""count": 5, "accounting": "tokenBucket", "controlBehavior": 2"#,
            "accounting: a queue spaces the calls of a value and takes no tokens; leave it out, or write controlBehavior 0 (reject)",
        ),
        (
            r#""count": 5, "accounting": "bukket""#,
            "accounting: \"bukket\" is not known; write 0 (window), 1 (strict) or 2 (tokenBucket)",
        ),
        (
            r#""count": 1e-40, "accounting": "tokenBucket""#,
            "count: 0.0000000000000000000000000000000000000001 tokens per 1s, burst 0: too fine to be held exactly; give the rate in fewer digits",
        ),
        (
            r#""count": 5, "accounting": "tokenBucket", "paramFlowItemList": [{"object": "x", "count": 2}, {"object": "y", "count": 1e31}]"#,
            "paramFlowItemList[1].count: 10000000000000000000000000000000 tokens per 1s, burst 18446744073709551615: too fine to be held exactly; give the rate in fewer digits",
        ),
    ];
    for (members, fault) in table {
        let members = format!(r#""paramIdx": 0, {members}"#);
        let found = faults(&members);
        assert_eq!(found, [format!("paramFlow[0].{fault}")], "{members}");
    }
    let strict = ParamFlowRule {
        accounting: Accounting::Strict,
        ..ParamFlowRule::qps("a", 0, 1.0)
    };
    let loaded = RuleSet::default().with_rules::<ParamFlow>(
        vec![strict],
        &Settings::default(),
        OnInvalid::Refuse,
    );
    assert!(loaded.is_err());
}

#[test]
fn an_accounting_that_is_not_used_is_no_part_of_the_rule() {
    let text = r#"[{"resource": "a", "paramIdx": 0, "count": 1, "grade": 0, "accounting": 2}]"#;
    let (set, _) = RuleSet::default()
        .with_list("paramFlow", text, &Settings::default(), OnInvalid::Refuse)
        .unwrap();
    let written = set.write_list("paramFlow", Dialect::Golang);
    assert_eq!(written.left_out, []);
    let queue = ParamFlowRule::qps("a", 0, 1.0).rate_limiter(500);
    assert_eq!(queue.token_bucket().accounted(), None);
}

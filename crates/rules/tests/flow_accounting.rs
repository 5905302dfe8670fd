//! Flow rules that choose their accounting: what is read, what is refused, how
//! they are written, and what they count in.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::time::Duration;

use flowgate_core::{Accounting, Interval, Timestamp};
use flowgate_rules::flow::{FlowState, MemoryLimits};
use flowgate_rules::{Dialect, Flow, FlowRule, Kinds, LoadReport, OnInvalid, RuleSet, Settings};
use serde_json::{Value, json};

fn loaded(text: &str, dialect: Dialect) -> Result<(RuleSet, LoadReport), Vec<String>> {
    RuleSet::default()
        .with_list("flow", text, &Settings::default(), dialect)
        .map_err(|error| error.faults.iter().map(without_place).collect())
}

/// Faults and warnings of one rule for `a` with these members.
fn remarks_in(dialect: Dialect, members: &str) -> (Vec<String>, Vec<String>) {
    match loaded(&format!(r#"[{{"resource": "a", {members}}}]"#), dialect) {
        Ok((_, report)) => (vec![], report.warnings.iter().map(without_place).collect()),
        Err(faults) => (faults, vec![]),
    }
}

fn remarks(members: &str) -> (Vec<String>, Vec<String>) {
    remarks_in(Dialect::Sentinel, members)
}

fn without_place(remark: &flowgate_rules::Remark) -> String {
    let path = remark.path.trim_start_matches("flow[0].");
    format!("{path}: {}", remark.message)
}

fn rule(members: &str) -> FlowRule {
    let text = format!(r#"[{{"resource": "a", {members}}}]"#);
    let (set, _) = loaded(&text, Dialect::Sentinel).unwrap();
    set.table::<Flow>().entries()[0].rule().clone()
}

fn set(rules: Vec<FlowRule>) -> RuleSet {
    let none = RuleSet::default();
    let (set, _) = none
        .with_rules::<Flow>(rules, &Settings::default(), OnInvalid::Refuse)
        .unwrap();
    set
}

fn base() -> FlowRule {
    FlowRule::qps("a", 5.0)
}

#[test]
fn an_accounting_is_read_by_name_and_number() {
    for (members, expected) in [
        (r#""count": 5, "accounting": "window""#, base()),
        (r#""count": 5, "accounting": 0"#, base()),
        (r#""count": 5, "accounting": null"#, base()),
        (r#""count": 5, "accounting": 1"#, base().strict()),
        (r#""count": 5, "accounting": "STRICT""#, base().strict()),
        (
            r#""count": 5, "accounting": "strict", "statIntervalMs": 60000, "statSlidingWindowBucketCount": 6"#,
            base().strict().per_ms(60_000).boxes(6),
        ),
        (
            r#""count": 5, "accounting": "token_bucket", "burstCount": 9"#,
            base().token_bucket(9),
        ),
        (
            r#""count": 5, "accounting": 2, "burstCount": 9.0, "controlBehavior": 2"#,
            base().token_bucket(9).rate_limiter(500),
        ),
        (
            r#""count": 5, "accounting": "tokenBucket""#,
            FlowRule {
                accounting: Accounting::TokenBucket,
                ..base()
            },
        ),
    ] {
        assert_eq!(rule(members), expected, "{members}");
        let golang = members.replace("\"count\"", "\"threshold\"");
        let golang = golang.replace("statIntervalMs", "statIntervalInMs");
        if !golang.contains("controlBehavior") {
            let text = format!(r#"[{{"resource": "a", {golang}}}]"#);
            let (there, _) = loaded(&text, Dialect::Golang).unwrap();
            assert_eq!(
                *there.table::<Flow>().entries()[0].rule(),
                expected,
                "{text}"
            );
        }
    }
}

#[test]
fn sound_rules_of_every_accounting_load_without_a_word() {
    for members in [
        r#""count": 5, "accounting": "strict""#,
        r#""count": 5, "accounting": "strict", "statSlidingWindowBucketCount": 10"#,
        r#""count": 5, "accounting": "strict", "controlBehavior": 1"#,
        r#""count": 5, "accounting": "strict", "strategy": 1, "refResource": "b""#,
        r#""accounting": "strict", "lowMemUsageThreshold": 9, "highMemUsageThreshold": 1, "memLowWaterMarkBytes": 1, "memHighWaterMarkBytes": 2"#,
        r#""count": 0.5, "accounting": "tokenBucket""#,
        r#""count": 0, "accounting": "tokenBucket", "burstCount": 3"#,
        r#""count": 0.5, "accounting": "tokenBucket", "statIntervalMs": 86400000"#,
        r#""count": 5, "accounting": "tokenBucket", "burstCount": 1000000000000"#,
        r#""count": 5, "accounting": "tokenBucket", "strategy": 2, "refResource": "c", "limitApp": "web""#,
        r#""count": 5, "accounting": "tokenBucket", "controlBehavior": 2, "maxQueueingTimeMs": 0"#,
    ] {
        assert_eq!(remarks(members), (vec![], vec![]), "{members}");
    }
}

#[test]
fn what_an_accounting_cannot_do_is_a_fault() {
    const MEMORY: &str = r#""lowMemUsageThreshold": 9, "highMemUsageThreshold": 1, "memLowWaterMarkBytes": 1, "memHighWaterMarkBytes": 2"#;
    let queue = "accounting: a queue spaces its calls and is exact by itself; leave it out";
    let warm = "accounting: a token bucket does not warm up; write controlBehavior 0 (reject) or 2 (rateLimiter), or accounting window or strict";
    let bucket = |members: &str| format!(r#""count": 5, "accounting": "tokenBucket", {members}"#);
    for (members, fault) in [
        (
            r#""count": 5, "accounting": "exact""#.to_owned(),
            "accounting: \"exact\" is not known; write 0 (window), 1 (strict) or 2 (tokenBucket)",
        ),
        (
            r#""count": 5, "accounting": 3"#.to_owned(),
            "accounting: 3 is not known; write 0 (window), 1 (strict) or 2 (tokenBucket)",
        ),
        (
            r#""count": 5, "accounting": "strict", "controlBehavior": 2"#.to_owned(),
            queue,
        ),
        (
            r#""count": 5, "accounting": "strict", "controlBehavior": 3"#.to_owned(),
            queue,
        ),
        (
            r#""count": 5, "accounting": "strict", "statSlidingWindowBucketCount": 7"#.to_owned(),
            "statSlidingWindowBucketCount: 7 boxes do not divide 1000 ms into whole nanoseconds; give 1 to 1000 boxes that divide the interval, or leave it out",
        ),
        (bucket(r#""controlBehavior": 1"#), warm),
        (bucket(r#""controlBehavior": 3"#), warm),
        (
            format!(r#""accounting": "tokenBucket", {MEMORY}"#),
            "accounting: a token bucket does not follow the memory in use; leave out the memory fields, or write accounting window or strict",
        ),
        (
            bucket(r#""strategy": 1, "refResource": "b""#),
            "strategy: relate looks at another resource's count, and a bucket has none; write strategy 0 (direct), or accounting window or strict",
        ),
        (
            bucket(r#""burstCount": 0"#),
            "burstCount: 0 tokens let no call pass, ever; give at least 1 token, or leave it out for as many as count",
        ),
        (
            bucket(r#""burstCount": -3"#),
            "burstCount: -3 is negative; give at least 1 token, or leave it out for as many as count",
        ),
        (
            bucket(r#""burstCount": 1.5"#),
            "burstCount: 1.5 is not a whole number; give at least 1 token, or leave it out for as many as count",
        ),
        (
            r#""count": 0.1234567890123457, "accounting": 2, "burstCount": 18446744073709551615, "statIntervalMs": 4294967295"#.to_owned(),
            "burstCount: 0.1234567890123457 tokens per 4294967.295s, burst 18446744073709551615: too long to flow in; give a smaller burst, or the rate in fewer digits",
        ),
        (
            r#""count": 1e-40, "accounting": 2"#.to_owned(),
            "count: 0.0000000000000000000000000000000000000001 tokens per 1s, burst 1: too fine to be held exactly; give the rate in fewer digits",
        ),
        (
            r#""count": -1, "accounting": 2"#.to_owned(),
            "count: -1 is negative; give calls per second or at once, 0 means none",
        ),
    ] {
        assert_eq!(remarks(&members), (vec![fault.to_owned()], vec![]), "{members}");
    }
}

#[test]
fn what_a_rule_does_not_use_is_a_warning() {
    for (members, warning) in [
        (
            r#""count": 5, "burstCount": 9"#,
            "burstCount: not used: only a bucket holds tokens; write accounting tokenBucket, or leave it out",
        ),
        (
            r#""count": 5, "accounting": "strict", "burstCount": 9"#,
            "burstCount: not used: only a bucket holds tokens; write accounting tokenBucket, or leave it out",
        ),
        (
            r#""count": 5, "burstCount": -9"#,
            "burstCount: -9 is negative, but this rule does not use it",
        ),
        (
            r#""count": 5, "grade": 0, "accounting": "strict""#,
            "accounting: not used: calls at once have no interval; leave it out",
        ),
        (
            r#""count": 5, "accounting": "tokenBucket", "statIntervalMs": 60000, "statSlidingWindowBucketCount": 6"#,
            "statSlidingWindowBucketCount: not used: a token bucket has no boxes; leave it out",
        ),
        (
            r#""count": 5, "accounting": "tokenBucket", "maxQueueingTimeMs": 9"#,
            "maxQueueingTimeMs: not used: this rule has no queue; write controlBehavior 2 (rateLimiter), or leave it out",
        ),
        (
            r#""count": 0.5, "accounting": "strict""#,
            "count: 0.5 per second allows no whole call in 1000 ms, so none can ever pass; for one call each 2 s write accounting tokenBucket, controlBehavior 2 (rateLimiter) or count 1 with statIntervalMs, else give a larger count",
        ),
    ] {
        assert_eq!(
            remarks(members),
            (vec![], vec![warning.to_owned()]),
            "{members}"
        );
    }
}

#[test]
fn a_fault_has_its_place_and_speaks_the_dialect() {
    let error = RuleSet::default()
        .with_list(
            "flow",
            "[{\"resource\": \"a\", \"count\": 5,\n  \"accounting\": \"strict\", \"controlBehavior\": 2}]",
            &Settings::default(),
            OnInvalid::Refuse,
        )
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "flow[0].accounting: a queue spaces its calls and is exact by itself; leave it out (line 2, column 17)"
    );
    let golang = |members: &str| remarks_in(Dialect::Golang, members).0;
    assert_eq!(
        golang(
            r#""threshold": 5, "accounting": 2, "tokenCalculateStrategy": 1, "warmUpPeriodSec": 5"#
        ),
        [
            "accounting: a token bucket does not warm up; write tokenCalculateStrategy 0 (direct), or accounting window or strict"
        ]
    );
    assert_eq!(
        golang(r#""threshold": 5, "accounting": 2, "relationStrategy": 1, "refResource": "b""#),
        [
            "relationStrategy: relate looks at another resource's count, and a bucket has none; write relationStrategy 0 (current), or accounting window or strict"
        ]
    );
}

#[test]
fn rules_of_different_accountings_are_different_rules() {
    let rules = [
        base(),
        base().strict(),
        base().token_bucket(5),
        base().token_bucket(6),
        FlowRule {
            accounting: Accounting::TokenBucket,
            ..base()
        },
    ];
    for (index, rule) in rules.iter().enumerate() {
        assert!(rules[..index].iter().all(|before| before != rule));
    }
}

#[test]
fn buckets_that_mean_the_same_are_told() {
    let text = r#"[{"resource": "a", "count": 5.5, "accounting": "tokenBucket"},
                   {"resource": "a", "count": 5.5, "accounting": "tokenBucket", "burstCount": 5},
                   {"resource": "a", "count": 5.5, "accounting": "tokenBucket", "burstCount": 6},
                   {"resource": "a", "count": 5.5, "burstCount": 6},
                   {"resource": "a", "count": 5.5}]"#;
    let (_, report) = loaded(text, Dialect::Sentinel).unwrap();
    let warned: Vec<&str> = report.warnings.iter().map(|it| &*it.path).collect();
    assert_eq!(warned, ["flow[1]", "flow[3].burstCount", "flow[4]"]);
}

#[test]
fn a_strict_rule_has_a_view_of_its_own_and_a_bucket_none() {
    let strict = |ms, boxes| Interval::strict(Duration::from_millis(ms), boxes).ok();
    for (rule, view, limit) in [
        (base().strict(), strict(1_000, 50), 5),
        (base().strict().per_ms(1_000), strict(1_000, 50), 5),
        (base().strict().boxes(10), strict(1_000, 10), 5),
        (base().strict().per_ms(60_000), strict(60_000, 50), 5),
        (FlowRule::qps("a", 7.9).strict(), strict(1_000, 50), 7),
        (base().strict().warm_up(10), strict(1_000, 50), 5),
        (FlowRule::concurrency("a", 5.0).strict(), None, 5),
    ] {
        let state = FlowState::new(&rule, &Settings::default());
        assert_eq!((state.interval(), state.limit()), (view, limit), "{rule:?}");
    }
    let bucket = base().token_bucket(9).per_ms(60_000);
    let state = FlowState::new(&bucket, &Settings::default());
    assert_eq!((state.interval(), state.takes_tokens()), (None, true));
    // The second view may be longer; a strict second is one.
    let settings = Settings {
        interval_ms: 2_000,
        ..Settings::default()
    };
    let state = FlowState::new(&base().strict(), &settings);
    assert_eq!((state.interval(), state.limit()), (strict(1_000, 50), 5));
}

#[test]
fn a_bucket_takes_waits_and_is_given_back_to() {
    let rule = FlowRule::qps("a", 10.0).token_bucket(3).rate_limiter(100);
    let state = FlowState::new(&rule, &Settings::default());
    assert!(state.takes_tokens() && !state.paces());
    let now = Timestamp::from_millis(1_000_000);
    let waits = |granted: flowgate_core::token_bucket::Granted| granted.release.since(now);
    assert_eq!(state.take(now, 3, true).map(waits), Ok(Duration::ZERO));
    assert_eq!(state.tokens(now), (3.0, 3.0));
    let granted = state.take(now, 1, true).unwrap();
    assert_eq!(waits(granted), Duration::from_millis(100));
    let after = |may_wait| state.take(now, 1, may_wait).unwrap_err().retry_after;
    assert_eq!(after(true), Some(Duration::from_millis(100)));
    assert_eq!(after(false), Some(Duration::from_millis(200)));
    state.put_back(granted.taken, 1, now);
    assert_eq!(
        state.take(now, 1, true).map(waits),
        Ok(Duration::from_millis(100))
    );
    // One that refuses lets nobody wait, whatever it says of queueing.
    let rule = FlowRule::qps("a", 10.0).token_bucket(1);
    let state = FlowState::new(&rule, &Settings::default());
    assert!(state.take(now, 1, true).is_ok());
    assert!(state.take(now, 1, true).is_err());
}

#[test]
fn an_accounting_is_written_by_name_where_it_says_something() {
    let written = |rule: &FlowRule| serde_json::to_value(rule).unwrap();
    assert_eq!(written(&base()).get("accounting"), None);
    assert_eq!(written(&base().strict())["accounting"], "strict");
    let bucket = written(&base().token_bucket(9));
    assert_eq!(bucket["accounting"], "tokenBucket");
    assert_eq!(bucket["burstCount"], 9);
    let rules = set(vec![base(), base().token_bucket(9)]);
    let text = rules.write_list("flow", Dialect::Sentinel);
    let own: Vec<&str> = text.own.iter().map(String::as_str).collect();
    assert_eq!(own, ["flow.accounting", "flow.burstCount"]);
    let (read, _) = loaded(&text.text, Dialect::Sentinel).unwrap();
    assert_eq!(
        *read.table::<Flow>().entries()[1].rule(),
        base().token_bucket(9)
    );
}

#[test]
fn golang_has_no_word_for_an_accounting() {
    let limits = MemoryLimits {
        low_usage: 9.0,
        high_usage: 1.0,
        low_mark_bytes: 1,
        high_mark_bytes: 2,
    };
    let rules = set(vec![
        base(),
        base().strict(),
        base().token_bucket(9),
        FlowRule::qps("a", 0.0).memory(limits).strict(),
        // Not used: nothing is lost.
        FlowRule {
            burst_count: Some(7),
            ..FlowRule::qps("b", 5.0)
        },
    ]);
    let written = rules.write_list("flow", Dialect::Golang);
    let said: Vec<String> = written.left_out.iter().map(ToString::to_string).collect();
    let strict = "accounting: sentinel-golang counts in windows and knows no strict, so the limit would be another one; leave it out";
    assert_eq!(
        said,
        [
            format!("flow[1].{strict}"),
            format!("flow[2].{}", strict.replace("strict", "tokenBucket")),
            format!("flow[3].{strict}"),
        ]
    );
    assert_eq!(written.text.matches("resource").count(), 2);
    assert!(!written.text.contains("accounting"));
}

#[test]
fn the_schemas_know_the_fields() {
    for (dialect, count) in [(Dialect::Sentinel, "count"), (Dialect::Golang, "threshold")] {
        let schema = Kinds::standard().schema(dialect);
        let schema = jsonschema::draft202012::new(&schema).unwrap();
        let is_valid = |members: Value| {
            let mut rule = json!({"resource": "a", count: 5});
            for (name, value) in members.as_object().unwrap() {
                rule[name] = value.clone();
            }
            schema.is_valid(&json!({"flow": [rule]}))
        };
        for accounting in [
            json!("window"),
            json!("strict"),
            json!("tokenBucket"),
            json!(2),
            json!(null),
        ] {
            assert!(is_valid(json!({"accounting": accounting, "burstCount": 7})));
        }
        for accounting in [json!("exact"), json!(3), json!(true)] {
            assert!(!is_valid(json!({"accounting": accounting})), "{accounting}");
        }
        assert!(!is_valid(
            json!({"accounting": "tokenBucket", "burstCount": 0})
        ));
    }
}

#[test]
fn reports_count_accountings() {
    let text = r#"[{"resource": "a", "count": 1, "accounting": "strict"},
                   {"resource": "b", "count": 1, "accounting": "strict"},
                   {"resource": "c", "count": 1, "accounting": "tokenBucket"},
                   {"resource": "d", "count": 1, "grade": 0, "accounting": "strict"},
                   {"resource": "e", "count": 1}]"#;
    let (set, report) = loaded(text, Dialect::Sentinel).unwrap();
    let counts = report.kinds[0].accountings;
    assert_eq!((counts.strict, counts.token_bucket), (2, 1));
    let first = report.to_string();
    let first = first.lines().next().unwrap();
    assert_eq!(
        first,
        "flow: 5 in force (2 strict, 1 tokenBucket), 5 added, 0 changed, 0 kept, 0 removed"
    );
    // Of all that are in force, whichever were loaded.
    let (_, report) = set
        .with_list(
            "flow",
            r#"[{"resource": "e", "count": 1}]"#,
            &Settings::default(),
            OnInvalid::Refuse,
        )
        .unwrap();
    assert!(report.kinds[0].accountings.is_empty());
}

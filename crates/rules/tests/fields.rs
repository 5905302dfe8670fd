//! What each field accepts, refuses and warns of.

use flowgate_rules::field::FieldKind;
use flowgate_rules::{
    BreakerStrategy, ControlBehavior, Degrade, DegradeRule, Flow, FlowRule, Grade, Kinds, LimitApp,
    OnInvalid, RuleSet, Settings, Strategy,
};

/// Faults and warnings of one rule, without their places.
fn remarks(kind: &str, rule: &str) -> (Vec<String>, Vec<String>) {
    let text = format!("[{rule}]");
    let (_, report) = RuleSet::default()
        .with_list(kind, &text, &Settings::default(), OnInvalid::Skip)
        .unwrap_or_else(|error| panic!("{rule}: {error}"));
    let plain = |list: &[flowgate_rules::Remark]| -> Vec<String> {
        let prefix = format!("{kind}[0].");
        list.iter()
            .map(|r| format!("{}: {}", r.path.trim_start_matches(&prefix), r.message))
            .collect()
    };
    (plain(&report.skipped), plain(&report.warnings))
}

fn flow(members: &str) -> (Vec<String>, Vec<String>) {
    remarks(
        "flow",
        &format!(r#"{{"resource": "a", "grade": 1, {members}}}"#),
    )
}

fn degrade(members: &str) -> (Vec<String>, Vec<String>) {
    remarks("degrade", &format!(r#"{{"resource": "a", {members}}}"#))
}

fn flow_rule(members: &str) -> FlowRule {
    let text = format!(r#"[{{"resource": "a", {members}}}]"#);
    let (set, _) = RuleSet::default()
        .with_list("flow", &text, &Settings::default(), OnInvalid::Refuse)
        .unwrap_or_else(|error| panic!("{members}: {error}"));
    set.table::<Flow>().entries()[0].rule().clone()
}

fn degrade_rule(members: &str) -> DegradeRule {
    let text = format!(r#"[{{"resource": "a", {members}}}]"#);
    let (set, _) = RuleSet::default()
        .with_list("degrade", &text, &Settings::default(), OnInvalid::Refuse)
        .unwrap_or_else(|error| panic!("{members}: {error}"));
    set.table::<Degrade>().entries()[0].rule().clone()
}

const NONE: [&str; 0] = [];

#[test]
fn flow_fields_load_as_they_are_written() {
    let base = || FlowRule::qps("a", 5.0);
    for (members, rule) in [
        (r#""count": 5"#, base()),
        (
            r#""count": 5e0, "grade": 1.0, "warmUpPeriodSec": 10.0"#,
            base(),
        ),
        (
            r#""count": 5, "limitApp": " ", "refResource": "", "id": "x""#,
            base(),
        ),
        (r#""count": 5, "grade": 0"#, FlowRule::concurrency("a", 5.0)),
        (
            r#""count": 5, "grade": "THREAD""#,
            FlowRule::concurrency("a", 5.0),
        ),
        (
            r#""count": 5, "grade": "concurrency""#,
            FlowRule::concurrency("a", 5.0),
        ),
        (r#""count": 5, "limitApp": "web""#, base().limit_app("web")),
        (
            r#""count": 5, "limitApp": "other""#,
            base().limit_app("other"),
        ),
        (
            r#""count": 5, "strategy": 1, "refResource": "b""#,
            base().relate("b"),
        ),
        (
            r#""count": 5, "strategy": "chain", "refResource": "c""#,
            base().chain("c"),
        ),
        (r#""count": 5, "controlBehavior": "reject""#, base()),
        (
            r#""count": 5, "controlBehavior": 1, "warmUpPeriodSec": 3"#,
            base().warm_up(3),
        ),
        (
            r#""count": 5, "controlBehavior": "rate_limiter""#,
            base().rate_limiter(500),
        ),
        (
            r#""count": 5, "controlBehavior": 2, "maxQueueingTimeMs": 0"#,
            base().rate_limiter(0),
        ),
        (
            r#""count": 5, "controlBehavior": "WARM-UP-RATE-LIMITER", "maxQueueingTimeMs": 7"#,
            base().warm_up(10).rate_limiter(7),
        ),
        (
            r#""count": 5, "controlBehavior": 1, "warmUpColdFactor": 2"#,
            base().warm_up(10).cold_factor(2),
        ),
        (
            r#""count": 5, "regex": true, "controlBehavior": 3"#,
            base().regex().rate_limiter(500).warm_up(10),
        ),
    ] {
        assert_eq!(flow_rule(members), rule, "{members}");
    }
    assert_eq!(
        FlowRule::qps("a", 1.0).limit_app("other").limit_app,
        LimitApp::Other
    );
}

#[test]
fn flow_faults_say_what_was_found_and_what_would_do() {
    for (members, fault) in [
        (
            r#""count": -0.5"#,
            "count: -0.5 is negative; give calls per second or at once, 0 means none",
        ),
        (
            r#""count": true"#,
            "count: true is not a number; give calls per second or at once, 0 means none",
        ),
        (
            r#""count": "20""#,
            "count: \"20\" is text; write 20 without quotes",
        ),
        (
            r#""count": -1e999"#,
            "count: -1e999 is too large for a number; give calls per second or at once, 0 means none",
        ),
        (
            r#""count": 1, "limitApp": 3"#,
            "limitApp: 3 is not text; give an origin, \"other\" or \"default\"",
        ),
        (
            r#""count": 1, "strategy": 3"#,
            "strategy: 3 is not known; write 0 (direct), 1 (relate) or 2 (chain)",
        ),
        (
            r#""count": 1, "strategy": 1"#,
            "refResource: missing; strategy 1 (relate) needs the resource whose count decides",
        ),
        (
            r#""count": 1, "strategy": 2, "refResource": " ""#,
            "refResource: missing; strategy 2 (chain) needs the context that the rule is for",
        ),
        (
            r#""count": 1, "controlBehavior": -1"#,
            "controlBehavior: -1 is not known; write 0 (reject), 1 (warmUp), 2 (rateLimiter) or 3 (warmUpRateLimiter)",
        ),
        (
            r#""count": 1, "controlBehavior": "leaky""#,
            "controlBehavior: \"leaky\" is not known; write 0 (reject), 1 (warmUp), 2 (rateLimiter) or 3 (warmUpRateLimiter)",
        ),
        (
            r#""count": 1, "controlBehavior": [1]"#,
            "controlBehavior: a list is not known; write 0 (reject), 1 (warmUp), 2 (rateLimiter) or 3 (warmUpRateLimiter)",
        ),
        (
            r#""count": 1, "controlBehavior": 1.5"#,
            "controlBehavior: 1.5 is not a whole number; give 0 (reject), 1 (warmUp), 2 (rateLimiter) or 3 (warmUpRateLimiter)",
        ),
        (
            r#""count": 1, "controlBehavior": 1, "warmUpPeriodSec": 0"#,
            "warmUpPeriodSec: 0 leaves no time to warm up; give seconds, at least 1",
        ),
        (
            r#""count": 1, "controlBehavior": 2, "maxQueueingTimeMs": -5"#,
            "maxQueueingTimeMs: -5 is negative; give milliseconds, 0 means do not wait",
        ),
        (
            r#""count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 4294967296"#,
            "maxQueueingTimeMs: 4294967296 is above 4294967295; give milliseconds, 0 means do not wait",
        ),
        (
            r#""count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 1e40"#,
            "maxQueueingTimeMs: 1e40 is too large; give milliseconds, 0 means do not wait",
        ),
        (
            r#""count": 1, "regex": 1"#,
            "regex: 1 is not true or false; write one of them",
        ),
        (
            r#""count": 1, "clusterMode": "yes""#,
            "clusterMode: \"yes\" is not true or false; write one of them",
        ),
        (
            r#""count": 1, "id": {}"#,
            "id: an object is neither text nor a number; give text or a whole number, or leave it out",
        ),
        (
            r#""count": 1, "limitApp": "\ud800""#,
            "limitApp: unexpected end of hex escape; write valid Unicode text",
        ),
    ] {
        assert_eq!(flow(members).0, [fault], "{members}");
    }
}

#[test]
fn a_pattern_has_to_compile_if_it_is_one() {
    let rule = |resource: &str, regex: bool| {
        remarks(
            "flow",
            &format!(r#"{{"resource": "{resource}", "count": 1, "regex": {regex}}}"#),
        )
        .0
    };
    assert_eq!(rule("a(", false), NONE);
    assert_eq!(rule("/orders/.*", true), NONE);
    let advice = "correct it, or leave out regex to take it as a plain name";
    for (resource, reason) in [
        ("a(", "unclosed group"),
        ("a)|(b", "unopened group"),
        (
            "(?=a)",
            "look-around, including look-ahead and look-behind, is not supported",
        ),
        (
            "(a{500}){500}",
            "Compiled regex exceeds size limit of 1048576 bytes.",
        ),
    ] {
        assert_eq!(
            rule(resource, true),
            [format!(
                "resource: {resource} is no regular expression ({reason}); {advice}"
            )]
        );
    }
}

#[test]
fn b062_a_bad_value_is_refused_exactly_when_the_rule_uses_the_field() {
    for (members, is_fault) in [
        (r#""controlBehavior": 2, "maxQueueingTimeMs": -1"#, true),
        (r#""controlBehavior": 3, "maxQueueingTimeMs": -1"#, true),
        (r#""controlBehavior": 0, "maxQueueingTimeMs": -1"#, false),
        (r#""controlBehavior": 1, "maxQueueingTimeMs": -1"#, false),
        (r#""controlBehavior": 2, "maxQueueingTimeMs": 0"#, false),
        (r#""grade": 0, "maxQueueingTimeMs": -1"#, false),
        (
            r#""grade": 0, "controlBehavior": 2, "maxQueueingTimeMs": -1"#,
            false,
        ),
        (r#""grade": 0, "controlBehavior": -1"#, false),
        (r#""controlBehavior": 0, "warmUpPeriodSec": 0"#, false),
        (r#""controlBehavior": 0, "warmUpPeriodSec": -1"#, false),
        (r#""controlBehavior": 2, "warmUpPeriodSec": 0"#, false),
        (r#""controlBehavior": 1, "warmUpPeriodSec": -1"#, true),
        (r#""controlBehavior": 3, "warmUpPeriodSec": 0"#, true),
        (r#""controlBehavior": 2, "warmUpColdFactor": 1"#, false),
        (r#""controlBehavior": 3, "warmUpColdFactor": 1"#, true),
        (r#""strategy": 0, "refResource": """#, false),
        (r#""grade": 0, "strategy": 1"#, true),
        // A wrong type is a fault whether used or not.
        (r#""controlBehavior": 0, "maxQueueingTimeMs": "long""#, true),
        (r#""controlBehavior": 0, "maxQueueingTimeMs": 1.5"#, true),
    ] {
        let rule = format!(r#"{{"resource": "a", "count": 5, {members}}}"#);
        let (faults, _) = remarks("flow", &rule);
        assert_eq!(!faults.is_empty(), is_fault, "{members}: {faults:?}");
    }
}

// https://github.com/alibaba/Sentinel/pull/2609, for the other kinds. A negative
// wait is a fault of every hot-parameter rule, as in Sentinel.
#[test]
fn b062_a_bad_value_is_refused_exactly_when_a_rule_of_any_kind_uses_the_field() {
    for (kind, members, is_fault) in [
        ("paramFlow", r#""maxQueueingTimeMs": -1"#, true),
        (
            "paramFlow",
            r#""controlBehavior": 2, "maxQueueingTimeMs": 0"#,
            false,
        ),
        ("paramFlow", r#""durationInSec": 0"#, true),
        ("paramFlow", r#""grade": 0, "durationInSec": 0"#, false),
        ("paramFlow", r#""durationInSec": -1"#, true),
        ("paramFlow", r#""grade": 0, "durationInSec": -1"#, false),
        ("paramFlow", r#""burstCount": -1"#, true),
        (
            "paramFlow",
            r#""controlBehavior": 2, "burstCount": -1"#,
            false,
        ),
        ("paramFlow", r#""grade": 0, "burstCount": -1"#, false),
        ("paramFlow", r#""controlBehavior": -1"#, true),
        ("paramFlow", r#""grade": 0, "controlBehavior": -1"#, false),
        ("paramFlow", r#""maxValues": 0"#, true),
        ("paramFlow", r#""grade": 0, "maxValues": 0"#, true),
        ("isolation", r#""maxQueueingTimeMs": -1"#, true),
        (
            "isolation",
            r#""maxQueueingTimeMs": 0, "maxQueueLength": -1"#,
            false,
        ),
        (
            "isolation",
            r#""maxQueueingTimeMs": 5, "maxQueueLength": -1"#,
            true,
        ),
        ("degrade", r#""slowRatioThreshold": 7"#, true),
        ("degrade", r#""grade": 2, "slowRatioThreshold": 7"#, false),
        ("degrade", r#""minRequestAmount": 0"#, true),
        (
            "degrade",
            r#""grade": "consecutiveErrors", "minRequestAmount": 0"#,
            false,
        ),
        ("degrade", r#""statIntervalMs": 0"#, true),
        (
            "degrade",
            r#""grade": "consecutiveErrors", "statIntervalMs": 0"#,
            false,
        ),
        (
            "degrade",
            r#""grade": "consecutiveErrors", "statSlidingWindowBucketCount": 7"#,
            false,
        ),
        (
            "degrade",
            r#""grade": "consecutiveErrors", "statWindowCalls": -1"#,
            false,
        ),
        (
            "degrade",
            r#""backoffMultiplier": 2, "maxTimeWindow": 0"#,
            true,
        ),
        ("degrade", r#""maxTimeWindow": 3"#, false),
        ("degrade", r#""probeSuccessRatio": 7"#, false),
        ("degrade", r#""probeNum": 2, "probeSuccessRatio": 7"#, true),
    ] {
        let more = match kind {
            "paramFlow" => r#", "paramIdx": 0"#,
            "degrade" => r#", "timeWindow": 5"#,
            _ => "",
        };
        let rule = format!(r#"{{"resource": "a", "count": 5, {members}{more}}}"#);
        let (faults, _) = remarks(kind, &rule);
        assert_eq!(!faults.is_empty(), is_fault, "{kind} {members}: {faults:?}");
    }
}

#[test]
fn b060_warm_up_that_cannot_work_is_refused_and_the_good_one_is_active() {
    let text = r#"[
        {"resource": "a", "count": 1, "controlBehavior": 1, "warmUpColdFactor": 0},
        {"resource": "b", "count": 1, "controlBehavior": 1, "warmUpColdFactor": 1},
        {"resource": "c", "count": 1, "controlBehavior": 1, "warmUpColdFactor": 1.0001},
        {"resource": "d", "count": 1, "controlBehavior": 1, "warmUpPeriodSec": 0},
        {"resource": "e", "count": 9, "controlBehavior": 1, "warmUpColdFactor": 3, "warmUpPeriodSec": 10}
    ]"#;
    let (set, report) = RuleSet::default()
        .with_list("flow", text, &Settings::default(), OnInvalid::Skip)
        .unwrap();
    assert_eq!(
        set.table::<Flow>().entries()[0].rule(),
        &FlowRule::qps("e", 9.0).warm_up(10).cold_factor(3)
    );
    assert_eq!((set.table::<Flow>().len(), report.skipped.len()), (1, 4));
}

#[test]
fn b061_breakers_that_can_never_work_are_refused_with_the_field_named() {
    let good = r#""count": 0, "grade": 1, "timeWindow": 1"#;
    assert_eq!(degrade(good), (vec![], vec![]));
    assert_eq!(
        degrade(r#""count": 1.0, "grade": "errorRatio", "timeWindow": 1"#),
        (vec![], vec![])
    );
    for (members, fault) in [
        (
            r#""grade": 1, "count": -0.1, "timeWindow": 1"#,
            "count: -0.1 is no ratio; give a number from 0 to 1",
        ),
        (
            r#""grade": 1, "count": 1.1, "timeWindow": 1"#,
            "count: 1.1 is no ratio; give a number from 0 to 1",
        ),
        (
            r#""grade": 0, "count": 5, "slowRatioThreshold": 1.1, "timeWindow": 1"#,
            "slowRatioThreshold: 1.1 is no ratio; give a number from 0 to 1",
        ),
        (
            r#""grade": 2, "count": -1, "timeWindow": 1"#,
            "count: -1 is negative; give a number of errors",
        ),
        (
            r#""grade": 0, "count": -1, "timeWindow": 1"#,
            "count: -1 is negative; give the milliseconds from which on a call is slow",
        ),
        (
            r#""grade": 3, "count": 1, "timeWindow": 1"#,
            r#"grade: 3 is not known; write 0 (slowRatio), 1 (errorRatio), 2 (errorCount) or "consecutiveErrors""#,
        ),
        (
            r#""count": 1"#,
            "timeWindow: missing; give the seconds that the breaker stays open, at least 1, or milliseconds as timeWindowMs",
        ),
        (
            r#""count": 1, "timeWindow": 0"#,
            "timeWindow: 0 would close it at once; give the seconds that the breaker stays open, at least 1",
        ),
        (
            r#""count": 1, "timeWindow": -1"#,
            "timeWindow: -1 is negative; give the seconds that the breaker stays open, at least 1",
        ),
        (
            r#""count": 1, "timeWindow": 1, "minRequestAmount": 0"#,
            "minRequestAmount: 0 would open without a call; give a number of calls, at least 1",
        ),
        (
            r#""count": 1, "timeWindow": 1, "statIntervalMs": 0"#,
            "statIntervalMs: 0 looks at nothing; give milliseconds, at least 1",
        ),
        (
            r#""count": 1, "timeWindow": 1, "halfOpenTimeoutMs": 0"#,
            "halfOpenTimeoutMs: 0 gives every probe up at once; give milliseconds, at least 1, or leave it out",
        ),
        (
            r#""count": 1, "timeWindow": 1, "probeNum": 0"#,
            "probeNum: 0 would never close again; give a number of probes, at least 1, or leave it out",
        ),
    ] {
        assert_eq!(degrade(members).0, [fault], "{members}");
    }
    let unused = r#""grade": 1, "count": 1, "slowRatioThreshold": 7, "timeWindow": 1"#;
    assert_eq!(degrade(unused).0, NONE);
}

#[test]
fn degrade_fields_load_as_they_are_written() {
    for (members, rule) in [
        (
            r#""count": 200, "timeWindow": 10, "slowRatioThreshold": 0.5"#,
            DegradeRule::slow_ratio("a", 200.0, 0.5, 10),
        ),
        (
            r#""grade": 1, "count": 0.5, "timeWindow": 10, "minRequestAmount": 20"#,
            DegradeRule::error_ratio("a", 0.5, 10).min_requests(20),
        ),
        (
            r#""grade": "errorCount", "count": 3, "timeWindow": 1, "statIntervalMs": 5000"#,
            DegradeRule::error_count("a", 3.0, 1).stat_interval_ms(5000),
        ),
        (
            r#""count": 1, "timeWindow": 1, "probeNum": 2, "halfOpenTimeoutMs": 5, "regex": true"#,
            DegradeRule::slow_ratio("a", 1.0, 1.0, 1)
                .probes(2)
                .half_open_timeout_ms(5)
                .regex(),
        ),
    ] {
        assert_eq!(degrade_rule(members), rule, "{members}");
    }
}

#[test]
fn what_hardly_was_meant_is_a_warning() {
    let never = "so none can ever pass; for one call each 4 s write accounting tokenBucket, controlBehavior 2 (rateLimiter) or count 1 with statIntervalMs, else give a larger count";
    for (members, warnings) in [
        (r#""count": 0"#, vec![]),
        (r#""count": 1"#, vec![]),
        (r#""controlBehavior": 0"#, vec!["count: missing, so no call may pass; write count".to_owned()]),
        (r#""count": null"#, vec!["count: missing, so no call may pass; write count".to_owned()]),
        (r#""count": 0.25"#, vec![format!("count: 0.25 per second allows no whole call in 1000 ms, {never}")]),
        (r#""count": 0.25, "controlBehavior": 1"#, vec![format!("count: 0.25 per second allows no whole call in 1000 ms, {never}")]),
        (r#""count": 0.25, "controlBehavior": 2"#, vec![]),
        (r#""count": 0.25, "controlBehavior": 3"#, vec![]),
        (r#""count": 1, "controlBehavior": 9"#, vec!["controlBehavior: 9 is not known and refuses beyond the limit, as in Sentinel; write 0 (reject)".to_owned()]),
        (r#""count": 1, "limitApp": "a,b""#, vec!["limitApp: a flow rule is for one origin, and this name has a comma; write one rule for each origin".to_owned()]),
        (r#""count": 1, "refResource": "b""#, vec!["refResource: not used: strategy is 0 (direct); write strategy 1 (relate) or 2 (chain), or leave it out".to_owned()]),
        (r#""count": 1, "maxQueueingTimeMs": -1"#, vec!["maxQueueingTimeMs: -1 is negative, but this rule does not use it".to_owned()]),
    ] {
        assert_eq!(flow(members), (vec![], warnings), "{members}");
    }
    let at_once = remarks(
        "flow",
        r#"{"resource": "a", "grade": 0, "count": 0.5, "controlBehavior": 2}"#,
    );
    assert_eq!(
        at_once.1,
        [
            "count: 0.5 is below 1, so no call can ever run; give at least 1",
            "controlBehavior: not used: a rule on concurrency refuses at once; leave it out, or count calls per second (grade 1)",
        ]
    );
    assert_eq!(
        degrade(r#""timeWindow": 1, "limitApp": "web""#),
        (
            vec![],
            vec![
                "count: missing and taken as 0; write count".to_owned(),
                "limitApp: not used: a breaker counts the calls of all origins; leave it out"
                    .to_owned(),
            ]
        )
    );
}

#[test]
fn a_value_that_a_rule_does_not_use_is_a_warning() {
    for (kind, members, warning) in [
        (
            "flow",
            r#""warmUpPeriodSec": 0"#,
            "warmUpPeriodSec: 0 is below 1, but this rule does not use it",
        ),
        (
            "flow",
            r#""controlBehavior": "queue", "warmUpColdFactor": 1"#,
            "warmUpColdFactor: 1 is below 2, but this rule does not use it",
        ),
        (
            "flow",
            r#""maxQueueingTimeMs": 300"#,
            "maxQueueingTimeMs: not used: this rule has no queue; write controlBehavior 2 (rateLimiter), or leave it out",
        ),
        (
            "degrade",
            r#""grade": 2, "slowRatioThreshold": 7, "timeWindow": 1"#,
            "slowRatioThreshold: 7 is above 1, but this rule does not use it",
        ),
        (
            "degrade",
            r#""timeWindow": 5, "maxTimeWindow": 3"#,
            "maxTimeWindow: not used with a backoffMultiplier of 1, which keeps the open time as it is; leave it out",
        ),
        (
            "degrade",
            r#""timeWindow": 5, "probeSuccessRatio": 0.5"#,
            "probeSuccessRatio: not used with a single probe, which has to succeed; write probeNum too, or leave it out",
        ),
        (
            "isolation",
            r#""maxQueueLength": 7"#,
            "maxQueueLength: not used: without maxQueueingTimeMs nobody waits; write that too, or leave it out",
        ),
        (
            "paramFlow",
            r#""paramIdx": 0, "grade": 0, "durationInSec": 0"#,
            "durationInSec: 0 is below 1, but this rule does not use it",
        ),
        (
            "flow",
            r#""enabled": false, "mode": "observe""#,
            "mode: not used: enabled is false, which is mode off; leave enabled out to observe",
        ),
    ] {
        let rule = format!(r#"{{"resource": "a", "count": 5, {members}}}"#);
        assert_eq!(remarks(kind, &rule), (vec![], vec![warning.to_owned()]));
    }
    assert_eq!(flow(r#""count": 5, "maxQueueingTimeMs": 500"#).1, NONE);
}

#[test]
fn there_are_no_parts_of_errors() {
    assert_eq!(
        degrade(r#""grade": 2, "count": 2.5, "timeWindow": 1"#).1,
        ["count: 2.5 counts as 2, as there are no parts of errors; give a number of errors"]
    );
}

#[test]
fn a_star_in_a_plain_name_is_a_warning() {
    let warnings = |resource: &str, more: &str| {
        let rule = format!(r#"{{"resource": "{resource}", "count": 1{more}}}"#);
        remarks("flow", &rule).1
    };
    assert_eq!(
        warnings("/api/*", ""),
        [
            r#"resource: taken as a plain name; write "match": "glob" if it is a pattern, or "match": "exact" if it is none"#
        ]
    );
    assert_eq!(warnings("*", ""), NONE);
    assert_eq!(warnings("/api/a?b", ""), NONE);
    assert_eq!(warnings("/api/*", r#", "match": "exact""#), NONE);
    assert_eq!(warnings("/api/*", r#", "match": "glob""#), NONE);
}

#[test]
fn a_bad_pattern_is_told_by_the_field_that_makes_it_one() {
    for (field, written) in [
        (r#""match": "regex""#, "match"),
        (r#""match": "regex", "regex": false"#, "match"),
        (r#""match": "regex", "regex": true"#, "regex"),
    ] {
        let (faults, _) = remarks(
            "flow",
            &format!(r#"{{"resource": "a(", "count": 1, {field}}}"#),
        );
        let advice = format!("correct it, or leave out {written} to take it as a plain name");
        assert!(faults[0].ends_with(&advice), "{faults:?}");
    }
}

#[test]
fn flow_and_hot_parameters_have_the_same_names_of_behaviours() {
    for name in ["queue", "throttle", "throttling", "rateLimiter"] {
        let rule = flow_rule(&format!(r#""count": 1, "controlBehavior": "{name}""#));
        assert_eq!(rule.behavior, ControlBehavior::RateLimiter);
    }
    for kind in ["flow", "paramFlow"] {
        let more = if kind == "flow" {
            ""
        } else {
            r#", "paramIdx": 0"#
        };
        for name in ["direct", "default", "reject"] {
            let rule =
                format!(r#"{{"resource": "a", "count": 1, "controlBehavior": "{name}"{more}}}"#);
            assert_eq!(remarks(kind, &rule), (vec![], vec![]));
        }
    }
}

#[test]
fn a_value_with_a_limit_of_its_own_needs_both() {
    for (item, fault) in [
        (
            r#"{"object": "x"}"#,
            "paramFlowItemList[0].count: missing; give the limit of this value, 0 means none",
        ),
        (
            r#"{"count": 1}"#,
            "paramFlowItemList[0].object: missing; give the value as text",
        ),
    ] {
        let rule = format!(
            r#"{{"resource": "a", "paramIdx": 0, "count": 1, "paramFlowItemList": [{item}]}}"#
        );
        assert_eq!(remarks("paramFlow", &rule).0, [fault]);
    }
}

#[test]
fn half_a_call_per_second_is_enough_for_a_view_of_two_seconds() {
    let settings = Settings {
        interval_ms: 2000,
        ..Settings::default()
    };
    let (_, report) = RuleSet::default()
        .with_rules::<Flow>(vec![FlowRule::qps("a", 0.5)], &settings, OnInvalid::Refuse)
        .unwrap();
    assert_eq!(report.warnings, []);
}

#[test]
fn an_unknown_behaviour_is_reject_and_null_is_absent() {
    assert_eq!(
        flow_rule(r#""count": 1, "controlBehavior": 9"#).behavior,
        ControlBehavior::Reject
    );
    let nulls = r#""count": 1, "grade": null, "strategy": null, "controlBehavior": null, "limitApp": null, "regex": null, "id": null"#;
    assert_eq!(flow_rule(nulls), FlowRule::qps("a", 1.0));
}

/// The description is what the reader does: a field that is written out with
/// its described default means the same as one that is left out.
#[test]
fn described_defaults_and_modes_are_those_that_are_read() {
    for kind in Kinds::standard().specs() {
        let written: Vec<String> = kind
            .fields
            .iter()
            .filter_map(|field| Some(format!("\"{}\": {}", field.name, field.default?)))
            .filter(|member| !member.starts_with("\"count\""))
            .collect();
        let needed = match kind.name {
            "authority" => r#""resource": "a", "limitApp": "web""#,
            "system" => r#""mode": "enforce""#,
            "degrade" => r#""resource": "a", "count": 1, "timeWindow": 1"#,
            "paramFlow" => r#""resource": "a", "paramIdx": 0, "count": 1"#,
            _ => r#""resource": "a", "count": 1"#,
        };
        let text = format!("[{{{needed}}}, {{{needed}, {}}}]", written.join(", "));
        let (_, report) = RuleSet::default()
            .with_list(kind.name, &text, &Settings::default(), OnInvalid::Refuse)
            .unwrap();
        assert_eq!(report.duplicates.len(), 1, "{text}");
        for field in kind.fields {
            if let FieldKind::Mode(choices) = field.kind {
                assert!(
                    !choices.is_empty() && !field.advice.is_empty(),
                    "{}",
                    field.name
                );
            }
        }
    }
    for (number, (grade, strategy)) in [
        (Grade::Concurrency, Strategy::Direct),
        (Grade::Qps, Strategy::Relate),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!((grade as usize, strategy as usize), (number, number));
    }
    assert_eq!(
        (Strategy::Chain as u32, BreakerStrategy::ErrorCount as u32),
        (2, 2)
    );
}

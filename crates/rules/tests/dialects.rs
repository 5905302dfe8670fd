//! Sentinel's dialect and sentinel-golang's: which one a text is in, what its
//! rules mean, and what faults call its fields.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use flowgate_rules::{
    Degrade, DegradeRule, Dialect, Flow, FlowRule, LoadOptions, LoadReport, OnInvalid, RuleError,
    RuleSet, Settings, System, SystemRule,
};

type Loaded = Result<(RuleSet, LoadReport), RuleError>;

fn list(kind: &str, text: &str, options: impl Into<LoadOptions>) -> Loaded {
    RuleSet::default().with_list(kind, text, &Settings::default(), options)
}

fn document(text: &str) -> Loaded {
    RuleSet::default().with_document(text, &Settings::default(), OnInvalid::Refuse)
}

fn refused(loaded: Loaded) -> Vec<String> {
    let error = loaded.unwrap_err();
    error.faults.iter().map(ToString::to_string).collect()
}

fn flow(members: &str) -> FlowRule {
    let text = format!(r#"[{{"resource": "a", {members}}}]"#);
    let (set, report) =
        list("flow", &text, Dialect::Golang).unwrap_or_else(|error| panic!("{members}: {error}"));
    assert_eq!(report.dialect, Dialect::Golang);
    set.table::<Flow>().entries()[0].rule().clone()
}

fn breaker(members: &str) -> DegradeRule {
    let text = format!(r#"[{{"resource": "a", {members}}}]"#);
    let (set, _) = list("degrade", &text, Dialect::Golang)
        .unwrap_or_else(|error| panic!("{members}: {error}"));
    set.table::<Degrade>().entries()[0].rule().clone()
}

/// Faults and warnings of one rule in golang's dialect, without their places.
fn remarks(kind: &str, members: &str) -> Vec<String> {
    let options = LoadOptions {
        on_invalid: OnInvalid::Skip,
        dialect: Some(Dialect::Golang),
    };
    let text = format!(r#"[{{"resource": "a", {members}}}]"#);
    let (_, report) = list(kind, &text, options).unwrap();
    let prefix = format!("{kind}[0].");
    let all = report.skipped.iter().chain(&report.warnings);
    all.map(|r| format!("{}: {}", r.path.trim_start_matches(&prefix), r.message))
        .collect()
}

#[test]
fn a_field_of_one_dialect_tells_for_the_whole_document() {
    for (text, dialect) in [
        (
            r#"{"flow": [{"resource": "a", "count": 1}]}"#,
            Dialect::Sentinel,
        ),
        (
            r#"{"flow": [{"resource": "a", "threshold": 1}]}"#,
            Dialect::Golang,
        ),
        // The list of breakers tells for the flow list beside it.
        (
            r#"{"flow": [{"resource": "a", "controlBehavior": 1}],
                "degrade": [{"resource": "a", "count": 1, "timeWindow": 1}]}"#,
            Dialect::Sentinel,
        ),
        (
            r#"{"flow": [{"resource": "a", "controlBehavior": 1}],
                "degrade": [{"resource": "a", "retryTimeoutMs": 1, "statIntervalMs": 1}]}"#,
            Dialect::Golang,
        ),
        // What Flowgate adds decides nothing, and null is absent.
        (
            r#"{"degrade": [{"resource": "a", "threshold": 1, "retryTimeoutMs": 5, "statIntervalMs": 1,
                "halfOpenTimeoutMs": 3, "jitter": 0.5, "mode": "observe", "timeWindow": null}]}"#,
            Dialect::Golang,
        ),
        // What Sentinel's dashboard adds decides if nothing else does.
        (
            r#"{"flow": [{"resource": "a", "controlBehavior": 1, "gmtCreate": 3}]}"#,
            Dialect::Sentinel,
        ),
        (
            r#"{"flow": [{"resource": "a", "threshold": 1, "gmtCreate": 3, "clusterMode": false}]}"#,
            Dialect::Golang,
        ),
        (
            r#"{"flow": [{"ID": "x", "resource": "a"}]}"#,
            Dialect::Golang,
        ),
        (r#"{"flow": [], "degrade": []}"#, Dialect::Sentinel),
    ] {
        let (_, report) = document(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(report.dialect, dialect, "{text}");
    }
}

#[test]
fn fields_of_both_dialects_are_an_error_that_names_one_of_each() {
    assert_eq!(
        refused(document(
            r#"{"flow": [{"resource": "a", "count": 1}],
"degrade": [{"resource": "a", "maxAllowedRtMs": 200, "retryTimeoutMs": 1, "statIntervalMs": 1}]}"#
        )),
        [
            "flow[0].count: a field of Sentinel, and degrade[0].maxAllowedRtMs is one of sentinel-golang; write all rules in one dialect (sentinel-golang writes threshold) (line 1, column 29)",
            "degrade[0].maxAllowedRtMs: a field of sentinel-golang, and flow[0].count is one of Sentinel; write all rules in one dialect (Sentinel writes count) (line 2, column 31)",
        ]
    );
}

#[test]
fn a_text_in_both_dialects_shows_its_other_faults_too() {
    assert_eq!(
        refused(list(
            "flow",
            r#"[{"resource": "a", "count": -1},
{"resource": "b", "threshold": -2},
{"resource": "c", "threshold": 1, "grade": 7},
{"resource": "", "refResource": 5}]"#,
            OnInvalid::Refuse
        )),
        [
            "flow[0].count: a field of Sentinel, and flow[1].threshold is one of sentinel-golang; write all rules in one dialect (sentinel-golang writes threshold) (line 1, column 20)",
            "flow[0].count: -1 is negative; give calls per second or at once, 0 means none (line 1, column 29)",
            "flow[1].threshold: a field of sentinel-golang, and flow[0].count is one of Sentinel; write all rules in one dialect (Sentinel writes count) (line 2, column 19)",
            "flow[1].threshold: -2 is negative; give calls per second or at once, 0 means none (line 2, column 32)",
            "flow[3].resource: missing; give the name of the resource that the rule limits (line 4, column 14)",
            "flow[3].refResource: 5 is not text; give the name of a resource (relate) or of a context (chain) (line 4, column 33)",
        ]
    );
}

#[test]
fn a_text_of_no_dialect_is_sentinels_unless_it_means_two_things() {
    let plain = |text: &str| list("flow", text, OnInvalid::Refuse);
    assert_eq!(
        refused(plain(r#"[{"resource": "a", "controlBehavior": 1}]"#)),
        [
            "flow[0].controlBehavior: 1 is warmUp in Sentinel's rules and throttling in sentinel-golang's, and no field tells whose these are; write count (Sentinel) or threshold (sentinel-golang), or say the dialect (line 1, column 39)"
        ]
    );
    for told in [
        r#"[{"resource": "a", "controlBehavior": 1, "count": 5}]"#,
        r#"[{"resource": "a", "controlBehavior": 1}, {"resource": "b", "grade": 1}]"#,
        r#"[{"resource": "a", "controlBehavior": "warmUp"}]"#,
        r#"[{"resource": "a", "controlBehavior": 0}]"#,
        // sentinel-golang has no 2.
        r#"[{"resource": "a", "controlBehavior": 2}]"#,
        r#"[{"resource": "a"}]"#,
        r#"[{"resource": "a", "statIntervalMs": 60000}]"#,
        // In sentinel-golang's rules the memory fields would be unused.
        r#"[{"resource": "a", "lowMemUsageThreshold": 9, "highMemUsageThreshold": 3,
             "memLowWaterMarkBytes": 1, "memHighWaterMarkBytes": 2}]"#,
        "[]",
    ] {
        let (_, report) = plain(told).unwrap_or_else(|error| panic!("{told}: {error}"));
        assert_eq!(report.dialect, Dialect::Sentinel, "{told}");
    }
}

#[test]
fn a_dialect_that_is_told_settles_what_a_text_does_not() {
    let text = r#"[{"resource": "a", "controlBehavior": 1, "warmUpPeriodSec": 5}]"#;
    for (dialect, rule) in [
        (Dialect::Sentinel, FlowRule::qps("a", 0.0).warm_up(5)),
        (
            Dialect::Golang,
            FlowRule {
                warm_up_period_sec: 5,
                ..FlowRule::qps("a", 0.0).rate_limiter(0)
            },
        ),
    ] {
        let (set, report) = list("flow", text, dialect).unwrap();
        assert_eq!(report.dialect, dialect);
        assert_eq!(set.table::<Flow>().entries()[0].rule(), &rule);
    }
}

#[test]
fn a_field_of_the_other_dialect_than_was_told_is_refused_with_its_name_here() {
    let one = |kind, text, dialect: Dialect| refused(list(kind, text, dialect));
    assert_eq!(
        one(
            "flow",
            r#"[{"resource": "a", "count": 1, "grade": 1}]"#,
            Dialect::Golang
        ),
        [
            "flow[0].count: this is Sentinel's field; here it is threshold (line 1, column 20)",
            "flow[0].grade: this is Sentinel's field, and sentinel-golang has none such; leave it out (line 1, column 32)",
        ]
    );
    assert_eq!(
        one(
            "degrade",
            r#"[{"resource": "a", "count": 1, "timeWindow": 1, "retryTimeoutMs": 9}]"#,
            Dialect::Sentinel
        ),
        [
            "degrade[0].retryTimeoutMs: this is sentinel-golang's field; here it is timeWindow or timeWindowMs (line 1, column 49)"
        ]
    );
    assert_eq!(
        one(
            "flow",
            r#"[{"resource": "a", "threshhold": 1}]"#,
            Dialect::Golang
        ),
        ["flow[0].threshhold: unknown field; did you mean `threshold`? (line 1, column 20)"]
    );
}

#[test]
fn flow_rules_of_golang_mean_what_they_say() {
    let base = || FlowRule::qps("a", 5.0);
    for (members, rule) in [
        (r#""threshold": 5"#, base()),
        (
            r#""threshold": 5, "tokenCalculateStrategy": 0, "controlBehavior": 0, "statIntervalInMs": 0,
               "relationStrategy": 0, "refResource": "", "warmUpColdFactor": 0, "lowMemUsageThreshold": 0"#,
            base(),
        ),
        (
            r#""threshold": 5, "controlBehavior": 1, "maxQueueingTimeMs": 7"#,
            base().rate_limiter(7),
        ),
        // Absent is 0 there: paced, and none waits.
        (
            r#""threshold": 5, "controlBehavior": "throttling""#,
            base().rate_limiter(0),
        ),
        (
            r#""threshold": 5, "tokenCalculateStrategy": 1, "warmUpPeriodSec": 3, "warmUpColdFactor": 4"#,
            base().warm_up(3).cold_factor(4),
        ),
        (
            r#""threshold": 5, "tokenCalculateStrategy": "warmUp", "controlBehavior": 1, "warmUpPeriodSec": 3"#,
            base().warm_up(3).rate_limiter(0),
        ),
        (
            r#""threshold": 5, "statIntervalInMs": 60000"#,
            base().per_ms(60_000),
        ),
        (
            r#""threshold": 5, "relationStrategy": 1, "refResource": "b""#,
            base().relate("b"),
        ),
        (r#""threshold": 5, "regex": true"#, base().regex()),
        (r#""threshold": 5, "mode": "observe""#, base().observe()),
        (r#""ID": "x", "threshold": 5"#, base()),
    ] {
        assert_eq!(flow(members), rule, "{members}");
    }
    assert_eq!(flow(r#""ID": "x""#).head.id.as_deref(), Some("x"));
    let memory = r#""tokenCalculateStrategy": 2, "lowMemUsageThreshold": 1000, "highMemUsageThreshold": 100,
        "memLowWaterMarkBytes": 1024, "memHighWaterMarkBytes": 2048"#;
    assert_eq!(flow(memory).memory.unwrap().allowed(Some(1536)), 550.0);
}

#[test]
fn breakers_of_golang_mean_what_they_say() {
    for (members, rule) in [
        (
            r#""strategy": 0, "maxAllowedRtMs": 200, "threshold": 0.5, "retryTimeoutMs": 10000,
               "minRequestAmount": 10, "statIntervalMs": 10000, "statSlidingWindowBucketCount": 10, "probeNum": 3"#,
            DegradeRule::slow_ratio("a", 200.0, 0.5, 10)
                .min_requests(10)
                .stat_interval_ms(10_000)
                .buckets(10)
                .probes(3),
        ),
        // 0 is 1: a breaker is asked when a call has ended.
        (
            r#""strategy": 1, "threshold": 0.5, "retryTimeoutMs": 3000, "statIntervalMs": 1000,
               "statSlidingWindowBucketCount": 0, "probeNum": 0, "minRequestAmount": 0"#,
            DegradeRule::error_ratio("a", 0.5, 3).min_requests(1),
        ),
        (
            r#""strategy": "errorCount", "threshold": 7, "retryTimeoutMs": 1500, "statIntervalMs": 1000"#,
            DegradeRule::error_count("a", 7.0, 0)
                .min_requests(1)
                .time_window_ms(1_500),
        ),
    ] {
        assert_eq!(breaker(members), rule, "{members}");
    }
}

#[test]
fn system_rules_of_golang_mean_what_they_say() {
    let base = SystemRule::default;
    for (members, rule) in [
        (
            r#""metricType": 0, "triggerCount": 4.0, "strategy": 1"#,
            base().load(4.0),
        ),
        (
            r#""metricType": 1, "triggerCount": 250"#,
            base().avg_rt_ms(250.0),
        ),
        (
            r#""metricType": 2, "triggerCount": 20"#,
            base().concurrency(20),
        ),
        (
            r#""metricType": "inboundQPS", "triggerCount": 1000, "strategy": 0"#,
            base().qps(1000.0),
        ),
        (
            r#""metricType": 4, "triggerCount": 0.8, "strategy": -1"#,
            base().cpu(0.8),
        ),
    ] {
        let text = format!("[{{{members}}}]");
        let (set, _) = list("system", &text, OnInvalid::Refuse).unwrap();
        assert_eq!(
            set.table::<System>().entries()[0].rule(),
            &rule,
            "{members}"
        );
    }
    let faulty = r#"[{"metricType": 4, "triggerCount": 1.5},
{"metricType": 5, "triggerCount": 1},
{"triggerCount": -1},
{"triggerCount": 1, "strategy": 7},
{"triggerCount": 1, "qps": 1}]"#;
    assert_eq!(
        refused(list("system", faulty, Dialect::Golang)),
        [
            "system[0].triggerCount: 1.5 is above 1; give a share from 0 to 1, for example 0.8 for 80 % (line 1, column 36)",
            "system[1].metricType: 5 is not known; write 0 (load), 1 (avgRt), 2 (concurrency), 3 (inboundQps) or 4 (cpuUsage) (line 2, column 16)",
            "system[2].triggerCount: -1 is negative; give a number, at least 0 (line 3, column 18)",
            "system[3].strategy: 7 is no strategy; give 1 (BBR) or -1 (none) (line 4, column 33)",
            "system[4].qps: this is Sentinel's field; here it is triggerCount (line 5, column 21)",
        ]
    );
    assert_eq!(
        refused(list(
            "system",
            r#"[{"triggerCount": 1}]"#,
            Dialect::Sentinel
        )),
        [
            "system[0].triggerCount: this is sentinel-golang's field; here it is qps, maxThread, avgRt, highestSystemLoad or highestCpuUsage (line 1, column 3)"
        ]
    );
}

/// A list of callers is read the same in both, and nobody there would read it.
#[test]
fn a_kind_that_golang_does_not_have_is_in_neither_dialect() {
    let text = r#"{"authority": [{"resource": "a", "limitApp": "web", "strategy": 1}],
        "flow": [{"resource": "a", "threshold": 3}]}"#;
    let (set, report) = document(text).unwrap();
    assert_eq!(report.dialect, Dialect::Golang);
    let written = set.write(&["authority"], Dialect::Golang);
    assert_eq!((&*written.text, written.left_out.len()), ("{}\n", 1));
    let written = set.write(&["authority"], Dialect::Sentinel);
    assert!(
        written.text.contains(r#""limitApp": "web", "strategy": 1"#),
        "{}",
        written.text
    );
}

#[test]
fn faults_call_fields_as_golang_does() {
    let breaker = r#""retryTimeoutMs": 1, "statIntervalMs": 1000"#;
    for (kind, members, expected) in [
        (
            "flow",
            r#""threshold": -1"#.to_owned(),
            "threshold: -1 is negative; give calls per second or at once, 0 means none",
        ),
        (
            "flow",
            r#""threshold": 0.5"#.to_owned(),
            "threshold: 0.5 per second allows no whole call in 1000 ms, so none can ever pass; for one call each 2 s write accounting tokenBucket, controlBehavior 1 (throttling) or threshold 1 with statIntervalInMs, else give a larger threshold",
        ),
        (
            "flow",
            r#""threshold": 0.5, "statIntervalInMs": 9000"#.to_owned(),
            "threshold: 0.5 in 9000 ms is no whole call, so none can ever pass; give at least 1, and a longer statIntervalInMs, or write accounting tokenBucket",
        ),
        (
            "flow",
            r#""threshold": 1, "relationStrategy": 1"#.to_owned(),
            "refResource: missing; relationStrategy 1 (associated) needs the resource whose count decides",
        ),
        (
            "flow",
            r#""threshold": 1, "relationStrategy": 2"#.to_owned(),
            "relationStrategy: 2 is not known; write 0 (current) or 1 (associated)",
        ),
        (
            "flow",
            r#""threshold": 1, "tokenCalculateStrategy": 1"#.to_owned(),
            "warmUpPeriodSec: missing, which leaves no time to warm up; give seconds, at least 1",
        ),
        (
            "flow",
            r#""threshold": 1, "lowMemUsageThreshold": 5"#.to_owned(),
            "lowMemUsageThreshold: not used: write tokenCalculateStrategy 2 (memoryAdaptive), or leave out the memory fields",
        ),
        (
            "flow",
            r#""controlBehavior": 0"#.to_owned(),
            "threshold: missing, so no call may pass; write threshold",
        ),
        (
            "degrade",
            format!(r#""strategy": 1, "threshold": 1.5, {breaker}"#),
            "threshold: 1.5 is no ratio; give a number from 0 to 1",
        ),
        (
            "degrade",
            format!(r#""strategy": 0, "threshold": 1.5, {breaker}"#),
            "threshold: 1.5 is no ratio; give a number from 0 to 1",
        ),
        (
            "degrade",
            format!(
                r#""strategy": 0, "maxAllowedRtMs": 9007199254740993, "threshold": 1, {breaker}"#
            ),
            "maxAllowedRtMs: 9007199254740993 is above 9007199254740992; give the milliseconds from which on a call is slow",
        ),
        (
            "degrade",
            format!(r#""strategy": 2, "threshold": -1, {breaker}"#),
            "threshold: -1 is negative; give a number of errors",
        ),
        (
            "degrade",
            r#""threshold": 1, "statIntervalMs": 1000"#.to_owned(),
            "retryTimeoutMs: missing; give the milliseconds that the breaker stays open, at least 1",
        ),
        (
            "degrade",
            r#""threshold": 1, "retryTimeoutMs": 0, "statIntervalMs": 1000"#.to_owned(),
            "retryTimeoutMs: 0 would close it at once; give the milliseconds that the breaker stays open, at least 1",
        ),
        (
            "degrade",
            r#""threshold": 1, "retryTimeoutMs": 1"#.to_owned(),
            "statIntervalMs: missing; give milliseconds, at least 1",
        ),
        (
            "degrade",
            format!(r#""strategy": 3, "threshold": 1, {breaker}"#),
            "strategy: 3 is not known; write 0 (slowRequestRatio), 1 (errorRatio) or 2 (errorCount)",
        ),
    ] {
        assert_eq!(remarks(kind, &members), [expected], "{members}");
    }
}

#[test]
fn a_kind_by_its_name_in_golang_is_refused_with_the_name_here() {
    assert_eq!(
        refused(document(r#"{"circuitbreaker": []}"#)),
        ["circuitbreaker: sentinel-golang's name of a kind; here it is degrade (line 1, column 2)"]
    );
}

#[test]
fn two_rules_that_differ_only_in_what_neither_uses_are_a_warning() {
    let (set, report) = list(
        "flow",
        r#"[{"resource": "a", "count": 3},
{"resource": "a", "count": 3, "maxQueueingTimeMs": 7},
{"resource": "a", "count": 3, "controlBehavior": 2, "maxQueueingTimeMs": 7},
{"resource": "a", "count": 3, "mode": "observe"}]"#,
        OnInvalid::Refuse,
    )
    .unwrap();
    assert_eq!(set.table::<Flow>().len(), 4);
    let warnings: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "flow[1]: means the same as flow[0], written otherwise; remove one (line 2, column 1)",
            "flow[1].maxQueueingTimeMs: not used: this rule has no queue; \
             write controlBehavior 2 (rateLimiter), or leave it out (line 2, column 52)",
        ]
    );
    let (_, report) = list(
        "degrade",
        r#"[{"resource": "a", "grade": 1, "count": 0.5, "timeWindow": 3},
{"resource": "a", "grade": 1, "count": 0.5, "timeWindowMs": 3000, "slowRatioThreshold": 0.5}]"#,
        OnInvalid::Refuse,
    )
    .unwrap();
    assert_eq!(report.warnings.len(), 1);
}

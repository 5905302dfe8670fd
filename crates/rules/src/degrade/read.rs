//! How a circuit breaker is written in JSON, and what makes it valid.

use super::{BreakerState, BreakerStrategy, Degrade, DegradeRule};
use crate::Settings;
use crate::document::Fields;
use crate::field::{FieldKind, FieldSpec, Mode, Spelling};
use crate::head::Head;
use crate::kind::RuleKind;

const FIELDS: &[FieldSpec] = &[
    FieldSpec::new(
        "limitApp",
        FieldKind::Text,
        "accepted as in Sentinel; breakers do not look at it",
    )
    .default("\"default\"")
    .advice("leave it out"),
    FieldSpec::new(
        "grade",
        FieldKind::Mode(BreakerStrategy::CHOICES),
        "what is looked at",
    )
    .default("0")
    .advice("give 0 (slowRatio), 1 (errorRatio) or 2 (errorCount)"),
    FieldSpec::new(
        "count",
        FieldKind::Number,
        "milliseconds from which on a call is slow, the ratio of errors, or their number",
    )
    .default("0")
    .advice("give milliseconds (slowRatio), 0 to 1 (errorRatio) or a number of errors"),
    FieldSpec::new(
        "slowRatioThreshold",
        FieldKind::Number,
        "the ratio of slow calls that is too much",
    )
    .default("1.0")
    .advice("give a ratio from 0 to 1"),
    FieldSpec::new("timeWindow", FieldKind::Whole, "seconds that it stays open")
        .advice("give the seconds that the breaker stays open, at least 1"),
    FieldSpec::new(
        "minRequestAmount",
        FieldKind::Whole,
        "calls that there must have been before it opens",
    )
    .default("5")
    .advice("give a number of calls, at least 1")
    .shared(),
    FieldSpec::new(
        "statIntervalMs",
        FieldKind::Whole,
        "the span that is looked at",
    )
    .default("1000")
    .advice("give milliseconds, at least 1")
    .shared(),
    FieldSpec::new(
        "halfOpenTimeoutMs",
        FieldKind::Whole,
        "when a probe that has not come back is given up; absent: after the open time",
    )
    .advice("give milliseconds, at least 1, or leave it out")
    .shared(),
    FieldSpec::new(
        "probeNum",
        FieldKind::Whole,
        "how many probes there are, and that many must succeed; absent: one",
    )
    .advice("give a number of probes, at least 1, or leave it out")
    .shared(),
];

const SPELLINGS: &[Spelling] = &[
    Spelling {
        theirs: "strategy",
        ours: "write grade, 0 (slowRatio), 1 (errorRatio) or 2 (errorCount)",
    },
    Spelling {
        theirs: "threshold",
        ours: "write slowRatioThreshold (grade 0) or count (grades 1 and 2)",
    },
    Spelling {
        theirs: "maxAllowedRtMs",
        ours: "write count, the milliseconds from which on a call is slow",
    },
    Spelling {
        theirs: "retryTimeoutMs",
        ours: "write timeWindow, in seconds",
    },
    Spelling {
        theirs: "statSlidingWindowBucketCount",
        ours: "the window is one bucket, leave it out",
    },
];

impl RuleKind for Degrade {
    const NAME: &'static str = "degrade";
    const ABOUT: &'static str =
        "stops calling a resource for a while when it is slow or fails: a circuit breaker";
    type Rule = DegradeRule;
    type State = BreakerState;

    fn fields() -> &'static [FieldSpec] {
        FIELDS
    }

    fn spellings() -> &'static [Spelling] {
        SPELLINGS
    }

    fn parse(head: Head, fields: &mut Fields<'_>) -> DegradeRule {
        if !fields.has("count") {
            fields.warn("count", "missing and taken as 0; write count");
        }
        if !fields.has("timeWindow") {
            fields.fault(
                "timeWindow",
                "missing; give the seconds that the breaker stays open, at least 1",
            );
        }
        let origin = fields.text("limitApp").unwrap_or_default();
        if !matches!(origin.trim(), "" | "default") {
            fields.warn(
                "limitApp",
                "not used: a breaker counts the calls of all origins; leave it out",
            );
        }
        let grade: BreakerStrategy = fields.mode("grade").unwrap_or_default();
        DegradeRule {
            head,
            grade,
            count: fields.number("count").unwrap_or_default(),
            slow_ratio_threshold: fields.number("slowRatioThreshold").unwrap_or(1.0),
            time_window_sec: fields.u32("timeWindow", true).unwrap_or_default(),
            min_request_amount: fields
                .u32("minRequestAmount", true)
                .unwrap_or(DegradeRule::MIN_REQUEST_AMOUNT),
            stat_interval_ms: fields
                .u32("statIntervalMs", true)
                .unwrap_or(DegradeRule::STAT_INTERVAL_MS),
            half_open_timeout_ms: fields.u64("halfOpenTimeoutMs", true),
            probe_num: fields.u32("probeNum", true),
        }
    }

    fn validate(rule: &DegradeRule, _settings: &Settings, fields: &mut Fields<'_>) {
        check_count(rule, fields);
        if rule.grade == BreakerStrategy::SlowRatio {
            check_ratio("slowRatioThreshold", rule.slow_ratio_threshold, fields);
        }
        for (field, is_zero, message) in [
            (
                "timeWindow",
                rule.time_window_sec == 0,
                "0 never opens; give the seconds that the breaker stays open, at least 1",
            ),
            (
                "minRequestAmount",
                rule.min_request_amount == 0,
                "0 would open without a call; give a number of calls, at least 1",
            ),
            (
                "statIntervalMs",
                rule.stat_interval_ms == 0,
                "0 looks at nothing; give milliseconds, at least 1",
            ),
            (
                "halfOpenTimeoutMs",
                rule.half_open_timeout_ms == Some(0),
                "0 gives every probe up at once; give milliseconds, at least 1, or leave it out",
            ),
            (
                "probeNum",
                rule.probe_num == Some(0),
                "0 would never close again; give a number of probes, at least 1, or leave it out",
            ),
        ] {
            if is_zero {
                fields.fault(field, message);
            }
        }
    }

    fn head(rule: &DegradeRule) -> &Head {
        &rule.head
    }

    fn new_state(rule: &DegradeRule, _: &Settings) -> BreakerState {
        BreakerState::new(rule)
    }
}

fn check_count(rule: &DegradeRule, fields: &mut Fields<'_>) {
    let count = rule.count;
    let advice = match rule.grade {
        BreakerStrategy::ErrorRatio => return check_ratio("count", count, fields),
        BreakerStrategy::SlowRatio => "give the milliseconds from which on a call is slow",
        BreakerStrategy::ErrorCount => "give a number of errors",
    };
    if !count.is_finite() {
        fields.fault("count", format!("{count} is not a finite number; {advice}"));
    } else if count < 0.0 {
        fields.fault("count", format!("{count} is negative; {advice}"));
    }
}

fn check_ratio(field: &'static str, ratio: f64, fields: &mut Fields<'_>) {
    if !(0.0..=1.0).contains(&ratio) {
        fields.fault(
            field,
            format!("{ratio} is no ratio; give a number from 0 to 1"),
        );
    }
}

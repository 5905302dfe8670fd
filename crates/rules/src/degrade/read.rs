//! How a circuit breaker is written in JSON.

use super::circuit::Forced;
use super::{BreakerState, BreakerStrategy, Degrade, DegradeRule, check, golang};
use crate::Settings;
use crate::dialect::Golang;
use crate::document::Fields;
use crate::field::{FieldKind, FieldSpec, Mode};
use crate::head::Head;
use crate::idle::Idle;
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
    .advice("give 0 (slowRatio), 1 (errorRatio), 2 (errorCount) or \"consecutiveErrors\""),
    FieldSpec::new(
        "count",
        FieldKind::Number,
        "slowRatio: a call of more milliseconds is slow; errorRatio: more than this ratio of \
         errors opens it (1: when all fail); errorCount, consecutiveErrors: more than this number \
         of errors, or of errors in a row, opens it, so 5 opens at the sixth",
    )
    .default("0")
    .advice("give milliseconds (slowRatio), 0 to 1 (errorRatio) or a number of errors")
    .min(0),
    FieldSpec::new(
        "slowRatioThreshold",
        FieldKind::Number,
        "slowRatio: more than this ratio of slow calls opens it (1: when all are slow)",
    )
    .default("1.0")
    .advice("give a ratio from 0 to 1")
    .min(0)
    .max(1),
    FieldSpec::new("timeWindow", FieldKind::Whole, "seconds that it stays open")
        .advice("give the seconds that the breaker stays open, at least 1")
        .required_or("timeWindowMs"),
    FieldSpec::new(
        "timeWindowMs",
        FieldKind::Whole,
        "the same in milliseconds, instead of timeWindow",
    )
    .advice("give the milliseconds that the breaker stays open, at least 1")
    .shared()
    .added()
    .min(1),
    FieldSpec::new(
        "backoffMultiplier",
        FieldKind::Number,
        "how many times longer it stays open each time that it opens again without having closed",
    )
    .default("1.0")
    .advice("give a number of at least 1; 1 means always the same")
    .shared()
    .added()
    .min(1),
    FieldSpec::new(
        "maxTimeWindow",
        FieldKind::Whole,
        "the most seconds that it stays open by backoffMultiplier; absent: 3600",
    )
    .advice("give seconds, at least timeWindow, or leave it out")
    .shared()
    .added()
    .min(1),
    FieldSpec::new(
        "jitter",
        FieldKind::Number,
        "by what part of itself the open time may be longer or shorter, so that not all callers \
         come back at once",
    )
    .default("0.0")
    .advice("give a ratio from 0 to 1")
    .shared()
    .added()
    .min(0)
    .max(1),
    FieldSpec::new(
        "minRequestAmount",
        FieldKind::Whole,
        "calls that there must have been before it opens; consecutiveErrors does not look at it",
    )
    .default("5")
    .advice("give a number of calls, at least 1")
    .shared()
    .min(1),
    FieldSpec::new(
        "statIntervalMs",
        FieldKind::Whole,
        "the span that is looked at; consecutiveErrors looks at no span",
    )
    .default("1000")
    .advice("give milliseconds, at least 1")
    .shared()
    .min(1),
    FieldSpec::new(
        "statSlidingWindowBucketCount",
        FieldKind::Whole,
        "in how many boxes the span is counted: with 1 it begins anew each time, with more it \
         slides by a box",
    )
    .default("1")
    .advice("give a number of boxes from 1 to 1000")
    .shared()
    .added()
    .min(1)
    .max(1000),
    FieldSpec::new(
        "statWindowCalls",
        FieldKind::Whole,
        "looks at this many last calls instead of a span of time",
    )
    .advice("give a number of calls from 1 to 100000, or leave it out")
    .shared()
    .added()
    .min(1)
    .max(100_000),
    FieldSpec::new(
        "halfOpenTimeoutMs",
        FieldKind::Whole,
        "when a probe that has not come back is given up; absent: after the open time",
    )
    .advice("give milliseconds, at least 1, or leave it out")
    .shared()
    .added()
    .min(1),
    FieldSpec::new(
        "probeNum",
        FieldKind::Whole,
        "how many probes there are, and that many must succeed; absent: one",
    )
    .advice("give a number of probes, at least 1, or leave it out")
    .shared()
    .added()
    .min(1),
    FieldSpec::new(
        "probeSuccessRatio",
        FieldKind::Number,
        "the part of probeNum that has to succeed for it to close, and with less in reach it \
         opens again; absent: all",
    )
    .advice("give a ratio above 0 and up to 1, or leave it out")
    .shared()
    .added()
    .min(0)
    .max(1),
    FieldSpec::new(
        "force",
        FieldKind::Mode(Forced::CHOICES),
        "open or closed whatever calls do; absent: as calls go",
    )
    .advice("give open or closed, or leave it out")
    .shared()
    .added(),
];

impl RuleKind for Degrade {
    const NAME: &'static str = "degrade";
    const ABOUT: &'static str =
        "stops calling a resource for a while when it is slow or fails: a circuit breaker";
    const GUIDE: &'static str = include_str!("guide.md");
    type Rule = DegradeRule;
    type State = BreakerState;

    fn fields() -> &'static [FieldSpec] {
        FIELDS
    }

    fn golang() -> Option<Golang<Self>> {
        Some(golang::FORM)
    }

    fn parse(head: Head, fields: &mut Fields<'_>) -> DegradeRule {
        if !fields.has("count") {
            fields.warn("count", "missing and taken as 0; write count");
        }
        if !fields.has("timeWindow") && !fields.has("timeWindowMs") {
            fields.fault(
                "timeWindow",
                "missing; give the seconds that the breaker stays open, at least 1, \
                 or milliseconds as timeWindowMs",
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
        let looks_back = grade.looks_back();
        if grade != BreakerStrategy::SlowRatio {
            fields.unused("slowRatioThreshold");
        }
        DegradeRule {
            head,
            grade,
            count: fields.number("count").unwrap_or_default(),
            slow_ratio_threshold: fields.number("slowRatioThreshold").unwrap_or(1.0),
            time_window_sec: fields.u32("timeWindow", true).unwrap_or_default(),
            time_window_ms: fields.u64("timeWindowMs", true),
            backoff_multiplier: fields.number("backoffMultiplier").unwrap_or(1.0),
            max_time_window_sec: fields.u32("maxTimeWindow", true),
            jitter: fields.number("jitter").unwrap_or_default(),
            min_request_amount: fields
                .u32("minRequestAmount", looks_back)
                .unwrap_or(DegradeRule::MIN_REQUEST_AMOUNT),
            stat_interval_ms: fields
                .u32("statIntervalMs", looks_back)
                .unwrap_or(DegradeRule::STAT_INTERVAL_MS),
            stat_buckets: fields
                .u32("statSlidingWindowBucketCount", looks_back)
                .unwrap_or(1),
            stat_window_calls: fields.u32("statWindowCalls", looks_back),
            half_open_timeout_ms: fields.u64("halfOpenTimeoutMs", true),
            probe_num: fields.u32("probeNum", true),
            probe_success_ratio: fields.number("probeSuccessRatio"),
            force: fields.mode("force"),
        }
    }

    fn validate(rule: &DegradeRule, _: &Settings, fields: &mut Fields<'_>) {
        check::check(rule, fields);
    }

    fn normalized(rule: &DegradeRule) -> DegradeRule {
        rule.normalized()
    }

    fn head(rule: &DegradeRule) -> &Head {
        &rule.head
    }

    fn new_state(rule: &DegradeRule, settings: &Settings) -> BreakerState {
        BreakerState::new(rule, settings)
    }

    fn is_as_new(rule: &DegradeRule, state: &BreakerState, idle: Idle) -> bool {
        state.is_as_new(rule, idle.now)
    }
}

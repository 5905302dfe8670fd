//! Circuit breakers as sentinel-golang writes them.
//!
//! Its one `threshold` is Sentinel's `slowRatioThreshold` or `count`, by the
//! strategy, and the slowness of a call has a field of its own. The open time
//! is in milliseconds: whole seconds become `timeWindow`, others
//! `timeWindowMs`.

use super::{BreakerStrategy, Degrade, DegradeRule};
use crate::dialect::{Golang, GolangRule, GolangSpec};
use crate::document::Fields;
use crate::field::{Choice, FieldKind, FieldSpec, Mode};
use crate::head::Head;

const STRATEGY: &str = "strategy";
const THRESHOLD: &str = "threshold";
const RT_MAX: &str = "maxAllowedRtMs";
const OPEN: &str = "retryTimeoutMs";
const REQUESTS: &str = "minRequestAmount";
const INTERVAL: &str = "statIntervalMs";
const BOXES: &str = "statSlidingWindowBucketCount";
const PROBES: &str = "probeNum";

pub(super) const FORM: Golang<Degrade> = Golang {
    spec: GolangSpec {
        kind: "circuitbreaker",
        fields: FIELDS,
        names: &[
            ("count", THRESHOLD),
            ("count", RT_MAX),
            ("slowRatioThreshold", THRESHOLD),
            ("grade", STRATEGY),
            ("timeWindow", OPEN),
            ("timeWindowMs", OPEN),
        ],
    },
    parse,
    write,
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::new(
        STRATEGY,
        FieldKind::Mode(StrategyThere::CHOICES),
        "what is looked at",
    )
    .default("0")
    .advice("give 0 (slowRequestRatio), 1 (errorRatio) or 2 (errorCount)"),
    FieldSpec::new(
        THRESHOLD,
        FieldKind::Number,
        "the ratio of slow or failed calls, or the number of errors, that is too much",
    )
    .default("0")
    .min(0)
    .advice("give a ratio from 0 to 1 (slowRequestRatio, errorRatio) or a number of errors"),
    FieldSpec::new(
        RT_MAX,
        FieldKind::Whole,
        "slowRequestRatio: a call of more milliseconds is slow",
    )
    .default("0")
    .min(0)
    .advice("give the milliseconds from which on a call is slow"),
    FieldSpec::new(OPEN, FieldKind::Whole, "milliseconds that it stays open")
        .required()
        .min(1)
        .advice(OPEN_ADVICE),
    FieldSpec::new(
        REQUESTS,
        FieldKind::Whole,
        "calls that there must have been before it opens; 0 is 1",
    )
    .default("0")
    .min(0)
    .advice("give a number of calls"),
    FieldSpec::new(INTERVAL, FieldKind::Whole, "the span that is looked at")
        .required_or("statWindowCalls")
        .min(1)
        .advice("give milliseconds, at least 1"),
    FieldSpec::new(
        BOXES,
        FieldKind::Whole,
        "in how many boxes the span is counted; 0 is 1",
    )
    .default("0")
    .min(0)
    .advice("give a number of boxes up to 1000"),
    FieldSpec::new(
        PROBES,
        FieldKind::Whole,
        "how many probes have to succeed; 0 is 1",
    )
    .default("0")
    .min(0)
    .advice("give a number of probes"),
];

const OPEN_ADVICE: &str = "give the milliseconds that the breaker stays open, at least 1";

/// sentinel-golang's `strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum StrategyThere {
    #[default]
    SlowRequestRatio,
    ErrorRatio,
    ErrorCount,
}

impl Mode for StrategyThere {
    const ALL: &'static [Self] = &[Self::SlowRequestRatio, Self::ErrorRatio, Self::ErrorCount];
    const CHOICES: &'static [Choice] = &[
        Choice::new("slowRequestRatio", "the ratio of slow calls"),
        Choice::new("errorRatio", "the ratio of failed calls"),
        Choice::new("errorCount", "the number of failed calls"),
    ];
}

fn parse(head: Head, fields: &mut Fields<'_>) -> DegradeRule {
    let strategy: StrategyThere = fields.mode(STRATEGY).unwrap_or_default();
    let is_slow = strategy == StrategyThere::SlowRequestRatio;
    fields.rename("count", if is_slow { RT_MAX } else { THRESHOLD });
    if !fields.has(THRESHOLD) {
        fields.warn(THRESHOLD, "missing and taken as 0; write threshold");
    }
    let open_ms = fields.u64(OPEN, true);
    match open_ms {
        Some(0) => fields.fault(OPEN, format!("0 would close it at once; {OPEN_ADVICE}")),
        None => fields.fault(OPEN, format!("missing; {OPEN_ADVICE}")),
        Some(_) => {}
    }
    let time_window_sec = open_ms.and_then(whole_seconds);
    let calls = "statWindowCalls";
    if !fields.has(INTERVAL) && !fields.has(calls) {
        fields.fault(INTERVAL, "missing; give milliseconds, at least 1");
    }
    let threshold = fields.number(THRESHOLD).unwrap_or_default();
    let rt_max = rt_max(is_slow, fields);
    let positive = |number: &u32| *number > 0;
    let default = DegradeRule::default();
    DegradeRule {
        head,
        grade: match strategy {
            StrategyThere::SlowRequestRatio => BreakerStrategy::SlowRatio,
            StrategyThere::ErrorRatio => BreakerStrategy::ErrorRatio,
            StrategyThere::ErrorCount => BreakerStrategy::ErrorCount,
        },
        count: if is_slow { rt_max } else { threshold },
        slow_ratio_threshold: if is_slow {
            threshold
        } else {
            default.slow_ratio_threshold
        },
        time_window_sec: time_window_sec.unwrap_or_default(),
        time_window_ms: open_ms.filter(|_| time_window_sec.is_none()),
        // A breaker is asked when a call has ended, so 0 and 1 are the same.
        min_request_amount: fields.u32(REQUESTS, true).filter(positive).unwrap_or(1),
        stat_interval_ms: fields
            .u32(INTERVAL, true)
            .unwrap_or(default.stat_interval_ms),
        stat_buckets: fields.u32(BOXES, true).filter(positive).unwrap_or(1),
        probe_num: fields.u32(PROBES, true).filter(positive),
        backoff_multiplier: fields
            .number("backoffMultiplier")
            .unwrap_or(default.backoff_multiplier),
        max_time_window_sec: fields.u32("maxTimeWindow", true),
        jitter: fields.number("jitter").unwrap_or_default(),
        stat_window_calls: fields.u32(calls, true),
        half_open_timeout_ms: fields.u64("halfOpenTimeoutMs", true),
        probe_success_ratio: fields.number("probeSuccessRatio"),
        force: fields.mode("force"),
    }
}

/// Up to it a number with a fraction tells all whole ones apart.
const RT_EXACT_MAX: u64 = 1 << 53;

/// The slow limit as Sentinel has it, a number with a fraction. One that it
/// would round is a fault; it is 285,000 years.
fn rt_max(is_slow: bool, fields: &mut Fields<'_>) -> f64 {
    let rt_max = fields.u64(RT_MAX, is_slow).unwrap_or_default();
    if rt_max > RT_EXACT_MAX && is_slow {
        fields.fault(
            RT_MAX,
            format!(
                "{rt_max} is above {RT_EXACT_MAX}; give the milliseconds from which on a call is slow"
            ),
        );
    }
    rt_max as f64
}

/// Milliseconds as seconds, if nothing is left over.
fn whole_seconds(ms: u64) -> Option<u32> {
    let seconds = u32::try_from(ms / 1_000).ok()?;
    ms.is_multiple_of(1_000).then_some(seconds)
}

fn write(rule: &DegradeRule, there: &mut GolangRule) {
    let default = DegradeRule::default();
    refuse(rule, there);
    match rule.grade {
        BreakerStrategy::SlowRatio => {
            there.field(STRATEGY, StrategyThere::SlowRequestRatio as u8);
            there.field(THRESHOLD, rule.slow_ratio_threshold);
            let (whole, count) = (rule.count.floor().min(RT_EXACT_MAX as f64), rule.count);
            there.field(RT_MAX, whole);
            if whole != count {
                there.loses(
                    "count",
                    format!("{count} ms becomes {whole}, as sentinel-golang has whole ones up to {RT_EXACT_MAX}; give such a one"),
                );
            }
        }
        BreakerStrategy::ErrorRatio => {
            there.field(STRATEGY, StrategyThere::ErrorRatio as u8);
            there.field(THRESHOLD, rule.count);
        }
        BreakerStrategy::ErrorCount => {
            there.field(STRATEGY, StrategyThere::ErrorCount as u8);
            there.field(THRESHOLD, rule.count);
        }
        BreakerStrategy::ConsecutiveErrors => there.refuses(
            "grade",
            "sentinel-golang counts no errors in a row; write grade 2 (errorCount)",
        ),
    }
    let seconds = u64::from(rule.time_window_sec) * 1_000;
    there.field(OPEN, rule.time_window_ms.unwrap_or(seconds));
    there.field(REQUESTS, rule.min_request_amount);
    there.field(INTERVAL, rule.stat_interval_ms);
    there.field(BOXES, rule.stat_buckets);
    there.optional(PROBES, rule.probe_num);
    there.optional("maxTimeWindow", rule.max_time_window_sec);
    if rule.jitter != default.jitter {
        there.field("jitter", rule.jitter);
    }
    there.optional("halfOpenTimeoutMs", rule.half_open_timeout_ms);
    there.optional("probeSuccessRatio", rule.probe_success_ratio);
}

/// What makes it a breaker that opens or closes at another time than it would
/// there.
fn refuse(rule: &DegradeRule, there: &mut GolangRule) {
    if rule.force.is_some() {
        there.refuses(
            "force",
            "sentinel-golang would let calls decide; leave it out",
        );
    }
    if rule.stat_window_calls.is_some() {
        there.refuses(
            "statWindowCalls",
            "sentinel-golang looks at a span of time only; write statIntervalMs",
        );
    }
    if rule.backoff_multiplier != DegradeRule::default().backoff_multiplier {
        there.refuses(
            "backoffMultiplier",
            "sentinel-golang would ask again after the same time each time; leave it out",
        );
    }
    if rule.probe_success_ratio.is_some_and(|ratio| ratio < 1.0) {
        there.refuses(
            "probeSuccessRatio",
            "in sentinel-golang all probes have to succeed; leave it out",
        );
    }
}

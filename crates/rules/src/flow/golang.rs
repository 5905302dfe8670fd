//! Flow rules as sentinel-golang writes them.
//!
//! It has two fields for what Sentinel says with `controlBehavior`:
//!
//! | `tokenCalculateStrategy` | `controlBehavior` 0 (reject) | 1 (throttling) |
//! |---|---|---|
//! | 0 (direct) | reject | rateLimiter |
//! | 1 (warmUp) | warmUp | warmUpRateLimiter |
//! | 2 (memoryAdaptive) | reject, with memory limits | rateLimiter, with memory limits |
//!
//! It has no origins, no contexts, no accounting but that of windows, and no
//! flow rules on calls at once, for which it has isolation rules.

use flowgate_core::Accounting;

use super::accounting;
use super::interval::{BOXES_FIELD, FIELD as INTERVAL};
use super::memory::{self, HIGH_MARK, HIGH_USAGE, LOW_MARK, LOW_USAGE};
use super::{ControlBehavior, Flow, FlowRule, Grade, LimitApp, MemoryLimits, Strategy};
use crate::dialect::{Golang, GolangRule, GolangSpec};
use crate::document::Fields;
use crate::field::{Choice, FieldKind, FieldSpec, Mode};
use crate::head::Head;

const THRESHOLD: &str = "threshold";
const CALCULATE: &str = "tokenCalculateStrategy";
const CONTROL: &str = "controlBehavior";
const RELATION: &str = "relationStrategy";
const REFERENCE: &str = "refResource";
const WAIT: &str = "maxQueueingTimeMs";
const PERIOD: &str = "warmUpPeriodSec";
const FACTOR: &str = "warmUpColdFactor";
const INTERVAL_THERE: &str = "statIntervalInMs";

pub(super) const FORM: Golang<Flow> = Golang {
    spec: GolangSpec {
        kind: "flow",
        fields: FIELDS,
        names: &[
            ("count", THRESHOLD),
            ("strategy", RELATION),
            (INTERVAL, INTERVAL_THERE),
        ],
    },
    parse,
    write,
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::new(THRESHOLD, FieldKind::Number, "calls per statIntervalInMs")
        .default("0")
        .min(0)
        .advice("give calls per interval, 0 means none"),
    FieldSpec::new(
        CALCULATE,
        FieldKind::Mode(Calculate::CHOICES),
        "what the limit is at a time",
    )
    .default("0")
    .advice("give 0 (direct), 1 (warmUp) or 2 (memoryAdaptive)"),
    FieldSpec::new(
        CONTROL,
        FieldKind::Mode(Control::CHOICES),
        "what happens beyond the limit",
    )
    .default("0")
    .advice("give 0 (reject) or 1 (throttling)"),
    FieldSpec::new(
        RELATION,
        FieldKind::Mode(Relation::CHOICES),
        "whose count decides",
    )
    .default("0")
    .advice("give 0 (current) or 1 (associated)"),
    FieldSpec::new(
        REFERENCE,
        FieldKind::Text,
        "the other resource (associated)",
    )
    .advice("give the name of a resource"),
    FieldSpec::new(WAIT, FieldKind::Whole, "the longest wait in the queue")
        .default("0")
        .min(0)
        .advice("give milliseconds, 0 means do not wait"),
    FieldSpec::new(
        PERIOD,
        FieldKind::Whole,
        "seconds from cold to the full limit",
    )
    .advice("give seconds, at least 1"),
    FieldSpec::new(
        FACTOR,
        FieldKind::Whole,
        "how many times slower it is when cold; 0: the engine's",
    )
    .default("0")
    .advice("give a whole number of at least 2, or 0"),
    FieldSpec::new(
        INTERVAL_THERE,
        FieldKind::Whole,
        "the interval that threshold is for, in milliseconds; 0: a second",
    )
    .default("0")
    .min(0)
    .advice("give milliseconds, or 0 for a second"),
    FieldSpec::new(
        LOW_USAGE,
        FieldKind::Number,
        "the limit while little memory is in use (memoryAdaptive)",
    )
    .advice("give calls per interval"),
    FieldSpec::new(
        HIGH_USAGE,
        FieldKind::Number,
        "the limit while much memory is in use (memoryAdaptive)",
    )
    .advice("give calls per interval"),
    FieldSpec::new(
        LOW_MARK,
        FieldKind::Whole,
        "up to how many bytes in use it is little",
    )
    .advice("give bytes"),
    FieldSpec::new(
        HIGH_MARK,
        FieldKind::Whole,
        "from how many bytes in use on it is much",
    )
    .advice("give bytes"),
];

/// sentinel-golang's `tokenCalculateStrategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Calculate {
    #[default]
    Direct,
    WarmUp,
    MemoryAdaptive,
}

/// sentinel-golang's `controlBehavior`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Control {
    #[default]
    Reject,
    Throttling,
}

/// sentinel-golang's `relationStrategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Relation {
    #[default]
    Current,
    Associated,
}

impl Mode for Calculate {
    const ALL: &'static [Self] = &[Self::Direct, Self::WarmUp, Self::MemoryAdaptive];
    const CHOICES: &'static [Choice] = &[
        Choice::new("direct", "threshold"),
        Choice::new("warmUp", "less after a quiet time"),
        Choice::new("memoryAdaptive", "less the more memory is in use"),
    ];
}

impl Mode for Control {
    const ALL: &'static [Self] = &[Self::Reject, Self::Throttling];
    const CHOICES: &'static [Choice] = &[
        Choice::new("reject", "refuse what is beyond the limit"),
        Choice::new("throttling", "queue at an even pace"),
    ];
}

impl Mode for Relation {
    const ALL: &'static [Self] = &[Self::Current, Self::Associated];
    const CHOICES: &'static [Choice] = &[
        Choice::new("current", "the resource's own count decides"),
        Choice::new(
            "associated",
            "the count of the resource refResource decides",
        ),
    ];
}

fn parse(head: Head, fields: &mut Fields<'_>) -> FlowRule {
    let calculate: Calculate = fields.mode(CALCULATE).unwrap_or_default();
    let control: Control = fields.mode(CONTROL).unwrap_or_default();
    let warms_up = calculate == Calculate::WarmUp;
    let behavior = match (control, warms_up) {
        (Control::Reject, false) => ControlBehavior::Reject,
        (Control::Reject, true) => ControlBehavior::WarmUp,
        (Control::Throttling, false) => ControlBehavior::RateLimiter,
        (Control::Throttling, true) => ControlBehavior::WarmUpRateLimiter,
    };
    let memory = memory_limits(calculate, fields);
    let (accounting, burst_count) = accounting::parse(Grade::Qps, fields);
    let has_boxes = accounting::has_boxes(Grade::Qps, accounting, behavior);
    if !fields.has(THRESHOLD) && calculate != Calculate::MemoryAdaptive {
        fields.warn(THRESHOLD, "missing, so no call may pass; write threshold");
    }
    // Absent is 0 there, which no warm-up can do with.
    let period = fields.u32(PERIOD, warms_up);
    if warms_up && !fields.has(PERIOD) {
        fields.fault(
            PERIOD,
            "missing, which leaves no time to warm up; give seconds, at least 1",
        );
    }
    let relation: Relation = fields.mode(RELATION).unwrap_or_default();
    FlowRule {
        head,
        count: fields.number(THRESHOLD).unwrap_or_default(),
        strategy: match relation {
            Relation::Current => Strategy::Direct,
            Relation::Associated => Strategy::Relate,
        },
        ref_resource: fields
            .text(REFERENCE)
            .filter(|name| !name.trim().is_empty()),
        stat_interval_ms: fields.u32(INTERVAL_THERE, true).filter(|ms| *ms > 0),
        accounting,
        burst_count,
        boxes: fields.u32(BOXES_FIELD, has_boxes),
        memory,
        behavior,
        warm_up_period_sec: period.unwrap_or(FlowRule::WARM_UP_PERIOD_SEC),
        warm_up_cold_factor: fields.u32(FACTOR, warms_up).filter(|factor| *factor > 0),
        max_queueing_time_ms: match fields.u32(WAIT, behavior.paces()) {
            Some(wait) => wait,
            None if behavior.paces() => 0,
            None => FlowRule::MAX_QUEUEING_TIME_MS,
        },
        ..FlowRule::default()
    }
}

fn memory_limits(calculate: Calculate, fields: &mut Fields<'_>) -> Option<MemoryLimits> {
    let limits = memory::parse(Grade::Qps, fields);
    if calculate == Calculate::MemoryAdaptive {
        // Without any, each of the four is found missing.
        return limits.or(Some(MemoryLimits {
            low_usage: 0.0,
            high_usage: 0.0,
            low_mark_bytes: 0,
            high_mark_bytes: 0,
        }));
    }
    if limits.is_some() {
        fields.warn(
            LOW_USAGE,
            "not used: write tokenCalculateStrategy 2 (memoryAdaptive), or leave out the memory fields",
        );
    }
    None
}

fn write(rule: &FlowRule, there: &mut GolangRule) {
    if rule.grade == Grade::Concurrency {
        there.refuses(
            "grade",
            "sentinel-golang has no flow rules on calls at once; write an isolation rule",
        );
    }
    if rule.limit_app != LimitApp::Default {
        there.refuses(
            "limitApp",
            "sentinel-golang knows no origins, so the rule would be for all calls; leave it out",
        );
    }
    if rule.strategy == Strategy::Chain {
        there.refuses(
            "strategy",
            "sentinel-golang knows no contexts, so the rule would be for all calls; leave it out",
        );
    }
    if let Some(accounting @ (Accounting::Strict | Accounting::TokenBucket)) = rule.accounted() {
        there.refuses(
            accounting::FIELD,
            format!("sentinel-golang counts in windows and knows no {accounting}, so the limit would be another one; leave it out"),
        );
    }
    let calculate = match (rule.memory, rule.behavior.warms_up()) {
        (Some(_), _) => Calculate::MemoryAdaptive,
        (None, true) => Calculate::WarmUp,
        (None, false) => Calculate::Direct,
    };
    let control = match rule.behavior.paces() {
        true => Control::Throttling,
        false => Control::Reject,
    };
    there.field(CALCULATE, calculate as u8);
    there.field(CONTROL, control as u8);
    there.field(THRESHOLD, rule.count);
    if rule.strategy == Strategy::Relate {
        there.field(RELATION, Relation::Associated as u8);
    }
    there.optional(REFERENCE, rule.ref_resource.clone());
    there.optional(INTERVAL_THERE, rule.stat_interval_ms);
    there.optional(BOXES_FIELD, rule.boxes);
    if rule.behavior.warms_up() || rule.warm_up_period_sec != FlowRule::WARM_UP_PERIOD_SEC {
        there.field(PERIOD, rule.warm_up_period_sec);
    }
    there.optional(FACTOR, rule.warm_up_cold_factor);
    if rule.behavior.paces() || rule.max_queueing_time_ms != FlowRule::MAX_QUEUEING_TIME_MS {
        there.field(WAIT, rule.max_queueing_time_ms);
    }
    if let Some(memory) = rule.memory {
        there.field(LOW_USAGE, memory.low_usage);
        there.field(HIGH_USAGE, memory.high_usage);
        there.field(LOW_MARK, memory.low_mark_bytes);
        there.field(HIGH_MARK, memory.high_mark_bytes);
    }
}

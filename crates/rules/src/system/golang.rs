//! System rules as sentinel-golang writes them: one rule for each metric, where
//! Sentinel has one rule with a field for each.

use serde_json::Value;

use super::{System, SystemRule};
use crate::dialect::{Golang, GolangRule, GolangSpec};
use crate::document::Fields;
use crate::field::{Choice, FieldKind, FieldSpec, Mode};
use crate::head::Head;

const METRIC: &str = "metricType";
const TRIGGER: &str = "triggerCount";
const STRATEGY: &str = "strategy";

/// sentinel-golang's constants begin at -1, and 0 is neither.
const NO_STRATEGY: i8 = -1;
const BBR: i8 = 1;

pub(super) const FORM: Golang<System> = Golang {
    spec: GolangSpec {
        kind: "system",
        fields: FIELDS,
        names: &[
            ("highestSystemLoad", TRIGGER),
            ("avgRt", TRIGGER),
            ("maxThread", TRIGGER),
            ("qps", TRIGGER),
            ("highestCpuUsage", TRIGGER),
        ],
    },
    parse,
    write,
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::new(
        METRIC,
        FieldKind::Mode(Metric::CHOICES),
        "what triggerCount is about",
    )
    .default("0")
    .advice("give 0 (load), 1 (avgRT), 2 (concurrency), 3 (inboundQPS) or 4 (cpuUsage)"),
    FieldSpec::new(
        TRIGGER,
        FieldKind::Number,
        "a load, milliseconds, calls at once, calls per second, or a share from 0 to 1",
    )
    .default("0")
    .min(0)
    .advice("give a number of at least 0"),
    FieldSpec::new(
        STRATEGY,
        FieldKind::Whole,
        "-1: refuse, 1: let in what the machine can do (BBR); here load always goes by BBR, and processor use never",
    )
    .advice("give -1 (none) or 1 (BBR), or leave it out"),
];

/// sentinel-golang's `metricType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Metric {
    #[default]
    Load,
    AvgRt,
    Concurrency,
    InboundQps,
    CpuUsage,
}

impl Mode for Metric {
    const ALL: &'static [Self] = &[
        Self::Load,
        Self::AvgRt,
        Self::Concurrency,
        Self::InboundQps,
        Self::CpuUsage,
    ];
    const CHOICES: &'static [Choice] = &[
        Choice::new("load", "load of the last minute"),
        Choice::new("avgRT", "mean response time in milliseconds"),
        Choice::new("concurrency", "inbound calls at once"),
        Choice::new("inboundQPS", "inbound calls per second"),
        Choice::new("cpuUsage", "share of the processors, 0 to 1"),
    ];
}

fn parse(head: Head, fields: &mut Fields<'_>) -> SystemRule {
    if !fields.has(TRIGGER) {
        fields.warn(TRIGGER, "missing and taken as 0; write triggerCount");
    }
    let metric: Metric = fields.mode(METRIC).unwrap_or_default();
    check_strategy(metric, fields);
    let trigger = fields.number(TRIGGER).unwrap_or_default();
    if trigger < 0.0 {
        fields.fault(
            TRIGGER,
            format!("{trigger} is negative; give a number of at least 0"),
        );
    }
    let mut rule = SystemRule {
        head,
        ..SystemRule::default()
    };
    match metric {
        Metric::Load => rule.highest_system_load = Some(trigger),
        Metric::AvgRt => rule.avg_rt_ms = Some(trigger),
        Metric::InboundQps => rule.qps = Some(trigger),
        Metric::CpuUsage => rule.highest_cpu_usage = Some(trigger),
        Metric::Concurrency => rule.max_thread = Some(places(trigger, fields)),
    }
    rule
}

/// Whole calls: a part of one has no place.
fn places(trigger: f64, fields: &mut Fields<'_>) -> u64 {
    if trigger.fract() != 0.0 {
        let below = trigger.floor();
        fields.warn(
            TRIGGER,
            format!("{trigger} is no whole number of calls, and is taken as {below}"),
        );
    }
    // The cast takes what is above the largest number for that.
    trigger as u64
}

fn check_strategy(metric: Metric, fields: &mut Fields<'_>) {
    let Some(strategy) = fields.number(STRATEGY) else {
        return;
    };
    let is_bbr = strategy == f64::from(BBR);
    if !is_bbr && strategy != 0.0 && strategy != f64::from(NO_STRATEGY) {
        fields.fault(
            STRATEGY,
            format!("{strategy} is not known; write -1 (none) or 1 (BBR), or leave it out"),
        );
        return;
    }
    match metric {
        Metric::Load if !is_bbr => fields.warn(
            STRATEGY,
            "not heeded: above the load what the machine can do is let in all the same; write 1 (BBR)",
        ),
        Metric::CpuUsage if is_bbr => fields.warn(
            STRATEGY,
            "not heeded: with processors that busy nothing is let in; write -1 (none)",
        ),
        _ => {}
    }
}

fn write(rule: &SystemRule, there: &mut GolangRule) {
    let number = |threshold: Option<f64>| threshold.map(Value::from);
    let mut is_first = true;
    for (metric, trigger, strategy) in [
        (Metric::Load, number(rule.highest_system_load), Some(BBR)),
        (Metric::AvgRt, number(rule.avg_rt_ms), None),
        (Metric::Concurrency, rule.max_thread.map(Value::from), None),
        (Metric::InboundQps, number(rule.qps), None),
        (
            Metric::CpuUsage,
            number(rule.highest_cpu_usage),
            Some(NO_STRATEGY),
        ),
    ] {
        let Some(trigger) = trigger else { continue };
        if !is_first {
            there.another();
        }
        is_first = false;
        there.field(METRIC, metric as u8);
        there.field(TRIGGER, trigger);
        there.optional(STRATEGY, strategy);
    }
    if is_first {
        there.refuses(
            "qps",
            "the rule looks at nothing, which sentinel-golang has no word for; leave it out",
        );
    }
}

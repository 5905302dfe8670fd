//! System rules as sentinel-golang writes them: one figure for each rule.
//!
//! | `metricType` | is here | BBR with `strategy` 1 |
//! |---|---|---|
//! | 0 (load) | `highestSystemLoad` | yes |
//! | 1 (avgRt) | `avgRt` | |
//! | 2 (concurrency) | `maxThread` | |
//! | 3 (inboundQps) | `qps` | |
//! | 4 (cpuUsage) | `highestCpuUsage` | yes |
//!
//! `strategy` is -1 for none; 0, which it is where it is left out, is none too.

use super::read::{places, threshold};
use super::{Bbr, System, SystemRule};
use crate::dialect::{Golang, GolangRule, GolangSpec};
use crate::document::Fields;
use crate::field::{Choice, FieldKind, FieldSpec, Mode};
use crate::head::Head;

const METRIC: &str = "metricType";
const TRIGGER: &str = "triggerCount";
const STRATEGY: &str = "strategy";

pub(super) const FORM: Golang<System> = Golang {
    spec: GolangSpec {
        kind: "system",
        fields: FIELDS,
        names: &[
            ("qps", TRIGGER),
            ("maxThread", TRIGGER),
            ("avgRt", TRIGGER),
            ("highestSystemLoad", TRIGGER),
            ("highestCpuUsage", TRIGGER),
            ("bbr", STRATEGY),
        ],
    },
    parse,
    write,
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::new(
        METRIC,
        FieldKind::Mode(Metric::CHOICES),
        "what is looked at",
    )
    .default("0")
    .advice("give 0 (load), 1 (avgRt), 2 (concurrency), 3 (inboundQps) or 4 (cpuUsage)"),
    FieldSpec::new(TRIGGER, FieldKind::Number, "what it may be at most")
        .min(0)
        .required()
        .advice("give a number, at least 0"),
    FieldSpec::new(
        STRATEGY,
        FieldKind::Whole,
        "1: BBR, for load and processor use; -1 or 0: none",
    )
    .default("0")
    .advice("give 1 (BBR) or -1 (none)"),
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

impl Metric {
    fn field_here(self) -> &'static str {
        match self {
            Metric::Load => "highestSystemLoad",
            Metric::AvgRt => "avgRt",
            Metric::Concurrency => "maxThread",
            Metric::InboundQps => "qps",
            Metric::CpuUsage => "highestCpuUsage",
        }
    }
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
        Choice::new("avgRt", "mean response time in milliseconds"),
        Choice::new("concurrency", "inbound calls at once"),
        Choice::new("inboundQps", "inbound calls per second"),
        Choice::new("cpuUsage", "share of the processors, 0 to 1"),
    ];
}

fn parse(head: Head, fields: &mut Fields<'_>) -> SystemRule {
    let metric: Metric = fields.mode(METRIC).unwrap_or_default();
    fields.rename(metric.field_here(), TRIGGER);
    if !fields.has(TRIGGER) {
        fields.fault(TRIGGER, "missing; give a number, at least 0");
    } else if let Some(trigger @ ..0.0) = fields.number(TRIGGER) {
        // -1 is off in Sentinel's rules only.
        let message = format!("{trigger} is negative; give a number, at least 0");
        fields.fault(TRIGGER, message);
    }
    let strategy = fields.number(STRATEGY).unwrap_or_default();
    if ![-1.0, 0.0, 1.0].contains(&strategy) {
        let message = format!("{strategy} is no strategy; give 1 (BBR) or -1 (none)");
        fields.fault(STRATEGY, message);
    }
    let is_bbr = strategy == 1.0;
    let mut rule = SystemRule {
        head,
        // What the metric does not use is as it is when left out here.
        bbr: match metric {
            Metric::Load => Bbr::of(is_bbr, false),
            Metric::CpuUsage => Bbr::of(true, is_bbr),
            _ => Bbr::default(),
        },
        ..SystemRule::default()
    };
    match metric {
        Metric::Concurrency => rule.max_thread = places(TRIGGER, fields),
        Metric::Load => rule.highest_system_load = threshold(TRIGGER, fields),
        Metric::AvgRt => rule.avg_rt_ms = threshold(TRIGGER, fields),
        Metric::InboundQps => rule.qps = threshold(TRIGGER, fields),
        Metric::CpuUsage => rule.highest_cpu_usage = threshold(TRIGGER, fields),
    }
    rule
}

fn write(rule: &SystemRule, there: &mut GolangRule) {
    let SystemRule {
        head: _,
        highest_system_load,
        highest_cpu_usage,
        qps,
        avg_rt_ms,
        max_thread,
        bbr,
    } = rule;
    let strategy = |is_bbr: bool| Some(if is_bbr { 1 } else { -1 });
    let figures = [
        (Metric::InboundQps, *qps, None),
        (
            Metric::Concurrency,
            max_thread.map(|calls| calls as f64),
            None,
        ),
        (Metric::AvgRt, *avg_rt_ms, None),
        (
            Metric::Load,
            *highest_system_load,
            strategy(bbr.is_on_load()),
        ),
        (
            Metric::CpuUsage,
            *highest_cpu_usage,
            strategy(bbr.is_on_cpu()),
        ),
    ];
    let mut is_first = true;
    for (metric, limit, strategy) in figures {
        let Some(limit) = limit else { continue };
        if !std::mem::take(&mut is_first) {
            there.another();
        }
        there.field(METRIC, metric as u8);
        there.field(TRIGGER, limit);
        there.optional(STRATEGY, strategy);
    }
    if is_first {
        there.refuses("qps", "the rule looks at nothing; leave it out");
    }
}

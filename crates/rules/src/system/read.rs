//! How a system rule is written in JSON, and what makes it valid.

use super::{Bbr, System, SystemRule, SystemState, golang};
use crate::Settings;
use crate::dialect::Golang;
use crate::document::Fields;
use crate::field::{FieldKind, FieldSpec, Mode};
use crate::head::Head;
use crate::kind::{RuleKind, Scope};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::new(
        "highestSystemLoad",
        FieldKind::Number,
        "load of the last minute above which no more is let in than the machine can do; -1: off",
    )
    .default("-1")
    .advice("give a load, for example 4.0, or leave it out"),
    FieldSpec::new(
        "highestCpuUsage",
        FieldKind::Number,
        "share of the processors, 0 to 1, above which nothing is let in; -1: off",
    )
    .default("-1")
    .advice("give a share, for example 0.8 for 80 %, or leave it out")
    .max(1),
    FieldSpec::new(
        "qps",
        FieldKind::Number,
        "inbound calls per second; -1: off",
    )
    .default("-1")
    .advice("give calls per second, or leave it out"),
    FieldSpec::new(
        "avgRt",
        FieldKind::Number,
        "mean response time in milliseconds above which nothing is let in; -1: off",
    )
    .default("-1")
    .advice("give milliseconds, or leave it out"),
    FieldSpec::new(
        "maxThread",
        FieldKind::Number,
        "inbound calls at once; -1: off",
    )
    .default("-1")
    .advice("give a whole number of calls, or leave it out"),
    FieldSpec::new(
        "bbr",
        FieldKind::Mode(Bbr::CHOICES),
        "which figures of the machine refuse only what it cannot do",
    )
    .default("0")
    .advice("give load, off, cpu or both"),
    FieldSpec::new(
        "resource",
        FieldKind::Text,
        "accepted as in Sentinel; system rules are for all inbound calls",
    )
    .advice("leave it out"),
    FieldSpec::new(
        "limitApp",
        FieldKind::Text,
        "accepted as in Sentinel; system rules do not look at it",
    )
    .default("\"default\"")
    .advice("leave it out"),
];

impl RuleKind for System {
    const NAME: &'static str = "system";
    const ABOUT: &'static str =
        "protects the service as a whole: all inbound calls together, and the machine";
    const GUIDE: &'static str = include_str!("guide.md");
    const SCOPE: Scope = Scope::Engine;
    type Rule = SystemRule;
    type State = SystemState;

    fn fields() -> &'static [FieldSpec] {
        FIELDS
    }

    fn golang() -> Option<Golang<Self>> {
        Some(golang::FORM)
    }

    fn parse(head: Head, fields: &mut Fields<'_>) -> SystemRule {
        for (field, ignored) in [
            ("resource", "a system rule is for all inbound calls"),
            ("limitApp", "a system rule counts the calls of all origins"),
        ] {
            let text = fields.text(field).unwrap_or_default();
            if !matches!(text.trim(), "" | "default") {
                fields.warn(field, format!("not used: {ignored}; leave it out"));
            }
        }
        SystemRule {
            head,
            highest_system_load: threshold("highestSystemLoad", fields),
            highest_cpu_usage: threshold("highestCpuUsage", fields),
            qps: threshold("qps", fields),
            avg_rt_ms: threshold("avgRt", fields),
            max_thread: places("maxThread", fields),
            bbr: fields.mode("bbr").unwrap_or_default(),
        }
    }

    fn validate(rule: &SystemRule, settings: &Settings, fields: &mut Fields<'_>) {
        for (field, number) in [
            ("highestSystemLoad", rule.highest_system_load),
            ("highestCpuUsage", rule.highest_cpu_usage),
            ("qps", rule.qps),
            ("avgRt", rule.avg_rt_ms),
        ] {
            let Some(number) = number else { continue };
            if !number.is_finite() {
                fields.fault(
                    field,
                    format!("{number} is not a finite number; leave it out"),
                );
            } else if number < 0.0 {
                fields.fault(field, format!("{number} is negative; leave it out for off"));
            }
        }
        if let Some(share) = rule.highest_cpu_usage.filter(|share| *share > 1.0) {
            let advice = "give a share from 0 to 1, for example 0.8 for 80 %";
            fields.fault("highestCpuUsage", format!("{share} is above 1; {advice}"));
        }
        if let Some(qps) = rule.qps.filter(|qps| *qps > 0.0)
            && super::state::passes(qps, settings) == 0
        {
            let least = 1000.0 / f64::from(settings.interval_ms.max(1));
            fields.warn(
                "qps",
                format!("{qps} lets nothing in; write 0 if you mean that, or at least {least}"),
            );
        }
        if rule.is_all_off() {
            fields.warn(
                "qps",
                "the rule looks at nothing, and does nothing; give at least one threshold",
            );
        }
        if rule.needs_samples() && !settings.machine.has_load_and_cpu() {
            let field = match rule.highest_system_load {
                Some(_) => "highestSystemLoad",
                None => "highestCpuUsage",
            };
            fields.warn(
                field,
                "this system does not tell load and processor use, so this refuses nothing; \
                 give the engine a sampler of your own",
            );
        }
    }

    fn normalized(rule: &SystemRule) -> SystemRule {
        rule.normalized()
    }

    fn head(rule: &SystemRule) -> &Head {
        &rule.head
    }

    fn new_state(rule: &SystemRule, settings: &Settings) -> SystemState {
        SystemState::new(rule, settings)
    }
}

/// A threshold; Sentinel writes -1 for off, and takes any negative number so.
pub(super) fn threshold(field: &'static str, fields: &mut Fields<'_>) -> Option<f64> {
    let number = fields.number(field)?;
    if number < 0.0 && number != -1.0 {
        fields.warn(
            field,
            format!("{number} is taken as off; write -1, or leave it out"),
        );
    }
    (number >= 0.0).then_some(number)
}

/// A threshold of calls at once.
pub(super) fn places(field: &'static str, fields: &mut Fields<'_>) -> Option<u64> {
    let number = threshold(field, fields)?;
    if number.fract() != 0.0 {
        let below = number.floor();
        fields.warn(
            field,
            format!("{number} is no whole number of calls, and is taken as {below}"),
        );
    }
    // The cast takes what is above the largest number for that.
    Some(number as u64)
}

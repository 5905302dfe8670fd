//! How a flow rule is written in JSON, and what makes it valid.
//!
//! Sentinel's own checks, except where they are plainly at fault: a queue of
//! 0 ms is legal, a regular expression may have any behaviour, and relate or
//! chain without `refResource` is refused for concurrency rules too, because
//! it would limit nothing.

use super::{ControlBehavior, Flow, FlowRule, FlowState, Grade, LimitApp, Strategy};
use crate::Settings;
use crate::document::Fields;
use crate::field::{FieldKind, FieldSpec, Mode, Spelling};
use crate::head::Head;
use crate::kind::RuleKind;

const FIELDS: &[FieldSpec] = &[
    FieldSpec::new(
        "limitApp",
        FieldKind::Text,
        "the origin whose calls it is for",
    )
    .default("\"default\"")
    .advice("give an origin, \"other\" or \"default\""),
    FieldSpec::new("grade", FieldKind::Mode(Grade::CHOICES), "what is counted")
        .default("1")
        .advice("give 0 (concurrency) or 1 (qps)"),
    FieldSpec::new(
        "count",
        FieldKind::Number,
        "calls per second, or calls at once",
    )
    .default("0")
    .advice("give calls per second or at once, 0 means none"),
    FieldSpec::new(
        "strategy",
        FieldKind::Mode(Strategy::CHOICES),
        "whose count decides",
    )
    .default("0")
    .advice("give 0 (direct), 1 (relate) or 2 (chain)"),
    FieldSpec::new(
        "refResource",
        FieldKind::Text,
        "the other resource (relate) or the context (chain)",
    )
    .advice("give the name of a resource (relate) or of a context (chain)")
    .shared(),
    FieldSpec::new(
        "controlBehavior",
        FieldKind::Mode(ControlBehavior::CHOICES),
        "what happens beyond the limit",
    )
    .default("0")
    .advice("give 0 (reject), 1 (warmUp), 2 (rateLimiter) or 3 (warmUpRateLimiter)")
    .shared(),
    FieldSpec::new(
        "warmUpPeriodSec",
        FieldKind::Whole,
        "seconds from cold to the full limit",
    )
    .default("10")
    .advice("give seconds, at least 1")
    .shared(),
    FieldSpec::new(
        "warmUpColdFactor",
        FieldKind::Whole,
        "how many times slower it is when cold; absent: the engine's",
    )
    .advice("give a whole number of at least 2, or leave it out")
    .shared(),
    FieldSpec::new(
        "maxQueueingTimeMs",
        FieldKind::Whole,
        "the longest wait in the queue",
    )
    .default("500")
    .advice("give milliseconds, 0 means do not wait")
    .shared(),
];

const SPELLINGS: &[Spelling] = &[
    Spelling {
        theirs: "threshold",
        ours: "write count, calls per second",
    },
    Spelling {
        theirs: "tokenCalculateStrategy",
        ours: "controlBehavior says it: 1 (warmUp) or 3 (warmUpRateLimiter)",
    },
    Spelling {
        theirs: "relationStrategy",
        ours: "write strategy, 0 (direct) or 1 (relate)",
    },
    Spelling {
        theirs: "statIntervalInMs",
        ours: "count is per second, leave it out",
    },
    Spelling {
        theirs: "lowMemUsageThreshold",
        ours: "limits do not follow memory, leave it out",
    },
    Spelling {
        theirs: "highMemUsageThreshold",
        ours: "limits do not follow memory, leave it out",
    },
    Spelling {
        theirs: "memLowWaterMarkBytes",
        ours: "limits do not follow memory, leave it out",
    },
    Spelling {
        theirs: "memHighWaterMarkBytes",
        ours: "limits do not follow memory, leave it out",
    },
];

impl RuleKind for Flow {
    const NAME: &'static str = "flow";
    const ABOUT: &'static str = "limits how much of a resource may pass: reject, warm up, queue";
    type Rule = FlowRule;
    type State = FlowState;

    fn fields() -> &'static [FieldSpec] {
        FIELDS
    }

    fn spellings() -> &'static [Spelling] {
        SPELLINGS
    }

    fn parse(head: Head, fields: &mut Fields<'_>) -> FlowRule {
        let grade = fields.mode("grade").unwrap_or_default();
        let behavior = behavior(grade, fields);
        let used = match grade {
            Grade::Qps => behavior,
            Grade::Concurrency => ControlBehavior::Reject,
        };
        if !fields.has("count") {
            fields.warn("count", "missing, so no call may pass; write count");
        }
        FlowRule {
            head,
            limit_app: fields
                .text("limitApp")
                .map_or(LimitApp::Default, |name| LimitApp::from(&*name)),
            grade,
            count: fields.number("count").unwrap_or_default(),
            strategy: fields.mode("strategy").unwrap_or_default(),
            ref_resource: fields
                .text("refResource")
                .filter(|name| !name.trim().is_empty()),
            behavior,
            warm_up_period_sec: fields
                .u32("warmUpPeriodSec", used.warms_up())
                .unwrap_or(FlowRule::WARM_UP_PERIOD_SEC),
            warm_up_cold_factor: fields.u32("warmUpColdFactor", used.warms_up()),
            max_queueing_time_ms: fields
                .u32("maxQueueingTimeMs", used.paces())
                .unwrap_or(FlowRule::MAX_QUEUEING_TIME_MS),
        }
    }

    fn validate(rule: &FlowRule, settings: &Settings, fields: &mut Fields<'_>) {
        check_count(rule, settings, fields);
        check_reference(rule, fields);
        check_warm_up(rule, fields);
        check_limit_app(rule, fields);
        if rule.grade == Grade::Concurrency && rule.behavior != ControlBehavior::Reject {
            fields.warn(
                "controlBehavior",
                "not used: a rule on concurrency refuses at once; leave it out, or count calls per second (grade 1)",
            );
        }
    }

    fn head(rule: &FlowRule) -> &Head {
        &rule.head
    }

    fn new_state(rule: &FlowRule, settings: &Settings) -> FlowState {
        FlowState::new(rule, settings)
    }
}

/// Sentinel takes any number from 4 on as reject, and so do we, aloud.
fn behavior(grade: Grade, fields: &mut Fields<'_>) -> ControlBehavior {
    const FIELD: &str = "controlBehavior";
    let Some(number) = fields.mode_number(FIELD) else {
        return ControlBehavior::Reject;
    };
    if number != 0 && fields.has_number(FIELD) {
        fields.ambiguous(
            FIELD,
            format!(
                "{number} is {} in Sentinel and {} in sentinel-golang, and no field tells whose rule this is; write count (Sentinel)",
                if number == 1 { "warm-up" } else if number == 2 { "queueing" } else { "something else" },
                if number == 1 { "queueing" } else { "nothing" },
            ),
        );
    }
    let known = usize::try_from(number)
        .ok()
        .and_then(|index| ControlBehavior::ALL.get(index));
    match known {
        Some(behavior) => return *behavior,
        None if grade == Grade::Concurrency => {
            fields.warn(FIELD, format!("{number} is not known, but this rule does not use it"));
        }
        None if number < 0 => fields.fault_unknown_mode(FIELD, &number.to_string()),
        None => fields.warn(
            FIELD,
            format!("{number} is not known and refuses beyond the limit, as in Sentinel; write 0 (reject)"),
        ),
    }
    ControlBehavior::Reject
}

fn check_count(rule: &FlowRule, settings: &Settings, fields: &mut Fields<'_>) {
    let count = rule.count;
    if !count.is_finite() {
        fields.fault(
            "count",
            format!("{count} is not a finite number; give calls per second or at once"),
        );
        return;
    }
    if count < 0.0 {
        fields.fault(
            "count",
            format!("{count} is negative; give calls per second or at once, 0 means none"),
        );
        return;
    }
    if count == 0.0 || rule.effective_behavior().paces() {
        return;
    }
    if rule.grade == Grade::Concurrency && count < 1.0 {
        fields.warn(
            "count",
            format!("{count} is below 1, so no call can ever run; give at least 1"),
        );
        return;
    }
    let per_interval = count * f64::from(settings.interval_ms) / 1000.0;
    if rule.grade == Grade::Qps && per_interval < 1.0 {
        let seconds = (1000.0 / count).round() / 1000.0;
        fields.warn(
            "count",
            format!(
                "{count} per second allows no whole call in {} ms, so none can ever pass; \
                 for one call each {seconds} s write controlBehavior 2 (rateLimiter), else give a larger count",
                settings.interval_ms
            ),
        );
    }
}

fn check_reference(rule: &FlowRule, fields: &mut Fields<'_>) {
    let reference = rule.ref_resource.as_deref().unwrap_or_default();
    let is_blank = reference.trim().is_empty();
    match rule.strategy {
        Strategy::Relate if is_blank => {
            fields.fault(
                "refResource",
                "missing; strategy 1 (relate) needs the resource whose count decides",
            );
        }
        Strategy::Chain if is_blank => {
            fields.fault(
                "refResource",
                "missing; strategy 2 (chain) needs the context that the rule is for",
            );
        }
        Strategy::Direct if !is_blank => {
            fields.warn("refResource", "not used: strategy is 0 (direct); write strategy 1 (relate) or 2 (chain), or leave it out");
        }
        _ => {}
    }
}

fn check_warm_up(rule: &FlowRule, fields: &mut Fields<'_>) {
    if !rule.effective_behavior().warms_up() {
        return;
    }
    if rule.warm_up_period_sec == 0 {
        fields.fault(
            "warmUpPeriodSec",
            "0 leaves no time to warm up; give seconds, at least 1",
        );
    }
    if let Some(factor @ ..2) = rule.warm_up_cold_factor {
        fields.fault(
            "warmUpColdFactor",
            format!("{factor} is not slower when cold; give a whole number of at least 2, or leave it out"),
        );
    }
}

fn check_limit_app(rule: &FlowRule, fields: &mut Fields<'_>) {
    let LimitApp::Named(name) = &rule.limit_app else {
        return;
    };
    if name.contains(',') {
        fields.warn("limitApp", "a flow rule is for one origin, and this name has a comma; write one rule for each origin");
    } else if name.trim() != name {
        fields.warn(
            "limitApp",
            "the name begins or ends with a space, and so must the origin; remove it",
        );
    }
}

//! How a flow rule is written in JSON, and what makes it valid.
//!
//! Sentinel's own checks, except where they are plainly at fault: a queue of
//! 0 ms is legal, a regular expression may have any behaviour, and relate or
//! chain without `refResource` is refused for concurrency rules too, because
//! it would limit nothing.

use super::{
    ControlBehavior, Flow, FlowRule, FlowState, Grade, LimitApp, Strategy, accounting, golang,
    interval, memory,
};
use flowgate_core::Accounting;

use crate::Settings;
use crate::dialect::{Dialect, Golang};
use crate::document::Fields;
use crate::field::{FieldKind, FieldSpec, Mode};
use crate::head::Head;
use crate::idle::Idle;
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
        "calls per second, or calls at once; absent: no call may pass, which is a warning",
    )
    .default("0")
    .advice("give calls per second or at once, 0 means none")
    .min(0),
    FieldSpec::new(
        accounting::FIELD,
        FieldKind::Mode(Accounting::CHOICES),
        "the spans of time that the limit holds for (grade 1)",
    )
    .default("0")
    .advice("give window, strict or tokenBucket")
    .shared()
    .added(),
    FieldSpec::new(
        accounting::BURST_FIELD,
        FieldKind::Whole,
        "how many tokens a bucket (tokenBucket) holds; absent: count, and at least 1",
    )
    .advice("give at least 1 token, or leave it out for as many as count")
    .shared()
    .added()
    .min(1),
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
        interval::FIELD,
        FieldKind::Whole,
        "the interval that count is for, in milliseconds; absent: a second",
    )
    .advice("give milliseconds, or leave it out for a second")
    .shared()
    .added()
    .min(0),
    FieldSpec::new(
        interval::BOXES_FIELD,
        FieldKind::Whole,
        "in how many boxes that interval is counted; absent: 10, or for the length of the second view (1000) that view's own 2; strict: 50",
    )
    .advice("give 1 to 1000 boxes that divide the interval, or leave it out")
    .shared()
    .added()
    .max(1000),
    FieldSpec::new(
        memory::LOW_USAGE,
        FieldKind::Number,
        "the limit while little memory is in use, instead of count",
    )
    .advice("give calls per second or interval")
    .shared()
    .added(),
    FieldSpec::new(
        memory::HIGH_USAGE,
        FieldKind::Number,
        "the limit while much memory is in use",
    )
    .advice("give calls per second or interval")
    .shared()
    .added(),
    FieldSpec::new(
        memory::LOW_MARK,
        FieldKind::Whole,
        "up to how many bytes in use it is little",
    )
    .advice("give bytes")
    .shared()
    .added(),
    FieldSpec::new(
        memory::HIGH_MARK,
        FieldKind::Whole,
        "from how many bytes in use on it is much",
    )
    .advice("give bytes")
    .shared()
    .added(),
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
    .shared()
    .min(1),
    FieldSpec::new(
        "warmUpColdFactor",
        FieldKind::Whole,
        "how many times slower it is when cold; absent: the engine's",
    )
    .advice("give a whole number of at least 2, or leave it out")
    .shared()
    .added()
    .min(2),
    FieldSpec::new(
        "maxQueueingTimeMs",
        FieldKind::Whole,
        "the longest wait in the queue",
    )
    .default("500")
    .advice("give milliseconds, 0 means do not wait")
    .shared()
    .min(0),
];

/// Why a rule on concurrency has no use for another behaviour.
pub(crate) const CONCURRENCY_REFUSES: &str = "not used: a rule on concurrency refuses at once; leave it out, or count calls per second (grade 1)";

impl RuleKind for Flow {
    const NAME: &'static str = "flow";
    const ABOUT: &'static str = "limits how much of a resource may pass: reject, warm up, queue";
    const GUIDE: &'static str = include_str!("guide.md");
    type Rule = FlowRule;
    type State = FlowState;

    fn fields() -> &'static [FieldSpec] {
        FIELDS
    }

    fn golang() -> Option<Golang<Self>> {
        Some(golang::FORM)
    }

    fn parse(head: Head, fields: &mut Fields<'_>) -> FlowRule {
        let grade = fields.mode("grade").unwrap_or_default();
        let behavior = behavior(grade, fields);
        let used = match grade {
            Grade::Qps => behavior,
            Grade::Concurrency => ControlBehavior::Reject,
        };
        let memory = memory::parse(grade, fields);
        let (accounting, burst_count) = accounting::parse(grade, fields);
        let has_boxes = accounting::has_boxes(grade, accounting, used);
        if !fields.has("count") && memory.is_none() {
            fields.warn("count", "missing, so no call may pass; write count");
        }
        FlowRule {
            head,
            limit_app: fields
                .text("limitApp")
                .map_or(LimitApp::Default, |name| LimitApp::from(&*name)),
            grade,
            count: fields.number("count").unwrap_or_default(),
            accounting,
            burst_count,
            strategy: fields.mode("strategy").unwrap_or_default(),
            ref_resource: fields
                .text("refResource")
                .filter(|name| !name.trim().is_empty()),
            stat_interval_ms: fields.u32(interval::FIELD, grade == Grade::Qps),
            boxes: fields.u32(interval::BOXES_FIELD, has_boxes),
            memory,
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
        accounting::check(rule, fields);
        interval::check(rule, settings, fields);
        memory::check(rule, fields);
        check_reference(rule, fields);
        check_warm_up(rule, fields);
        check_wait(rule, fields);
        check_limit_app(rule, fields);
        if rule.grade == Grade::Concurrency && rule.behavior != ControlBehavior::Reject {
            fields.warn("controlBehavior", CONCURRENCY_REFUSES);
        }
    }

    fn normalized(rule: &FlowRule) -> FlowRule {
        rule.normalized()
    }

    fn accounting(rule: &FlowRule) -> Option<Accounting> {
        rule.accounted()
    }

    fn looks_at(rule: &FlowRule) -> Option<&str> {
        let reference = rule.ref_resource.as_deref();
        reference.filter(|_| rule.strategy == Strategy::Relate)
    }

    fn needs_memory(rule: &FlowRule) -> bool {
        rule.needs_memory()
    }

    fn head(rule: &FlowRule) -> &Head {
        &rule.head
    }

    fn new_state(rule: &FlowRule, settings: &Settings) -> FlowState {
        FlowState::new(rule, settings)
    }

    fn is_as_new(_: &FlowRule, state: &FlowState, idle: Idle) -> bool {
        state.is_as_new(idle.now)
    }
}

/// Sentinel takes any number from 4 on as reject, and so do we, aloud.
fn behavior(grade: Grade, fields: &mut Fields<'_>) -> ControlBehavior {
    const FIELD: &str = "controlBehavior";
    let Some(number) = fields.mode_number(FIELD) else {
        return ControlBehavior::Reject;
    };
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
    if count == 0.0 || rule.effective_behavior().paces() || rule.takes_tokens() {
        return;
    }
    if rule.grade == Grade::Concurrency && count < 1.0 {
        fields.warn(
            "count",
            format!("{count} is below 1, so no call can ever run; give at least 1"),
        );
        return;
    }
    if rule.grade == Grade::Qps && !rule.needs_memory() {
        check_whole_calls(rule, settings, fields);
    }
}

/// A window that has no room for one whole call.
fn check_whole_calls(rule: &FlowRule, settings: &Settings, fields: &mut Fields<'_>) {
    let count = rule.count;
    let interval = fields.name_of(interval::FIELD);
    if let Some(ms) = rule.own_interval_ms() {
        if count < 1.0 {
            fields.warn(
                "count",
                format!("{count} in {ms} ms is no whole call, so none can ever pass; give at least 1, and a longer {interval}, or write accounting tokenBucket"),
            );
        }
        return;
    }
    let view_ms = match rule.accounting {
        Accounting::Strict => 1_000,
        _ => settings.interval_ms,
    };
    let per_interval = count * f64::from(view_ms) / 1000.0;
    if per_interval < 1.0 {
        let seconds = (1000.0 / count).round() / 1000.0;
        let name = fields.name_of("count");
        let pacing = match fields.dialect() {
            Dialect::Sentinel => "2 (rateLimiter)",
            Dialect::Golang => "1 (throttling)",
        };
        fields.warn(
            "count",
            format!(
                "{count} per second allows no whole call in {view_ms} ms, so none can ever pass; \
                 for one call each {seconds} s write accounting tokenBucket, controlBehavior {pacing} or {name} 1 with {interval}, \
                 else give a larger {name}"
            ),
        );
    }
}

fn check_reference(rule: &FlowRule, fields: &mut Fields<'_>) {
    let reference = rule.ref_resource.as_deref().unwrap_or_default();
    let is_blank = reference.trim().is_empty();
    let (relate, direct, would_do) = match fields.dialect() {
        Dialect::Sentinel => (
            "strategy 1 (relate)",
            "strategy is 0 (direct)",
            "write strategy 1 (relate) or 2 (chain)",
        ),
        Dialect::Golang => (
            "relationStrategy 1 (associated)",
            "relationStrategy is 0 (current)",
            "write relationStrategy 1 (associated)",
        ),
    };
    match rule.strategy {
        Strategy::Relate if is_blank => {
            fields.fault(
                "refResource",
                format!("missing; {relate} needs the resource whose count decides"),
            );
        }
        Strategy::Chain if is_blank => {
            fields.fault(
                "refResource",
                "missing; strategy 2 (chain) needs the context that the rule is for",
            );
        }
        Strategy::Direct if !is_blank => {
            fields.warn(
                "refResource",
                format!("not used: {direct}; {would_do}, or leave it out"),
            );
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

/// Sentinel's dashboard writes the default with every rule, and
/// sentinel-golang 0.
fn check_wait(rule: &FlowRule, fields: &mut Fields<'_>) {
    let wait_ms = rule.max_queueing_time_ms;
    let is_default = match fields.dialect() {
        Dialect::Golang if wait_ms == 0 => true,
        _ => wait_ms == FlowRule::MAX_QUEUEING_TIME_MS,
    };
    if is_default || rule.effective_behavior().paces() {
        return;
    }
    let would_do = match (rule.grade, fields.dialect()) {
        (Grade::Concurrency, _) => "leave it out",
        (_, Dialect::Sentinel) => "write controlBehavior 2 (rateLimiter), or leave it out",
        (_, Dialect::Golang) => "write controlBehavior 1 (throttling), or leave it out",
    };
    fields.warn(
        "maxQueueingTimeMs",
        format!("not used: this rule has no queue; {would_do}"),
    );
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

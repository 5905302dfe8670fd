//! How a hot-parameter rule is written in JSON, and what makes it valid.

use super::value::Class;
use super::{
    Param, ParamFlow, ParamFlowRule, ParamItem, ParamState, ParamValue, accounting, golang,
};
use flowgate_core::Accounting;

use crate::accounting::FIELD as ACCOUNTING;
use crate::dialect::Golang;
use crate::document::Fields;
use crate::field::{Choice, FieldKind, FieldSpec, Mode};
use crate::flow::read::CONCURRENCY_REFUSES;
use crate::head::Head;
use crate::idle::Idle;
use crate::kind::RuleKind;
use crate::{ControlBehavior, Grade, Settings};

pub(super) const ITEMS: &str = "paramFlowItemList";
pub(super) const BEHAVIOR: &str = "controlBehavior";

/// By number, as in Sentinel: 1 is warm-up there, for flow rules only.
const BEHAVIORS: &[Choice] = &[
    Choice::new("reject", "refuses them").or(&["default", "direct"]),
    Choice::new("none", "as reject; flow rules warm up here"),
    Choice::new(
        "rateLimiter",
        "queues them, each value at its own even pace",
    )
    .or(&["throttle", "throttling", "queue"]),
];

const ITEM_FIELDS: &[FieldSpec] = &[
    FieldSpec::new("object", FieldKind::Text, "the value, as text")
        .advice("give the value as text")
        .required(),
    FieldSpec::new("count", FieldKind::Number, "its limit")
        .required()
        .min(0)
        .advice("give the limit of this value, 0 means none"),
    FieldSpec::new(
        "classType",
        FieldKind::Text,
        "the type of the value: int, long, short, byte, double, float, boolean, char or String",
    )
    .default("\"String\"")
    .advice("give the name of a type, or leave it out for text"),
];

const FIELDS: &[FieldSpec] = &[
    FieldSpec::new(
        "limitApp",
        FieldKind::Text,
        "accepted as in Sentinel; hot parameters do not look at it",
    )
    .default("\"default\"")
    .advice("leave it out"),
    FieldSpec::new(
        "paramIdx",
        FieldKind::Whole,
        "the argument that is counted by: 0 is the first, -1 the last",
    )
    .advice("give the argument's position, 0 is the first, -1 the last")
    .required_or("paramKey"),
    FieldSpec::new(
        "paramKey",
        FieldKind::Text,
        "the attachment that is counted by, instead of an argument",
    )
    .advice("give the attachment's name")
    .shared()
    .added(),
    FieldSpec::new("grade", FieldKind::Mode(Grade::CHOICES), "what is counted")
        .default("1")
        .advice("give 0 (concurrency) or 1 (qps)"),
    FieldSpec::new(
        "count",
        FieldKind::Number,
        "the limit of each value: calls per durationInSec, or calls at once; absent: no call may pass, which is a warning",
    )
    .default("0")
    .min(0)
    .advice("give a number of calls"),
    accounting::SPEC,
    FieldSpec::new(
        BEHAVIOR,
        FieldKind::Mode(BEHAVIORS),
        "what happens to calls beyond the limit",
    )
    .default("0")
    .advice("give 0 (reject) or 2 (rateLimiter)")
    .shared(),
    FieldSpec::new(
        "maxQueueingTimeMs",
        FieldKind::Whole,
        "the longest wait in the queue of a value",
    )
    .default("0")
    .advice("give milliseconds, 0 means do not wait")
    .shared()
    .min(0),
    FieldSpec::new(
        "burstCount",
        FieldKind::Whole,
        "calls more than count that a value may have after a quiet time",
    )
    .default("0")
    .advice("give a number of calls, 0 means none")
    .shared()
    .min(0),
    FieldSpec::new(
        "durationInSec",
        FieldKind::Whole,
        "the seconds that count is for; a bucket is refilled when more than that has passed",
    )
    .default("1")
    .advice("give seconds, at least 1")
    .shared()
    .min(1),
    FieldSpec::new(
        ITEMS,
        FieldKind::Objects(ITEM_FIELDS),
        "values with limits of their own",
    )
    .default("[]")
    .advice("give a list [{\"object\": ..., \"count\": ..., \"classType\": ...}, ...]"),
    FieldSpec::new(
        "maxValues",
        FieldKind::Whole,
        "the most values remembered per resource; absent: 4000 for each second of durationInSec, at most 200000",
    )
    .advice("give a number of values from 1 to 16777216, or leave it out")
    .shared()
    .added()
    .min(1)
    .max(16_777_216),
];

impl RuleKind for ParamFlow {
    const NAME: &'static str = "paramFlow";
    const ABOUT: &'static str =
        "limits how much of a resource each value of an argument may use: hot parameters";
    const GUIDE: &'static str = include_str!("guide.md");
    type Rule = ParamFlowRule;
    type State = ParamState;

    fn fields() -> &'static [FieldSpec] {
        FIELDS
    }

    fn golang() -> Option<Golang<Self>> {
        Some(golang::FORM)
    }

    fn parse(head: Head, fields: &mut Fields<'_>) -> ParamFlowRule {
        let param = param(fields);
        let grade = fields.mode("grade").unwrap_or_default();
        let behavior = behavior(grade, fields);
        let accounting = fields.mode(ACCOUNTING).unwrap_or_default();
        let takes_tokens = grade == Grade::Qps && !behavior.paces();
        if !fields.has("count") {
            fields.warn("count", "missing, so no call may pass; write count");
        }
        let origin = fields.text("limitApp").unwrap_or_default();
        if !matches!(origin.trim(), "" | "default") {
            fields.warn(
                "limitApp",
                "not used: a value is limited over the calls of all origins; leave it out",
            );
        }
        ParamFlowRule {
            head,
            param,
            grade,
            count: fields.number("count").unwrap_or_default(),
            accounting,
            behavior,
            // Sentinel drops a rule with a negative wait whether it waits or
            // not; recorded decisions rely on it.
            max_queueing_time_ms: fields.u32("maxQueueingTimeMs", true).unwrap_or_default(),
            burst_count: fields.u32("burstCount", takes_tokens).unwrap_or_default(),
            duration_in_sec: fields
                .u32("durationInSec", grade == Grade::Qps)
                .unwrap_or(1),
            items: fields.objects(ITEMS, item),
            max_values: fields.u32("maxValues", true),
        }
    }

    fn validate(rule: &ParamFlowRule, _: &Settings, fields: &mut Fields<'_>) {
        if let Some(message) = wrong_count(rule.count) {
            fields.fault("count", message);
        } else {
            warn_of_small_count(rule, fields);
        }
        check_items(rule, fields);
        accounting::check(rule, fields);
        if rule.grade == Grade::Qps && rule.duration_in_sec == 0 {
            fields.fault(
                "durationInSec",
                "0 is no time to count in; give seconds, at least 1",
            );
        }
        if let Some(values @ (0 | ParamFlowRule::MORE_VALUES..)) = rule.max_values {
            let most = ParamFlowRule::MAX_VALUES;
            fields.fault(
                "maxValues",
                format!("{values} is out of range; give a number of values from 1 to {most}, or leave it out"),
            );
        }
        if rule.behavior.warms_up() {
            fields.fault(
                BEHAVIOR,
                "hot parameters do not warm up; give 0 (reject) or 2 (rateLimiter)",
            );
        }
        if rule.grade == Grade::Concurrency && rule.behavior.paces() {
            fields.warn(BEHAVIOR, CONCURRENCY_REFUSES);
        }
        if rule.queues() && rule.burst_count > 0 {
            fields.warn(
                "burstCount",
                "not used: a queue has no burst; leave it out, or refuse at once (controlBehavior 0)",
            );
        }
    }

    fn normalized(rule: &ParamFlowRule) -> ParamFlowRule {
        rule.normalized()
    }

    fn accounting(rule: &ParamFlowRule) -> Option<Accounting> {
        rule.accounted()
    }

    fn head(rule: &ParamFlowRule) -> &Head {
        &rule.head
    }

    fn new_state(rule: &ParamFlowRule, _: &Settings) -> ParamState {
        ParamState::new(rule)
    }

    fn is_as_new(rule: &ParamFlowRule, _: &ParamState, idle: Idle) -> bool {
        idle.since >= rule.forgets_after()
    }
}

fn param(fields: &mut Fields<'_>) -> Param {
    let key = fields.text("paramKey").filter(|key| !key.is_empty());
    match (key, fields.has("paramIdx")) {
        (None, false) => {
            fields.fault(
                "paramIdx",
                "missing; give the argument's position, 0 is the first, -1 the last, or an attachment's name as paramKey",
            );
            Param::Index(0)
        }
        (None, true) => Param::Index(fields.i32("paramIdx").unwrap_or_default()),
        (Some(key), has_index) => {
            if has_index {
                fields.fault(
                    "paramKey",
                    "paramIdx is given too; keep one of them: a rule counts by an argument or by an attachment",
                );
            }
            Param::Key(key)
        }
    }
}

/// Sentinel takes any number but 2 as reject, and so do we, aloud.
fn behavior(grade: Grade, fields: &mut Fields<'_>) -> ControlBehavior {
    let Some(number) = fields.mode_number(BEHAVIOR) else {
        return ControlBehavior::Reject;
    };
    match number {
        0 => {}
        2 => return ControlBehavior::RateLimiter,
        _ if grade == Grade::Concurrency => {
            fields.warn(
                BEHAVIOR,
                format!("{number} is not known, but this rule does not use it"),
            );
        }
        ..0 => fields.fault_unknown_mode(BEHAVIOR, &number.to_string()),
        _ => fields.warn(
            BEHAVIOR,
            format!("{number} is not known for hot parameters and refuses beyond the limit, as in Sentinel; write 0 (reject) or 2 (rateLimiter)"),
        ),
    }
    ControlBehavior::Reject
}

fn item(fields: &mut Fields<'_>) -> ParamItem {
    let name = fields.text("classType").unwrap_or_default();
    let class = Class::named(&name).unwrap_or_else(|| {
        fields.warn(
            "classType",
            format!("{name} is no type that values are compared by, so the value is text; write int, double, boolean, char or String"),
        );
        Class::Text
    });
    let value = match fields.text("object") {
        Some(text) => class.read(&text).unwrap_or_else(|reason| {
            fields.fault("object", format!("{text:?} {reason}"));
            ParamValue::Bool(false)
        }),
        // Told by its description.
        None => ParamValue::Bool(false),
    };
    let count = fields.number("count").unwrap_or_default();
    if let Some(message) = wrong_count(count) {
        fields.fault("count", message);
    }
    ParamItem { value, count }
}

fn wrong_count(count: f64) -> Option<String> {
    if !count.is_finite() {
        Some(format!(
            "{count} is not a finite number; give a number of calls"
        ))
    } else if count < 0.0 {
        Some(format!(
            "{count} is negative; give a number of calls, 0 means none"
        ))
    } else {
        None
    }
}

/// A limit that looks like one and lets nothing through.
fn warn_of_small_count(rule: &ParamFlowRule, fields: &mut Fields<'_>) {
    let count = rule.count;
    if count == 0.0 || count >= 1.0 || rule.queues() {
        return;
    }
    if rule.grade == Grade::Concurrency {
        fields.warn(
            "count",
            format!("{count} is below 1, so no call can ever run; give at least 1"),
        );
    } else if rule.burst_count == 0 {
        let duration = f64::from(rule.duration_in_sec);
        let seconds = (duration / count).ceil();
        let would_do = match rule.accounting {
            Accounting::TokenBucket => "burstCount 1".into(),
            _ => format!("count 1 and durationInSec {seconds}"),
        };
        fields.warn(
            "count",
            format!(
                "{count} per {duration} s makes no whole call, so none can ever pass; \
                 for one call each {seconds} s write {would_do}"
            ),
        );
    }
}

fn check_items(rule: &ParamFlowRule, fields: &mut Fields<'_>) {
    let items = &rule.items;
    if items.len() > ParamFlowRule::ITEMS_MAX {
        let (found, most) = (items.len(), ParamFlowRule::ITEMS_MAX);
        fields.fault(
            ITEMS,
            format!("{found} values are too many; give at most {most}"),
        );
        return;
    }
    // Those read from JSON were looked at there.
    for (position, item) in items.iter().enumerate() {
        if let Some(message) = wrong_count(item.count) {
            fields.fault_in(ITEMS, position, "count", message);
        }
    }
    let mut seen = std::collections::HashSet::with_capacity(items.len());
    for item in items {
        if !seen.insert(&item.value) {
            fields.warn(
                ITEMS,
                format!(
                    "{} is given twice, and the last counts; keep one",
                    item.value
                ),
            );
        }
    }
}

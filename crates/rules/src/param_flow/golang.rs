//! Hot-parameter rules as sentinel-golang writes them.
//!
//! Its `controlBehavior` has 1 where Sentinel's has 2, its `metricType` counts
//! calls at once unless told otherwise, and special values have a kind where
//! Sentinel's have the name of a Java class. It has no accounting but that of its
//! own bucket.

use flowgate_core::Accounting;
use serde_json::{Value, json};

use super::value::Class;
use super::{Param, ParamFlow, ParamFlowRule, ParamItem, ParamValue};
use crate::accounting::FIELD as ACCOUNTING;
use crate::dialect::{Golang, GolangRule, GolangSpec};
use crate::document::Fields;
use crate::field::{Choice, FieldKind, FieldSpec, Mode};
use crate::head::Head;
use crate::{ControlBehavior, Grade};

const METRIC: &str = "metricType";
const CONTROL: &str = "controlBehavior";
const INDEX: &str = "paramIndex";
const KEY: &str = "paramKey";
const THRESHOLD: &str = "threshold";
const WAIT: &str = "maxQueueingTimeMs";
const BURST: &str = "burstCount";
const DURATION: &str = "durationInSec";
const CAPACITY: &str = "paramsMaxCapacity";
const ITEMS: &str = "specificItems";
const VALUE_KIND: &str = "valKind";
const VALUE: &str = "valStr";

pub(super) const FORM: Golang<ParamFlow> = Golang {
    spec: GolangSpec {
        kind: "hotspot",
        fields: FIELDS,
        names: &[
            ("count", THRESHOLD),
            ("grade", METRIC),
            ("paramIdx", INDEX),
            ("paramFlowItemList", ITEMS),
            ("maxValues", CAPACITY),
        ],
    },
    parse,
    write,
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::new(METRIC, FieldKind::Mode(Grade::CHOICES), "what is counted")
        .default("0")
        .advice("give 0 (concurrency) or 1 (qps)"),
    FieldSpec::new(
        CONTROL,
        FieldKind::Mode(Control::CHOICES),
        "what happens to calls beyond the limit",
    )
    .default("0")
    .advice("give 0 (reject) or 1 (throttling)"),
    FieldSpec::new(
        INDEX,
        FieldKind::Whole,
        "the argument that is counted by: 0 is the first, -1 the last",
    )
    .default("0")
    .advice("give the argument's position, 0 is the first, -1 the last"),
    FieldSpec::new(
        KEY,
        FieldKind::Text,
        "the attachment that is counted by, instead of an argument",
    )
    .advice("give the attachment's name"),
    FieldSpec::new(
        THRESHOLD,
        FieldKind::Number,
        "the limit of each value: calls per durationInSec, or calls at once",
    )
    .default("0")
    .min(0)
    .advice("give a number of calls"),
    FieldSpec::new(
        WAIT,
        FieldKind::Whole,
        "the longest wait in the queue of a value",
    )
    .default("0")
    .min(0)
    .advice("give milliseconds, 0 means do not wait"),
    FieldSpec::new(
        BURST,
        FieldKind::Whole,
        "calls more than threshold that a value may have after a quiet time",
    )
    .default("0")
    .min(0)
    .advice("give a number of calls, 0 means none"),
    FieldSpec::new(
        DURATION,
        FieldKind::Whole,
        "the seconds that threshold is for (qps)",
    )
    .advice("give seconds, at least 1"),
    FieldSpec::new(
        CAPACITY,
        FieldKind::Whole,
        "the most values remembered per resource; 0: 4000 for each second of durationInSec, at most 200000",
    )
    .default("0")
    .advice("give a number of values from 1 to 16777216, or 0"),
    FieldSpec::new(
        ITEMS,
        FieldKind::Objects(ITEM_FIELDS),
        "values with limits of their own",
    )
    .default("[]")
    .advice("give a list [{\"valKind\": ..., \"valStr\": ..., \"threshold\": ...}, ...]"),
];

const ITEM_FIELDS: &[FieldSpec] = &[
    FieldSpec::new(
        VALUE_KIND,
        FieldKind::Mode(ValueKind::CHOICES),
        "the type of the value",
    )
    .default("0")
    .advice("give 0 (int), 1 (string), 2 (bool) or 3 (float64)"),
    FieldSpec::new(VALUE, FieldKind::Text, "the value, as text")
        .required()
        .advice("give the value as text"),
    FieldSpec::new(THRESHOLD, FieldKind::Number, "its limit")
        .default("0")
        .min(0)
        .advice("give the limit of this value, 0 means none"),
];

/// sentinel-golang's `controlBehavior`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Control {
    #[default]
    Reject,
    Throttling,
}

/// sentinel-golang's types of special values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ValueKind {
    #[default]
    Int,
    String,
    Bool,
    Float64,
}

impl Mode for Control {
    const ALL: &'static [Self] = &[Self::Reject, Self::Throttling];
    const CHOICES: &'static [Choice] = &[
        Choice::new("reject", "refuses them"),
        Choice::new("throttling", "queues them, each value at its own even pace"),
    ];
}

impl Mode for ValueKind {
    const ALL: &'static [Self] = &[Self::Int, Self::String, Self::Bool, Self::Float64];
    const CHOICES: &'static [Choice] = &[
        Choice::new("int", "a whole number"),
        Choice::new("string", "text"),
        Choice::new("bool", "true or false"),
        Choice::new("float64", "a number with a fraction"),
    ];
}

fn parse(head: Head, fields: &mut Fields<'_>) -> ParamFlowRule {
    let grade = fields.mode(METRIC).unwrap_or(Grade::Concurrency);
    let behavior = match fields.mode(CONTROL).unwrap_or_default() {
        Control::Reject => ControlBehavior::Reject,
        Control::Throttling => ControlBehavior::RateLimiter,
    };
    let counts_calls = grade == Grade::Qps;
    let takes_tokens = counts_calls && !behavior.paces();
    if !fields.has(THRESHOLD) {
        fields.warn(THRESHOLD, "missing, so no call may pass; write threshold");
    }
    // Absent is 0 there, which is no time to count in.
    if counts_calls && !fields.has(DURATION) {
        fields.fault(DURATION, "missing; give seconds, at least 1");
    }
    ParamFlowRule {
        head,
        param: param(fields),
        grade,
        count: fields.number(THRESHOLD).unwrap_or_default(),
        accounting: fields.mode(ACCOUNTING).unwrap_or_default(),
        behavior,
        max_queueing_time_ms: fields.u32(WAIT, true).unwrap_or_default(),
        burst_count: fields.u32(BURST, takes_tokens).unwrap_or_default(),
        duration_in_sec: fields.u32(DURATION, counts_calls).unwrap_or(1),
        items: fields.objects(ITEMS, item),
        max_values: fields.u32(CAPACITY, true).filter(|values| *values > 0),
    }
}

/// By attachment if there is a name; an index of 0 beside it is what a field
/// that is not set looks like there.
fn param(fields: &mut Fields<'_>) -> Param {
    let index = fields.i32(INDEX).unwrap_or_default();
    match fields.text(KEY).filter(|key| !key.is_empty()) {
        None => Param::Index(index),
        Some(key) => {
            if index != 0 {
                fields.fault(
                    KEY,
                    "paramIndex is given too; keep one of them: a rule counts by an argument or by an attachment",
                );
            }
            Param::Key(key)
        }
    }
}

fn item(fields: &mut Fields<'_>) -> ParamItem {
    let class = match fields.mode(VALUE_KIND).unwrap_or_default() {
        ValueKind::Int => Class::Int,
        ValueKind::String => Class::Text,
        ValueKind::Bool => Class::Bool,
        ValueKind::Float64 => Class::Float64,
    };
    let value = match fields.text(VALUE) {
        Some(text) => class.read(&text).unwrap_or_else(|reason| {
            let reason = reason.replace("classType", VALUE_KIND);
            fields.fault(VALUE, format!("{text:?} {reason}"));
            ParamValue::Bool(false)
        }),
        None => {
            fields.fault(VALUE, "missing; give the value as text");
            ParamValue::Bool(false)
        }
    };
    let count = fields.number(THRESHOLD).unwrap_or_default();
    if count < 0.0 {
        fields.fault(
            THRESHOLD,
            format!("{count} is negative; give a number of calls, 0 means none"),
        );
    }
    ParamItem { value, count }
}

fn write(rule: &ParamFlowRule, there: &mut GolangRule) {
    if let Some(accounting @ (Accounting::Strict | Accounting::TokenBucket)) = rule.accounted() {
        there.refuses(
            ACCOUNTING,
            format!("sentinel-golang refills its buckets by spans and knows no {accounting}, so the limit would be another one; leave it out"),
        );
    }
    let control = match rule.behavior.paces() {
        true => Control::Throttling,
        false => Control::Reject,
    };
    there.field(METRIC, rule.grade as u8);
    there.field(CONTROL, control as u8);
    match &rule.param {
        Param::Index(index) => there.field(INDEX, *index),
        Param::Key(key) => there.field(KEY, key.as_str()),
    }
    let threshold = whole(rule.count, there);
    there.field(THRESHOLD, threshold);
    if rule.behavior.paces() || rule.max_queueing_time_ms != 0 {
        there.field(WAIT, rule.max_queueing_time_ms);
    }
    if rule.burst_count != 0 {
        there.field(BURST, rule.burst_count);
    }
    if rule.grade == Grade::Qps || rule.duration_in_sec != 1 {
        there.field(DURATION, rule.duration_in_sec);
    }
    there.optional(CAPACITY, rule.max_values);
    if !rule.items.is_empty() {
        let items: Vec<Value> = rule
            .items
            .iter()
            .filter_map(|item| write_item(item, there))
            .collect();
        there.field(ITEMS, items);
    }
}

fn write_item(item: &ParamItem, there: &mut GolangRule) -> Option<Value> {
    let kind = match &item.value {
        ParamValue::Int(number) if i64::try_from(*number).is_ok() => ValueKind::Int,
        ParamValue::Text(_) => ValueKind::String,
        ParamValue::Bool(_) => ValueKind::Bool,
        ParamValue::Float(_) => ValueKind::Float64,
        ParamValue::Int(_) | ParamValue::Huge(_) | ParamValue::Char(_) | ParamValue::Hashed(_) => {
            let value = &item.value;
            there.loses(
                "paramFlowItemList",
                format!("sentinel-golang has no type for {value}; give a number of 64 bits, text, true or false"),
            );
            return None;
        }
    };
    let threshold = whole(item.count, there);
    Some(json!({VALUE_KIND: kind as u8, VALUE: item.value.to_string(), THRESHOLD: threshold}))
}

/// sentinel-golang's limits of values are whole.
fn whole(count: f64, there: &mut GolangRule) -> f64 {
    let whole = count.floor();
    if whole != count {
        there.loses(
            "count",
            format!(
                "{count} becomes {whole}, as sentinel-golang has whole ones; give a whole number"
            ),
        );
    }
    whole
}

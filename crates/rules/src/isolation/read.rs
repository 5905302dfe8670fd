//! How an isolation rule is written in JSON, and what makes it valid.
//!
//! Sentinel has no such kind; sentinel-golang's `threshold` and `metricType` are
//! read as they are, in either dialect, and so is our `count`.

use flowgate_core::node::permits::LIMIT_MAX;

use super::{Isolation, IsolationRule};
use crate::Settings;
use crate::dialect::{Golang, GolangRule, GolangSpec};
use crate::document::Fields;
use crate::field::{Choice, FieldKind, FieldSpec, Mode};
use crate::head::Head;
use crate::idle::Idle;
use crate::kind::RuleKind;

/// [`LIMIT_MAX`], for people.
const PERMITS_MAX: u32 = 16_777_215;
const _: () = assert!(PERMITS_MAX as u64 == LIMIT_MAX);

const FIELDS: &[FieldSpec] = &[
    FieldSpec::new(
        "count",
        FieldKind::Whole,
        "the most permits at once; a call takes as many as it weighs",
    )
    .min(0)
    .max(PERMITS_MAX)
    .advice("give a number of permits, 0 means that no call may run")
    .required_or("threshold")
    .added()
    .shared(),
    THRESHOLD,
    METRIC_TYPE,
    FieldSpec::new(
        "maxQueueingTimeMs",
        FieldKind::Whole,
        "the longest wait for permits",
    )
    .default("0")
    .min(0)
    .advice("give milliseconds, 0 means do not wait")
    .added()
    .shared(),
    FieldSpec::new(
        "maxQueueLength",
        FieldKind::Whole,
        "how many calls of the resource may wait at once",
    )
    .default("1000")
    .min(0)
    .advice("give a number of calls, at least 1")
    .added()
    .shared(),
];

/// What sentinel-golang has. Flowgate reads the others in its dialect too.
const FIELDS_THERE: &[FieldSpec] = &[THRESHOLD, METRIC_TYPE];

const THRESHOLD: FieldSpec = FieldSpec::new(
    "threshold",
    FieldKind::Whole,
    "another name for count, as in sentinel-golang",
)
.min(0)
.max(PERMITS_MAX)
.advice("give a number of permits, 0 means that no call may run")
.required_or("count")
.shared();

const METRIC_TYPE: FieldSpec = FieldSpec::new(
    "metricType",
    FieldKind::Mode(Metric::CHOICES),
    "what is counted, as in sentinel-golang",
)
.default("0")
.advice("give 0 (concurrency), or leave it out")
.shared();

/// All that sentinel-golang's `metricType` can say.
#[derive(Clone, Copy)]
enum Metric {
    Concurrency,
}

impl Mode for Metric {
    const ALL: &'static [Self] = &[Self::Concurrency];
    const CHOICES: &'static [Choice] =
        &[Choice::new("concurrency", "the weights of running calls")];
}

impl RuleKind for Isolation {
    const NAME: &'static str = "isolation";
    const ABOUT: &'static str =
        "limits how much of a resource runs at once; calls beyond that are refused or wait";
    const GUIDE: &'static str = include_str!("guide.md");
    type Rule = IsolationRule;
    /// Permits are counted by the node.
    type State = ();

    fn fields() -> &'static [FieldSpec] {
        FIELDS
    }

    fn golang() -> Option<Golang<Self>> {
        Some(Golang {
            spec: GolangSpec {
                kind: "isolation",
                fields: FIELDS_THERE,
                names: &[],
            },
            parse: Self::parse,
            write,
        })
    }

    fn parse(head: Head, fields: &mut Fields<'_>) -> IsolationRule {
        let given = [fields.has("count"), fields.has("threshold")];
        let count = match given {
            [true, true] => {
                fields.fault("threshold", "count says the same; keep one of them");
                None
            }
            [false, true] => fields.u32("threshold", true),
            [true, false] => fields.u32("count", true),
            [false, false] => {
                let message = "missing; give the permits that calls may hold at once";
                fields.fault("count", message);
                None
            }
        };
        let _: Option<Metric> = fields.mode("metricType");
        let wait_ms_max = fields.u32("maxQueueingTimeMs", true).unwrap_or_default();
        IsolationRule {
            head,
            count: count.unwrap_or_default(),
            max_queueing_time_ms: wait_ms_max,
            max_queue_length: fields
                .u32("maxQueueLength", wait_ms_max > 0)
                .unwrap_or(IsolationRule::MAX_QUEUE_LENGTH),
        }
    }

    fn validate(rule: &IsolationRule, _: &Settings, fields: &mut Fields<'_>) {
        if u64::from(rule.count) > LIMIT_MAX {
            let field = match fields.has("threshold") {
                true => "threshold",
                false => "count",
            };
            let message = format!("{} is too large; give at most {LIMIT_MAX}", rule.count);
            fields.fault(field, message);
        }
        if rule.max_queueing_time_ms == 0
            && rule.max_queue_length != IsolationRule::MAX_QUEUE_LENGTH
        {
            fields.warn(
                "maxQueueLength",
                "not used: without maxQueueingTimeMs nobody waits; write that too, or leave it out",
            );
        }
        if rule.max_queueing_time_ms > 0 && rule.max_queue_length == 0 {
            fields.warn(
                "maxQueueLength",
                "0 lets nobody wait, whatever maxQueueingTimeMs says; give a number of calls, at least 1",
            );
        }
    }

    fn normalized(rule: &IsolationRule) -> IsolationRule {
        let mut rule = rule.clone();
        if !rule.waits() {
            let default = IsolationRule::default();
            rule.max_queueing_time_ms = default.max_queueing_time_ms;
            rule.max_queue_length = default.max_queue_length;
        }
        rule
    }

    fn head(rule: &IsolationRule) -> &Head {
        &rule.head
    }

    fn new_state(_: &IsolationRule, _: &Settings) {}

    /// It remembers nothing.
    fn is_as_new(_: &IsolationRule, _: &(), _: Idle) -> bool {
        true
    }
}

fn write(rule: &IsolationRule, there: &mut GolangRule) {
    if rule.count == 0 {
        there.refuses(
            "count",
            "sentinel-golang drops a rule of 0 permits, so all calls would run; give at least 1",
        );
    }
    if rule.waits() {
        there.refuses(
            "maxQueueingTimeMs",
            "sentinel-golang would refuse at once; leave it out",
        );
    }
    there.field("threshold", rule.count);
    there.field("metricType", Metric::Concurrency as u8);
}

//! What a hot-parameter rule says.

use std::hash::{Hash, Hasher};

use flowgate_core::Accounting;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::ParamValue;
use crate::accounting::{by_name, is_window};
use crate::flow::count_bits;
use crate::head::{Head, head_methods};
use crate::{ControlBehavior, Grade};

/// How much each value of one argument may use of a resource.
///
/// ```
/// use flowgate_rules::param_flow::ParamFlowRule;
///
/// let per_user = ParamFlowRule::qps("orders", 0, 5.0).item("vip", 50.0);
/// let per_tenant = ParamFlowRule::concurrency("report", 1, 2.0);
/// let mails = ParamFlowRule::qps("mail", 0, 1.0).by_key("user").rate_limiter(500);
/// # let _ = (per_user, per_tenant, mails);
/// ```
///
/// Two rules are equal if they say the same; their ids do not count.
/// Serialized, it is Sentinel's JSON with numbers for the modes.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParamFlowRule {
    /// What it is called, which resources it limits, whether it is enforced.
    #[serde(flatten)]
    pub head: Head,
    /// Where the value is found.
    #[serde(flatten)]
    pub param: Param,
    /// What is counted.
    pub grade: Grade,
    /// The limit of each value: calls per [`duration_in_sec`], or calls at once.
    ///
    /// [`duration_in_sec`]: Self::duration_in_sec
    pub count: f64,
    /// How a rate is accounted: [`Accounting::Window`] is Sentinel's bucket,
    /// which is refilled by spans; [`Accounting::TokenBucket`] is refilled
    /// continuously. Only [`Grade::Qps`] without a queue looks at it.
    #[serde(skip_serializing_if = "is_window", serialize_with = "by_name")]
    pub accounting: Accounting,
    /// What happens beyond the limit: [`ControlBehavior::Reject`] or
    /// [`ControlBehavior::RateLimiter`]. Only [`Grade::Qps`] looks at it.
    #[serde(rename = "controlBehavior")]
    pub behavior: ControlBehavior,
    /// The longest wait in the line of a value in milliseconds. 0: calls are
    /// spaced, and none waits.
    pub max_queueing_time_ms: u32,
    /// Calls more than `count` that a value may have after a quiet time.
    pub burst_count: u32,
    /// The seconds that `count` is for.
    pub duration_in_sec: u32,
    /// Values with limits of their own. They are always remembered.
    #[serde(rename = "paramFlowItemList")]
    pub items: Vec<ParamItem>,
    /// The most other values that are remembered per resource; `None`: as many
    /// as in Sentinel, [`ParamFlowRule::max_values_or_default`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_values: Option<u32>,
}

head_methods!(ParamFlowRule);

/// Where a rule finds the value it counts by. A list counts element by element.
/// Where there is no such value, or it is null, the rule does not apply.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub enum Param {
    /// An argument by position: 0 is the first, -1 the last.
    #[serde(rename = "paramIdx")]
    Index(i32),
    /// An attachment by name.
    #[serde(rename = "paramKey")]
    Key(String),
}

/// A value with a limit of its own.
#[derive(Debug, Clone)]
pub struct ParamItem {
    /// The value. A [`ParamValue::Hashed`] is known to this process alone and
    /// has no JSON of its own.
    pub value: ParamValue,
    /// Its limit, in place of the rule's `count`.
    pub count: f64,
}

impl ParamFlowRule {
    /// The most values that can be asked for.
    pub const MAX_VALUES: u32 = 1 << 24;
    pub(super) const MORE_VALUES: u32 = Self::MAX_VALUES + 1;
    /// The most values that can have limits of their own.
    pub const ITEMS_MAX: usize = u16::MAX as usize;

    /// At most `count` calls of `resource` per second for each value of
    /// argument `index` (0 is the first, -1 the last); others are refused.
    #[must_use]
    pub fn qps(resource: impl Into<String>, index: i32, count: f64) -> Self {
        Self {
            head: Head::of(resource),
            param: Param::Index(index),
            count,
            ..Self::default()
        }
    }

    /// At most `count` calls of `resource` at once for each value of argument
    /// `index`; others are refused.
    #[must_use]
    pub fn concurrency(resource: impl Into<String>, index: i32, count: f64) -> Self {
        Self {
            grade: Grade::Concurrency,
            ..Self::qps(resource, index, count)
        }
    }

    /// Counts by the attachment `name` instead of an argument.
    #[must_use]
    pub fn by_key(mut self, name: impl Into<String>) -> Self {
        self.param = Param::Key(name.into());
        self
    }

    /// Queues calls of the same value at an even pace, at most this long.
    #[must_use]
    pub fn rate_limiter(mut self, max_queueing_time_ms: u32) -> Self {
        self.behavior = ControlBehavior::RateLimiter;
        self.max_queueing_time_ms = max_queueing_time_ms;
        self
    }

    /// Makes `count` a limit per this many seconds.
    #[must_use]
    pub fn duration_in_sec(mut self, seconds: u32) -> Self {
        self.duration_in_sec = seconds;
        self
    }

    /// Allows a value this many calls more after a quiet time.
    #[must_use]
    pub fn burst(mut self, burst_count: u32) -> Self {
        self.burst_count = burst_count;
        self
    }

    /// Refills the bucket of a value continuously: at most `⌊count + burst⌋ +
    /// rate · t` calls in any span `t`.
    #[must_use]
    pub fn token_bucket(mut self) -> Self {
        self.accounting = Accounting::TokenBucket;
        self
    }

    /// How the rule's rate is accounted; `None`: it limits calls at once, or is
    /// a queue, and has no spans.
    #[must_use]
    pub fn accounted(&self) -> Option<Accounting> {
        let counts = self.grade == Grade::Qps && !self.behavior.paces();
        counts.then_some(self.accounting)
    }

    /// Gives `value` a limit of its own.
    #[must_use]
    pub fn item(mut self, value: impl Into<ParamValue>, count: f64) -> Self {
        self.items.push(ParamItem {
            value: value.into(),
            count,
        });
        self
    }

    /// Remembers at most this many values per resource.
    #[must_use]
    pub fn max_values(mut self, values: u32) -> Self {
        self.max_values = Some(values);
        self
    }

    /// The most values remembered per resource. If the rule says nothing, 4,000
    /// for each second of its duration, at most 200,000, as in Sentinel; 4,000
    /// for calls in flight.
    #[must_use]
    pub fn max_values_or_default(&self) -> u32 {
        let seconds = match self.grade {
            Grade::Qps => self.duration_in_sec.max(1),
            Grade::Concurrency => 1,
        };
        self.max_values
            .unwrap_or_else(|| seconds.saturating_mul(4_000).min(200_000))
    }

    /// What the behaviour comes to: only rates are queued.
    pub(super) fn queues(&self) -> bool {
        self.grade == Grade::Qps && self.behavior.paces()
    }

    fn meaning(&self) -> impl Hash + Eq + '_ {
        let Self {
            head,
            param,
            grade,
            count,
            accounting,
            behavior,
            max_queueing_time_ms,
            burst_count,
            duration_in_sec,
            items,
            max_values,
        } = self;
        (
            (head, param, grade, count_bits(*count), accounting),
            (behavior, max_queueing_time_ms, burst_count),
            (duration_in_sec, items, max_values),
        )
    }
}

impl Default for ParamFlowRule {
    fn default() -> Self {
        Self {
            head: Head::default(),
            param: Param::Index(0),
            grade: Grade::Qps,
            count: 0.0,
            accounting: Accounting::Window,
            behavior: ControlBehavior::Reject,
            max_queueing_time_ms: 0,
            burst_count: 0,
            duration_in_sec: 1,
            items: Vec::new(),
            max_values: None,
        }
    }
}

impl PartialEq for ParamFlowRule {
    fn eq(&self, other: &Self) -> bool {
        self.meaning() == other.meaning()
    }
}

impl Eq for ParamFlowRule {}

impl Hash for ParamFlowRule {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.meaning().hash(state);
    }
}

impl PartialEq for ParamItem {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value && count_bits(self.count) == count_bits(other.count)
    }
}

impl Eq for ParamItem {}

impl Hash for ParamItem {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.value, count_bits(self.count)).hash(state);
    }
}

impl Serialize for ParamItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut item = serializer.serialize_struct("ParamItem", 3)?;
        item.serialize_field("object", &self.value.to_string())?;
        item.serialize_field("count", &self.count)?;
        item.serialize_field("classType", &self.value.class_name())?;
        item.end()
    }
}

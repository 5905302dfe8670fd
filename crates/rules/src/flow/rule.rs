//! What a flow rule says.

use std::hash::{Hash, Hasher};

use flowgate_core::Accounting;
use serde::{Serialize, Serializer};

use super::MemoryLimits;
use crate::accounting::{by_name, is_window};
use crate::field::{Choice, Mode};
use crate::head::{Head, head_methods};

/// How much of one resource may pass.
///
/// ```
/// use flowgate_rules::FlowRule;
///
/// let per_second = FlowRule::qps("orders", 100.0);
/// let queueing = FlowRule::qps("mail", 10.0).rate_limiter(500);
/// let at_once = FlowRule::concurrency("reports", 4.0).limit_app("web");
/// assert_ne!(per_second, queueing);
/// # let _ = at_once;
/// ```
///
/// Two rules are equal if they say the same; their ids do not count.
/// Serialized, it is Sentinel's JSON with numbers for the modes.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowRule {
    /// What it is called, which resources it limits, whether it is enforced.
    #[serde(flatten)]
    pub head: Head,
    /// Whose calls it is for.
    pub limit_app: LimitApp,
    /// What is counted.
    pub grade: Grade,
    /// The limit: calls per second or interval, or calls at once.
    pub count: f64,
    /// The spans of time that the limit holds for. Only [`Grade::Qps`] looks at
    /// it, and no queue but that of a bucket.
    #[serde(skip_serializing_if = "is_window", serialize_with = "by_name")]
    pub accounting: Accounting,
    /// How many tokens a bucket holds; `None`: `count`, and at least one. Only
    /// [`Accounting::TokenBucket`] looks at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_count: Option<u64>,
    /// Whose count decides.
    pub strategy: Strategy,
    /// The other resource ([`Strategy::Relate`]) or the context
    /// ([`Strategy::Chain`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ref_resource: Option<String>,
    /// The interval in milliseconds that `count` is for; `None` or 0: a second,
    /// counted in the second view. Only [`Grade::Qps`] looks at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat_interval_ms: Option<u32>,
    /// In how many boxes the interval is counted; `None` or 0:
    /// [`FlowRule::BOXES`].
    #[serde(
        rename = "statSlidingWindowBucketCount",
        skip_serializing_if = "Option::is_none"
    )]
    pub boxes: Option<u32>,
    /// Limits that follow the memory in use, instead of `count`.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryLimits>,
    /// What happens beyond the limit. Only [`Grade::Qps`] looks at it.
    #[serde(rename = "controlBehavior")]
    pub behavior: ControlBehavior,
    /// Seconds from cold to the full limit, for the behaviours that warm up.
    pub warm_up_period_sec: u32,
    /// How many times slower it is when cold; `None`: the engine's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up_cold_factor: Option<u32>,
    /// The longest wait in the queue in milliseconds, for the behaviours that
    /// queue. 0: calls are spaced, and none waits.
    pub max_queueing_time_ms: u32,
}

head_methods!(FlowRule);

/// Whose calls a flow rule is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum LimitApp {
    /// Everybody's, counted together.
    #[default]
    Default,
    /// Those of each origin that no other rule of the resource names, every
    /// origin by itself.
    Other,
    /// Those of this origin.
    Named(String),
}

/// What a flow rule counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Grade {
    /// Calls running at once.
    Concurrency,
    /// Calls per second.
    #[default]
    Qps,
}

/// Whose count decides for a flow rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Strategy {
    /// The resource's own.
    #[default]
    Direct,
    /// Another resource's, `ref_resource`. It is looked at, and nothing is
    /// reserved there.
    Relate,
    /// The resource's own in the context `ref_resource`; elsewhere the rule
    /// does not apply.
    Chain,
}

/// What a flow rule does with calls beyond its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ControlBehavior {
    /// Refuses them.
    #[default]
    Reject,
    /// Refuses them, and allows less after a quiet time.
    WarmUp,
    /// Queues them at an even pace.
    RateLimiter,
    /// Queues them, at a slower pace after a quiet time.
    WarmUpRateLimiter,
}

impl ControlBehavior {
    /// Whether the limit is lower after a quiet time.
    #[must_use]
    pub fn warms_up(self) -> bool {
        matches!(self, Self::WarmUp | Self::WarmUpRateLimiter)
    }

    /// Whether calls are spaced evenly and may wait.
    #[must_use]
    pub fn paces(self) -> bool {
        matches!(self, Self::RateLimiter | Self::WarmUpRateLimiter)
    }
}

impl FlowRule {
    /// Sentinel's default for `maxQueueingTimeMs`.
    pub const MAX_QUEUEING_TIME_MS: u32 = 500;
    /// Sentinel's default for `warmUpPeriodSec`.
    pub const WARM_UP_PERIOD_SEC: u32 = 10;

    /// At most `count` calls of `resource` per second; others are refused.
    #[must_use]
    pub fn qps(resource: impl Into<String>, count: f64) -> Self {
        Self {
            head: Head::of(resource),
            count,
            ..Self::default()
        }
    }

    /// At most `count` calls of `resource` at once; others are refused.
    #[must_use]
    pub fn concurrency(resource: impl Into<String>, count: f64) -> Self {
        Self {
            grade: Grade::Concurrency,
            ..Self::qps(resource, count)
        }
    }

    /// For calls of this origin only. `"default"` is everybody, `"other"` those
    /// whom no other rule of the resource names.
    #[must_use]
    pub fn limit_app(mut self, origin: &str) -> Self {
        self.limit_app = LimitApp::from(origin);
        self
    }

    /// Lets the count of another resource decide.
    #[must_use]
    pub fn relate(mut self, resource: impl Into<String>) -> Self {
        self.strategy = Strategy::Relate;
        self.ref_resource = Some(resource.into());
        self
    }

    /// For calls in this context only.
    #[must_use]
    pub fn chain(mut self, context: impl Into<String>) -> Self {
        self.strategy = Strategy::Chain;
        self.ref_resource = Some(context.into());
        self
    }

    /// Allows less after a quiet time, and warms up over `period_sec` seconds.
    /// After [`rate_limiter`](Self::rate_limiter) it still queues.
    #[must_use]
    pub fn warm_up(mut self, period_sec: u32) -> Self {
        self.behavior = if self.behavior.paces() {
            ControlBehavior::WarmUpRateLimiter
        } else {
            ControlBehavior::WarmUp
        };
        self.warm_up_period_sec = period_sec;
        self
    }

    /// How many times slower it is when cold, at least 2.
    #[must_use]
    pub fn cold_factor(mut self, factor: u32) -> Self {
        self.warm_up_cold_factor = Some(factor);
        self
    }

    /// Queues calls at an even pace, each for at most this many milliseconds.
    /// After [`warm_up`](Self::warm_up) it still warms up.
    #[must_use]
    pub fn rate_limiter(mut self, max_queueing_time_ms: u32) -> Self {
        self.behavior = if self.behavior.warms_up() {
            ControlBehavior::WarmUpRateLimiter
        } else {
            ControlBehavior::RateLimiter
        };
        self.max_queueing_time_ms = max_queueing_time_ms;
        self
    }

    /// The behaviour in effect: a concurrency rule always refuses.
    #[must_use]
    pub fn effective_behavior(&self) -> ControlBehavior {
        match self.grade {
            Grade::Qps => self.behavior,
            Grade::Concurrency => ControlBehavior::Reject,
        }
    }

    /// What makes two rules the same. Taken apart by name, so that a new field
    /// does not go unnoticed: a reload that changes it alone is a change.
    fn content(&self) -> impl Eq + Hash + '_ {
        let Self {
            head,
            limit_app,
            grade,
            count,
            accounting,
            burst_count,
            strategy,
            ref_resource,
            stat_interval_ms,
            boxes,
            memory,
            behavior,
            warm_up_period_sec,
            warm_up_cold_factor,
            max_queueing_time_ms,
        } = self;
        (
            (head, limit_app, grade, count_bits(*count)),
            (accounting, burst_count),
            (strategy, ref_resource, stat_interval_ms, boxes, memory),
            (behavior, warm_up_period_sec),
            (warm_up_cold_factor, max_queueing_time_ms),
        )
    }
}

/// The bits of a number by which it is compared: -0 is 0.
pub(crate) fn count_bits(count: f64) -> u64 {
    (count + 0.0).to_bits()
}

impl Default for FlowRule {
    fn default() -> Self {
        Self {
            head: Head::default(),
            limit_app: LimitApp::Default,
            grade: Grade::Qps,
            count: 0.0,
            accounting: Accounting::Window,
            burst_count: None,
            strategy: Strategy::Direct,
            ref_resource: None,
            stat_interval_ms: None,
            boxes: None,
            memory: None,
            behavior: ControlBehavior::Reject,
            warm_up_period_sec: Self::WARM_UP_PERIOD_SEC,
            warm_up_cold_factor: None,
            max_queueing_time_ms: Self::MAX_QUEUEING_TIME_MS,
        }
    }
}

impl PartialEq for FlowRule {
    fn eq(&self, other: &Self) -> bool {
        self.content() == other.content()
    }
}

impl Eq for FlowRule {}

impl Hash for FlowRule {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.content().hash(state);
    }
}

impl LimitApp {
    /// Its name in JSON.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Default => "default",
            Self::Other => "other",
            Self::Named(name) => name,
        }
    }
}

impl From<&str> for LimitApp {
    fn from(name: &str) -> Self {
        match name {
            "default" => Self::Default,
            "other" => Self::Other,
            name if name.trim().is_empty() => Self::Default,
            name => Self::Named(name.to_owned()),
        }
    }
}

impl Serialize for LimitApp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Mode for Grade {
    const ALL: &'static [Self] = &[Self::Concurrency, Self::Qps];
    const CHOICES: &'static [Choice] = &[
        Choice::new("concurrency", "calls running at once").or(&["thread"]),
        Choice::new("qps", "calls per second"),
    ];
}

impl Mode for Strategy {
    const ALL: &'static [Self] = &[Self::Direct, Self::Relate, Self::Chain];
    const CHOICES: &'static [Choice] = &[
        Choice::new("direct", "the resource's own count decides"),
        Choice::new("relate", "the count of the resource refResource decides"),
        Choice::new("chain", "for calls in the context refResource only"),
    ];
}

impl Mode for ControlBehavior {
    const ALL: &'static [Self] = &[
        Self::Reject,
        Self::WarmUp,
        Self::RateLimiter,
        Self::WarmUpRateLimiter,
    ];
    const CHOICES: &'static [Choice] = &[
        Choice::new("reject", "refuse what is beyond the limit").or(&["default", "direct"]),
        Choice::new("warmUp", "refuse, and allow less after a quiet time"),
        Choice::new("rateLimiter", "queue at an even pace").or(&[
            "throttle",
            "throttling",
            "queue",
        ]),
        Choice::new("warmUpRateLimiter", "queue, slower after a quiet time"),
    ];
}

impl Serialize for Grade {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(*self as u32)
    }
}

impl Serialize for Strategy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(*self as u32)
    }
}

impl Serialize for ControlBehavior {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(*self as u32)
    }
}

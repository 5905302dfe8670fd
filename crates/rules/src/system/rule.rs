//! What a system rule says.

use std::hash::{Hash, Hasher};

use serde::Serialize;

use crate::flow::count_bits;
use crate::head::{Head, RuleMode};

/// How much may come into the service at all.
///
/// It looks at inbound calls only ([`Traffic::Inbound`]), all resources
/// together. What is `None` is not looked at.
///
/// ```
/// use flowgate_rules::SystemRule;
///
/// // At most 200 calls at once and 1,000 per second, and as many as the machine
/// // can do when its load is above 4.
/// let rule = SystemRule::default().concurrency(200).qps(1000.0).load(4.0);
/// assert_eq!(rule.max_thread, Some(200));
/// ```
///
/// Two rules are equal if they say the same; their ids do not count.
///
/// [`Traffic::Inbound`]: flowgate_core::Traffic::Inbound
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SystemRule {
    /// What it is called, and whether it is enforced.
    #[serde(flatten)]
    pub head: Head,
    /// The load of the last minute above which no more calls are let in than
    /// the machine can do at its best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highest_system_load: Option<f64>,
    /// The share of its processors, from 0 to 1, above which no call is let in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highest_cpu_usage: Option<f64>,
    /// Inbound calls per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qps: Option<f64>,
    /// The mean response time in milliseconds above which no call is let in.
    #[serde(rename = "avgRt", skip_serializing_if = "Option::is_none")]
    pub avg_rt_ms: Option<f64>,
    /// Inbound calls at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_thread: Option<u64>,
}

impl SystemRule {
    /// Lets in at most this many calls per second.
    #[must_use]
    pub fn qps(mut self, calls: f64) -> Self {
        self.qps = Some(calls);
        self
    }

    /// Lets in at most this many calls at once.
    #[must_use]
    pub fn concurrency(mut self, calls: u64) -> Self {
        self.max_thread = Some(calls);
        self
    }

    /// Lets no call in while calls take longer than this on average, in
    /// milliseconds.
    #[must_use]
    pub fn avg_rt_ms(mut self, rt_ms: f64) -> Self {
        self.avg_rt_ms = Some(rt_ms);
        self
    }

    /// Lets in no more than the machine can do at its best while its load is
    /// above this.
    #[must_use]
    pub fn load(mut self, load: f64) -> Self {
        self.highest_system_load = Some(load);
        self
    }

    /// Lets no call in while processors are busier than this, from 0 to 1.
    #[must_use]
    pub fn cpu(mut self, share: f64) -> Self {
        self.highest_cpu_usage = Some(share);
        self
    }

    /// Gives it an id.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.head.id = Some(id.into());
        self
    }

    /// Only observes: it refuses nothing, and counts what it would have
    /// refused.
    #[must_use]
    pub fn observe(self) -> Self {
        self.mode(RuleMode::Observe)
    }

    /// Whether it is enforced.
    #[must_use]
    pub fn mode(mut self, mode: RuleMode) -> Self {
        self.head.mode = mode;
        self
    }

    /// Whether it looks at nothing.
    #[must_use]
    pub fn is_all_off(&self) -> bool {
        self.qps.is_none()
            && self.max_thread.is_none()
            && self.avg_rt_ms.is_none()
            && !self.needs_samples()
    }

    /// Whether it looks at figures of the machine.
    #[must_use]
    pub fn needs_samples(&self) -> bool {
        self.highest_system_load.is_some() || self.highest_cpu_usage.is_some()
    }

    /// What makes two rules the same; taken apart by name, so that a new field
    /// does not go unnoticed.
    fn content(&self) -> impl Eq + Hash + '_ {
        let Self {
            head,
            highest_system_load,
            highest_cpu_usage,
            qps,
            avg_rt_ms,
            max_thread,
        } = self;
        let fractions = [highest_system_load, highest_cpu_usage, qps, avg_rt_ms];
        (
            head,
            fractions.map(|number| number.map(count_bits)),
            max_thread,
        )
    }
}

impl PartialEq for SystemRule {
    fn eq(&self, other: &Self) -> bool {
        self.content() == other.content()
    }
}

impl Eq for SystemRule {}

impl Hash for SystemRule {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.content().hash(state);
    }
}

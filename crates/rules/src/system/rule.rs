//! What a system rule says.

use std::hash::{Hash, Hasher};

use serde::{Serialize, Serializer};

use crate::field::{Choice, Mode};
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
    /// Which figures of the machine refuse only calls that it cannot do.
    #[serde(skip_serializing_if = "Bbr::is_default")]
    pub bbr: Bbr,
}

/// Which figures of the machine refuse only what it cannot do: calls beyond the
/// best rate times the least response time, as the congestion control BBR
/// reckons. Other figures refuse all calls while they are above their threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Bbr {
    /// Load does, as in Sentinel.
    #[default]
    Load,
    /// None does.
    Off,
    /// Processor use does.
    Cpu,
    /// Both do.
    Both,
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

    /// Which figures of the machine refuse only what it cannot do.
    #[must_use]
    pub fn bbr(mut self, bbr: Bbr) -> Self {
        self.bbr = bbr;
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

    /// The rule with what it does not use put back to the default.
    pub(super) fn normalized(&self) -> Self {
        let (load, cpu) = (self.highest_system_load, self.highest_cpu_usage);
        let bbr = Bbr::of(
            load.is_none() || self.bbr.is_on_load(),
            cpu.is_some() && self.bbr.is_on_cpu(),
        );
        self.clone().bbr(bbr)
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
            bbr,
        } = self;
        let fractions = [highest_system_load, highest_cpu_usage, qps, avg_rt_ms];
        (
            head,
            fractions.map(|number| number.map(count_bits)),
            max_thread,
            bbr,
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

impl Bbr {
    /// On load, and on processor use.
    pub(super) fn of(load: bool, cpu: bool) -> Self {
        match (load, cpu) {
            (true, false) => Self::Load,
            (false, false) => Self::Off,
            (false, true) => Self::Cpu,
            (true, true) => Self::Both,
        }
    }

    /// Whether load above its threshold refuses only what the machine cannot do.
    #[must_use]
    pub fn is_on_load(self) -> bool {
        matches!(self, Self::Load | Self::Both)
    }

    /// Whether the same goes for processor use.
    #[must_use]
    pub fn is_on_cpu(self) -> bool {
        matches!(self, Self::Cpu | Self::Both)
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Mode for Bbr {
    const ALL: &'static [Self] = &[Self::Load, Self::Off, Self::Cpu, Self::Both];
    const CHOICES: &'static [Choice] = &[
        Choice::new("load", "load does, as in Sentinel"),
        Choice::new("off", "none does").or(&["none"]),
        Choice::new("cpu", "processor use does"),
        Choice::new("both", "load and processor use do"),
    ];
}

impl Serialize for Bbr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = Self::CHOICES.get(*self as usize).map(|choice| choice.name);
        serializer.serialize_str(name.unwrap_or_default())
    }
}

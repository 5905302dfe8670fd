//! What one flow rule remembers of one resource, and the pieces of its
//! decision that do not depend on other rules.
//!
//! A rule says `count` calls per *period*: a second, or its own interval. They
//! are counted in a *view* of the node: the second view, or one of just that
//! interval. At the usual second view all of these are one second.
//!
//! A rule that takes tokens has a bucket of its own instead, and no view.

use std::sync::Arc;
use std::time::Duration;

use flowgate_core::token_bucket::{Granted, Taken, TokenBucket, TooFewTokens};
use flowgate_core::{Interval, Node, Timestamp};

use super::pacing::{Pacer, Place, TooLong};
use super::rate::Rate;
use super::warm_up::WarmUp;
use super::{FlowRule, Grade, MemoryLimits};
use crate::Settings;
use crate::system::Machine;

/// The live state of one flow rule for one resource: its limits in the units
/// that are compared, its temperature and its line.
#[derive(Debug)]
pub struct FlowState {
    /// What is allowed per period, at most.
    rate: Rate,
    /// The view it is counted in; `None`: the second view.
    interval: Option<Interval>,
    /// How many periods that view is long: 1 for an interval of its own.
    periods: f64,
    limit: u64,
    places: u64,
    moving: Moving,
    pacer: Option<Pacer>,
    bucket: Option<Box<TokenBucket>>,
    /// Whether its calls wait for tokens.
    waits: bool,
    wait_ns_max: u64,
}

/// What moves the limit.
#[derive(Debug)]
enum Moving {
    Nothing,
    Temperature(WarmUp),
    Memory(MemoryLimits, Arc<Machine>),
}

impl FlowState {
    /// The state of a rule that has not seen a call: cold, with nobody in line
    /// and a full bucket.
    pub fn new(rule: &FlowRule, settings: &Settings) -> Self {
        let behavior = rule.effective_behavior();
        let period = rule.period();
        let memory = rule.memory.filter(|_| rule.grade == Grade::Qps);
        let rate = Rate::per(memory.map_or(rule.count, |memory| memory.low_usage), period);
        let interval = rule.view(settings);
        let second_view = Duration::from_millis(u64::from(settings.interval_ms));
        let view = interval.map_or(second_view, Interval::length);
        let cold_factor = rule.warm_up_cold_factor.unwrap_or(settings.cold_factor);
        let moving = match memory {
            Some(memory) => Moving::Memory(memory, Arc::clone(&settings.machine)),
            None if behavior.warms_up() && !rate.is_zero() => {
                let period_sec = rule.warm_up_period_sec;
                Moving::Temperature(WarmUp::new(rule.count, period, period_sec, cold_factor))
            }
            None => Moving::Nothing,
        };
        FlowState {
            limit: rate.limit_in(view),
            places: Rate::new(rule.count).limit_in(Duration::from_secs(1)),
            moving,
            pacer: (behavior.paces() && !rule.takes_tokens()).then(Pacer::default),
            bucket: bucket_of(rule),
            waits: behavior.paces(),
            wait_ns_max: u64::from(rule.max_queueing_time_ms) * 1_000_000,
            periods: view.as_secs_f64() / period.as_secs_f64(),
            rate,
            interval,
        }
    }

    /// What the rule's count is of: a second, or its own interval.
    #[inline]
    pub fn period(&self) -> Duration {
        self.rate.period()
    }

    /// The interval whose view the rule counts in; `None`: the second view.
    #[inline]
    pub fn interval(&self) -> Option<Interval> {
        self.interval
    }

    /// The most passes its view may hold, for rules whose limit does not move:
    /// `⌊count · view / period⌋`.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The most calls in flight: `⌊count⌋`.
    #[inline]
    pub fn places(&self) -> u64 {
        self.places
    }

    /// Whether the limit moves, with the resource's temperature or with the
    /// memory in use.
    #[inline]
    pub fn moves(&self) -> bool {
        !matches!(self.moving, Moving::Nothing)
    }

    /// Calls per period allowed at `now`, as seen from `node`.
    #[inline]
    pub fn allowed(&self, now: Timestamp, node: &Node) -> f64 {
        match &self.moving {
            Moving::Nothing => self.rate.count(),
            Moving::Temperature(warm_up) => {
                warm_up.allowed(now, || node.passes_in_previous_second(now))
            }
            Moving::Memory(limits, machine) => limits.allowed(machine.memory_used_bytes(now)),
        }
    }

    /// The most passes its view may hold at `allowed` calls per period.
    #[inline]
    pub fn limit_at(&self, allowed: f64) -> u64 {
        if allowed == self.rate.count() {
            return self.limit;
        }
        // Whole ones: what is allowed is not below zero.
        (allowed * self.periods) as u64
    }

    /// Whether calls are queued at an even pace.
    #[inline]
    pub fn paces(&self) -> bool {
        self.pacer.is_some()
    }

    /// A place in the line for a call of `weight` (at least 1), at `allowed`
    /// calls per period.
    ///
    /// # Errors
    ///
    /// [`Queue`] with the wait that would have been, if that is too long.
    #[inline]
    pub fn line_up(&self, now: Timestamp, weight: u32, allowed: f64) -> Result<Place, Queue> {
        let Some(pacer) = &self.pacer else {
            return Err(Queue::CLOSED);
        };
        if self.rate.is_zero() {
            return Err(Queue::CLOSED);
        }
        let cost_ns = match allowed == self.rate.count() {
            true => self.rate.cost_ns(weight),
            false => self.rate.cost_at_ns(allowed, weight),
        };
        pacer
            .request(now, cost_ns, self.wait_ns_max)
            .map_err(|TooLong { wait_ns }| {
                // A call that takes up more of the line than a period and the
                // longest wait never has room in a line that is in use.
                let period_ns = u64::try_from(self.rate.period().as_nanos()).unwrap_or(u64::MAX);
                let ever = cost_ns <= self.wait_ns_max.saturating_add(period_ns);
                let after_ns = wait_ns.saturating_sub(self.wait_ns_max);
                Queue {
                    wait: Duration::from_nanos(wait_ns),
                    retry_after: ever.then_some(Duration::from_nanos(after_ns)),
                }
            })
    }

    /// Gives a place in the line back.
    pub fn step_out(&self, place: Place, now: Timestamp) {
        if let Some(pacer) = &self.pacer {
            pacer.give_back(place, now);
        }
    }

    /// Whether calls take tokens out of a bucket.
    #[inline]
    pub fn takes_tokens(&self) -> bool {
        self.bucket.is_some()
    }

    /// Tokens for a call of `weight`; one that may wait until they have flowed
    /// in waits no longer than the rule says.
    ///
    /// # Errors
    ///
    /// [`TooFewTokens`]; the same call would pass after the time that is in
    /// there, if nobody else came: at once, or having waited.
    #[inline]
    pub fn take(
        &self,
        now: Timestamp,
        weight: u32,
        may_wait: bool,
    ) -> Result<Granted, TooFewTokens> {
        let Some(bucket) = &self.bucket else {
            return Err(TooFewTokens {
                left: 0,
                retry_after: None,
            });
        };
        let wait_max = match may_wait && self.waits {
            true => self.wait_max(),
            false => Duration::ZERO,
        };
        let taken = bucket.take_or_wait(now, weight, wait_max);
        taken.map_err(|too_few| TooFewTokens {
            retry_after: too_few
                .retry_after
                .map(|after| after.saturating_sub(wait_max)),
            ..too_few
        })
    }

    /// Gives tokens back that a call of `weight` took.
    pub fn put_back(&self, taken: Taken, weight: u32, now: Timestamp) {
        if let Some(bucket) = &self.bucket {
            bucket.give_back(taken, weight, now);
        }
    }

    /// How many tokens its bucket holds, and how many of these are taken at
    /// `now`.
    pub fn tokens(&self, now: Timestamp) -> (f64, f64) {
        self.bucket.as_ref().map_or((0.0, 0.0), |bucket| {
            let burst = bucket.quota().burst() as f64;
            (burst, burst - bucket.tokens_at(now))
        })
    }

    /// A number of passes in its view, as calls per period.
    pub fn per_period(&self, passes: u64) -> f64 {
        passes as f64 / self.periods
    }

    /// Whether it decides as a new one would, on whatever comes at `now` or
    /// later, if no call has passed its resource in the second before.
    ///
    /// A line has to be behind by a period and the longest wait, and by a call at
    /// the slowest pace. A heavier call has no room in a line that is in use, ever;
    /// only such a call could tell the line from one that was never used, and
    /// would be refused there.
    pub fn is_as_new(&self, now: Timestamp) -> bool {
        let period_ns = u64::try_from(self.rate.period().as_nanos()).unwrap_or(u64::MAX);
        let slowest = match &self.moving {
            Moving::Nothing => self.rate.count(),
            Moving::Temperature(warm_up) => warm_up.coldest(),
            Moving::Memory(limits, _) => limits.low_usage.min(limits.high_usage),
        };
        let line_ns =
            (self.rate.cost_at_ns(slowest, 1)).max(period_ns.saturating_add(self.wait_ns_max));
        let is_unused = |pacer: &Pacer| pacer.is_free(now, line_ns);
        let is_full = |bucket: &TokenBucket| bucket.whole_tokens_at(now) >= bucket.quota().burst();
        let is_cold = match &self.moving {
            Moving::Temperature(warm_up) => warm_up.is_cold(now),
            Moving::Nothing | Moving::Memory(..) => true,
        };
        is_cold
            && self.pacer.as_ref().is_none_or(is_unused)
            && self.bucket.as_deref().is_none_or(is_full)
    }

    /// The longest wait, in the line or for tokens.
    pub fn wait_max(&self) -> Duration {
        Duration::from_nanos(self.wait_ns_max)
    }
}

/// The full bucket of a rule that has one. What cannot be held exactly was
/// refused at load.
fn bucket_of(rule: &FlowRule) -> Option<Box<TokenBucket>> {
    let quota = rule.takes_tokens().then(|| rule.quota().ok()).flatten()?;
    Some(Box::new(TokenBucket::new(quota)))
}

/// Why there was no place in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// How long the call would have had to wait.
    pub wait: Duration,
    /// After what time the wait would be short enough; `None`: never.
    pub retry_after: Option<Duration>,
}

impl Queue {
    const CLOSED: Queue = Queue {
        wait: Duration::MAX,
        retry_after: None,
    };
}

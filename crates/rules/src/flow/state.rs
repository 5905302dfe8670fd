//! What one flow rule remembers of one resource, and the pieces of its
//! decision that do not depend on other rules.

use std::time::Duration;

use flowgate_core::{Node, Timestamp};

use super::FlowRule;
use super::pacing::{Pacer, Place, TooLong};
use super::rate::{Rate, cost_at};
use super::warm_up::WarmUp;
use crate::Settings;

/// The live state of one flow rule for one resource: its limits in the units
/// that are compared, its temperature and its line.
#[derive(Debug)]
pub struct FlowState {
    rate: Rate,
    interval: Duration,
    limit: u64,
    places: u64,
    warm_up: Option<WarmUp>,
    pacer: Option<Pacer>,
    wait_ns_max: u64,
}

impl FlowState {
    /// The state of a rule that has not seen a call: cold, and with nobody in
    /// line.
    pub fn new(rule: &FlowRule, settings: &Settings) -> Self {
        let rate = Rate::new(rule.count);
        let interval = Duration::from_millis(u64::from(settings.interval_ms));
        let behavior = rule.effective_behavior();
        let cold_factor = rule.warm_up_cold_factor.unwrap_or(settings.cold_factor);
        FlowState {
            limit: rate.limit_in(interval),
            places: rate.limit_in(Duration::from_secs(1)),
            warm_up: (behavior.warms_up() && !rate.is_zero())
                .then(|| WarmUp::new(rule.count, rule.warm_up_period_sec, cold_factor)),
            pacer: behavior.paces().then(Pacer::default),
            wait_ns_max: u64::from(rule.max_queueing_time_ms) * 1_000_000,
            rate,
            interval,
        }
    }

    /// The most passes the second view may hold, for behaviours that do not
    /// warm up: `⌊count · interval / 1 s⌋`.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The most calls in flight: `⌊count⌋`.
    #[inline]
    pub fn places(&self) -> u64 {
        self.places
    }

    /// Whether the limit moves with the resource's temperature.
    #[inline]
    pub fn warms_up(&self) -> bool {
        self.warm_up.is_some()
    }

    /// Calls per second allowed at `now`, as seen from `node`.
    #[inline]
    pub fn allowed(&self, now: Timestamp, node: &Node) -> f64 {
        match &self.warm_up {
            Some(warm_up) => warm_up.allowed(now, || node.passes_in_previous_second(now)),
            None => self.rate.count(),
        }
    }

    /// The most passes the second view may hold at `allowed` calls per second.
    #[inline]
    pub fn limit_at(&self, allowed: f64) -> u64 {
        if allowed == self.rate.count() {
            return self.limit;
        }
        (allowed * self.interval.as_secs_f64()).floor() as u64
    }

    /// Whether calls are queued at an even pace.
    #[inline]
    pub fn paces(&self) -> bool {
        self.pacer.is_some()
    }

    /// A place in the line for a call of `weight` (at least 1), at `allowed`
    /// calls per second.
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
            false => cost_at(allowed, weight),
        };
        pacer
            .request(now, cost_ns, self.wait_ns_max)
            .map_err(|TooLong { wait_ns }| {
                // A call that takes up more of the line than a second and the
                // longest wait never has room in a line that is in use.
                let ever = cost_ns <= self.wait_ns_max.saturating_add(1_000_000_000);
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

    /// A number of passes in the second view, as calls per second.
    pub fn per_second(&self, passes: u64) -> f64 {
        passes as f64 / self.interval.as_secs_f64()
    }

    /// The longest wait in the line.
    pub fn wait_max(&self) -> Duration {
        Duration::from_nanos(self.wait_ns_max)
    }
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

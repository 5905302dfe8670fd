//! The breaker of one rule for one resource: what the rule's words mean to the
//! [circuit](super::circuit), and which results are bad.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
use std::time::Duration;

use flowgate_core::{Outcome, Timestamp};

use super::circuit::{
    Admitted, BackOff, Change, Circuit, CircuitFigures, CircuitState, Forced, Limits, Probing,
    Refused, Span, Threshold,
};
use super::{BreakerStrategy, DegradeRule, Observers};
use crate::Settings;

/// The breaker of one rule for one resource.
#[derive(Debug)]
pub struct BreakerState {
    strategy: BreakerStrategy,
    /// Calls that take longer are slow.
    rt_max: Duration,
    circuit: Circuit,
    observers: Observers,
}

impl BreakerState {
    /// A breaker for `rule`, which has been validated.
    pub fn new(rule: &DegradeRule, settings: &Settings) -> Self {
        let seed = match settings.jitter_seed {
            Some(seed) => BuildHasherDefault::<DefaultHasher>::default().hash_one((seed, rule)),
            // Keys of the process and of the moment: no two breakers draw alike.
            None => RandomState::new().hash_one(rule),
        };
        BreakerState {
            strategy: rule.grade,
            rt_max: rt_max(rule.count),
            circuit: Circuit::new(limits(rule, seed)),
            observers: settings.breaker_observers.clone(),
        }
    }

    /// Who is to be told of what changes.
    pub fn observers(&self) -> &Observers {
        &self.observers
    }

    /// The state now. An open breaker stays open until a call probes it.
    pub fn state(&self) -> CircuitState {
        self.circuit.state()
    }

    /// All that can be seen of it at `now`; looking uses nothing up.
    pub fn figures(&self, now: Timestamp) -> CircuitFigures {
        self.circuit.figures(now)
    }

    /// Whether it decides as a new one would, on whatever comes at `now` or
    /// later: it is forced as its rule says and no otherwise, and if it is closed
    /// no result counts in it.
    pub fn is_as_new(&self, rule: &DegradeRule, now: Timestamp) -> bool {
        let figures = self.circuit.figures(now);
        let is_initial = match figures.forced {
            None => figures.state == CircuitState::Closed,
            Some(_) => true,
        };
        is_initial
            && figures.forced == rule.force
            && figures.results.total == 0
            && figures.since <= now
    }

    /// Whether a call may pass at `now`. What changes by it is told to `told`,
    /// here as in all that follows.
    ///
    /// # Errors
    ///
    /// [`Refused`] says how long until a call may probe.
    #[inline]
    pub fn admit(&self, now: Timestamp, told: impl FnMut(Change)) -> Result<Admitted, Refused> {
        self.circuit.admit(now, told)
    }

    /// Takes back an admission whose call was refused later, or given up.
    pub fn undecided(&self, admitted: Admitted, now: Timestamp, told: impl FnMut(Change)) {
        self.circuit.undecided(admitted, now, told);
    }

    /// Reports how a call ended that this breaker had let pass.
    #[inline]
    pub fn report(
        &self,
        admitted: Admitted,
        outcome: Outcome,
        took: Duration,
        now: Timestamp,
        told: impl FnMut(Change),
    ) {
        let bad = match (outcome, self.strategy) {
            (Outcome::Cancelled | Outcome::Ignored, _) => {
                return self.circuit.undecided(admitted, now, told);
            }
            (_, BreakerStrategy::SlowRatio) => took > self.rt_max,
            (outcome, _) => outcome == Outcome::Error,
        };
        self.circuit.report(admitted, bad, now, told);
    }

    /// Forces it open or closed from `now` on, until it is released. False if
    /// it is forced so already.
    pub fn force(&self, forced: Forced, now: Timestamp, told: impl FnMut(Change)) -> bool {
        self.circuit.force(forced, now, told)
    }

    /// Ends a force: the breaker is as its rule makes a new one. False if it
    /// is not forced, or by its rule only.
    pub fn release(&self, now: Timestamp, told: impl FnMut(Change)) -> bool {
        self.circuit.release(now, told)
    }

    /// Closes it and forgets all results and openings. False if it is forced:
    /// that stays until it is released.
    pub fn reset(&self, now: Timestamp, told: impl FnMut(Change)) -> bool {
        self.circuit.reset(now, told)
    }
}

/// The longest response time that is not above `ms`: of all durations the last one
/// whose milliseconds, as a double, are no more.
fn rt_max(ms: f64) -> Duration {
    let is_slow = |ns: u64| ns as f64 / 1e6 > ms;
    // Within one rounding of the product; doubles this large are 2,048 apart at most.
    let about = (ms * 1e6) as u64;
    let (mut most, mut slow) = (about.saturating_sub(4_096), about.saturating_add(4_096));
    if !is_slow(slow) {
        return Duration::from_nanos(slow);
    }
    while slow - most > 1 {
        let middle = most + (slow - most) / 2;
        match is_slow(middle) {
            true => slow = middle,
            false => most = middle,
        }
    }
    Duration::from_nanos(most)
}

fn limits(rule: &DegradeRule, seed: u64) -> Limits {
    let open_time = rule.open_time();
    let max = rule
        .max_time_window_sec
        .unwrap_or(DegradeRule::MAX_TIME_WINDOW_SEC);
    Limits {
        span: span(rule),
        threshold: match rule.grade {
            BreakerStrategy::SlowRatio | BreakerStrategy::ErrorRatio => {
                Threshold::Ratio(rule.threshold())
            }
            BreakerStrategy::ErrorCount | BreakerStrategy::ConsecutiveErrors => {
                Threshold::Number(rule.threshold())
            }
        },
        results_min: match rule.grade {
            // They are as many as they are.
            BreakerStrategy::ConsecutiveErrors => 1,
            _ => u64::from(rule.min_request_amount),
        },
        back_off: BackOff {
            base: open_time,
            multiplier: rule.backoff_multiplier,
            max: Duration::from_secs(u64::from(max)),
            jitter: rule.jitter,
            seed,
        },
        probing: Probing {
            probes: rule.probe_num.unwrap_or(1),
            needed: rule.probes_needed(),
            timeout: rule
                .half_open_timeout_ms
                .map_or(open_time, Duration::from_millis),
        },
        forced: rule.force,
    }
}

fn span(rule: &DegradeRule) -> Span {
    match (rule.grade, rule.stat_window_calls) {
        (BreakerStrategy::ConsecutiveErrors, _) => Span::InARow,
        (_, Some(calls)) => Span::Calls(calls),
        (_, None) => Span::Time {
            interval: Duration::from_millis(u64::from(rule.stat_interval_ms)),
            boxes: rule.stat_buckets,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::rt_max;

    #[test]
    fn the_longest_time_that_is_not_slow_is_exact_to_the_nanosecond() {
        for ms in [
            0.0,
            0.3,
            1.1,
            500.0,
            1e6 / 3.0,
            4_999.999_999,
            9.007e9,
            9.1e12,
            1.8e13,
        ] {
            let most = rt_max(ms).as_nanos() as u64;
            assert!(most as f64 / 1e6 <= ms, "{ms}");
            assert!(most + 1 == 0 || (most + 1) as f64 / 1e6 > ms, "{ms}");
        }
        for ever in [1e300, f64::MAX] {
            assert_eq!(rt_max(ever).as_nanos(), u128::from(u64::MAX));
        }
    }
}

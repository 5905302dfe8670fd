//! A rate as it was written, in exact arithmetic.
//!
//! `count` comes as a decimal number of calls per period: a second, or the
//! interval that a rule gives. Binary floating point would make 0.29 per second
//! × 100 s into 28 calls; here the decimal digits are kept as a fraction of
//! whole numbers.

use std::time::Duration;

use flowgate_core::token_bucket::Decimal;

const SECOND: Duration = Duration::from_secs(1);

/// `numerator / denominator` calls per period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    count: f64,
    numerator: u128,
    denominator: u128,
    period: Duration,
    period_ns: f64,
    /// Cost of weight 1, by far the most frequent one.
    cost_of_one_ns: u64,
}

impl Rate {
    /// The rate of `count` calls per second; anything but a positive finite
    /// number is no calls at all.
    pub fn new(count: f64) -> Self {
        Self::per(count, SECOND)
    }

    /// The rate of `count` calls per `period`, which is not empty.
    pub fn per(count: f64, period: Duration) -> Self {
        let written = Decimal::of(count);
        let mut rate = Rate {
            count,
            numerator: written.numerator,
            denominator: written.denominator,
            period,
            period_ns: period.as_nanos() as f64,
            cost_of_one_ns: 0,
        };
        rate.cost_of_one_ns = rate.cost(1);
        rate
    }

    /// Calls per period.
    #[inline]
    pub fn count(&self) -> f64 {
        self.count
    }

    /// What `count` calls are allowed in.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Whether nothing passes at this rate.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.numerator == 0
    }

    /// Calls per period as numerator and denominator.
    pub(crate) fn fraction(&self) -> (u128, u128) {
        (self.numerator, self.denominator)
    }

    /// The most whole calls in `interval`: `⌊count · interval / period⌋`.
    pub fn limit_in(&self, interval: Duration) -> u64 {
        let calls = self
            .numerator
            .checked_mul(interval.as_nanos())
            .map(|product| product / self.denominator / self.period.as_nanos().max(1));
        calls.map_or(u64::MAX, |calls| u64::try_from(calls).unwrap_or(u64::MAX))
    }

    /// What a call of `weight` costs when calls are paced: `weight · period /
    /// count` in nanoseconds, rounded half up, per call.
    #[inline]
    pub fn cost_ns(&self, weight: u32) -> u64 {
        if weight == 1 {
            self.cost_of_one_ns
        } else {
            self.cost(weight)
        }
    }

    fn cost(&self, weight: u32) -> u64 {
        if self.numerator == 0 {
            return u64::MAX;
        }
        let exact = u128::from(weight)
            .checked_mul(self.period.as_nanos())
            .and_then(|weighed| weighed.checked_mul(self.denominator))
            .and_then(|cost| Some(cost.checked_mul(2)?.checked_add(self.numerator)? / 2))
            .map(|twice| twice / self.numerator);
        // What overflows here is longer than the five centuries that a u64 of
        // nanoseconds holds, or has more digits than a double can tell apart.
        let rounded = exact.unwrap_or_else(|| self.cost_at_ns(self.count, weight).into());
        u64::try_from(rounded).unwrap_or(u64::MAX)
    }

    /// The same cost at `count` calls per period that were computed, not
    /// written: a double.
    #[inline]
    pub fn cost_at_ns(&self, count: f64, weight: u32) -> u64 {
        let cost = f64::from(weight) * self.period_ns / count;
        if cost.is_nan() {
            u64::MAX
        } else {
            (cost + 0.5) as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_rounded_half_up_per_call() {
        let table: &[(f64, u32, u64)] = &[
            (3.0, 1, 333_333_333),
            (3.0, 2, 666_666_667),
            (4.4, 1, 227_272_727),
            (400e6, 1, 3),
            (400e6, 2, 5),
            (400e6, 3, 8),
            (0.2, 1, 5_000_000_000),
            (1600.0, 1, 625_000),
            (3e9, 1, 0),
            (2e9, 1, 1),
            (1.0 / 86_400.0, 1, 86_400_000_000_000),
            (0.0, 1, u64::MAX),
            (1e-300, 1, u64::MAX),
        ];
        for &(count, weight, cost) in table {
            assert_eq!(
                Rate::new(count).cost_ns(weight),
                cost,
                "{weight} at {count}"
            );
        }
    }

    #[test]
    fn a_rate_is_zero_only_if_nothing_was_allowed() {
        for count in [1e-30, 1e-31, 1e-300, f64::MIN_POSITIVE] {
            assert!(!Rate::new(count).is_zero(), "{count}");
            assert_eq!(Rate::new(count).limit_in(Duration::from_secs(1)), 0);
        }
        assert!(Rate::new(0.0).is_zero());
    }

    #[test]
    fn limits_are_exact_for_any_interval() {
        let table: &[(f64, u64, u64)] = &[
            (0.29, 100_000, 29),
            (12.5, 400, 5),
            (4.0, 400, 1),
            (5.0, 400, 2),
            (1.5, 1000, 1),
            (0.5, 1000, 0),
            (1e9, 1000, 1_000_000_000),
            (f64::MAX, 1000, u64::MAX),
        ];
        for &(count, ms, limit) in table {
            let interval = Duration::from_millis(ms);
            assert_eq!(
                Rate::new(count).limit_in(interval),
                limit,
                "{count} in {ms} ms"
            );
        }
    }

    #[test]
    fn a_rate_over_an_interval_of_its_own_is_exact_too() {
        let day = Duration::from_secs(86_400);
        // By 49 days and the greatest weight too.
        let weeks = Duration::from_millis(u32::MAX.into());
        let table: &[(f64, Duration, u32, u64)] = &[
            (1000.0, day, 1, 86_400_000_000),
            (7.0, day, 1, 12_342_857_142_857),
            (60.0, Duration::from_secs(60), 3, 3_000_000_000),
            (1.0, weeks, u32::MAX, u64::MAX),
            (1.0, weeks, 1, 4_294_967_295_000_000),
            (0.0, day, 1, u64::MAX),
        ];
        for &(count, period, weight, cost) in table {
            let rate = Rate::per(count, period);
            assert_eq!(rate.cost_ns(weight), cost, "{weight} at {count}");
            assert_eq!(rate.limit_in(period), count as u64);
        }
        assert_eq!(Rate::per(10.0, day).limit_in(day / 3), 3);
        let computed = Rate::per(60.0, Duration::from_secs(60)).cost_at_ns(20.0, 1);
        assert_eq!(computed, 3_000_000_000);
    }
}

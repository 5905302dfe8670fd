//! A rate and a burst in units in which both are whole numbers.
//!
//! `count = num / den` tokens per period of `P` nanoseconds: one token flows in
//! within `P · den / num` nanoseconds, hardly ever a whole number. So time is
//! counted in units of which
//!
//! ```text
//! 1 ns    is  A = num / g        g = gcd(num, P · den)
//! 1 token is  C = P · den / g
//! ```
//!
//! No time and no amount is ever rounded then. 7 · 10⁸ per second has units of
//! a seventh of a nanosecond, one per day units of a nanosecond.

use std::time::Duration;

use super::decimal::Decimal;

/// How fast a bucket is refilled and how much it holds.
///
/// ```
/// use std::time::Duration;
/// use flowgate_core::token_bucket::Quota;
///
/// let day = Duration::from_secs(86_400);
/// assert!(Quota::new(1.0, day, 1_000_000).is_ok());
/// assert!(Quota::new(1e9, Duration::from_secs(1), 1).is_ok());
///
/// let error = Quota::new(f64::NAN, day, 1).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "NaN tokens per 86400s, burst 1: no rate; give a number of tokens, 0 or more"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota {
    count: f64,
    period: Duration,
    burst: u64,
    /// `A`: units per nanosecond.
    units_per_ns: u64,
    /// `C`: units per token.
    units_per_token: u128,
    /// `burst · C`.
    capacity: u128,
    /// How long the lower part of a [`Level`](super::Level) is.
    pub(super) newest_bits: u32,
    /// It is in steps of two to this power, in nanoseconds.
    pub(super) step_bits: u32,
}

/// A rate and a burst that cannot be held exactly.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{count} tokens per {period:?}, burst {burst}: {problem}")]
pub struct QuotaError {
    /// Tokens per period asked for.
    pub count: f64,
    /// The period asked for.
    pub period: Duration,
    /// The burst asked for.
    pub burst: u64,
    problem: &'static str,
}

/// What is left of a word for the lower part, at least: a full bucket has 128
/// steps then, or more.
const NEWEST_BITS_MIN: u32 = 10;
const NEWEST_BITS_MAX: u32 = 64;

impl Quota {
    /// `count` tokens per `period`, and room for `burst` tokens. The count is
    /// the decimal number that was written, see [`Decimal`].
    ///
    /// A count of 0 fills nothing up again: the burst passes, and then nothing.
    /// A burst of 0 holds no token: no call passes.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the count is no rate, the period is empty, or the
    /// times that a bucket may come to do not fit into a word: until the year
    /// 2554, and as long beyond that as the burst takes to flow in.
    pub fn new(count: f64, period: Duration, burst: u64) -> Result<Self, QuotaError> {
        let problem = |problem| QuotaError {
            count,
            period,
            burst,
            problem,
        };
        let (units_per_ns, units_per_token) = units(count, period).map_err(problem)?;
        // A word is at most the capacity ahead of the clock, and what is added to
        // it to see whether that fits is no more.
        let latest = u128::from(u64::MAX) * u128::from(units_per_ns);
        let capacity = units_per_token.checked_mul(burst.into());
        let most = capacity.and_then(|capacity| capacity.checked_mul(2)?.checked_add(latest));
        let left_bits = most.map_or(0, u128::leading_zeros);
        let (Some(capacity), NEWEST_BITS_MIN..) = (capacity, left_bits) else {
            return Err(problem(
                "too long to flow in; give a smaller burst, or the rate in fewer digits",
            ));
        };
        let newest_bits = left_bits.min(NEWEST_BITS_MAX);
        // Two bits more than a full bucket has: it counts in both directions, and
        // both ends are rounded.
        let capacity_ns = capacity.div_ceil(u128::from(units_per_ns).max(1));
        let capacity_bits = (u128::BITS - capacity_ns.leading_zeros()).min(u64::BITS) + 2;
        Ok(Quota {
            count,
            period,
            burst,
            units_per_ns,
            units_per_token,
            capacity,
            newest_bits,
            step_bits: capacity_bits.saturating_sub(newest_bits),
        })
    }

    /// No tokens, ever.
    pub const NOTHING: Quota = Quota {
        count: 0.0,
        period: Duration::from_secs(1),
        burst: 0,
        units_per_ns: 0,
        units_per_token: 1,
        capacity: 0,
        newest_bits: NEWEST_BITS_MAX,
        step_bits: 0,
    };

    /// Tokens per period.
    pub fn count(&self) -> f64 {
        self.count
    }

    /// What `count` tokens flow in within.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// The most tokens there are at a time.
    #[inline]
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// A full bucket in units.
    #[inline]
    pub(super) fn capacity(&self) -> u128 {
        self.capacity
    }

    /// A time in units.
    #[inline]
    pub(super) fn units_at(&self, ns: u64) -> u128 {
        u128::from(ns) * u128::from(self.units_per_ns)
    }

    /// What `weight` tokens come to in units.
    #[inline]
    pub(super) fn units_of(&self, weight: u32) -> u128 {
        u128::from(weight) * self.units_per_token
    }

    /// The first nanosecond that is not before `units`; `None` if there is
    /// none.
    pub(super) fn first_ns_at(&self, units: u128) -> Option<u64> {
        let per_ns = u128::from(self.units_per_ns);
        match units {
            0 => Some(0),
            _ if per_ns == 0 => None,
            _ => u64::try_from(units.div_ceil(per_ns)).ok(),
        }
    }

    /// The last nanosecond that is not after `units`.
    #[cold]
    pub(super) fn last_ns_at(&self, units: u128) -> u64 {
        let ns = units.checked_div(self.units_per_ns.into());
        ns.map_or(0, |ns| u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Units as tokens: whole ones, and the part of the next.
    pub(super) fn tokens(&self, units: u128) -> (u64, f64) {
        // At most the burst.
        let whole = units / self.units_per_token;
        let part = (units % self.units_per_token) as f64 / self.units_per_token as f64;
        (u64::try_from(whole).unwrap_or(u64::MAX), part)
    }
}

/// With more, no burst would fit.
const UNITS_PER_NS_MAX: u64 = 1 << (u64::BITS - NEWEST_BITS_MIN);

/// `A` and `C`.
fn units(count: f64, period: Duration) -> Result<(u64, u128), &'static str> {
    if !count.is_finite() || count < 0.0 {
        return Err("no rate; give a number of tokens, 0 or more");
    }
    if period.is_zero() {
        return Err("no time to fill up in; give a period of 1 ns or more");
    }
    let written = Decimal::of(count);
    if written.numerator == 0 {
        return Ok((0, 1));
    }
    let per_period = period.as_nanos().checked_mul(written.denominator);
    per_period
        .filter(|_| written.is_exact)
        .and_then(|per_period| {
            let g = gcd(written.numerator, per_period);
            let per_ns = u64::try_from(written.numerator / g).ok()?;
            (per_ns < UNITS_PER_NS_MAX).then_some((per_ns, per_period / g))
        })
        .ok_or("too fine to be held exactly; give the rate in fewer digits")
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn units_make_time_and_tokens_whole() {
        let table = [
            (1e9, SECOND, 1, 1),
            (7e8, SECOND, 7, 10),
            (1.0, DAY, 1, 86_400_000_000_000),
            (0.29, SECOND, 29, 100_000_000_000),
            (2.5e9, SECOND, 5, 2),
            (0.0, SECOND, 0, 1),
            (3.0, Duration::from_nanos(7), 3, 7),
        ];
        for (count, period, per_ns, per_token) in table {
            let quota = Quota::new(count, period, 5).unwrap();
            let units = (quota.units_per_ns, quota.units_per_token);
            assert_eq!(units, (per_ns, per_token), "{count} per {period:?}");
            assert_eq!(quota.capacity, 5 * per_token);
            assert_eq!(quota.step_bits, 0);
        }
        let long = Quota::new(1.0 / 3.0, DAY, 100_000).unwrap();
        let step = 1 << long.step_bits;
        assert!(step > 1);
        let capacity_ns = long.capacity / u128::from(long.units_per_ns);
        assert!(step <= capacity_ns / 128, "{step} of {capacity_ns}");
    }

    #[test]
    fn what_cannot_be_held_exactly_says_what_would_do() {
        let centuries = Duration::from_secs(10_000_000_000);
        let table = [
            (-1.0, SECOND, 1, "no rate; give a number of tokens"),
            (f64::INFINITY, SECOND, 1, "no rate; give a number"),
            (1.0, Duration::ZERO, 1, "give a period of 1 ns or more"),
            (1e-40, SECOND, 1, "give the rate in fewer digits"),
            (1e300, SECOND, 1, "give the rate in fewer digits"),
            (1e28 + 1e12, SECOND, 1, "give the rate in fewer digits"),
            (
                0.1234567890123457,
                centuries,
                u64::MAX,
                "give a smaller burst",
            ),
            (1.0, Duration::MAX, u64::MAX, "give a smaller burst"),
            (1.0, DAY, u64::MAX, ""),
            (1e9, SECOND, u64::MAX, ""),
            (1.0 / 3.0, DAY, 100_000, ""),
            (1.0 / 3.0, DAY, 1_000_000, "give a smaller burst"),
            (1e17, SECOND, 1, ""),
        ];
        for (count, period, burst, told) in table {
            match Quota::new(count, period, burst) {
                Ok(_) => assert_eq!(told, "", "{count} per {period:?}, {burst}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(!told.is_empty() && text.contains(told), "{text}");
                }
            }
        }
    }
}

//! What bounds one value, in the units that are compared.

use std::time::Duration;

use flowgate_core::Timestamp;

use crate::flow::rate::Rate;

const MS_NS: u64 = 1_000_000;

/// The limit of a rule, or of one of its special values.
#[derive(Debug, Clone)]
pub(super) struct Limit {
    rate: Rate,
    duration_ms: u64,
    /// Tokens of a full bucket: `⌊count + burst⌋`.
    capacity: u64,
    places: u64,
    pub(super) split: Split,
}

/// How a bucket's word is divided between tokens and time.
///
/// Full milliseconds and a million tokens fit. A limit above that keeps its time
/// in steps of 2^`shift` ms, and is refilled that much later at most, never
/// earlier: 16 ms late at 16 million calls per value, a second late at a billion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) token_bits: u32,
    pub(super) shift: u32,
}

const TOKEN_BITS_MIN: u32 = 20;
/// With steps of 2^20 ms; a trillion tokens are more than anybody takes.
const TOKEN_BITS_MAX: u32 = 40;

impl Limit {
    /// `count` per `duration_sec`, and `burst` more after a quiet time.
    pub(super) fn new(count: f64, duration_sec: u32, burst: u32) -> Self {
        let duration = Duration::from_secs(duration_sec.max(1).into());
        let rate = Rate::per(count, duration);
        let whole = rate.limit_in(duration);
        let capacity = match rate.is_zero() {
            true => 0,
            false => whole.saturating_add(burst.into()),
        };
        let capacity = capacity.min((1 << TOKEN_BITS_MAX) - 2);
        // The largest number of tokens stands for a bucket never used.
        let bits = u64::BITS - (capacity + 1).leading_zeros();
        let token_bits = bits.clamp(TOKEN_BITS_MIN, TOKEN_BITS_MAX);
        Limit {
            rate,
            duration_ms: u64::from(duration_sec.max(1)) * 1_000,
            capacity,
            places: whole,
            split: Split {
                token_bits,
                shift: token_bits - TOKEN_BITS_MIN,
            },
        }
    }

    /// Tokens of a full bucket.
    #[inline]
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The most calls in flight.
    #[inline]
    pub(super) fn places(&self) -> u64 {
        self.places
    }

    /// Whether nothing passes at all.
    #[inline]
    pub(super) fn is_zero(&self) -> bool {
        self.rate.is_zero()
    }

    /// The span that `count` is for.
    #[inline]
    pub(super) fn duration_ms(&self) -> u64 {
        self.duration_ms
    }

    /// `count` as calls per second.
    pub(super) fn per_second(&self) -> f64 {
        self.rate.count() * 1e3 / self.duration_ms as f64
    }

    /// A number of calls in the span, as calls per second.
    pub(super) fn as_per_second(&self, calls: u64) -> f64 {
        calls as f64 * 1e3 / self.duration_ms as f64
    }

    /// The whole tokens that `elapsed_ms` bring: `⌊elapsed · count / duration⌋`,
    /// at most a full bucket's.
    pub(super) fn gain(&self, elapsed_ms: u64) -> u64 {
        let (numerator, denominator) = self.rate.fraction();
        let exact = u128::from(elapsed_ms)
            .checked_mul(numerator)
            .zip(denominator.checked_mul(self.duration_ms.into()))
            .map(|(product, span)| product / span);
        let gained = exact.unwrap_or_else(|| {
            // More digits than a double tells apart.
            (elapsed_ms as f64 / self.duration_ms as f64 * self.rate.count()) as u128
        });
        u64::try_from(gained).map_or(self.capacity, |gained| gained.min(self.capacity))
    }

    /// The least time that brings `tokens`. Only for refusals.
    pub(super) fn time_to_gain(&self, tokens: u64) -> Option<u64> {
        let (numerator, denominator) = self.rate.fraction();
        let span = denominator.checked_mul(self.duration_ms.into())?;
        let product = u128::from(tokens).checked_mul(span)?;
        u64::try_from(product.div_ceil(numerator.max(1))).ok()
    }

    /// What a call of `weight` takes up in the line of its value: `weight ·
    /// duration / count` in nanoseconds, rounded half up.
    #[inline]
    pub(super) fn cost_ns(&self, weight: u32) -> u64 {
        self.rate.cost_ns(weight)
    }
}

/// Whole milliseconds since the epoch.
#[inline]
pub(super) fn millis(now: Timestamp) -> u64 {
    now.as_nanos() / MS_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_whole_ones_of_the_real_product() {
        let table: &[(f64, u32, u64, u64)] = &[
            (2.9, 1, 1_001, 2),
            (0.5, 1, 1_999, 0),
            (0.29, 100, 100_000, 0),
            (29.0, 100, 100_000, 29),
            (7.0, 10, 10_001, 7),
        ];
        for &(count, duration, elapsed_ms, gained) in table {
            let limit = Limit::new(count, duration, 0);
            assert_eq!(limit.gain(elapsed_ms), gained, "{count} in {duration} s");
        }
        // https://github.com/alibaba/Sentinel/pull/838
        assert_eq!(Limit::new(20_000.0, 1, 0).gain(691_200_000), 20_000);
        assert_eq!(
            Limit::new(f64::MAX, u32::MAX, 0).gain(u64::MAX),
            (1 << 40) - 2
        );
    }

    #[test]
    fn tokens_of_more_digits_than_fit_are_those_of_doubles() {
        let slow = Limit::new(1e-29, u32::MAX, 100);
        assert_eq!(slow.gain(10 * slow.duration_ms()), 0);
        assert_eq!(slow.gain(u64::MAX), 0);
        let fast = Limit::new(1e29, 1, 0);
        assert_eq!(fast.gain(10_000_000_000), fast.capacity());
    }

    #[test]
    fn a_bucket_holds_whole_tokens_and_the_burst() {
        let capacity = |count, burst| Limit::new(count, 1, burst).capacity();
        assert_eq!(capacity(5.0, 2), 7);
        assert_eq!(capacity(2.9, 0), 2);
        assert_eq!(capacity(0.5, 1), 1);
        assert_eq!(capacity(0.9, 0), 0);
        assert_eq!(capacity(0.0, 5), 0);
    }

    #[test]
    fn costs_are_rounded_half_up_over_the_whole_span() {
        let cost = |count, duration, weight| Limit::new(count, duration, 0).cost_ns(weight);
        assert_eq!(cost(3.0, 1, 1), 333_333_333);
        assert_eq!(cost(3.0, 1, 2), 666_666_667);
        assert_eq!(cost(7.0, 10, 1), 1_428_571_429);
        assert_eq!(cost(0.0, 1, 1), u64::MAX);
        assert_eq!(cost(1e-300, 1, 1), u64::MAX);
    }

    #[test]
    fn reports_are_in_calls_per_second() {
        let limit = Limit::new(30.0, 60, 7);
        assert_eq!(limit.per_second(), 0.5);
        assert_eq!(limit.as_per_second(15), 0.25);
    }

    #[test]
    fn the_time_to_gain_is_the_least_that_brings_the_tokens() {
        for count in [0.3, 1.0, 2.9, 7.0, 1e6] {
            let limit = Limit::new(count, 3, 5);
            for tokens in 1..=limit.capacity().min(5) {
                let ms = limit.time_to_gain(tokens).unwrap();
                assert!(limit.gain(ms) >= tokens, "{tokens} at {count}");
                assert!(limit.gain(ms - 1) < tokens, "{tokens} at {count}");
            }
        }
    }
}

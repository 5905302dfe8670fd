//! How long an opening lasts.
//!
//! The n-th opening in a row (n is 1 again after the breaker has closed) lasts
//!
//! ```text
//! min(base · multiplier^(n − 1), max) · (1 ± jitter · u),   0 ≤ u ≤ 1
//! ```
//!
//! `u` and its sign come from a hash of the breaker's seed and the number of
//! its state: no generator to keep, the same seed gives the same times, and
//! breakers with seeds of their own do not come back all at once.

use std::time::Duration;

/// How long an opening lasts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BackOff {
    /// The first opening.
    pub base: Duration,
    /// How many times longer each further one is, at least 1.
    pub multiplier: f64,
    /// The longest, before jitter.
    pub max: Duration,
    /// By what part of itself a time may be longer or shorter, 0 to 1.
    pub jitter: f64,
    /// What jitter is drawn from.
    pub seed: u64,
}

impl BackOff {
    /// How long opening number `opening` in a row lasts, the first being 1;
    /// `draw` tells it from all others of this breaker.
    pub fn open_time(&self, opening: u32, draw: u64) -> Duration {
        let grown = self.grown(opening);
        if self.jitter <= 0.0 {
            return grown;
        }
        let unit = (split_mix(self.seed.wrapping_add(draw)) >> 11) as f64 / (1_u64 << 53) as f64;
        scaled(grown, 1.0 + self.jitter * (2.0 * unit - 1.0))
    }

    fn grown(&self, opening: u32) -> Duration {
        let exponent = i32::try_from(opening.saturating_sub(1)).unwrap_or(i32::MAX);
        let factor = self.multiplier.powi(exponent);
        if factor <= 1.0 {
            return self.base;
        }
        scaled(self.base, factor).min(self.max.max(self.base))
    }
}

/// To the nanosecond; the longest duration if it does not fit.
fn scaled(time: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

/// The finalizer of SplitMix64, after one step: Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", 2014.
fn split_mix(state: u64) -> u64 {
    let mut bits = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::BackOff;
    use std::time::Duration;

    fn back_off(multiplier: f64, jitter: f64) -> BackOff {
        BackOff {
            base: Duration::from_secs(2),
            multiplier,
            max: Duration::from_secs(30),
            jitter,
            seed: 7,
        }
    }

    #[test]
    fn an_opening_is_longer_than_the_one_before_up_to_the_most() {
        let openings = [1, 2, 3, 4, 5, 6, 1_000, u32::MAX];
        let times = openings.map(|n| back_off(2.0, 0.0).open_time(n, 1).as_secs());
        assert_eq!(times, [2, 4, 8, 16, 30, 30, 30, 30]);
        assert_eq!(
            openings.map(|n| back_off(1.0, 0.0).open_time(n, 1).as_secs()),
            [2; 8]
        );
    }

    #[test]
    fn a_most_below_the_first_opening_does_not_shorten_it() {
        let mut back_off = back_off(2.0, 0.0);
        back_off.max = Duration::from_secs(1);
        assert_eq!(back_off.open_time(3, 1), Duration::from_secs(2));
    }

    #[test]
    fn jitter_spreads_times_evenly_on_both_sides() {
        let times: Vec<f64> = (0..10_000)
            .map(|draw| back_off(1.0, 0.25).open_time(1, draw).as_secs_f64())
            .collect();
        assert!(times.iter().all(|time| (1.5..=2.5).contains(time)));
        let below = times.iter().filter(|time| **time < 1.75).count();
        assert!((2_250..2_750).contains(&below), "{below}");
        let mean = times.iter().sum::<f64>() / 10_000.0;
        assert!((1.99..2.01).contains(&mean), "{mean}");
    }

    /// The generator's first numbers from state 0, as published:
    /// <https://prng.di.unimi.it/splitmix64.c>.
    #[test]
    fn draws_are_those_of_split_mix_64() {
        let draws = [0, 1, 2].map(|n: u64| super::split_mix(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let published = [
            0xe220_a839_7b1d_cdaf,
            0x6e78_9e6a_a1b9_65f4,
            0x06c4_5d18_8009_454f,
        ];
        assert_eq!(draws, published);
    }

    #[test]
    fn the_same_seed_gives_the_same_times_and_another_others() {
        let times = |seed| {
            let back_off = BackOff {
                seed,
                ..back_off(2.0, 0.5)
            };
            [1, 2, 3].map(|n| back_off.open_time(n, u64::from(n)))
        };
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }
}

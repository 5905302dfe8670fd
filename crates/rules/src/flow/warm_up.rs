//! Warm-up: a cold resource starts at a fraction of its rate.
//!
//! The arithmetic is Sentinel's, which follows Guava's `SmoothWarmingUp`: a
//! bucket of tokens fills while the resource is idle and drains as it is used;
//! the fuller the bucket, the colder the resource, and the lower the rate that
//! is allowed.
//!
//! With `count` calls per second, a warm-up period of `w` seconds and cold factor `c`:
//!
//! ```text
//! warning = ⌊w · count⌋ div (c − 1)
//! max     = warning + ⌊2 · w · count / (1 + c)⌋
//! slope   = (c − 1) / count / (max − warning)
//! allowed = nextUp(1 / ((tokens − warning) · slope + 1 / count))    while tokens ≥ warning
//!         = count                                                  below
//! ```
//!
//! Once per calendar second the tokens are brought up to date: they grow by
//! `count` per second elapsed (below the warning line always; above it only if
//! the second before passed fewer than `⌊count⌋ div c` calls; at the line not
//! at all), and fall by the passes of the second before. The first update finds
//! the resource cold.
//!
//! A rule with an interval of its own, `count` calls per `T`, is scaled alike:
//! all this is done with `count / T` calls per second, and what is allowed is
//! given per `T`.
//!
//! Three departures, where the reference breaks: with no room between `warning`
//! and `max` the stable rate holds; where `⌊count⌋ div c` is 0 the bound is
//! `count / c` in real numbers; the allowed rate is never below 1 per second
//! (per `T`) while `count ≥ 1`.
//!
//! **Callers that meet.** The tokens, the second that they are of and what is
//! allowed in it are one word of 128 bits, and one compare-and-swap takes it from an
//! older second to the caller's. Of several callers of one second one does that; the
//! others find their second there and go by what it allows, which is worked out
//! once, and a second cools and drains it once. One that
//! loses to a caller of a second in between goes on from what that has left. One
//! whose own second is over by then changes nothing, and is judged by the newest
//! second, as an older clock reading works on the newest window.
//! `tests/loom_flow.rs` has models of two and three callers, of one second and of
//! two.

use std::time::Duration;

use flowgate_core::Timestamp;
use flowgate_core::sync::{AtomicU128, Ordering};

/// The temperature of one warm-up rule for one resource.
#[derive(Debug)]
pub struct WarmUp {
    /// Calls per interval that the rule allows when warm.
    stable: f64,
    interval_sec: f64,
    /// Calls per second that the rule allows when warm.
    count: f64,
    cold_factor: u32,
    warning: u64,
    max: u64,
    slope: f64,
    /// Tokens are kept in units of `2^shift`: 1, unless there are more than
    /// 2^30 of them.
    shift: u32,
    /// What the tokens are, the second they are of, and the calls per interval that
    /// it allows, in one word, so that nobody judges one second by another:
    ///
    /// ```text
    /// 127                     94 93        64 63           0
    /// |  second, plus one       |  tokens    |  a double    |      0: never used
    /// ```
    word: AtomicU128,
}

const TOKEN_BITS: u32 = 30;
const TOKENS_MASK: u64 = (1 << TOKEN_BITS) - 1;
/// The last second that fits: in the year 2514.
const SECOND_MAX: u64 = (1 << (64 - TOKEN_BITS)) - 2;

impl WarmUp {
    /// A cold resource of `stable` calls per `interval` that warms up within
    /// about `period_sec` seconds. `cold_factor` is at least 2.
    pub fn new(stable: f64, interval: Duration, period_sec: u32, cold_factor: u32) -> Self {
        let interval_sec = interval.as_secs_f64();
        let count = stable / interval_sec;
        let cold_factor = cold_factor.max(2);
        let volume = f64::from(period_sec) * count;
        let warning = volume as u64 / u64::from(cold_factor - 1);
        let room = (2.0 * volume / (1.0 + f64::from(cold_factor))) as u64;
        let max = warning.saturating_add(room);
        WarmUp {
            stable,
            interval_sec,
            count,
            cold_factor,
            warning,
            max,
            slope: (f64::from(cold_factor) - 1.0) / count / room as f64,
            shift: (u64::BITS - max.leading_zeros()).saturating_sub(TOKEN_BITS),
            word: AtomicU128::new(0),
        }
    }

    /// Calls per interval allowed at `now`. `passes_before` tells the passes of
    /// the calendar second before; it is asked by whoever comes first in a
    /// second.
    #[inline]
    pub fn allowed(&self, now: Timestamp, passes_before: impl FnOnce() -> u64) -> f64 {
        let second = now.as_secs().min(SECOND_MAX);
        // Acquire, as all of the word: more than is needed, as it stands for
        // itself, and no dearer.
        let mut word = self.word.load(Ordering::Acquire);
        if second >= synced(word) {
            word = self.update(word, second, passes_before());
        }
        f64::from_bits(word as u64)
    }

    /// The word of `second`, brought up to date by this call or by whoever was
    /// faster.
    #[cold]
    fn update(&self, mut word: u128, second: u64, passes: u64) -> u128 {
        loop {
            let synced = synced(word);
            if second < synced {
                return word;
            }
            let tokens = self.tokens(word);
            // Never used: as after an endless idle time.
            let elapsed_sec = synced.checked_sub(1).map_or(u64::MAX, |last| second - last);
            let cooled = self.cooled(tokens, elapsed_sec, passes);
            let left = cooled.saturating_sub(passes) >> self.shift;
            let allowed = self.allowed_with(left << self.shift);
            let next = ((second + 1) << TOKEN_BITS) | left;
            let next = u128::from(next) << 64 | u128::from(allowed.to_bits());
            match self
                .word
                .compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return next,
                Err(found) => word = found,
            }
        }
    }

    /// Calls per interval allowed with so many tokens.
    fn allowed_with(&self, tokens: u64) -> f64 {
        if tokens < self.warning || self.max == self.warning {
            return self.stable;
        }
        let above = (tokens - self.warning) as f64;
        let per_sec = 1.0 / (above * self.slope + 1.0 / self.count);
        let allowed = (per_sec * self.interval_sec).next_up();
        if self.stable >= 1.0 {
            allowed.max(1.0)
        } else {
            allowed
        }
    }

    /// Calls per interval allowed when it is cold, or fewer.
    pub(super) fn coldest(&self) -> f64 {
        self.stable / f64::from(self.cold_factor)
    }

    /// Whether whoever comes at `now` finds it as cold as it is at first, if the
    /// second before has passed nothing.
    pub(super) fn is_cold(&self, now: Timestamp) -> bool {
        let second = now.as_secs().min(SECOND_MAX);
        let word = self.word.load(Ordering::Acquire);
        let Some(last) = synced(word).checked_sub(1) else {
            return true;
        };
        let elapsed_sec = second.saturating_sub(last);
        let tokens = self.tokens(word);
        elapsed_sec > 0 && self.cooled(tokens, elapsed_sec, 0) == self.cooled(0, u64::MAX, 0)
    }

    fn tokens(&self, word: u128) -> u64 {
        ((word >> 64) as u64 & TOKENS_MASK) << self.shift
    }

    fn cooled(&self, tokens: u64, elapsed_sec: u64, passes: u64) -> u64 {
        let idle = || {
            let whole = self.count as u64 / u64::from(self.cold_factor);
            match whole {
                0 => (passes as f64) < self.count / f64::from(self.cold_factor),
                _ => passes < whole,
            }
        };
        let cools = tokens < self.warning || (tokens > self.warning && idle());
        if !cools {
            return tokens.min(self.max);
        }
        let elapsed_ms = elapsed_sec.saturating_mul(1_000);
        let grown = tokens as f64 + elapsed_ms as f64 * self.count / 1e3;
        (grown as u64).min(self.max)
    }
}

/// The second that a word is of, plus one.
#[inline]
fn synced(word: u128) -> u64 {
    (word >> (64 + TOKEN_BITS)) as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn per_second(count: f64, period_sec: u32, cold_factor: u32) -> WarmUp {
        WarmUp::new(count, Duration::from_secs(1), period_sec, cold_factor)
    }

    #[test]
    fn a_cold_resource_starts_at_the_rate_divided_by_the_cold_factor() {
        let warm_up = per_second(100.0, 10, 3);
        let allowed = warm_up.allowed(Timestamp::from_millis(1_000), || 0);
        assert!((allowed - 100.0 / 3.0).abs() < 1e-9, "{allowed}");
    }

    #[test]
    fn passes_warm_it_up_and_idleness_cools_it_down() {
        // From the epoch on, and in the year 2445.
        for start in [0, 15_000_000_000] {
            let at = |second: u64| Timestamp::from_millis((start + second) * 1_000);
            let warm_up = per_second(100.0, 10, 3);
            let mut passed = 0;
            for second in 1..=14 {
                let allowed = warm_up.allowed(at(second), || passed);
                assert!(allowed >= passed as f64, "it cooled under load");
                passed = allowed as u64;
            }
            assert_eq!(passed, 100);
            let cold = warm_up.allowed(at(60), || 0);
            assert!((cold - 100.0 / 3.0).abs() < 1e-9, "{cold}");
        }
    }

    /// The line itself belongs to the cold side.
    #[test]
    fn at_the_warning_line_the_rate_is_that_of_the_formula() {
        let now = Timestamp::from_millis(1_000);
        let tokens = |passes| per_second(100.0, 10, 3).allowed(now, || passes);
        assert_eq!(tokens(499), (1.0 / (1.0 / 25_000.0 + 0.01_f64)).next_up());
        assert_eq!(tokens(500), 100.0_f64.next_up());
        assert_eq!(tokens(501), 100.0);
    }

    #[test]
    fn nobody_finds_it_warm_before_it_was_ever_used() {
        for _ in 0..2_000 {
            let warm_up = per_second(90.0, 10, 3);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let allowed = warm_up.allowed(Timestamp::from_millis(5_000), || 0);
                        assert!(allowed < 30.1, "{allowed}");
                    });
                }
            });
        }
    }

    #[test]
    fn a_rate_with_more_tokens_than_bits_warms_up_too() {
        let warm_up = per_second(1e9, 60, 3);
        let allowed = warm_up.allowed(Timestamp::from_millis(5_000), || 0);
        assert!((allowed / 1e9 - 1.0 / 3.0).abs() < 1e-6, "{allowed}");
        let warm = (6..200).fold(0.0, |_, second| {
            warm_up.allowed(Timestamp::from_millis(second * 1_000), || 1_000_000_000)
        });
        assert_eq!(warm, 1e9);

        let (many, few) = (per_second(1e9, 60, 3), per_second(1e4, 60, 3));
        for second in 5..80 {
            let now = Timestamp::from_millis(second * 1_000);
            let many = many.allowed(now, || 600_000_000) / 1e9;
            let few = few.allowed(now, || 6_000) / 1e4;
            assert!((many - few).abs() < 1e-3, "{many} and {few} at {second}");
        }
    }

    #[test]
    fn tokens_grow_below_the_line_and_above_it_while_the_resource_is_idle() {
        // Idle is less than a third of its rate: whole calls, as in the reference.
        let warm_up = per_second(101.0, 10, 3);
        let table = [
            (0, 500, 101),
            (504, 500, 605),
            (505, 0, 505), // the line
            (600, 32, 701),
            (600, 33, 600),
            (1_000, 0, 1_010), // full
        ];
        for (tokens, passes, expected) in table {
            assert_eq!(warm_up.cooled(tokens, 1, passes), expected, "{tokens}");
        }
        // Less than one call a second: idle is none at all.
        let slow = per_second(2.0, 10, 3);
        assert_eq!(slow.cooled(12, 1, 0), 14);
        assert_eq!(slow.cooled(12, 1, 1), 12);
    }

    #[test]
    fn tokens_grow_by_whole_milliseconds_as_in_the_reference() {
        // As doubles, 55,000 × 1204.6 ÷ 1000 is a little below 66,253.
        let warm_up = per_second(1204.6, 120, 3);
        assert_eq!(warm_up.cooled(713, 55, 0), 713 + 66_252);
    }

    #[test]
    fn it_is_cold_at_the_epoch_too() {
        let warm_up = per_second(30.0, 10, 3);
        assert_eq!(warm_up.allowed(Timestamp::EPOCH, || 0) as u64, 10);
    }

    #[test]
    fn over_a_minute_it_allows_sixty_times_as_much_as_over_a_second() {
        let minute = WarmUp::new(6_000.0, Duration::from_secs(60), 10, 3);
        let second = per_second(100.0, 10, 3);
        for (at, passes) in [(1, 0), (2, 33), (3, 40), (4, 100), (9, 100), (60, 0)] {
            let now = Timestamp::from_millis(at * 1_000);
            let allowed = minute.allowed(now, || passes);
            let expected = second.allowed(now, || passes) * 60.0;
            assert!((allowed - expected).abs() < 1e-6, "{allowed}, {expected}");
        }
    }

    #[test]
    fn a_slow_rule_is_cold_at_a_fraction_of_its_count_and_never_below_one() {
        let minute = Duration::from_secs(60);
        let start = Timestamp::from_millis(60_000);
        let hundred = WarmUp::new(100.0, minute, 60, 4).allowed(start, || 0);
        assert!((hundred - 25.0).abs() < 1e-9, "{hundred}");
        let two = WarmUp::new(2.0, minute, 600, 5).allowed(start, || 0);
        assert_eq!(two, 1.0);
    }
}

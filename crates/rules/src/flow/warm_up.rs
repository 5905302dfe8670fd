//! Warm-up: a cold resource starts at a fraction of its rate.
//!
//! The arithmetic is Sentinel's, which follows Guava's `SmoothWarmingUp`: a
//! bucket of tokens fills while the resource is idle and drains as it is used;
//! the fuller the bucket, the colder the resource, and the lower the rate that
//! is allowed.
//!
//! With `count` calls per second, a period of `w` seconds and cold factor `c`:
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
//! Three departures, where the reference breaks: with no room between `warning`
//! and `max` the stable rate holds; where `⌊count⌋ div c` is 0 the bound is
//! `count / c` in real numbers; the allowed rate is never below 1 per second
//! while `count ≥ 1`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use flowgate_core::Timestamp;

/// The temperature of one warm-up rule for one resource.
#[derive(Debug)]
pub struct WarmUp {
    count: f64,
    cold_factor: u32,
    warning: u64,
    max: u64,
    slope: f64,
    /// The second the tokens were last brought up to date for, plus one.
    synced: AtomicU64,
    tokens: AtomicU64,
    /// Held for the update of one second by whoever comes first; nobody waits
    /// for it: the others go on with the tokens of the second before.
    updating: Mutex<()>,
}

impl WarmUp {
    /// A cold resource of `count` calls per second that warms up within about
    /// `period_sec` seconds. `cold_factor` is at least 2.
    pub fn new(count: f64, period_sec: u32, cold_factor: u32) -> Self {
        let cold_factor = cold_factor.max(2);
        let volume = f64::from(period_sec) * count;
        let warning = volume as u64 / u64::from(cold_factor - 1);
        let room = (2.0 * volume / (1.0 + f64::from(cold_factor))) as u64;
        WarmUp {
            count,
            cold_factor,
            warning,
            max: warning.saturating_add(room),
            slope: (f64::from(cold_factor) - 1.0) / count / room as f64,
            synced: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            updating: Mutex::new(()),
        }
    }

    /// Calls per second allowed at `now`. `passes_before` tells the passes of
    /// the calendar second before; it is asked at most once per second.
    #[inline]
    pub fn allowed(&self, now: Timestamp, passes_before: impl FnOnce() -> u64) -> f64 {
        if now.as_secs() >= self.synced.load(Ordering::Acquire) {
            self.update(now.as_secs(), passes_before);
        }
        let tokens = self.tokens.load(Ordering::Acquire);
        if tokens < self.warning || self.max == self.warning {
            return self.count;
        }
        let above = (tokens - self.warning) as f64;
        let allowed = (1.0 / (above * self.slope + 1.0 / self.count)).next_up();
        if self.count >= 1.0 {
            allowed.max(1.0)
        } else {
            allowed
        }
    }

    #[cold]
    fn update(&self, second: u64, passes_before: impl FnOnce() -> u64) {
        let Ok(_updating) = self.updating.try_lock() else {
            return;
        };
        let synced = self.synced.load(Ordering::Acquire);
        if second < synced {
            return;
        }
        let passes = passes_before();
        let tokens = self.tokens.load(Ordering::Acquire);
        let cooled = match synced.checked_sub(1) {
            Some(last) => self.cooled(tokens, second - last, passes),
            // Never used: as after an endless idle time.
            None => self.cooled(tokens, u64::MAX, passes),
        };
        self.tokens
            .store(cooled.saturating_sub(passes), Ordering::Release);
        self.synced.store(second + 1, Ordering::Release);
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
        let grown = tokens as f64 + elapsed_sec as f64 * self.count;
        (grown as u64).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_resource_starts_at_the_rate_divided_by_the_cold_factor() {
        let warm_up = WarmUp::new(100.0, 10, 3);
        let allowed = warm_up.allowed(Timestamp::from_millis(1_000), || 0);
        assert!((allowed - 100.0 / 3.0).abs() < 1e-9, "{allowed}");
    }

    #[test]
    fn passes_warm_it_up_and_idleness_cools_it_down() {
        let warm_up = WarmUp::new(100.0, 10, 3);
        let mut passed = 0;
        for second in 1..=14 {
            let allowed = warm_up.allowed(Timestamp::from_millis(second * 1_000), || passed);
            assert!(allowed >= passed as f64, "it cooled under load");
            passed = allowed as u64;
        }
        assert_eq!(passed, 100);
        let cold = warm_up.allowed(Timestamp::from_millis(60_000), || 0);
        assert!((cold - 100.0 / 3.0).abs() < 1e-9, "{cold}");
    }

    #[test]
    fn it_is_cold_at_the_epoch_too() {
        let warm_up = WarmUp::new(30.0, 10, 3);
        assert_eq!(warm_up.allowed(Timestamp::EPOCH, || 0) as u64, 10);
    }
}

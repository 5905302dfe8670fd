//! How full a bucket is: one word, without the quota that it is read by.
//!
//! ```text
//! 127                                      d             0
//! |  T: when the bucket is full again      | N modulo 2^d |
//! ```
//!
//! `T` is in units of the quota, see [`Quota`]; `N`, the latest time charged to
//! any call, in nanoseconds. `N` is no later than `T` and no earlier than a full
//! bucket before. A call that may go while the bucket is not full is charged no
//! further from `T` than that either. So `d` bits tell `N`, if `2^d` is more than
//! two full buckets. Where that does not fit beside `T`, `N` is kept in steps of
//! `2^s` nanoseconds, rounded up: [`Quota`] says which `d` and `s`. Only giving
//! back looks at `N`, and gives back the less the later it is.

use std::time::Duration;

use super::{Quota, TooFewTokens};
use crate::sync::{AtomicU128, Ordering};
use crate::time::Timestamp;

/// How full a bucket is, for tables of many with one quota. All calls have to
/// give the same quota; else see [`TokenBucket`](super::TokenBucket).
#[derive(Debug)]
pub struct Level(AtomicU128);

impl Default for Level {
    fn default() -> Self {
        Level(AtomicU128::new(0))
    }
}

/// When a call may go, and what it has to know to give back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Charge {
    /// When it may go: not before its clock reading.
    pub release: Timestamp,
    /// The latest time that any call had been charged at, itself included.
    pub newest: Timestamp,
}

impl Quota {
    /// `T` of a word, and `N` modulo `2^d`.
    #[inline]
    fn parts(&self, word: u128) -> (u128, u64) {
        // The cast cuts out what the mask leaves of it.
        (word >> self.newest_bits, word as u64 & self.newest_mask())
    }

    #[inline]
    fn word(&self, full_at: u128, newest: u64) -> u128 {
        full_at << self.newest_bits | u128::from(newest & self.newest_mask())
    }

    #[inline]
    fn newest_mask(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.newest_bits)
    }

    /// A time in the steps that `N` is kept in, rounded up.
    #[inline]
    fn steps(&self, ns: u64) -> u64 {
        match self.step_bits {
            0 => ns,
            step_bits => (ns >> step_bits) + u64::from(ns.trailing_zeros() < step_bits),
        }
    }

    #[inline]
    fn ns_of(&self, steps: u64) -> u64 {
        steps.saturating_mul(1 << self.step_bits)
    }

    /// `N` in steps, next to a time that is no further from it than a full
    /// bucket.
    #[inline]
    fn newest_near(&self, newest: u64, steps: u64) -> u64 {
        let rest = u64::BITS - self.newest_bits;
        // Sign-extended: earlier or later than `steps`.
        let ahead = (newest.wrapping_sub(steps) << rest).cast_signed() >> rest;
        steps.wrapping_add_signed(ahead)
    }

    /// The first time from `now_ns` on at which a call of this weight may go;
    /// `None`: never.
    #[inline]
    fn release_ns(&self, full_at: u128, now_ns: u64, weight: u32) -> Option<u64> {
        if u64::from(weight) > self.burst() {
            return None;
        }
        let due = (full_at + self.units_of(weight)).saturating_sub(self.capacity());
        if due <= self.units_at(now_ns) {
            return Some(now_ns);
        }
        self.first_ns_at(due)
    }

    /// `N` in steps: the last time up to `T` that it may be. (At a rate of 0 no
    /// time is, and none counts.)
    fn newest_before(&self, newest: u64, full_at: u128) -> u64 {
        let latest = self.steps(self.last_ns_at(full_at));
        latest.wrapping_sub(latest.wrapping_sub(newest) & self.newest_mask())
    }

    /// A time in steps as one that is not after `T`, though it was rounded up.
    #[cold]
    fn not_after(&self, steps: u64, full_at: u128) -> u64 {
        self.ns_of(steps).min(self.last_ns_at(full_at))
    }

    fn left(&self, full_at: u128, now_ns: u64) -> (u64, f64) {
        let owed = full_at.saturating_sub(self.units_at(now_ns));
        self.tokens(self.capacity().saturating_sub(owed))
    }

    #[cold]
    fn too_few(&self, full_at: u128, now_ns: u64, weight: u32) -> TooFewTokens {
        let release_ns = self.release_ns(full_at, now_ns, weight);
        TooFewTokens {
            left: self.left(full_at, now_ns).0,
            retry_after: release_ns.map(|ns| Duration::from_nanos(ns - now_ns)),
        }
    }
}

impl Level {
    /// Takes `weight` tokens, all or none, for a call that comes at `now` and
    /// may wait `wait_max` until they have flowed in.
    ///
    /// # Errors
    ///
    /// [`TooFewTokens`], if it would have to wait longer.
    #[inline]
    pub fn take(
        &self,
        quota: &Quota,
        now: Timestamp,
        weight: u32,
        wait_max: Duration,
    ) -> Result<Charge, TooFewTokens> {
        if weight == 0 {
            let (release, newest) = (now, now);
            return Ok(Charge { release, newest });
        }
        let now_ns = now.as_nanos();
        // The word stands for itself; acquire and release cost nothing here.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let (full_at, newest) = quota.parts(word);
            let release_ns = quota
                .release_ns(full_at, now_ns, weight)
                .filter(|ns| *ns == now_ns || Duration::from_nanos(ns - now_ns) <= wait_max);
            let Some(release_ns) = release_ns else {
                return Err(quota.too_few(full_at, now_ns, weight));
            };
            let (charged, steps) = (quota.units_at(release_ns), quota.steps(release_ns));
            // If it is full, nobody was charged later: `N` is no later than `T`.
            let before = match full_at <= charged {
                true => steps,
                false => quota.newest_near(newest, steps).max(steps),
            };
            let next = quota.word(full_at.max(charged) + quota.units_of(weight), before);
            match self
                .0
                .compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    let release = Timestamp::from_nanos(release_ns);
                    let newest_ns = match before == steps {
                        true => release_ns,
                        // Another thread's clock is ahead of this one's.
                        false => quota.not_after(before, full_at).max(release_ns),
                    };
                    let newest = Timestamp::from_nanos(newest_ns);
                    return Ok(Charge { release, newest });
                }
                Err(found) => word = found,
            }
        }
    }

    /// Gives back what a call of this weight took, but for what has flowed in
    /// from when `since` was the [newest](Charge::newest) time charged until the
    /// one that is now. Says whether that left anything.
    pub fn give_back(&self, quota: &Quota, since: Timestamp, weight: u32) -> bool {
        let end = quota.units_at(since.as_nanos()) + quota.units_of(weight);
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let (full_at, newest) = quota.parts(word);
            let newest_ns = quota.ns_of(quota.newest_before(newest, full_at));
            let back = end
                .saturating_sub(quota.units_at(newest_ns))
                .min(quota.units_of(weight));
            if back == 0 {
                return weight == 0;
            }
            let next = quota.word(full_at - back, newest);
            match self
                .0
                .compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
    }

    /// When a call of this weight that comes at `now` may go, if nobody else
    /// comes; `None`: never.
    pub fn release_at(&self, quota: &Quota, now: Timestamp, weight: u32) -> Option<Timestamp> {
        let release_ns = quota.release_ns(self.full_at(quota), now.as_nanos(), weight);
        release_ns.map(Timestamp::from_nanos)
    }

    /// Tokens at `now`: whole ones, and the part of the one that is flowing in.
    pub fn tokens_at(&self, quota: &Quota, now: Timestamp) -> (u64, f64) {
        quota.left(self.full_at(quota), now.as_nanos())
    }

    /// Whether no token is missing at `now`.
    pub fn is_full(&self, quota: &Quota, now: Timestamp) -> bool {
        self.full_at(quota) <= quota.units_at(now.as_nanos())
    }

    /// Makes it full from `since` on, and not before. Nobody else uses it
    /// meanwhile.
    pub fn reset(&self, quota: &Quota, since: Timestamp) {
        let since_ns = since.as_nanos();
        let word = quota.word(quota.units_at(since_ns), quota.steps(since_ns));
        self.0.store(word, Ordering::Relaxed);
    }

    fn full_at(&self, quota: &Quota) -> u128 {
        quota.parts(self.0.load(Ordering::Acquire)).0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `T`, and `N` in full.
    #[derive(Clone, Copy, Default, Debug, PartialEq)]
    struct Apart {
        full_at: u128,
        newest: u64,
    }

    impl Apart {
        fn of(quota: &Quota, level: &Level) -> Self {
            let (full_at, newest) = quota.parts(level.0.load(Ordering::Relaxed));
            let newest = quota.newest_before(newest, full_at);
            Apart { full_at, newest }
        }

        fn take(&mut self, quota: &Quota, charge: Charge, weight: u32) {
            let charged = charge.release.as_nanos();
            self.full_at = self.full_at.max(quota.units_at(charged)) + quota.units_of(weight);
            self.newest = self.newest.max(quota.steps(charged));
        }

        fn give_back(&mut self, quota: &Quota, charge: Charge, weight: u32) {
            let end = quota.units_at(charge.newest.as_nanos()) + quota.units_of(weight);
            let newest = quota.units_at(quota.ns_of(self.newest));
            self.full_at -= end.saturating_sub(newest).min(quota.units_of(weight));
        }
    }

    fn quotas() -> impl Strategy<Value = Quota> {
        let counts = prop_oneof![
            1e-3..1e9,
            (1_u32..1_000).prop_map(f64::from),
            (1_u32..1_000_000).prop_map(|thousandths| f64::from(thousandths) / 1e3),
        ];
        let periods = prop_oneof![Just(1_000), Just(60_000), Just(86_400_000), 1_u64..10_000];
        (counts, periods, 1_u64..2_000).prop_filter_map("held exactly", |(count, ms, burst)| {
            Quota::new(count, Duration::from_millis(ms), burst).ok()
        })
    }

    /// A step of time as a part of the time that a full bucket takes, back or
    /// forth; a weight as a part of the burst; a wait; whether to give back.
    fn calls() -> impl Strategy<Value = Vec<(f64, f64, f64, bool)>> {
        let steps = prop_oneof![Just(0.0), -0.5..1.0, 1.0..1_000.0];
        let waits = prop_oneof![Just(0.0), 0.0..1.5];
        prop::collection::vec((steps, 0.0..1.0, waits, any::<bool>()), 1..60)
    }

    proptest! {
        /// Fails if `N` is told from too few bits, or from the wrong end.
        #[test]
        fn one_word_says_what_two_would(quota in quotas(), calls in calls()) {
            let level = Level::default();
            let mut apart = Apart::default();
            let full_ns = quota.last_ns_at(quota.capacity()) as f64;
            let mut now_ns = 1_700_000_000_000_000_000_u64;
            let mut held = Vec::new();
            for (step, part, wait, gives_back) in calls {
                now_ns = now_ns.saturating_add_signed((step * full_ns) as i64).min(1 << 62);
                let weight = ((part * quota.burst() as f64) as u32).max(1);
                let wait_max = Duration::from_nanos((wait * full_ns) as u64);
                let now = Timestamp::from_nanos(now_ns);
                if let Ok(charge) = level.take(&quota, now, weight, wait_max) {
                    prop_assert!(quota.units_at(charge.newest.as_nanos())
                        <= apart.full_at.max(quota.units_at(charge.release.as_nanos())));
                    apart.take(&quota, charge, weight);
                    held.push((charge, weight));
                }
                prop_assert_eq!(Apart::of(&quota, &level), apart);
                if gives_back && let Some((charge, weight)) = held.pop() {
                    level.give_back(&quota, charge.newest, weight);
                    apart.give_back(&quota, charge, weight);
                    prop_assert_eq!(Apart::of(&quota, &level), apart);
                }
            }
        }

        /// As if it had not been, but for the part of a step that `N` is rounded
        /// by.
        #[test]
        fn what_is_given_back_at_once_is_all_there_again(
            quota in quotas(),
            parts in (0.0..1.0, 0.0..1.0),
            late_ns in 0_u64..1_000_000_000,
        ) {
            let now = Timestamp::from_nanos(1_700_000_000_000_000_000 + late_ns);
            let weight = |part: f64| ((part * quota.burst() as f64) as u32).max(1);
            let level = Level::default();
            let take = |weight| level.take(&quota, now, weight, Duration::ZERO);
            let first = weight(parts.0);
            prop_assert!(take(first).is_ok());
            let before = Apart::of(&quota, &level);
            let Ok(charge) = take(weight(parts.1)) else { return Ok(()); };
            let _ = level.give_back(&quota, charge.newest, weight(parts.1));
            let after = Apart::of(&quota, &level);
            let step = quota.units_at((1 << quota.step_bits) - 1);
            prop_assert!(after.full_at - before.full_at <= step, "{after:?} after {before:?}");
        }
    }
}

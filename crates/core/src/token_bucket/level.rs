//! How full a bucket is: one word, without the quota that it is read by.
//!
//! The word holds two times in units of the quota, see [`Quota`]:
//!
//! ```text
//! 127                                      d        0
//! |  T: when the bucket is full again      | T − N  |
//! ```
//!
//! `N` is the latest time charged to any call. It is no later than `T` and no
//! earlier than a full bucket before, so the difference is short. Where units are
//! so fine that it does not fit, `N` is rounded up to a multiple of `2^s` of them:
//! [`Quota`] says which `d` and `s`. Only giving back looks at `N`, and gives back
//! the less the later it is.

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

/// What a word says.
#[derive(Clone, Copy)]
struct Fill {
    full_at: u128,
    newest: u128,
}

impl Quota {
    #[inline]
    fn read(&self, word: u128) -> Fill {
        let full_at = word >> self.newest_bits;
        let behind = word & ((1 << self.newest_bits) - 1);
        let newest = match self.step_bits {
            0 => full_at - behind,
            step_bits => (self.steps(full_at) - behind) << step_bits,
        };
        Fill { full_at, newest }
    }

    #[inline]
    fn word(&self, Fill { full_at, newest }: Fill) -> u128 {
        let behind = match self.step_bits {
            0 => full_at - newest,
            _ => self.steps(full_at) - self.steps(newest),
        };
        full_at << self.newest_bits | behind
    }

    /// A time in the steps that `N` is kept in, rounded up.
    #[cold]
    fn steps(&self, units: u128) -> u128 {
        let last = (1 << self.step_bits) - 1;
        (units + last) >> self.step_bits
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
            let Fill { full_at, newest } = quota.read(word);
            let release_ns = quota
                .release_ns(full_at, now_ns, weight)
                .filter(|ns| *ns == now_ns || Duration::from_nanos(ns - now_ns) <= wait_max);
            let Some(release_ns) = release_ns else {
                return Err(quota.too_few(full_at, now_ns, weight));
            };
            let charged = quota.units_at(release_ns);
            let next = quota.word(Fill {
                full_at: full_at.max(charged) + quota.units_of(weight),
                newest: newest.max(charged),
            });
            match self
                .0
                .compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    let release = Timestamp::from_nanos(release_ns);
                    let newest = match newest > charged {
                        // Another thread's clock is ahead of this one's. Rounded
                        // up it may come after all that was taken.
                        true => quota.last_ns_at(newest.min(full_at)),
                        false => release_ns,
                    };
                    let newest = Timestamp::from_nanos(newest.max(release_ns));
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
            let Fill { full_at, newest } = quota.read(word);
            let back = end.saturating_sub(newest).min(quota.units_of(weight));
            if back == 0 {
                return weight == 0;
            }
            let next = quota.word(Fill {
                full_at: full_at - back,
                newest,
            });
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
        let full_at = quota.units_at(since.as_nanos());
        let newest = full_at;
        self.0
            .store(quota.word(Fill { full_at, newest }), Ordering::Relaxed);
    }

    fn full_at(&self, quota: &Quota) -> u128 {
        quota.read(self.0.load(Ordering::Acquire)).full_at
    }
}

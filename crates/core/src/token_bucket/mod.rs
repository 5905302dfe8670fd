//! A token bucket in exact time: the generic cell rate algorithm on one word.
//!
//! A bucket holds up to `burst` tokens and is refilled continuously. Its state
//! is one time, the *theoretical arrival time* `T`: when it is full again if
//! nobody comes. It is counted in units in which nanoseconds (`A` units each)
//! and tokens (`C` each) are both whole, see [`Quota`]. A call of weight `k`
//! that is charged at `r`
//!
//! ```text
//! moves    T' = max(T, r·A) + k·C
//! and may, if T' ≤ r·A + burst·C
//! ```
//!
//! by one compare-and-swap on `T`. A call that does not wait is charged at its
//! clock reading or refused, and then nothing has changed. One that may wait is
//! charged at its *release*, the first nanosecond from now on at which it may.
//! Nothing is rounded but that nanosecond, up; so nothing drifts.
//!
//! **The bound.** At most `burst + rate · t` tokens are charged in any closed
//! span of length `t`. Let `j` be the first call charged in `[s, e]` and `l` the
//! last, in the order of their swaps, whatever the order of their clock
//! readings. `j` left at least `s·A + k·C` in the word, each call after it added
//! at least its tokens, and `l` left at most `e·A + burst·C`. The difference is
//! what they took: `(e − s)·A + burst·C`.
//!
//! # Giving back
//!
//! A call that a later rule refuses, or that gives up while it waits, gives its
//! tokens back. Subtracting them from `T` is wrong: of ten tokens ten are taken
//! at 0, five have flowed in at 5 and are taken; had the first call not been, the
//! bucket would have run over, and it has no more than five to give.
//!
//! Think of the line of all tokens taken, each a stretch of the time in which
//! it flows in: call `i` has the stretch of length `k_i·C` that ends at `E_i`, at
//! first its `T'`. Time eats the line from its beginning. A call may give back
//! what time has not eaten of its stretch, and all stretches behind move up:
//!
//! ```text
//! R = min(k·C, E − newest·A)      newest: the latest time charged to any call
//! R = k·C                         if nobody is behind it
//! ```
//!
//! *Proof.* Say that each `E_i` goes down by `R` when a call before `i` gives `R`
//! back; calls that have given back do not count any more. At all times
//!
//! 1. `E_i ≥ r_j·A +` what calls from `j` to `i` took, for each `j` up to `i`;
//! 2. `E_i ≥ E_h +` what calls behind `h` up to `i` took, for each `h` before `i`;
//! 3. `T` is at least the last `E`.
//!
//! Taking keeps this, as `T'` is at least `T + k·C` and at least `r·A + k·C`. When
//! `g` gives back, each sum that counted it loses `k_g·C`, at least as much as
//! `R`. A sum that did not, and whose `E_i` moved, is one of 1. with `j` behind
//! `g`. It holds by 2.: `E_i − R ≥ E_g − R + … ≥ newest·A + …`, and
//! `newest ≥ r_j`. So 1. holds when the last call of a span takes, which is what
//! the bound needs. ∎
//!
//! `E` itself is not known, as nobody notes which calls were before which. Two
//! things less than it are. Counting all that anybody has given back since:
//! `T' − since`. And 1. with `j = i`: `r·A + k·C`. If the greater of them is no
//! less than `T`, then by 2. and 3. nobody is behind. So all of it goes back if
//! nobody has come since, or all who did were charged at the same time. Else a
//! call loses at most what flowed in between, and that only if the bucket would
//! have run over, or others gave back meanwhile.
//!
//! **Who waits behind.** If not all goes back and the call's release is still to
//! come, it leaves a [hole](crate::holes) instead: a newcomer that takes no
//! more tokens is released at its time. Nobody is re-timed.
//!
//! **Orders.** `newest` is raised before the swap that takes, so whoever sees
//! the word sees it. Those who give back take turns under a lock: in a turn the
//! word only grows, so one that is the same is unchanged. What they gave back is
//! counted after their swap, and a call looks at that count before its own swap:
//! what it finds there happened before it. No lock is taken by a call that takes.

mod decimal;
#[cfg(not(loom))]
mod limiter;
mod quota;

use std::time::Duration;

pub use decimal::Decimal;
#[cfg(not(loom))]
pub use limiter::TokenBucketLimiter;
pub use quota::{Quota, QuotaError};

use crate::holes::{Hole, Holes};
use crate::sync::{AtomicU64, AtomicU128, Mutex, Ordering, unpoisoned};
use crate::time::Timestamp;

/// A bucket that is refilled continuously: at most `burst + rate · t` tokens in
/// any closed span `t`, under any number of threads.
///
/// Time is an argument; [`TokenBucketLimiter`] has a clock.
#[derive(Debug)]
pub struct TokenBucket {
    quota: Quota,
    /// When it is full again, in units of the quota.
    full_at: AtomicU128,
    /// The latest time charged to a call that took, or was about to.
    newest_ns: AtomicU64,
    /// Tokens given back by calls that had others behind them, up to
    /// [`Quota::countable`].
    returned: AtomicU64,
    giving_back: Mutex<()>,
    holes: Holes,
}

/// What a call took of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Taken(Share);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Share {
    #[default]
    Nothing,
    Stretch {
        /// Where its stretch of the line ends, and on top of that all that was
        /// given back before.
        mark: u128,
        /// When it was charged.
        release_ns: u64,
    },
    /// The place of somebody who gave up.
    Hole(Hole),
}

/// A call may go, now or later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Granted {
    /// What it took.
    pub taken: Taken,
    /// When it may go: not before its clock reading.
    pub release: Timestamp,
}

/// There were too few tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooFewTokens {
    /// Whole tokens that are left.
    pub left: u64,
    /// How long until there are enough if nobody else comes, to the nanosecond;
    /// `None`: never.
    pub retry_after: Option<Duration>,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(quota: Quota) -> Self {
        TokenBucket {
            quota,
            full_at: AtomicU128::new(0),
            newest_ns: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            giving_back: Mutex::new(()),
            holes: Holes::default(),
        }
    }

    /// Its rate and burst.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Takes `weight` tokens at `now`, all or none. Weight 0 takes nothing and
    /// always may.
    ///
    /// # Errors
    ///
    /// [`TooFewTokens`], if there are fewer now.
    #[inline]
    pub fn take(&self, now: Timestamp, weight: u32) -> Result<Taken, TooFewTokens> {
        self.take_or_wait(now, weight, Duration::ZERO)
            .map(|granted| granted.taken)
    }

    /// Takes `weight` tokens for a call that may wait until they have flowed in,
    /// no longer than `wait_max` (exactly that is allowed).
    ///
    /// # Errors
    ///
    /// [`TooFewTokens`], if it would have to wait longer.
    #[inline]
    pub fn take_or_wait(
        &self,
        now: Timestamp,
        weight: u32,
        wait_max: Duration,
    ) -> Result<Granted, TooFewTokens> {
        if weight == 0 {
            let taken = Taken::default();
            let release = now;
            return Ok(Granted { taken, release });
        }
        let now_ns = now.as_nanos();
        let quota = &self.quota;
        // Acquire, before the word: of what it counts, all is in the word.
        let returned = self.returned.load(Ordering::Acquire);
        let mut full_at = self.full_at.load(Ordering::Acquire);
        loop {
            let Some(release_ns) = self.release_ns(full_at, now_ns, weight) else {
                return Err(self.too_few(full_at, now_ns, weight));
            };
            if release_ns > now_ns {
                let wait = Duration::from_nanos(release_ns - now_ns);
                if let Some(granted) = self.take_hole(now_ns, weight, wait.min(wait_max)) {
                    return Ok(granted);
                }
                if wait > wait_max {
                    return Err(self.too_few(full_at, now_ns, weight));
                }
            }
            self.has_charged_at(release_ns);
            let end = full_at.max(quota.units_at(release_ns)) + quota.units_of(weight.into());
            // AcqRel: see "Orders" above; failure: the word is looked at anew.
            match self
                .full_at
                .compare_exchange(full_at, end, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    let mark = end + quota.units_of(returned);
                    let taken = Taken(Share::Stretch { mark, release_ns });
                    let release = Timestamp::from_nanos(release_ns);
                    return Ok(Granted { taken, release });
                }
                Err(found) => full_at = found,
            }
        }
    }

    /// Gives back, at `now`, what a call of this weight took.
    pub fn give_back(&self, taken: Taken, weight: u32, now: Timestamp) {
        let now_ns = now.as_nanos();
        match taken.0 {
            Share::Nothing => {}
            Share::Stretch { mark, release_ns } => self.shrink(mark, release_ns, weight, now_ns),
            Share::Hole(hole) if hole.release_ns > now_ns => self.holes.leave(hole, now_ns),
            Share::Hole(_) => {}
        }
    }

    /// Tokens at `now`, with the part of the one that is flowing in.
    pub fn tokens_at(&self, now: Timestamp) -> f64 {
        let (whole, part) = self.tokens(self.full_at.load(Ordering::Acquire), now.as_nanos());
        whole as f64 + part
    }

    /// Whole tokens at `now`.
    pub fn whole_tokens_at(&self, now: Timestamp) -> u64 {
        self.tokens(self.full_at.load(Ordering::Acquire), now.as_nanos())
            .0
    }

    /// The first time from `now_ns` on at which a call of this weight may go;
    /// `None`: never.
    #[inline]
    fn release_ns(&self, full_at: u128, now_ns: u64, weight: u32) -> Option<u64> {
        let quota = &self.quota;
        if u64::from(weight) > quota.burst() {
            return None;
        }
        let due = (full_at + quota.units_of(weight.into())).saturating_sub(quota.capacity);
        if due <= quota.units_at(now_ns) {
            return Some(now_ns);
        }
        quota.first_ns_at(due)
    }

    /// Publishes a time that is charged, before it is.
    #[inline]
    fn has_charged_at(&self, release_ns: u64) {
        // A value that is seen here is seen by whoever sees what is taken next.
        if self.newest_ns.load(Ordering::Relaxed) < release_ns {
            self.newest_ns.fetch_max(release_ns, Ordering::AcqRel);
        }
    }

    #[inline]
    fn take_hole(&self, now_ns: u64, weight: u32, wait_max: Duration) -> Option<Granted> {
        if self.holes.is_empty() {
            return None;
        }
        let wait_ns_max = u64::try_from(wait_max.as_nanos()).unwrap_or(u64::MAX);
        let hole = self.holes.take(now_ns, weight.into(), wait_ns_max)?;
        Some(Granted {
            taken: Taken(Share::Hole(hole)),
            release: Timestamp::from_nanos(hole.release_ns),
        })
    }

    #[cold]
    fn shrink(&self, mark: u128, release_ns: u64, weight: u32, now_ns: u64) {
        let quota = &self.quota;
        let cost = quota.units_of(weight.into());
        let _turn = unpoisoned(self.giving_back.lock());
        let returned = self.returned.load(Ordering::Acquire);
        // Where the stretch ends now, at least.
        let mut end = quota.units_at(release_ns) + cost;
        if returned < quota.countable() {
            end = end.max(mark.saturating_sub(quota.units_of(returned)));
        }
        let mut full_at = self.full_at.load(Ordering::Acquire);
        loop {
            let is_last = end >= full_at;
            let back = match is_last {
                true => cost,
                // Nobody in the word, as it was seen, was charged later.
                false => {
                    let newest = quota.units_at(self.newest_ns.load(Ordering::Relaxed));
                    cost.min(end.saturating_sub(newest))
                }
            };
            if back < cost && release_ns > now_ns {
                let cost = weight.into();
                return self.holes.leave(Hole { release_ns, cost }, now_ns);
            }
            if back == 0 {
                return;
            }
            let next = full_at.saturating_sub(back);
            match self
                .full_at
                .compare_exchange(full_at, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) if is_last => return,
                Ok(_) => {
                    let returned = returned.saturating_add(weight.into());
                    // Release: who counts it finds the word without it.
                    self.returned
                        .store(returned.min(quota.countable()), Ordering::Release);
                    return;
                }
                Err(found) => full_at = found,
            }
        }
    }

    fn tokens(&self, full_at: u128, now_ns: u64) -> (u64, f64) {
        let owed = full_at.saturating_sub(self.quota.units_at(now_ns));
        self.quota.tokens(self.quota.capacity.saturating_sub(owed))
    }

    #[cold]
    fn too_few(&self, full_at: u128, now_ns: u64, weight: u32) -> TooFewTokens {
        let release_ns = self.release_ns(full_at, now_ns, weight);
        TooFewTokens {
            left: self.tokens(full_at, now_ns).0,
            retry_after: release_ns.map(|ns| Duration::from_nanos(ns - now_ns)),
        }
    }
}

/// Marks the second word of a hole. No mark of a stretch comes so far.
const IS_HOLE: u64 = 1 << 63;

impl Taken {
    /// As the note that a slot leaves for itself, see
    /// [`Ticket`](crate::call::Ticket).
    pub fn to_words(self) -> [u64; 3] {
        match self.0 {
            Share::Nothing => [0; 3],
            Share::Stretch { mark, release_ns } => [mark as u64, (mark >> 64) as u64, release_ns],
            Share::Hole(hole) => [hole.release_ns, IS_HOLE, hole.cost],
        }
    }

    /// The same, read back.
    pub fn from_words(words: [u64; 3]) -> Self {
        Taken(match words {
            [0, 0, _] => Share::Nothing,
            [release_ns, IS_HOLE, cost] => Share::Hole(Hole { release_ns, cost }),
            [low, high, release_ns] => Share::Stretch {
                mark: u128::from(high) << 64 | u128::from(low),
                release_ns,
            },
        })
    }
}

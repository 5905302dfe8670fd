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
//! bucket would have run over, and it has no more than five to give. Let `N` be
//! the latest time that any call was charged at. What has flowed in while it went
//! from `n`, as the call left it, to `N` may be such tokens. The rest goes back:
//!
//! ```text
//! R = k·C − (N − n)·A, or nothing if that is less
//! ```
//!
//! *Proof.* Of calls that have not given back, in the order of their swaps:
//! `T ≥ n_j·A +` what `j` and all calls after it took, for each `j`, and
//! `T ≥ N·A`. Taking keeps this, as `T'` is `k·C` more than `T` and than `r·A`, of
//! which one is at least `n·A`. As `n ≥ r`, it says what the bound needs when the
//! last call of a span takes. When `g` gives back, then for `j` before `g` the sum
//! loses `k·C`, and `T` no more than that. For `j` after `g`: as it held for `g`,
//! `T − R` is at least `N·A` and what all after `g` took, of which `j` and those
//! after it are some; and `N ≥ n_j`. ∎
//!
//! `N` is in the same word, so no swap misses it ([`Level`]). All goes back if
//! nobody has come since, or all who did were charged at the same time; else a
//! call loses at most what flowed in meanwhile. (Full bursts of centuries or
//! rates of ten digits and more take up so much of the word that `N` is rounded
//! up: by parts of the time that a full burst takes, of a hundredth down to next
//! to nothing. A call gets back so much less then, never more.)
//!
//! **Who waits behind.** If nothing can go back and the call's release is still
//! to come, it leaves a [hole](crate::holes) instead: a newcomer that takes no
//! more tokens is released at its time. Nobody is re-timed.

mod decimal;
mod level;
#[cfg(not(loom))]
mod limiter;
mod quota;

use std::time::Duration;

pub use decimal::Decimal;
pub use level::{Charge, Level};
#[cfg(not(loom))]
pub use limiter::TokenBucketLimiter;
pub use quota::{Quota, QuotaError};

use crate::holes::{Hole, Holes};
use crate::sync::OnceLock;
use crate::time::Timestamp;

/// A bucket that is refilled continuously: at most `burst + rate · t` tokens in
/// any closed span `t`, under any number of threads.
///
/// Time is an argument; [`TokenBucketLimiter`] has a clock.
#[derive(Debug)]
pub struct TokenBucket {
    quota: Quota,
    level: Level,
    /// Made when the first one is left: most buckets have none.
    holes: OnceLock<Box<Holes>>,
}

/// What a call took of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Taken(Share);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Share {
    #[default]
    Nothing,
    Tokens {
        release: Timestamp,
        newest: Timestamp,
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
            level: Level::default(),
            holes: OnceLock::new(),
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
        if self.holes.get().is_some_and(|holes| !holes.is_empty())
            && let Some(granted) = self.take_hole(now, weight, wait_max)
        {
            return Ok(granted);
        }
        let charge = self.level.take(&self.quota, now, weight, wait_max)?;
        let Charge { release, newest } = charge;
        let taken = Taken(match weight {
            0 => Share::Nothing,
            _ => Share::Tokens { release, newest },
        });
        Ok(Granted { taken, release })
    }

    /// Gives back, at `now`, what a call of this weight took.
    pub fn give_back(&self, taken: Taken, weight: u32, now: Timestamp) {
        let hole = match taken.0 {
            Share::Nothing => return,
            Share::Hole(hole) => hole,
            Share::Tokens { release, newest } => {
                if self.level.give_back(&self.quota, newest, weight) {
                    return;
                }
                Hole {
                    release_ns: release.as_nanos(),
                    cost: weight.into(),
                }
            }
        };
        if hole.release_ns > now.as_nanos() {
            let holes = self.holes.get_or_init(Box::default);
            holes.leave(hole, now.as_nanos());
        }
    }

    /// Tokens at `now`, with the part of the one that is flowing in.
    pub fn tokens_at(&self, now: Timestamp) -> f64 {
        let (whole, part) = self.level.tokens_at(&self.quota, now);
        whole as f64 + part
    }

    /// Whole tokens at `now`.
    pub fn whole_tokens_at(&self, now: Timestamp) -> u64 {
        self.level.tokens_at(&self.quota, now).0
    }

    /// A hole for a call that would have to wait longer, or as long.
    #[cold]
    fn take_hole(&self, now: Timestamp, weight: u32, wait_max: Duration) -> Option<Granted> {
        let release = self.level.release_at(&self.quota, now, weight)?;
        if release <= now || weight == 0 {
            return None;
        }
        let wait_max = release.since(now).min(wait_max).as_nanos();
        // No longer than the first, which is a time on the clock.
        let wait_ns_max = u64::try_from(wait_max).unwrap_or(u64::MAX);
        let holes = self.holes.get()?;
        let hole = holes.take(now.as_nanos(), weight.into(), wait_ns_max)?;
        Some(Granted {
            taken: Taken(Share::Hole(hole)),
            release: Timestamp::from_nanos(hole.release_ns),
        })
    }
}

impl Taken {
    /// As the note that a slot leaves for itself, see
    /// [`Ticket`](crate::call::Ticket).
    pub fn to_words(self) -> [u64; 3] {
        match self.0 {
            Share::Nothing => [0; 3],
            Share::Tokens { release, newest } => [1, release.as_nanos(), newest.as_nanos()],
            Share::Hole(hole) => [2, hole.release_ns, hole.cost],
        }
    }

    /// The same, read back.
    pub fn from_words(words: [u64; 3]) -> Self {
        Taken(match words {
            [1, release_ns, newest_ns] => Share::Tokens {
                release: Timestamp::from_nanos(release_ns),
                newest: Timestamp::from_nanos(newest_ns),
            },
            [2, release_ns, cost] => Share::Hole(Hole { release_ns, cost }),
            _ => Share::Nothing,
        })
    }
}

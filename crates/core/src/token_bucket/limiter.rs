//! The token bucket on its own: no rules, no resources, no chain.

use std::time::Duration;

use super::{Quota, QuotaError, TokenBucket, TooFewTokens};
use crate::time::{Clock, Timestamp};

/// A token bucket with a clock: `rate` tokens per period flow in continuously,
/// and at most `burst` are kept for later.
///
/// At most `burst + rate · t` tokens are taken in any closed span `t`, exactly,
/// under any number of threads and for as long as it runs.
///
/// ```
/// use std::time::Duration;
/// use flowgate_core::{Clock, ManualClock, TokenBucketLimiter};
///
/// // 5 per second, and up to 10 at once after a quiet time.
/// let time = ManualClock::new();
/// let clock = Clock::manual(time.clone());
/// let limiter = TokenBucketLimiter::with_clock(5.0, Duration::from_secs(1), 10, clock)?;
/// assert_eq!((0..20).filter(|_| limiter.try_acquire()).count(), 10);
///
/// let refused = limiter.acquire_at(time.now(), 1).unwrap_err();
/// assert_eq!(refused.retry_after, Some(Duration::from_millis(200)));
/// time.advance(Duration::from_millis(200));
/// assert!(limiter.try_acquire());
/// # Ok::<(), flowgate_core::token_bucket::QuotaError>(())
/// ```
#[derive(Debug)]
pub struct TokenBucketLimiter {
    bucket: TokenBucket,
    clock: Clock,
}

impl TokenBucketLimiter {
    /// A full bucket on the system clock: `rate` tokens per `period`, at most
    /// `burst` of them at a time.
    ///
    /// # Errors
    ///
    /// [`QuotaError`], if the rate is none or cannot be held exactly; see
    /// [`Quota::new`].
    pub fn new(rate: f64, period: Duration, burst: u64) -> Result<Self, QuotaError> {
        Self::with_clock(rate, period, burst, Clock::system())
    }

    /// The same on a clock of your choice.
    ///
    /// # Errors
    ///
    /// As [`TokenBucketLimiter::new`].
    pub fn with_clock(
        rate: f64,
        period: Duration,
        burst: u64,
        clock: Clock,
    ) -> Result<Self, QuotaError> {
        let bucket = TokenBucket::new(Quota::new(rate, period, burst)?);
        Ok(TokenBucketLimiter { bucket, clock })
    }

    /// Whether one call may pass now; if so it has taken a token.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        self.try_acquire_n(1)
    }

    /// Whether a call of weight `n` may pass now; it takes `n` tokens or none.
    /// Weight 0 always passes.
    #[inline]
    pub fn try_acquire_n(&self, n: u32) -> bool {
        self.acquire_at(self.clock.now(), n).is_ok()
    }

    /// The same at a time given by the caller.
    ///
    /// # Errors
    ///
    /// [`TooFewTokens`] says how many are left and when to try again; `None`
    /// there means never, as `n` is above the burst.
    #[inline]
    pub fn acquire_at(&self, now: Timestamp, n: u32) -> Result<(), TooFewTokens> {
        self.bucket.take(now, n).map(|_| ())
    }

    /// Whole tokens there are now.
    pub fn remaining(&self) -> u64 {
        self.bucket.whole_tokens_at(self.clock.now())
    }

    /// The rate and the burst.
    pub fn quota(&self) -> &Quota {
        self.bucket.quota()
    }
}

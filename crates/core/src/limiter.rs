//! The sliding-window limiter on its own: no rules, no resources, no chain.

use std::time::Duration;

use crate::leap_array::{Full, GeometryError, LeapArray, PassCell, Span, passes::PASSES_MAX};
use crate::time::Timestamp;

#[cfg(not(loom))]
use crate::time::Clock;

/// At most `threshold` calls in the windows of one interval, exact under any
/// number of threads.
///
/// The interval is cut into boxes; the limit holds for the present box and the
/// `boxes − 1` before it. So at most `threshold` calls pass in any span of
/// `interval · (boxes − 1) / boxes`; across the edge of two boxes up to twice
/// as many may pass in a whole interval (see `docs/guarantees.md`).
///
/// ```
/// use std::time::Duration;
/// use flowgate_core::SlidingWindowLimiter;
///
/// let limiter = SlidingWindowLimiter::new(Duration::from_secs(1), 10, 100)?;
/// let passed = (0..120).filter(|_| limiter.try_acquire()).count();
/// // 100 pass and 20 are refused; more only if a second went by meanwhile.
/// assert!(passed >= 100);
/// # Ok::<(), flowgate_core::GeometryError>(())
/// ```
#[derive(Debug)]
pub struct SlidingWindowLimiter {
    ring: LeapArray<PassCell>,
    span: Span,
    threshold: u64,
    #[cfg(not(loom))]
    clock: Clock,
}

impl SlidingWindowLimiter {
    /// A limiter on the system clock: `threshold` calls per `interval`, counted
    /// in `boxes` windows.
    ///
    /// # Errors
    ///
    /// If there is no box, or the boxes do not divide the interval into whole
    /// nanoseconds.
    #[cfg(not(loom))]
    pub fn new(interval: Duration, boxes: u32, threshold: u64) -> Result<Self, GeometryError> {
        Self::with_clock(interval, boxes, threshold, Clock::system())
    }

    /// The same on a clock of your choice.
    ///
    /// # Errors
    ///
    /// As [`SlidingWindowLimiter::new`].
    #[cfg(not(loom))]
    pub fn with_clock(
        interval: Duration,
        boxes: u32,
        threshold: u64,
        clock: Clock,
    ) -> Result<Self, GeometryError> {
        let ring = LeapArray::new(boxes, interval)?;
        Ok(SlidingWindowLimiter {
            ring,
            span: Span::new(1, u64::from(boxes)),
            threshold: threshold.min(PASSES_MAX),
            clock,
        })
    }

    /// A limiter without a clock, for models: only the `…_at` calls work.
    #[cfg(loom)]
    pub fn new(interval: Duration, boxes: u32, threshold: u64) -> Result<Self, GeometryError> {
        let ring = LeapArray::new(boxes, interval)?;
        let span = Span::new(1, u64::from(boxes));
        Ok(SlidingWindowLimiter {
            ring,
            span,
            threshold: threshold.min(PASSES_MAX),
        })
    }

    /// Whether one call may pass now; if so it is counted.
    #[cfg(not(loom))]
    #[inline]
    pub fn try_acquire(&self) -> bool {
        self.try_acquire_n(1)
    }

    /// Whether a call of weight `n` may pass now; counted as a whole or not at
    /// all. Weight 0 always passes.
    #[cfg(not(loom))]
    #[inline]
    pub fn try_acquire_n(&self, n: u32) -> bool {
        self.acquire_at(self.clock.now(), n).is_ok()
    }

    /// The same at a time given by the caller.
    ///
    /// # Errors
    ///
    /// [`Full`] says how many have passed and when to try again; `None` there
    /// means never, as `n` is above the threshold.
    #[inline]
    pub fn acquire_at(&self, now: Timestamp, n: u32) -> Result<(), Full> {
        if n == 0 {
            return Ok(());
        }
        self.ring
            .reserve(now, n, self.span, self.threshold, None)
            .map(|_| ())
    }

    /// Calls per second over the interval now.
    #[cfg(not(loom))]
    pub fn current_qps(&self) -> f64 {
        self.passed_at(self.clock.now()) as f64 / self.ring.interval().as_secs_f64()
    }

    /// Weights passed in the interval at `now`.
    pub fn passed_at(&self, now: Timestamp) -> u64 {
        self.ring.passes_in(now, self.span, None)
    }

    /// The most that passes per interval.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }
}

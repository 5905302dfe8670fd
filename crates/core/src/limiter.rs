//! The sliding-window limiter on its own: no rules, no resources, no chain.

use std::time::Duration;

use crate::leap_array::{Full, GeometryError, SlidingWindow, passes::PASSES_MAX};
use crate::time::Timestamp;

#[cfg(not(loom))]
use crate::time::Clock;

/// At most `threshold` calls in the windows of one interval, exact under any
/// number of threads.
///
/// The interval is cut into boxes; the limit holds for the present box and the
/// `boxes − 1` before it. So at most `threshold` calls pass in any span of
/// `interval · (boxes − 1) / boxes`; across the edge of two boxes up to twice
/// as many may pass in a whole interval (see `docs/guarantees.md`). Where that
/// matters, count [strictly](SlidingWindowLimiter::strict).
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
    window: SlidingWindow,
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
        let window = SlidingWindow::new(boxes, interval)?;
        Ok(Self::on(window, threshold, clock))
    }

    /// A limiter on the system clock that lets at most `threshold` calls pass in
    /// *any* span of `interval`, wherever it begins.
    ///
    /// The limit holds for the present box and the `boxes` before it: one more
    /// than the interval holds, so that no span of its length touches a box that
    /// is not counted. That costs one part in `boxes + 1` of what could pass
    /// under steady load; 50 boxes make it less than 2 %.
    ///
    /// ```
    /// use std::time::Duration;
    /// use flowgate_core::{Clock, ManualClock, SlidingWindowLimiter};
    ///
    /// let time = ManualClock::new();
    /// let clock = Clock::manual(time.clone());
    /// let second = Duration::from_secs(1);
    /// let limiter = SlidingWindowLimiter::strict_with_clock(second, 50, 100, clock)?;
    ///
    /// // 100 calls late in one second, and none early in the next.
    /// time.advance(Duration::from_millis(990));
    /// assert_eq!((0..150).filter(|_| limiter.try_acquire()).count(), 100);
    /// time.advance(Duration::from_millis(520));
    /// assert!(!limiter.try_acquire());
    /// time.advance(Duration::from_millis(490));
    /// assert_eq!((0..150).filter(|_| limiter.try_acquire()).count(), 100);
    /// # Ok::<(), flowgate_core::GeometryError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`SlidingWindowLimiter::new`]; a strict one has at most 86,399 boxes.
    #[cfg(not(loom))]
    pub fn strict(interval: Duration, boxes: u32, threshold: u64) -> Result<Self, GeometryError> {
        Self::strict_with_clock(interval, boxes, threshold, Clock::system())
    }

    /// The same on a clock of your choice.
    ///
    /// # Errors
    ///
    /// As [`SlidingWindowLimiter::strict`].
    #[cfg(not(loom))]
    pub fn strict_with_clock(
        interval: Duration,
        boxes: u32,
        threshold: u64,
        clock: Clock,
    ) -> Result<Self, GeometryError> {
        let window = SlidingWindow::strict(boxes, interval)?;
        Ok(Self::on(window, threshold, clock))
    }

    #[cfg(not(loom))]
    fn on(window: SlidingWindow, threshold: u64, clock: Clock) -> Self {
        SlidingWindowLimiter {
            window,
            threshold: threshold.min(PASSES_MAX),
            clock,
        }
    }

    /// A limiter without a clock, for models: only the `…_at` calls work.
    #[cfg(loom)]
    pub fn new(interval: Duration, boxes: u32, threshold: u64) -> Result<Self, GeometryError> {
        Ok(SlidingWindowLimiter {
            window: SlidingWindow::new(boxes, interval)?,
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
        self.window.reserve(now, n, self.threshold).map(|_| ())
    }

    /// Calls per second now, over the time that the counted boxes cover.
    #[cfg(not(loom))]
    pub fn current_qps(&self) -> f64 {
        self.passed_at(self.clock.now()) as f64 / self.window.covered().as_secs_f64()
    }

    /// Weights passed in the boxes that count at `now`.
    pub fn passed_at(&self, now: Timestamp) -> u64 {
        self.window.passes(now)
    }

    /// The most that the boxes that count may hold.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }
}

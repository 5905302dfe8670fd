//! A ring that is asked for one span only.

use std::time::Duration;

use crate::time::Timestamp;

use super::passes::Earlier;
use super::{Bucket, Full, GeometryError, LeapArray, PassCell, Passes, Renewal, SAMPLE_COUNT_MAX};
use super::{Span, Taken, window_width_ns};

/// A sliding window: passes over one interval, in a ring that counts nothing
/// else. Nobody can ask it for another span, so it keeps the sum of the boxes
/// before the present one, and a call looks at all of them only if it is the
/// first of its box.
#[derive(Debug)]
pub struct SlidingWindow {
    ring: LeapArray<Slot>,
    span: Span,
}

/// One box: 24 bytes with its stamp.
#[derive(Debug, Default)]
struct Slot {
    passes: PassCell,
    earlier: Earlier,
}

impl Bucket for Slot {
    type Beside = ();

    fn renew(&self, renewal: &Renewal<'_>) {
        self.passes.renew(renewal);
        self.earlier.renew(renewal);
    }
}

impl Passes for Slot {
    #[inline]
    fn passes(&self) -> &PassCell {
        &self.passes
    }

    #[inline]
    fn earlier(&self) -> Option<&Earlier> {
        Some(&self.earlier)
    }
}

impl SlidingWindow {
    /// `interval` in `boxes` boxes: the present box and the `boxes − 1` before it
    /// count.
    ///
    /// # Errors
    ///
    /// As [`LeapArray::new`].
    pub fn new(boxes: u32, interval: Duration) -> Result<Self, GeometryError> {
        let width_ns = window_width_ns(boxes, interval)?;
        Ok(Self::with_width(width_ns, boxes))
    }

    /// The same, counted strictly: the present box and the `boxes` before it
    /// count. Together these always hold the whole interval before any moment of
    /// the present box.
    ///
    /// # Errors
    ///
    /// As [`LeapArray::new`], and if there is no room for the one box more.
    pub fn strict(boxes: u32, interval: Duration) -> Result<Self, GeometryError> {
        let width_ns = window_width_ns(boxes, interval)?;
        if boxes == SAMPLE_COUNT_MAX {
            return Err(GeometryError {
                sample_count: boxes,
                interval,
                problem: "strict accounting has one window more, and 86400 are the most",
            });
        }
        Ok(Self::with_width(width_ns, boxes + 1))
    }

    /// `boxes` boxes of `width_ns`, all of which count.
    pub(crate) fn with_width(width_ns: u64, boxes: u32) -> Self {
        SlidingWindow {
            ring: LeapArray::with_width(width_ns, boxes as usize),
            span: Span::new(1, boxes.into()),
        }
    }

    /// How many boxes count, the present one included.
    pub fn boxes(&self) -> u64 {
        self.span.windows()
    }

    /// The time that all boxes together cover.
    pub fn covered(&self) -> Duration {
        self.ring.interval()
    }

    /// Number of the box that holds `time`.
    #[inline]
    pub(crate) fn number_at(&self, time: Timestamp) -> u64 {
        self.ring.number_at(time)
    }

    /// Counts `n` passes that nothing limits.
    #[inline]
    pub fn pass(&self, now: Timestamp, n: u32) -> Taken {
        self.ring.pass(now, n)
    }

    /// Takes `n` passes if there are then no more than `limit`, in one atomic
    /// step.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room now; nothing has changed then.
    #[inline]
    pub fn reserve(&self, now: Timestamp, n: u32, limit: u64) -> Result<Taken, Full> {
        self.ring.reserve(now, n, self.span, limit, None)
    }

    /// Whether `n` more passes would fit now; takes nothing.
    ///
    /// # Errors
    ///
    /// [`Full`] as [`SlidingWindow::reserve`] would say.
    pub fn probe(&self, now: Timestamp, n: u32, limit: u64) -> Result<(), Full> {
        self.ring.probe(now, n, self.span, limit, None, None)
    }

    /// Gives back what was taken, if its box still counts.
    pub fn give_back(&self, taken: Taken) {
        self.ring.give_back(taken);
    }

    /// Passes at `now`.
    pub fn passes(&self, now: Timestamp) -> u64 {
        self.ring.passes_in(now, self.span, None)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn kept(window: &SlidingWindow, now: Timestamp) -> Option<u64> {
        let present = window.ring.current(now);
        present.bucket().earlier.kept(present.lap())
    }

    #[test]
    fn the_first_call_of_a_box_keeps_the_sum_for_those_after_it() {
        let window = SlidingWindow::new(10, SECOND).expect("100 ms each");
        let at = |ms: u64| Timestamp::from_millis(10_000 + ms);
        let take = |ms, n| window.reserve(at(ms), n, 100).expect("there is room");
        let _ = (take(0, 1), take(150, 2), take(250, 4));
        assert_eq!(kept(&window, at(250)), Some(3));
        let _ = take(250, 8);
        assert_eq!(kept(&window, at(250)), Some(3));
        let _ = take(1_050, 1);
        assert_eq!(kept(&window, at(1_050)), Some(14));
    }

    #[test]
    fn after_too_many_givings_back_the_sum_is_not_kept_and_still_right() {
        let window = SlidingWindow::new(10, SECOND).expect("100 ms each");
        let at = |ms: u64| Timestamp::from_millis(10_000 + ms);
        let early: Vec<_> = (0..300)
            .map(|_| window.reserve(at(0), 1, 300).expect("there is room"))
            .collect();
        for (given_back, taken) in early.into_iter().enumerate() {
            let full = window.reserve(at(150), 300, 300).expect_err("not yet");
            assert_eq!(full.sum, 300 - given_back as u64);
            let is_kept = kept(&window, at(150)).is_some();
            assert_eq!(is_kept, given_back < 255);
            window.give_back(taken);
        }
        assert!(window.reserve(at(150), 300, 300).is_ok());
        // The next box begins anew.
        assert!(window.reserve(at(250), 1, 300).is_err());
        assert_eq!(kept(&window, at(250)), Some(300));
    }
}

//! What a view is known by.

use std::time::Duration;

use crate::leap_array::{GeometryError, window_width_ns};

/// An interval, and the number of boxes it is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Interval {
    ms: u32,
    boxes: u16,
}

/// Which count of passes of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View<'a> {
    /// The second view, which every node has.
    Second,
    /// A view that rules ask for.
    Own {
        /// Its interval.
        interval: Interval,
        /// All intervals that the asker names, this one included: their views
        /// are not dropped to make room for each other.
        among: &'a [Interval],
    },
}

impl Interval {
    /// At most this many boxes: each call that asks looks at all of them.
    pub const BOXES_MAX: u32 = 1_000;

    /// `interval` in `boxes` boxes.
    ///
    /// # Errors
    ///
    /// If there is no box, or more than [`Interval::BOXES_MAX`], or they do not
    /// divide the interval into whole nanoseconds, or it is not of whole
    /// milliseconds or over 49 days.
    pub fn new(interval: Duration, boxes: u32) -> Result<Self, GeometryError> {
        let fail = |problem| GeometryError {
            sample_count: boxes,
            interval,
            problem,
        };
        window_width_ns(boxes, interval)?;
        if boxes > Self::BOXES_MAX {
            return Err(fail("at most 1000 boxes, as each call looks at all"));
        }
        let whole = interval.subsec_nanos().is_multiple_of(1_000_000);
        let (ms, boxes) = (u32::try_from(interval.as_millis()), u16::try_from(boxes));
        match (ms, boxes) {
            (Ok(ms), Ok(boxes)) if whole => Ok(Interval { ms, boxes }),
            _ => Err(fail("choose whole milliseconds, at most 49 days")),
        }
    }

    /// Its length.
    pub fn length(self) -> Duration {
        Duration::from_millis(self.ms.into())
    }

    /// In how many boxes it is counted.
    pub fn boxes(self) -> u32 {
        self.boxes.into()
    }

    /// Milliseconds and boxes.
    #[inline]
    pub(crate) fn parts(self) -> (u32, u16) {
        (self.ms, self.boxes)
    }

    pub(super) fn box_ns(self) -> u64 {
        u64::from(self.ms) * 1_000_000 / u64::from(self.boxes)
    }
}

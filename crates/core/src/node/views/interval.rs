//! What a view is known by.

use std::time::Duration;

use crate::Accounting;
use crate::leap_array::{GeometryError, window_width_ns};

/// An interval, the number of boxes it is cut into, and how many of them count:
/// as many, or, strictly, one more.
///
/// ```
/// use std::time::Duration;
/// use flowgate_core::{Accounting, Interval};
///
/// let second = Interval::strict(Duration::from_secs(1), Interval::STRICT_BOXES)?;
/// assert_eq!((second.length(), second.boxes()), (Duration::from_secs(1), 50));
/// assert_eq!(second.accounting(), Accounting::Strict);
/// # Ok::<(), flowgate_core::GeometryError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Interval {
    ms: u32,
    boxes: u16,
    strict: bool,
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
    /// At most this many boxes: the first call of each box looks at all of them,
    /// and a refused one may.
    pub const BOXES_MAX: u32 = 1_000;

    /// In how many boxes a strict interval is counted if nobody says otherwise.
    /// The one box more costs 1/51 of the limit, just under 2 %; and 50 divides
    /// any number of milliseconds into whole nanoseconds.
    pub const STRICT_BOXES: u32 = 50;

    /// `interval` in `boxes` boxes. The limit holds for the present box and the
    /// `boxes − 1` before it, and so for any span of `(boxes − 1) / boxes` of the
    /// interval.
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
            return Err(fail(
                "at most 1000 boxes, as a refused call may look at all",
            ));
        }
        let whole = interval.subsec_nanos().is_multiple_of(1_000_000);
        let (ms, boxes) = (u32::try_from(interval.as_millis()), u16::try_from(boxes));
        match (ms, boxes) {
            (Ok(ms), Ok(boxes)) if whole => Ok(Interval {
                ms,
                boxes,
                strict: false,
            }),
            _ => Err(fail("choose whole milliseconds, at most 49 days")),
        }
    }

    /// `interval` in `boxes` boxes, of which one more counts than it holds: the
    /// present box and the `boxes` before it. Any span of the interval touches
    /// no more boxes than these, so the limit holds for any such span. Under full
    /// load `boxes / (boxes + 1)` of it pass.
    ///
    /// # Errors
    ///
    /// As [`Interval::new`].
    pub fn strict(interval: Duration, boxes: u32) -> Result<Self, GeometryError> {
        Ok(Interval {
            strict: true,
            ..Interval::new(interval, boxes)?
        })
    }

    /// Its length.
    pub fn length(self) -> Duration {
        Duration::from_millis(self.ms.into())
    }

    /// Into how many boxes it is cut.
    pub fn boxes(self) -> u32 {
        self.boxes.into()
    }

    /// Whether a limit holds for any span of its length.
    pub fn is_strict(self) -> bool {
        self.strict
    }

    /// For which spans of time a limit holds.
    pub fn accounting(self) -> Accounting {
        match self.strict {
            true => Accounting::Strict,
            false => Accounting::Window,
        }
    }

    /// All there is to it: milliseconds and boxes, of which there are far fewer
    /// than 2¹⁵; the top bit says whether it is strict.
    #[inline]
    pub(crate) fn parts(self) -> (u32, u16) {
        (self.ms, self.boxes | u16::from(self.strict) << 15)
    }

    /// How many boxes count, the present one included.
    pub(super) fn boxes_counted(self) -> u32 {
        self.boxes() + u32::from(self.strict)
    }

    pub(super) fn box_ns(self) -> u64 {
        u64::from(self.ms) * 1_000_000 / u64::from(self.boxes)
    }
}

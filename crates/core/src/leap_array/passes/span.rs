//! Which windows are added up.

use crate::leap_array::SAMPLE_COUNT_MAX;

/// A span of the ring, in whole windows of `group` boxes each: the present
/// group of boxes and the `windows − 1` before it. A span longer than the ring
/// it is used with means the whole ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    group: u64,
    windows: u64,
}

impl Span {
    /// A span of `windows` windows of `group` boxes each, both at least 1 and
    /// at most [`SAMPLE_COUNT_MAX`].
    pub fn new(group: u64, windows: u64) -> Self {
        let most = u64::from(SAMPLE_COUNT_MAX);
        Span {
            group: group.clamp(1, most),
            windows: windows.clamp(1, most),
        }
    }

    /// The first box of the span whose last is `number`, `ahead` windows later.
    #[inline]
    pub(crate) fn first(&self, number: u64, ahead: u64) -> u64 {
        let window = if self.group == 1 {
            number
        } else {
            number / self.group
        };
        (window + ahead + 1).saturating_sub(self.windows) * self.group
    }

    /// The window that box `number` belongs to.
    #[inline]
    pub(crate) fn window(&self, number: u64) -> u64 {
        if self.group == 1 {
            number
        } else {
            number / self.group
        }
    }

    /// Number of windows.
    #[inline]
    pub(crate) fn windows(&self) -> u64 {
        self.windows
    }

    pub(crate) fn group(&self) -> u64 {
        self.group
    }
}

//! What a call holds in flight.

use super::{PERMITS_SHIFT, counted};

/// What a call holds in flight at one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Share {
    /// One place among the calls in flight.
    pub place: bool,
    /// As many permits as it weighs.
    pub permits: bool,
}

impl Share {
    /// Nothing.
    pub const NOTHING: Share = Share {
        place: false,
        permits: false,
    };
    /// A place, and permits.
    pub const WHOLE: Share = Share {
        place: true,
        permits: true,
    };
    /// A place only.
    pub const PLACE: Share = Share {
        place: true,
        permits: false,
    };
    /// Permits only.
    pub const PERMITS: Share = Share {
        place: false,
        permits: true,
    };

    /// What is missing of a whole share.
    #[inline]
    #[must_use]
    pub fn rest(self) -> Share {
        Share {
            place: !self.place,
            permits: !self.permits,
        }
    }

    /// What it adds to the word.
    #[inline]
    pub(super) fn of(self, weight: u32) -> u64 {
        let permits = if self.permits { counted(weight) } else { 0 };
        u64::from(self.place) | permits << PERMITS_SHIFT
    }
}

//! The sum of the sealed windows, kept.
//!
//! Who reserves adds up the windows of its span before the present one. They
//! are sealed, so their sum can only shrink, and it is the same for all callers
//! of one present window: the first of them keeps it in the present window's
//! slot, beside the passes:
//!
//! ```text
//! 63     52 51          44 43                  0
//! |  lap  |  given back   |  sum + 1; 0: unknown |
//! ```
//!
//! It is renewed together with the passes, by the same rules, so it is of the
//! window whose lap it carries, and no older sum can be taken for it.
//!
//! **It is never too small.** A kept sum was added up from windows that were
//! sealed when they were read; nothing is added to those any more. So a call
//! that adds its present word to it and swaps that word compares with no less
//! than is in force at that moment, as one that has added up itself.
//!
//! **It is not too large either**, for whoever comes after a giving back: that
//! ends with forgetting the sum before the newest window. In full, with `k` the
//! window that something is taken back from:
//!
//! 1. If `k` was not sealed by then, no sum has it; whoever seals it later finds
//!    the smaller amount.
//! 2. Else the head is looked up by a read-modify-write. Who opens a window
//!    newer than that comes later to the word of the head, so it sees what was
//!    taken back, and so do all that add up in that window.
//! 3. In the window that is the newest one, the sum is forgotten and the count
//!    of givings back goes up, in one step. Who keeps a sum swaps it in for the
//!    word that it has seen *before* it added up: a sum from before the giving
//!    back is either forgotten or not kept. The window is stamped first, so that
//!    no slow renewal sets the count back.
//!
//! The count does not go round: when it has reached its end, sums of this
//! window are not kept any more. Nor is one of 2⁴⁴ or more. Callers then add
//! up, as if nothing was kept.

use crate::leap_array::Renewal;
use crate::leap_array::cell::{Lap, renew_word};
use crate::sync::{AtomicU64, Ordering};

const SUM_BITS: u32 = 44;
const SUM_MASK: u64 = (1 << SUM_BITS) - 1;
const LAP_SHIFT: u32 = 52;
const CHANGE_ONE: u64 = 1 << SUM_BITS;
const CHANGES: u64 = (1 << LAP_SHIFT) - CHANGE_ONE;

/// Passes of the windows before one, as far as they are in its span.
#[derive(Debug, Default)]
pub struct Earlier(AtomicU64);

/// What was seen there.
#[derive(Clone, Copy)]
pub(super) struct Kept(u64);

impl Earlier {
    #[inline]
    pub(super) fn load(&self) -> Kept {
        // Acquire: who finds a sum forgotten, or not yet known, adds up what is
        // left after the giving back that forgot it.
        Kept(self.0.load(Ordering::Acquire))
    }

    /// Keeps `sum` for the window of `lap`, added up after `seen` was.
    #[cold]
    pub(super) fn keep(&self, lap: Lap, seen: Kept, sum: u64) {
        let Kept(word) = seen;
        let unknown = seen.is_of(lap) && word & SUM_MASK == 0;
        if unknown && word & CHANGES != CHANGES && sum < SUM_MASK {
            // Release: a slow renewer that loads it must see the stamp.
            // If it fails somebody else has kept a sum, or forgotten one.
            let _ =
                self.0
                    .compare_exchange(word, word + sum + 1, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Forgets the sum: something was given back. The window of `lap` has its
    /// stamp.
    #[cold]
    pub(super) fn forget(&self, lap: Lap) {
        let forgotten = |word: u64| {
            let change = if word & CHANGES == CHANGES {
                0
            } else {
                CHANGE_ONE
            };
            Kept(word).is_of(lap).then_some((word & !SUM_MASK) + change)
        };
        // AcqRel: who sees it sees what was taken back.
        let _ = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, forgotten);
    }

    #[cfg(all(test, not(loom)))]
    pub(in crate::leap_array) fn kept(&self, lap: Lap) -> Option<u64> {
        self.load().sum(lap)
    }

    /// Makes it the one of a new window.
    pub(crate) fn renew(&self, renewal: &Renewal<'_>) {
        renew_word(&self.0, renewal.lap.bits() << LAP_SHIFT, renewal);
    }
}

impl Kept {
    /// The sum, if one is kept for the window of `lap`.
    #[inline]
    pub(super) fn sum(self, lap: Lap) -> Option<u64> {
        let sum = (self.0 & SUM_MASK).checked_sub(1);
        sum.filter(|_| self.is_of(lap))
    }

    #[inline]
    fn is_of(self, lap: Lap) -> bool {
        self.0 >> LAP_SHIFT == lap.bits()
    }
}

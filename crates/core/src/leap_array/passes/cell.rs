//! The passes of one window, in one word:
//!
//! ```text
//! 63     52  51      50        34 33                0
//! |  lap  | sealed | borrow epoch |  passes          |
//! ```

use crate::leap_array::cell::{Lap, renew_word};
use crate::leap_array::{Bucket, Renewal};
use crate::sync::{AtomicU64, Ordering};

use super::Passes;

const PASS_BITS: u32 = 34;
const EPOCH_BITS: u32 = 17;
const SEALED: u64 = 1 << (PASS_BITS + EPOCH_BITS);
const LAP_SHIFT: u32 = 52;
const EPOCH_ONE: u64 = 1 << PASS_BITS;
const EPOCH_MASK: u64 = (EPOCH_ONE << EPOCH_BITS) - EPOCH_ONE;
/// The most passes one window can hold.
pub const PASSES_MAX: u64 = EPOCH_ONE - 1;

/// The passes of one window, in one word.
#[derive(Debug, Default)]
pub struct PassCell(AtomicU64);

impl PassCell {
    /// The passes counted in the window of `lap`.
    #[inline]
    pub fn get(&self, lap: Lap) -> u64 {
        let word = self.0.load(Ordering::Acquire);
        if owns(lap, word) {
            word & PASSES_MAX
        } else {
            0
        }
    }

    /// Adds `n` passes, unless the window is sealed or was taken over.
    #[inline]
    pub(super) fn add(&self, lap: Lap, n: u64) -> bool {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if !owns(lap, word) || word & SEALED != 0 {
                return false;
            }
            let room = PASSES_MAX - (word & PASSES_MAX);
            match self.swap(word, word + n.min(room)) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
    }

    /// Adds passes that were counted by then, beside the ring: also to a sealed
    /// window, whose sum they are in already.
    pub(crate) fn pour(&self, lap: Lap, n: u64) {
        let mut word = self.0.load(Ordering::Acquire);
        while n != 0 && owns(lap, word) {
            let room = PASSES_MAX - (word & PASSES_MAX);
            match self.swap(word, word + n.min(room)) {
                Ok(_) => return,
                Err(found) => word = found,
            }
        }
    }

    /// The word of the window of `lap`; `None` if it is sealed or was taken over.
    #[inline]
    pub(super) fn open_word(&self, lap: Lap) -> Option<u64> {
        let word = self.0.load(Ordering::Acquire);
        (owns(lap, word) && word & SEALED == 0).then_some(word)
    }

    /// The same of a lap that is known by its bits.
    #[inline]
    pub(super) fn open_word_of(&self, lap_bits: u64) -> Option<u64> {
        let word = self.0.load(Ordering::Acquire);
        (word >> LAP_SHIFT == lap_bits && word & SEALED == 0).then_some(word)
    }

    /// Whether it still holds just this word.
    #[inline]
    pub(super) fn holds(&self, word: u64) -> bool {
        self.0.load(Ordering::Acquire) == word
    }

    /// The passes counted in it, of whatever lap.
    #[inline]
    pub(super) fn passes_of_any_lap(&self) -> u64 {
        self.0.load(Ordering::Acquire) & PASSES_MAX
    }

    /// Puts the word `to` in place of just `from`.
    #[inline]
    pub(super) fn swap(&self, from: u64, to: u64) -> Result<u64, u64> {
        // AcqRel: a borrower's amounts are visible before its epoch is, and a
        // sealed sum before the sums built on it.
        self.0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Takes `n` out again, if the cell is still of `lap`; says whether it was
    /// sealed.
    pub(super) fn take_back(&self, lap: Lap, n: u64) -> bool {
        let mut word = self.0.load(Ordering::Acquire);
        while owns(lap, word) {
            match self.swap(word, word - n.min(word & PASSES_MAX)) {
                Ok(_) => return word & SEALED != 0,
                Err(found) => word = found,
            }
        }
        false
    }

    /// Closes the window to further passes and returns what it holds; `None`
    /// if it was taken over.
    #[inline]
    pub(super) fn seal(&self, lap: Lap) -> Option<u64> {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if !owns(lap, word) {
                return None;
            }
            if word & SEALED != 0 {
                return Some(word & PASSES_MAX);
            }
            match self.swap(word, word | SEALED) {
                Ok(_) => return Some(word & PASSES_MAX),
                Err(found) => word = found,
            }
        }
    }

    /// Makes it the cell of a new window.
    pub fn renew(&self, renewal: &Renewal<'_>) {
        renew_word(&self.0, renewal.lap.bits() << LAP_SHIFT, renewal);
    }
}

impl Bucket for PassCell {
    type Beside = ();

    fn renew(&self, renewal: &Renewal<'_>) {
        PassCell::renew(self, renewal);
    }
}

impl Passes for PassCell {
    fn passes(&self) -> &PassCell {
        self
    }
}

/// The word of a window in which a loan was confirmed, or a lease is filled.
pub(super) fn next_epoch(word: u64) -> u64 {
    (word & !EPOCH_MASK) | ((word + EPOCH_ONE) & EPOCH_MASK)
}

#[inline]
fn owns(lap: Lap, word: u64) -> bool {
    word >> LAP_SHIFT == lap.bits()
}

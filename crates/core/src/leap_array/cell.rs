//! Cells: one atomic word that holds a count and the lap it belongs to.
//!
//! ```text
//! 63        52 51                                  0
//! |   lap    |  count (or least, or greatest value) |
//! ```
//!
//! A cell is written only through its lap: an addition first looks whether the
//! cell is of its own lap, and gives up if a newer one has taken it over.

use crate::sync::{AtomicU64, Ordering};

use super::Renewal;

const VALUE_BITS: u32 = 52;
/// The largest count a cell holds; additions beyond it are left out, never
/// carried into the lap.
pub const VALUE_MAX: u64 = (1 << VALUE_BITS) - 1;

/// Which lap of the ring a cell belongs to: 1 to 4,095, then 1 again. A cell
/// that was never used is of lap 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lap(u16);

impl Lap {
    const COUNT: u64 = 4095;

    #[inline]
    pub(crate) fn of(lap: u64) -> Self {
        Lap((lap % Self::COUNT) as u16 + 1)
    }

    #[inline]
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.0)
    }

    #[inline]
    fn word(self, value: u64) -> u64 {
        (self.bits() << VALUE_BITS) | value
    }

    #[inline]
    fn owns(self, word: u64) -> bool {
        word >> VALUE_BITS == self.bits()
    }
}

/// Puts `fresh` in place of whatever `cell` holds, unless the window has been
/// stamped already; see the second point of the [algorithm](super).
pub(crate) fn renew_word(cell: &AtomicU64, fresh: u64, renewal: &Renewal<'_>) {
    let mut word = cell.load(Ordering::Acquire);
    while word != fresh && renewal.is_due() {
        match cell.compare_exchange_weak(word, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(found) => word = found,
        }
    }
}

/// A count.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`; false if a newer window has taken the cell over.
    #[inline]
    pub(crate) fn add(&self, lap: Lap, n: u64) -> bool {
        // Acquire: who finds the cell taken over also sees the newer head.
        let word = self.0.load(Ordering::Acquire);
        if !lap.owns(word) {
            return false;
        }
        if (word & VALUE_MAX) + n.min(VALUE_MAX) <= VALUE_MAX >> 1 {
            // If the slot is taken over between the load and this instruction
            // the count lands in the newer window: late, and counted once.
            // Relaxed: a number of its own, read without conclusions about
            // other memory.
            self.0.fetch_add(n, Ordering::Relaxed);
        }
        true
    }

    /// Takes `n` out again, if the cell is still of `lap`.
    pub(crate) fn take_out(&self, lap: Lap, n: u64) {
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                lap.owns(word).then(|| word - n.min(word & VALUE_MAX))
            });
    }

    /// What was counted in the window of `lap`.
    #[inline]
    pub fn get(&self, lap: Lap) -> u64 {
        let word = self.0.load(Ordering::Relaxed);
        if lap.owns(word) { word & VALUE_MAX } else { 0 }
    }

    pub(crate) fn renew(&self, renewal: &Renewal<'_>) {
        renew_word(&self.0, renewal.lap.word(0), renewal);
    }
}

/// The least value seen.
#[derive(Debug, Default)]
pub struct Least(AtomicU64);

impl Least {
    /// Notes `value`; false if a newer window has taken the cell over.
    #[inline]
    pub(crate) fn note(&self, lap: Lap, value: u64) -> bool {
        let value = value.min(VALUE_MAX);
        note(&self.0, lap, value, |found| found <= value)
    }

    /// The least value of the window of `lap`, if there was one.
    pub fn get(&self, lap: Lap) -> Option<u64> {
        let word = self.0.load(Ordering::Relaxed);
        (lap.owns(word) && word & VALUE_MAX != VALUE_MAX).then_some(word & VALUE_MAX)
    }

    pub(crate) fn renew(&self, renewal: &Renewal<'_>) {
        renew_word(&self.0, renewal.lap.word(VALUE_MAX), renewal);
    }
}

/// The greatest value seen.
#[derive(Debug, Default)]
pub struct Greatest(AtomicU64);

impl Greatest {
    /// Notes `value`; false if a newer window has taken the cell over.
    #[inline]
    pub(crate) fn note(&self, lap: Lap, value: u64) -> bool {
        let value = value.min(VALUE_MAX);
        note(&self.0, lap, value, |found| found >= value)
    }

    /// The greatest value of the window of `lap`, 0 if there was none.
    pub fn get(&self, lap: Lap) -> u64 {
        let word = self.0.load(Ordering::Relaxed);
        if lap.owns(word) { word & VALUE_MAX } else { 0 }
    }

    pub(crate) fn renew(&self, renewal: &Renewal<'_>) {
        renew_word(&self.0, renewal.lap.word(0), renewal);
    }
}

#[inline]
fn note(cell: &AtomicU64, lap: Lap, value: u64, settled: impl Fn(u64) -> bool) -> bool {
    let mut word = cell.load(Ordering::Acquire);
    loop {
        if !lap.owns(word) {
            return false;
        }
        if settled(word & VALUE_MAX) {
            return true;
        }
        match cell.compare_exchange_weak(
            word,
            lap.word(value),
            Ordering::Relaxed,
            Ordering::Acquire,
        ) {
            Ok(_) => return true,
            Err(found) => word = found,
        }
    }
}

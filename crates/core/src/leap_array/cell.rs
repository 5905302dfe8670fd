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

use super::{Bucket, Renewal, Window};

const VALUE_BITS: u32 = 52;
/// The largest count a cell holds; a sum stops there and never carries into
/// the lap.
pub const VALUE_MAX: u64 = (1 << VALUE_BITS) - 1;
/// Amounts up to this are added without a loop: 2,048 threads would have to
/// add as much in one instant to go from half of the largest count beyond it.
/// In nanoseconds it is 18 minutes.
const AMOUNT_PLAIN: u64 = 1 << 40;

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

/// Puts `fresh` in place of whatever older `cell` holds; see the second point
/// of the [algorithm](super).
///
/// Every write to a cell is a `Release`, and every load here an `Acquire`: the
/// renewal's questions are asked of what the writer of the loaded word saw.
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
        if n > AMOUNT_PLAIN || word & VALUE_MAX > VALUE_MAX >> 1 {
            return self.add_bounded(lap, n);
        }
        // If the slot is taken over between the load and this instruction the
        // count lands in the newer window: late, and counted once.
        // Release: a slow renewer that loads this count must see the stamp.
        self.0.fetch_add(n, Ordering::Release);
        true
    }

    /// The same for amounts and sums so large that several threads at once
    /// could carry into the lap: stops at the largest count.
    #[cold]
    fn add_bounded(&self, lap: Lap, n: u64) -> bool {
        let more = |word| {
            let room = VALUE_MAX - (word & VALUE_MAX);
            lap.owns(word).then(|| word + n.min(room))
        };
        let added = self
            .0
            .fetch_update(Ordering::Release, Ordering::Acquire, more);
        added.is_ok()
    }

    /// Takes `n` out again, if the cell is still of `lap`.
    pub(crate) fn take_out(&self, lap: Lap, n: u64) {
        let _ = self
            .0
            .fetch_update(Ordering::Release, Ordering::Relaxed, |word| {
                lap.owns(word).then(|| word - n.min(word & VALUE_MAX))
            });
    }

    /// What was counted in the window of `lap`.
    #[inline]
    pub fn get(&self, lap: Lap) -> u64 {
        let word = self.0.load(Ordering::Relaxed);
        if lap.owns(word) { word & VALUE_MAX } else { 0 }
    }

    /// Makes it the cell of a new window.
    pub fn renew(&self, renewal: &Renewal<'_>) {
        renew_word(&self.0, renewal.lap.word(0), renewal);
    }
}

/// The simplest bucket: one count.
impl Bucket for Counter {
    type Beside = ();

    fn renew(&self, renewal: &Renewal<'_>) {
        Counter::renew(self, renewal);
    }
}

impl Window<'_, Counter> {
    /// Counts `n` here, or in the newest window if this one has been taken
    /// over.
    #[inline]
    pub fn add(&mut self, n: u64) {
        self.write(|counter, lap| counter.add(lap, n));
    }

    /// What was counted in this window.
    pub fn get(&self) -> u64 {
        self.bucket().get(self.lap())
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

    /// Makes it the cell of a new window.
    pub fn renew(&self, renewal: &Renewal<'_>) {
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

    /// Makes it the cell of a new window.
    pub fn renew(&self, renewal: &Renewal<'_>) {
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
            Ordering::Release,
            Ordering::Acquire,
        ) {
            Ok(_) => return true,
            Err(found) => word = found,
        }
    }
}

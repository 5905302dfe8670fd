//! Reserving passes: the limit holds to the single call, whoever meets whom.
//!
//! The passes of a window are one word, and a reservation is one
//! compare-and-swap on the word of the present window:
//!
//! ```text
//! 63     52  51      50        34 33                0
//! |  lap  | sealed | borrow epoch |  passes          |
//! ```
//!
//! What it must rely on is that the *other* windows of the interval do not grow
//! meanwhile. So, before a caller adds them up, it **seals** every earlier
//! window of its span (one compare-and-swap each, once per window and ring).
//! Passes go only to the head, and never to a sealed window: a thread that was
//! put to sleep with an older head in hand finds its window sealed, reads the
//! head again and is charged there. Hence: when the sum of the sealed windows
//! plus the present word plus the weight is within the limit, and the present
//! word is swapped from just that value, the sum in force at that moment was
//! the sum that was compared. No more than the limit is ever admitted; and as a
//! refusal changes nothing, no fewer are admitted either.
//!
//! Giving back takes an amount out of the window that it was taken from, sealed
//! or not; if that window has left the ring there is nothing left to give back.
//! A sum read before sees a little too much: it may refuse, never over-admit.
//!
//! Passes borrowed from windows that are yet to come live beside the ring
//! ([`super::borrow`]); the *borrow epoch* in the present word makes a borrower
//! and an ordinary caller see each other.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

use super::cell::{Lap, renew_word};
use super::{Borrowed, Bucket, LeapArray, Renewal};

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

/// A bucket that counts passes.
pub trait Passes: Bucket {
    /// The cell they are counted in.
    fn passes(&self) -> &PassCell;
}

/// A span of the ring, in whole windows of `group` boxes each: the present
/// group of boxes and the `windows − 1` before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    group: u64,
    windows: u64,
}

/// Passes that were taken, and from where: what is needed to give them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Taken {
    number: u64,
    amount: u32,
    /// Passes in the span with these included, at the moment they were taken.
    sum: u64,
}

/// There was no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Passes in the span, those borrowed for it included.
    pub sum: u64,
    /// When the same call would pass if nobody else came; `None`: never.
    pub retry_after: Option<Duration>,
}

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
    fn add(&self, lap: Lap, n: u64) -> bool {
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

    #[inline]
    fn swap(&self, from: u64, to: u64) -> Result<u64, u64> {
        // AcqRel: a borrower's amounts are visible before its epoch is, and a
        // sealed sum before the sums built on it.
        self.0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    fn take_back(&self, lap: Lap, n: u64) {
        let mut word = self.0.load(Ordering::Acquire);
        while owns(lap, word) {
            match self.swap(word, word - n.min(word & PASSES_MAX)) {
                Ok(_) => return,
                Err(found) => word = found,
            }
        }
    }

    /// Closes the window to further passes and returns what it holds; `None`
    /// if it was taken over.
    #[inline]
    fn seal(&self, lap: Lap) -> Option<u64> {
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
    fn renew(&self, renewal: &Renewal<'_>) {
        PassCell::renew(self, renewal);
    }
}

impl Passes for PassCell {
    fn passes(&self) -> &PassCell {
        self
    }
}

#[inline]
fn owns(lap: Lap, word: u64) -> bool {
    word >> LAP_SHIFT == lap.bits()
}

impl Span {
    /// A span of `windows` windows of `group` boxes each, both at least 1.
    pub fn new(group: u64, windows: u64) -> Self {
        Span {
            group: group.max(1),
            windows: windows.max(1),
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

impl Taken {
    /// Passes in the span right after these were taken.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// How many were taken.
    pub fn amount(&self) -> u32 {
        self.amount
    }
}

/// The state a decision was made on: the present window and its word, and the
/// sums around it.
pub(super) struct Seen {
    pub(super) number: u64,
    pub(super) word: u64,
    /// Passes in the span, those borrowed for windows that have begun included.
    pub(super) sum: u64,
}

impl<B: Passes> LeapArray<B> {
    /// Counts `n` passes that nothing limits.
    #[inline]
    pub fn pass(&self, now: Timestamp, n: u32) -> Taken {
        loop {
            let window = self.current(now);
            if window.bucket().passes().add(window.lap(), u64::from(n)) {
                return Taken {
                    number: window.number,
                    amount: n,
                    sum: 0,
                };
            }
        }
    }

    /// Takes `n` passes if the span then holds no more than `limit`, in one
    /// atomic step.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room now; nothing has changed then.
    #[inline]
    pub fn reserve(
        &self,
        now: Timestamp,
        n: u32,
        span: Span,
        limit: u64,
        borrowed: Option<&Borrowed>,
    ) -> Result<Taken, Full> {
        let amount = u64::from(n);
        loop {
            let Some(seen) = self.look(now, span, borrowed) else {
                continue;
            };
            let sum = seen.sum.saturating_add(amount);
            let fits = sum <= limit
                && seen.word & PASSES_MAX <= PASSES_MAX - amount
                && borrowed.is_none_or(|b| self.fits_later(b, span, &seen, amount, limit));
            if !fits {
                return Err(self.full(now, span, borrowed, &seen, amount, limit));
            }
            if self.swap_word(&seen, seen.word + amount) {
                return Ok(Taken {
                    number: seen.number,
                    amount: n,
                    sum,
                });
            }
        }
    }

    /// Passes in the span at `now`, without reserving or sealing anything.
    pub fn passes_in(&self, now: Timestamp, span: Span, borrowed: Option<&Borrowed>) -> u64 {
        let head = self.current(now).number;
        let first = span.first(head, 0);
        let counted: u64 = (first..=head)
            .filter_map(|number| self.existing(number))
            .map(|window| window.bucket().passes().get(window.lap()))
            .sum();
        counted + borrowed.map_or(0, |b| b.begun(span, head))
    }

    /// Whether `n` more passes would fit the span now; takes nothing.
    ///
    /// # Errors
    ///
    /// [`Full`] as [`LeapArray::reserve`] would say.
    pub fn probe(
        &self,
        now: Timestamp,
        n: u32,
        span: Span,
        limit: u64,
        borrowed: Option<&Borrowed>,
    ) -> Result<(), Full> {
        let number = self.current(now).number;
        let sum = self.passes_in(now, span, borrowed);
        if sum.saturating_add(u64::from(n)) <= limit {
            return Ok(());
        }
        let seen = Seen {
            number,
            word: 0,
            sum,
        };
        Err(self.full(now, span, borrowed, &seen, u64::from(n), limit))
    }

    /// Gives back what was taken, if its window is still in the ring.
    pub fn give_back(&self, taken: Taken) {
        if let Some(window) = self.existing(taken.number) {
            window
                .bucket()
                .passes()
                .take_back(window.lap(), u64::from(taken.amount));
        }
    }

    /// The present word and the sum of the span, with all earlier windows of
    /// the span sealed. `None` if the ring has moved on meanwhile.
    #[inline]
    pub(super) fn look(
        &self,
        now: Timestamp,
        span: Span,
        borrowed: Option<&Borrowed>,
    ) -> Option<Seen> {
        let window = self.current(now);
        let number = window.number;
        let word = window.bucket().passes().0.load(Ordering::Acquire);
        if !owns(window.lap(), word) || word & SEALED != 0 {
            return None;
        }
        let mut sum = word & PASSES_MAX;
        for earlier in span.first(number, 0)..number {
            // Untouched windows are stamped and sealed too: a writer that is
            // late for one of them must not find it open.
            if !self.prepare(earlier) {
                return None;
            }
            sum += self.slot(earlier).bucket.passes().seal(self.lap(earlier))?;
        }
        if let Some(borrowed) = borrowed {
            sum += borrowed.begun(span, number);
        }
        Some(Seen { number, word, sum })
    }

    #[inline]
    fn swap_word(&self, seen: &Seen, to: u64) -> bool {
        self.slot(seen.number)
            .bucket
            .passes()
            .swap(seen.word, to)
            .is_ok()
    }

    /// Makes a borrower's amounts count: fails if anything was taken or
    /// borrowed since `seen`.
    pub(super) fn confirm_borrow(&self, seen: &Seen) -> bool {
        let epoch = (seen.word + EPOCH_ONE) & EPOCH_MASK;
        self.swap_word(seen, (seen.word & !EPOCH_MASK) | epoch)
    }

    /// Passes that will still be in the span when the window `ahead` of the
    /// present one begins.
    pub(super) fn left_in(&self, span: Span, number: u64, ahead: u64) -> u64 {
        (span.first(number, ahead)..=number)
            .filter_map(|earlier| self.existing(earlier))
            .map(|window| window.bucket().passes().get(window.lap()))
            .sum()
    }

    /// Whether `amount` more passes now leave every window that was borrowed
    /// from within `limit`.
    #[inline]
    fn fits_later(&self, b: &Borrowed, span: Span, seen: &Seen, amount: u64, limit: u64) -> bool {
        if !b.is_ahead_of(span.window(seen.number)) {
            return true;
        }
        (1..span.windows()).all(|ahead| {
            let left = self.left_in(span, seen.number, ahead);
            left + b.due_by(span, seen.number, ahead) + amount <= limit
        })
    }

    /// How long until the same call would pass if nobody else came.
    #[cold]
    fn full(
        &self,
        now: Timestamp,
        span: Span,
        borrowed: Option<&Borrowed>,
        seen: &Seen,
        amount: u64,
        limit: u64,
    ) -> Full {
        let held = |ahead: u64| {
            let due = borrowed.map_or(0, |b| b.due_by(span, seen.number, ahead));
            self.left_in(span, seen.number, ahead) + due
        };
        let fits =
            |ahead: u64| (ahead..ahead + span.windows()).all(|by| held(by) + amount <= limit);
        let ahead = (amount <= limit)
            .then(|| (1..=2 * span.windows()).find(|&a| fits(a)))
            .flatten();
        let retry_after = ahead.map(|ahead| {
            let window_ns = span.group() * self.width_ns;
            let at = (span.window(seen.number) + ahead).saturating_mul(window_ns);
            Timestamp::from_nanos(at).since(now)
        });
        Full {
            sum: seen.sum,
            retry_after,
        }
    }
}

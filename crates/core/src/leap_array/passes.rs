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
//! (`super::borrow`); the *borrow epoch* in the present word makes a borrower
//! and an ordinary caller see each other. It comes round again after 131,072
//! loans: a caller that sleeps between its look and its swap for just so many,
//! with as many passes as before, would not notice them.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

use super::cell::{Lap, renew_word};
use super::{Borrowed, Bucket, LeapArray, Loan, Renewal, SAMPLE_COUNT_MAX, Window};

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
/// group of boxes and the `windows − 1` before it. A span longer than the ring
/// it is used with means the whole ring.
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
    /// Which of a node's rings; 0 is the one of the node itself.
    ring: u16,
    /// Passes in the span with these included, at the moment they were taken.
    sum: u64,
}

/// There was no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Passes in the span, those borrowed for it included; where a window that
    /// was borrowed from has no room, the passes of that window's span.
    pub sum: u64,
    /// When the same call would pass if nobody else came; `None`: never.
    pub retry_after: Option<Duration>,
}

impl Full {
    /// Whether `weight` more passes would exceed `limit`.
    pub fn exceeds(&self, weight: u32, limit: u64) -> bool {
        self.sum.saturating_add(u64::from(weight)) > limit
    }
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

impl Taken {
    /// Passes in the span right after these were taken.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Number of the window they were taken from.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How many were taken.
    pub fn amount(&self) -> u32 {
        self.amount
    }

    /// The same, known as taken of that ring of a node.
    #[inline]
    pub(crate) fn of_ring(mut self, ring: u16) -> Self {
        self.ring = ring;
        self
    }

    /// Which of a node's rings they were taken of.
    #[inline]
    pub(crate) fn ring(&self) -> u16 {
        self.ring
    }

    /// What is needed to give them back, for a ticket; the second fills the
    /// lower 48 bits.
    pub fn to_words(self) -> [u64; 2] {
        let ring = u64::from(self.ring) << u32::BITS;
        [self.number, u64::from(self.amount) | ring]
    }

    /// The passes of a ticket. The sum at the time is not kept in it.
    pub fn from_words([number, packed]: [u64; 2]) -> Self {
        // The casts cut out what `to_words` has put there.
        Taken {
            number,
            amount: packed as u32,
            ring: (packed >> u32::BITS) as u16,
            sum: 0,
        }
    }
}

/// The state a decision was made on: the present window and its word, and the
/// sums around it.
pub(super) struct Seen<'a> {
    /// The cell of the present window.
    cell: &'a PassCell,
    pub(super) number: u64,
    pub(super) word: u64,
    /// Passes in the span, those borrowed for windows that have begun included.
    pub(super) sum: u64,
    /// What the asking call has borrowed itself, and asks for once only.
    own: Option<Loan>,
}

impl<B: Passes> Window<'_, B> {
    /// Counts `n` passes in this window; `None` if it takes no more, because a
    /// newer one has begun.
    #[inline]
    pub(crate) fn pass(&mut self, n: u32) -> Option<Taken> {
        let open = self.bucket().passes().add(self.lap(), u64::from(n));
        open.then_some(Taken {
            number: self.number,
            amount: n,
            ring: 0,
            sum: 0,
        })
    }
}

impl<B: Passes> LeapArray<B> {
    /// Counts `n` passes that nothing limits.
    #[inline]
    pub fn pass(&self, now: Timestamp, n: u32) -> Taken {
        loop {
            let mut window = self.current(now);
            if let Some(taken) = window.pass(n) {
                return taken;
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
            self.room(now, span, borrowed, &seen, amount, limit)?;
            if self.swap_word(&seen, seen.word + amount) {
                return Ok(Taken {
                    number: seen.number,
                    amount: n,
                    ring: 0,
                    sum: seen.sum + amount,
                });
            }
        }
    }

    /// Passes in the span at `now`, without reserving or sealing anything.
    pub fn passes_in(&self, now: Timestamp, span: Span, borrowed: Option<&Borrowed>) -> u64 {
        let head = self.current(now).number;
        let begun = borrowed.map_or(0, |b| {
            b.settle(span.window(head));
            b.begun(span, head)
        });
        self.left_in(span, head, 0) + begun
    }

    /// Whether `n` more passes would fit the span now, for a call that has
    /// borrowed `own` by now; takes nothing.
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
        own: Option<Loan>,
    ) -> Result<(), Full> {
        let amount = u64::from(n);
        let present = self.current(now);
        let seen = Seen {
            cell: present.bucket().passes(),
            number: present.number,
            word: 0,
            sum: self.passes_in(now, span, borrowed),
            own,
        };
        self.room(now, span, borrowed, &seen, amount, limit)
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
    ) -> Option<Seen<'_>> {
        let window = self.current(now);
        let number = window.number;
        let cell = window.bucket().passes();
        let word = cell.0.load(Ordering::Acquire);
        if !owns(window.lap(), word) || word & SEALED != 0 {
            return None;
        }
        let mut sum = word & PASSES_MAX;
        for earlier in span.first(number, 0).max(self.oldest(number))..number {
            // Untouched windows are stamped and sealed too: a writer that is
            // late for one of them must not find it open.
            let earlier = self.window(earlier);
            if !self.prepare(&earlier) {
                return None;
            }
            sum += earlier.bucket().passes().seal(earlier.lap())?;
        }
        if let Some(borrowed) = borrowed {
            let present = span.window(number);
            borrowed.settle(present);
            sum += borrowed.begun(span, number);
            // Asked last: a loan that was moved from the firm ones to the early
            // ones before it could be summed is seen here.
            if borrowed.is_unsettled(present) {
                return None;
            }
        }
        Some(Seen {
            cell,
            number,
            word,
            sum,
            own: None,
        })
    }

    #[inline]
    fn swap_word(&self, seen: &Seen<'_>, to: u64) -> bool {
        seen.cell.swap(seen.word, to).is_ok()
    }

    /// Makes a borrower's amounts count: fails if anything was taken or
    /// borrowed since `seen`.
    pub(super) fn confirm_borrow(&self, seen: &Seen<'_>) -> bool {
        let epoch = (seen.word + EPOCH_ONE) & EPOCH_MASK;
        self.swap_word(seen, (seen.word & !EPOCH_MASK) | epoch)
    }

    /// Passes that will still be in the span when the window `ahead` of the
    /// present one begins.
    pub(super) fn left_in(&self, span: Span, number: u64, ahead: u64) -> u64 {
        self.passes_of(span.first(number, ahead), number)
    }

    /// Passes in the boxes `first..=last`, as far as the ring has them.
    fn passes_of(&self, first: u64, last: u64) -> u64 {
        (first.max(self.oldest(last))..=last)
            .filter_map(|number| self.existing(number))
            .map(|window| window.bucket().passes().get(window.lap()))
            .sum()
    }

    /// Whether there is room for `amount` more passes.
    #[inline]
    fn room(
        &self,
        now: Timestamp,
        span: Span,
        borrowed: Option<&Borrowed>,
        seen: &Seen<'_>,
        amount: u64,
        limit: u64,
    ) -> Result<(), Full> {
        match self.no_room(span, borrowed, seen, amount, limit) {
            None => Ok(()),
            Some(sum) => {
                let retry_after = self.retry_after(now, span, borrowed, seen, amount, limit);
                Err(Full { sum, retry_after })
            }
        }
    }

    /// The sum that leaves no room for `amount` more passes now: that of the
    /// present span, or of a span to come whose window was borrowed from.
    #[inline]
    fn no_room(
        &self,
        span: Span,
        borrowed: Option<&Borrowed>,
        seen: &Seen<'_>,
        amount: u64,
        limit: u64,
    ) -> Option<u64> {
        let word_full = seen.word & PASSES_MAX > PASSES_MAX - amount;
        if word_full || seen.sum.saturating_add(amount) > limit {
            return Some(seen.sum);
        }
        let b = borrowed?;
        // Windows after the last one borrowed from hold less than it.
        let present = span.window(seen.number);
        let last = b.windows_ahead_of(present);
        (1..=last.min(span.windows() - 1))
            .map(|ahead| {
                let own = seen.own.filter(|own| own.window() <= present + ahead);
                let due = b.due_by(span, seen.number, ahead);
                let due = due.saturating_sub(own.map_or(0, |own| own.amount()));
                self.left_in(span, seen.number, ahead) + due
            })
            .find(|sum| sum + amount > limit)
    }

    /// The time until the same call would pass if nobody else came; `None`:
    /// never.
    #[cold]
    fn retry_after(
        &self,
        now: Timestamp,
        span: Span,
        borrowed: Option<&Borrowed>,
        seen: &Seen<'_>,
        amount: u64,
        limit: u64,
    ) -> Option<Duration> {
        let most = limit.checked_sub(amount)?;
        let ahead = self.room_ahead(span, borrowed, seen, most);
        Some(self.until(now, span, span.window(seen.number) + ahead))
    }

    /// The first window ahead of the present one from which on no span holds
    /// more than `most`, if nobody else comes.
    ///
    /// One pass over the windows, from the farthest span that can hold anything
    /// back to the present one. The answer is one after the first that holds
    /// too much: what a span far ahead holds was borrowed, and the spans before
    /// it down to `windows` ahead hold that too.
    fn room_ahead(
        &self,
        span: Span,
        borrowed: Option<&Borrowed>,
        seen: &Seen<'_>,
        most: u64,
    ) -> u64 {
        let number = seen.number;
        let present = span.window(number);
        let own_in = |window| match seen.own {
            Some(own) if own.window() == window => own.amount(),
            _ => 0,
        };
        let loaned = |window| match borrowed {
            Some(b) if window > present => b.amount_to_come(window).saturating_sub(own_in(window)),
            Some(b) => b.amount(window),
            None => 0,
        };
        let loans_ahead = borrowed.is_some_and(|b| b.windows_ahead_of(present) > 0);
        let spans = if loans_ahead { 2 } else { 1 } * span.windows();
        let mut held = 0_u64;
        for ahead in (0..spans).rev() {
            // Seen from the span after this one, its newest window leaves and
            // one that is older than all enters.
            held = held.saturating_sub(loaned(present + ahead + 1));
            if let Some(oldest) = (present + ahead + 1).checked_sub(span.windows()) {
                let first = oldest * span.group();
                let last = (first + span.group() - 1).min(number);
                held += loaned(oldest) + self.passes_of(first, last);
            }
            if held > most {
                return ahead + 1;
            }
        }
        1
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_keeps_the_window_the_amount_and_the_ring() {
        for (number, amount, ring) in [(0, 1, 0), (u64::MAX, u32::MAX, u16::MAX), (5, 7, 9)] {
            let array: LeapArray<PassCell> = LeapArray::with_width(1, 1);
            let taken = array.pass(Timestamp::from_nanos(number), amount);
            let taken = taken.of_ring(ring);
            assert_eq!(
                taken.number(),
                array.number_at(Timestamp::from_nanos(number))
            );
            assert_eq!((taken.amount(), taken.ring()), (amount, ring));
            let words = taken.to_words();
            assert!(words[1] < 1 << 48, "the upper bits are the ticket's own");
            assert_eq!(Taken::from_words(words), taken);
        }
    }

    #[test]
    fn the_borrow_epoch_comes_round_after_131_072_loans_and_touches_nothing_else() {
        let (now, span) = (Timestamp::EPOCH, Span::new(1, 1));
        let ring: LeapArray<PassCell> = LeapArray::with_width(1, 1);
        let _ = ring.pass(now, 7);
        let look = || ring.look(now, span, None).expect("the window is open");
        let first = look();
        let mut seen = vec![first.word];
        loop {
            assert!(ring.confirm_borrow(&look()));
            assert_eq!(look().sum, 7);
            match look().word {
                word if word == first.word => break,
                word => seen.push(word),
            }
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 131_072);
    }
}

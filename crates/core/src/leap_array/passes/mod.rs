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
//! loans and filled leases: a caller that sleeps between its look and its swap for just so many,
//! with as many passes as before, would not notice them.
//!
//! Where threads meet they reserve in advance, each in a lease of its own
//! (`leased`): what is left in leases is in the words of their windows.
//!
//! A ring of many windows that is asked for one span only keeps the sum of the
//! sealed ones ([`Earlier`]), so that not every call adds them up.

mod cell;
mod earlier;
mod leased;
mod room;
mod span;
mod taken;

use std::time::Duration;

use crate::sync::Ordering;
use crate::time::Timestamp;

use super::{Beside, Borrowed, Bucket, LeapArray, Loan, Window, at_rest};

pub use cell::{PASSES_MAX, PassCell};
pub use earlier::Earlier;
pub use span::Span;
pub(crate) use taken::BESIDE;
pub use taken::Taken;

/// A bucket that counts passes.
pub trait Passes: Bucket {
    /// The cell they are counted in.
    fn passes(&self) -> &PassCell;

    /// Where the sum of the windows before this one is kept, in a ring that is
    /// asked for one span only.
    #[inline]
    fn earlier(&self) -> Option<&Earlier> {
        None
    }
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

impl Seen<'_> {
    /// Whether the word is still the one that was seen.
    fn is_so(&self) -> bool {
        self.cell.holds(self.word)
    }
}

impl<B: Passes> Window<'_, B> {
    /// Counts `n` passes in this window; `None` if it takes no more, because a
    /// newer one has begun.
    #[inline]
    pub(crate) fn pass(&mut self, n: u32) -> Option<Taken> {
        let open = self.bucket().passes().add(self.lap(), u64::from(n));
        open.then(|| Taken::new(self.number, n, 0))
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
            // Loans are remembered for few windows. Who has slept until some were
            // forgotten, before or after it added up, finds a newer head, though
            // its own window may be open yet.
            if borrowed.is_some_and(|b| b.may_count(span, seen.number))
                && !self.is_newest(seen.number)
            {
                continue;
            }
            if self.swap_word(&seen, seen.word + amount) {
                return Ok(Taken::new(seen.number, n, seen.sum + amount));
            }
        }
    }

    /// Passes in the span at `now`, without reserving or sealing anything.
    pub fn passes_in(&self, now: Timestamp, span: Span, borrowed: Option<&Borrowed>) -> u64 {
        let present = self.current(now);
        let head = present.number;
        let begun = borrowed.map_or(0, |b| {
            b.settle(span.window(head));
            b.begun(span, head)
        });
        let place = present.bucket().earlier();
        let passes = match place.and_then(|place| place.load().sum(present.lap())) {
            Some(before) => before + present.bucket().passes().get(present.lap()),
            None => self.passes_of(span.first(head, 0), head),
        };
        passes + begun
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
        let seen = Seen {
            own,
            ..self.glance(now, span, borrowed)
        };
        self.room(now, span, borrowed, &seen, u64::from(n), limit)
    }

    /// What is there now, for those who take nothing: nothing is sealed, and the
    /// word is not one to be swapped.
    pub(super) fn glance(
        &self,
        now: Timestamp,
        span: Span,
        borrowed: Option<&Borrowed>,
    ) -> Seen<'_> {
        let present = self.current(now);
        let cell = present.bucket().passes();
        Seen {
            cell,
            number: present.number,
            word: cell.get(present.lap()),
            sum: self.passes_in(now, span, borrowed),
            own: None,
        }
    }

    /// Gives back what was taken, if its window is still in the ring.
    pub fn give_back(&self, taken: Taken) {
        let Some(window) = self.existing(taken.number()) else {
            return;
        };
        let amount = u64::from(taken.amount());
        let sealed = window.bucket().passes().take_back(window.lap(), amount);
        if sealed && window.bucket().earlier().is_some() {
            self.forget_sum();
        }
    }

    /// Something was taken out of a sealed window: see [`earlier`].
    #[cold]
    fn forget_sum(&self) {
        // A read-modify-write, though it changes nothing: who opens a newer
        // window does that later, and sees what was taken out.
        let head = self.window(self.head.fetch_max(0, Ordering::AcqRel));
        if self.prepare(&head)
            && let Some(place) = head.bucket().earlier()
        {
            place.forget(head.lap());
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
        // First, as what is poured meanwhile is then in the ring: see `beside`.
        let beside = self.beside().passes(span.first(number, 0), number);
        let word = cell.open_word(window.lap())?;
        let mut sum = beside + (word & PASSES_MAX) + self.sum_before(&window, span)?;
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

    /// Passes of the windows before `present`, as far as they are in its span:
    /// kept by whoever was here before, or added up. `None` if the ring has moved
    /// on meanwhile.
    #[inline]
    fn sum_before(&self, present: &Window<'_, B>, span: Span) -> Option<u64> {
        let Some(place) = present.bucket().earlier() else {
            return self.seal_before(present.number, span);
        };
        let kept = place.load();
        if let Some(sum) = kept.sum(present.lap()) {
            return Some(sum);
        }
        let sum = self.seal_before(present.number, span)?;
        place.keep(present.lap(), kept, sum);
        Some(sum)
    }

    /// Seals the windows before `number`, as far as they are in its span, and
    /// adds them up. `None` if the ring has moved on meanwhile.
    #[inline]
    fn seal_before(&self, number: u64, span: Span) -> Option<u64> {
        let mut sum = 0;
        for earlier in span.first(number, 0).max(self.oldest(number))..number {
            // Untouched windows are stamped and sealed too: a writer that is
            // late for one of them must not find it open.
            let earlier = self.window(earlier);
            if !self.prepare(&earlier) {
                return None;
            }
            sum += earlier.bucket().passes().seal(earlier.lap())?;
        }
        Some(sum)
    }

    #[inline]
    fn swap_word(&self, seen: &Seen<'_>, to: u64) -> bool {
        seen.cell.swap(seen.word, to).is_ok()
    }

    /// Makes a borrower's amounts count: fails if anything was taken or
    /// borrowed since `seen`.
    pub(super) fn confirm_borrow(&self, seen: &Seen<'_>) -> bool {
        self.swap_word(seen, cell::next_epoch(seen.word))
    }

    /// Passes that will still be in the span when the window `ahead` of the
    /// present one begins.
    ///
    /// Those of the present box are the ones in the word that was seen, as it is
    /// that word that is swapped. Read anew they may be fewer, after a giving
    /// back, and as many again when the word is swapped. Boxes before it only
    /// shrink. What is beside the ring of the present box is poured into that
    /// word, if it is before the swap.
    pub(super) fn left_in(&self, span: Span, seen: &Seen<'_>, ahead: u64) -> u64 {
        let (first, present) = (span.first(seen.number, ahead), seen.number);
        if first > present {
            return 0;
        }
        let earlier = present.checked_sub(1);
        let beside = self.beside().passes(first, present);
        let earlier = earlier.map_or(0, |last| self.passes_in_ring(first, last));
        beside + earlier + (seen.word & PASSES_MAX)
    }

    /// Passes in the boxes `first..=last`, as far as the ring has them, and
    /// those beside it.
    fn passes_of(&self, first: u64, last: u64) -> u64 {
        if !self.beside().may_hold(first) {
            return self.passes_in_ring(first, last);
        }
        at_rest(self.beside(), || {
            self.beside().passes(first, last) + self.passes_in_ring(first, last)
        })
    }

    fn passes_in_ring(&self, first: u64, last: u64) -> u64 {
        (first.max(self.oldest(last))..=last)
            .filter_map(|number| self.existing(number))
            .map(|window| window.bucket().passes().get(window.lap()))
            .sum()
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

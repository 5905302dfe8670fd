//! Passes borrowed from windows that are yet to come (prioritized calls).
//!
//! A borrowed pass is an amount in a window of the future. When that window
//! begins the amount counts as passes of it, without anybody moving it: sums
//! add passes and borrowed amounts of every window that has begun.
//!
//! # How a borrower and an ordinary caller see each other
//!
//! They write different words, so each could miss the other. Therefore a
//! borrower
//!
//! 1. looks at the present state,
//! 2. adds its amount to the future window,
//! 3. looks whether its present window is still the head, by a
//!    read-modify-write of the head, and
//! 4. *confirms* by raising the epoch in the present window's word from just
//!    the value it has looked at.
//!
//! If anybody passed, or another borrower confirmed, since (1), step (4) fails;
//! if a newer window was opened, (3) does. The amount is then taken out again
//! and the borrower starts anew. An ordinary caller of the same window that
//! read the amounts before step (2) fails its own compare-and-swap after step
//! (4). One of a newer window, which need not have sealed the borrower's, comes
//! to the head either before step (3), which then fails, or after it, and then
//! sees the amount. Between (2) and a failed (3) or (4) others see an amount
//! too much: they may refuse a call that would just have fitted, they never
//! admit one that does not.
//!
//! # How long amounts are remembered
//!
//! For the windows of two spans. An ordinary caller that has slept may find an
//! amount of its span gone, because a later window has taken its word; whoever
//! wrote that had come to a newer head. So the caller looks at the head once
//! more, when it has added up and before it swaps, if any window of its span or
//! after it was ever borrowed from.
//!
//! # Who does not wait
//!
//! A borrower is to wait until its window begins. One that goes ahead earlier
//! has its amount booked as the reference does it: it counts as borrowed until
//! the window begins, and then only if somebody comes while that window is the
//! present one. Nobody who waits is counted in this way; it is for replays in
//! which waits take no time.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

use super::passes::{Seen, Span};
use super::{LeapArray, Passes};

/// Amounts borrowed from windows to come; one ring beside a [`LeapArray`].
///
/// ```text
/// 63            32 31             0
/// |  lap           |  amount       |      one word per window
/// ```
#[derive(Debug)]
pub struct Borrowed {
    /// Of those who wait, or have waited.
    firm: Amounts,
    /// Of those who have gone ahead before their window began.
    early: Amounts,
}

#[derive(Debug)]
struct Amounts {
    /// The latest window ever borrowed from, plus one: where it is not ahead,
    /// nobody looks at the amounts at all.
    horizon: AtomicU64,
    words: Box<[AtomicU64]>,
}

/// A prioritized call could not borrow either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BorrowRefused;

impl Borrowed {
    /// For spans of up to `windows` windows; not for longer ones.
    pub fn new(windows: u64) -> Self {
        Borrowed {
            firm: Amounts::new(windows),
            early: Amounts::new(windows),
        }
    }

    /// How far after `window` the latest one lies that was ever borrowed from.
    #[inline]
    pub(super) fn windows_ahead_of(&self, window: u64) -> u64 {
        self.firm.horizon().saturating_sub(window + 1)
    }

    /// Whether a window was ever borrowed from that is in the span of `number`,
    /// or later.
    #[inline]
    pub(super) fn may_count(&self, span: Span, number: u64) -> bool {
        self.may_count_from((span.window(number) + 1).saturating_sub(span.windows()))
    }

    /// Whether window `first` or a later one was ever borrowed from.
    #[inline]
    pub(super) fn may_count_from(&self, first: u64) -> bool {
        self.firm.horizon() > first
    }

    /// Amounts borrowed from windows of the span of `number` that have begun.
    #[inline]
    pub(crate) fn begun(&self, span: Span, number: u64) -> u64 {
        self.begun_by(span, number, 0)
    }

    /// Of those, the amounts that are still in the span when the window `ahead`
    /// of the present one begins.
    #[inline]
    pub(super) fn begun_by(&self, span: Span, number: u64, ahead: u64) -> u64 {
        let present = span.window(number);
        let first = (present + ahead + 1).saturating_sub(span.windows());
        if self.firm.horizon() <= first {
            return 0;
        }
        (first..=present).map(|window| self.amount(window)).sum()
    }

    /// Amounts that count when the window `ahead` of the present one begins,
    /// those of begun windows still in its span included. It begins before the
    /// present one leaves the span, so its span holds all windows in between.
    pub(super) fn due_by(&self, span: Span, number: u64, ahead: u64) -> u64 {
        debug_assert!(ahead < span.windows(), "the present window has left");
        let present = span.window(number);
        let to_come = (present + 1..=present + ahead).map(|window| self.amount_to_come(window));
        self.begun_by(span, number, ahead) + to_come.sum::<u64>()
    }

    /// All amounts borrowed from windows after the present one.
    pub fn waiting(&self, span: Span, number: u64) -> u64 {
        let present = span.window(number);
        if self.windows_ahead_of(present) == 0 {
            return 0;
        }
        let windows = present + 1..=present + span.windows();
        windows.map(|window| self.amount_to_come(window)).sum()
    }

    /// The amount borrowed from `window`, once that has begun.
    pub fn amount(&self, window: u64) -> u64 {
        self.firm.get(window)
    }

    /// The amount borrowed from `window`, while that is to come.
    pub(super) fn amount_to_come(&self, window: u64) -> u64 {
        self.firm.get(window) + self.early.get(window)
    }

    /// Whether anybody has ever gone ahead early.
    #[inline]
    pub(crate) fn has_early(&self) -> bool {
        self.early.horizon() != 0
    }

    /// Somebody has come while `window` is the present one: what was borrowed
    /// from it counts, whoever has not waited.
    #[inline]
    pub fn settle(&self, window: u64) {
        while self.is_unsettled(window) {
            // Added before it is taken out: whoever finds nothing left to
            // settle finds it counted. Of two who meet here one is late, and
            // takes out again what it added.
            let amount = self.early.get(window);
            let is_added = self.firm.add(window, amount);
            if self.early.swap(window, amount, 0) || !is_added {
                return;
            }
            self.firm.take_out(window, amount);
        }
    }

    /// Whether amounts of `window`, the present one, have not been settled.
    #[inline]
    pub(super) fn is_unsettled(&self, window: u64) -> bool {
        self.early.horizon() > window && self.early.get(window) > 0
    }

    /// The borrower has gone ahead before its window began.
    pub fn go_early(&self, loan: Loan) {
        // Added before it is taken out: meanwhile it counts twice, and whoever
        // misses it among the firm ones finds it here.
        self.early.add(loan.window, u64::from(loan.amount));
        self.firm.take_out(loan.window, u64::from(loan.amount));
    }
}

impl Amounts {
    fn new(windows: u64) -> Self {
        // The present window, those before it in the span, and as many ahead.
        let slots = windows.max(1) * 2 + 1;
        Amounts {
            horizon: AtomicU64::new(0),
            words: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    #[inline]
    fn horizon(&self) -> u64 {
        self.horizon.load(Ordering::Acquire)
    }

    fn get(&self, window: u64) -> u64 {
        let word = self.slot(window).load(Ordering::Acquire);
        if word >> 32 == self.lap(window) {
            word & AMOUNT_MAX
        } else {
            0
        }
    }

    fn slot(&self, window: u64) -> &AtomicU64 {
        &self.words[(window % self.words.len() as u64) as usize]
    }

    /// 1 and up, so that a slot never used is of no window.
    fn lap(&self, window: u64) -> u64 {
        (window / self.words.len() as u64) % AMOUNT_MAX + 1
    }

    /// Adds `n` to the amount of `window`; false if its word may hold a newer
    /// window by now.
    fn add(&self, window: u64, n: u64) -> bool {
        // Before the amount: who may see it must know to look.
        self.horizon
            .fetch_max(window.saturating_add(1), Ordering::AcqRel);
        let lap = self.lap(window);
        self.slot(window)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                if word >> 32 == lap {
                    let amount = (word & AMOUNT_MAX) + n;
                    return Some((lap << 32) | amount.min(AMOUNT_MAX));
                }
                // Asked after the word was loaded: whoever wrote a newer window
                // into it has raised the horizon before.
                let overwritten = self.horizon() > window.saturating_add(self.words.len() as u64);
                (!overwritten).then_some((lap << 32) | n.min(AMOUNT_MAX))
            })
            .is_ok()
    }

    fn take_out(&self, window: u64, n: u64) {
        let lap = self.lap(window);
        let _ = self
            .slot(window)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                (word >> 32 == lap).then(|| word - n.min(word & AMOUNT_MAX))
            });
    }

    /// Puts the amount `to` in place of just `from`.
    fn swap(&self, window: u64, from: u64, to: u64) -> bool {
        let lap = self.lap(window) << 32;
        self.slot(window)
            .compare_exchange(lap | from, lap | to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

const AMOUNT_MAX: u64 = u32::MAX as u64;

/// Passes borrowed from one window to come: what is needed to give them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Loan {
    window: u64,
    amount: u32,
    /// The box in which it was counted as borrowed when it was admitted.
    counted_in: Option<u64>,
}

impl Loan {
    /// Number of the window borrowed from.
    pub fn window(&self) -> u64 {
        self.window
    }

    pub(super) fn amount(&self) -> u64 {
        u64::from(self.amount)
    }

    pub(crate) fn counted_in(mut self, number: u64) -> Self {
        self.counted_in = Some(number);
        self
    }

    pub(crate) fn count(&self) -> Option<(u64, u32)> {
        self.counted_in.map(|number| (number, self.amount))
    }
}

impl<B: Passes> LeapArray<B> {
    /// Borrows `n` passes from the first window to come that has room and
    /// begins in less than `wait_max`; returns them and the time until then.
    ///
    /// # Errors
    ///
    /// [`BorrowRefused`] if there is no such window; nothing has changed then.
    pub fn borrow(
        &self,
        now: Timestamp,
        n: u32,
        span: Span,
        limit: u64,
        wait_max: Duration,
        borrowed: &Borrowed,
    ) -> Result<(Loan, Duration), BorrowRefused> {
        debug_assert!(
            borrowed.firm.words.len() as u64 > 2 * span.windows(),
            "made for a shorter span"
        );
        let amount = u64::from(n);
        loop {
            let Some(seen) = self.look(now, span, Some(borrowed)) else {
                continue;
            };
            let found = self.lender(now, amount, span, &seen, limit, wait_max, borrowed);
            let Some((window, wait)) = found else {
                return Err(BorrowRefused);
            };
            if !borrowed.firm.add(window, amount) {
                if self.is_head(seen.number) {
                    return Err(BorrowRefused);
                }
                continue;
            }
            if self.is_head(seen.number) && self.confirm_borrow(&seen) {
                let loan = Loan {
                    window,
                    amount: n,
                    counted_in: None,
                };
                return Ok((loan, wait));
            }
            borrowed.firm.take_out(window, amount);
        }
    }

    /// Whether a window after the present one was ever borrowed from.
    #[inline]
    pub(crate) fn lends_ahead(&self, now: Timestamp, span: Span, borrowed: &Borrowed) -> bool {
        borrowed.windows_ahead_of(span.window(self.current(now).number)) > 0
    }

    /// Whether [`LeapArray::borrow`] would find a window; takes nothing.
    pub fn may_borrow(
        &self,
        now: Timestamp,
        n: u32,
        span: Span,
        limit: u64,
        wait_max: Duration,
        borrowed: &Borrowed,
    ) -> bool {
        let seen = self.glance(now, span, Some(borrowed));
        let lender = self.lender(now, u64::from(n), span, &seen, limit, wait_max, borrowed);
        lender.is_some()
    }

    /// The first window to come that has room for `amount`, seen from the
    /// present one, and the time until it begins.
    #[expect(clippy::too_many_arguments, reason = "all of them decide")]
    fn lender(
        &self,
        now: Timestamp,
        amount: u64,
        span: Span,
        seen: &Seen<'_>,
        limit: u64,
        wait_max: Duration,
        borrowed: &Borrowed,
    ) -> Option<(u64, Duration)> {
        let number = seen.number;
        let present = span.window(number);
        // As the reference has it: everything borrowed counts against each
        // window to come. That leaves later windows within the limit too,
        // as their share of passes only shrinks.
        let waiting = borrowed.waiting(span, number);
        (1..=span.windows()).find_map(|ahead| {
            let wait = self.until(now, span, present + ahead);
            if wait >= wait_max || waiting >= limit || waiting + amount > AMOUNT_MAX {
                return None;
            }
            let left = self.left_in(span, seen, ahead) + borrowed.begun_by(span, number, ahead);
            (left + waiting + amount <= limit).then_some((present + ahead, wait))
        })
    }

    /// Whether window `number` is still the newest. A read-modify-write, though
    /// it changes nothing: of it and the one that opens a newer window, one
    /// comes first, and the other sees all that was done before.
    fn is_head(&self, number: u64) -> bool {
        self.head.fetch_max(number, Ordering::AcqRel) == number
    }

    /// Whether window `number` is the newest that this thread can know of: an
    /// amount of a later window that it has seen was added after that was opened.
    #[inline]
    pub(super) fn is_newest(&self, number: u64) -> bool {
        self.head.load(Ordering::Acquire) == number
    }

    /// Books `n` passes in the window to come `window`, unchecked: on nodes that
    /// follow another node's borrowing.
    pub fn book(&self, borrowed: &Borrowed, window: u64, n: u32) -> Loan {
        borrowed.firm.add(window, u64::from(n));
        Loan {
            window,
            amount: n,
            counted_in: None,
        }
    }

    /// Gives a loan back.
    pub fn repay(&self, borrowed: &Borrowed, loan: Loan) {
        borrowed.firm.take_out(loan.window, u64::from(loan.amount));
    }

    /// The time from `now`, as the ring charges it, until window `window` of
    /// the span begins.
    pub fn until(&self, now: Timestamp, span: Span, window: u64) -> Duration {
        let start = window
            .saturating_mul(span.group())
            .saturating_mul(self.width_ns);
        Timestamp::from_nanos(start).since(self.charged(now))
    }
}

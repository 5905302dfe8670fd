//! Whether there is room, and if not, when there will be.

use std::time::Duration;

use crate::leap_array::{Borrowed, LeapArray};
use crate::time::Timestamp;

use super::cell::PASSES_MAX;
use super::{Full, Passes, Seen, Span};

impl<B: Passes> LeapArray<B> {
    /// Whether there is room for `amount` more passes.
    #[inline]
    pub(super) fn room(
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
                self.left_in(span, seen, ahead) + due
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

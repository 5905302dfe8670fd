//! Reserving where each thread may have passes of its own in advance: see
//! [`lease`](crate::leap_array::lease) for what that is, and why no token is used
//! twice or overlooked.
//!
//! A thread with a lease remembers where the present box is, and the sum of the
//! boxes before it, which it has sealed and which only shrink. As long as its
//! clock reading is in that box and the box is the newest one, it needs no more
//! than its lease; if that is empty, the pass word, as without leases; and if that
//! is full, nothing but the proof that it is still as full as it was:
//!
//! **A refusal is repeated** while the present word is the one that it was found
//! with, the boxes before hold as much as then, and nothing was ever borrowed from
//! a window that counts. At that time there was no token in any lease. Tokens that
//! came since have raised the epoch of the word; sealed boxes only shrink, so that
//! equal sums are equal boxes. Nothing is written to what others read.
//!
//! **Whoever finds no room** claims tokens of its box for its call in one step. So
//! a call of weight 1 is refused only if at some moment there was neither room nor
//! a token, or if at that moment another thread was between the two steps of
//! reserving or of giving back. If no single lease has as many as it needs, it
//! reclaims all that there are, and looks again; that it does at most
//! [`ROUNDS_MAX`] times, so that two of that kind do not wait for each other.
//!
//! **Near the limit** there are no leases (`share_of`), and each call reserves for
//! itself: nobody has to reclaim what another has just reserved.
//!
//! **When the limit changes** the first call that comes with another one reclaims all
//! that was reserved under the old one, and only then takes passes itself. So one
//! that is lowered sees what has passed under a higher one, and nobody has tokens
//! from before.
//!
//! **Loans.** While something is borrowed from a window that counts, or from one to
//! come, no lease is filled. What was in one before, was in the word that the
//! borrower has looked at and swapped, as if it had passed.
//!
//! **Passes beside the ring**, of calls that nothing limits, change no word that
//! is remembered. As long as there may be some in the span, every call that its
//! lease has no token for looks at everything.

use crate::leap_array::lease::{Lease, Leases, Place, share_of};
use crate::leap_array::{Beside, Borrowed, LeapArray};
use crate::sync::Ordering;
use crate::time::Timestamp;

use super::cell::{PASSES_MAX, next_epoch};
use super::{Full, PassCell, Passes, Seen, Span, Taken};

/// How often a call that finds no room reclaims what is in leases.
const ROUNDS_MAX: usize = 3;

/// In place of a time: the call will never pass.
const NEVER: u64 = u64::MAX;

impl<B: Passes> LeapArray<B> {
    /// Takes `n` passes as [`LeapArray::reserve`] does, out of the caller's lease
    /// if it has some there. The sum that is told with them may be the limit,
    /// which is no less than it is.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room, with what is in leases counted as free.
    #[inline(always)]
    pub fn reserve_leased(
        &self,
        now: Timestamp,
        n: u32,
        span: Span,
        limit: u64,
        borrowed: &Borrowed,
        leases: &impl Leases,
    ) -> Result<Taken, Full> {
        if let Some(lease) = leases.mine()
            && lease.holds(now)
            && n > 0
            // Acquire: as whoever looks for the newest window.
            && self.head.load(Ordering::Acquire) == lease.number.get()
            && self.limit.load(Ordering::Acquire) == limit
        {
            if lease.take(n, limit) {
                return Ok(Taken::new(lease.number.get(), n, limit));
            }
            if let Some(answer) = self.reserve_near(now, n, limit, borrowed, leases, lease) {
                return answer;
            }
        }
        self.reserve_far(now, n, span, limit, borrowed, leases)
    }

    /// Reserves in the box of `lease`, which is the present one. `None` if it has
    /// to be looked at closely.
    #[inline(always)]
    fn reserve_near(
        &self,
        now: Timestamp,
        n: u32,
        limit: u64,
        borrowed: &Borrowed,
        leases: &impl Leases,
        lease: &Lease,
    ) -> Option<Result<Taken, Full>> {
        let (number, amount) = (lease.number.get(), u64::from(n));
        let cell = self.slots.get(lease.index.get() as usize)?.bucket.passes();
        loop {
            let word = cell.open_word_of(lease.lap.get())?;
            // After the word: a loan that is missed here fails its swap.
            if borrowed.may_count_from(lease.first_window.get()) {
                return None;
            }
            // Calls that nothing limits may still add to it: see `beside`.
            if self.beside().may_hold(number - lease.earlier.get()) {
                return None;
            }
            let sum = lease.sum.get() + (word & PASSES_MAX) + amount;
            let Some(room) = limit.checked_sub(sum) else {
                return self.repeated(now, word, n, limit, lease).map(Err);
            };
            let share = if leases.is_spread() {
                share_of(room, limit)
            } else {
                0
            };
            if (word & PASSES_MAX) + amount + share > PASSES_MAX {
                return None;
            }
            let taken = match share {
                0 => cell.swap(word, word + amount).is_ok(),
                _ => self.fill(lease, cell, word, amount, share, limit),
            };
            if taken {
                return Some(Ok(Taken::new(number, n, sum)));
            }
            leases.meet();
        }
    }

    /// Swaps the pass word `word` for a call of `amount` and `share` tokens.
    fn fill(
        &self,
        lease: &Lease,
        cell: &PassCell,
        word: u64,
        amount: u64,
        share: u64,
        limit: u64,
    ) -> bool {
        // Fewer than the call needs, or of a limit that was lowered since.
        self.reclaim_of(lease, |_| true);
        let announcement = lease.announce(limit);
        if cell.swap(word, next_epoch(word + amount + share)).is_err() {
            announcement.withdraw();
            return false;
        }
        if !announcement.fill(share) {
            self.give_back(Taken::new(lease.number.get(), share as u32, 0));
        }
        true
    }

    /// The refusal before this one, if nothing has changed since.
    #[inline]
    fn repeated(
        &self,
        now: Timestamp,
        word: u64,
        n: u32,
        limit: u64,
        lease: &Lease,
    ) -> Option<Full> {
        let refused = &lease.refused;
        let same = refused.word.get() == word
            && refused.limit.get() == limit
            && refused.weight.get() == u64::from(n)
            && refused.sum.get() == self.sum_of_earlier(lease);
        let retry_ns = refused.retry_ns.get();
        same.then(|| Full {
            sum: refused.sum.get() + (word & PASSES_MAX),
            retry_after: (retry_ns != NEVER).then(|| Timestamp::from_nanos(retry_ns).since(now)),
        })
    }

    /// Passes of the boxes before that of `lease`. One that was taken over is of a
    /// newer box, which has its seals yet to come: then this is some sum.
    #[inline]
    fn sum_of_earlier(&self, lease: &Lease) -> u64 {
        let mut index = lease.index.get() as usize;
        let mut sum = 0;
        for _ in 0..lease.earlier.get() {
            index = index.checked_sub(1).unwrap_or(self.slots.len() - 1);
            sum += self.slots[index].bucket.passes().passes_of_any_lap();
        }
        sum
    }

    /// Reserves with a look at everything: in a new box, where there is no room, or
    /// while passes are on loan.
    #[cold]
    fn reserve_far(
        &self,
        now: Timestamp,
        n: u32,
        span: Span,
        limit: u64,
        borrowed: &Borrowed,
        leases: &impl Leases,
    ) -> Result<Taken, Full> {
        let amount = u64::from(n);
        let mut rounds = 0;
        loop {
            let Some(seen) = self.look(now, span, Some(borrowed)) else {
                continue;
            };
            // After sealing: see the head of `lease`.
            let is_new = self.limit.load(Ordering::Acquire) != limit;
            if is_new {
                self.limit.store(limit, Ordering::Release);
            }
            if leases.is_spread() && self.reclaim(leases, |of| is_new || of != seen.number) {
                continue;
            }
            let mine = leases.come();
            if let Some(mine) = mine {
                self.come_to(mine, &seen, span);
            }
            match self.room(now, span, Some(borrowed), &seen, amount, limit) {
                Ok(()) if borrowed.may_count(span, seen.number) && !self.is_newest(seen.number) => {
                }
                Ok(()) if self.swap_word(&seen, seen.word + amount) => {
                    return Ok(Taken::new(seen.number, n, seen.sum + amount));
                }
                Ok(()) => leases.meet(),
                Err(full) => {
                    if leases.is_spread() {
                        let claims = |lease: &Lease| lease.claim(seen.number, n, limit);
                        if n > 0 && leases.all().any(claims) {
                            return Ok(Taken::new(seen.number, n, limit));
                        }
                        if self.reclaim(leases, |_| true) {
                            rounds += 1;
                            if rounds < ROUNDS_MAX {
                                continue;
                            }
                            return Err(full);
                        }
                        if !seen.is_so() {
                            continue;
                        }
                    }
                    if let Some(mine) = mine {
                        note_refusal(mine, now, &seen, n, limit, full);
                    }
                    return Err(full);
                }
            }
        }
    }

    /// The caller's lease is of the box that was seen from now on.
    fn come_to(&self, mine: &Lease, seen: &Seen<'_>, span: Span) {
        let number = seen.number;
        if mine.number.get() != number || !mine.was_used() {
            self.reclaim_of(mine, |_| true);
            let window = self.window(number);
            let begin_ns = number.saturating_mul(self.width_ns);
            mine.move_to(&Place {
                number,
                begin_ns,
                end_ns: begin_ns.saturating_add(self.width_ns),
                index: (number % self.slots.len() as u64) as usize,
                lap: window.lap().bits(),
                earlier: number - span.first(number, 0).max(self.oldest(number)),
                first_window: (span.window(number) + 1).saturating_sub(span.windows()),
            });
        }
        // With what was borrowed and counts; then it is not asked for.
        mine.sum.set(seen.sum - (seen.word & PASSES_MAX));
    }

    /// Gives back what is left in leases, of the boxes that are asked for; whether
    /// there was any.
    pub fn reclaim(&self, leases: &impl Leases, which: impl Fn(u64) -> bool) -> bool {
        let mut found = false;
        for lease in leases.all() {
            found |= self.reclaim_of(lease, &which);
        }
        found
    }

    fn reclaim_of(&self, lease: &Lease, which: impl Fn(u64) -> bool) -> bool {
        let left = lease.empty(which);
        if let Some(left) = &left
            && left.tokens > 0
        {
            self.give_back(Taken::new(left.number, left.tokens, 0));
        }
        left.is_some()
    }
}

/// Notes that a call was refused, of what was seen, with nothing in any lease.
fn note_refusal(mine: &Lease, now: Timestamp, seen: &Seen<'_>, n: u32, limit: u64, full: Full) {
    let refused = &mine.refused;
    refused.word.set(seen.word);
    refused.limit.set(limit);
    refused.sum.set(seen.sum - (seen.word & PASSES_MAX));
    refused.weight.set(n.into());
    // A reading behind the box counts as its beginning.
    let charged = now.max(mine.begin());
    let retry_at = full.retry_after.map(|after| (charged + after).as_nanos());
    refused.retry_ns.set(retry_at.unwrap_or(NEVER));
}

//! Passes of the second view: taken, borrowed, and given back.

use std::time::Duration;

use crate::call::Hold;
use crate::leap_array::passes::BESIDE;
use crate::leap_array::{BorrowRefused, Full, Loan, Taken};
use crate::metric::MetricEvent;
use crate::seat::Seat;
use crate::time::Timestamp;

use super::{Counts, Node};

impl Node {
    /// Counts passes that nothing limits.
    #[inline]
    pub fn pass(&self, now: Timestamp, weight: u32) -> Taken {
        self.settle_early(now);
        self.ring().pass(now, weight)
    }

    /// The beginning of the box that passes were counted in.
    #[inline]
    pub fn counted_at(&self, taken: Taken) -> Timestamp {
        Timestamp::from_nanos(taken.number().saturating_mul(self.settings.box_ns))
    }

    /// When window `window` of the second view begins.
    pub(crate) fn begin_of(&self, window: u64) -> Timestamp {
        let window_ns = self.settings.second.group() * self.settings.box_ns;
        Timestamp::from_nanos(window.saturating_mul(window_ns))
    }

    /// Takes `weight` passes of the second view if it then holds no more than
    /// `limit`, in one atomic step. The sum that comes with them is what calls
    /// have passed, and what was taken in advance meanwhile.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room; nothing has changed then.
    #[inline]
    pub fn reserve(&self, now: Timestamp, weight: u32, limit: u64) -> Result<Taken, Full> {
        self.reclaim();
        let (span, borrowed) = (self.settings.second, Some(&self.counts().borrowed));
        self.ring().reserve(now, weight, span, limit, borrowed)
    }

    /// The same for a limit that does not move, where nobody asks how many have
    /// passed: where threads meet, a call may be one for which its thread has
    /// reserved in advance. The sum that comes with it may be the limit.
    ///
    /// # Errors
    ///
    /// As [`Node::reserve`].
    #[inline(always)]
    pub fn take(&self, now: Timestamp, weight: u32, limit: u64) -> Result<Taken, Full> {
        let Counts {
            ring,
            borrowed,
            leases,
            ..
        } = self.counts();
        let span = self.settings.second;
        ring.reserve_leased(now, weight, span, limit, borrowed, leases)
    }

    /// Has back what was reserved in advance, and not used; whether there was any.
    #[inline]
    fn reclaim(&self) -> bool {
        let Counts { ring, leases, .. } = self.counts();
        leases.is_spread() && ring.reclaim(leases, |_| true)
    }

    /// Whether [`Node::reserve`] would find room for a call that holds `own` here
    /// by now: what it has taken, it does not ask for again. Takes nothing, and
    /// says what others have passed.
    ///
    /// # Errors
    ///
    /// [`Full`] as there.
    pub fn probe(&self, now: Timestamp, weight: u32, limit: u64, own: Hold) -> Result<(), Full> {
        let (taken, loan) = match own {
            Hold::Nothing => (0, None),
            Hold::Passed(taken) => (taken.amount(), None),
            Hold::Loaned(loan) => (0, Some(loan)),
        };
        let (span, borrowed) = (self.settings.second, Some(&self.counts().borrowed));
        let more = weight.saturating_sub(taken);
        let probe = || self.ring().probe(now, more, span, limit, borrowed, loan);
        let probed = match probe() {
            Err(_) if self.reclaim() => probe(),
            probed => probed,
        };
        probed.map_err(|full| Full {
            sum: full.sum.saturating_sub(u64::from(taken)),
            ..full
        })
    }

    /// Whether passes of windows to come are on loan.
    #[inline]
    pub fn lends_ahead(&self, now: Timestamp) -> bool {
        self.ring()
            .lends_ahead(now, self.settings.second, &self.counts().borrowed)
    }

    /// Borrows `weight` passes from the first window to come that has room.
    ///
    /// # Errors
    ///
    /// [`BorrowRefused`] if none has, within the time limit for borrowing.
    pub fn borrow(
        &self,
        now: Timestamp,
        weight: u32,
        limit: u64,
    ) -> Result<(Loan, Duration), BorrowRefused> {
        let wait_max = self.settings.borrow_wait_max;
        self.reclaim();
        self.ring().borrow(
            now,
            weight,
            self.settings.second,
            limit,
            wait_max,
            &self.counts().borrowed,
        )
    }

    /// Whether [`Node::borrow`] would find a window; takes nothing.
    pub fn may_borrow(&self, now: Timestamp, weight: u32, limit: u64) -> bool {
        self.reclaim();
        self.ring().may_borrow(
            now,
            weight,
            self.settings.second,
            limit,
            self.settings.borrow_wait_max,
            &self.counts().borrowed,
        )
    }

    /// Books a borrowed pass in `window` of the second view, and in the minute
    /// view at once.
    pub fn book(&self, now: Timestamp, weight: u32, window: u64) -> Loan {
        let mut present = self.present(now);
        present.add(MetricEvent::OccupiedPass, u64::from(weight));
        self.ring()
            .book(&self.counts().borrowed, window, weight)
            .counted_in(present.number())
    }

    /// A borrower goes ahead at `now`, which should not be before its window
    /// begins.
    pub fn go_ahead(&self, now: Timestamp, loan: Loan) {
        if !self
            .ring()
            .until(now, self.settings.second, loan.window())
            .is_zero()
        {
            self.counts().borrowed.go_early(loan);
        }
    }

    /// Gives back what a call held.
    #[inline]
    pub fn give_back(&self, hold: Hold) {
        match hold {
            Hold::Nothing => {}
            Hold::Passed(taken) if taken.ring() == 0 => self.ring().give_back(taken),
            Hold::Passed(taken) if taken.ring() == BESIDE => {
                // On the thread that has just counted it: its call came no
                // further.
                if let Some(stripe) = self.ring().beside().mine(Seat::mine()) {
                    stripe.take_back(taken.number(), taken.amount());
                }
            }
            Hold::Passed(taken) => self.give_back_in_view(taken),
            Hold::Loaned(loan) => {
                if let Some((number, amount)) = loan.count() {
                    let counted = self.ring().existing(number);
                    counted
                        .iter()
                        .for_each(|w| w.take_out_occupied(u64::from(amount)));
                }
                self.ring().repay(&self.counts().borrowed, loan);
            }
        }
    }
}

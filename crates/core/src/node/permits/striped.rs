//! Calls in flight that came from threads with a stripe.
//!
//! A call that nothing limits need not be counted in the word that all share. It
//! is counted where its thread entered: in a word that this thread alone writes.
//! When it ends, on whatever thread, it is counted in a second word of the *same*
//! stripe, by one atomic addition; mostly that is the same thread's line, and no
//! other looks at it. Both only grow, around the end of 64 bits, and have the
//! fields of the shared word: their difference is what is in flight.
//!
//! **Never too few.** Who adds up reads what has left, of all stripes, and then
//! what has entered. Whoever has left by the first look had entered before it; so
//! the difference is no less than what is in flight between the two looks.
//! Those who leave after the first are counted as still there. If what has left
//! is the same once more after both, nobody has, and the sum was true then. It is
//! looked at again a few times, so a limit refuses because of somebody who has
//! just left only while others leave faster than it looks.
//!
//! **Who waits.** [`InFlight::sum_telling`] reads what has left by an atomic step
//! that changes nothing. Of it and the addition of somebody who leaves, one comes
//! first: either who leaves is in what was read, or it sees all that the reader
//! did before. No stripe is counted there that was not told.
//!
//! **Bounds.** A stripe takes a call only up to [`STRIPE_MAX`], so all stripes
//! together are within what can be counted, and a weight up to
//! [`STRIPED_WEIGHT_MAX`]; others use the shared word.

use crate::seat::{SEATS, Seat};
use crate::striped::{Own, Striped};
use crate::sync::{AtomicU64, Ordering};

use super::{CALLS_MAX, Share, calls};

/// The most calls in flight that one stripe counts.
pub(super) const STRIPE_MAX: u64 = CALLS_MAX / SEATS as u64;
/// The heaviest call that a stripe counts: all that stripes can hold of these
/// fill half of the field of permits.
const STRIPED_WEIGHT_MAX: u32 = 1 << 14;

/// How often what has left is looked at until it is the same before and after.
const LOOKS_MAX: usize = 4;

/// The calls in flight of all stripes.
#[derive(Debug, Default)]
pub(super) struct InFlight(Striped<Stripe>);

#[derive(Debug, Default)]
struct Stripe {
    /// Calls and permits that have entered from this seat.
    entered: Own,
    /// Of those, the ones that have left.
    left: AtomicU64,
}

impl InFlight {
    /// A call enters from the stripe of `seat`, the calling thread's; returns how
    /// many are in flight from there. `None` if it is not to be counted here.
    #[inline]
    pub(super) fn enter(&self, seat: Option<Seat>, weight: u32) -> Option<u64> {
        let stripe = self.0.mine_or_meet(seat)?;
        let entered = stripe.entered.get().wrapping_add(whole(weight));
        // Relaxed: who has left meanwhile only makes it less.
        let own = calls(entered.wrapping_sub(stripe.left.load(Ordering::Relaxed)));
        if own > STRIPE_MAX || weight > STRIPED_WEIGHT_MAX {
            return None;
        }
        stripe.entered.set(entered);
        Some(own)
    }

    /// A call that entered from the stripe of `seat` has ended.
    #[inline]
    pub(super) fn leave(&self, seat: Seat, weight: u32) {
        if let Some(stripe) = self.0.at(seat) {
            // Release: who has its permits next sees what it has done, and who
            // reads this has heard of its entry. Acquire: see `sum_telling`.
            stripe.left.fetch_add(whole(weight), Ordering::AcqRel);
        }
    }

    /// Calls and permits in flight, with the fields of the shared word.
    #[inline]
    pub(super) fn sum(&self) -> u64 {
        let mut left = self.left();
        for _ in 1..LOOKS_MAX {
            let in_flight = self.entered().1.wrapping_sub(left);
            if in_flight == 0 {
                return 0;
            }
            match self.left() {
                again if again == left => return in_flight,
                again => left = again,
            }
        }
        self.entered().1.wrapping_sub(left)
    }

    /// The same; whoever of them leaves afterwards sees all that the caller has
    /// done before.
    pub(super) fn sum_telling(&self) -> u64 {
        loop {
            let (mut told, mut left) = (0, 0_u64);
            for stripe in self.0.iter() {
                told += 1;
                left = left.wrapping_add(stripe.left.fetch_add(0, Ordering::AcqRel));
            }
            // There are as many stripes as seats at most.
            match self.entered() {
                (stripes, entered) if stripes == told => return entered.wrapping_sub(left),
                _ => {}
            }
        }
    }

    #[inline]
    fn left(&self) -> u64 {
        let left = self.0.iter().map(|it| it.left.load(Ordering::Acquire));
        left.fold(0, u64::wrapping_add)
    }

    /// How many stripes there are, and what has entered.
    #[inline]
    fn entered(&self) -> (usize, u64) {
        self.0.iter().fold((0, 0), |(stripes, entered), stripe| {
            (stripes + 1, entered.wrapping_add(stripe.entered.get()))
        })
    }
}

#[inline]
fn whole(weight: u32) -> u64 {
    Share::WHOLE.of(weight)
}

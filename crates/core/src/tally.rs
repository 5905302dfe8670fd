//! Counters that many threads add to and hardly anybody reads.
//!
//! Each thread adds to numbers of its own where it has a [stripe](crate::striped):
//! the first that comes at once, others when they have met. That is a load and a
//! store. All others add to numbers that are shared, by one atomic step. A reader
//! adds them up.
//!
//! **Nothing is lost, nothing counts twice.** The numbers are made once and
//! never moved or cleared, and each addition is made to one of them: as one atomic
//! step, or by the only thread that writes it. So all of them together are what
//! was added, at any moment.
//!
//! **What a reader sees** is no single moment, as others add while it adds up. It
//! is no less than what was added by those it has heard of, itself included, and
//! what one reader sees only grows: each number only grows, and once seen the
//! further ones stay.
//!
//! The numbers order nothing else, so those that are shared are relaxed.

use crate::seat::Seat;
use crate::striped::{Own, Striped};
use crate::sync::{AtomicU64, Ordering};

/// How often threads must have met before what they share is spread. Schedules
/// are too short for many meetings, and are to come to what follows them, as are
/// models.
pub(crate) const MEETINGS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 64 };

/// `N` sums that only grow, of things that are counted together.
///
/// One that nothing was added to takes `8 N + 40` bytes.
///
/// ```
/// let bought_and_sold = flowgate_core::Tallies::<2>::default();
/// bought_and_sold.add(0, 2);
/// bought_and_sold.add(1, 1);
/// bought_and_sold.add(0, 3);
/// assert_eq!(bought_and_sold.sums(), [5, 1]);
/// ```
#[derive(Debug)]
pub struct Tallies<const N: usize> {
    shared: [AtomicU64; N],
    striped: Striped<Stripe<N>>,
}

/// What one thread has added.
#[derive(Debug)]
struct Stripe<const N: usize>([Own; N]);

impl<const N: usize> Default for Tallies<N> {
    fn default() -> Self {
        Tallies {
            shared: std::array::from_fn(|_| AtomicU64::new(0)),
            striped: Striped::default(),
        }
    }
}

impl<const N: usize> Default for Stripe<N> {
    fn default() -> Self {
        Stripe(std::array::from_fn(|_| Own::default()))
    }
}

impl<const N: usize> Tallies<N> {
    /// Adds `amount` to number `at`; there is nothing to add to from `N` on.
    #[inline]
    pub fn add(&self, at: usize, amount: u64) {
        let stripe = self.striped.mine_or_meet(Seat::mine());
        if let Some(own) = stripe.and_then(|stripe| stripe.0.get(at)) {
            own.add(amount);
        } else if let Some(shared) = self.shared.get(at) {
            shared.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// All that was added to each.
    pub fn sums(&self) -> [u64; N] {
        let mut sums = [0; N];
        let numbers = sums.iter_mut().zip(&self.shared);
        numbers.for_each(|(sum, shared)| *sum = shared.load(Ordering::Relaxed));
        for stripe in self.striped.iter() {
            let numbers = sums.iter_mut().zip(&stripe.0);
            numbers.for_each(|(sum, own)| *sum = sum.wrapping_add(own.get()));
        }
        sums
    }
}

/// The number of the task: all run on one thread.
#[cfg(shuttle)]
pub(crate) fn thread_number() -> usize {
    shuttle::current::me().into()
}

#[cfg(loom)]
pub use numbered::{number_thread, thread_number};

/// All threads of a model run on one thread: the model numbers them.
#[cfg(loom)]
#[allow(missing_docs, reason = "for models")]
mod numbered {
    use std::cell::Cell;

    loom::thread_local! {
        static NUMBER: Cell<usize> = Cell::new(0);
    }

    pub fn thread_number() -> usize {
        NUMBER.with(Cell::get)
    }

    pub fn number_thread(number: usize) {
        NUMBER.with(|mine| mine.set(number));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_threads_meet() {
        let tallies = Tallies::<3>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50_000 {
                        tallies.add(0, 2);
                        tallies.add(2, 1);
                    }
                });
            }
        });
        assert_eq!(tallies.sums(), [400_000, 0, 200_000]);
    }

    #[test]
    fn what_was_added_before_threads_had_numbers_of_their_own_is_still_there() {
        let tallies = Tallies::<1>::default();
        tallies.add(0, 5);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 1..MEETINGS {
                    tallies.add(0, 1);
                }
                let shared = tallies.shared[0].load(Ordering::Relaxed);
                assert_eq!(shared, MEETINGS as u64 - 1, "it had a stripe at once");
                tallies.add(0, 100);
                assert!(tallies.striped.is_spread());
                assert_eq!(tallies.shared[0].load(Ordering::Relaxed), shared);
            });
        });
        assert_eq!(tallies.sums(), [5 + MEETINGS as u64 - 1 + 100]);
    }

    #[test]
    fn four_that_nothing_was_added_to_take_72_bytes() {
        assert!(size_of::<Tallies<4>>() <= 72);
    }
}

//! A counter that many threads add to and hardly anybody reads.
//!
//! It is one number as long as threads do not meet at it. An addition that
//! finds the number changed between looking and adding has *met* another
//! thread; after [`MEETINGS`] of those each processor's share of threads adds
//! to a number of its own, on a cache line of its own. A reader adds them up.
//!
//! **Nothing is lost, nothing counts twice.** The numbers are made once and
//! never moved or cleared, and an addition is one atomic step on one of them,
//! whether or not its thread knows by then that there are several. So all of
//! them together are what was added, at any moment.
//!
//! **What a reader sees** is no single moment, as others add while it adds up. It
//! is no less than what was added by those it has heard of, itself included, and
//! what one reader sees only grows: each number only grows, and once seen the
//! further ones stay.
//!
//! All of it is relaxed: the numbers order nothing else, and the further ones
//! are published by the lock that makes them once.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, AtomicUsize, OnceLock, Ordering};

/// How often threads must have met before a counter is spread. Schedules are too
/// short for many meetings, and are to come to what follows them, as are models.
pub(crate) const MEETINGS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 64 };

/// How many numbers a spread counter has.
const SHARES: usize = 8;

/// A sum that only grows.
///
/// ```
/// let tally = flowgate_core::Tally::default();
/// tally.add(2);
/// tally.add(1);
/// assert_eq!(tally.sum(), 3);
/// ```
#[derive(Debug, Default)]
pub struct Tally {
    shared: AtomicU64,
    meetings: AtomicUsize,
    spread: OnceLock<Box<[CachePadded<AtomicU64>; SHARES]>>,
}

impl Tally {
    /// Adds `amount`.
    #[inline]
    pub fn add(&self, amount: u64) {
        if let Some(spread) = self.spread.get() {
            spread[thread_number() % SHARES].fetch_add(amount, Ordering::Relaxed);
            return;
        }
        let seen = self.shared.load(Ordering::Relaxed);
        let added = self.shared.compare_exchange(
            seen,
            seen.wrapping_add(amount),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if added.is_err() {
            self.meet(amount);
        }
    }

    #[cold]
    fn meet(&self, amount: u64) {
        self.shared.fetch_add(amount, Ordering::Relaxed);
        if self.meetings.fetch_add(1, Ordering::Relaxed) + 1 >= MEETINGS {
            self.spread.get_or_init(Box::default);
        }
    }

    /// All that was added.
    pub fn sum(&self) -> u64 {
        let spread = self
            .spread
            .get()
            .into_iter()
            .flat_map(|spread| spread.iter());
        let spread: u64 = spread.map(|share| share.load(Ordering::Relaxed)).sum();
        self.shared.load(Ordering::Relaxed) + spread
    }
}

/// Threads are numbered as they come, so that neighbours are spread evenly.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn thread_number() -> usize {
    // Numbers of the process, of no engine: no model has a say in them.
    static THREADS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    // A thread that is being torn down may count anywhere.
    NUMBER.try_with(|number| *number).unwrap_or(0)
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_threads_meet() {
        let tally = Tally::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50_000).for_each(|_| tally.add(2)));
            }
        });
        assert_eq!(tally.sum(), 400_000);
    }

    #[test]
    fn a_spread_tally_still_has_what_was_counted_before() {
        let tally = Tally::default();
        tally.add(5);
        for _ in 0..=MEETINGS {
            tally.meet(1);
        }
        assert!(tally.spread.get().is_some(), "it was not spread");
        tally.add(3);
        assert_eq!(tally.sum(), 8 + MEETINGS as u64 + 1);
    }
}

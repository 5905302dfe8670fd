//! The results of the last so many calls, without a lock.
//!
//! A ring of slots, one per call, each empty, good or bad in two bits of a
//! word; and one word with the running sums, `used (32 bits) | bad (32)`. A
//! result takes the next slot, exchanges what stands there, and adds the
//! difference to the sums. Whoever adds learns both sums of one instant.
//!
//! * **Exact:** each slot's differences add up to what stands in it, in
//!   whatever order threads come, so the sums are those of the ring whenever
//!   nobody is between the exchange and the addition. A reading may miss, or
//!   have too early, one result for each thread that is just there.
//! * **No decision is lost:** of several threads, the one whose addition is the
//!   last finds the sums of all, so what is too much in the end is seen by at
//!   least one of them.
//! * A thread that sleeps between taking its slot and writing to it while the
//!   ring goes once round replaces a newer result by its own: as many of the
//!   "last" may be older as there are such threads.

use flowgate_core::sync::{AtomicU64, Ordering};

use super::window::Results;

const SLOTS_PER_WORD: u64 = 32;
const USED: u64 = 0b10;
const BAD: u64 = 0b01;

/// The results of the last so many calls.
#[derive(Debug)]
pub(super) struct LastCalls {
    size: u64,
    next: AtomicU64,
    words: Box<[AtomicU64]>,
    sums: AtomicU64,
}

impl LastCalls {
    /// Room for `size` results, at least 1.
    pub(super) fn new(size: u32) -> Self {
        let size = u64::from(size.max(1));
        LastCalls {
            size,
            next: AtomicU64::new(0),
            words: (0..size.div_ceil(SLOTS_PER_WORD))
                .map(|_| AtomicU64::new(0))
                .collect(),
            sums: AtomicU64::new(0),
        }
    }

    /// Notes a result; returns the sums with it.
    pub(super) fn note(&self, bad: bool) -> Results {
        // Relaxed throughout: a slot is exchanged in one instruction, and what
        // is decided is read off the sums by the addition itself. All
        // additions to one word are in one order.
        let slot = self.next.fetch_add(1, Ordering::Relaxed) % self.size;
        let shift = slot % SLOTS_PER_WORD * 2;
        let fresh = USED | u64::from(bad);
        let Some(word) = self.words.get((slot / SLOTS_PER_WORD) as usize) else {
            return self.read();
        };
        let exchange = |word: u64| Some(word & !((USED | BAD) << shift) | fresh << shift);
        let old = match word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, exchange) {
            Ok(word) | Err(word) => word >> shift,
        };
        let newly_used = u64::from(old & USED == 0) << 32;
        let more_bad = u64::from(bad).wrapping_sub(old & BAD);
        let change = newly_used.wrapping_add(more_bad);
        let before = self.sums.fetch_add(change, Ordering::Relaxed);
        sums(before.wrapping_add(change))
    }

    /// The sums now.
    pub(super) fn read(&self) -> Results {
        sums(self.sums.load(Ordering::Relaxed))
    }
}

/// Takes the word apart. The sum of bad results is below zero for a moment when
/// one is replaced before it has been added; then it borrows from the other.
fn sums(word: u64) -> Results {
    let bad = word as u32 as i32;
    let used = word.wrapping_sub(i64::from(bad) as u64) >> 32;
    Results {
        total: used,
        bad: u64::from(bad.max(0).unsigned_abs()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{LastCalls, Results};

    #[test]
    fn it_holds_the_last_results_and_no_others() {
        for size in [1, 2, 31, 32, 33, 100] {
            let ring = LastCalls::new(size);
            let mut all: Vec<bool> = Vec::new();
            for n in 0_u32..500 {
                let bad = n.wrapping_mul(2_654_435_761) >> 29 < 3;
                all.push(bad);
                let last = &all[all.len().saturating_sub(size as usize)..];
                let expected = Results {
                    total: last.len() as u64,
                    bad: last.iter().filter(|bad| **bad).count() as u64,
                };
                assert_eq!(ring.note(bad), expected, "{size} {n}");
                assert_eq!(ring.read(), expected, "{size} {n}");
            }
        }
    }

    #[test]
    fn sums_that_borrow_are_read_right() {
        let word = (7_u64 << 32).wrapping_sub(1);
        assert_eq!(super::sums(word), Results { total: 7, bad: 0 });
    }

    #[test]
    fn many_threads_leave_the_sums_of_the_ring() {
        let ring = LastCalls::new(50);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let ring = &ring;
                scope.spawn(move || {
                    for n in 0..5_000 {
                        ring.note(n % 3 == thread);
                    }
                });
            }
        });
        for _ in 0..50 {
            ring.note(true);
        }
        assert_eq!(ring.read(), Results { total: 50, bad: 50 });
    }
}

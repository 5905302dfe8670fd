//! Seats: which words a thread may write by itself.
//!
//! A word that one thread alone writes needs no atomic step, only a load and a
//! store: a fifth of the price, and no cache line that goes back and forth. A
//! *seat* is the right to such words. It is a small number, so that a table has
//! one place per seat, and **a seat is held by one thread at a time**:
//!
//! * a thread takes a free seat the first time it asks, and keeps it until it
//!   ends; with more than [`SEATS`] threads the rest have none, and use words
//!   that are shared;
//! * a seat is given up with `Release` and taken with `Acquire`. So whoever has
//!   it next sees all that was stored from it before, and goes on from there: a
//!   load followed by a store loses nothing, though it is no atomic step.
//!
//! A thread that is being torn down has given up its seat and is told so, should
//! it still count something.
//!
//! Seats are of the process, of no engine, so that a thread asks a variable of
//! its own and nothing else.

#[cfg(not(any(loom, shuttle)))]
use std::cell::Cell;
// Of the process, and so never of a model or schedule, unless that makes its own.
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
use crate::sync::{AtomicU64, Ordering};

/// How many threads may have a seat at once.
pub const SEATS: usize = 128;

/// The seat of a thread. It says so to others as a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Seat(u8);

impl Seat {
    /// Its number, below [`SEATS`].
    #[inline]
    pub fn number(self) -> usize {
        usize::from(self.0)
    }

    /// The seat with this number; `None` from [`SEATS`] on.
    #[inline]
    pub fn numbered(number: usize) -> Option<Self> {
        (number < SEATS).then_some(Seat(number as u8))
    }

    /// The seat of the calling thread, if it has one.
    #[cfg(not(any(loom, shuttle)))]
    #[inline]
    pub fn mine() -> Option<Self> {
        match MINE.get() {
            NOT_ASKED => take_seat(),
            number => Seat::numbered(usize::from(number)),
        }
    }

    /// The seat of the task: all run on one thread.
    #[cfg(shuttle)]
    pub fn mine() -> Option<Self> {
        Seat::numbered(crate::tally::thread_number())
    }

    /// The seat that the model has given the thread with its number, from 1 on:
    /// all run on one thread.
    #[cfg(loom)]
    pub fn mine() -> Option<Self> {
        Seat::numbered(crate::tally::thread_number().checked_sub(1)?)
    }
}

#[cfg(not(any(loom, shuttle)))]
const NOT_ASKED: u8 = u8::MAX;
#[cfg(not(any(loom, shuttle)))]
const NONE: u8 = u8::MAX - 1;

#[cfg(not(any(loom, shuttle)))]
thread_local! {
    /// Number of the thread's seat. It needs no destructor, so looking at it is
    /// one load.
    static MINE: Cell<u8> = const { Cell::new(NOT_ASKED) };
    /// Gives the seat up at the thread's end.
    static HELD: Held = Held(SEATS_OF_PROCESS.take());
}

#[cfg(not(any(loom, shuttle)))]
static SEATS_OF_PROCESS: Seats = Seats::new();

/// Which seats are taken: one bit for each.
#[derive(Debug, Default)]
pub struct Seats([AtomicU64; SEATS / 64]);

impl Seats {
    /// All are free.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Seats([const { AtomicU64::new(0) }; SEATS / 64])
    }

    /// Takes a free seat.
    pub fn take(&self) -> Option<Seat> {
        let free = |bits: u64| (bits != u64::MAX).then(|| bits | (bits + 1));
        self.0.iter().enumerate().find_map(|(half, taken)| {
            // Acquire: what was stored from this seat before is seen.
            let before = taken.fetch_update(Ordering::Acquire, Ordering::Relaxed, free);
            Seat::numbered(64 * half + before.ok()?.trailing_ones() as usize)
        })
    }

    /// Gives up `seat`, which its thread does not use any more.
    pub fn give_up(&self, seat: Seat) {
        let bit = 1 << (seat.number() % 64);
        // Release: who takes it sees what was stored from it.
        self.0[seat.number() / 64].fetch_and(!bit, Ordering::Release);
    }
}

#[cfg(not(any(loom, shuttle)))]
#[cold]
fn take_seat() -> Option<Seat> {
    let seat = HELD.try_with(|held| held.0).ok().flatten();
    // No destructor of this thread runs after that of `HELD` without finding
    // this: it may count, but not from the seat.
    MINE.set(seat.map_or(NONE, |seat| seat.0));
    seat
}

#[cfg(not(any(loom, shuttle)))]
struct Held(Option<Seat>);

#[cfg(not(any(loom, shuttle)))]
impl Drop for Held {
    fn drop(&mut self) {
        if let Some(seat) = self.0 {
            // First nobody uses it any more, then somebody else may.
            MINE.set(NONE);
            SEATS_OF_PROCESS.give_up(seat);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_kept_until_its_thread_ends_and_shared_with_nobody() {
        // One after another, however many.
        for _ in 0..3 * SEATS {
            let seat = std::thread::spawn(Seat::mine).join().expect("no panic");
            assert!(seat.is_some(), "seats of threads that ended are not free");
        }
        // More threads than seats, at once.
        let barrier = std::sync::Barrier::new(SEATS + 20);
        let seats: Vec<_> = std::thread::scope(|scope| {
            let take = || {
                let seat = Seat::mine();
                barrier.wait();
                assert_eq!(Seat::mine(), seat);
                seat
            };
            let threads: Vec<_> = (0..SEATS + 20).map(|_| scope.spawn(take)).collect();
            let seats = threads.into_iter().map(|thread| thread.join());
            seats.map(|seat| seat.expect("no panic")).collect()
        });
        assert!(seats.iter().filter(|seat| seat.is_none()).count() >= 20);
        let mut held: Vec<_> = seats.iter().flatten().map(|seat| seat.number()).collect();
        let all = held.len();
        held.sort_unstable();
        held.dedup();
        assert_eq!(held.len(), all, "two threads had one seat");
    }

    #[test]
    fn what_was_added_from_a_seat_is_there_for_whoever_has_it_next() {
        use crate::striped::{Own, Striped};
        let words: Striped<Own> = Striped::default();
        let shared = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        // Each on a thread of its own, most from the same few seats.
                        let count = || match words.mine_or_meet(Seat::mine()) {
                            Some(mine) => mine.add(1),
                            None => drop(shared.fetch_add(1, Ordering::Relaxed)),
                        };
                        std::thread::scope(|inner| drop(inner.spawn(count)));
                    }
                });
            }
        });
        let striped: u64 = words.iter().map(Own::get).sum();
        assert_eq!(striped + shared.load(Ordering::Relaxed), 1_600);
        assert!(striped > 0);
    }
}

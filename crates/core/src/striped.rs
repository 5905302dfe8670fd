//! Something that each thread has for itself, made where threads really meet.
//!
//! A [`Striped`] value is one *stripe* as long as one thread uses it: that of the
//! first [seat](crate::seat) that came. Threads of other seats find none of
//! their own; they use what their caller has for all, and are counted. After
//! some such meetings each seat that comes gets a stripe. So what is used by
//! one thread, or seldom, stays small, and what is hot is written by each thread
//! on lines of its own.
//!
//! **One writer.** [`Striped::mine`] gives a stripe only to the thread that holds
//! its seat, so what only it writes may be written with a load and a store
//! ([`Own`]). Others may read it, and may write to words of the stripe that are
//! made for several writers.
//!
//! **Nothing is lost.** Stripes are made once and live as long as the whole. A
//! reader adds them up, with what was counted for all.
//!
//! The table is read by all and written only when a stripe is made; stripes lie
//! on lines of their own.

use crossbeam_utils::CachePadded;

use crate::seat::{SEATS, Seat};
use crate::sync::{AtomicU32, AtomicU64, OnceLock, Ordering};
use crate::tally::MEETINGS;

/// A word that one thread writes and all may read.
#[derive(Debug, Default)]
pub struct Own(AtomicU64);

impl Own {
    /// What it holds.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Puts `value` in it. Only for the thread whose word it is.
    #[inline]
    pub fn set(&self, value: u64) {
        // Release: who sees the value sees what was written before.
        self.0.store(value, Ordering::Release);
    }

    /// Adds `amount`, around the end of 64 bits if need be. Only for the thread
    /// whose word it is.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.set(self.0.load(Ordering::Relaxed).wrapping_add(amount));
    }
}

/// One `T` for the first thread that comes, and one for each that meets it.
#[derive(Debug)]
pub struct Striped<T> {
    /// Number of the first seat, plus one; zero: nobody has come.
    first: AtomicU32,
    meetings: AtomicU32,
    home: OnceLock<Box<CachePadded<T>>>,
    others: OnceLock<Box<Others<T>>>,
}

#[derive(Debug)]
struct Others<T> {
    /// One bit for each seat that may have a stripe.
    made: [AtomicU64; SEATS / 64],
    by_seat: Box<[OnceLock<Box<CachePadded<T>>>]>,
}

impl<T> Default for Striped<T> {
    fn default() -> Self {
        Striped {
            first: AtomicU32::new(0),
            meetings: AtomicU32::new(0),
            home: OnceLock::new(),
            others: OnceLock::new(),
        }
    }
}

impl<T> Default for Others<T> {
    fn default() -> Self {
        Others {
            made: Default::default(),
            by_seat: (0..SEATS).map(|_| OnceLock::new()).collect(),
        }
    }
}

impl<T: Default> Striped<T> {
    /// The stripe of `seat`, which must be the calling thread's, if it has one.
    #[inline]
    pub fn mine(&self, seat: Option<Seat>) -> Option<&T> {
        // Relaxed: it is set once, and only the seat itself acts on it.
        let first = self.first.load(Ordering::Relaxed);
        let seat = seat?;
        if first == wanted(seat) {
            // Its first use made it.
            return self.home.get().map(|home| &***home);
        }
        self.at(seat)
    }

    /// The same; a seat that comes first, or has come often, gets its stripe now.
    #[inline]
    pub fn mine_or_meet(&self, seat: Option<Seat>) -> Option<&T> {
        self.mine(seat).or_else(|| self.meet(seat))
    }

    /// The same; a seat that comes first, or where each has one, gets its stripe
    /// now. The others have met nobody.
    #[inline]
    pub fn mine_or_first(&self, seat: Option<Seat>) -> Option<&T> {
        let mine = self.mine(seat);
        if mine.is_none() && (self.is_spread() || self.first.load(Ordering::Relaxed) == 0) {
            return self.meet(seat);
        }
        mine
    }

    /// The stripe of any seat, if there is one, for its words of several writers.
    #[inline]
    pub fn at(&self, seat: Seat) -> Option<&T> {
        if self.first.load(Ordering::Relaxed) == wanted(seat) {
            return self.home.get().map(|home| &***home);
        }
        let stripe = self.others.get()?.by_seat[seat.number()].get()?;
        Some(stripe)
    }

    /// All stripes there are.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let others = self.others.get().map(|others| others.iter());
        let home = self.home.get().into_iter();
        home.chain(others.into_iter().flatten())
            .map(|stripe| &***stripe)
    }

    /// Whether each seat has a stripe, or gets one when it comes.
    #[inline]
    pub fn is_spread(&self) -> bool {
        self.others.get().is_some()
    }

    #[cold]
    fn meet(&self, seat: Option<Seat>) -> Option<&T> {
        let seat = seat?;
        let come =
            (self.first).compare_exchange(0, wanted(seat), Ordering::Relaxed, Ordering::Relaxed);
        // The holder of a seat before this one may have left it at this.
        if come.is_ok() || come == Err(wanted(seat)) {
            return Some(self.home.get_or_init(Box::default));
        }
        if self.others.get().is_none()
            && (self.meetings.fetch_add(1, Ordering::Relaxed) as usize) + 1 < MEETINGS
        {
            return None;
        }
        let others = self.others.get_or_init(Box::default);
        let (number, bit) = (seat.number(), 1 << (seat.number() % 64));
        let stripe = others.by_seat[number].get_or_init(Box::default);
        // Release, before anything is written to it: see `Others::iter`.
        others.made[number / 64].fetch_or(bit, Ordering::Release);
        Some(stripe)
    }
}

impl<T> Others<T> {
    /// All stripes of the table. One whose bit is not seen yet has been written
    /// to by nobody whom the reader has heard of.
    fn iter(&self) -> impl Iterator<Item = &Box<CachePadded<T>>> {
        let halves = self.made.iter().enumerate();
        halves.flat_map(move |(half, made)| {
            let mut bits = made.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let at = bits.trailing_zeros() as usize;
                bits &= bits.checked_sub(1)?;
                self.by_seat.get(64 * half + at)?.get()
            })
        })
    }
}

#[inline]
fn wanted(seat: Seat) -> u32 {
    seat.number() as u32 + 1
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn seat(number: usize) -> Option<Seat> {
        Seat::numbered(number)
    }

    #[test]
    fn the_first_has_a_stripe_at_once_and_others_when_they_have_met() {
        let words: Striped<Own> = Striped::default();
        assert!(words.mine(seat(3)).is_none());
        words.mine_or_meet(seat(3)).expect("the first").add(5);
        assert!(words.mine(seat(3)).is_some());
        for _ in 1..MEETINGS {
            assert!(words.mine_or_meet(seat(100)).is_none());
        }
        assert!(!words.is_spread());
        words.mine_or_meet(seat(100)).expect("they met").add(2);
        words.mine_or_meet(seat(7)).expect("it is spread").add(1);
        assert!(words.mine(seat(8)).is_none());
        assert!(words.mine_or_meet(None).is_none());
        let mut all: Vec<_> = words.iter().map(Own::get).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 5]);
        assert_eq!(words.at(Seat::numbered(100).unwrap()).unwrap().get(), 2);
    }
}

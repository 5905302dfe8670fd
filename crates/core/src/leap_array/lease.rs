//! Passes that a thread has reserved for calls to come.
//!
//! Where threads meet at the pass word of a ring, each reserves some more than its
//! call needs and keeps the rest in a *lease* of its own:
//!
//! ```text
//! 63              32 31           8 7        0
//! |  limit          |  box         |  tokens   |      box modulo 2²⁴
//! ```
//!
//! A token is one pass that is counted in the word of its box by now, and that no
//! call has had yet. What was said of the ring stays true, whatever becomes of
//! tokens: its sums are never too small. What remains to be argued is that each
//! token is used once, and that nobody is refused because of a token that nobody
//! uses.
//!
//! **Each token is used once.** Whatever is done with tokens is one
//! compare-and-swap of the lease: its owner takes some for a call, another thread
//! that finds no room *claims* some for a call, or *reclaims* them all, and then
//! takes them out of the word of their box, as a giving back does. Between these
//! two steps of a reclaiming the tokens are in no lease and still in the sum, so
//! others may find too little room for that moment, never too much.
//!
//! **What tokens are good for.** They were reserved in one box under one limit,
//! which the lease says. They serve calls of that box under that limit: when they
//! were reserved the span held no more than that, they included. When a limit has
//! changed they go back. The full number of the box is in a
//! word of its own, that changes only while the lease is empty: who has seen tokens
//! and then a number, and finds the tokens unchanged, has the number that they are
//! of. (They look the same again after 2²⁴ boxes, 97 days of the second view; a
//! thread would have to sleep so long between two instructions.)
//!
//! **No token is overlooked.** Before its owner swaps the pass word to more than its
//! call needs, it *announces* that in the lease; afterwards it *fills* the lease by a
//! swap from just that announcement. So who sees a pass word sees all leases that
//! were announced for it, filled or not. One that is not filled yet is *called
//! off*: its owner then finds the announcement gone, and gives the tokens back
//! itself. Hence, of a caller that finds no room and then goes over all leases:
//! either it has got tokens, or sent some back, and looks again, or there were none
//! and the word that it has seen says the truth. Each filling also raises the epoch
//! of the word, so that it says so as long as it is the same
//! ([`super::passes`]).
//!
//! **When a box is sealed** no lease of it can be filled any more: the swap of its
//! pass word fails. Each thread that comes to a new box first reclaims what is left
//! of older ones, after sealing them. So the sums of sealed boxes are of real
//! passes, but for what somebody is just giving back.

use std::ops::RangeInclusive;

use crate::seat::Seat;
use crate::striped::{Own, Striped};
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

const TOKENS: u64 = 0xff;
/// In place of a number of tokens: they are being reserved.
const ANNOUNCED: u64 = TOKENS;
const BOX_SHIFT: u32 = 8;
const LIMIT_SHIFT: u32 = 32;
const BOX_MASK: u64 = (1 << (LIMIT_SHIFT - BOX_SHIFT)) - 1;

/// The most tokens that one lease holds.
const TOKENS_MAX: u64 = 128;
/// Which part of the room a lease is given, so that near the limit there are none
/// and each call reserves for itself. Models have little room.
const ROOM_PART: u64 = if cfg!(any(loom, shuttle)) { 2 } else { 16 };

/// How often a reader looks at the leases, to find them at rest.
const LOOKS_MAX: usize = if cfg!(loom) { 2 } else { 4 };

/// Passes reserved in advance by one thread, and what it knows of the box that
/// they are of. Made for a stripe: all but one word are written by its owner alone.
#[derive(Debug, Default)]
pub struct Lease {
    word: AtomicU64,
    /// The box that it is of, and its place in time, in the ring and in its lap.
    pub(super) number: Own,
    begin_ns: Own,
    end_ns: Own,
    pub(super) index: Own,
    pub(super) lap: Own,
    /// How many boxes before it are in its span, and the passes that they held.
    pub(super) earlier: Own,
    pub(super) sum: Own,
    /// The first window whose loans count in it.
    pub(super) first_window: Own,
    pub(super) refused: Refusal,
}

/// The last refusal, and the state of the ring that it follows from.
#[derive(Debug, Default)]
pub(super) struct Refusal {
    pub(super) word: Own,
    pub(super) limit: Own,
    /// Of the boxes before.
    pub(super) sum: Own,
    pub(super) weight: Own,
    pub(super) retry_ns: Own,
}

/// Where a box is found.
pub(super) struct Place {
    pub(super) number: u64,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    pub(super) index: usize,
    pub(super) lap: u64,
    pub(super) earlier: u64,
    pub(super) first_window: u64,
}

/// Tokens that were in a lease, and their box.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) number: u64,
    /// None, if the filling was called off: its owner gives them back.
    pub(super) tokens: u32,
}

/// All leases on one ring.
pub trait Leases {
    /// That of the calling thread, if it has one.
    fn mine(&self) -> Option<&Lease>;

    /// The same; the first thread that comes gets one now, and each if they are
    /// [spread](Self::is_spread).
    fn come(&self) -> Option<&Lease>;

    /// The caller has met another thread at the ring.
    fn meet(&self);

    /// Whether threads have met often, so that leases are worth their while.
    /// While it is not so all leases are empty.
    fn is_spread(&self) -> bool;

    /// All there are.
    fn all(&self) -> impl Iterator<Item = &Lease>;

    /// Passes in `boxes`, of which `counted` has those too that no call has had
    /// yet. Tokens that come and go meanwhile may be in one of the two readings
    /// only: so it looks again, a few times, and then rather takes them for passes.
    fn used(&self, boxes: &RangeInclusive<u64>, counted: impl Fn() -> u64) -> u64 {
        if !self.is_spread() {
            return counted();
        }
        let mut before = self.left_in(boxes);
        let mut looks = 1;
        loop {
            let passes = counted();
            let after = self.left_in(boxes);
            if before == after || looks == LOOKS_MAX {
                return passes.saturating_sub(before.min(after));
            }
            before = after;
            looks += 1;
        }
    }

    /// Tokens in `boxes` that no call has had yet.
    fn left_in(&self, boxes: &RangeInclusive<u64>) -> u64 {
        let left = self.all().filter_map(Lease::left);
        let within = left.filter(|left| boxes.contains(&left.number));
        within.map(|left| u64::from(left.tokens)).sum()
    }
}

impl Leases for Striped<Lease> {
    #[inline]
    fn mine(&self) -> Option<&Lease> {
        Striped::mine(self, Seat::mine())
    }

    fn come(&self) -> Option<&Lease> {
        self.mine_or_first(Seat::mine())
    }

    #[cold]
    fn meet(&self) {
        self.mine_or_meet(Seat::mine());
    }

    #[inline]
    fn is_spread(&self) -> bool {
        Striped::is_spread(self)
    }

    fn all(&self) -> impl Iterator<Item = &Lease> {
        self.iter()
    }
}

/// How many tokens a lease is given while there is room for `room` more passes.
#[inline]
pub(super) fn share_of(room: u64, limit: u64) -> u64 {
    match limit >> (u64::BITS - LIMIT_SHIFT) {
        0 => (room / ROOM_PART).min(TOKENS_MAX),
        // It does not fit the word.
        _ => 0,
    }
}

impl Lease {
    /// Whether `now` is in its box.
    #[inline]
    pub(super) fn holds(&self, now: Timestamp) -> bool {
        let now = now.as_nanos();
        self.begin_ns.get() <= now && now < self.end_ns.get()
    }

    /// When its box begins.
    pub(super) fn begin(&self) -> Timestamp {
        Timestamp::from_nanos(self.begin_ns.get())
    }

    /// Whether it was ever of a box.
    pub(super) fn was_used(&self) -> bool {
        self.end_ns.get() != 0
    }

    /// Takes `n` tokens, at least one, for a call of its box under `limit`: for
    /// its owner.
    #[inline]
    pub(super) fn take(&self, n: u32, limit: u64) -> bool {
        let mut word = self.word.load(Ordering::Acquire);
        while serves(word, n, limit) {
            match self.swap(word, word - u64::from(n)) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    /// The same for a call of another thread, in box `number`.
    pub(super) fn claim(&self, number: u64, n: u32, limit: u64) -> bool {
        let mut word = self.word.load(Ordering::Acquire);
        // The number after the word: see the head of this file.
        while serves(word, n, limit) && self.number.get() == number && is_of(word, number) {
            match self.swap(word, word - u64::from(n)) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    /// Empties it, if its box is one of `which`, and returns what was in it: to be
    /// taken out of the word of that box.
    pub(super) fn empty(&self, which: impl Fn(u64) -> bool) -> Option<Left> {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word & TOKENS == 0 {
                return None;
            }
            let number = self.number.get();
            if is_of(word, number) {
                if !which(number) {
                    return None;
                }
                if self.swap(word, word & !TOKENS).is_ok() {
                    return Some(left(number, word));
                }
            }
            word = self.word.load(Ordering::Acquire);
        }
    }

    /// What is in it.
    fn left(&self) -> Option<Left> {
        let word = self.word.load(Ordering::Acquire);
        let number = self.number.get();
        (word & TOKENS != 0 && is_of(word, number)).then(|| left(number, word))
    }

    /// Goes on to another box. Only for its owner, and while it is empty.
    pub(super) fn move_to(&self, place: &Place) {
        self.number.set(place.number);
        self.begin_ns.set(place.begin_ns);
        self.end_ns.set(place.end_ns);
        self.index.set(place.index as u64);
        self.lap.set(place.lap);
        self.earlier.set(place.earlier);
        self.first_window.set(place.first_window);
        // No word is zero: it has a lap.
        self.refused.word.set(0);
    }

    /// Says that tokens of its box are about to be reserved under `limit`. Only for
    /// its owner, and while it is empty: nobody else writes to it then.
    pub(super) fn announce(&self, limit: u64) -> Announcement<'_> {
        let word = (limit << LIMIT_SHIFT) | ((self.number.get() & BOX_MASK) << BOX_SHIFT);
        // Release: who sees it sees the number of the box.
        self.word.store(word | ANNOUNCED, Ordering::Release);
        Announcement { lease: self, word }
    }

    #[inline]
    fn swap(&self, from: u64, to: u64) -> Result<u64, u64> {
        self.word
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }
}

/// Tokens are being reserved for a lease.
#[must_use]
pub(super) struct Announcement<'a> {
    lease: &'a Lease,
    word: u64,
}

impl Announcement<'_> {
    /// They were, `tokens` of them; false if it was called off, and they are to be
    /// given back.
    pub(super) fn fill(self, tokens: u64) -> bool {
        let Announcement { lease, word } = self;
        lease.swap(word | ANNOUNCED, word | tokens).is_ok()
    }

    /// They were not.
    pub(super) fn withdraw(self) {
        // If it fails it was called off.
        let _ = self.fill(0);
    }
}

/// Whether there are `n` tokens, of just this limit.
#[inline]
fn serves(word: u64, n: u32, limit: u64) -> bool {
    let tokens = word & TOKENS;
    tokens != ANNOUNCED && tokens >= u64::from(n) && word >> LIMIT_SHIFT == limit
}

fn is_of(word: u64, number: u64) -> bool {
    (word >> BOX_SHIFT) & BOX_MASK == number & BOX_MASK
}

fn left(number: u64, word: u64) -> Left {
    let tokens = match word & TOKENS {
        ANNOUNCED => 0,
        tokens => tokens as u32,
    };
    Left { number, tokens }
}

//! What is counted beside a ring.
//!
//! Threads may keep what they count of the present window to themselves, and
//! move it into the ring when the window is over. A sum over windows adds both,
//! and **first what is beside the ring, then the ring**: an amount is put into
//! the ring before it is taken away where it was, so whoever finds it gone there
//! finds it here, and none is missed. Who meets a move counts it twice: a
//! decision is then on the safe side, and a reading is made anew ([`at_rest`]).

use std::fmt;

use crate::sync::{Ordering, fence};

/// How often a reading is made anew that something was moved under. A move takes
/// a tenth of a microsecond, once per window and thread; only one whose thread
/// was put to sleep in the middle of it lasts longer than so many looks.
const LOOKS_MAX: usize = 8;

/// What is counted beside a ring.
pub trait Beside: Default + fmt::Debug {
    /// Whether passes of window `first` or a later one may be here.
    fn may_hold(&self, first: u64) -> bool;

    /// Passes of the windows `first..=last`.
    fn passes(&self, first: u64, last: u64) -> u64;

    /// A number that grows with every move into the ring; `None` while one is
    /// under way.
    fn moves(&self) -> Option<u64>;
}

/// Nothing is.
impl Beside for () {
    #[inline]
    fn may_hold(&self, _: u64) -> bool {
        false
    }

    #[inline]
    fn passes(&self, _: u64, _: u64) -> u64 {
        0
    }

    #[inline]
    fn moves(&self) -> Option<u64> {
        Some(0)
    }
}

/// Reads while nothing is moved. Where that does not succeed within a few looks
/// the last one stands: it has missed nothing, and may have counted twice what
/// one thread holds of one window.
#[inline]
pub(crate) fn at_rest<R>(beside: &impl Beside, read: impl Fn() -> R) -> R {
    for _ in 1..LOOKS_MAX {
        if let Ok(found) = look(beside, &read) {
            return found;
        }
    }
    read()
}

/// One such look; what was found comes as an error if something was moved.
#[inline]
pub(crate) fn look<R>(beside: &impl Beside, read: impl Fn() -> R) -> Result<R, R> {
    let before = beside.moves();
    let found = read();
    // Acquire: who has read what a move has written sees that it began.
    fence(Ordering::Acquire);
    match before.is_some() && beside.moves() == before {
        true => Ok(found),
        false => Err(found),
    }
}

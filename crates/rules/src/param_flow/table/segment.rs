//! Where slots and chains are: memory that grows and never moves.
//!
//! Slots stand in segments, each twice as long as the one before. Whoever holds
//! a slot keeps it, whatever is added.
//!
//! Linear hashing: with `n` slots there are `n` chains. A hash belongs to chain
//! `hash mod 2^k`, `2^k` being the least power of two not below `n`, or, where
//! there is no such chain yet, to `hash mod 2^(k-1)`. One slot more splits one
//! chain in two. So the index grows with the slots, a step at a time. Its heads
//! stand apart from the slots, sixteen in a cache line, so that those of a
//! million values still fit into a cache.

use flowgate_core::sync::AtomicU32;

use super::slot::Slot;
use super::{Cell, NONE};

/// Slots of the first segment; each one has twice as many as the one before. Few,
/// as a rule by a pattern has a table for every resource that it meets.
#[cfg(not(loom))]
const FIRST: usize = 8;
#[cfg(loom)]
const FIRST: usize = 1;
/// Enough for more slots than a rule may ask for.
pub(super) const SEGMENTS: usize = 26;

/// Some slots, and as many chains.
#[derive(Debug)]
pub(super) struct Segment<C> {
    pub(super) slots: Box<[Slot<C>]>,
    /// The first slot of the chain that has the number of each slot.
    pub(super) firsts: Box<[AtomicU32]>,
}

impl<C: Cell> Segment<C> {
    /// Makes segment `number`.
    pub(super) fn number(number: usize) -> impl FnOnce() -> Self {
        move || {
            let slots = 0..FIRST << number;
            Segment {
                slots: slots.clone().map(|_| Slot::new()).collect(),
                firsts: slots.map(|_| AtomicU32::new(NONE)).collect(),
            }
        }
    }
}

/// Where slot `local` is: segment `k` has `FIRST · 2^k` slots.
#[inline]
pub(super) fn segment_of(local: usize) -> (usize, usize) {
    let segment = (local / FIRST + 1).ilog2() as usize;
    (segment, local - FIRST * ((1 << segment) - 1))
}

/// The chain of `hash` when there are `len` of them.
#[inline]
pub(super) fn chain_of(hash: u64, len: u32) -> Option<u32> {
    let full = u64::from(len).checked_next_power_of_two()?;
    let chain = (hash & (full - 1)) as u32;
    match len {
        0 => None,
        _ if chain < len => Some(chain),
        _ => Some((hash & (full / 2 - 1)) as u32),
    }
}

//! Where slots and chains are: memory that grows and never moves.
//!
//! Slots stand in segments, each twice as long as the one before until they are
//! [`LARGEST`] long, so that no caller has to make much at once. Whoever holds a
//! slot keeps it, whatever is added. The shards of a table share the segments:
//! slot `local` of shard `s` of `n` has the number `local · n + s`. So a table with
//! few values is small, however many shards it has.
//!
//! Linear hashing: with `n` slots a shard has `n` chains. A hash belongs to chain
//! `hash mod 2^k`, `2^k` being the least power of two not below `n`, or, where
//! there is no such chain yet, to `hash mod 2^(k-1)`. One slot more splits one
//! chain in two. So the index grows with the slots, a step at a time.
//!
//! **One cold line per value.** Heads and links of chains stand apart from the
//! slots, sixteen in a cache line: those of a million values still fit into a
//! cache. A [`Link`] says where the next slot is, and seven bits of its value's
//! hash. So of the slots, which are in memory, nearly always only the one that
//! is looked for is touched.
//!
//! **Wide keys.** Numbers below 2^63 and texts of up to seven bytes need one word.
//! The second word of the others stands in a list of its own, which a segment has
//! only if it has such a value.

use flowgate_core::sync::{AtomicU32, AtomicU64, OnceLock, Ordering};

use super::slot::Slot;
use super::{Cell, Key};

/// Slots of the first segment. Few, as a rule by a pattern has a table for every
/// resource that it meets.
#[cfg(not(loom))]
const FIRST: usize = 16;
#[cfg(loom)]
const FIRST: usize = 1;
/// How often segments double.
const DOUBLINGS: usize = 11;
/// Slots of all later segments: about a megabyte.
const LARGEST: usize = FIRST << DOUBLINGS;
/// Slots of all segments before the first of the largest.
const BEFORE: usize = LARGEST - FIRST;

/// Where a chain goes on: `slot (25 bits) | tag (7)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Link(pub(super) u32);

impl Link {
    /// The end of a chain.
    pub(super) const END: Link = Link(u32::MAX);
    const TAG_BITS: u32 = 7;
    /// The most slots of a shard.
    pub(super) const SLOTS_MAX: u32 = u32::MAX >> Self::TAG_BITS;

    /// To slot `local`, whose value has `hash`.
    pub(super) fn to(local: u32, hash: u64) -> Self {
        Link((local << Self::TAG_BITS) | Self::tag(hash))
    }

    #[inline]
    pub(super) fn local(self) -> Option<u32> {
        let local = self.0 >> Self::TAG_BITS;
        (local != Self::SLOTS_MAX).then_some(local)
    }

    /// Whether its value can be that of `hash`.
    #[inline]
    pub(super) fn may_be(self, hash: u64) -> bool {
        self.0 & ((1 << Self::TAG_BITS) - 1) == Self::tag(hash)
    }

    /// The uppermost bits: chains and shards go by others.
    #[inline]
    fn tag(hash: u64) -> u32 {
        (hash >> (u64::BITS - Self::TAG_BITS)) as u32
    }
}

/// Some slots, and as many chains.
#[derive(Debug)]
pub(super) struct Segment<C: Cell> {
    slots: Box<[Slot<C>]>,
    /// Where the chain of each number begins.
    heads: Box<[AtomicU32]>,
    /// Where the chain that a slot is in goes on after it.
    links: Box<[AtomicU32]>,
    /// The second words of keys.
    wide: OnceLock<Box<[AtomicU64]>>,
}

impl<C: Cell> Segment<C> {
    fn of(slots: usize) -> Self {
        let ends = || (0..slots).map(|_| AtomicU32::new(Link::END.0)).collect();
        Segment {
            slots: (0..slots).map(|_| Slot::new()).collect(),
            heads: ends(),
            links: ends(),
            wide: OnceLock::new(),
        }
    }

    fn bytes(&self) -> usize {
        let wide = self.wide.get().map_or(0, |wide| wide.len());
        let each = size_of::<Slot<C>>() + 2 * size_of::<AtomicU32>();
        size_of::<Self>() + self.slots.len() * each + wide * size_of::<AtomicU64>()
    }
}

/// All segments of a table, made as they are needed.
#[derive(Debug)]
pub(super) struct Segments<C: Cell> {
    each: Box<[OnceLock<Box<Segment<C>>>]>,
}

/// One slot of a segment.
#[derive(Debug)]
pub(super) struct Place<'a, C: Cell> {
    segment: &'a Segment<C>,
    pub(super) slot: &'a Slot<C>,
    offset: usize,
}

impl<C: Cell> Segments<C> {
    /// Room for `slots` slots.
    pub(super) fn new(slots: usize) -> Self {
        let (last, _) = segment_of(slots);
        Segments {
            each: (0..=last).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Makes the segment of slot `number`, if it is not there. `None`: there is no
    /// room for so many.
    pub(super) fn make(&self, number: u32) -> Option<()> {
        let (segment, _) = segment_of(number as usize);
        let slots = FIRST << segment.min(DOUBLINGS);
        self.each
            .get(segment)?
            .get_or_init(|| Box::new(Segment::of(slots)));
        Some(())
    }

    #[inline]
    pub(super) fn place(&self, number: u32) -> Option<Place<'_, C>> {
        let (segment, offset) = segment_of(number as usize);
        let segment = self.each.get(segment)?.get()?;
        let slot = segment.slots.get(offset)?;
        Some(Place {
            segment,
            slot,
            offset,
        })
    }

    /// Where chain `number` begins.
    #[inline]
    pub(super) fn head(&self, number: u32) -> Option<&AtomicU32> {
        let (segment, offset) = segment_of(number as usize);
        self.each.get(segment)?.get()?.heads.get(offset)
    }

    /// Where the chain of slot `number` goes on.
    #[inline]
    pub(super) fn link(&self, number: u32) -> Option<&AtomicU32> {
        let (segment, offset) = segment_of(number as usize);
        self.each.get(segment)?.get()?.links.get(offset)
    }

    pub(super) fn bytes(&self) -> usize {
        let made = self.each.iter().filter_map(OnceLock::get);
        size_of_val(&*self.each) + made.map(|segment| segment.bytes()).sum::<usize>()
    }
}

impl<'a, C: Cell> Place<'a, C> {
    /// Whether `key` stands here. Certain under a pin or under the lock of the
    /// shard, elsewhere a hint.
    #[inline]
    pub(super) fn holds(&self, key: Key) -> bool {
        let high = (key.bits >> 64) as u64;
        self.slot.holds(key.kind, high != 0, key.bits as u64) && (high == 0 || self.high() == high)
    }

    /// The key, as certain as [`holds`](Self::holds).
    pub(super) fn key(&self) -> Key {
        let (kind, is_wide, low) = self.slot.key_parts();
        let high = if is_wide { self.high() } else { 0 };
        Key {
            kind,
            bits: (u128::from(high) << 64) | u128::from(low),
        }
    }

    /// Gives the slot, which is closed and as good as new, to another value.
    pub(super) fn assign(&self, key: Key) {
        let high = (key.bits >> 64) as u64;
        if high != 0 {
            let slots = self.segment.slots.len();
            let none = || (0..slots).map(|_| AtomicU64::new(0)).collect();
            let wide = self.segment.wide.get_or_init(none);
            if let Some(word) = wide.get(self.offset) {
                // The slot is opened with a release after this.
                word.store(high, Ordering::Relaxed);
            }
        }
        self.slot.assign(key.kind, high != 0, key.bits as u64);
    }

    /// The second word of a wide key.
    fn high(&self) -> u64 {
        let word = self.segment.wide.get();
        let word = word.and_then(|wide| wide.get(self.offset));
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }
}

/// Where slot `number` is: segment `k` has `FIRST · 2^k` slots, and no more than
/// the largest.
#[inline]
fn segment_of(number: usize) -> (usize, usize) {
    match number.checked_sub(BEFORE) {
        None => {
            let segment = (number / FIRST + 1).ilog2() as usize;
            (segment, number - FIRST * ((1 << segment) - 1))
        }
        Some(beyond) => (DOUBLINGS + beyond / LARGEST, beyond % LARGEST),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_one_another_without_a_gap() {
        let mut expected = (0, 0);
        for number in 0..BEFORE + 3 * LARGEST {
            let (segment, offset) = segment_of(number);
            assert_eq!((segment, offset), expected, "{number}");
            expected = match offset + 1 == FIRST << segment.min(DOUBLINGS) {
                true => (segment + 1, 0),
                false => (segment, offset + 1),
            };
        }
    }

    #[test]
    fn a_link_says_where_it_goes_and_what_may_be_there() {
        for (local, hash) in [(0, 0), (7, u64::MAX), (Link::SLOTS_MAX - 1, 1 << 60)] {
            let link = Link::to(local, hash);
            assert_eq!(link.local(), Some(local));
            assert!(link.may_be(hash));
            assert!(!link.may_be(!hash));
        }
        assert_eq!(Link::END.local(), None);
    }
}

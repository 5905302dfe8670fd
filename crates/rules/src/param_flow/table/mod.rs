//! The values that one rule remembers of one resource: a bounded table that is
//! read without a lock.
//!
//! **Shape.** Slots of half a cache line or little more ([`slot`]), in segments
//! that grow with the values seen; a table that has seen none has no segment. They
//! are chained into buckets by linear hashing: as many buckets as slots, and each
//! new slot splits one bucket. The table is cut into up to [`SHARDS_MAX`] shards
//! ([`shard`]), each with a lock of its own for whoever adds a value.
//!
//! **A known value** is found by following its chain, without a lock and without
//! an allocation: links know a few bits of the hash, so as a rule one slot is
//! touched; a hint compares the key, a pin makes it certain. While it is
//! pinned, its [`Cell`] is worked on with the cell's own atomics. Chains may
//! change under a reader's feet; one that finds nothing goes the slow way.
//!
//! **A new value** takes its shard's lock and looks again: the slow way is always
//! right. It gets a new slot while there are fewer values than allowed, else the
//! slot of a value that is forgotten.
//!
//! **Whom to forget.** A hand goes round the slots, as in the clock algorithm, and
//! halves the heat of those it passes. The first value whose cell is as good as
//! new goes, for nothing is lost with it; else the least hot of [`SAMPLE`] values
//! that are not limited now. A value that is limited, or has calls in flight,
//! never goes: the slot is closed first and looked at again then, so no call can
//! come in between; if one did before, another is looked for. If [`SWEEP_MAX`]
//! slots hold values only that are limited or just being worked on, newcomers
//! share one cell, the overflow.
//!
//! **A ticket** names the slot and its generation. If the slot is closed just
//! then, whoever closed it is waited for: the value may turn out to stay.
//!
//! **What it guarantees.** A value is in one slot at most, and what was taken from
//! its cell stays taken until the value is forgotten. A value that is forgotten
//! while not limited begins anew when it comes back. A ticket for a forgotten
//! value opens nothing.
//!
//! Why not a general concurrent map? The hard part is not the map but forgetting:
//! a cell must not vanish between the look at it and the taking, nor must the
//! look for a victim cost a walk. That needs pins, heat and a hand in the entry
//! itself; with them in a slot, a chain of `u32` is all that is left of the map,
//! and exits find their value by number, without the key.

mod segment;
mod shard;
mod slot;

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::hash::RandomState;

use flowgate_core::Timestamp;
use flowgate_core::sync::{AtomicU64, OnceLock, Ordering};

use segment::Segments;
use shard::{Part, Shard};
use slot::Slot;
pub(crate) use slot::{Address, Pinned};

/// No slot.
const NONE: u32 = u32::MAX;
/// Values per shard that make one more shard worth it.
const PER_SHARD: usize = 512;
const SHARDS_MAX: usize = 16;
/// Values among which the least used is looked for.
const SAMPLE: usize = 16;
/// Slots that a newcomer looks at before it shares the overflow.
const SWEEP_MAX: usize = 64;
/// How often a newcomer looks for another value to forget when a call was faster.
const TRIES_MAX: usize = 8;

/// What a value is known by: 128 bits and what they mean. Equal keys are equal
/// values. Keys below 2^64 take less memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    /// Less than 8.
    pub(crate) kind: u8,
    pub(crate) bits: u128,
}

/// What one value has used up, in atomics.
pub(crate) trait Cell: Default {
    /// What bounds it.
    type Limit;
    /// Something that begins where slots are to begin: if two of them fill a
    /// cache line, none may lie across two.
    type Align: std::fmt::Debug;

    /// Makes it as good as new from `since` on, the latest time at which a value
    /// was forgotten. Nobody else looks at it meanwhile.
    fn reset(&self, limit: &Self::Limit, since: Timestamp);

    /// How it stands at `now`, for a call of `weight`.
    fn standing(&self, limit: &Self::Limit, weight: u32, now: Timestamp) -> Standing;
}

/// Half a cache line.
#[derive(Debug)]
#[repr(align(32))]
pub(crate) struct HalfLine;

/// How a value stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// As good as new: nothing is lost if it is forgotten.
    Idle,
    /// Some of its limit is used.
    InUse,
    /// A call would not pass at once, or calls are in flight.
    Limited,
}

/// A value with a limit of its own.
#[derive(Debug)]
pub(crate) struct Special<L> {
    pub(crate) key: Key,
    /// Its text, where the key is only its digest.
    pub(crate) text: Option<Box<str>>,
    pub(crate) limit: L,
}

/// A bounded table of values.
#[derive(Debug)]
pub(crate) struct Table<C: Cell> {
    limit: C::Limit,
    /// Limits of the values that have one of their own.
    special: Box<[C::Limit]>,
    /// Made for the first value, as many tables never see one.
    store: OnceLock<Box<Store<C>>>,
    overflow: Slot<C>,
    mixer: Mixer,
    values_max: u64,
    /// Values remembered, those with limits of their own not among them.
    values: AtomicU64,
    evicted: AtomicU64,
    overflowed: AtomicU64,
}

/// Where a table keeps its values.
#[derive(Debug)]
struct Store<C: Cell> {
    shards: Box<[Shard]>,
    segments: Segments<C>,
}

impl<C: Cell> Store<C> {
    /// For `values_max` values, and `special` ones on top.
    fn new(values_max: usize, special: usize) -> Self {
        let shards = (values_max / PER_SHARD).clamp(1, SHARDS_MAX);
        let shards = 1 << shards.ilog2();
        // Values spread over shards evenly, but not quite.
        let slots = match shards {
            1 => values_max + special,
            _ => 2 * values_max + shards * special,
        };
        Store {
            shards: (0..shards).map(|_| Shard::new()).collect(),
            segments: Segments::new(slots),
        }
    }

    /// The number of the shard of `hash`. By upper bits: the lower ones choose the
    /// chain.
    #[inline]
    fn number_of(&self, hash: u64) -> usize {
        (hash >> 48) as usize & (self.shards.len() - 1)
    }

    /// Shard `number`.
    #[inline]
    fn part(&self, number: usize) -> Option<Part<'_, C>> {
        Part::of(&self.shards, &self.segments, number)
    }

    fn parts(&self) -> impl Iterator<Item = Part<'_, C>> {
        (0..self.shards.len()).filter_map(|number| self.part(number))
    }

    fn bytes(&self) -> usize {
        let shards = self.shards.iter().map(Shard::bytes).sum::<usize>();
        size_of::<Self>() + self.segments.bytes() + shards
    }
}

/// What a table has remembered, forgotten and turned away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) values: u64,
    pub(crate) evicted: u64,
    pub(crate) overflowed: u64,
    pub(crate) bytes: usize,
}

impl<C: Cell> Table<C> {
    /// A table of at most `values_max` values under `limit`, and of `special`
    /// values with limits of their own, which are never forgotten. Of values
    /// given twice the first counts.
    pub(crate) fn new(values_max: usize, limit: C::Limit, special: Vec<Special<C::Limit>>) -> Self {
        let overflow = Slot::new();
        overflow.reopen();
        let mut table = Table {
            limit,
            special: Box::default(),
            store: OnceLock::new(),
            overflow,
            mixer: Mixer::random(),
            values_max: values_max as u64,
            values: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
        };
        if !special.is_empty() {
            table.add_special(special);
        }
        table
    }

    fn add_special(&mut self, special: Vec<Special<C::Limit>>) {
        let mut store = Store::new(self.values_max as usize, special.len());
        let mut limits = Vec::with_capacity(special.len());
        let mut known = HashSet::with_capacity(special.len());
        for Special { key, text, limit } in special {
            if !known.insert((key.kind, key.bits)) {
                continue;
            }
            limits.push(limit);
            let hash = self.mixer.hash(key);
            let number = store.number_of(hash);
            if let Some(shard) = store.shards.get_mut(number) {
                shard.expect_special(u16::try_from(limits.len()).unwrap_or(0));
            }
            if let Some(part) = store.part(number) {
                part.insert_special(self, key, hash, text.as_deref());
            }
        }
        self.special = limits.into();
        self.store = OnceLock::new();
        self.store.get_or_init(|| Box::new(store));
    }

    /// Limit number `at`, as a shard has it: 0 is everybody's.
    #[inline]
    pub(crate) fn limit(&self, at: u16) -> &C::Limit {
        let special = usize::from(at).checked_sub(1);
        special
            .and_then(|at| self.special.get(at))
            .unwrap_or(&self.limit)
    }

    /// The value, if it is remembered. May miss one that is just being moved.
    #[inline]
    pub(crate) fn find(&self, key: Key) -> Option<Pinned<'_, C>> {
        let hash = self.mixer.hash(key);
        let store = self.store.get()?;
        let part = store.part(store.number_of(hash))?;
        let (place, local) = part.find(key, hash)?;
        place.slot.warm();
        let limit = part.shard.limit_of(local);
        Some(Pinned::adopt(place.slot, part.id(local), hash, limit))
    }

    /// The value, which is remembered from now on; the overflow if there is no
    /// room for it. `text` is the value's text where the key is only its digest.
    #[cold]
    pub(crate) fn insert(&self, key: Key, text: Option<&str>, now: Timestamp) -> Pinned<'_, C> {
        let hash = self.mixer.hash(key);
        let store = self
            .store
            .get_or_init(|| Box::new(Store::new(self.values_max as usize, 0)));
        let part = store.part(store.number_of(hash));
        let found = part.and_then(|part| {
            let (place, local) = part.insert(self, key, hash, text, now)?;
            place.slot.warm();
            let limit = part.shard.limit_of(local);
            Some(Pinned::adopt(place.slot, part.id(local), hash, limit))
        });
        found.unwrap_or_else(|| {
            // Relaxed: a figure to read.
            self.overflowed.fetch_add(1, Ordering::Relaxed);
            self.pin_overflow()
        })
    }

    /// The value at `address`, if it is still there.
    #[inline]
    pub(crate) fn at(&self, address: Address) -> Option<Pinned<'_, C>> {
        if address.id == NONE {
            return Some(self.pin_overflow());
        }
        let store = self.store.get()?;
        let part = store.part(address.id as usize & (store.shards.len() - 1))?;
        let local = address.id >> store.shards.len().trailing_zeros();
        let place = part.pin(local)?;
        let hash = self.mixer.hash(place.key());
        let limit = part.shard.limit_of(local);
        let pinned = Pinned::adopt(place.slot, address.id, hash, limit);
        (pinned.address() == address).then_some(pinned)
    }

    /// What newcomers share. It is never closed.
    fn pin_overflow(&self) -> Pinned<'_, C> {
        self.overflow.pin();
        Pinned::adopt(&self.overflow, NONE, 0, 0)
    }

    /// Calls `visit` with each value remembered: its key, the text of keys that
    /// are digests, and how many calls passed and were refused. Newcomers wait
    /// now and then.
    pub(crate) fn each(&self, mut visit: impl FnMut(Key, Option<&str>, (u64, u64))) {
        let parts = self.store.get().into_iter().flat_map(|store| store.parts());
        parts.for_each(|part| part.each(&mut visit));
    }

    /// What it has remembered, forgotten and turned away.
    pub(crate) fn figures(&self) -> Figures {
        let store = self.store.get();
        let shards = store.into_iter().flat_map(|store| &store.shards);
        Figures {
            values: shards.map(|shard| u64::from(shard.len())).sum(),
            evicted: self.evicted.load(Ordering::Relaxed),
            overflowed: self.overflowed.load(Ordering::Relaxed),
            bytes: size_of::<Self>()
                + size_of_val(&*self.special)
                + store.map_or(0, |store| store.bytes()),
        }
    }

    /// Counts one value more, if that is not too many.
    fn count_one(&self) -> bool {
        // Relaxed: the number stands for itself.
        let grown = self
            .values
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |values| {
                (values < self.values_max).then_some(values + 1)
            });
        grown.is_ok()
    }

    /// The value that was counted has found no room.
    fn uncount_one(&self) {
        self.values.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Spreads keys over chains. Keyed at random, for values come from outside: who
/// does not know the keys cannot choose values that share a chain.
#[derive(Debug)]
pub(crate) struct Mixer {
    keys: [u64; 3],
}

impl Mixer {
    fn random() -> Self {
        let random = RandomState::new();
        // A model has to be the same each time.
        let key = |n: u64| match cfg!(any(loom, shuttle)) {
            true => n * 0x2545_f491_4f6c_dd1d,
            false => random.hash_one(n),
        };
        Mixer {
            keys: [1, 2, 3].map(key),
        }
    }

    #[inline]
    fn hash(&self, key: Key) -> u64 {
        let [a, b, c] = self.keys;
        let low = key.bits as u64 ^ a;
        let high = (key.bits >> 64) as u64 ^ b ^ u64::from(key.kind);
        // An odd number with bits all over: 2^64 / golden ratio.
        fold(fold(low, high) ^ c, 0x9e37_79b9_7f4a_7c15)
    }
}

/// Both halves of the product, over each other.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

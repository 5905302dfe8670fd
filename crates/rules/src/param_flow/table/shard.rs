//! One shard of a table: its slots, their chains, and the lock of whoever adds a
//! value. Where they are and which chain a value belongs to says
//! [`super::segment`].
//!
//! Orderings. Links and the length are stored with release and loaded with
//! acquire, so a reader that follows a link sees the chain as it was when the
//! link was made. It may still stray into another chain when a slot moves on
//! under its feet; then it finds nothing, or by chance what it looks for, and
//! both are right. Under the lock, relaxed loads see what the last writer left.

use std::collections::HashMap;
use std::ops::DerefMut;

use flowgate_core::Timestamp;
use flowgate_core::sync::{AtomicU32, Mutex, Ordering, unpoisoned};

use super::segment::{Link, Place, Segments, chain_of};
use super::{Cell, Key, SAMPLE, SWEEP_MAX, Standing, TRIES_MAX, Table};

/// A longer chain is walked under the lock. Chains have one or two slots.
const STEPS_MAX: usize = 64;
/// How many slots are looked at under one lock when all are read.
const READ_AT_ONCE: u32 = 256;

#[derive(Debug)]
pub(super) struct Shard {
    /// Slots in use, and chains.
    len: AtomicU32,
    /// Limits of the values that have their own. They come first, and are never
    /// forgotten.
    special: Vec<u16>,
    writer: Mutex<Writer>,
}

#[derive(Debug, Default)]
struct Writer {
    /// The slot that the sweep looks at next.
    hand: u32,
    /// The latest time at which a value was forgotten.
    forgotten: Timestamp,
    /// Texts of the values whose keys are digests, by slot. Most shards have none.
    #[expect(clippy::box_collection, reason = "a shard is half as long without")]
    texts: Option<Box<HashMap<u32, Box<str>>>>,
}

/// A shard, and where its slots are.
#[derive(Debug)]
pub(super) struct Part<'a, C: Cell> {
    pub(super) shard: &'a Shard,
    segments: &'a Segments<C>,
    /// Which of the shards it is, and how many bits that number has.
    number: u32,
    bits: u32,
}

impl Shard {
    pub(super) fn new() -> Self {
        Shard {
            len: AtomicU32::new(0),
            special: Vec::new(),
            writer: Mutex::new(Writer::default()),
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    /// Memory, without that of the slots.
    pub(super) fn bytes(&self) -> usize {
        let texts = self.lock().texts.as_ref().map_or(0, |texts| {
            let each = texts.values().map(|text| text.len() + 32);
            size_of_val(&**texts) + each.sum::<usize>()
        });
        size_of::<Self>() + self.special.capacity() * size_of::<u16>() + texts
    }

    /// The next value added is a special one, with limit number `limit`.
    pub(super) fn expect_special(&mut self, limit: u16) {
        self.special.push(limit);
    }

    /// Number of the limit of the value in slot `local`: 0 is everybody's.
    #[inline]
    pub(super) fn limit_of(&self, local: u32) -> u16 {
        self.special.get(local as usize).copied().unwrap_or(0)
    }

    fn lock(&self) -> impl DerefMut<Target = Writer> + '_ {
        // Every step leaves the chains whole, so a panic has broken nothing.
        unpoisoned(self.writer.lock())
    }
}

impl<'a, C: Cell> Part<'a, C> {
    /// Shard `number` of `shards`, which are a power of two.
    #[inline]
    pub(super) fn of(
        shards: &'a [Shard],
        segments: &'a Segments<C>,
        number: usize,
    ) -> Option<Self> {
        Some(Part {
            shard: shards.get(number)?,
            segments,
            number: number as u32,
            bits: shards.len().trailing_zeros(),
        })
    }

    /// The number of slot or chain `local` among those of all shards.
    #[inline]
    pub(super) fn id(&self, local: u32) -> u32 {
        (local << self.bits) | self.number
    }

    #[inline]
    fn place(&self, local: u32) -> Option<Place<'a, C>> {
        self.segments.place(self.id(local))
    }

    /// The slot, pinned, whatever value it has by then.
    #[inline]
    pub(super) fn pin(&self, local: u32) -> Option<Place<'a, C>> {
        let place = self.place(local)?;
        (place.slot.pin() || self.pin_locked(&place)).then_some(place)
    }

    /// Waits for whoever has closed the slot, which may have done so only to look
    /// at it once more.
    #[cold]
    fn pin_locked(&self, place: &Place<'_, C>) -> bool {
        let _writer = self.shard.lock();
        place.slot.pin()
    }

    /// Where the chain of `hash` begins.
    #[inline]
    fn head(&self, hash: u64) -> Option<&'a AtomicU32> {
        let chain = chain_of(hash, self.shard.len())?;
        self.segments.head(self.id(chain))
    }

    /// Where the chain goes on after slot `local`.
    #[inline]
    fn link(&self, local: u32) -> Option<&'a AtomicU32> {
        self.segments.link(self.id(local))
    }

    /// The slot of `key`, pinned, without a lock. May miss it while chains
    /// change.
    #[inline]
    pub(super) fn find(&self, key: Key, hash: u64) -> Option<(Place<'a, C>, u32)> {
        let mut word = self.head(hash)?;
        for _ in 0..STEPS_MAX {
            let link = Link(word.load(Ordering::Acquire));
            let local = link.local()?;
            if link.may_be(hash) {
                let place = self.place(local)?;
                if place.holds(key) && place.slot.pin() {
                    if place.holds(key) {
                        return Some((place, local));
                    }
                    place.slot.unpin();
                }
            }
            word = self.link(local)?;
        }
        None
    }

    /// The slot of `key`, pinned; a new one if there is none. `None` if there is
    /// no room for it.
    pub(super) fn insert(
        &self,
        table: &Table<C>,
        key: Key,
        hash: u64,
        text: Option<&str>,
        now: Timestamp,
    ) -> Option<(Place<'a, C>, u32)> {
        let mut writer = self.shard.lock();
        if let Some((place, local)) = self.find_locked(key, hash) {
            // Under the lock nobody closes it.
            place.slot.pin();
            return Some((place, local));
        }
        let local = match self.grow(table) {
            Some(local) => local,
            None => {
                let local = self.forget_one(table, &mut writer, now)?;
                // Relaxed: a figure to read.
                table.evicted.fetch_add(1, Ordering::Relaxed);
                local
            }
        };
        let place = self.settle(&mut writer, local, key, hash, text)?;
        Some((place, local))
    }

    /// Adds a value that is never forgotten, if it is not there: the next that
    /// the shard expects.
    pub(super) fn insert_special(&self, table: &Table<C>, key: Key, hash: u64, text: Option<&str>) {
        let mut writer = self.shard.lock();
        if let Some(local) = self.add_slot(table)
            && let Some(place) = self.settle(&mut writer, local, key, hash, text)
        {
            place.slot.unpin();
        }
    }

    pub(super) fn each(&self, visit: &mut impl FnMut(Key, Option<&str>, (u64, u64))) {
        let mut from = 0;
        while from < self.shard.len() {
            let writer = self.shard.lock();
            let texts = writer.texts.as_deref();
            let to = self.shard.len().min(from + READ_AT_ONCE);
            for local in from..to {
                if let Some(place) = self.place(local) {
                    let text = texts.and_then(|texts| texts.get(&local));
                    visit(place.key(), text.map(AsRef::as_ref), place.slot.counts());
                }
            }
            from = to;
        }
    }

    fn find_locked(&self, key: Key, hash: u64) -> Option<(Place<'a, C>, u32)> {
        let mut word = self.head(hash)?;
        loop {
            let link = Link(word.load(Ordering::Relaxed));
            let local = link.local()?;
            if link.may_be(hash) {
                let place = self.place(local)?;
                if place.holds(key) {
                    return Some((place, local));
                }
            }
            word = self.link(local)?;
        }
    }

    /// Writes the value on a closed slot that is in no chain, puts it into one,
    /// and opens it with a pin.
    fn settle(
        &self,
        writer: &mut Writer,
        local: u32,
        key: Key,
        hash: u64,
        text: Option<&str>,
    ) -> Option<Place<'a, C>> {
        let place = self.place(local)?;
        let (head, link) = (self.head(hash)?, self.link(local)?);
        place.assign(key);
        if let Some(text) = text {
            let texts = writer.texts.get_or_insert_default();
            texts.insert(local, text.into());
        }
        link.store(head.load(Ordering::Relaxed), Ordering::Release);
        head.store(Link::to(local, hash).0, Ordering::Release);
        place.slot.open_pinned();
        Some(place)
    }

    /// One slot more, if the table may have one more value.
    fn grow(&self, table: &Table<C>) -> Option<u32> {
        if !table.count_one() {
            return None;
        }
        let local = self.add_slot(table);
        if local.is_none() {
            table.uncount_one();
        }
        local
    }

    /// One slot more, closed and in no chain, and one chain more.
    fn add_slot(&self, table: &Table<C>) -> Option<u32> {
        let local = self.shard.len();
        if local >= Link::SLOTS_MAX {
            return None;
        }
        self.segments.make(self.id(local))?;
        let head = self.segments.head(self.id(local))?;
        // What belongs to the new chain is in the one it splits off from.
        let mut moved = Link::END;
        if local > 0 {
            let old = local ^ (1 << local.ilog2());
            let mut word = self.segments.head(self.id(old))?;
            let mut link = Link(word.load(Ordering::Relaxed));
            while let Some(at) = link.local() {
                let place = self.place(at)?;
                let after = self.link(at)?;
                let next = Link(after.load(Ordering::Relaxed));
                if chain_of(table.mixer.hash(place.key()), local + 1) == Some(local) {
                    word.store(next.0, Ordering::Release);
                    after.store(moved.0, Ordering::Release);
                    moved = link;
                } else {
                    word = after;
                }
                link = next;
            }
        }
        head.store(moved.0, Ordering::Release);
        // Release: who sees the new length sees the new chain.
        self.shard.len.store(local + 1, Ordering::Release);
        Some(local)
    }

    /// Takes the slot of the value that can best be forgotten out of its chain,
    /// closed.
    fn forget_one(&self, table: &Table<C>, writer: &mut Writer, now: Timestamp) -> Option<u32> {
        for _ in 0..TRIES_MAX {
            let (local, place) = self.candidate(table, writer, now)?;
            if !place.slot.close() {
                // A call was faster.
                continue;
            }
            if place.slot.standing(table.limit(0), now) == Standing::Limited {
                // A call was faster, and has gone already.
                place.slot.reopen();
                continue;
            }
            self.unlink(local, table.mixer.hash(place.key()));
            if let Some(texts) = &mut writer.texts {
                texts.remove(&local);
            }
            // The value may come back with a call whose reading is earlier.
            writer.forgotten = writer.forgotten.max(now);
            place.slot.reset(table.limit(0), writer.forgotten);
            return Some(local);
        }
        None
    }

    /// The next value that nothing is lost with, or the least hot of a sample.
    fn candidate(
        &self,
        table: &Table<C>,
        writer: &mut Writer,
        now: Timestamp,
    ) -> Option<(u32, Place<'a, C>)> {
        let locals = self.shard.special.len() as u32..self.shard.len();
        let mut best: Option<(u8, u32, Place<'a, C>)> = None;
        let mut seen = 0;
        for _ in locals.clone().take(SWEEP_MAX) {
            if seen == SAMPLE {
                break;
            }
            if !locals.contains(&writer.hand) {
                writer.hand = locals.start;
            }
            let local = writer.hand;
            writer.hand += 1;
            let place = self.place(local)?;
            let heat = place.slot.cool();
            // It could not be closed.
            if place.slot.is_pinned() {
                continue;
            }
            match place.slot.standing(table.limit(0), now) {
                Standing::Idle => return Some((local, place)),
                Standing::InUse => {
                    seen += 1;
                    if best.as_ref().is_none_or(|(coolest, ..)| heat < *coolest) {
                        best = Some((heat, local, place));
                    }
                }
                Standing::Limited => {}
            }
        }
        best.map(|(_, local, place)| (local, place))
    }

    fn unlink(&self, local: u32, hash: u64) {
        let mut word = self.head(hash);
        while let Some(at) = word {
            let link = Link(at.load(Ordering::Relaxed));
            let Some(other) = link.local() else { return };
            let after = self.link(other);
            if other == local {
                let next = after.map_or(Link::END.0, |after| after.load(Ordering::Relaxed));
                at.store(next, Ordering::Release);
                return;
            }
            word = after;
        }
    }
}

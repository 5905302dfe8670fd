//! One shard of a table: slots, their chains, and the lock of whoever adds a
//! value. Which chain a value belongs to says [`super::segment`].
//!
//! Orderings. Links and the length are stored with release and loaded with
//! acquire, so a reader that follows a link sees the chain as it was when the
//! link was made. It may still stray into another chain when a slot moves on
//! under its feet; then it finds nothing, or by chance what it looks for, and
//! both are right. Under the lock, relaxed loads see what the last writer left.

use std::collections::HashMap;
use std::ops::DerefMut;

use flowgate_core::Timestamp;
use flowgate_core::sync::{AtomicU32, Mutex, OnceLock, Ordering, unpoisoned};

use super::segment::{SEGMENTS, Segment, chain_of, segment_of};
use super::slot::Slot;
use super::{Cell, Key, Mixer, NONE, SAMPLE, SWEEP_MAX, Standing, TRIES_MAX, Table};

/// A longer chain is walked under the lock. Chains have one or two slots.
const STEPS_MAX: usize = 64;
/// How many slots are looked at under one lock when all are read.
const READ_AT_ONCE: u32 = 256;

#[derive(Debug)]
pub(super) struct Shard<C> {
    segments: [OnceLock<Segment<C>>; SEGMENTS],
    /// Slots in use, and chains.
    len: AtomicU32,
    writer: Mutex<Writer>,
}

#[derive(Debug, Default)]
struct Writer {
    /// The slot that the sweep looks at next.
    hand: u32,
    /// Slots whose values are never forgotten; they come first.
    special: u32,
    /// The latest time at which a value was forgotten.
    forgotten: Timestamp,
    /// Texts of the values whose keys are digests, by slot.
    texts: HashMap<u32, Box<str>>,
}

impl<C: Cell> Shard<C> {
    pub(super) fn new() -> Self {
        Shard {
            segments: Default::default(),
            len: AtomicU32::new(0),
            writer: Mutex::new(Writer::default()),
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    pub(super) fn bytes(&self) -> usize {
        let segments = self.segments.iter().filter_map(OnceLock::get);
        let slots: usize = segments.map(|segment| segment.slots.len()).sum();
        let texts: usize = self.lock().texts.values().map(|text| text.len() + 32).sum();
        size_of::<Self>() + slots * (size_of::<Slot<C>>() + size_of::<AtomicU32>()) + texts
    }

    #[inline]
    fn slot(&self, local: u32) -> Option<&Slot<C>> {
        let (segment, offset) = segment_of(local as usize);
        self.segments.get(segment)?.get()?.slots.get(offset)
    }

    /// The slot, pinned, whatever value it has by then.
    #[inline]
    pub(super) fn pin(&self, local: u32) -> Option<&Slot<C>> {
        let slot = self.slot(local)?;
        (slot.pin() || self.pin_locked(slot)).then_some(slot)
    }

    /// Waits for whoever has closed the slot, which may have done so only to look
    /// at it once more.
    #[cold]
    fn pin_locked(&self, slot: &Slot<C>) -> bool {
        let _writer = self.lock();
        slot.pin()
    }

    /// Where the chain of `hash` begins.
    #[inline]
    fn chain(&self, hash: u64) -> Option<&AtomicU32> {
        self.chain_number(chain_of(hash, self.len())?)
    }

    #[inline]
    fn chain_number(&self, number: u32) -> Option<&AtomicU32> {
        let (segment, offset) = segment_of(number as usize);
        self.segments.get(segment)?.get()?.firsts.get(offset)
    }

    /// The slot of `key`, pinned, without a lock. May miss it while chains
    /// change.
    #[inline]
    pub(super) fn find(&self, key: Key, hash: u64) -> Option<(&Slot<C>, u32)> {
        let mut local = self.chain(hash)?.load(Ordering::Acquire);
        for _ in 0..STEPS_MAX {
            let slot = self.slot(local)?;
            if slot.key() == key && slot.pin() {
                if slot.key() == key {
                    return Some((slot, local));
                }
                slot.unpin();
            }
            local = slot.next.load(Ordering::Acquire);
        }
        None
    }

    /// The slot of `key`, pinned; a new one if there is none. `None` if there is
    /// no place.
    pub(super) fn insert(
        &self,
        table: &Table<C>,
        key: Key,
        hash: u64,
        text: Option<&str>,
        now: Timestamp,
    ) -> Option<(&Slot<C>, u32)> {
        let mut writer = self.lock();
        if let Some((slot, local)) = self.find_locked(key, hash) {
            // Under the lock nobody closes it.
            slot.pin();
            return Some((slot, local));
        }
        let local = if table.grow() {
            self.add_slot(&table.mixer)?
        } else {
            let local = self.forget_one(table, &mut writer, now)?;
            // Relaxed: a figure to read.
            table.evicted.fetch_add(1, Ordering::Relaxed);
            local
        };
        let slot = self.settle(&mut writer, local, key, hash, text, 0)?;
        Some((slot, local))
    }

    /// Adds a value that is never forgotten.
    pub(super) fn insert_special(
        &self,
        key: Key,
        hash: u64,
        text: Option<&str>,
        limit: u16,
        mixer: &Mixer,
    ) {
        let mut writer = self.lock();
        if self.find_locked(key, hash).is_some() {
            return;
        }
        if let Some(local) = self.add_slot(mixer)
            && let Some(slot) = self.settle(&mut writer, local, key, hash, text, limit)
        {
            writer.special += 1;
            slot.unpin();
        }
    }

    pub(super) fn each(&self, visit: &mut impl FnMut(Key, Option<&str>, (u64, u64))) {
        let mut from = 0;
        while from < self.len() {
            let writer = self.lock();
            let to = self.len().min(from + READ_AT_ONCE);
            for local in from..to {
                if let Some(slot) = self.slot(local) {
                    let text = writer.texts.get(&local).map(AsRef::as_ref);
                    visit(slot.key(), text, slot.counts());
                }
            }
            from = to;
        }
    }

    fn lock(&self) -> impl DerefMut<Target = Writer> + '_ {
        // Every step leaves the chains whole, so a panic has broken nothing.
        unpoisoned(self.writer.lock())
    }

    fn find_locked(&self, key: Key, hash: u64) -> Option<(&Slot<C>, u32)> {
        let mut local = self.chain(hash)?.load(Ordering::Relaxed);
        while let Some(slot) = self.slot(local) {
            if slot.key() == key {
                return Some((slot, local));
            }
            local = slot.next.load(Ordering::Relaxed);
        }
        None
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
        limit: u16,
    ) -> Option<&Slot<C>> {
        let slot = self.slot(local)?;
        let first = self.chain(hash)?;
        slot.assign(key, limit);
        if let Some(text) = text {
            writer.texts.insert(local, text.into());
        }
        slot.next
            .store(first.load(Ordering::Relaxed), Ordering::Release);
        first.store(local, Ordering::Release);
        slot.open_pinned();
        Some(slot)
    }

    /// One slot more, closed and in no chain, and one chain more.
    fn add_slot(&self, mixer: &Mixer) -> Option<u32> {
        let local = self.len();
        let (number, offset) = segment_of(local as usize);
        let segment = self
            .segments
            .get(number)?
            .get_or_init(Segment::number(number));
        let first = segment.firsts.get(offset)?;
        // What belongs to the new chain is in the one it splits off from.
        let mut moved = NONE;
        if local > 0 {
            let mut link = self.chain_number(local ^ (1 << local.ilog2()))?;
            let mut at = link.load(Ordering::Relaxed);
            while let Some(other) = self.slot(at) {
                let next = other.next.load(Ordering::Relaxed);
                if chain_of(mixer.hash(other.key()), local + 1) == Some(local) {
                    link.store(next, Ordering::Release);
                    other.next.store(moved, Ordering::Release);
                    moved = at;
                } else {
                    link = &other.next;
                }
                at = next;
            }
        }
        first.store(moved, Ordering::Release);
        // Release: who sees the new length sees the new chain.
        self.len.store(local + 1, Ordering::Release);
        Some(local)
    }

    /// Takes the slot of the value that can best be forgotten out of its chain,
    /// closed.
    fn forget_one(&self, table: &Table<C>, writer: &mut Writer, now: Timestamp) -> Option<u32> {
        for _ in 0..TRIES_MAX {
            let (local, slot) = self.candidate(table, writer, now)?;
            if !slot.close() {
                // A call was faster.
                continue;
            }
            if slot.standing(table.limit(slot.label().limit), now) == Standing::Limited {
                // A call was faster, and has gone already.
                slot.reopen();
                continue;
            }
            self.unlink(local, table.mixer.hash(slot.key()));
            writer.texts.remove(&local);
            // The value may come back with a call whose reading is earlier.
            writer.forgotten = writer.forgotten.max(now);
            slot.reset(&table.limit, writer.forgotten);
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
    ) -> Option<(u32, &Slot<C>)> {
        let slots = writer.special..self.len();
        let mut best: Option<(u32, u32, &Slot<C>)> = None;
        let mut seen = 0;
        for _ in slots.clone().take(SWEEP_MAX) {
            if seen == SAMPLE {
                break;
            }
            if !slots.contains(&writer.hand) {
                writer.hand = slots.start;
            }
            let local = writer.hand;
            writer.hand += 1;
            let slot = self.slot(local)?;
            let heat = slot.cool();
            // It could not be closed.
            if slot.is_pinned() {
                continue;
            }
            match slot.standing(table.limit(slot.label().limit), now) {
                Standing::Idle => return Some((local, slot)),
                Standing::InUse => {
                    seen += 1;
                    if best.is_none_or(|(coolest, ..)| heat < coolest) {
                        best = Some((heat, local, slot));
                    }
                }
                Standing::Limited => {}
            }
        }
        best.map(|(_, local, slot)| (local, slot))
    }

    fn unlink(&self, local: u32, hash: u64) {
        let Some(mut link) = self.chain(hash) else {
            return;
        };
        loop {
            let at = link.load(Ordering::Relaxed);
            let Some(slot) = self.slot(at) else { return };
            if at == local {
                link.store(slot.next.load(Ordering::Relaxed), Ordering::Release);
                return;
            }
            link = &slot.next;
        }
    }
}

//! The place of one value in a table, and the pin that keeps it there.
//!
//! A slot is used by many values one after another, and read without a lock.
//! Two things make that safe:
//!
//! * **A pin.** Who wants to look at a value counts itself in first, and only
//!   then compares the key. While anybody is counted in, the slot is not given
//!   to another value.
//! * **A closed slot.** Who gives a slot to another value closes it first, which
//!   works only if nobody is counted in. A pin on a closed slot is no pin: its
//!   owner counts itself out again and goes the slow way.
//!
//! Both are in one word, with the number of calls that passed, which a pin adds
//! to as it leaves:
//!
//! ```text
//! 63               17   16   15        0
//! |  calls passed    | closed |  pins   |
//! ```
//!
//! Orderings. Closing acquires what every pin released as it left, so whoever
//! closes sees all that was done to the value. Opening releases the new key and
//! the fresh cell, and a pin acquires them. Key and label are written only
//! between the two, so relaxed loads and stores are enough for them; a load
//! without a pin is a hint, and is repeated under the pin.

use flowgate_core::Timestamp;
use flowgate_core::sync::{AtomicU32, AtomicU64, Ordering};

use super::{Cell, Key, NONE, Standing};

const PIN: u64 = 1;
const PINS: u64 = CLOSED - 1;
/// Room for 65,535 threads at once.
const CLOSED: u64 = 1 << 16;
const PASS: u64 = 1 << 17;
const PASS_SHIFT: u32 = 17;

/// From here on a value is as hot as can be. Eight looks of the sweep take it
/// down to nothing.
const HEAT_MAX: u32 = 255;

/// The place of one value: one cache line, whatever the cell.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot<C> {
    pins: AtomicU64,
    /// `generation (32 bits) | limit (16) | kind of key (8) | unused (8)`
    label: AtomicU64,
    low: AtomicU64,
    high: AtomicU64,
    /// Up to four billion.
    refused: AtomicU32,
    /// The next slot of the same chain.
    pub(super) next: AtomicU32,
    /// How much used of late. Lossy: it only says whom to forget first.
    heat: AtomicU32,
    /// The largest weight that it is to be limited for.
    weight: AtomicU32,
    cell: C,
}

/// What is written on a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Label {
    pub(crate) generation: u32,
    pub(crate) limit: u16,
    kind: u8,
}

impl Label {
    fn read(word: u64) -> Self {
        Label {
            generation: (word >> 32) as u32,
            limit: (word >> 16) as u16,
            kind: (word >> 8) as u8,
        }
    }

    fn word(self) -> u64 {
        (u64::from(self.generation) << 32)
            | (u64::from(self.limit) << 16)
            | (u64::from(self.kind) << 8)
    }
}

impl<C: Cell> Slot<C> {
    /// A slot that no value has had, closed.
    pub(super) fn new() -> Self {
        Slot {
            pins: AtomicU64::new(CLOSED),
            label: AtomicU64::new(0),
            low: AtomicU64::new(0),
            high: AtomicU64::new(0),
            refused: AtomicU32::new(0),
            next: AtomicU32::new(NONE),
            heat: AtomicU32::new(0),
            weight: AtomicU32::new(1),
            cell: C::default(),
        }
    }

    /// How its value stands at `now`. Certain once it is closed, before that a
    /// hint: whoever had it pinned has released cell and weight by then.
    pub(super) fn standing(&self, limit: &C::Limit, now: Timestamp) -> Standing {
        let weight = self.weight.load(Ordering::Relaxed);
        self.cell.standing(limit, weight, now)
    }

    pub(super) fn label(&self) -> Label {
        Label::read(self.label.load(Ordering::Relaxed))
    }

    /// The key. Certain under a pin or under the lock of the table, elsewhere a
    /// hint.
    pub(super) fn key(&self) -> Key {
        let low = self.low.load(Ordering::Relaxed);
        let high = self.high.load(Ordering::Relaxed);
        Key {
            kind: self.label().kind,
            bits: (u128::from(high) << 64) | u128::from(low),
        }
    }

    /// Calls that passed, and calls that were refused, since it was first seen.
    pub(super) fn counts(&self) -> (u64, u64) {
        let passed = self.pins.load(Ordering::Relaxed) >> PASS_SHIFT;
        (passed, self.refused.load(Ordering::Relaxed).into())
    }

    /// Counts the caller in, unless the slot is closed.
    #[inline]
    pub(super) fn pin(&self) -> bool {
        if self.pins.fetch_add(PIN, Ordering::Acquire) & CLOSED == 0 {
            return true;
        }
        self.pins.fetch_sub(PIN, Ordering::Relaxed);
        false
    }

    #[inline]
    pub(super) fn unpin(&self) {
        self.pins.fetch_sub(PIN, Ordering::Release);
    }

    /// Whether somebody is counted in, as far as one can tell.
    pub(super) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::Relaxed) & PINS != 0
    }

    /// Closes the slot if nobody is counted in.
    pub(super) fn close(&self) -> bool {
        let pins = self.pins.load(Ordering::Relaxed);
        pins & (PINS | CLOSED) == 0
            && self
                .pins
                .compare_exchange(pins, pins | CLOSED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Opens a closed slot for the value that it had.
    pub(super) fn reopen(&self) {
        self.pins.fetch_sub(CLOSED, Ordering::Release);
    }

    /// Gives a closed slot, whose cell is as good as new, to another value.
    pub(super) fn assign(&self, key: Key, limit: u16) {
        let label = Label {
            generation: self.label().generation.wrapping_add(1),
            limit,
            kind: key.kind,
        };
        self.label.store(label.word(), Ordering::Relaxed);
        self.low.store(key.bits as u64, Ordering::Relaxed);
        self.high.store((key.bits >> 64) as u64, Ordering::Relaxed);
        self.refused.store(0, Ordering::Relaxed);
        self.heat.store(0, Ordering::Relaxed);
        self.weight.store(1, Ordering::Relaxed);
        // Those who were turned away may still be counting themselves in and
        // out, so the word is changed by differences only.
        let passed = self.pins.load(Ordering::Relaxed) >> PASS_SHIFT;
        self.pins.fetch_sub(passed << PASS_SHIFT, Ordering::Relaxed);
    }

    /// Makes the cell of a closed slot as good as new from `since` on.
    pub(super) fn reset(&self, limit: &C::Limit, since: Timestamp) {
        self.cell.reset(limit, since);
    }

    /// Opens a closed slot, with one pin, for the value it was assigned to.
    pub(super) fn open_pinned(&self) {
        self.pins.fetch_sub(CLOSED - PIN, Ordering::Release);
    }

    #[inline]
    pub(super) fn warm(&self) {
        let heat = self.heat.load(Ordering::Relaxed);
        if heat < HEAT_MAX {
            self.heat.store(heat + 1, Ordering::Relaxed);
        }
    }

    /// Its heat, of which half is left.
    pub(super) fn cool(&self) -> u32 {
        let heat = self.heat.load(Ordering::Relaxed);
        if heat > 0 {
            self.heat.store(heat / 2, Ordering::Relaxed);
        }
        heat
    }
}

/// A value that stays in its slot as long as this lives.
#[derive(Debug)]
#[must_use]
pub(crate) struct Pinned<'a, C: Cell> {
    slot: &'a Slot<C>,
    id: u32,
    label: Label,
}

impl<'a, C: Cell> Pinned<'a, C> {
    /// The slot `id`, which the caller has pinned.
    #[inline]
    pub(super) fn adopt(slot: &'a Slot<C>, id: u32) -> Self {
        Pinned {
            slot,
            id,
            label: slot.label(),
        }
    }

    /// What the value has used up.
    #[inline]
    pub(crate) fn cell(&self) -> &C {
        &self.slot.cell
    }

    /// Which of the table's limits is the value's.
    #[inline]
    pub(crate) fn limit(&self) -> u16 {
        self.label.limit
    }

    /// The value at this very slot, for a ticket.
    #[inline]
    pub(crate) fn address(&self) -> Address {
        Address {
            id: self.id,
            generation: self.label.generation,
        }
    }

    /// Notes that the value counts as limited while a call of `weight` would not
    /// pass at once.
    #[inline]
    pub(crate) fn weigh(&self, weight: u32) {
        // Nearly always there is nothing to note.
        if self.slot.weight.load(Ordering::Relaxed) < weight {
            self.slot.weight.fetch_max(weight, Ordering::Relaxed);
        }
    }

    /// Counts a call that passed, and lets go.
    #[inline]
    pub(crate) fn passed(self) {
        self.slot.pins.fetch_add(PASS - PIN, Ordering::Release);
        std::mem::forget(self);
    }

    /// Counts a call that was refused, and lets go.
    pub(crate) fn refused(self) {
        if self.slot.refused.load(Ordering::Relaxed) < u32::MAX {
            self.slot.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the count of a call that passed back, and lets go.
    pub(crate) fn taken_back(self) {
        self.slot.pins.fetch_sub(PASS + PIN, Ordering::Release);
        std::mem::forget(self);
    }
}

impl<C: Cell> Drop for Pinned<'_, C> {
    #[inline]
    fn drop(&mut self) {
        self.slot.unpin();
    }
}

/// Where a value was when a call took something of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    pub(crate) id: u32,
    pub(crate) generation: u32,
}

impl Address {
    pub(crate) fn word(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.id)
    }

    pub(crate) fn from_word(word: u64) -> Self {
        Address {
            id: word as u32,
            generation: (word >> 32) as u32,
        }
    }
}

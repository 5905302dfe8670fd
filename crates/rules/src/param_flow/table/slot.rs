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
//! to as it leaves, and what kind of key stands here:
//!
//! ```text
//! 63               21   20   19  17   16   15        0
//! |  calls passed    | wide | kind | closed |  pins   |
//! ```
//!
//! Orderings. Closing acquires what every pin released as it left, so whoever
//! closes sees all that was done to the value. Opening releases the new key and
//! the fresh cell, and a pin acquires them. The key is written only between the
//! two, so relaxed loads and stores are enough for it; a load without a pin is a
//! hint, and is repeated under the pin.

use flowgate_core::Timestamp;
use flowgate_core::sync::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::{Cell, Standing};

const PIN: u64 = 1;
const PINS: u64 = CLOSED - 1;
/// Room for 65,535 threads at once.
const CLOSED: u64 = 1 << 16;
const KIND_SHIFT: u32 = 17;
const KINDS: u64 = 7;
const WIDE: u64 = 1 << 20;
const KEY: u64 = WIDE | (KINDS << KIND_SHIFT);
const PASS: u64 = 1 << PASS_SHIFT;
const PASS_SHIFT: u32 = 21;

/// From here on a value is as hot as can be. Eight looks of the sweep take it
/// down to nothing.
const HEAT_MAX: u8 = u8::MAX;

/// The place of one value: half a cache line where a word is counted in.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slot<C: Cell> {
    pins: AtomicU64,
    /// The key's first word.
    low: AtomicU64,
    cell: C,
    /// Up to four billion.
    refused: AtomicU32,
    /// How many values it has had, up to 65,535 and then from 0.
    generation: AtomicU16,
    /// How much used of late. Lossy: it only says whom to forget first.
    heat: AtomicU8,
    /// The largest weight that it is to be limited for, as a power of two.
    weight: AtomicU8,
    align: [C::Align; 0],
}

impl<C: Cell> Slot<C> {
    /// A slot that no value has had, closed.
    pub(super) fn new() -> Self {
        Slot {
            pins: AtomicU64::new(CLOSED),
            low: AtomicU64::new(0),
            cell: C::default(),
            refused: AtomicU32::new(0),
            generation: AtomicU16::new(0),
            heat: AtomicU8::new(0),
            weight: AtomicU8::new(0),
            align: [],
        }
    }

    /// How its value stands at `now`. Certain once it is closed, before that a
    /// hint: whoever had it pinned has released cell and weight by then.
    pub(super) fn standing(&self, limit: &C::Limit, now: Timestamp) -> Standing {
        let exponent = self.weight.load(Ordering::Relaxed);
        let weight = 1_u32.checked_shl(exponent.into()).unwrap_or(u32::MAX);
        self.cell.standing(limit, weight, now)
    }

    /// Whether a key of this kind and first word stands here, as far as one can
    /// tell without a pin.
    #[inline]
    pub(super) fn holds(&self, kind: u8, is_wide: bool, low: u64) -> bool {
        self.low.load(Ordering::Relaxed) == low
            && self.pins.load(Ordering::Relaxed) & KEY == key_bits(kind, is_wide)
    }

    /// Kind of the key, whether it has a second word, and the first.
    pub(super) fn key_parts(&self) -> (u8, bool, u64) {
        let pins = self.pins.load(Ordering::Relaxed);
        let kind = (pins >> KIND_SHIFT) & KINDS;
        (
            kind as u8,
            pins & WIDE != 0,
            self.low.load(Ordering::Relaxed),
        )
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
    pub(super) fn assign(&self, kind: u8, is_wide: bool, low: u64) {
        self.low.store(low, Ordering::Relaxed);
        self.refused.store(0, Ordering::Relaxed);
        self.heat.store(0, Ordering::Relaxed);
        self.weight.store(0, Ordering::Relaxed);
        let generation = self.generation.load(Ordering::Relaxed).wrapping_add(1);
        self.generation.store(generation, Ordering::Relaxed);
        // Those who were turned away may still be counting themselves in and
        // out, so the word is changed by differences only.
        let before = self.pins.load(Ordering::Relaxed) & !(PINS | CLOSED);
        let difference = key_bits(kind, is_wide).wrapping_sub(before);
        self.pins.fetch_add(difference, Ordering::Relaxed);
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
    pub(super) fn cool(&self) -> u8 {
        let heat = self.heat.load(Ordering::Relaxed);
        if heat > 0 {
            self.heat.store(heat / 2, Ordering::Relaxed);
        }
        heat
    }
}

#[inline]
fn key_bits(kind: u8, is_wide: bool) -> u64 {
    (u64::from(kind) & KINDS) << KIND_SHIFT | if is_wide { WIDE } else { 0 }
}

/// A value that stays in its slot as long as this lives.
#[derive(Debug)]
#[must_use]
pub(crate) struct Pinned<'a, C: Cell> {
    slot: &'a Slot<C>,
    address: Address,
    limit: u16,
}

impl<'a, C: Cell> Pinned<'a, C> {
    /// The slot `id`, which the caller has pinned, of a value that has `hash` and
    /// the limit number `limit`.
    #[inline]
    pub(super) fn adopt(slot: &'a Slot<C>, id: u32, hash: u64, limit: u16) -> Self {
        // Chains go by the lower bits, which the slots of a shard have in common.
        let check = (hash >> 32) as u16;
        let generation = slot.generation.load(Ordering::Relaxed);
        Pinned {
            slot,
            address: Address {
                id,
                generation: (u32::from(generation) << 16) | u32::from(check),
            },
            limit,
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
        self.limit
    }

    /// The value at this very slot, for a ticket.
    #[inline]
    pub(crate) fn address(&self) -> Address {
        self.address
    }

    /// Notes that the value counts as limited while a call of `weight` would not
    /// pass at once. Weights are rounded up to powers of two.
    #[inline]
    pub(crate) fn weigh(&self, weight: u32) {
        let exponent = (u32::BITS - weight.saturating_sub(1).leading_zeros()) as u8;
        // Nearly always there is nothing to note.
        if self.slot.weight.load(Ordering::Relaxed) < exponent {
            self.slot.weight.fetch_max(exponent, Ordering::Relaxed);
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
///
/// The generation is the slot's, and 16 bits of the value's hash: a slot would have
/// to change hands exactly 65,536 times while a ticket is out, or a multiple of
/// it, and two values to agree in those bits, for a ticket to open another's.
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

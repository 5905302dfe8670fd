//! What counts the calls of names beyond the limit on resources.
//!
//! It is a resource like others, kept in a slot of its own, and there only while
//! it is needed. Which names have been counted in it is told by two bits of each
//! name's hash in a table of fixed size: a name that was counted is always found,
//! and few others are. Those get no place as long as it is there.

use std::sync::{Arc, Weak};

use flowgate_core::sync::{
    AtomicBool, AtomicU64, Cell, Mutex, MutexGuard, OnceLock, Ordering, unpoisoned,
};

use crate::resource::ResourceInner;
use crate::sweep::Slot;

/// Name of what counts the calls of resources beyond the limit.
pub(crate) const OVERFLOW: &str = "(other resources)";

/// Of a million names one in six others is taken for one of them.
const BITS_LOG2: u32 = 22;

/// Counts for all that have no statistics of their own.
pub(crate) struct Overflow {
    /// Whether somebody may be counted here. Set before anybody is.
    is_open: AtomicBool,
    found: Cell<Weak<ResourceInner>>,
    /// Taken before the lock of a shard, never after.
    kept: Mutex<Option<Slot>>,
    /// Made when it is first needed: half a megabyte.
    members: OnceLock<Box<[AtomicU64]>>,
}

impl Overflow {
    pub(crate) fn new() -> Self {
        Overflow {
            is_open: AtomicBool::new(false),
            found: Cell::new(Weak::new()),
            kept: Mutex::new(None),
            members: OnceLock::new(),
        }
    }

    /// Whether somebody may be counted here.
    pub(crate) fn is_open(&self) -> bool {
        // Acquire: who finds it closed finds what it has done before.
        self.is_open.load(Ordering::Acquire)
    }

    pub(crate) fn known(&self) -> Option<Arc<ResourceInner>> {
        let found = self.found.load().upgrade();
        found.or_else(|| self.turn().as_ref().map(|slot| slot.resource.hold()))
    }

    /// The resource, by `make` if there is none.
    pub(crate) fn open(&self, make: impl FnOnce() -> Slot) -> Arc<ResourceInner> {
        if let Some(found) = self.found.load().upgrade() {
            return found;
        }
        let mut kept = self.turn();
        let slot = kept.get_or_insert_with(make);
        self.is_open.store(true, Ordering::Release);
        self.tell(slot);
        slot.resource.hold()
    }

    /// Nobody is counted here, nor was ever. In turn.
    pub(crate) fn close(&self) {
        let members = self.members.get().into_iter().flatten();
        // Relaxed: published by the store that follows.
        members.for_each(|word| word.store(0, Ordering::Relaxed));
        // Release: who finds it closed finds all forgotten.
        self.is_open.store(false, Ordering::Release);
    }

    /// Where the resource is found from now on. In turn.
    pub(crate) fn tell(&self, slot: &Slot) {
        self.found.store(slot.resource.found_by());
    }

    /// The turn of whoever changes something, if nobody has it.
    pub(crate) fn try_turn(&self) -> Option<MutexGuard<'_, Option<Slot>>> {
        self.kept.try_lock().ok()
    }

    fn turn(&self) -> MutexGuard<'_, Option<Slot>> {
        unpoisoned(self.kept.lock())
    }

    /// A name of this hash is counted here. In turn with all that look whether it
    /// is.
    pub(crate) fn join(&self, hash: u64) {
        let make = || {
            (0..1 << (BITS_LOG2 - 6))
                .map(|_| AtomicU64::new(0))
                .collect()
        };
        let members = self.members.get_or_init(make);
        for bit in bits(hash) {
            let (word, mask) = (&members[bit >> 6], 1 << (bit & 63));
            // Relaxed, as whoever asks for the name has its turn before or after.
            if word.load(Ordering::Relaxed) & mask == 0 {
                word.fetch_or(mask, Ordering::Relaxed);
            }
        }
    }

    /// Whether a name of this hash may have been counted here.
    pub(crate) fn may_know(&self, hash: u64) -> bool {
        self.members.get().is_some_and(|members| {
            let is_set = |bit: usize| members[bit >> 6].load(Ordering::Relaxed) >> (bit & 63) & 1;
            bits(hash).into_iter().all(|bit| is_set(bit) == 1)
        })
    }
}

fn bits(hash: u64) -> [usize; 2] {
    let mask = (1 << BITS_LOG2) - 1;
    [hash & mask, hash >> (64 - BITS_LOG2)].map(|bit| bit as usize)
}

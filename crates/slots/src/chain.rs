//! The chain: an immutable list of slots, and the way a call goes through it.

use std::sync::Arc;

use flowgate_core::{Block, Call, Departure, Verdict};

use crate::slot::Slot;
use crate::statistic::StatisticSlot;

/// The slots of one resource under one generation of rules.
pub struct SlotChain {
    slots: Box<[Arc<dyn Slot>]>,
    hears_exits: bool,
}

impl SlotChain {
    /// A chain of these slots, behind the statistic slot.
    pub fn new(slots: Vec<Arc<dyn Slot>>) -> Self {
        let hears_exits = slots.iter().any(|slot| slot.hears_exits());
        SlotChain {
            slots: slots.into(),
            hears_exits,
        }
    }

    /// The names of the slots, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let own = std::iter::once(StatisticSlot.name());
        own.chain(self.slots.iter().map(|slot| slot.name()))
    }

    /// Whether calls have to come back here when they end.
    #[inline]
    pub fn hears_exits(&self) -> bool {
        self.hears_exits
    }

    /// Takes a call in: it is admitted and counted, or refused with nothing
    /// held. What it holds and how long it has to wait is in `call.holds`.
    ///
    /// # Errors
    ///
    /// The refusal of the first slot that refuses; if the call may not wait, also
    /// that of the slot that asks for the longest wait.
    #[inline]
    pub fn enter(&self, call: &mut Call<'_>) -> Result<(), Block> {
        for (position, slot) in self.slots.iter().enumerate() {
            call.slot = position as u16;
            match slot.check(call) {
                Ok(Verdict::Pass) => {}
                Ok(Verdict::Wait(wait)) => call.holds.wait_for(call.slot, 0, wait),
                Ok(Verdict::Block(block)) => {
                    self.refuse(call, &block);
                    return Err(block);
                }
                Err(_) => call.holds.exclude(call.slot),
            }
        }
        if !call.may_wait && !call.holds.wait.is_zero() {
            return Err(self.refuse_wait(call));
        }
        StatisticSlot.passed(call);
        for (position, slot) in self.entered(call.holds.excluded()) {
            call.slot = position;
            slot.passed(call);
        }
        Ok(())
    }

    /// A call is refused by the slot it has come to: those before it give back.
    fn refuse(&self, call: &mut Call<'_>, block: &Block) {
        self.undo(call);
        StatisticSlot.blocked(call, block);
        for (position, slot) in self.entered(call.holds.excluded()) {
            call.slot = position;
            slot.blocked(call, block);
        }
    }

    /// Gives back what the call holds: reservations of the slots before the one
    /// it has come to, in reverse order of the checks, then passes and places
    /// in flight.
    fn undo(&self, call: &mut Call<'_>) {
        let reached = call.slot;
        for (position, slot) in self.entered(call.holds.excluded()).rev() {
            if position < reached {
                call.slot = position;
                slot.undo(call);
            }
        }
        call.holds.release(&call.nodes);
    }

    /// All slots agree, but the call would have to wait, and must not.
    #[cold]
    fn refuse_wait(&self, call: &mut Call<'_>) -> Block {
        (call.slot, _) = call.holds.waits_for();
        let wait = call.holds.wait;
        let block = match self.slots.get(usize::from(call.slot)) {
            Some(slot) => slot.too_early(call, wait),
            None => StatisticSlot.too_early(call, wait),
        };
        call.slot = self.slots.len() as u16;
        self.refuse(call, &block);
        block
    }

    /// The caller gave up while it waited: everything goes back, and one
    /// cancellation is counted.
    pub fn cancel(&self, call: &mut Call<'_>) {
        call.slot = self.slots.len() as u16;
        for (_, node) in call.nodes.iter() {
            node.cancelled(call.now, call.weight);
        }
        self.undo(call);
    }

    /// Tells the slots, in reverse, how a call has ended. The statistics are
    /// the caller's to tell: [`StatisticSlot`].
    pub fn leave(&self, departure: &mut Departure<'_>, excluded: u64) {
        for (position, slot) in self.entered(excluded).rev() {
            departure.slot = position;
            slot.exited(departure);
        }
    }

    fn entered(&self, excluded: u64) -> impl DoubleEndedIterator<Item = (u16, &Arc<dyn Slot>)> {
        let positions = 0..self.slots.len() as u16;
        let slots = positions.zip(self.slots.iter());
        slots.filter(move |(position, _)| excluded & (1 << (position % 64)) == 0)
    }
}

impl std::fmt::Debug for SlotChain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Default for SlotChain {
    fn default() -> Self {
        SlotChain::new(Vec::new())
    }
}

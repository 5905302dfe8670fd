//! The chain: an immutable list of slots, and the way a call goes through it.

use std::sync::Arc;

use flowgate_core::{Block, Call, Departure, Queue, Verdict};

use crate::slot::Slot;
use crate::statistic::StatisticSlot;

/// The slots of one resource under one generation of rules.
pub struct SlotChain {
    slots: Box<[Arc<dyn Slot>]>,
    hears_exits: bool,
}

/// A call that has to wait until permits of its resource are free. It holds
/// nothing meanwhile, and comes to the chain anew with
/// [`Holds::granted`](flowgate_core::Holds::granted).
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The slot that says so.
    pub slot: u16,
    /// What it says.
    pub queue: Queue,
}

/// Why a call does not go ahead.
#[derive(Clone, Debug, PartialEq)]
pub enum Halt {
    /// It is refused.
    Blocked(Block),
    /// It has to stand in line first. Boxed: it is going to wait anyway.
    InLine(Box<Line>),
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

    /// Whether there is nobody to ask but the statistic slot, which refuses
    /// nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether calls have to come back here when they end.
    #[inline]
    pub fn hears_exits(&self) -> bool {
        self.hears_exits
    }

    /// Takes a call in: it is admitted and counted, or refused with nothing
    /// held. What it holds and how long it has to wait is in `call.holds`.
    ///
    /// A call that has to stand in line first, and may, holds nothing either,
    /// and has not been counted: it was not refused.
    ///
    /// # Errors
    ///
    /// [`Halt::Blocked`] with the refusal of the first slot that refuses; if the
    /// call may not wait, also with that of the slot that asks for the longest
    /// wait. [`Halt::InLine`] if it may queue for permits and has to.
    #[inline]
    pub fn enter(&self, call: &mut Call<'_>) -> Result<(), Halt> {
        for (position, slot) in self.slots.iter().enumerate() {
            call.slot = position as u16;
            let verdict = slot.check(call);
            // By its tag alone: a refusal's worth of bytes need not be moved to
            // see that there is none.
            if matches!(verdict, Ok(Verdict::Pass)) {
                continue;
            }
            match verdict {
                Ok(Verdict::Pass) => {}
                Ok(Verdict::Wait(wait)) => call.holds.wait_for(call.slot, 0, wait),
                Ok(Verdict::Block(block)) => {
                    self.refuse(call, &block);
                    return Err(Halt::Blocked(block));
                }
                Ok(Verdict::Queue(queue)) => return Err(self.line_up(call, queue)),
                Err(_) => call.holds.exclude(call.slot),
            }
        }
        if !call.may_wait && !call.holds.wait.is_zero() {
            return Err(Halt::Blocked(self.refuse_wait(call)));
        }
        if let Err(block) = StatisticSlot.admit(call) {
            call.slot = self.slots.len() as u16;
            self.refuse(call, &block);
            return Err(Halt::Blocked(block));
        }
        for (position, slot) in self.entered(call.holds.excluded()) {
            call.slot = position;
            slot.passed(call);
        }
        Ok(())
    }

    /// A slot would have the call wait for permits: what it has taken before goes
    /// back.
    #[cold]
    fn line_up(&self, call: &mut Call<'_>, queue: Queue) -> Halt {
        let slot = call.slot;
        let line = Line { slot, queue };
        if call.may_queue {
            self.undo(call);
            return Halt::InLine(Box::new(line));
        }
        let block = self.refusal_of(call, line);
        call.slot = slot;
        self.refuse(call, &block);
        Halt::Blocked(block)
    }

    /// A call that was told to stand in line does so no longer, or never did: it
    /// is refused. It holds nothing.
    #[cold]
    pub fn turn_away(&self, call: &mut Call<'_>, line: Line) -> Block {
        let block = self.refusal_of(call, line);
        self.tell_blocked(call, &block);
        block
    }

    fn refusal_of(&self, call: &mut Call<'_>, line: Line) -> Block {
        let Line { slot, queue } = line;
        call.slot = slot;
        match self.slots.get(usize::from(slot)) {
            Some(slot) => slot.in_vain(call, queue),
            None => queue.block,
        }
    }

    /// A call is refused by the slot it has come to: those before it give back.
    fn refuse(&self, call: &mut Call<'_>, block: &Block) {
        self.undo(call);
        self.tell_blocked(call, block);
    }

    fn tell_blocked(&self, call: &mut Call<'_>, block: &Block) {
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
        call.holds.release(&call.nodes, call.weight);
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

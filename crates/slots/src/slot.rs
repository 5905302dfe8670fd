//! One step of the chain.

use std::time::Duration;

use flowgate_core::{Block, BlockKind, Call, Departure, Measure, Queue, RuleId, Verdict};

use crate::guarded::SlotError;

/// One step of the chain that every call of a resource goes through.
///
/// A slot of your own implements [`check`](Slot::check) and whatever it wants
/// to hear of. It must not block, sleep, or do I/O: it runs on the caller's
/// thread, inside the call. If it fails or panics the fault is caught and
/// counted, and the call passes as far as this slot is concerned; such a slot
/// does not hear of that call again.
///
/// ```
/// use flowgate_core::{Block, BlockKind, Call, RuleId, Verdict};
/// use flowgate_slots::{Slot, SlotError};
///
/// /// Refuses callers that do not say who they are.
/// struct KnownOrigin;
///
/// impl Slot for KnownOrigin {
///     fn name(&self) -> &'static str {
///         "knownOrigin"
///     }
///
///     fn check(&self, call: &mut Call<'_>) -> Result<Verdict, SlotError> {
///         if call.origin.is_empty() {
///             let kind = BlockKind::Custom(self.name());
///             return Ok(Verdict::Block(Block::new(kind, RuleId::new("knownOrigin"), 0.0, 0.0)));
///         }
///         Ok(Verdict::Pass)
///     }
/// }
/// ```
pub trait Slot: Send + Sync + 'static {
    /// Its name, for the order of the chain and for figures.
    fn name(&self) -> &'static str;

    /// Decides, and may reserve; what it reserves it notes as a ticket
    /// ([`Call::leave_ticket`]). A slot that refuses or queues keeps nothing: it
    /// is not asked to undo. A call that was queued for permits, by any slot, is
    /// asked about anew when it has them.
    ///
    /// # Errors
    ///
    /// A fault of the slot's own: counted, and the call passes.
    fn check(&self, call: &mut Call<'_>) -> Result<Verdict, SlotError> {
        let _ = call;
        Ok(Verdict::Pass)
    }

    /// Gives back what `check` reserved: a later slot refused or queued, or the
    /// caller gave up while it waited (after `passed`). In the second case the call's origin, context
    /// and arguments are empty; what is needed then belongs in a ticket.
    fn undo(&self, call: &Call<'_>) {
        let _ = call;
    }

    /// The call was admitted.
    fn passed(&self, call: &mut Call<'_>) {
        let _ = call;
    }

    /// The call was refused, by this slot or another.
    fn blocked(&self, call: &Call<'_>, block: &Block) {
        let _ = (call, block);
    }

    /// The call has ended. Called only if [`hears_exits`](Slot::hears_exits).
    fn exited(&self, departure: &Departure<'_>) {
        let _ = departure;
    }

    /// Whether the slot wants to hear how calls end. A chain in which nobody
    /// does need not be kept alive by its calls.
    fn hears_exits(&self) -> bool {
        true
    }

    /// The refusal of a call that would have to wait `wait` because this slot
    /// said so, and must not. It still holds what it has reserved.
    fn too_early(&self, call: &Call<'_>, wait: Duration) -> Block {
        let _ = call;
        let wait_ms = wait.as_secs_f64() * 1e3;
        Block::new(
            BlockKind::Custom(self.name()),
            RuleId::new(self.name()),
            0.0,
            wait_ms,
        )
        .measured_in(Measure::WaitMs)
        .retry_after_at(Some(wait))
    }

    /// The refusal of a call that this slot has queued, and that waited in vain,
    /// or must not wait.
    fn in_vain(&self, call: &Call<'_>, queue: Queue) -> Block {
        let _ = call;
        queue.block
    }
}

/// The slots that come with Flowgate, in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum BuiltIn {
    /// Lists of callers.
    Authority,
    /// Protection of the machine.
    System,
    /// Hot parameters.
    ParamFlow,
    /// Flow rules.
    Flow,
    /// Limits on calls at once.
    Isolation,
    /// Circuit breakers.
    Degrade,
}

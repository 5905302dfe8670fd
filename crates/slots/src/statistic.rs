//! The first slot of every chain: it counts.

use flowgate_core::node::permits::{CALLS_MAX, Crowded};
use flowgate_core::{Block, BlockKind, Call, Departure, Measure, Outcome, Place, RuleId, Verdict};

use crate::guarded::SlotError;
use crate::slot::Slot;

/// Counts passes, refusals, completions and calls in flight on every node of
/// a call. It refuses nothing and reserves nothing itself.
#[derive(Debug)]
pub struct StatisticSlot;

impl StatisticSlot {
    /// Counts a call in. Unlike a slot it may find that there is no room, as it
    /// counts only so far.
    ///
    /// # Errors
    ///
    /// The refusal of a call beyond [`CALLS_MAX`] in flight.
    #[inline]
    pub(crate) fn admit(&self, call: &mut Call<'_>) -> Result<(), Block> {
        let admitted = call.holds.admit(&call.nodes, call.now, call.weight);
        admitted.map_err(|crowded| self.refuse_crowded(crowded))
    }

    #[cold]
    fn refuse_crowded(&self, crowded: Crowded) -> Block {
        let (kind, rule) = (BlockKind::Custom(self.name()), RuleId::new(self.name()));
        Block::new(kind, rule, CALLS_MAX as f64, crowded.calls as f64)
            .measured_in(Measure::Concurrency)
    }
}

impl Slot for StatisticSlot {
    fn name(&self) -> &'static str {
        "statistic"
    }

    fn check(&self, _: &mut Call<'_>) -> Result<Verdict, SlotError> {
        Ok(Verdict::Pass)
    }

    #[inline]
    fn blocked(&self, call: &Call<'_>, _: &Block) {
        for (_, node) in call.nodes.iter() {
            node.block(call.now, call.weight);
        }
    }

    #[inline]
    fn exited(&self, departure: &Departure<'_>) {
        let Departure {
            now,
            weight,
            outcome,
            ..
        } = *departure;
        let rt_ns = now.as_nanos().saturating_sub(departure.entered.as_nanos());
        let has_twin = departure.nodes.at(Place::Twin).is_some();
        for (at, node) in departure.nodes.iter() {
            match outcome {
                Outcome::Cancelled => node.cancelled(now, weight),
                _ => {
                    let twin = has_twin && at == Place::Resource as usize;
                    node.complete_ns(now, weight, rt_ns, outcome == Outcome::Error, twin);
                }
            }
            node.leave_from(departure.seats.at(at), weight);
        }
    }

    /// It counts exits, but the facade tells it so itself: it has no state
    /// that a chain would have to be kept for.
    fn hears_exits(&self) -> bool {
        false
    }
}

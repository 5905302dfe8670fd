//! The breaker slot: all circuit breakers of one resource.

use std::sync::Arc;

use flowgate_core::{Block, BlockKind, Call, Departure, Measure, RuleId, Verdict};
use flowgate_rules::RuleEntry;
use flowgate_rules::degrade::circuit::Admitted;
use flowgate_rules::degrade::{BreakerState, Degrade};

use crate::guarded::SlotError;
use crate::slot::Slot;

/// All circuit breakers of one resource, in the order of the document.
pub struct DegradeSlot {
    checks: Box<[BreakerCheck]>,
}

struct BreakerCheck {
    entry: Arc<RuleEntry<Degrade>>,
    state: Arc<BreakerState>,
    id: RuleId,
}

impl DegradeSlot {
    /// A slot of these breakers.
    pub fn new(rules: Vec<(Arc<RuleEntry<Degrade>>, Arc<BreakerState>)>) -> Self {
        let checks = rules.into_iter().map(|(entry, state)| BreakerCheck {
            id: RuleId::new(entry.id()),
            entry,
            state,
        });
        DegradeSlot {
            checks: checks.collect(),
        }
    }
}

impl Slot for DegradeSlot {
    fn name(&self) -> &'static str {
        "degrade"
    }

    fn check(&self, call: &mut Call<'_>) -> Result<Verdict, SlotError> {
        for (index, check) in self.checks.iter().enumerate() {
            match check.state.admit(call.now, drop) {
                Ok(admitted) => {
                    call.leave_ticket(index as u32, admitted.to_words());
                }
                Err(refused) => {
                    self.undo(call);
                    let rule = check.entry.rule();
                    let block = Block::new(
                        BlockKind::Degrade,
                        check.id.clone(),
                        rule.threshold(),
                        rule.threshold(),
                    );
                    return Ok(Verdict::Block(
                        block
                            .measured_in(Measure::Breaker)
                            .retry_after_at(refused.retry_after),
                    ));
                }
            }
        }
        Ok(Verdict::Pass)
    }

    fn undo(&self, call: &Call<'_>) {
        for ticket in call.tickets().rev() {
            if let Some(check) = self.checks.get(ticket.rule as usize) {
                let admitted = Admitted::from_words(ticket.data);
                check.state.undecided(admitted, call.now, drop);
            }
        }
    }

    fn exited(&self, departure: &Departure<'_>) {
        for ticket in departure.tickets().rev() {
            if let Some(check) = self.checks.get(ticket.rule as usize) {
                let Departure { outcome, now, .. } = *departure;
                let admitted = Admitted::from_words(ticket.data);
                check
                    .state
                    .report(admitted, outcome, departure.took(), now, drop);
            }
        }
    }
}

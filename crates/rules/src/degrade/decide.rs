//! How a circuit breaker decides on a call, and hears how it went.

use flowgate_core::{BlockKind, Call, Departure, Measure};

use super::{Admitted, Degrade};
use crate::decide::{Decide, Decision, InForce};

impl Decide for Degrade {
    const BLOCK: BlockKind = BlockKind::Degrade;
    const HEARS_EXITS: bool = true;

    fn decide(rule: &InForce<Self>, call: &mut Call<'_>) -> Decision {
        match rule.state.admit(call.now) {
            Ok(admitted) => {
                let [generation, probe] = admitted.to_words();
                rule.leave_ticket(call, [generation, probe, 0]);
                Decision::Pass
            }
            Err(wait) => {
                let threshold = rule.rule().threshold();
                let block = rule.block(Measure::Breaker, threshold, threshold);
                Decision::Block(block.retry_after_at(Some(wait)))
            }
        }
    }

    fn undo(rule: &InForce<Self>, ticket: [u64; 3], _: &Call<'_>) {
        rule.state.undecided(admitted(ticket));
    }

    fn exited(rule: &InForce<Self>, ticket: [u64; 3], departure: &Departure<'_>) {
        let Departure { outcome, now, .. } = *departure;
        rule.state
            .report(admitted(ticket), outcome, departure.took(), now);
    }
}

fn admitted([generation, probe, _]: [u64; 3]) -> Admitted {
    Admitted::from_words([generation, probe])
}

//! How a circuit breaker decides on a call, and hears how it went.
//!
//! An observed breaker does all this with its own circuit, over the calls that
//! are really admitted; nothing in it is shared, so `observe` is `decide`.

use flowgate_core::{BlockKind, Call, Departure, Measure};

use super::Degrade;
use super::circuit::{Admitted, Change, Refused};
use crate::decide::{Decide, Decision, InForce};

impl Decide for Degrade {
    const BLOCK: BlockKind = BlockKind::Degrade;
    const HEARS_EXITS: bool = true;

    #[inline]
    fn decide(rule: &InForce<Self>, call: &mut Call<'_>) -> Decision {
        match rule.state.admit(call.now, tell(rule, call.resource)) {
            Ok(admitted) => {
                rule.leave_ticket(call, admitted.to_words());
                Decision::Pass
            }
            Err(refused) => Decision::Block(block(rule, refused)),
        }
    }

    fn undo(rule: &InForce<Self>, ticket: [u64; 3], call: &Call<'_>) {
        let admitted = Admitted::from_words(ticket);
        let told = tell(rule, call.resource);
        rule.state.undecided(admitted, call.now, told);
    }

    #[inline]
    fn exited(rule: &InForce<Self>, ticket: [u64; 3], departure: &Departure<'_>) {
        let Departure { outcome, now, .. } = *departure;
        let admitted = Admitted::from_words(ticket);
        let told = tell(rule, departure.resource);
        rule.state
            .report(admitted, outcome, departure.took(), now, told);
    }
}

fn tell<'t>(rule: &'t InForce<Degrade>, resource: &'t str) -> impl FnMut(Change) + 't {
    move |change| rule.state.observers().tell(resource, &rule.id, change)
}

#[cold]
fn block(rule: &InForce<Degrade>, refused: Refused) -> flowgate_core::Block {
    let threshold = rule.rule().threshold();
    rule.block(Measure::Breaker, threshold, threshold)
        .retry_after_at(refused.retry_after)
}

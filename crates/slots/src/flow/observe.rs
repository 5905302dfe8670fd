//! What observed rules make of a call that was admitted.
//!
//! They decide as if they were enforced. The call is in the shared counts by
//! then, so it is left out where they are read. What is a rule's own, its line,
//! its bucket and its temperature, moves with the admitted calls: a call that
//! finds a place in the line takes it up, and gives it back if it is cancelled;
//! so it does with tokens.

use flowgate_core::call::Hold;
use flowgate_core::{Call, Node};
use flowgate_rules::flow::Grade;

use super::line::{is_own_resource, leave_place};
use super::target::{Meter, Target};
use super::{FlowCheck, FlowSlot, tokens};

/// What an observed rule would have done.
pub(super) enum Would {
    Pass,
    Wait,
    Block,
}

impl FlowSlot {
    /// Makes the views of observed rules count a call that is about to be
    /// admitted.
    pub(super) fn open_observed_views(&self, call: &Call<'_>) {
        for (index, check) in self.observed() {
            if check.state().interval().is_some()
                && let Some(Target::Own(meter)) = self.target(index, call)
            {
                meter.node.open(meter.view, call.now);
            }
        }
    }

    /// Asks observed rule `index` about an admitted call.
    pub(super) fn observe(&self, index: usize, check: &FlowCheck, call: &mut Call<'_>) {
        let Some(target) = self.target(index, call) else {
            return;
        };
        let would = match (check.rule().grade, target) {
            (Grade::Concurrency, target) => has_place(check, &target, call),
            (Grade::Qps, target) if check.state().paces() => {
                would_line_up(index, check, target.node(), call)
            }
            (Grade::Qps, _) if check.state().takes_tokens() => {
                tokens::would_take(index, check, call)
            }
            (Grade::Qps, Target::Foreign(node)) => match self.look(check, node, call) {
                Some(_) => Would::Block,
                None => Would::Pass,
            },
            (Grade::Qps, Target::Own(meter)) => has_passes(check, &meter, call),
        };
        match would {
            Would::Pass => check.hits().pass(),
            Would::Wait => {
                check.hits().pass();
                check.hits().wait();
            }
            Would::Block => check.hits().would_block(),
        }
    }
}

fn has_place(check: &FlowCheck, target: &Target<'_>, call: &Call<'_>) -> Would {
    let counts_call = match target {
        Target::Own(_) => true,
        Target::Foreign(node) => is_own_resource(node, call),
    };
    let in_flight = target.node().in_flight();
    let others = in_flight.saturating_sub(u64::from(counts_call));
    match others.saturating_add(call.weight.into()) <= check.state().places() {
        true => Would::Pass,
        false => Would::Block,
    }
}

fn would_line_up(index: usize, check: &FlowCheck, node: &Node, call: &mut Call<'_>) -> Would {
    if call.weight == 0 {
        return Would::Pass;
    }
    match check.line_up(node, call) {
        Ok((place, wait)) if wait.is_zero() || call.may_wait => {
            leave_place(index, place, call);
            match wait.is_zero() {
                true => Would::Pass,
                false => Would::Wait,
            }
        }
        // It would have been refused, as it does not wait.
        Ok((place, _)) => {
            check.state().step_out(place, call.now);
            Would::Block
        }
        Err(_) => Would::Block,
    }
}

fn has_passes(check: &FlowCheck, meter: &Meter<'_>, call: &Call<'_>) -> Would {
    let allowed = check.state().allowed(call.now, meter.node);
    let limit = check.state().limit_at(allowed);
    let hold = meter.hold(call);
    if meter.probe(call, limit, hold).is_ok() {
        return Would::Pass;
    }
    // What the call itself has passed is in the windows that it would wait for.
    let more = match hold {
        Hold::Passed(_) | Hold::Loaned(_) => 0,
        Hold::Nothing => call.weight,
    };
    let lends = call.prioritized
        && call.may_wait
        && check.may_lend()
        && !check.state().moves()
        && meter.may_borrow(call, more, limit);
    match lends {
        true => Would::Wait,
        false => Would::Block,
    }
}

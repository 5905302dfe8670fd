//! Rules that take no passes: queues, looks at another resource, calls at once.

use std::time::Duration;

use flowgate_core::call::Hold;
use flowgate_core::node::permits::Share;
use flowgate_core::{Block, Call, Node, Place};
use flowgate_rules::flow::Queue;
use flowgate_rules::flow::pacing::Place as LinePlace;

use super::target::Target;
use super::{FlowCheck, FlowSlot};

/// A rule that paces: takes a place in its line.
pub(super) fn line_up(
    index: usize,
    check: &FlowCheck,
    node: &Node,
    call: &mut Call<'_>,
) -> Option<Block> {
    if call.weight == 0 {
        return None;
    }
    match check.line_up(node, call) {
        Ok((place, wait)) => {
            leave_place(index, place, call);
            call.holds.wait_for(call.slot, index as u32, wait);
            None
        }
        Err(mut queue) => {
            if !call.may_wait {
                // Its place would have to be due at once.
                queue.retry_after = queue.retry_after.map(|_| queue.wait);
            }
            Some(check.refuse_queue(queue))
        }
    }
}

/// Notes a place in the line of rule `index`, to be able to give it back.
pub(super) fn leave_place(index: usize, place: LinePlace, call: &mut Call<'_>) {
    let LinePlace {
        release_ns,
        before_ns,
        cost_ns,
    } = place;
    call.leave_ticket(index as u32, [release_ns, before_ns, cost_ns]);
}

/// Whether a related node is that of the call's own resource: what the call
/// has taken there by now is no other call's.
pub(super) fn is_own_resource(node: &Node, call: &Call<'_>) -> bool {
    call.nodes
        .at(Place::Resource)
        .is_some_and(|own| std::ptr::eq(own, node))
}

impl FlowCheck {
    /// A place in the line of this rule for a call that weighs something, and
    /// the wait until then.
    pub(super) fn line_up(
        &self,
        node: &Node,
        call: &Call<'_>,
    ) -> Result<(LinePlace, Duration), Queue> {
        let allowed = self.state().allowed(call.now, node);
        let place = self.state().line_up(call.now, call.weight, allowed)?;
        let wait_ns = place.release_ns.saturating_sub(call.now.as_nanos());
        Ok((place, Duration::from_nanos(wait_ns)))
    }
}

impl FlowSlot {
    /// A rate measured on another resource: looks, and reserves nothing. A view
    /// of an interval of the rule's own counts there from the first look on.
    pub(super) fn look(&self, check: &FlowCheck, node: &Node, call: &Call<'_>) -> Option<Block> {
        let allowed = check.state().allowed(call.now, node);
        let limit = check.state().limit_at(allowed);
        let view = self.view(check);
        let own = match is_own_resource(node, call) {
            true => call.holds.pass_in(Place::Resource, view),
            false => Hold::Nothing,
        };
        let full = node.probe_in(view, call.now, call.weight, limit, own);
        Some(check.refuse_rate(allowed, limit, call.weight, full.err()?))
    }

    /// A concurrency rule: takes one place in flight if `weight` are free.
    pub(super) fn take_place(
        &self,
        index: usize,
        target: &Target<'_>,
        call: &mut Call<'_>,
    ) -> Option<Block> {
        let check = &self.checks[index];
        let weight = call.weight;
        let own = check.state().places();
        match target {
            Target::Foreign(node) => {
                let own_place = u64::from(
                    is_own_resource(node, call) && call.holds.in_flight(Place::Resource).place,
                );
                let in_flight = node.in_flight().saturating_sub(own_place);
                let fits = in_flight.saturating_add(u64::from(weight)) <= own;
                (!fits).then(|| check.refuse_concurrency(in_flight))
            }
            Target::Own(meter) if call.holds.in_flight(meter.place).place => None,
            Target::Own(meter) => {
                let limit = match self.enforced {
                    1 => own,
                    _ => own.min(self.least_places(index, meter.place, call)),
                };
                match meter.node.try_enter(weight, limit) {
                    Ok(_) => {
                        call.holds.add_in_flight(meter.place, Share::PLACE);
                        None
                    }
                    // A later rule's limit: that rule asks again and refuses.
                    Err(in_flight) if in_flight.saturating_add(u64::from(weight)) <= own => None,
                    Err(in_flight) => Some(check.refuse_concurrency(in_flight)),
                }
            }
        }
    }
}

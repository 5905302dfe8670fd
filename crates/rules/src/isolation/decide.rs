//! How an isolation rule decides on a call.
//!
//! The first rule takes the permits, with the least limit of all that follow; the
//! others see that they are taken. Without room it is the business of the first
//! rule that has none under its own limit: it refuses, or has the call wait,
//! under the least limit again.

use std::time::Duration;

use flowgate_core::{BlockKind, Call, Measure, Place, Queue};

use super::{Isolation, IsolationRule};
use crate::decide::{Decide, Decision, InForce};

impl Decide for Isolation {
    const BLOCK: BlockKind = BlockKind::Isolation;
    const HEARS_EXITS: bool = false;

    fn shared_limits(rule: &InForce<Self>) -> [u64; 2] {
        [u64::from(rule.rule().count), u64::MAX]
    }

    #[inline]
    fn decide(rule: &InForce<Self>, call: &mut Call<'_>) -> Decision {
        let Some(node) = call.nodes.at(Place::Resource) else {
            return Decision::Pass;
        };
        let held = call.holds.in_flight(Place::Resource);
        if held.permits {
            return Decision::Pass;
        }
        let [least, _] = rule.least;
        let weight = u64::from(call.weight);
        let own = u64::from(rule.rule().count);
        if weight > own {
            return refuse(rule, node.permits().permits());
        }
        if weight > least {
            // Nothing is taken that a later rule refuses in any case.
            return Decision::Pass;
        }
        let share = held.rest();
        let no_room = match node.permits().try_take(share, call.weight, least) {
            Ok(()) => {
                call.holds.add_in_flight(Place::Resource, share);
                return Decision::Pass;
            }
            Err(no_room) => no_room,
        };
        let has_room = match no_room.behind {
            // They wait under the least limit.
            true => own > least,
            false => no_room.permits + weight <= own,
        };
        if has_room {
            // A later rule has none: it asks again.
            return Decision::Pass;
        }
        match weight > 0 && rule.rule().waits() {
            true => queue(rule, no_room.permits),
            false => refuse(rule, no_room.permits),
        }
    }

    /// The call is in flight by now. What would have had to wait counts as
    /// refused, since nobody knows for how long.
    fn observe(rule: &InForce<Self>, call: &mut Call<'_>) -> Decision {
        let Some(node) = call.nodes.at(Place::Resource) else {
            return Decision::Pass;
        };
        match node.permits().permits() {
            permits if permits <= u64::from(rule.rule().count) => Decision::Pass,
            permits => refuse(rule, permits.saturating_sub(u64::from(call.weight))),
        }
    }
}

#[cold]
fn refuse(rule: &InForce<Isolation>, permits: u64) -> Decision {
    let limit = f64::from(rule.rule().count);
    Decision::Block(rule.block(Measure::Permits, limit, permits as f64))
}

#[cold]
fn queue(rule: &InForce<Isolation>, permits: u64) -> Decision {
    let IsolationRule {
        count,
        max_queueing_time_ms,
        max_queue_length,
        ..
    } = *rule.rule();
    let [limit, _] = rule.least;
    Decision::Queue(Queue {
        limit,
        wait_max: Duration::from_millis(u64::from(max_queueing_time_ms)),
        queued_max: max_queue_length as usize,
        rule: rule.index,
        block: rule.block(Measure::Permits, f64::from(count), permits as f64),
    })
}

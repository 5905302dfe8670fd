//! How a system rule decides on an inbound call.
//!
//! The checks of one rule have Sentinel's order: calls per second, calls at
//! once, response time, load, processor use; several rules are asked one after
//! the other, as they stand in the document. A call must be within all of them,
//! so the least threshold of each sort counts, and a refusal names the first
//! rule that refuses, by its first check that does.
//!
//! **Several rules on one budget** are one reservation: the first rule asked
//! takes passes and a place, within the least limits of all enforced rules, so no
//! call holds what a later rule must refuse. If it finds no room there but its own
//! limits would do, it stands back, and the rule whose limit it is refuses.
//!
//! What is only looked at (response time, load, processor use) is looked at
//! before anything is taken, for the same reason.

use flowgate_core::leap_array::Full;
use flowgate_core::{Block, BlockKind, Call, Departure, Measure, Traffic};

use super::machine::Limits;
use super::{Held, Inbound, NoRoom, System};
use crate::decide::{Decide, Decision, InForce};

impl Decide for System {
    const BLOCK: BlockKind = BlockKind::System;
    const HEARS_EXITS: bool = true;
    const HEARS_PASSES: bool = true;

    #[inline]
    fn applies(rule: &InForce<Self>, call: &Call<'_>) -> bool {
        call.traffic == Traffic::Inbound && rule.state.inbound().is_some()
    }

    fn shared_limits(rule: &InForce<Self>) -> [u64; 2] {
        let Limits { passes, places } = rule.state.limits();
        [passes, places]
    }

    fn decide(rule: &InForce<Self>, call: &mut Call<'_>) -> Decision {
        let Some(inbound) = rule.state.inbound() else {
            return Decision::Pass;
        };
        if let Some(held) = held(call) {
            return judge(rule, inbound, held, call);
        }
        let own = rule.state.limits();
        let peek = |call: &Call<'_>| inbound.peek(call.now, call.weight, own).err();
        if let Some(block) = strained(rule, inbound, 0, call) {
            let first = peek(call).map(|no_room| refuse(rule, no_room, call));
            return Decision::Block(first.unwrap_or(block));
        }
        match inbound.enter(call.now, call.weight, Limits::of(rule.least_of_all)) {
            Ok(held) => {
                rule.leave_ticket(call, held.to_words());
                Decision::Pass
            }
            Err(no_room) => {
                let own_reason = Some(no_room).filter(|no_room| exceeds(no_room, call, own));
                match own_reason.or_else(|| peek(call)) {
                    Some(reason) => Decision::Block(refuse(rule, reason, call)),
                    // A later rule's limit: that rule asks again and refuses.
                    None if exceeds(&no_room, call, Limits::of(rule.least)) => Decision::Pass,
                    // An earlier rule's, which had room a moment ago.
                    None => Decision::Block(refuse(rule, no_room, call)),
                }
            }
        }
    }

    /// Counts the call if no enforced rule does, takes nothing that another
    /// would be refused for, and looks whether it was one too many.
    fn observe(rule: &InForce<Self>, call: &mut Call<'_>) -> Decision {
        let Some(inbound) = rule.state.inbound() else {
            return Decision::Pass;
        };
        let held = match held(call) {
            Some(held) => held,
            None => {
                let Some(held) = inbound.count(call.now, call.weight) else {
                    return Decision::Pass;
                };
                rule.leave_ticket(call, held.to_words());
                held
            }
        };
        judge(rule, inbound, held, call)
    }

    fn passed(rule: &InForce<Self>, ticket: &mut [u64; 3]) {
        if let Some(inbound) = rule.state.inbound() {
            let mut held = Held::from_words(*ticket);
            inbound.settle(&mut held);
            *ticket = held.to_words();
        }
    }

    fn undo(rule: &InForce<Self>, ticket: [u64; 3], _: &Call<'_>) {
        if let Some(inbound) = rule.state.inbound() {
            inbound.give_back(Held::from_words(ticket));
        }
    }

    fn exited(rule: &InForce<Self>, ticket: [u64; 3], departure: &Departure<'_>) {
        let Departure {
            now,
            weight,
            outcome,
            ..
        } = *departure;
        if let Some(inbound) = rule.state.inbound() {
            let held = Held::from_words(ticket);
            inbound.exit(held, now, weight, departure.took(), outcome);
        }
    }
}

/// What the call holds of the budget, by whichever rule it took it.
fn held(call: &Call<'_>) -> Option<Held> {
    let ticket = call.tickets().next()?;
    Some(Held::from_words(ticket.data))
}

/// Decides on a call that holds its passes and its place already.
fn judge(rule: &InForce<System>, inbound: &Inbound, held: Held, call: &Call<'_>) -> Decision {
    let own = rule.state.limits();
    // What others held when it took its own.
    let passes = held.passes().saturating_sub(u64::from(call.weight));
    let in_flight = held.in_flight().saturating_sub(1);
    let no_room = if held.passes() > own.passes {
        let retry_after = inbound.peek(call.now, call.weight, own).err();
        let retry_after = retry_after.and_then(|no_room| match no_room {
            NoRoom::Passes(full) => full.retry_after,
            NoRoom::Places(_) => None,
        });
        Some(NoRoom::Passes(Full {
            sum: passes,
            retry_after,
        }))
    } else if in_flight >= own.places {
        // Some of those may have left before anybody looked.
        let left = inbound.in_flight_now(call.now).saturating_sub(1);
        let in_flight = in_flight.min(left);
        (in_flight >= own.places).then_some(NoRoom::Places(in_flight))
    } else {
        None
    };
    let block = match no_room {
        Some(no_room) => Some(refuse(rule, no_room, call)),
        None => strained(rule, inbound, 1, call),
    };
    block.map_or(Decision::Pass, Decision::Block)
}

/// Whether no room for a call is by these limits.
fn exceeds(no_room: &NoRoom, call: &Call<'_>, limits: Limits) -> bool {
    match no_room {
        NoRoom::Passes(full) => full.exceeds(call.weight, limits.passes),
        NoRoom::Places(in_flight) => *in_flight >= limits.places,
    }
}

#[cold]
fn refuse(rule: &InForce<System>, no_room: NoRoom, call: &Call<'_>) -> Block {
    let said = rule.rule();
    match no_room {
        NoRoom::Passes(full) => {
            let never = u64::from(call.weight) > rule.state.limits().passes;
            let qps = said.qps.unwrap_or(f64::MAX);
            rule.block(Measure::Rate, qps, rule.state.per_second(full.sum))
                .retry_after_at(full.retry_after.filter(|_| !never))
        }
        NoRoom::Places(in_flight) => {
            let places = said.max_thread.unwrap_or(u64::MAX);
            rule.block(Measure::Concurrency, places as f64, in_flight as f64)
        }
    }
}

/// The refusal of a call because of how others are doing: response time, load,
/// processor use, in this order. What is not known refuses nothing.
fn strained(
    rule: &InForce<System>,
    inbound: &Inbound,
    own_places: u64,
    call: &Call<'_>,
) -> Option<Block> {
    let (said, machine) = (rule.rule(), rule.state.machine());
    let throughput = || inbound.throughput(call.now);
    // Sentinel's test on the lines of BBR: a call alone is never too much.
    let is_saturated = || {
        let capacity = throughput().capacity();
        let is_too_much = |in_flight: u64| {
            let others = in_flight.saturating_sub(own_places);
            others > 1 && others as f64 > capacity
        };
        is_too_much(inbound.in_flight()) && is_too_much(inbound.in_flight_now(call.now))
    };
    if let Some(limit_ms) = said.avg_rt_ms {
        let mean_ms = throughput().rt_mean.map(|rt| rt.as_secs_f64() * 1e3);
        if let Some(mean_ms) = mean_ms.filter(|mean_ms| *mean_ms > limit_ms) {
            return Some(rule.block(Measure::ResponseTimeMs, limit_ms, mean_ms));
        }
    }
    if let Some(limit) = said.highest_system_load
        && let Some(load) = machine.load1(call.now).filter(|load| *load > limit)
        && (!said.bbr.is_on_load() || is_saturated())
    {
        return Some(rule.block(Measure::Load, limit, load));
    }
    if let Some(limit) = said.highest_cpu_usage
        && let Some(cpu) = machine.cpu(call.now).filter(|cpu| *cpu > limit)
        && (!said.bbr.is_on_cpu() || is_saturated())
    {
        return Some(rule.block(Measure::Cpu, limit, cpu));
    }
    None
}

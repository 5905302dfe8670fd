//! How a hot-parameter rule decides on a call.

use std::time::Duration;

use flowgate_core::{Arg, Block, BlockKind, Call, Departure, Measure};

use super::state::{Refusal, Shares};
use super::{Param, ParamFlow};
use crate::Grade;
use crate::decide::{Decide, Decision, InForce};

impl Param {
    /// The value that `call` has here; null where it has none.
    #[inline]
    fn of<'a>(&self, call: &Call<'a>) -> Arg<'a> {
        let found = match self {
            Param::Index(index @ 0..) => call.args.get(*index as usize).copied(),
            Param::Index(from_end) => {
                let from_end = from_end.unsigned_abs() as usize;
                let index = call.args.len().checked_sub(from_end);
                index.and_then(|index| call.args.get(index)).copied()
            }
            Param::Key(name) => call.attachment(name),
        };
        found.unwrap_or(Arg::Null)
    }
}

impl Decide for ParamFlow {
    const BLOCK: BlockKind = BlockKind::ParamFlow;
    const HEARS_EXITS: bool = true;

    #[inline]
    fn applies(rule: &InForce<Self>, call: &Call<'_>) -> bool {
        match rule.rule().param.of(call) {
            Arg::Null => false,
            Arg::List(elements) => elements.iter().any(|element| *element != Arg::Null),
            _ => true,
        }
    }

    fn decide(rule: &InForce<Self>, call: &mut Call<'_>) -> Decision {
        let value = rule.rule().param.of(call);
        let taken = match value {
            Arg::List(_) => take_list(rule, value, call),
            // Nearly always: nothing has to be kept aside.
            value => rule
                .state
                .take_one(value, call.now, call.weight)
                .map(|taken| {
                    taken.map_or(Duration::ZERO, |(share, wait)| {
                        rule.leave_ticket(call, share);
                        wait
                    })
                }),
        };
        match taken {
            Ok(Duration::ZERO) => Decision::Pass,
            Ok(wait) => Decision::Wait(wait),
            Err(mut refusal) => {
                if rule.rule().queues() && !call.may_wait {
                    // Its place would have to be due at once.
                    let wait_max = Duration::from_millis(rule.rule().max_queueing_time_ms.into());
                    let after = refusal.retry_after;
                    refusal.retry_after = after.map(|after| after.saturating_add(wait_max));
                }
                Decision::Block(block(rule, refusal))
            }
        }
    }

    fn undo(rule: &InForce<Self>, ticket: [u64; 3], call: &Call<'_>) {
        rule.state.give_back(ticket, call.now, call.weight);
    }

    #[inline]
    fn exited(rule: &InForce<Self>, ticket: [u64; 3], _: &Departure<'_>) {
        if rule.rule().grade == Grade::Concurrency {
            rule.state.leave(ticket);
        }
    }

    fn too_early(rule: &InForce<Self>, _: &Call<'_>, wait: Duration) -> Block {
        let wait_max_ms = rule.rule().max_queueing_time_ms;
        rule.block(
            Measure::WaitMs,
            wait_max_ms.into(),
            wait.as_secs_f64() * 1e3,
        )
        .retry_after_at(Some(wait))
    }
}

/// Takes of each element, in one go.
fn take_list(
    rule: &InForce<ParamFlow>,
    list: Arg<'_>,
    call: &mut Call<'_>,
) -> Result<Duration, Refusal> {
    let mut shares = Shares::new();
    let wait = rule.state.take(list, call.now, call.weight, &mut shares)?;
    for share in shares {
        rule.leave_ticket(call, share);
    }
    Ok(wait)
}

#[cold]
fn block(rule: &InForce<ParamFlow>, refusal: Refusal) -> Block {
    let Refusal {
        measure,
        limit,
        observed,
        retry_after,
    } = refusal;
    let block = rule
        .block(measure, limit, observed)
        .retry_after_at(retry_after);
    match rule.rule().accounted() {
        Some(accounting) => block.accounted_in(accounting),
        None => block,
    }
}

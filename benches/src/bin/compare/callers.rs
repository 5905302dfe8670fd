//! What callers feel of new rules: the 99.99th percentile of a call's time while
//! ten thousand rules are swapped once in a second, against seconds without.
//!
//! One pinned thread calls a thousand resources at random and times each call; the
//! swap happens on the other processor, in the middle of the second. Every rule
//! of the list is another one, so each resource makes its chain anew.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use flowgate::{Engine, Resource};
use hdrhistogram::Histogram;

use crate::contest::{Budget, Round, hardly_waited, in_turn};
use crate::line::Figures;
use crate::machine;
use crate::names::shuffled;
use crate::swaps::{RULES, engine_in_use, list_of};

const CALLED: u64 = 1_000;
const SECOND: Duration = Duration::from_secs(1);
/// More of these would take too long.
const ROUNDS_MAX: usize = 7;
const PERCENTILE: f64 = 99.99;
const LONGEST_NS: u64 = 10_000_000_000;

/// Calls until told to stop; the percentile of the calls' times.
fn percentile_of_calls(resources: &[Resource], stop: &AtomicBool) -> Result<Round> {
    let mut times = Histogram::<u64>::new_with_max(LONGEST_NS, 3)?;
    let mut next = shuffled(CALLED);
    let (start, waited) = (Instant::now(), machine::waited_ns());
    let mut before = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        drop(resources[next() as usize].try_entry());
        let now = Instant::now();
        times.saturating_record((now - before).as_nanos() as u64);
        before = now;
    }
    let waited = machine::waited_ns() - waited;
    Ok(Round {
        ns: times.value_at_percentile(PERCENTILE) as f64,
        undisturbed: hardly_waited(waited, start.elapsed()),
    })
}

/// A second of calls, with or without a swap in its middle.
fn second(engine: &Engine, resources: &[Resource], swap: Option<usize>) -> Result<Round> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let _pinned = machine::pin(0);
            percentile_of_calls(resources, &stop)
        });
        let _pinned = machine::pin(1);
        let list = swap.map(|salt| list_of(RULES, salt));
        std::thread::sleep(SECOND / 2);
        let loaded = list.map(|list| engine.load_flow(list)).transpose();
        std::thread::sleep(SECOND / 2);
        stop.store(true, Ordering::Relaxed);
        let round = caller.join();
        loaded?;
        round.unwrap_or_else(|_| Err(anyhow::anyhow!("a call panicked")))
    })
}

pub(crate) fn while_swapping(budget: Budget) -> Result<Figures> {
    ensure!(machine::processors() >= 2, "this needs two processors");
    let (engine, resources) = engine_in_use()?;
    let mut fault = None;
    let mut salt = 0;
    let budget = Budget {
        rounds: budget.rounds.min(ROUNDS_MAX),
        time: budget.time * 3,
    };
    let medians = in_turn(budget, &mut |side| {
        salt += 1;
        let swap = (side == 0).then_some(salt);
        second(&engine, &resources, swap).unwrap_or_else(|error| {
            fault = Some(error);
            Round {
                ns: 0.0,
                undisturbed: false,
            }
        })
    });
    fault.map_or(Ok(()), Err)?;
    Ok(Figures::against("no swap", medians))
}

//! Two threads on one hot resource whose exact rule lets half of their calls
//! pass, against one thread of which half pass as well.
//!
//! The limit follows from what one thread, or two, offer: half of it, found out
//! beforehand. Both have a resource of their own. Windows are those of any engine,
//! of one second, so a round takes a second too: in each, calls pass, come near
//! the limit, and are refused until there is room again.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use flowgate::{Engine, FlowRule, Resource};

use crate::contest::{Budget, Round, in_turn};
use crate::entries::passed;
use crate::line::Figures;
use crate::machine;
use crate::threads::{Crew, with_crew};

/// More of these would take too long.
const ROUNDS_MAX: usize = 7;
const TRIALS: usize = 3;
/// Half refused, give or take.
const REFUSED_SHARE: std::ops::Range<f64> = 0.35..0.65;
const NAMES: [&str; 2] = ["two", "one"];

/// One side: its resource, how often it calls in a second, and what passed.
struct Offer {
    resources: [Resource; 2],
    /// Which of the two is called: 0 by two threads, 1 by one.
    called: AtomicUsize,
    passed: AtomicU64,
}

impl Offer {
    fn work(&self, calls: u64) {
        let resource = &self.resources[self.called.load(Ordering::Relaxed) & 1];
        let passed = (0..calls).filter(|_| passed(resource)).count();
        self.passed.fetch_add(passed as u64, Ordering::Relaxed);
    }

    /// A round of about one second, and which share of it was refused.
    fn round(&self, crew: &Crew<'_>, side: usize, calls_per_second: f64) -> (Round, f64) {
        self.called.store(side, Ordering::Relaxed);
        self.passed.store(0, Ordering::Relaxed);
        let threads = 2 - side as u64;
        let calls = (calls_per_second as u64 / threads).max(1);
        let round = match side {
            0 => crew.two(calls),
            _ => crew.one(calls),
        };
        let passed = self.passed.load(Ordering::Relaxed) as f64;
        (round, 1.0 - passed / (calls * threads) as f64)
    }
}

pub(crate) fn two_threads(budget: Budget) -> Result<Figures> {
    ensure!(machine::processors() >= 2, "this needs two processors");
    let engine = Engine::new();
    let offer = Offer {
        resources: NAMES.map(|name| engine.resource(name)),
        called: AtomicUsize::new(0),
        passed: AtomicU64::new(0),
    };
    // Calls per second of two threads, and of one.
    let mut offered = [1e6; 2];
    let limit = |offered: [f64; 2]| {
        let rule = |side: usize| FlowRule::qps(NAMES[side], (offered[side] / 2.0).round());
        engine.load_flow(vec![rule(0), rule(1)])
    };
    let budget = Budget {
        rounds: budget.rounds.min(ROUNDS_MAX),
        time: budget.time * 3,
    };
    let medians = with_crew(&|calls| offer.work(calls), |crew| {
        for _ in 0..TRIALS {
            limit(offered)?;
            for side in [0, 1] {
                let (round, _) = offer.round(crew, side, offered[side]);
                offered[side] = 1e9 / round.ns;
            }
        }
        limit(offered)?;
        let mut fault = None;
        let medians = in_turn(budget, &mut |side| {
            let (round, refused) = offer.round(crew, side, offered[side]);
            let as_meant = REFUSED_SHARE.contains(&refused);
            if !as_meant {
                // What was found out beforehand was disturbed.
                offered[side] = 1e9 / round.ns;
                fault = fault.take().or(limit(offered).err());
            }
            Round {
                undisturbed: round.undisturbed && as_meant,
                ..round
            }
        });
        fault.map_or(Ok(medians), Err)
    })?;
    Ok(Figures::against("one thread", medians))
}

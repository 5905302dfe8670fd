//! Calls by name: a hot one, and ten thousand at random.

use std::hint::black_box;

use anyhow::{Result, ensure};
use flowgate::Engine;

use crate::contest::{Budget, contest, repeat};
use crate::entries::{call, passing};
use crate::line::Figures;
use crate::peers;

const NAMES: usize = 10_000;

/// A name of 22 bytes.
pub(crate) fn name_of(number: usize) -> String {
    format!("service/orders-{number:07}")
}

/// Numbers below `end` in an order that no cache foresees.
pub(crate) fn shuffled(end: u64) -> impl FnMut() -> u64 {
    let mut state = 1_u64;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // The upper half as a fraction of `end`: no division.
        ((state >> 32) * end) >> 32
    }
}

pub(crate) fn hot(budget: Budget) -> Result<Figures> {
    let (engine, orders) = passing("{}")?;
    let mut ours = repeat(|| {
        if let Ok(entry) = black_box(&engine).try_entry(black_box("orders")) {
            black_box(&entry);
            entry.exit();
        }
    });
    let mut theirs = repeat(|| call(&orders));
    let medians = contest(budget, &mut ours, &mut theirs);
    Ok(Figures::against("the same by handle", medians))
}

pub(crate) fn ten_thousand_vs_sentinel_core(budget: Budget) -> Result<Figures> {
    let names: Vec<String> = (0..NAMES).map(name_of).collect();
    let engine = Engine::new();
    let rules = |name: &String| flowgate::FlowRule::qps(name, 1e9);
    engine.load_flow(names.iter().map(rules).collect())?;
    peers::sentinel()?;
    let rules = |name: &String| peers::sentinel_rule(name, 1e9);
    peers::sentinel_rules(names.iter().map(rules).collect());
    for name in &names {
        ensure!(engine.try_entry(name).is_ok(), "a call passes");
        ensure!(peers::sentinel_call(name), "a call passes");
    }
    let (mut next, mut their_next) = (shuffled(NAMES as u64), shuffled(NAMES as u64));
    let mut ours = repeat(|| {
        if let Ok(entry) = black_box(&engine).try_entry(&names[next() as usize]) {
            black_box(&entry);
            entry.exit();
        }
    });
    let mut theirs = repeat(|| {
        black_box(peers::sentinel_call(&names[their_next() as usize]));
    });
    let medians = contest(budget, &mut ours, &mut theirs);
    peers::sentinel_rules(Vec::new());
    Ok(Figures::against(peers::SENTINEL, medians))
}

//! Hot parameters: a limit for each of a million numbers.

use std::hint::black_box;

use anyhow::{Result, ensure};
use flowgate::{Arg, Engine, ParamFlow, ParamFlowRule, Resource};

use crate::contest::{Budget, contest, repeat};
use crate::line::Figures;
use crate::names::shuffled;
use crate::peers;

pub(crate) const VALUES: u64 = 1_000_000;

/// `orders` under one rule with room for so many values, none of which is known.
pub(crate) fn orders_by_value() -> Result<(Engine, Resource)> {
    let engine = Engine::new();
    let rule = ParamFlowRule::qps("orders", 0, 1e9).max_values(VALUES as u32);
    engine.load_rules::<ParamFlow>(vec![rule])?;
    let orders = engine.resource("orders");
    Ok((engine, orders))
}

/// One guarded call with this value.
pub(crate) fn call_with(orders: &Resource, value: u64) -> bool {
    let args = [Arg::from(value)];
    match black_box(orders).request().args(&args).try_entry() {
        Ok(entry) => {
            entry.exit();
            true
        }
        Err(_) => false,
    }
}

pub(crate) fn one_million(budget: Budget) -> Result<Figures> {
    let (_engine, orders) = orders_by_value()?;
    let limiter = peers::governor_keyed();
    for value in 0..VALUES {
        ensure!(call_with(&orders, value), "a call passes");
        ensure!(limiter.check_key(&value).is_ok(), "a call passes");
    }
    let (mut next, mut their_next) = (shuffled(VALUES), shuffled(VALUES));
    let mut ours = repeat(|| {
        black_box(call_with(&orders, next()));
    });
    let mut theirs = repeat(|| {
        black_box(limiter.check_key(black_box(&their_next()))).ok();
    });
    let medians = contest(budget, &mut ours, &mut theirs);
    ensure!(limiter.len() as u64 == VALUES, "no value was forgotten");
    Ok(Figures::against(peers::GOVERNOR_KEYED, medians))
}

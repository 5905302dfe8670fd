//! One call by handle: entry and exit with all statistics, and nothing between.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Result, ensure};
use flowgate::{Clock, Engine, Resource};

use crate::contest::{Budget, contest, repeat};
use crate::line::Figures;
use crate::peers;

const ONE_RULE: &str = r#"{"flow": [{"resource": "orders", "count": 1e9}]}"#;
const REFUSING: &str = r#"{"flow": [{"resource": "orders", "count": 0}]}"#;

/// Entry and exit.
#[inline(always)]
pub(crate) fn call(resource: &Resource) {
    if let Ok(entry) = black_box(resource).try_entry() {
        black_box(&entry);
        entry.exit();
    }
}

/// Entry and exit, and whether it was let in.
#[inline(always)]
pub(crate) fn passed(resource: &Resource) -> bool {
    match black_box(resource).try_entry() {
        Ok(entry) => {
            entry.exit();
            true
        }
        Err(_) => false,
    }
}

/// An engine on the system clock with this document in force, and `orders` of
/// which a call passes.
pub(crate) fn passing(document: &str) -> Result<(Engine, Resource)> {
    let engine = flowgate_bench::engine(document)?;
    let orders = engine.resource("orders");
    ensure!(orders.try_entry().is_ok(), "a call passes");
    Ok((engine, orders))
}

fn refusing() -> Result<(Engine, Resource)> {
    let engine = flowgate_bench::engine(REFUSING)?;
    let orders = engine.resource("orders");
    ensure!(orders.try_entry().is_err(), "a call is refused");
    Ok((engine, orders))
}

fn against_governor(budget: Budget, orders: &Resource) -> Figures {
    let limiter = peers::governor();
    let mut ours = repeat(|| call(orders));
    let mut theirs = repeat(|| drop(black_box(black_box(&limiter).check())));
    Figures::against(peers::GOVERNOR, contest(budget, &mut ours, &mut theirs))
}

fn against_sentinel(budget: Budget, orders: &Resource, name: &str) -> Figures {
    let mut ours = repeat(|| call(orders));
    let mut theirs = repeat(|| {
        black_box(peers::sentinel_call(black_box(name)));
    });
    Figures::against(peers::SENTINEL, contest(budget, &mut ours, &mut theirs))
}

pub(crate) fn no_rule(budget: Budget) -> Result<Figures> {
    let (_engine, orders) = passing("{}")?;
    Ok(against_governor(budget, &orders))
}

pub(crate) fn one_rule(budget: Budget) -> Result<Figures> {
    let (_engine, orders) = passing(ONE_RULE)?;
    Ok(against_governor(budget, &orders))
}

pub(crate) fn no_rule_coarse(budget: Budget) -> Result<Figures> {
    let clock = Clock::cached(Duration::from_millis(1));
    let engine = Engine::builder().clock(clock).build();
    let orders = engine.resource("orders");
    Ok(against_governor(budget, &orders))
}

pub(crate) fn no_rule_vs_sentinel_core(budget: Budget) -> Result<Figures> {
    let (_engine, orders) = passing("{}")?;
    peers::sentinel()?;
    ensure!(peers::sentinel_call("compare/no-rule"), "a call passes");
    Ok(against_sentinel(budget, &orders, "compare/no-rule"))
}

pub(crate) fn one_rule_vs_sentinel_core(budget: Budget) -> Result<Figures> {
    let (_engine, orders) = passing(ONE_RULE)?;
    let name = "compare/one-rule";
    peers::sentinel()?;
    peers::sentinel_rules(vec![peers::sentinel_rule(name, 1e9)]);
    ensure!(peers::sentinel_call(name), "a call passes");
    Ok(against_sentinel(budget, &orders, name))
}

pub(crate) fn refused(budget: Budget) -> Result<Figures> {
    let (_engine, orders) = refusing()?;
    let limiter = peers::governor_refusing()?;
    let mut ours = repeat(|| call(&orders));
    let mut theirs = repeat(|| drop(black_box(black_box(&limiter).check())));
    let medians = contest(budget, &mut ours, &mut theirs);
    ensure!(limiter.check().is_err(), "calls were refused to the end");
    Ok(Figures::against(peers::GOVERNOR, medians))
}

pub(crate) fn refused_vs_sentinel_core(budget: Budget) -> Result<Figures> {
    let (_engine, orders) = refusing()?;
    let name = "compare/refused";
    peers::sentinel()?;
    peers::sentinel_rules(vec![peers::sentinel_rule(name, 0.0)]);
    ensure!(!peers::sentinel_call(name), "a call is refused");
    Ok(against_sentinel(budget, &orders, name))
}

//! What rules add to a call that passes: each measured against the same call
//! under no rule.

use anyhow::Result;
use flowgate_bench::TEN_RULES;

use crate::contest::{Budget, contest, repeat};
use crate::entries::{call, passing};
use crate::line::Figures;
use crate::peers;
use std::hint::black_box;

const WARM_UP: &str = r#"{"flow": [{"resource": "orders", "count": 1e9, "controlBehavior": 1}]}"#;
const QUEUEING: &str = r#"{"flow": [{"resource": "orders", "count": 1e9, "controlBehavior": 2}]}"#;
const CONCURRENCY: &str = r#"{"isolation": [{"resource": "orders", "count": 1000000}]}"#;
const BREAKER: &str = r#"{"degrade": [
    {"resource": "orders", "grade": 1, "count": 0.5, "timeWindow": 10}]}"#;

fn more_than_no_rule(budget: Budget, document: &str) -> Result<Figures> {
    let (_engine, orders) = passing(document)?;
    let (_free_engine, free) = passing("{}")?;
    let mut ours = repeat(|| call(&orders));
    let mut theirs = repeat(|| call(&free));
    let medians = contest(budget, &mut ours, &mut theirs);
    Ok(Figures::against("no rule", medians))
}

pub(crate) fn warm_up(budget: Budget) -> Result<Figures> {
    more_than_no_rule(budget, WARM_UP)
}

pub(crate) fn queueing(budget: Budget) -> Result<Figures> {
    more_than_no_rule(budget, QUEUEING)
}

pub(crate) fn breaker(budget: Budget) -> Result<Figures> {
    more_than_no_rule(budget, BREAKER)
}

pub(crate) fn concurrency(budget: Budget) -> Result<Figures> {
    more_than_no_rule(budget, CONCURRENCY)
}

pub(crate) fn ten_rules(budget: Budget) -> Result<Figures> {
    let (_engine, orders) = passing(TEN_RULES)?;
    let limiter = peers::governor();
    let mut ours = repeat(|| call(&orders));
    let mut theirs = repeat(|| drop(black_box(black_box(&limiter).check())));
    let medians = contest(budget, &mut ours, &mut theirs);
    Ok(Figures::against(peers::GOVERNOR, medians))
}

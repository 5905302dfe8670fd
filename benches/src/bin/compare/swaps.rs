//! New rules put in force.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use flowgate::{Engine, FlowRule, Resource};
use sentinel_core::flow;

use crate::contest::{Budget, Medians, contest_once};
use crate::line::Figures;
use crate::names::name_of;
use crate::peers;

pub(crate) const RULES: usize = 10_000;
const RULES_OF_TEXT: usize = 100_000;
/// More of these would take too long.
const ROUNDS_MAX: usize = 20;

/// A rule for each of so many resources; `salt` makes every one another rule.
pub(crate) fn list_of(rules: usize, salt: usize) -> Vec<FlowRule> {
    let rule = |number| FlowRule::qps(name_of(number), (1_000_000_000 + salt) as f64);
    (0..rules).map(rule).collect()
}

fn their_list_of(rules: usize, salt: usize) -> Vec<std::sync::Arc<flow::Rule>> {
    let rule = |number| peers::sentinel_rule(&name_of(number), (1_000_000_000 + salt) as f64);
    (0..rules).map(rule).collect()
}

fn text_of(rules: usize, salt: usize, limit: &str) -> String {
    let rule = |number| {
        let (name, count) = (name_of(number), 1_000_000_000 + salt);
        format!(r#"{{"resource": "{name}", "{limit}": {count}}}"#)
    };
    let all: Vec<String> = (0..rules).map(rule).collect();
    format!("[{}]", all.join(","))
}

/// An engine with a rule for each of ten thousand resources, all of which are
/// there and have been called.
pub(crate) fn engine_in_use() -> Result<(Engine, Vec<Resource>)> {
    let engine = Engine::new();
    engine.load_flow(list_of(RULES, 0))?;
    let resources: Vec<Resource> = (0..RULES).map(|n| engine.resource(&name_of(n))).collect();
    for resource in &resources {
        resource.try_entry()?.exit();
    }
    Ok((engine, resources))
}

fn contest_of_few(
    budget: Budget,
    ours: &mut dyn FnMut(usize) -> Duration,
    theirs: &mut dyn FnMut(usize) -> Duration,
) -> Medians {
    let rounds = budget.rounds.min(ROUNDS_MAX);
    let (mut turn, mut their_turn) = (0, 0);
    contest_once(
        Budget { rounds, ..budget },
        &mut |_| {
            turn += 1;
            ours(turn)
        },
        &mut |_| {
            their_turn += 1;
            theirs(their_turn)
        },
    )
}

/// Ten thousand rules that are parsed already, all of them changed.
pub(crate) fn ten_thousand(budget: Budget) -> Result<Figures> {
    let (engine, _resources) = engine_in_use()?;
    peers::sentinel()?;
    let mut fault = None;
    let medians = contest_of_few(
        budget,
        &mut |turn| {
            let list = list_of(RULES, turn);
            let start = Instant::now();
            let loaded = engine.load_flow(list);
            let took = start.elapsed();
            fault = fault.take().or(loaded.err());
            took
        },
        &mut |turn| {
            let list = their_list_of(RULES, turn);
            let start = Instant::now();
            peers::sentinel_rules(list);
            start.elapsed()
        },
    );
    peers::sentinel_rules(Vec::new());
    fault.map_or(Ok(()), Err)?;
    Ok(Figures::against(peers::SENTINEL, medians))
}

/// A hundred thousand rules from text: read, checked, and put in force.
pub(crate) fn hundred_thousand_of_text(budget: Budget) -> Result<Figures> {
    let engine = Engine::new();
    peers::sentinel()?;
    let ours = [0, 1].map(|salt| text_of(RULES_OF_TEXT, salt, "count"));
    let theirs = [0, 1].map(|salt| text_of(RULES_OF_TEXT, salt, "threshold"));
    let mut fault: Option<anyhow::Error> = None;
    let mut their_fault: Option<anyhow::Error> = None;
    let medians = contest_of_few(
        Budget {
            rounds: budget.rounds.min(5),
            time: budget.time * 2,
        },
        &mut |turn| {
            let start = Instant::now();
            let loaded = engine.load_json("flow", &ours[turn % 2]);
            let took = start.elapsed();
            fault = fault.take().or(loaded.err().map(Into::into));
            took
        },
        &mut |turn| {
            let start = Instant::now();
            match serde_json::from_str::<Vec<flow::Rule>>(&theirs[turn % 2]) {
                Ok(list) => peers::sentinel_rules(list.into_iter().map(Into::into).collect()),
                Err(error) => their_fault = Some(error.into()),
            }
            start.elapsed()
        },
    );
    peers::sentinel_rules(Vec::new());
    fault.or(their_fault).map_or(Ok(()), Err)?;
    Ok(Figures::against(peers::SENTINEL, medians))
}

/// The rules of one resource among ten thousand, by the call that is there for
/// it.
pub(crate) fn one(budget: Budget) -> Result<Figures> {
    let (engine, resources) = engine_in_use()?;
    peers::sentinel()?;
    peers::sentinel_rules(their_list_of(RULES, 0));
    let name = name_of(RULES / 2);
    let called = &resources[RULES / 2];
    let mut fault: Option<anyhow::Error> = None;
    let mut their_fault: Option<String> = None;
    let medians = contest_of_few(
        Budget {
            rounds: budget.rounds * 5,
            ..budget
        },
        &mut |turn| {
            let text = format!(r#"[{{"resource": "{name}", "count": {}}}]"#, 1_000 + turn);
            let start = Instant::now();
            let loaded = engine.load_json_of("flow", &name, text);
            let took = start.elapsed();
            fault = fault.take().or(loaded.err().map(Into::into));
            drop(black_box(called.try_entry()));
            took
        },
        &mut |turn| {
            let list = vec![peers::sentinel_rule(&name, (1_000 + turn) as f64)];
            let start = Instant::now();
            let loaded = flow::load_rules_of_resource(&name, list);
            let took = start.elapsed();
            their_fault = their_fault.take().or(loaded.err().map(|e| e.to_string()));
            took
        },
    );
    peers::sentinel_rules(Vec::new());
    fault.map_or(Ok(()), Err)?;
    their_fault.map_or(Ok(()), |text| Err(anyhow::anyhow!(text)))?;
    Ok(Figures::against(peers::SENTINEL, medians))
}

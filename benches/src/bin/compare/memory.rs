//! What a million resources, or a million hot values, take in memory, and how
//! fast they are made.
//!
//! Each measurement is a process of its own, which measures how its resident
//! memory grows: nothing that was freed before is used again.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use flowgate::Engine;
use serde::{Deserialize, Serialize};

use crate::contest::{Budget, Round, in_turn};
use crate::line::Figures;
use crate::machine;
use crate::names::name_of;
use crate::params::{VALUES, call_with, orders_by_value};
use crate::peers;

const RESOURCES: usize = 1_000_000;
/// sentinel-core's take ten times as much.
const THEIR_RESOURCES: usize = 100_000;
/// Where a machine might run out: the figures are then of those made so far.
const GROWTH_MAX: u64 = 6 << 30;
const ROUNDS_MAX: usize = 5;

/// What a process of its own makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Made {
    /// Resources that are never called.
    Idle,
    /// Resources that are called once.
    Called,
    /// Resources of sentinel-core, called once: there is no other way.
    Theirs,
    /// Values of a hot parameter.
    Values,
    /// Keys of governor.
    Keys,
}

/// What each of those made has taken.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Each {
    bytes: f64,
    ns: f64,
    waited: f64,
}

/// Makes them, in this process, and prints what each has taken.
pub(crate) fn make(made: Made) -> Result<Each> {
    let _pinned = machine::pin(0);
    match made {
        Made::Idle | Made::Called => {
            let engine = Engine::builder().resources_max(RESOURCES + 1).build();
            let make = |name: &String| {
                let resource = engine.resource(name);
                if made == Made::Called {
                    resource.try_entry()?.exit();
                }
                Ok(())
            };
            let each = names(RESOURCES, make)?;
            ensure!(engine.stats().resources > 0, "resources are kept");
            Ok(each)
        }
        Made::Theirs => {
            peers::sentinel()?;
            names(THEIR_RESOURCES, |name| {
                ensure!(peers::sentinel_call(name), "a call passes");
                Ok(())
            })
        }
        Made::Values => {
            let (_engine, orders) = orders_by_value()?;
            numbers(|value| call_with(&orders, value))
        }
        Made::Keys => {
            let limiter = peers::governor_keyed();
            numbers(|value| limiter.check_key(&value).is_ok())
        }
    }
}

fn names(count: usize, make: impl Fn(&String) -> Result<()>) -> Result<Each> {
    let names: Vec<String> = (0..count).map(name_of).collect();
    grown(count, |number| make(&names[number]))
}

fn numbers(pass: impl Fn(u64) -> bool) -> Result<Each> {
    grown(VALUES as usize, |number| {
        ensure!(pass(number as u64), "a call passes");
        Ok(())
    })
}

fn grown(count: usize, make: impl Fn(usize) -> Result<()>) -> Result<Each> {
    const CHUNK: usize = 10_000;
    let (before, waited) = (machine::resident_bytes(), machine::waited_ns());
    let start = Instant::now();
    let mut made = 0;
    let mut growth = 0;
    while made < count && growth < GROWTH_MAX {
        for number in made..(made + CHUNK).min(count) {
            make(number)?;
        }
        made = (made + CHUNK).min(count);
        growth = machine::resident_bytes() - before;
    }
    let took = start.elapsed();
    if made < count {
        eprintln!("only {made} of {count}: they take too much memory");
    }
    Ok(Each {
        bytes: growth as f64 / made as f64,
        ns: took.as_nanos() as f64 / made as f64,
        waited: (machine::waited_ns() - waited) as f64 / took.as_nanos() as f64,
    })
}

/// The same in a process of its own.
fn elsewhere(made: Made) -> Result<Each> {
    let value = made.to_possible_value().context("it has a name")?;
    let this = std::env::current_exe()?;
    let output = Command::new(this)
        .args(["--make", value.get_name()])
        .output()?;
    ensure!(
        output.status.success(),
        "making {made:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn bytes(ours: Made, peer: &'static str, theirs: Made) -> Result<Figures> {
    Ok(Figures {
        ours: elsewhere(ours)?.bytes,
        peer,
        theirs: Some(elsewhere(theirs)?.bytes),
        rounds: crate::contest::ROUNDS_MIN,
    })
}

pub(crate) fn resource_bytes(_: Budget) -> Result<Figures> {
    bytes(Made::Idle, peers::SENTINEL, Made::Theirs)
}

pub(crate) fn called_resource_bytes(_: Budget) -> Result<Figures> {
    bytes(Made::Called, peers::SENTINEL, Made::Theirs)
}

pub(crate) fn hot_param_bytes(_: Budget) -> Result<Figures> {
    bytes(Made::Values, peers::GOVERNOR_KEYED, Made::Keys)
}

pub(crate) fn resource_create(budget: Budget) -> Result<Figures> {
    let mut fault = None;
    let budget = Budget {
        rounds: budget.rounds.min(ROUNDS_MAX),
        time: budget.time * 3,
    };
    let medians = in_turn(budget, &mut |side| {
        let made = if side == 0 { Made::Idle } else { Made::Theirs };
        let each = elsewhere(made).map_err(|error| fault = Some(error));
        Round {
            ns: each.map_or(0.0, |each| each.ns),
            undisturbed: each.is_ok_and(|each| each.waited <= 0.03),
        }
    });
    fault.map_or(Ok(()), Err)?;
    Ok(Figures::against(peers::SENTINEL, medians))
}

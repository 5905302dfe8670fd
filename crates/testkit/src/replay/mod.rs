//! Runs one trace.

mod args;
mod array;
mod engine;
mod limiter;
mod pacing;

use std::fmt;

use flowgate_core::Timestamp;
use serde_json::{Map, Value};

use crate::trace::{Settings, Step, Trace};

/// Why a trace did not pass.
#[derive(Debug)]
pub struct Failure {
    step: Option<(usize, String)>,
    message: String,
}

impl Failure {
    pub(crate) fn unreadable(message: String) -> Self {
        Failure {
            step: None,
            message,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.step {
            Some((index, what)) => write!(f, "step {index} ({what}): {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Failure {}

/// What a step comes to: nothing, or a description of the difference.
type Compared = Result<(), String>;

pub(crate) fn replay(trace: &Trace) -> Result<(), Failure> {
    match (
        &trace.rules,
        &trace.array,
        &trace.controller,
        &trace.limiter,
    ) {
        (Some(rules), None, None, None) => {
            let mut world = engine::World::new(trace, rules).map_err(Failure::unreadable)?;
            each_step(trace, |step| world.step(step))
        }
        (None, Some(array), None, None) => {
            let mut world = array::World::new(array).map_err(Failure::unreadable)?;
            each_step(trace, |step| world.step(step, &trace.settings))
        }
        (None, None, Some(controller), None) => {
            let world = pacing::World::new(controller).map_err(Failure::unreadable)?;
            let whole_ms = paced_in_whole_ms(trace);
            each_step(trace, |step| world.step(step, &trace.settings, whole_ms))
        }
        (None, None, None, Some(limiter)) => {
            let world = limiter::World::new(limiter).map_err(Failure::unreadable)?;
            each_step(trace, |step| world.step(step, &trace.settings))
        }
        _ => Err(Failure::unreadable(
            "neither rules, nor array, nor controller, nor limiter".into(),
        )),
    }
}

fn each_step(trace: &Trace, mut run: impl FnMut(&Step) -> Compared) -> Result<(), Failure> {
    for (index, step) in trace.steps.iter().enumerate() {
        run(step).map_err(|message| {
            let id = step.id.map(|id| format!(" id {id}")).unwrap_or_default();
            Failure {
                step: Some((index, format!("{} at t={}{id}", step.op, step.t))),
                message,
            }
        })?;
    }
    Ok(())
}

/// The moment a step names on the monotonic clock.
fn moment(step: &Step, settings: &Settings, whole_ms: bool) -> Timestamp {
    let ms = settings.epoch_ms as i64 + step.mono.unwrap_or(step.t);
    let ns = if whole_ms { 0 } else { step.ns };
    Timestamp::from_nanos(ms.max(0) as u64 * 1_000_000 + ns)
}

/// Whether the reference paced this trace in whole milliseconds: it then never
/// saw the nanoseconds of the steps.
fn paced_in_whole_ms(trace: &Trace) -> bool {
    let has = |key: &str| {
        trace
            .steps
            .iter()
            .any(|s| s.expect.as_ref().is_some_and(|e| e.contains_key(key)))
    };
    has("wait_ms") && !has("wait_ns")
}

/// The wait that `expect` names, in nanoseconds.
fn expected_wait_ns(expect: &Map<String, Value>) -> Result<u64, String> {
    match (expect.get("wait_ms"), expect.get("wait_ns")) {
        (None, None) => Ok(0),
        (Some(ms), None) => Ok(whole(ms)? * 1_000_000),
        (None, Some(ns)) => whole(ns),
        _ => Err("both wait_ms and wait_ns".into()),
    }
}

fn whole(value: &Value) -> Result<u64, String> {
    value
        .as_u64()
        .ok_or_else(|| format!("{value} is not a whole number"))
}

fn expectation(step: &Step) -> Result<&Map<String, Value>, String> {
    step.expect
        .as_ref()
        .ok_or_else(|| "nothing expected".into())
}

fn differs(what: &str, expected: impl fmt::Debug, found: impl fmt::Debug) -> String {
    format!("{what}: expected {expected:?}, found {found:?}")
}

/// Compares the only field of `expect`.
fn only(expect: &Map<String, Value>, key: &str, found: &Value) -> Compared {
    match expect.get(key) {
        Some(expected) if expect.len() == 1 => match expected == found {
            true => Ok(()),
            false => Err(differs(key, expected, found)),
        },
        _ => Err(format!("cannot interpret {expect:?}")),
    }
}

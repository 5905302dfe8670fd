//! The oracle: drives every way to limit with adversarial and random traffic,
//! and holds each decision and every span of time against what
//! `docs/guarantees.md` promises.
//!
//! ```text
//! algorithms   what is put to the test, and the rules it is drawn from
//! case         rules and operations as data; traffic draws the operations
//! limiter      one face for engines, limiters on their own, and broken ones
//! model        the documents once more, slow and simple
//! sequential   one thread: each decision against the model, all spans of the log
//! threads      many threads: exact totals at one instant, all spans of the log
//! spans        two pointers over a log
//! shrink       makes a failing case small; write puts it down as a trace
//! sabotage     limiters that are broken on purpose, for the oracle itself
//! drift        one engine for very many calls
//! ```
//!
//! Everything is drawn from a seed: the same seed makes the same cases, on any
//! number of threads. What many threads do to each other is not repeatable; their
//! traffic is.

mod algorithms;
mod case;
mod drift;
mod limiter;
mod log;
mod model;
mod random;
mod report;
mod sabotage;
mod sequential;
mod shrink;
mod spans;
mod threads;
mod traffic;
mod work;
mod write;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use drift::{Drifted, drift};
pub use log::{Bound, Broken};
pub use report::{Failure, Line, Report};
pub use sabotage::Sabotage;

use algorithms::ALGORITHMS;
use shrink::Make;
use work::Work;

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many decisions are made, give or take one run.
    pub decisions: u64,
    /// Where all traffic comes from.
    pub seed: u64,
    /// The only algorithm to look at.
    pub only: Option<String>,
    /// How many runs go on at once.
    pub threads: usize,
    /// Looks at a broken limiter instead.
    pub sabotage: Option<Sabotage>,
    /// Where traces of failures are written.
    pub traces: PathBuf,
}

impl Options {
    /// So many decisions of the default seed, on this many threads at once.
    pub fn new(decisions: u64, threads: usize) -> Self {
        Options {
            decisions,
            seed: 1,
            only: None,
            threads,
            sabotage: None,
            traces: PathBuf::from("target/oracle"),
        }
    }
}

/// A name that no algorithm has, or a case that nobody can run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unknown(String);

/// The names of all algorithms.
pub fn names() -> Vec<&'static str> {
    ALGORITHMS.iter().map(|algorithm| algorithm.name).collect()
}

/// Runs the oracle.
///
/// # Errors
///
/// [`Unknown`] if there is no algorithm of the name asked for.
pub fn run(options: &Options) -> Result<Report, Unknown> {
    let chosen = chosen(options)?;
    let all: Vec<Work> = Work::plan(&chosen, options.decisions);
    Ok(run_all(&all, options))
}

/// Runs the one case that a failure was named by: `SEED/CASE`.
///
/// # Errors
///
/// [`Unknown`] if there is no such case.
pub fn replay(name: &str, options: &Options) -> Result<Report, Unknown> {
    let unknown = || {
        Unknown(format!(
            "{name} names no case; give SEED/CASE as it was printed"
        ))
    };
    let (seed, case) = name.split_once('/').ok_or_else(unknown)?;
    let work = Work::named(case).ok_or_else(unknown)?;
    let options = Options {
        seed: seed.parse().map_err(|_| unknown())?,
        ..options.clone()
    };
    // What threads do to each other is not the same each time.
    let times = if work.is_crowd() { 50 } else { 1 };
    Ok(run_all(&vec![work; times], &options))
}

/// Seven threads call once, and an eighth asks for all of a limit of 1,000: what
/// it is given by each way to limit.
pub fn eighth() -> Vec<(&'static str, u64)> {
    let interval = |strict| case::Limit::Interval {
        milli: 1_000_000,
        interval_ms: 1000,
        boxes: 10,
        strict,
    };
    let bucket = case::Limit::Bucket {
        milli: 1_000_000,
        interval_ms: 1000,
        burst: 1000,
        wait_ms: None,
    };
    let tokens = case::Limit::ParamTokens {
        milli: 1_000_000,
        burst: 0,
        period_s: 1,
    };
    let rules = |limit| case::Setup::rules(vec![limit]);
    let alone = |limit| case::Setup {
        form: case::Form::Alone,
        ..rules(limit)
    };
    [
        ("reject", rules(case::Limit::Rate { milli: 1_000_000 })),
        ("interval", rules(interval(false))),
        ("strict", rules(interval(true))),
        ("bucket", rules(bucket.clone())),
        ("at-once", rules(case::Limit::AtOnce { count: 1000 })),
        ("isolation", rules(case::Limit::Permits { count: 1000 })),
        ("param-tokens", rules(tokens)),
        ("limiter", alone(interval(false))),
        ("strict-limiter", alone(interval(true))),
        ("bucket-limiter", alone(bucket)),
    ]
    .into_iter()
    .map(|(name, setup)| (name, threads::leftovers(&setup, &limiter::honest).0))
    .collect()
}

fn chosen(options: &Options) -> Result<Vec<&'static algorithms::Algorithm>, Unknown> {
    let known = || names().join(", ");
    if let Some(sabotage) = options.sabotage {
        return Ok(sabotage.algorithm().into_iter().collect());
    }
    match &options.only {
        None => Ok(ALGORITHMS.iter().collect()),
        Some(name) => match algorithms::named(name) {
            Some(algorithm) => Ok(vec![algorithm]),
            None => Err(Unknown(format!(
                "no algorithm {name}; there are {}",
                known()
            ))),
        },
    }
}

/// Threads take one piece of work after another. An algorithm that has failed
/// is left alone from then on.
fn run_all(all: &[Work], options: &Options) -> Report {
    let report = Mutex::new(Report::new(options.seed));
    let next = AtomicUsize::new(0);
    let sleepy: Make<'_> = &limiter::sleepy;
    let honest: Make<'_> = &limiter::honest;
    let broken = options
        .sabotage
        .map(|sabotage| move |setup: &case::Setup| sabotage.limiter(setup));
    let makes = match &broken {
        None => work::Makes { honest, sleepy },
        Some(broken) => work::Makes {
            honest: broken,
            sleepy: broken,
        },
    };
    let lock = || match report.lock() {
        Ok(report) => report,
        Err(poisoned) => poisoned.into_inner(),
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| {
                while let Some(work) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if lock().has_failed(work.algorithm.name) {
                        continue;
                    }
                    let done = work.run(options, &makes);
                    lock().add(work.algorithm.name, done);
                }
            });
        }
    });
    match report.into_inner() {
        Ok(report) => report,
        Err(poisoned) => poisoned.into_inner(),
    }
}

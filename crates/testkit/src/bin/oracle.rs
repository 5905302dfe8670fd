//! Drives every way to limit with adversarial traffic, and checks every span.
//!
//! ```text
//! cargo run --release -p flowgate-testkit --bin oracle -- [--seed S] [--decisions N] [--only NAME]
//! ```
//!
//! Prints a line for each algorithm. Exit code 1 if a promise was not kept, 2
//! for arguments that make no sense. See `docs/oracle.md`.

#![expect(clippy::print_stdout, reason = "this program's output is its purpose")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use flowgate_testkit::oracle::{self, Drifted, Options, Report, Sabotage};

/// Drives every way to limit with adversarial traffic, and checks every span.
#[derive(Parser)]
#[command(name = "oracle")]
struct Arguments {
    /// How many decisions are made, roughly.
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    decisions: u64,
    /// As many as 10,000,000,000 decisions.
    #[arg(long, conflicts_with = "decisions")]
    long: bool,
    /// Where all traffic comes from; the same seed makes the same cases.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The only algorithm to look at.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// How many runs go on at once; by default as many as there are processors.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Runs one case again, SEED/CASE as it was printed, or a trace file.
    #[arg(long, value_name = "CASE or FILE")]
    replay: Option<String>,
    /// Looks at a limiter that is broken on purpose, and has to fail.
    #[arg(long, value_name = "NAME")]
    sabotage: Option<Sabotage>,
    /// Lets so many calls come to one engine instead, and looks for drift.
    #[arg(long, value_name = "N")]
    drift: Option<u64>,
    /// Where traces of failures are written.
    #[arg(long, value_name = "FOLDER", default_value = "target/oracle")]
    traces: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options {
        decisions: if arguments.long {
            10_000_000_000
        } else {
            arguments.decisions
        },
        seed: arguments.seed,
        only: arguments.only,
        threads: arguments.threads.unwrap_or(processors),
        sabotage: arguments.sabotage,
        traces: arguments.traces,
    };
    let begun = Instant::now();
    if let Some(calls) = arguments.drift {
        return tell_drift(&oracle::drift(calls, options.threads), begun);
    }
    let report = match &arguments.replay {
        Some(file) if Path::new(file).is_file() => return replay_file(Path::new(file)),
        Some(case) => oracle::replay(case, &options),
        None => oracle::run(&options),
    };
    match report {
        Ok(report) => tell(&report, begun),
        Err(unknown) => {
            eprintln!("{unknown}");
            ExitCode::from(2)
        }
    }
}

fn tell(report: &Report, begun: Instant) -> ExitCode {
    print!("{report}");
    let failures = report.failures().count();
    println!(
        "seed {}: {} decisions in {:.0} s, {failures} failed",
        report.seed,
        report.decisions(),
        begun.elapsed().as_secs_f64(),
    );
    match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn tell_drift(drifted: &Drifted, begun: Instant) -> ExitCode {
    let Drifted {
        calls,
        admitted,
        filled,
        in_flight,
        ran_at_once,
        at_once,
    } = drifted;
    println!(
        "{calls} calls in {:.0} s: {admitted} of {filled} tokens taken, {in_flight} in flight, then {ran_at_once} of {at_once} at once",
        begun.elapsed().as_secs_f64(),
    );
    match drifted.is_exact() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn replay_file(path: &Path) -> ExitCode {
    match flowgate_testkit::replay_file(path) {
        Ok(()) => {
            println!("{}: every step as the documents say", path.display());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{}: {failure}", path.display());
            ExitCode::FAILURE
        }
    }
}

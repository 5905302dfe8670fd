//! `flowgate replay`: what would these rules have done to that traffic?
//!
//! ```text
//! simulation  the calls of a log on a manual clock: arrivals, waits, exits
//! tally       what became of them, per resource
//! report      the table, and the same as JSON
//! ```

mod report;
mod simulation;
mod tally;

use std::io::IsTerminal;
use std::time::Duration;

use clap::ValueEnum;
use flowgate::{LoadReport, ManualClock, Timestamp};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::Verdict;
use crate::access_log::{AccessLog, ResourceOf};
use crate::failure::Failure;
use crate::input::Input;
use crate::rule_file::{self, DialectArg, RuleFile};
use crate::snippet::Severity;
use simulation::Simulation;

/// Shorter logs are done before a bar could be read.
const BAR_BYTES_MIN: u64 = 8 << 20;
const BAR_REQUESTS_MIN: usize = 200_000;

/// The statistics of a resource, or of a client of one, weigh 11 KB: a
/// gigabyte of each at most.
const RESOURCES_MAX: usize = 100_000;
const ORIGINS_MAX: usize = 100_000;

/// Replay an access log against rules, at once, on a clock of its own.
///
/// Reads Common or Combined Log Format. Each line is a call: the resource is
/// GET:/path without the query, the origin is the client's address, the
/// direction inbound. Lines are sorted by time; those of one second are spread
/// evenly over it. Lines that are no requests are counted and left out.
///
/// A call that a rule queues goes ahead after its wait. Every call ends
/// --service-time-ms after it went ahead, as the log does not say how long it
/// took.
///
/// The rules are a document or a list, as `flowgate check` takes them.
///
/// Exit codes: 0 replayed, 1 the rules have faults, 2 wrong usage or an
/// unreadable file.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rule file, `-` for standard input.
    #[arg(long, value_parser = Input::parse)]
    rules: Input,

    /// The dialect of the rules; by default it is recognised.
    #[arg(long)]
    dialect: Option<DialectArg>,

    /// Access log, `-` for standard input.
    #[arg(long, value_parser = Input::parse)]
    log: Input,

    /// Compress the time of the log N-fold, so that quiet traffic reaches the
    /// limits: 10 makes one second of ten.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = speed)]
    speed: f64,

    /// What calls are told apart by.
    #[arg(long, value_enum, default_value_t)]
    resource: ResourceName,

    /// How long each call takes, in milliseconds of the replay.
    #[arg(long, value_name = "MS", default_value_t = 20)]
    service_time_ms: u32,

    /// How many resources to list, those with the most calls first; 0 lists
    /// all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ResourceName {
    /// GET:/path
    #[default]
    MethodPath,
    /// /path
    Path,
    /// GET
    Method,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed > 0.0 => Ok(speed),
        _ => Err("give a number above 0".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> Result<Verdict, Failure> {
    if args.rules.is_stdin() && args.log.is_stdin() {
        return Err(Failure::BothFromStdin);
    }
    let rules = RuleFile::read(&args.rules, None, args.dialect)?;
    // Before the log is read: it may be long, or typed in.
    let scratch = rule_file::engine_on(&ManualClock::new()).build();
    if let Err(error) = rules.load(&scratch) {
        rules.show(Severity::Error, &error.faults);
        return Ok(Verdict::Faults);
    }
    let log = read_log(args)?;
    let clock = ManualClock::at(Timestamp::from_millis(
        log.first_second().unwrap_or_default().saturating_mul(1000),
    ));
    let tells_origins = simulation::tells_origins(&scratch, &log);
    let origins_max = simulation::origins_max(&tells_origins, &log, ORIGINS_MAX);
    let engine = rule_file::engine_on(&clock)
        .resources_max(log.resources.len().clamp(1, RESOURCES_MAX))
        .origins_max(origins_max)
        .callers_max(ORIGINS_MAX)
        .build();
    let report = match rules.load(&engine) {
        Ok(report) => report,
        Err(error) => {
            rules.show(Severity::Error, &error.faults);
            return Ok(Verdict::Faults);
        }
    };
    show_remarks(args, &rules, &report, &log);

    let bar = bar_of(log.requests.len() as u64, "replaying", || {
        log.requests.len() >= BAR_REQUESTS_MIN
    });
    let service_time = Duration::from_millis(args.service_time_ms.into());
    let simulation = Simulation::new(&engine, &clock, &log, service_time, tells_origins);
    let handles = simulation.handles();
    let tallies = simulation.run(&handles, log.arrivals(args.speed), |done| bar.inc(done));
    bar.finish_and_clear();

    let stats = engine.stats();
    if let more @ 1.. = stats.overflowed_resources {
        anstream::eprintln!(
            "{more} resources beyond the first {RESOURCES_MAX} were counted and limited as one"
        );
    }
    if let more @ 1.. = stats.overflowed_origins {
        anstream::eprintln!(
            "{more} calls of clients beyond the first {origins_max} of a resource were counted as \
             those of one client"
        );
    }
    let replayed = report::Replayed::new(args.log.name(), &log, &tallies, args.speed, args.top);
    match args.json {
        true => replayed.print_json()?,
        false => replayed.print()?,
    }
    Ok(Verdict::Fine)
}

fn read_log(args: &Args) -> Result<AccessLog, Failure> {
    let resource_of = match args.resource {
        ResourceName::MethodPath => ResourceOf::MethodPath,
        ResourceName::Path => ResourceOf::Path,
        ResourceName::Method => ResourceOf::Method,
    };
    let (reader, len) = args.log.open()?;
    let bar = bar_of(len.unwrap_or_default(), "reading", || {
        len.is_some_and(|len| len >= BAR_BYTES_MIN)
    });
    let log = AccessLog::read(reader, resource_of, |bytes| bar.inc(bytes));
    bar.finish_and_clear();
    log.map_err(|source| args.log.unreadable(source))
}

/// A bar on standard error, if that is a terminal.
fn bar_of(len: u64, what: &'static str, is_long: impl FnOnce() -> bool) -> ProgressBar {
    if !is_long() || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(len), ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = ProgressStyle::with_template("{msg:>9} {wide_bar} {percent:>3} %  {eta:>4}")
    {
        bar.set_style(style);
    }
    bar.with_message(what)
}

/// What should be known of rules and log, on standard error.
fn show_remarks(args: &Args, rules: &RuleFile, report: &LoadReport, log: &AccessLog) {
    if let Some(assumption) = rules.form.assumption() {
        anstream::eprintln!("{}: {assumption}", rules.name);
    }
    rules.show(Severity::Warning, &report.warnings);
    let name = args.log.name();
    for (line, malformed) in &log.malformed_first {
        anstream::eprintln!(
            "{name}:{line}: {}",
            report::printable(&malformed.to_string())
        );
    }
    let shown = log.malformed_first.len() as u64;
    if log.malformed > shown {
        anstream::eprintln!(
            "{name}: {} more lines are no requests",
            log.malformed - shown
        );
    }
}

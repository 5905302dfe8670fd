//! Flowgate against its peers and against the floor of the machine, in one run.
//!
//! `cargo run --release -p flowgate-bench --bin compare` prints a table;
//! `docs/benchmarks.md` explains its lines. Both sides of a line are measured in
//! turn, on pinned threads, and a line is judged only by rounds in which its
//! threads did not wait for a processor.

mod acquire;
mod builds;
mod callers;
mod chart;
mod contest;
mod entries;
mod kinds;
mod line;
mod machine;
mod memory;
mod names;
mod near_limit;
mod others;
mod params;
mod peers;
mod primitives;
mod report;
mod specs;
mod swaps;
mod threads;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use builds::{Build, Builds};
use contest::Budget;
use report::Report;

/// Compares Flowgate with other crates and with the floor of this machine.
#[derive(Debug, Parser)]
struct Options {
    /// Only these lines, by name.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Undisturbed rounds that a line takes, where rounds are short.
    #[arg(long, default_value_t = 60)]
    rounds: usize,
    /// Seconds after which a line of short rounds gives up.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Which build to measure; the other one is built and run on its own.
    #[arg(long, value_enum, default_value_t = Builds::Both)]
    build: Builds,
    /// Writes the lines as JSON: to this file, or instead of the table.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    json: Option<Option<PathBuf>>,
    /// Draws a chart.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Writes the tables into the page between its marks.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "docs/benchmarks.md")]
    markdown: Option<PathBuf>,
    /// Measures this very program, as a build of this name, and writes all that
    /// was measured to a file.
    #[arg(long, hide = true, num_args = 2, value_names = ["BUILD", "FILE"])]
    child: Option<Vec<String>>,
    /// Makes many things and prints what each has taken.
    #[arg(long, hide = true)]
    make: Option<memory::Made>,
}

impl Options {
    fn budget(&self) -> Budget {
        Budget {
            rounds: self.rounds,
            time: Duration::from_secs(self.seconds),
        }
    }

    fn chosen(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Refuses names that no line has.
    fn check(&self) -> Result<()> {
        let known = |name: &String| specs::LINES.iter().any(|spec| spec.name == name);
        let unknown = self.only.iter().find(|name| !known(name));
        ensure!(
            unknown.is_none(),
            "no line is named {}",
            unknown.map_or("", |n| n)
        );
        Ok(())
    }
}

fn main() -> Result<()> {
    builds::without_backtraces()?;
    let options = Options::parse();
    options.check()?;
    if let Some(made) = options.make {
        let each = serde_json::to_string(&memory::make(made)?)?;
        return Ok(writeln!(io::stdout(), "{each}")?);
    }
    if let Some([build, file]) = options.child.as_deref() {
        let report = measure(&options, build);
        return Ok(fs::write(file, serde_json::to_string(&report)?)?);
    }
    let mut report = Report::default();
    for build in options.build.all() {
        let measured = match build {
            // This program was built as its user built it.
            Build::Default => measure(&options, build.name()),
            Build::Lto => builds::measure_lto(&options)?,
        };
        report.add(measured);
    }
    tell(&options, &report)
}

/// Measures the chosen lines in this process.
fn measure(options: &Options, build: &str) -> Report {
    let mut report = Report::default();
    let chosen: Vec<_> = specs::LINES
        .iter()
        .filter(|spec| options.chosen(spec.name))
        .collect();
    for (number, spec) in chosen.iter().enumerate() {
        let of = chosen.len();
        eprintln!("{build}: {}/{of} {}", number + 1, spec.name);
        match (spec.measure)(options.budget()) {
            Ok(figures) => report.lines.push(line::Line::new(spec, figures, build)),
            Err(error) => eprintln!("{build}: {}: {error:#}", spec.name),
        }
    }
    if options.only.is_empty() {
        report.primitives = primitives::measure(options.budget(), build);
    }
    report
}

fn tell(options: &Options, report: &Report) -> Result<()> {
    if let Some(file) = &options.svg {
        chart::draw(report, file).with_context(|| format!("{}", file.display()))?;
    }
    if let Some(file) = &options.markdown {
        write_between_marks(file, &report.markdown())?;
    }
    match &options.json {
        Some(Some(file)) => fs::write(file, report.json()? + "\n")?,
        Some(None) => return Ok(writeln!(io::stdout(), "{}", report.json()?)?),
        None => {}
    }
    Ok(write!(io::stdout(), "{}", report.text())?)
}

/// Replaces what stands between the two marks in the page.
fn write_between_marks(page: &Path, text: &str) -> Result<()> {
    const MARKS: [&str; 2] = ["<!-- compare: begin -->\n", "<!-- compare: end -->"];
    let old = fs::read_to_string(page).with_context(|| format!("{}", page.display()))?;
    let (before, rest) = old
        .split_once(MARKS[0])
        .context("no mark of the beginning")?;
    let (_, after) = rest.split_once(MARKS[1]).context("no mark of the end")?;
    let new = [before, MARKS[0], "\n", text, "\n", MARKS[1], after].concat();
    Ok(fs::write(page, new)?)
}

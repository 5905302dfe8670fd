//! What came of it: a line for each algorithm, and how it failed.

use std::fmt;
use std::path::PathBuf;

use super::log::{Bound, Broken};

/// What came of one piece of work.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) decisions: u64,
    pub(crate) spans: u64,
    pub(crate) least_share: Option<f64>,
    pub(crate) failure: Option<Failure>,
}

/// What came of a run of the oracle.
#[derive(Debug)]
pub struct Report {
    /// The seed of all traffic.
    pub seed: u64,
    /// A line for each algorithm.
    pub lines: Vec<Line>,
}

/// What came of one algorithm.
#[derive(Debug)]
pub struct Line {
    /// Its name.
    pub name: &'static str,
    /// Calls that were admitted or refused.
    pub decisions: u64,
    /// Spans of time that were held against the promise.
    pub spans: u64,
    /// Of the limit, the least part that was admitted where calls were refused;
    /// `None` where the log does not tell.
    pub least_share: Option<f64>,
    /// What was found.
    pub failures: Vec<Failure>,
}

/// A promise that was not kept, and how to see it again.
#[derive(Debug)]
pub struct Failure {
    /// `SEED/CASE`, for `--replay`.
    pub case: String,
    /// Which promise.
    pub broken: Broken,
    /// Steps of the trace.
    pub steps: usize,
    /// Where the trace is, or why it could not be written.
    pub trace: Result<PathBuf, String>,
}

impl Report {
    pub(crate) fn new(seed: u64) -> Self {
        Report {
            seed,
            lines: Vec::new(),
        }
    }

    pub(crate) fn has_failed(&self, name: &str) -> bool {
        let line = self.lines.iter().find(|line| line.name == name);
        line.is_some_and(|line| !line.failures.is_empty())
    }

    pub(crate) fn add(&mut self, name: &'static str, done: Done) {
        let at = self.lines.iter().position(|line| line.name == name);
        let at = at.unwrap_or_else(|| {
            self.lines.push(Line {
                name,
                decisions: 0,
                spans: 0,
                least_share: None,
                failures: Vec::new(),
            });
            self.lines.len() - 1
        });
        let line = &mut self.lines[at];
        line.decisions += done.decisions;
        line.spans += done.spans;
        let shares = [line.least_share, done.least_share];
        line.least_share = shares.into_iter().flatten().reduce(f64::min);
        line.failures.extend(done.failure);
    }

    /// All that was found.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.lines.iter().flat_map(|line| &line.failures)
    }

    /// Decisions of all algorithms.
    pub fn decisions(&self) -> u64 {
        self.lines.iter().map(|line| line.decisions).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            let over = |failure: &&Failure| failure.broken.bound == Bound::Upper;
            let share = line.least_share.map_or("-".to_owned(), |share| {
                format!("{:.1} %", (share * 1000.0).floor() / 10.0)
            });
            writeln!(
                f,
                "{:<14} {:>14} decisions {:>14} spans  {} over-admitted  least share {share}",
                line.name,
                grouped(line.decisions),
                grouped(line.spans),
                line.failures.iter().filter(over).count(),
            )?;
        }
        for failure in self.failures() {
            writeln!(f, "\n{}: {}", failure.case, failure.broken)?;
            match &failure.trace {
                Ok(path) => writeln!(f, "  {} steps in {}", failure.steps, path.display())?,
                Err(error) => writeln!(f, "  its trace could not be written: {error}")?,
            }
        }
        Ok(())
    }
}

/// A number with commas.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

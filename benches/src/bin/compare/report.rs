//! All that was measured, as a table, as a page's tables, and as JSON.

use std::fmt::Write;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::contest::ROUNDS_MIN;
use crate::line::{Line, Unit};
use crate::machine;
use crate::specs;

/// Lines of one build or of several.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) lines: Vec<Line>,
    pub(crate) primitives: Vec<Primitive>,
}

/// Something that a call is made of, measured alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Primitive {
    pub(crate) name: String,
    pub(crate) ns: f64,
    pub(crate) rounds: usize,
    pub(crate) build: String,
}

/// The lines that have something to reach.
#[derive(Serialize)]
struct Judged<'a> {
    lines: Vec<&'a Line>,
}

impl Report {
    pub(crate) fn add(&mut self, other: Report) {
        self.lines.extend(other.lines);
        self.primitives.extend(other.primitives);
    }

    /// `{"lines": [...]}` with the lines that have a target.
    pub(crate) fn json(&self) -> Result<String> {
        let lines = self.lines.iter().filter(|line| line.target.is_some());
        let judged = Judged {
            lines: lines.collect(),
        };
        Ok(serde_json::to_string_pretty(&judged)?)
    }

    /// The table for a terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n\n", machine::describe());
        let mut row = |cells: [&str; 9]| {
            let [name, build, value, target, aim, ours, theirs, peer, verdict] = cells;
            writeln!(
                text,
                "{name:<33} {build:<8} {value:>12} {target:>9} {aim:>9} {ours:>11} {theirs:>11}  {peer:<22} {verdict}"
            )
            .ok();
        };
        row([
            "line", "build", "value", "must", "aim", "ours", "peer's", "peer", "",
        ]);
        for line in &self.lines {
            row([
                &line.name,
                &line.build,
                &value_of(line),
                &target_of(line, line.target),
                &target_of(line, line.aim),
                &ns(line.ours_ns),
                &ns(line.peer_ns),
                &line.peer,
                &verdict(line),
            ]);
        }
        if !self.primitives.is_empty() {
            text.push_str("\nalone\n");
        }
        for one in &self.primitives {
            let Primitive {
                name, ns, build, ..
            } = one;
            writeln!(text, "{name:<52} {build:<8} {ns:>8.2} ns").ok();
        }
        text
    }

    /// The tables of the page on benchmarks.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("On {}.\n\n", machine::describe());
        text.push_str(
            "| line | what | must | with LTO | | default build | | ours | peer's | peer |\n\
             |---|---|---|---|---|---|---|---|---|---|\n",
        );
        for spec in specs::LINES {
            let of = |build| {
                let mut lines = self.lines.iter();
                lines.find(|line| line.name == spec.name && line.build == build)
            };
            let (lto, default) = (of("lto"), of("default"));
            let Some(line) = lto.or(default) else {
                continue;
            };
            writeln!(
                text,
                "| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                line.name,
                spec.work,
                target_of(line, line.target),
                lto.map(value_of).unwrap_or_default(),
                lto.map(verdict).unwrap_or_default(),
                default.map(value_of).unwrap_or_default(),
                default.map(verdict).unwrap_or_default(),
                ns(line.ours_ns),
                ns(line.peer_ns),
                line.peer,
            )
            .ok();
        }
        text.push_str("\n| alone | with LTO | default build |\n|---|---|---|\n");
        let mut names: Vec<&str> = Vec::new();
        for one in &self.primitives {
            if !names.contains(&one.name.as_str()) {
                names.push(&one.name);
            }
        }
        for name in names {
            let of = |build| {
                let mut all = self.primitives.iter();
                let found = all.find(|one| one.name == name && one.build == build);
                found.map_or(String::new(), |one| format!("{:.2} ns", one.ns))
            };
            writeln!(text, "| {name} | {} | {} |", of("lto"), of("default")).ok();
        }
        text
    }
}

fn verdict(line: &Line) -> String {
    match (line.target, line.met) {
        (None, _) => String::new(),
        (_, None) => format!("not judged ({} of {ROUNDS_MIN} rounds)", line.rounds),
        (_, Some(true)) => "met".to_owned(),
        (_, Some(false)) => "missed".to_owned(),
    }
}

fn value_of(line: &Line) -> String {
    written(line.value, line.unit)
}

fn target_of(line: &Line, target: Option<f64>) -> String {
    target.map_or(String::new(), |target| written(target, line.unit))
}

/// A value with its unit, with as many digits as tell something.
fn written(value: f64, unit: Unit) -> String {
    let digits = match value.abs() {
        size if size < 0.1 => 4,
        size if size < 10.0 => 2,
        size if size < 1_000.0 => 1,
        _ => 0,
    };
    let unit = match unit {
        Unit::Ratio => "",
        Unit::Times => " x",
        Unit::More => " ns",
        Unit::Bytes => " B",
        Unit::Millis => " ms",
        Unit::PerSecond => " /s",
    };
    format!("{value:.digits$}{unit}")
}

/// A time in the unit that suits it.
fn ns(time: Option<f64>) -> String {
    match time {
        None => String::new(),
        Some(ns) if ns < 1e4 => format!("{ns:.1} ns"),
        Some(ns) if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        Some(ns) => format!("{:.2} ms", ns / 1e6),
    }
}

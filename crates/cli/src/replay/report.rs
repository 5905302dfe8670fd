//! The result of a replay, for people and for programs.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::simulation::Tallies;
use super::tally::{Second, Tally};
use crate::access_log::AccessLog;
use crate::failure::Failure;

/// The result. Serialized, it is what `--json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Replayed {
    log: Log,
    /// How many times faster than in the log time went.
    speed: f64,
    totals: Row,
    /// How many resources there are; the next field may have fewer.
    resource_count: usize,
    resources: Vec<Row>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Log {
    name: String,
    lines: u64,
    requests: usize,
    malformed: u64,
    out_of_order: u64,
    not_utf8: u64,
    /// Time of the first and of the last request.
    first: Option<String>,
    last: Option<String>,
    #[serde(skip)]
    span: Duration,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    offered: u64,
    passed: u64,
    blocked: u64,
    queued: u64,
    wait_ms_max: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    busiest_second: Option<Busiest>,
}

/// The second of the replay in which the most calls asked.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Busiest {
    /// Seconds of the replay before it.
    replay_second: u64,
    /// Its begin, by the time of the log.
    log_time: String,
    offered: u64,
    passed: u64,
}

impl Replayed {
    pub(super) fn new(
        name: String,
        log: &AccessLog,
        tallies: &Tallies,
        speed: f64,
        top: usize,
    ) -> Self {
        let first = log.first_second().unwrap_or_default();
        let last = log.last_second().unwrap_or_default();
        let row = |resource: Option<&str>, tally: &Tally| Row {
            resource: resource.map(str::to_owned),
            offered: tally.offered,
            passed: tally.passed,
            blocked: tally.blocked,
            queued: tally.queued,
            wait_ms_max: tally.wait_max.as_nanos() as f64 / 1e6,
            busiest_second: busiest(tally.busiest(), first, speed),
        };
        let mut named: Vec<(&str, &Tally)> = log.resources.iter().zip(&tallies.resources).collect();
        named.sort_unstable_by_key(|(name, tally)| (std::cmp::Reverse(tally.offered), *name));
        let top = if top == 0 { named.len() } else { top };
        let listed = named.iter().take(top);
        Replayed {
            log: Log {
                name,
                lines: log.lines,
                requests: log.requests.len(),
                malformed: log.malformed,
                out_of_order: log.out_of_order,
                not_utf8: log.not_utf8,
                first: log.first_second().map(shown_second),
                last: log.last_second().map(shown_second),
                span: Duration::from_secs(last - first),
            },
            speed,
            totals: row(None, &tallies.total),
            resource_count: named.len(),
            resources: listed.map(|(name, tally)| row(Some(name), tally)).collect(),
        }
    }

    pub(super) fn print_json(&self) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, self)?;
        writeln!(out)?;
        Ok(())
    }

    pub(super) fn print(&self) -> Result<(), Failure> {
        let mut out = io::BufWriter::new(io::stdout().lock());
        self.print_log(&mut out)?;
        self.print_table(&mut out)?;
        out.flush()?;
        Ok(())
    }

    fn print_log(&self, out: &mut impl Write) -> io::Result<()> {
        let log = &self.log;
        write!(out, "{}: {} lines", printable(&log.name), log.lines)?;
        write!(out, ", {} requests", log.requests)?;
        write!(out, ", {} malformed", log.malformed)?;
        write!(out, ", {} out of order", log.out_of_order)?;
        if log.not_utf8 > 0 {
            write!(out, ", {} not UTF-8", log.not_utf8)?;
        }
        writeln!(out)?;
        if let (Some(first), Some(last)) = (&log.first, &log.last) {
            let seconds = log.span.as_secs_f64() / self.speed;
            let replayed = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            let replayed = shown_span(replayed);
            let span = shown_span(log.span);
            write!(out, "{first} to {last} ({span})")?;
            match self.speed == 1.0 {
                true => writeln!(out)?,
                false => writeln!(out, ", {} times as fast ({replayed})", self.speed)?,
            }
        }
        writeln!(out)
    }

    fn print_table(&self, out: &mut impl Write) -> io::Result<()> {
        const HEADS: [&str; 8] = [
            "offered",
            "passed",
            "blocked",
            "queued",
            "longest wait",
            "at",
            "offered",
            "passed",
        ];
        let rows = self.resources.iter().chain([&self.totals]);
        let cells: Vec<[String; 8]> = rows.map(Row::cells).collect();
        let width = |column: usize| {
            let cells = cells.iter().map(|row| row[column].len());
            cells.max().unwrap_or_default().max(HEADS[column].len())
        };
        let widths: [usize; 8] = std::array::from_fn(width);
        let before: usize = widths[..5].iter().map(|width| width + 2).sum();
        let busiest = widths[5..].iter().sum::<usize>() + 4;
        writeln!(out, "{:before$}{:-^busiest$}", "", " busiest second ")?;
        let print = |out: &mut dyn Write, cells: [&str; 8], resource: &str| {
            for (cell, width) in cells.iter().zip(widths) {
                write!(out, "{cell:>width$}  ")?;
            }
            writeln!(out, "{}", printable(resource))
        };
        print(out, HEADS, "resource")?;
        let all = match self.resource_count {
            1 => "total".to_owned(),
            count => format!("total of {count} resources"),
        };
        let names = self
            .resources
            .iter()
            .filter_map(|row| row.resource.as_deref());
        for (cells, name) in cells.iter().zip(names.chain([&*all])) {
            print(out, std::array::from_fn(|column| &*cells[column]), name)?;
        }
        Ok(())
    }
}

impl Row {
    fn cells(&self) -> [String; 8] {
        let wait = match self.queued {
            0 => "-".to_owned(),
            _ => format!("{:.1} ms", self.wait_ms_max),
        };
        let (at, offered, passed) = match &self.busiest_second {
            None => ("-".to_owned(), "-".to_owned(), "-".to_owned()),
            Some(busiest) => (
                busiest.log_time.clone(),
                busiest.offered.to_string(),
                busiest.passed.to_string(),
            ),
        };
        let [all, went, refused, waited] =
            [self.offered, self.passed, self.blocked, self.queued].map(|count| count.to_string());
        [all, went, refused, waited, wait, at, offered, passed]
    }
}

fn busiest(second: Second, first: u64, speed: f64) -> Option<Busiest> {
    let replay_second = second.begin.checked_sub(first)?;
    Some(Busiest {
        replay_second,
        log_time: shown_second(first + (replay_second as f64 * speed) as u64),
        offered: second.offered,
        passed: second.passed,
    })
}

/// `2015-05-17T10:05:03Z`
fn shown_second(second: u64) -> String {
    let second = i64::try_from(second).unwrap_or(i64::MAX);
    match Timestamp::from_second(second) {
        Ok(time) => time.to_string(),
        Err(_) => format!("{second} s"),
    }
}

/// `3d 11h`, `5m 20s`, `1.5s`: two units at most.
fn shown_span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{:.1}s", span.as_secs_f64()),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// Text of a log must not speak to the terminal.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for c in text.chars() {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

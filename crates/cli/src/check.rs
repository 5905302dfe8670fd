//! `flowgate check`: is this file of rules sound?

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use flowgate::{Accountings, Dialect, Engine, Fault, LoadReport, ManualClock, RuleError};
use serde::Serialize;

use crate::Verdict;
use crate::failure::Failure;
use crate::input::Input;
use crate::rule_file::{self, DialectArg, Form, KindFrom, RuleFile};
use crate::snippet::Severity;

/// Check a rule file: all faults and warnings, each shown in its line.
///
/// The file is a whole document, {"flow": [...], "degrade": [...]}, or a list
/// of one kind as Sentinel writes it, [...]. The kind of a list is that of
/// --kind, else that with which the file's name begins (flow-eu.json), else
/// flow. The fields are those of Sentinel or of sentinel-golang; which, is
/// seen from them, or said with --dialect.
///
/// Exit codes: 0 the rules are sound, 1 they have faults (or, with
/// --deny-warnings, warnings), 2 wrong usage or an unreadable file.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rule file, `-` for standard input.
    #[arg(value_parser = Input::parse)]
    rules: Input,

    /// The file is a list of rules of this kind.
    #[arg(long, value_parser = rule_file::kind_parser())]
    kind: Option<String>,

    /// The dialect of the file; by default it is recognised.
    #[arg(long)]
    dialect: Option<DialectArg>,

    /// Exit with 1 if there are warnings.
    #[arg(long)]
    deny_warnings: bool,

    /// Print the result as JSON, faults and warnings included.
    #[arg(long)]
    json: bool,
}

/// The result as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked {
    file: String,
    /// Whether the exit code is 0.
    ok: bool,
    /// Of a list: its kind, and whether the kind had to be guessed.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind_assumed: Option<bool>,
    /// Whose fields it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    dialect: Option<&'static str>,
    /// Rules that would be in force, by kind.
    rules: serde_json::Map<String, serde_json::Value>,
    /// How many of them are accounted otherwise than in windows, of the kinds
    /// where some are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    accountings: BTreeMap<&'static str, Accountings>,
    /// Different resources that the rules name, patterns apart.
    resources: usize,
    patterns: usize,
    faults: Vec<Said>,
    warnings: Vec<Said>,
}

#[derive(Serialize)]
struct Said {
    path: String,
    message: String,
    #[serde(flatten)]
    place: Option<SaidAt>,
}

#[derive(Serialize)]
struct SaidAt {
    line: usize,
    column: usize,
    offset: usize,
    length: usize,
}

pub(crate) fn run(args: &Args) -> Result<Verdict, Failure> {
    let file = RuleFile::read(&args.rules, args.kind.as_deref(), args.dialect)?;
    let engine = rule_file::engine_on(&ManualClock::new()).build();
    let loaded = file.load(&engine);
    let verdict = match &loaded {
        Err(_) => Verdict::Faults,
        Ok(report) if args.deny_warnings && !report.warnings.is_empty() => Verdict::Faults,
        Ok(_) => Verdict::Fine,
    };
    if args.json {
        print_json(&file, &engine, loaded, verdict)?;
    } else {
        print(&file, &engine, &loaded)?;
    }
    Ok(verdict)
}

fn print(
    file: &RuleFile,
    engine: &Engine,
    loaded: &Result<LoadReport, RuleError>,
) -> Result<(), Failure> {
    if let Some(assumption) = file.form.assumption() {
        anstream::eprintln!("{}: {assumption}", file.name);
    }
    let report = match loaded {
        Ok(report) => report,
        Err(error) => {
            file.show(Severity::Error, &error.faults);
            let faults = counted(error.faults.len(), "fault");
            anstream::eprintln!("{}: {faults}, nothing would be loaded", file.name);
            return Ok(());
        }
    };
    file.show(Severity::Warning, &report.warnings);
    let rules: Vec<String> = report
        .kinds
        .iter()
        .map(|kind| {
            let rules = counted(kind.active, &format!("{} rule", kind.kind));
            match kind.accountings.is_empty() {
                true => rules,
                false => format!("{rules} ({})", kind.accountings),
            }
        })
        .collect();
    let rules = match rules.is_empty() {
        true => "no rules".to_owned(),
        false => rules.join(", "),
    };
    let (resources, patterns) = named(engine);
    let dialect = match report.dialect {
        Dialect::Sentinel => "",
        Dialect::Golang => ", in sentinel-golang's dialect",
    };
    let warnings = match report.warnings.len() {
        0 => String::new(),
        count => format!("; {}", counted(count, "warning")),
    };
    writeln!(
        anstream::stdout(),
        "{}: ok: {rules} for {} and {}{dialect}{warnings}",
        file.name,
        counted(resources, "resource"),
        counted(patterns, "pattern"),
    )?;
    Ok(())
}

fn print_json(
    file: &RuleFile,
    engine: &Engine,
    loaded: Result<LoadReport, RuleError>,
    verdict: Verdict,
) -> Result<(), Failure> {
    let (kind, kind_assumed) = match file.form {
        Form::Document => (None, None),
        Form::List { kind, from } => (Some(kind), Some(from != KindFrom::Option)),
    };
    let dialect = loaded.as_ref().ok().map(|report| report.dialect.as_str());
    let (faults, report) = match loaded {
        Ok(report) => (Vec::new(), report),
        Err(error) => (error.faults, LoadReport::default()),
    };
    let rules = report.kinds.iter();
    let rules = rules.map(|kind| (kind.kind.to_owned(), kind.active.into()));
    let kinds = report.kinds.iter();
    let accountings = kinds.map(|kind| (kind.kind, kind.accountings));
    let accountings = accountings.filter(|(_, counts)| !counts.is_empty());
    let (resources, patterns) = named(engine);
    let checked = Checked {
        file: file.name.clone(),
        ok: verdict == Verdict::Fine,
        kind,
        kind_assumed,
        dialect,
        rules: rules.collect(),
        accountings: accountings.collect(),
        resources,
        patterns,
        faults: faults.into_iter().map(Said::from).collect(),
        warnings: report.warnings.into_iter().map(Said::from).collect(),
    };
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &checked)?;
    writeln!(out)?;
    Ok(())
}

/// How many resources the rules in force name, and how many patterns.
fn named(engine: &Engine) -> (usize, usize) {
    let rules = engine.rules();
    let all: BTreeSet<(bool, &str)> = rules
        .iter()
        .filter(|rule| !rule.resource.is_empty())
        .map(|rule| (rule.is_pattern, &*rule.resource))
        .collect();
    let patterns = all.iter().filter(|(is_pattern, _)| *is_pattern).count();
    (all.len() - patterns, patterns)
}

/// `1 rule`, `2 rules`.
fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

impl From<Fault> for Said {
    fn from(fault: Fault) -> Self {
        Said {
            path: fault.path,
            message: fault.message,
            place: fault.place.map(|place| SaidAt {
                line: place.line,
                column: place.column,
                offset: place.offset,
                length: place.len,
            }),
        }
    }
}

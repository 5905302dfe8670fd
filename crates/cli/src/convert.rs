//! `flowgate convert`: the same rules in the other dialect.

use std::io::Write;

use flowgate::{Dialect, LoadReport, RuleSet, Written};

use crate::Verdict;
use crate::failure::Failure;
use crate::input::Input;
use crate::rule_file::{self, DialectArg, Form, RuleFile};
use crate::snippet::Severity;

/// Convert a rule file between the dialects of Sentinel and sentinel-golang.
///
/// Reads a document or a list, as `flowgate check` takes them, and prints it
/// in the other dialect on standard output. What sentinel-golang has no words
/// for, such as origins and observed rules, is an error, and then nothing is
/// printed; with --lossy it is a warning, and rules that would be other ones
/// without it are left out. Sentinel's dialect is written as Flowgate spells
/// it, which loses nothing; what Sentinel itself does not read is named.
///
/// Exit codes: 0 converted, 1 the rules have faults or cannot be said, 2
/// wrong usage or an unreadable file.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rule file, `-` for standard input.
    #[arg(value_parser = Input::parse)]
    rules: Input,

    /// The dialect to print.
    #[arg(long)]
    to: DialectArg,

    /// The dialect of the file; by default it is recognised.
    #[arg(long)]
    from: Option<DialectArg>,

    /// The file is a list of rules of this kind.
    #[arg(long, value_parser = rule_file::kind_parser())]
    kind: Option<String>,

    /// Leave out what cannot be said, with a warning.
    #[arg(long)]
    lossy: bool,
}

pub(crate) fn run(args: &Args) -> Result<Verdict, Failure> {
    let file = RuleFile::read(&args.rules, args.kind.as_deref(), args.from)?;
    if let Some(assumption) = file.form.assumption() {
        anstream::eprintln!("{}: {assumption}", file.name);
    }
    let (rules, report) = match file.rules() {
        Ok(loaded) => loaded,
        Err(error) => {
            file.show(Severity::Error, &error.faults);
            anstream::eprintln!("{}: nothing was converted", file.name);
            return Ok(Verdict::Faults);
        }
    };
    file.show(Severity::Warning, &report.warnings);
    let dialect = args.to.into();
    let written = write(&file, &rules, &report, dialect);
    let is_lossless = written.left_out.is_empty() && written.lost.is_empty();
    let severity = match args.lossy {
        true => Severity::Warning,
        false => Severity::Error,
    };
    file.show(severity, &written.left_out);
    file.show(severity, &written.lost);
    if !is_lossless && !args.lossy {
        anstream::eprintln!(
            "{}: not all of it can be said in {}'s dialect, nothing was converted (--lossy)",
            file.name,
            dialect.owner()
        );
        return Ok(Verdict::Faults);
    }
    if !written.left_out.is_empty() {
        let count = written.left_out.len();
        anstream::eprintln!("{}: {count} of the rules left out", file.name);
    }
    if !written.own.is_empty() {
        let own: Vec<&str> = written.own.iter().map(String::as_str).collect();
        let (name, own) = (&file.name, own.join(", "));
        match dialect {
            Dialect::Sentinel => anstream::eprintln!(
                "{name}: Flowgate's own, which Sentinel itself does not read, so that there these rules are others: {own}"
            ),
            Dialect::Golang => anstream::eprintln!(
                "{name}: Flowgate reads these in either dialect, sentinel-golang itself does not: {own}"
            ),
        }
    }
    anstream::stdout().write_all(written.text.as_bytes())?;
    Ok(Verdict::Fine)
}

fn write(file: &RuleFile, rules: &RuleSet, report: &LoadReport, dialect: Dialect) -> Written {
    match file.form {
        Form::List { kind, .. } => rules.write_list(kind, dialect),
        Form::Document => {
            let kinds: Vec<&str> = report.kinds.iter().map(|kind| kind.kind).collect();
            rules.write(&kinds, dialect)
        }
    }
}

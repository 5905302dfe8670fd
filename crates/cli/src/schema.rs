//! `flowgate schema`: what a rule file may look like, for editors.

use std::io::Write;

use flowgate::Kinds;

use crate::Verdict;
use crate::failure::Failure;
use crate::rule_file::{self, DialectArg};

/// Print the JSON Schema (draft 2020-12) of rule files.
///
/// It is the schema of a whole document, or with --kind that of a list. Editors
/// complete and check rule files with it; `flowgate check` finds more.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dialect of the rules.
    #[arg(long, default_value = "sentinel")]
    dialect: DialectArg,

    /// The schema of a list of rules of this kind.
    #[arg(long, value_parser = rule_file::kind_parser())]
    kind: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<Verdict, Failure> {
    let (kinds, dialect) = (Kinds::standard(), args.dialect.into());
    let specs = kinds.specs();
    let named = |name: &String| specs.iter().find(|spec| spec.name == *name);
    let schema = match args.kind.as_ref().and_then(named) {
        Some(spec) => spec.schema(dialect),
        None => kinds.schema(dialect),
    };
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &schema)?;
    writeln!(out)?;
    Ok(Verdict::Fine)
}

//! The command `flowgate`, as a library: what it is made of can be used and
//! tested by itself.
//!
//! ```text
//! check       a rule file, its faults shown in their lines
//! convert     a rule file in the other dialect
//! schema      the JSON Schema of rule files
//! replay      an access log against rules, on a manual clock
//! access_log  Common and Combined Log Format
//! rule_file   reading rules, by document or by list
//! snippet     a place in a file, underlined
//! ```

pub mod access_log;
mod check;
mod convert;
mod failure;
mod input;
mod replay;
mod rule_file;
mod schema;
mod snippet;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use flowgate::Kinds;

use failure::Failure;

/// Flow control for Rust services: check rules, and try them on real traffic.
#[derive(Parser)]
#[command(name = "flowgate", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::Args),
    Convert(convert::Args),
    Schema(schema::Args),
    /// Print the page on rules, docs/rules.md.
    #[command(hide = true)]
    Docs,
    Replay(replay::Args),
}

/// How a command ended that did what it was asked to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Fine,
    Faults,
}

/// Prints the page on rules.
fn docs() -> Result<Verdict, Failure> {
    anstream::stdout().write_all(Kinds::standard().page().as_bytes())?;
    Ok(Verdict::Fine)
}

/// Runs the command with the arguments of this process.
///
/// Exits with 0, with 1 if the rules have faults, and with 2 if it was called
/// wrongly or cannot read or write.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Check(args) => check::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Docs => docs(),
        Command::Replay(args) => replay::run(&args),
    };
    match result {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::Faults) => ExitCode::from(1),
        // Whoever reads the output has had enough of it.
        Err(Failure::Write(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            anstream::eprintln!("flowgate: {failure}");
            ExitCode::from(2)
        }
    }
}

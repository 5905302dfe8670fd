//! The two builds that are measured, and how this program starts itself.
//!
//! `cargo run --release` gives a user's default release build: the one that runs.
//! The other, with link-time optimisation across crates, is built and run from
//! here by the same cargo (`--profile lto`), which writes what it has measured to
//! a file.

use std::env;
use std::fs;
use std::process::{self, Command};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::Options;
use crate::report::Report;

/// Which builds to measure.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Builds {
    /// A user's default release build.
    Default,
    /// With link-time optimisation, and one codegen unit.
    Lto,
    /// One after the other.
    Both,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Build {
    Default,
    Lto,
}

impl Build {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Build::Default => "default",
            Build::Lto => "lto",
        }
    }
}

impl Builds {
    pub(crate) fn all(self) -> &'static [Build] {
        match self {
            Builds::Default => &[Build::Default],
            Builds::Lto => &[Build::Lto],
            Builds::Both => &[Build::Lto, Build::Default],
        }
    }
}

/// Starts this program again if it was told to collect backtraces: one peer
/// collects one for every call that it refuses, which no service would want.
pub(crate) fn without_backtraces() -> Result<()> {
    const SWITCHES: [&str; 2] = ["RUST_BACKTRACE", "RUST_LIB_BACKTRACE"];
    if SWITCHES.iter().all(|name| env::var_os(name).is_none()) {
        return Ok(());
    }
    let mut again = Command::new(env::current_exe()?);
    again.args(env::args_os().skip(1));
    for name in SWITCHES {
        again.env_remove(name);
    }
    process::exit(again.status()?.code().unwrap_or(1));
}

/// Builds this program with link-time optimisation, and has it measure.
pub(crate) fn measure_lto(options: &Options) -> Result<Report> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let file = env::temp_dir().join(format!("flowgate-compare-{}.json", process::id()));
    let mut run = Command::new(cargo);
    run.args(["run", "--quiet", "--profile", "lto", "-p", "flowgate-bench"]);
    run.args(["--bin", "compare", "--", "--child", Build::Lto.name()]);
    run.arg(&file);
    run.args(["--rounds", &options.rounds.to_string()]);
    run.args(["--seconds", &options.seconds.to_string()]);
    if !options.only.is_empty() {
        run.args(["--only", &options.only.join(",")]);
    }
    let status = run.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    let status = status.context("cargo, to build with link-time optimisation")?;
    ensure!(
        status.success(),
        "the build with link-time optimisation: {status}"
    );
    let report = fs::read_to_string(&file).context("what it has measured")?;
    fs::remove_file(&file).ok();
    Ok(serde_json::from_str(&report)?)
}

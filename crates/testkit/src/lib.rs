//! Replays recorded decisions against Flowgate and compares them step by step.
//!
//! The recordings are *traces*: JSON files with rules, and steps on a virtual
//! clock (calls in, decisions out). Their format is described in
//! `testdata/traces/README.md`. [`replay_file`] runs one; the binary
//! `conformance` runs all below given paths.

/// What every span of time admits, under adversarial traffic.
pub mod oracle;
mod replay;
mod trace;

use std::path::{Path, PathBuf};

pub use replay::Failure;

/// Replays the trace in `path`.
///
/// # Errors
///
/// The first step that differs, or why the file cannot be interpreted: a trace
/// that is not understood is a failure, never passed over.
pub fn replay_file(path: &Path) -> Result<(), Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::unreadable(e.to_string()))?;
    let trace = serde_json::from_str(&text).map_err(|e| Failure::unreadable(e.to_string()))?;
    replay::replay(&trace)
}

/// All trace files at or below `path`, sorted.
///
/// # Errors
///
/// If a folder cannot be read, or there is nothing at `path`.
pub fn traces_below(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for item in std::fs::read_dir(path)? {
        let item = item?.path();
        if item.is_dir() {
            found.extend(traces_below(&item)?);
        } else if item
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            found.push(item);
        }
    }
    found.sort();
    Ok(found)
}

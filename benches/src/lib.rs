//! Benchmarks of Flowgate: what they share.
//!
//! `cargo bench -p flowgate-bench` runs them all; `docs/benchmarks.md` has the
//! figures of one machine.

use flowgate::{Engine, RuleError};

/// An engine on the system clock with this document of rules.
///
/// # Errors
///
/// The faults of the document.
pub fn engine(document: &str) -> Result<Engine, RuleError> {
    let engine = Engine::new();
    engine.load_document(document)?;
    Ok(engine)
}

/// A list of `rules` flow rules, each for a resource of its own and of a limit
/// that is not reached; `salt` makes it another list.
pub fn list_of(rules: usize, salt: u32) -> String {
    let rule = |n| {
        let count = 1_000_000_000 + salt;
        format!(r#"{{"resource": "resource/{n}", "count": {count}}}"#)
    };
    let all: Vec<String> = (0..rules).map(rule).collect();
    format!("[{}]", all.join(","))
}

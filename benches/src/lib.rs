//! Benchmarks of Flowgate: what they share.
//!
//! `cargo run --release -p flowgate-bench --bin compare` measures calls against
//! other crates, `scripts/instructions.sh` counts their instructions, and
//! `cargo bench -p flowgate-bench` has the finer measurements. `docs/benchmarks.md`
//! has the figures of one machine.

use flowgate::{Engine, RuleError};

/// Ten rules as one who is careful writes them: a limit per second and one per
/// minute, one that warms up, one that spaces, one that is only tried out, calls
/// in flight by a flow rule and by an isolation rule, and a breaker of each
/// strategy.
pub const TEN_RULES: &str = r#"{
    "flow": [
        {"resource": "orders", "count": 1e9},
        {"resource": "orders", "count": 1e9, "statIntervalMs": 60000},
        {"resource": "orders", "count": 1e9, "controlBehavior": 1},
        {"resource": "orders", "count": 1e9, "controlBehavior": 2},
        {"resource": "orders", "count": 1e9, "mode": "observe"},
        {"resource": "orders", "count": 1e6, "grade": 0}],
    "isolation": [{"resource": "orders", "count": 1000000}],
    "degrade": [
        {"resource": "orders", "grade": 0, "count": 500, "timeWindow": 10},
        {"resource": "orders", "grade": 1, "count": 0.5, "timeWindow": 10},
        {"resource": "orders", "grade": 2, "count": 1000, "timeWindow": 10}]}"#;

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

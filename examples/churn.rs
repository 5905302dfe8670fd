//! An hour of names that come and never come again, simulated: ten million
//! resources, each called once under rules with patterns, beside some that rules
//! name and that are called all the time. Prints what is resident in memory at the
//! end of each minute, and whether it stays as it is after the first ten; if not,
//! it fails.
//!
//! ```text
//! cargo run --release -p flowgate-examples --example churn
//! ```
//!
//! A number of names may be given, for a shorter run. Memory is read from `/proc`,
//! so elsewhere than on Linux the number of resources has to do.

#![expect(clippy::print_stdout, reason = "this program talks to people")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use flowgate::{Clock, Engine, ManualClock, RuleError, Timestamp};

const MINUTES: u64 = 60;
const NAMES: u64 = 10_000_000;
/// Up to here memory may grow.
const WARM: usize = 10;
/// Resources that are called all the time.
const REGULARS: u64 = 100;
/// How much more than at the end of the warm-up is still flat.
const SLACK: f64 = 1.05;

const RULES: &str = r#"{
    "flow": [{"resource": "/path/.*", "regex": true, "count": 100},
             {"resource": "/path/.*", "regex": true, "count": 1000, "statIntervalMs": 10000},
             {"resource": "regular/1", "count": 1000000}],
    "isolation": [{"resource": "/path/.*", "regex": true, "count": 10}],
    "degrade": [{"resource": "regular/2", "grade": 1, "count": 0.5, "timeWindow": 10}]}"#;

fn main() -> Result<ExitCode, RuleError> {
    let given = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let names: u64 = given.unwrap_or(NAMES);
    let time = ManualClock::at(Timestamp::from_millis(1_000_000));
    let engine = Engine::builder()
        .clock(Clock::manual(time.clone()))
        .resources_max(50_000)
        .build();
    engine.load_document(RULES)?;
    let per_minute = names / MINUTES;
    let step = Duration::from_secs(60) / u32::try_from(per_minute.max(1)).unwrap_or(u32::MAX);
    println!("minute  MiB  resources  evicted  beyond the limit  ns a name");
    let mut memory = Vec::new();
    let mut refused = 0;
    for minute in 0..MINUTES {
        let start = Instant::now();
        for n in 0..per_minute {
            time.advance(step);
            let name = format!("/path/{:016}", minute * per_minute + n);
            refused += u64::from(engine.try_entry(&name).is_err());
            if n % 100 == 0 {
                let regular = format!("regular/{}", n / 100 % REGULARS);
                refused += u64::from(engine.try_entry(&regular).is_err());
            }
        }
        let took = start.elapsed().as_nanos() / u128::from(per_minute.max(1));
        let stats = engine.stats();
        let bytes = resident_bytes().unwrap_or(stats.resources);
        println!(
            "{:>6} {:>4} {:>10} {:>8} {:>17} {took:>10}",
            minute + 1,
            bytes >> 20,
            stats.resources,
            stats.evicted_resources,
            stats.overflowed_resources
        );
        memory.push(bytes);
    }
    let (warm, later) = memory.split_at(WARM);
    let most = |bytes: &[usize]| bytes.iter().max().copied().unwrap_or(0) as f64;
    let is_flat = most(later) <= most(warm) * SLACK;
    println!("{refused} calls refused");
    println!("{}", if is_flat { "flat" } else { "NOT FLAT" });
    Ok(ExitCode::from(u8::from(!is_flat)))
}

/// The second figure of `statm`, in pages of 4 KiB.
fn resident_bytes() -> Option<usize> {
    let figures = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = figures.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4_096)
}

//! How many instructions the main ways of a call take, counted under callgrind:
//! the same from run to run, whatever else the machine does.
//!
//! `scripts/instructions.sh` runs this and compares with `instructions.txt`. It
//! needs Valgrind, and `gungraun-runner` of the version of the library. Each
//! function makes [`CALLS`] calls, so the script divides by that.
//!
//! Valgrind's processor may have no counter that can be trusted as a clock. The
//! clock is then read by the system's call, which takes more instructions than the
//! counter does, and as many on every run.

#![expect(clippy::unwrap_used, reason = "a fault here is a fault of the bench")]
#![expect(missing_docs, reason = "the macros make items that nobody calls")]

use std::hint::black_box;

use flowgate::{Engine, Entry, Resource};
use flowgate_bench::{TEN_RULES, engine};
use gungraun::prelude::*;

/// Far more than the making of a chain and of a thread's first numbers costs.
const CALLS: usize = 1_000;

const NO_RULE: &str = "{}";
const ONE_RULE: &str = r#"{"flow": [{"resource": "orders", "count": 1e9}]}"#;
const REFUSING: &str = r#"{"flow": [{"resource": "orders", "count": 0}]}"#;
const BREAKER: &str = r#"{"degrade": [
    {"resource": "orders", "grade": 1, "count": 0.5, "timeWindow": 10}]}"#;

/// Lives to the end of the process: nothing is taken down while counting.
struct Called {
    engine: &'static Engine,
    orders: &'static Resource,
}

fn called(document: &str) -> Called {
    let engine: &Engine = Box::leak(Box::new(engine(document).unwrap()));
    let orders = Box::leak(Box::new(engine.resource("orders")));
    // Chains, statistics, and what a thread has for itself are made now.
    for _ in 0..100 {
        drop(orders.try_entry());
        drop(engine.try_entry("orders"));
    }
    Called { engine, orders }
}

fn within(document: &str) -> Vec<Entry<'static>> {
    let orders = called(document).orders;
    (0..CALLS).map(|_| orders.try_entry().unwrap()).collect()
}

#[library_benchmark]
#[bench::no_rule(called(NO_RULE))]
#[bench::one_rule(called(ONE_RULE))]
#[bench::refused(called(REFUSING))]
#[bench::breaker(called(BREAKER))]
#[bench::ten_rules(called(TEN_RULES))]
fn entry_and_exit(called: Called) {
    for _ in 0..CALLS {
        if let Ok(entry) = black_box(called.orders).try_entry() {
            black_box(&entry);
            entry.exit();
        }
    }
}

#[library_benchmark]
#[bench::no_rule(called(NO_RULE))]
#[bench::one_rule(called(ONE_RULE))]
fn by_name(called: Called) {
    for _ in 0..CALLS {
        if let Ok(entry) = black_box(called.engine).try_entry(black_box("orders")) {
            black_box(&entry);
            entry.exit();
        }
    }
}

#[library_benchmark]
#[bench::no_rule(within(NO_RULE))]
#[bench::one_rule(within(ONE_RULE))]
#[bench::breaker(within(BREAKER))]
fn exit(entries: Vec<Entry<'static>>) {
    entries.into_iter().for_each(Entry::exit);
}

library_benchmark_group!(name = calls, benchmarks = [entry_and_exit, by_name, exit]);

main!(library_benchmark_groups = calls);

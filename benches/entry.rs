//! What one guarded call costs: entry and exit, with nothing in between.

#![expect(clippy::unwrap_used, reason = "a fault here is a fault of the bench")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use flowgate::{Engine, Resource};
use flowgate_bench::{engine, list_of};

/// Rules of each behaviour, far from their limits.
const BEHAVIOURS: [(&str, &str); 8] = [
    ("no_rule", "{}"),
    (
        "reject",
        r#"{"flow": [{"resource": "orders", "count": 1e9}]}"#,
    ),
    (
        "reject_two_rules",
        r#"{"flow": [{"resource": "orders", "count": 1e9}, {"resource": "orders", "count": 2e9}]}"#,
    ),
    (
        "warm_up",
        r#"{"flow": [{"resource": "orders", "count": 1e9, "controlBehavior": 1}]}"#,
    ),
    (
        "queueing",
        r#"{"flow": [{"resource": "orders", "count": 1e9, "controlBehavior": 2}]}"#,
    ),
    (
        "warm_up_queueing",
        r#"{"flow": [{"resource": "orders", "count": 1e9, "controlBehavior": 3}]}"#,
    ),
    (
        "concurrency",
        r#"{"flow": [{"resource": "orders", "count": 1e6, "grade": 0}]}"#,
    ),
    (
        "breaker",
        r#"{"degrade": [{"resource": "orders", "grade": 1, "count": 0.5, "timeWindow": 1}]}"#,
    ),
];

/// Rules under which every call is refused.
const REFUSING: [(&str, &str); 4] = [
    (
        "reject",
        r#"{"flow": [{"resource": "orders", "count": 0}]}"#,
    ),
    (
        "queueing",
        r#"{"flow": [{"resource": "orders", "count": 1e-3, "controlBehavior": 2}]}"#,
    ),
    (
        "concurrency",
        r#"{"flow": [{"resource": "orders", "count": 0, "grade": 0}]}"#,
    ),
    (
        "breaker",
        r#"{"degrade": [{"resource": "orders", "grade": 2, "count": 0, "timeWindow": 10000,
                         "minRequestAmount": 1}]}"#,
    ),
];

fn call(orders: &Resource) {
    if let Ok(entry) = black_box(orders).try_entry() {
        black_box(&entry);
        entry.exit();
    }
}

/// `threads` threads that share `rounds` calls between them.
fn together(threads: u64, rounds: u64, call: impl Fn() + Sync) -> Duration {
    let each = rounds.div_ceil(threads);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..each).for_each(|_| call()));
        }
    });
    start.elapsed()
}

fn passing(c: &mut Criterion) {
    let mut group = c.benchmark_group("entry");
    for (name, rules) in BEHAVIOURS {
        let engine = engine(rules).unwrap();
        let orders = engine.resource("orders");
        group.bench_function(BenchmarkId::new(name, "1 thread"), |b| {
            b.iter(|| call(&orders));
        });
        group.bench_function(BenchmarkId::new(name, "2 threads"), |b| {
            b.iter_custom(|rounds| together(2, rounds, || call(&orders)));
        });
    }
    group.finish();
}

fn blocked(c: &mut Criterion) {
    let mut group = c.benchmark_group("blocked");
    for (name, rules) in REFUSING {
        let engine = engine(rules).unwrap();
        let orders = engine.resource("orders");
        // The line is used, and the breaker opened, by a first call that fails.
        if let Ok(entry) = orders.try_entry() {
            entry.exit_with(flowgate::Outcome::Error);
        }
        assert!(orders.try_entry().is_err(), "{name}");
        group.bench_function(BenchmarkId::new(name, "1 thread"), |b| {
            b.iter(|| call(&orders));
        });
        group.bench_function(BenchmarkId::new(name, "2 threads"), |b| {
            b.iter_custom(|rounds| together(2, rounds, || call(&orders)));
        });
    }
    group.finish();
}

fn ways_in(c: &mut Criterion) {
    let mut group = c.benchmark_group("way_in");
    let rules = r#"{"flow": [{"resource": "orders", "count": 1e9}]}"#;
    flowgate::engine().load_document(rules).unwrap();
    let engine = flowgate::engine();
    let orders = engine.resource("orders");
    group.bench_function("by_handle", |b| b.iter(|| call(&orders)));
    group.bench_function("by_name", |b| {
        b.iter(|| {
            black_box(engine)
                .try_entry(black_box("orders"))
                .unwrap()
                .exit()
        });
    });
    group.bench_function("by_macro", |b| {
        b.iter(|| flowgate::entry!("orders").unwrap().exit());
    });
    group.bench_function("with_origin", |b| {
        b.iter(|| orders.request().origin("web").try_entry().unwrap().exit());
    });
    group.bench_function("with_origin_and_context", |b| {
        let request = || orders.request().origin("web").context("api");
        b.iter(|| request().try_entry().unwrap().exit());
    });
    engine.set_enabled(false);
    group.bench_function("switched_off", |b| b.iter(|| call(&orders)));
    engine.set_enabled(true);
    group.finish();
}

fn many_resources(c: &mut Criterion) {
    let mut group = c.benchmark_group("by_name_among");
    for resources in [1, 1_000, 10_000] {
        let engine = Engine::new();
        engine.load_json("flow", list_of(resources, 0)).unwrap();
        let names: Vec<String> = (0..resources).map(|n| format!("resource/{n}")).collect();
        names
            .iter()
            .for_each(|name| engine.entry(name).unwrap().exit());
        // A stride that is prime to all counts: no two calls in a row meet.
        let mut next = 0;
        group.bench_function(BenchmarkId::from_parameter(resources), |b| {
            b.iter(|| {
                next = (next + 7_919) % resources;
                engine.try_entry(&names[next]).unwrap().exit();
            });
        });
    }
    group.finish();
}

fn short() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(30)
        .nresamples(10_000)
        .without_plots()
}

criterion_group! {
    name = benches;
    config = short();
    targets = passing, blocked, ways_in, many_resources
}
criterion_main!(benches);

//! What a hot-parameter rule costs: one decision with few and with very many
//! distinct values, and the memory of a value.
//!
//! `cargo bench -p flowgate-bench --bench param`

#![expect(clippy::unwrap_used, reason = "a fault here is a fault of the bench")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use flowgate::{Arg, Engine, ParamFlow, ParamFlowRule};

/// Far more than any run takes.
const PLENTY: f64 = 1e9;
const MILLION: u64 = 1_000_000;

fn engine(rule: ParamFlowRule) -> Engine {
    let engine = Engine::new();
    engine.load_rules::<ParamFlow>(vec![rule]).unwrap();
    engine
}

fn rule_of(name: &str) -> ParamFlowRule {
    let rule = match name {
        "reject" => ParamFlowRule::qps("orders", 0, PLENTY),
        "queueing" => ParamFlowRule::qps("orders", 0, PLENTY).rate_limiter(0),
        _ => ParamFlowRule::concurrency("orders", 0, 1e6),
    };
    rule.max_values(MILLION as u32)
}

/// Numbers up to `values` in an order that no cache foresees.
fn shuffled(values: u64) -> impl FnMut() -> u64 {
    let mut state = 1_u64;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % values
    }
}

/// Entry and exit, under one rule, with so many values that are all known.
fn decisions(c: &mut Criterion) {
    let mut group = c.benchmark_group("param_flow");
    for name in ["reject", "queueing", "concurrency"] {
        for values in [10, MILLION] {
            let engine = engine(rule_of(name));
            let orders = engine.resource("orders");
            for value in 0..values {
                orders.request().args(&[Arg::from(value)]).try_entry().ok();
            }
            let mut next = shuffled(values);
            group.bench_function(BenchmarkId::new(name, values), |b| {
                b.iter(|| {
                    let args = [Arg::from(black_box(next()))];
                    orders.request().args(&args).try_entry().ok()
                });
            });
        }
    }
    group.finish();
}

/// What text of different lengths adds.
fn texts(c: &mut Criterion) {
    let mut group = c.benchmark_group("param_flow_text");
    let engine = engine(rule_of("reject"));
    let orders = engine.resource("orders");
    for (name, text) in [
        ("15_bytes", "a-user-called-x"),
        ("36_bytes", "123e4567-e89b-12d3-a456-426614174000"),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let args = [Arg::from(black_box(text))];
                orders.request().args(&args).try_entry().ok()
            });
        });
    }
    group.finish();
}

/// A flood of values that were never seen, in a table that is full: each one
/// drives another out.
fn newcomers(c: &mut Criterion) {
    let mut group = c.benchmark_group("param_flow_newcomers");
    for (name, count) in [("evicting", 5.0), ("all_limited", 1.0)] {
        let rule = ParamFlowRule::qps("orders", 0, count).duration_in_sec(3_600);
        let engine = engine(rule.max_values(100_000));
        let orders = engine.resource("orders");
        let mut next = 0_u64;
        let mut call = || {
            next += 1;
            let args = [Arg::from(black_box(next))];
            orders.request().args(&args).try_entry().ok()
        };
        (0..200_000).for_each(|_| drop(call()));
        group.bench_function(name, |b| b.iter(&mut call));
    }
    group.finish();
}

/// Two threads on one value, or each on values of its own.
fn threads(c: &mut Criterion) {
    let mut group = c.benchmark_group("param_flow_two_threads");
    for (name, values) in [("one_value", 1), ("many_values", 100_000)] {
        let engine = engine(rule_of("reject"));
        let orders = engine.resource("orders");
        group.bench_function(name, |b| {
            b.iter_custom(|rounds| {
                std::thread::scope(|scope| {
                    let threads = [0, 1].map(|number| {
                        let orders = &orders;
                        scope.spawn(move || {
                            let mut next = shuffled(values);
                            let start = Instant::now();
                            for _ in 0..rounds {
                                let args = [Arg::from(next() * 2 + number * (values - 1).min(1))];
                                black_box(orders.request().args(&args).try_entry().ok());
                            }
                            start.elapsed()
                        })
                    });
                    let times = threads.map(|thread| thread.join().unwrap());
                    times.into_iter().max().unwrap_or(Duration::ZERO)
                })
            });
        });
    }
    group.finish();
}

/// Prints what a value takes in memory.
fn bytes(_: &mut Criterion) {
    for name in ["reject", "queueing", "concurrency"] {
        for values in [10, 4_000, MILLION] {
            let engine = engine(rule_of(name));
            let orders = engine.resource("orders");
            for value in 0..values {
                orders.request().args(&[Arg::from(value)]).try_entry().ok();
            }
            let table = engine.table::<ParamFlow>();
            let state = table.entries()[0].state_of("orders").unwrap();
            let per_value = state.bytes() as f64 / state.values() as f64;
            eprintln!("param_flow/{name}/{values}: {per_value:.1} bytes per value");
        }
    }
}

criterion_group!(benches, bytes, decisions, texts, newcomers, threads);
criterion_main!(benches);

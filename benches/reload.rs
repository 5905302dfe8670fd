//! What new rules cost: loading them, and what callers feel of it.

#![expect(clippy::unwrap_used, reason = "a fault here is a fault of the bench")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use flowgate::Engine;
use flowgate_bench::list_of;

const SIZES: [usize; 3] = [1, 1_000, 10_000];

/// Alternates two lists that differ in every rule.
fn load(c: &mut Criterion) {
    let mut group = c.benchmark_group("reload");
    for rules in SIZES {
        let lists = [list_of(rules, 0), list_of(rules, 1)];
        let engine = Engine::new();
        let mut turn = 0;
        group.bench_function(BenchmarkId::new("all_changed", rules), |b| {
            b.iter(|| {
                turn ^= 1;
                engine.load_json("flow", &lists[turn]).unwrap()
            });
        });
        group.bench_function(BenchmarkId::new("all_kept", rules), |b| {
            b.iter(|| engine.load_json("flow", &lists[0]).unwrap());
        });
    }
    group.finish();
}

/// A thread that calls one resource all the time, while rules are loaded.
fn load_under_calls(c: &mut Criterion) {
    let mut group = c.benchmark_group("reload_under_load");
    for rules in SIZES {
        let lists = [list_of(rules, 0), list_of(rules, 1)];
        let engine = Engine::new();
        engine.load_json("flow", &lists[0]).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (called, stop) = (engine.resource("resource/0"), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    drop(called.try_entry());
                }
            });
            let mut turn = 0;
            group.bench_function(BenchmarkId::from_parameter(rules), |b| {
                b.iter(|| {
                    turn ^= 1;
                    engine.load_json("flow", &lists[turn]).unwrap()
                });
            });
            stop.store(true, Ordering::Relaxed);
        });
    }
    group.finish();
}

/// The call that comes right after a reload, and makes its chain anew.
fn first_call(c: &mut Criterion) {
    let mut group = c.benchmark_group("first_call_after_reload");
    let engine = Engine::new();
    let called = engine.resource("resource/0");
    let list = list_of(1, 0);
    group.bench_function("one_rule", |b| {
        b.iter_custom(|rounds| {
            (0..rounds)
                .map(|_| {
                    engine.load_json("flow", &list).unwrap();
                    let start = std::time::Instant::now();
                    called.try_entry().unwrap().exit();
                    start.elapsed()
                })
                .sum()
        });
    });
    group.finish();
}

fn short() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(1_000))
        .sample_size(20)
        .nresamples(10_000)
        .without_plots()
}

criterion_group! {
    name = benches;
    config = short();
    targets = load, load_under_calls, first_call
}
criterion_main!(benches);

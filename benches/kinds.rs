//! What a rule of each kind adds to a guarded call: entry and exit, far from the
//! limit, and ten rules on one resource.
//!
//! `cargo bench -p flowgate-bench --bench kinds`

#![expect(clippy::unwrap_used, reason = "a fault here is a fault of the bench")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use flowgate::{Arg, Traffic};
use flowgate_bench::engine;

/// All calls are inbound, say where they come from, and have an argument.
const KINDS: [(&str, &str); 16] = [
    ("no_rule", "{}"),
    (
        "authority",
        r#"{"authority": [{"resource": "orders", "limitApp": "web,batch,mobile"}]}"#,
    ),
    (
        "system",
        r#"{"system": [{"qps": 1e9, "maxThread": 1000000}]}"#,
    ),
    ("system_response_time", r#"{"system": [{"avgRt": 1e6}]}"#),
    (
        "param_flow",
        r#"{"paramFlow": [{"resource": "orders", "paramIdx": 0, "count": 1e9}]}"#,
    ),
    (
        "flow",
        r#"{"flow": [{"resource": "orders", "count": 1e9}]}"#,
    ),
    (
        "flow_per_minute",
        r#"{"flow": [{"resource": "orders", "count": 1e9, "statIntervalMs": 60000}]}"#,
    ),
    (
        "flow_strict",
        r#"{"flow": [{"resource": "orders", "count": 1e9, "accounting": "strict"}]}"#,
    ),
    (
        "flow_token_bucket",
        r#"{"flow": [{"resource": "orders", "count": 1e9, "accounting": "tokenBucket"}]}"#,
    ),
    (
        "flow_observed",
        r#"{"flow": [{"resource": "orders", "count": 1e9, "mode": "observe"}]}"#,
    ),
    (
        "flow_by_glob",
        r#"{"flow": [{"resource": "or*", "match": "glob", "count": 1e9}]}"#,
    ),
    (
        "isolation",
        r#"{"isolation": [{"resource": "orders", "count": 1000000}]}"#,
    ),
    (
        "degrade",
        r#"{"degrade": [{"resource": "orders", "grade": 1, "count": 0.5, "timeWindow": 1}]}"#,
    ),
    (
        "degrade_sliding",
        r#"{"degrade": [{"resource": "orders", "grade": 1, "count": 0.5, "timeWindow": 1,
                         "statIntervalMs": 1000, "statSlidingWindowBucketCount": 10}]}"#,
    ),
    (
        "degrade_last_100_calls",
        r#"{"degrade": [{"resource": "orders", "grade": 1, "count": 0.5, "timeWindow": 1,
                         "statWindowCalls": 100}]}"#,
    ),
    (
        "one_of_each_kind",
        r#"{"authority": [{"resource": "orders", "limitApp": "web"}],
            "system": [{"qps": 1e9}],
            "paramFlow": [{"resource": "orders", "paramIdx": 0, "count": 1e9}],
            "flow": [{"resource": "orders", "count": 1e9}],
            "isolation": [{"resource": "orders", "count": 1000000}],
            "degrade": [{"resource": "orders", "grade": 1, "count": 0.5, "timeWindow": 1}]}"#,
    ),
];

fn kinds(c: &mut Criterion) {
    let mut group = c.benchmark_group("kind");
    for (name, rules) in KINDS {
        let engine = engine(rules).unwrap();
        let orders = engine.resource("orders");
        let args = [Arg::from(7)];
        group.bench_function(name, |b| {
            b.iter(|| {
                let request = black_box(&orders).request();
                let request = request.origin("web").traffic(Traffic::Inbound).args(&args);
                request.try_entry().unwrap().exit();
            });
        });
    }
    group.finish();
}

/// Ten flow rules that look at the same counts, and ten of all sorts.
fn ten_rules(c: &mut Criterion) {
    let mut group = c.benchmark_group("ten_rules");
    let alike: Vec<String> = (0..10)
        .map(|n| {
            format!(
                r#"{{"resource": "orders", "count": {}}}"#,
                1_000_000_000 + n
            )
        })
        .collect();
    let alike = format!(r#"{{"flow": [{}]}}"#, alike.join(","));
    let mixed = r#"{
        "flow": [
            {"resource": "orders", "count": 1e9},
            {"resource": "orders", "count": 1e6, "grade": 0},
            {"resource": "orders", "count": 1e9, "controlBehavior": 1},
            {"resource": "orders", "count": 1e9, "controlBehavior": 2},
            {"resource": "orders", "count": 1e9, "statIntervalMs": 60000},
            {"resource": "orders", "count": 1e9, "mode": "observe"}],
        "isolation": [{"resource": "orders", "count": 1000000}],
        "degrade": [
            {"resource": "orders", "grade": 0, "count": 500, "timeWindow": 1},
            {"resource": "orders", "grade": 1, "count": 0.5, "timeWindow": 1},
            {"resource": "orders", "grade": 2, "count": 1000, "timeWindow": 1}]}"#;
    for (name, rules) in [("alike", alike.as_str()), ("mixed", mixed)] {
        let engine = engine(rules).unwrap();
        let orders = engine.resource("orders");
        group.bench_function(name, |b| {
            b.iter(|| black_box(&orders).try_entry().unwrap().exit());
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30);
    targets = kinds, ten_rules
}
criterion_main!(benches);

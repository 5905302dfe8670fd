//! The way of a call allocates nothing.
//!
//! This test binary has a counting allocator, which sees one thread at a time.

mod common;

use allocation_counter::measure;
use common::{at, document, flow, ms};
use flowgate::{Arg, Engine, ManualClock, Outcome, Resource};

const ROUNDS: u64 = 1_000;

/// Allocations of a thousand rounds of `call`, after some to warm up in: caches
/// of threads, and resources and origins that are new, are made then.
fn allocations(time: &ManualClock, mut call: impl FnMut()) -> u64 {
    for _ in 0..10 {
        call();
        time.advance(ms(700));
    }
    let counted = measure(|| {
        for round in 0..ROUNDS {
            call();
            // Over the edges of windows and seconds too.
            if round % 7 == 0 {
                time.advance(ms(90));
            }
        }
    });
    counted.count_total
}

fn of_entries(rules: &str, call: impl Fn(&Resource)) -> u64 {
    let (engine, time) = document(rules);
    let orders = engine.resource("orders");
    allocations(&time, || call(&orders))
}

fn enter(orders: &Resource) {
    if let Ok(entry) = orders.try_entry() {
        entry.exit();
    }
}

#[test]
fn a_value_that_is_known_allocates_nothing_under_any_hot_parameter_rule() {
    let long = "a text that is longer than fifteen bytes";
    let list = [
        Arg::from(1),
        Arg::from("x"),
        Arg::from(long),
        Arg::from(2.5),
    ];
    let args = [
        Arg::from(7),
        Arg::from("short"),
        Arg::from(long),
        Arg::hashed(&(1, "x")),
        Arg::from(&list[..]),
    ];
    let user = [("user", Arg::from("alice"))];
    for members in [
        r#""count": 1e9"#,
        r#""count": 1"#,
        r#""count": 1, "maxValues": 1"#,
        r#""count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 0"#,
        r#""count": 3, "grade": 0"#,
        r#""count": 0"#,
    ] {
        for arg in &args {
            let rule = format!(r#"{{"resource": "orders", "paramIdx": 0, {members}}}"#);
            let allocated = of_entries(&format!(r#"{{"paramFlow": [{rule}]}}"#), |orders| {
                let args = std::slice::from_ref(arg);
                if let Ok(entry) = orders.request().args(args).try_entry() {
                    entry.exit();
                }
            });
            assert_eq!(allocated, 0, "{members} {arg:?}");
        }
        let rule = format!(r#"{{"resource": "orders", "paramKey": "user", {members}}}"#);
        let allocated = of_entries(&format!(r#"{{"paramFlow": [{rule}]}}"#), |orders| {
            if let Ok(entry) = orders.request().attachments(&user).try_entry() {
                entry.exit();
            }
        });
        assert_eq!(allocated, 0, "{members}");
    }
}

#[test]
fn an_entry_allocates_nothing_under_any_rule() {
    let table = [
        ("no rule", "{}"),
        (
            "rate",
            r#"{"flow": [{"resource": "orders", "count": 1e9}]}"#,
        ),
        (
            "rate that refuses",
            r#"{"flow": [{"resource": "orders", "count": 3}]}"#,
        ),
        (
            "nothing passes",
            r#"{"flow": [{"resource": "orders", "count": 0}]}"#,
        ),
        (
            "warm-up",
            r#"{"flow": [{"resource": "orders", "count": 50, "controlBehavior": 1}]}"#,
        ),
        (
            "queue",
            r#"{"flow": [{"resource": "orders", "count": 1e6, "controlBehavior": 2}]}"#,
        ),
        (
            "queue that refuses",
            r#"{"flow": [{"resource": "orders", "count": 7, "controlBehavior": 2}]}"#,
        ),
        (
            "warm-up queue",
            r#"{"flow": [{"resource": "orders", "count": 50, "controlBehavior": 3}]}"#,
        ),
        (
            "concurrency",
            r#"{"flow": [{"resource": "orders", "count": 3, "grade": 0}]}"#,
        ),
        (
            "a long rule id that is refused",
            r#"{"flow": [{"resource": "orders", "count": 0,
                "id": "an id of more than thirty-eight bytes, which is shared and not copied"}]}"#,
        ),
        (
            "two rates and a relation",
            r#"{"flow": [{"resource": "orders", "count": 20}, {"resource": "orders", "count": 10},
                {"resource": "orders", "count": 5, "strategy": 1, "refResource": "orders"}]}"#,
        ),
        (
            "strict rates",
            r#"{"flow": [{"resource": "orders", "count": 1e9, "accounting": "strict"},
                {"resource": "orders", "count": 3, "accounting": "strict"}]}"#,
        ),
        (
            "token buckets",
            r#"{"flow": [{"resource": "orders", "count": 1e9, "accounting": "tokenBucket"},
                {"resource": "orders", "count": 7, "accounting": "tokenBucket", "burstCount": 20}]}"#,
        ),
        (
            "token buckets that are given back to, and waited for",
            r#"{"flow": [{"resource": "orders", "count": 1e6, "accounting": "tokenBucket",
                 "controlBehavior": 2},
                {"resource": "orders", "count": 3}]}"#,
        ),
        (
            "a minute, an hour and a day",
            r#"{"flow": [{"resource": "orders", "count": 700, "statIntervalMs": 60000},
                {"resource": "orders", "count": 1e5, "statIntervalMs": 3600000},
                {"resource": "orders", "count": 1e6, "statIntervalMs": 86400000},
                {"resource": "orders", "count": 100}]}"#,
        ),
        (
            "intervals of which each refuses",
            r#"{"flow": [{"resource": "orders", "count": 9, "statIntervalMs": 5000},
                {"resource": "orders", "count": 3, "statIntervalMs": 1000,
                 "statSlidingWindowBucketCount": 4},
                {"resource": "orders", "count": 6, "statIntervalMs": 5000},
                {"resource": "orders", "count": 5, "statIntervalMs": 3000, "strategy": 1,
                 "refResource": "orders"}]}"#,
        ),
        (
            "observed rules",
            r#"{"flow": [{"resource": "orders", "count": 9, "mode": "observe"},
                {"resource": "orders", "count": 9, "statIntervalMs": 5000, "mode": "observe"},
                {"resource": "orders", "count": 9, "controlBehavior": 2, "mode": "observe"},
                {"resource": "orders", "count": 9, "controlBehavior": 1, "mode": "observe"},
                {"resource": "orders", "count": 1, "grade": 0, "mode": "observe"}]}"#,
        ),
        (
            "memory",
            r#"{"flow": [{"resource": "orders", "lowMemUsageThreshold": 20,
                "highMemUsageThreshold": 2, "memLowWaterMarkBytes": 1,
                "memHighWaterMarkBytes": 2}]}"#,
        ),
        (
            "permits",
            r#"{"isolation": [{"resource": "orders", "count": 3, "maxQueueingTimeMs": 500},
                              {"resource": "orders", "count": 5}]}"#,
        ),
        (
            "permits that are not there",
            r#"{"isolation": [{"resource": "orders", "count": 0, "maxQueueingTimeMs": 500}]}"#,
        ),
        (
            "breaker",
            r#"{"degrade": [{"resource": "orders", "grade": 2, "count": 5, "timeWindow": 1}]}"#,
        ),
        (
            "breaker and queue",
            r#"{"flow": [{"resource": "orders", "count": 1e6, "controlBehavior": 2}],
                "degrade": [{"resource": "orders", "grade": 2, "count": 5, "timeWindow": 1}]}"#,
        ),
        (
            "three breakers and a queue",
            r#"{"flow": [{"resource": "orders", "count": 1e6, "controlBehavior": 2}],
                "degrade": [{"resource": "orders", "grade": 2, "count": 5, "timeWindow": 1},
                            {"resource": "orders", "grade": 1, "count": 0.5, "timeWindow": 1},
                            {"resource": "orders", "grade": 0, "count": 5, "timeWindow": 1}]}"#,
        ),
    ];
    for (name, rules) in table {
        assert_eq!(of_entries(rules, enter), 0, "{name}");
        let failing = |orders: &Resource| {
            if let Ok(entry) = orders.try_entry() {
                entry.exit_with(Outcome::Error);
            }
        };
        let (engine, time) = document(rules);
        let orders = engine.resource("orders");
        let counted = allocations(&time, || failing(&orders));
        // A new state of a breaker is a new object, and nothing else is.
        let breakers = engine.breakers("orders").into_iter();
        let changes = breakers.map(|breaker| breaker.figures().generation - 1);
        assert!(counted <= changes.sum(), "{name}, failing: {counted}");
    }
}

#[test]
fn neither_does_a_wait_nor_a_call_that_is_given_up() {
    let queue = r#"{"flow": [{"resource": "orders", "count": 100, "controlBehavior": 2}]}"#;
    let waits = |orders: &Resource| drop(orders.entry());
    assert_eq!(of_entries(queue, waits), 0);
    let gives_up = |orders: &Resource| drop((orders.reserve(), orders.reserve()));
    assert_eq!(of_entries(queue, gives_up), 0);
    let rate = r#"{"flow": [{"resource": "orders", "count": 5}]}"#;
    let borrows = |orders: &Resource| drop(orders.request().prioritized().entry());
    assert_eq!(of_entries(rate, borrows), 0);
}

#[test]
fn neither_do_entries_by_name_by_macro_or_with_origin_and_context() {
    let (engine, time) = flow(
        r#"[{"resource": "orders", "count": 20, "limitApp": "web"},
            {"resource": "orders", "count": 20, "strategy": 2, "refResource": "api"},
            {"resource": "or.*", "regex": true, "count": 30}]"#,
    );
    let by_name = |engine: &Engine| drop(engine.try_entry("orders"));
    assert_eq!(allocations(&time, || by_name(&engine)), 0);
    let with_all = || {
        let request = engine.request("orders").origin("web").context("api");
        drop(request.weight(2).try_entry());
    };
    assert_eq!(allocations(&time, with_all), 0);
    let by_macro = || drop(flowgate::entry!("allocations"));
    assert_eq!(allocations(&time, by_macro), 0);
}

#[test]
fn neither_does_a_call_right_after_its_way_was_switched_off_and_on() {
    let (engine, time) = flow(r#"[{"resource": "orders", "count": 5}]"#);
    let orders = engine.resource("orders");
    let switch = || {
        engine.set_enabled(false);
        enter(&orders);
        engine.set_enabled(true);
        enter(&orders);
    };
    assert_eq!(allocations(&time, switch), 0);
}

#[test]
fn a_reload_costs_a_resource_one_new_chain_and_later_calls_nothing() {
    let (engine, time) = flow(r#"[{"resource": "orders", "count": 5}]"#);
    let orders = engine.resource("orders");
    enter(&orders);
    at(&time, 2_000);
    engine
        .load_json("flow", r#"[{"resource": "orders", "count": 6}]"#)
        .unwrap();
    assert!(measure(|| enter(&orders)).count_total > 0);
    assert_eq!(measure(|| enter(&orders)).count_total, 0);
}

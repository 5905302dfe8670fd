//! System rules, through the engine: all inbound calls together.

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use flowgate::{
    Block, BlockKind, Engine, Entry, Measure, Outcome, Resource, System, SystemRule, Traffic,
};

use common::{at, built, document, ms};

fn system(rules: &str) -> (Engine, flowgate::ManualClock) {
    document(&format!(r#"{{"system": {rules}}}"#))
}

fn enter(resource: &Resource) -> Result<Entry<'_>, Block> {
    resource.request().traffic(Traffic::Inbound).entry()
}

fn passed(resource: &Resource, calls: usize) -> usize {
    (0..calls).filter(|_| enter(resource).is_ok()).count()
}

/// What a refusal says.
fn said(block: &Block) -> (BlockKind, &str, Measure, f64, f64) {
    let (limit, observed) = (block.limit(), block.observed());
    (
        block.kind(),
        block.rule().as_str(),
        block.measure(),
        limit,
        observed,
    )
}

#[test]
fn exactly_the_limit_of_calls_per_second_pass_over_all_resources() {
    let (engine, time) = system(r#"[{"qps": 10}]"#);
    let [a, b] = [engine.resource("a"), engine.resource("b")];
    assert_eq!((passed(&a, 6), passed(&b, 6)), (6, 4));
    let block = enter(&a).unwrap_err();
    assert_eq!(
        said(&block),
        (BlockKind::System, "system#1", Measure::Rate, 10.0, 10.0)
    );
    assert_eq!(block.retry_after(), Some(ms(1_000)));
    at(&time, 1_000);
    assert_eq!(passed(&b, 12), 10);
}

#[test]
fn weights_count_and_outbound_calls_do_not() {
    let (engine, _) = system(r#"[{"qps": 10, "maxThread": 4}]"#);
    let a = engine.resource("a");
    let weigh = |weight| a.request().traffic(Traffic::Inbound).weight(weight);
    let outbound: Vec<_> = (0..20).map(|_| a.entry().unwrap()).collect();
    let first = weigh(7).entry().unwrap();
    assert!(weigh(4).entry().is_err());
    let second = weigh(3).entry().unwrap();
    assert_eq!(engine.inbound().in_flight, 2);
    // A weight above the limit never passes.
    assert_eq!(weigh(11).entry().unwrap_err().retry_after(), None);
    drop((outbound, first, second));
}

#[test]
fn exactly_the_limit_run_at_once_and_not_one_more() {
    let (engine, _) = system(r#"[{"maxThread": 2}]"#);
    let [a, b] = [engine.resource("a"), engine.resource("b")];
    let first = enter(&a).unwrap();
    let second = enter(&b).unwrap();
    let block = enter(&a).unwrap_err();
    assert_eq!(
        said(&block),
        (
            BlockKind::System,
            "system#1",
            Measure::Concurrency,
            2.0,
            2.0
        )
    );
    first.exit();
    let third = enter(&b).unwrap();
    assert!(enter(&b).is_err());
    drop((second, third));
    assert_eq!(engine.inbound().in_flight, 0);
}

#[test]
fn the_limit_holds_under_many_threads() {
    const LIMIT: u64 = 5;
    let (engine, _) = system(r#"[{"maxThread": 9}, {"maxThread": 5}, {"qps": 1e9}]"#);
    let (running, most) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..8 {
            let resource = engine.resource(&format!("r{}", number % 3));
            let (running, most) = (&running, &most);
            scope.spawn(move || {
                let mut admitted = 0;
                while admitted < 300 {
                    let Ok(entry) = enter(&resource) else {
                        thread::yield_now();
                        continue;
                    };
                    admitted += 1;
                    let together = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(together, Ordering::Relaxed);
                    thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                    entry.exit();
                }
            });
        }
    });
    let most = most.into_inner();
    assert!(most <= LIMIT, "{most} ran at once");
    // And as many as the limit can.
    let resource = engine.resource("r0");
    let entries: Vec<_> = std::iter::from_fn(|| enter(&resource).ok()).collect();
    assert_eq!(entries.len() as u64, LIMIT);
}

#[test]
fn the_least_of_several_rules_counts_whatever_their_order() {
    for rules in [
        r#"[{"id": "loose", "qps": 8, "maxThread": 9}, {"id": "tight", "qps": 3}]"#,
        r#"[{"id": "tight", "qps": 3}, {"id": "loose", "qps": 8, "maxThread": 9}]"#,
    ] {
        let (engine, _) = system(rules);
        let a = engine.resource("a");
        assert_eq!(passed(&a, 5), 3);
        let block = enter(&a).unwrap_err();
        assert_eq!(
            said(&block),
            (BlockKind::System, "tight", Measure::Rate, 3.0, 3.0)
        );
        assert_eq!(engine.inbound().in_flight, 0);
    }
}

#[test]
fn a_refusal_names_the_first_rule_that_refuses() {
    let (engine, _) = system(r#"[{"id": "a", "maxThread": 1}, {"id": "b", "qps": 1}]"#);
    let a = engine.resource("a");
    let entry = enter(&a).unwrap();
    assert_eq!(enter(&a).unwrap_err().rule().as_str(), "a");
    entry.exit();
    assert_eq!(enter(&a).unwrap_err().rule().as_str(), "b");
}

#[test]
fn a_rule_that_looks_at_nothing_switches_nothing_off() {
    for rules in [
        r#"[{"qps": 2}, {"qps": -1, "highestSystemLoad": -1}]"#,
        r#"[{"avgRt": -1}, {"qps": 2}]"#,
    ] {
        let (engine, _) = system(rules);
        assert_eq!(passed(&engine.resource("a"), 5), 2, "{rules}");
    }
    let (engine, _) = system(r#"[{"qps": -1, "maxThread": -1}]"#);
    let a = engine.resource("a");
    assert_eq!(passed(&a, 50), 50);
    // It counts nothing either, so a rule after it starts from what passed.
    engine.load_json("system", r#"[{"qps": 60}]"#).unwrap();
    assert_eq!(passed(&a, 50), 10);
}

#[test]
fn a_limit_of_nothing_lets_nothing_in() {
    for rule in [r#"{"qps": 0}"#, r#"{"maxThread": 0}"#] {
        let (engine, _) = system(&format!("[{rule}]"));
        let a = engine.resource("a");
        assert_eq!(passed(&a, 3), 0, "{rule}");
        assert!(a.entry().is_ok(), "{rule}");
    }
}

#[test]
fn a_rule_loaded_in_mid_flight_sees_what_has_passed_and_what_runs() {
    let (engine, time) = built(Engine::builder());
    let [a, b] = [engine.resource("a"), engine.resource("b")];
    let running = [enter(&a).unwrap(), enter(&b).unwrap(), enter(&b).unwrap()];
    let _outbound = b.entry().unwrap();
    engine
        .load_json("system", r#"[{"qps": 5, "maxThread": 3}]"#)
        .unwrap();
    assert_eq!(enter(&a).unwrap_err().measure(), Measure::Concurrency);
    let [first, second, third] = running;
    second.exit();
    at(&time, 1);
    let fourth = enter(&a).unwrap();
    assert_eq!(enter(&b).unwrap_err().observed(), 3.0);
    drop((first, third));
    at(&time, 2);
    // Four have passed in this second.
    let fifth = enter(&b).unwrap();
    let block = enter(&b).unwrap_err();
    assert_eq!((block.measure(), block.observed()), (Measure::Rate, 5.0));
    drop((fourth, fifth));
    at(&time, 1_000);
    let entries: Vec<_> = std::iter::from_fn(|| enter(&b).ok()).collect();
    assert_eq!(entries.len(), 3);
}

#[test]
fn a_changed_rule_sees_what_has_passed_and_what_runs() {
    let (engine, _) = system(r#"[{"qps": 10, "maxThread": 10}]"#);
    let a = engine.resource("a");
    let entries: Vec<_> = (0..4).map(|_| enter(&a).unwrap()).collect();
    let load = |rules| engine.load_json("system", rules).unwrap();
    load(r#"[{"qps": 4}]"#);
    assert_eq!(enter(&a).unwrap_err().measure(), Measure::Rate);
    load(r#"[{"maxThread": 4}]"#);
    assert_eq!(enter(&a).unwrap_err().measure(), Measure::Concurrency);
    load(r#"[{"maxThread": 4}, {"qps": 6}]"#);
    drop(entries);
    assert_eq!(passed(&a, 5), 2);
}

#[test]
fn a_call_that_waited_for_permits_is_counted_though_the_limit_was_lowered_meanwhile() {
    let (engine, _time) = document(
        r#"{"system": [{"maxThread": 3}],
            "isolation": [{"resource": "a", "count": 1, "maxQueueingTimeMs": 1000}]}"#,
    );
    let [a, b] = [engine.resource("a"), engine.resource("b")];
    let [first, second] = [enter(&a).unwrap(), enter(&b).unwrap()];
    let mut waiter = pin!(a.request().traffic(Traffic::Inbound).acquire());
    let mut poll = || {
        waiter
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    };
    assert!(poll().is_pending());
    engine.load_json("system", r#"[{"maxThread": 1}]"#).unwrap();
    first.exit();
    // It goes by the rules of its arrival, and runs beside the second.
    let Poll::Ready(Ok(third)) = poll() else {
        panic!("it has its permit");
    };
    second.exit();
    assert_eq!(engine.inbound().in_flight, 1);
    assert!(enter(&b).is_err(), "one runs");
    third.exit();
    assert_eq!(passed(&b, 1), 1);
}

#[test]
fn calls_that_hold_a_budget_that_has_ended_leave_it_properly() {
    let (engine, time) = system(r#"[{"maxThread": 2}]"#);
    let a = engine.resource("a");
    let old = [enter(&a).unwrap(), enter(&a).unwrap()];
    engine.load_json("system", "[]").unwrap();
    let between = enter(&a).unwrap();
    engine.load_json("system", r#"[{"maxThread": 4}]"#).unwrap();
    let fresh = enter(&a).unwrap();
    assert!(enter(&a).is_err());
    drop((old, between));
    at(&time, 1);
    let entries: Vec<_> = std::iter::from_fn(|| enter(&a).ok()).collect();
    assert_eq!(entries.len(), 3);
    drop((entries, fresh));
    assert_eq!(engine.inbound().in_flight, 0);
}

#[test]
fn a_call_refused_by_a_later_slot_gives_all_back() {
    let (engine, _) = document(
        r#"{"system": [{"qps": 5, "maxThread": 1}],
            "flow": [{"resource": "full", "count": 0}]}"#,
    );
    let full = engine.resource("full");
    for _ in 0..10 {
        assert_eq!(enter(&full).unwrap_err().kind(), BlockKind::Flow);
    }
    assert_eq!(passed(&engine.resource("free"), 9), 5);
}

#[test]
fn a_call_that_gives_up_its_wait_gives_all_back() {
    let (engine, _) = document(
        r#"{"system": [{"qps": 4, "maxThread": 2}],
            "flow": [{"resource": "slow", "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 5000}]}"#,
    );
    let [slow, free] = [engine.resource("slow"), engine.resource("free")];
    let reserve = || slow.request().traffic(Traffic::Inbound).reserve();
    let running = enter(&slow).unwrap();
    let waiting = reserve().unwrap();
    assert_eq!(waiting.wait(), ms(1_000));
    // In flight from its arrival.
    assert_eq!(enter(&free).unwrap_err().measure(), Measure::Concurrency);
    waiting.cancel();
    assert_eq!(engine.inbound().in_flight, 1);
    running.exit();
    assert_eq!(passed(&free, 9), 3);
    assert_eq!(engine.inbound().in_flight, 0);
}

#[test]
fn a_call_that_waits_counts_its_response_time_from_its_arrival() {
    let (engine, time) = document(
        r#"{"system": [{"avgRt": 500}],
            "flow": [{"resource": "slow", "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 5000}]}"#,
    );
    let slow = engine.resource("slow");
    enter(&slow).unwrap().exit();
    let waiting = slow.request().traffic(Traffic::Inbound).reserve().unwrap();
    at(&time, 1_000);
    waiting.begin().exit();
    // 1 s of one call: the first has left the second view.
    let block = enter(&engine.resource("free")).unwrap_err();
    assert_eq!(
        said(&block),
        (
            BlockKind::System,
            "system#1",
            Measure::ResponseTimeMs,
            500.0,
            1_000.0
        )
    );
}

#[test]
fn a_mean_response_time_above_the_limit_refuses_until_it_is_forgotten() {
    let (engine, time) = system(r#"[{"avgRt": 20}]"#);
    let a = engine.resource("a");
    let run = |millis: u64, outcome| {
        let entry = enter(&a).unwrap();
        time.advance(ms(millis));
        entry.exit_with(outcome);
    };
    run(20, Outcome::Success);
    // Just at the limit is within it; a call that was given up does not count.
    run(400, Outcome::Cancelled);
    run(20, Outcome::Error);
    run(21, Outcome::Success);
    let block = enter(&a).unwrap_err();
    assert_eq!(
        (block.measure(), block.limit()),
        (Measure::ResponseTimeMs, 20.0)
    );
    assert!((block.observed() - 61.0 / 3.0).abs() < 1e-4, "{block}");
    at(&time, 2_000);
    assert_eq!(passed(&a, 3), 3);
}

#[test]
fn an_observed_rule_refuses_nothing_and_counts_what_it_would() {
    let (engine, _) = system(r#"[{"qps": 2, "mode": "observe"}]"#);
    let a = engine.resource("a");
    assert_eq!(passed(&a, 5), 5);
    let hits = engine.table::<System>().entries()[0].hits().counts();
    assert_eq!((hits.passed, hits.would_block, hits.blocked), (2, 3, 0));
    // Enforced, it sees what has passed under it.
    engine.load_json("system", r#"[{"qps": 6}]"#).unwrap();
    assert_eq!(passed(&a, 5), 1);
}

#[test]
fn an_observed_rule_does_not_count_calls_of_before_it_that_have_left() {
    let (engine, time) = built(Engine::builder());
    let a = engine.resource("a");
    let older: Vec<_> = (0..5).map(|_| enter(&a).unwrap()).collect();
    engine
        .load_json("system", r#"[{"maxThread": 4, "mode": "observe"}]"#)
        .unwrap();
    let would_block = || engine.rules()[0].hits.would_block;
    enter(&a).unwrap().exit();
    assert_eq!(would_block(), 1);
    drop(older);
    at(&time, 10);
    assert_eq!(passed(&a, 3), 3);
    assert_eq!(would_block(), 1);
}

#[test]
fn an_observed_rule_beside_an_enforced_one_counts_each_call_once() {
    let (engine, _) = system(
        r#"[{"maxThread": 1, "mode": "observe"}, {"maxThread": 3}, {"qps": 1, "mode": "off"}]"#,
    );
    let a = engine.resource("a");
    let entries: Vec<_> = std::iter::from_fn(|| enter(&a).ok()).collect();
    assert_eq!(entries.len(), 3);
    let table = engine.table::<System>();
    let hits = table.entries()[0].hits().counts();
    assert_eq!((hits.passed, hits.would_block), (1, 2));
    let hits = table.entries()[1].hits().counts();
    assert_eq!((hits.passed, hits.blocked), (3, 1));
    drop(entries);
    assert!(enter(&a).is_ok());
}

#[test]
fn one_entry_point_called_both_ways_is_told_apart() {
    let (engine, time) = built(Engine::builder());
    let a = engine.resource("a");
    let inbound = enter(&a).unwrap();
    let outbound: Vec<_> = (0..5).map(|_| a.entry().unwrap()).collect();
    engine.load_json("system", r#"[{"maxThread": 2}]"#).unwrap();
    let second = enter(&a).unwrap();
    assert!(enter(&a).is_err());
    inbound.exit();
    at(&time, 1);
    let third = enter(&a).unwrap();
    assert!(enter(&a).is_err());
    drop((outbound, second, third));
}

#[test]
fn resources_beyond_the_limit_are_counted_too() {
    let (engine, _) = built(Engine::builder().resources_max(1));
    let _running: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| {
            engine
                .request(name)
                .traffic(Traffic::Inbound)
                .entry()
                .unwrap()
        })
        .collect();
    engine.load_json("system", r#"[{"maxThread": 4}]"#).unwrap();
    let inbound = |name: &str| engine.request(name).traffic(Traffic::Inbound).entry();
    let _fourth = inbound("d").unwrap();
    assert!(inbound("e").is_err() && inbound("a").is_err());
}

#[test]
fn rules_built_in_code_limit_as_those_of_a_document() {
    let (engine, _) = built(Engine::builder());
    let rule = SystemRule::default().concurrency(3).id("all");
    engine.load_rules::<System>(vec![rule]).unwrap();
    let a = engine.resource("a");
    let entries: Vec<_> = std::iter::from_fn(|| enter(&a).ok()).collect();
    assert_eq!(entries.len(), 3);
    assert_eq!(enter(&a).unwrap_err().rule().as_str(), "all");
}

//! Many threads at once: never one call more than the rule says, and never one
//! fewer when enough are offered.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use common::{at, flow, ms, totals};
use flowgate::{Engine, Resource, Traffic};

const THREADS: usize = 8;

/// Threads that call `resource` until told to stop, and how often they have
/// asked.
struct Callers {
    asked: [AtomicU64; THREADS],
    stop: AtomicBool,
}

impl Callers {
    /// Runs `drive` while [`THREADS`] threads ask without pause.
    fn run(ask: impl Fn(usize) + Sync, drive: impl FnOnce(&Callers)) {
        let callers = Callers {
            asked: Default::default(),
            stop: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            for (thread, asked) in callers.asked.iter().enumerate() {
                let (ask, stop) = (&ask, &callers.stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        ask(thread);
                        // There are more threads than cores: let them take
                        // turns more often than the scheduler would.
                        if asked.fetch_add(1, Ordering::Release) % 16 == 0 {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            drive(&callers);
            callers.stop.store(true, Ordering::Relaxed);
        });
    }

    /// Waits until every thread has asked `n` times from now on.
    fn each_asks(&self, n: u64) {
        let before = self
            .asked
            .each_ref()
            .map(|asked| asked.load(Ordering::Acquire));
        for (asked, before) in self.asked.iter().zip(before) {
            while asked.load(Ordering::Acquire) < before + n {
                std::thread::yield_now();
            }
        }
    }
}

/// Calls of all threads over many windows of 500 ms, in steps of 100 ms:
/// `limit` in every accounted second, neither more nor fewer.
fn exactly(limit: u64, rules: &str, ask: impl Fn(&Resource, usize) + Sync) {
    let (engine, time) = flow(rules);
    let orders = engine.resource("orders");
    let call = |thread| ask(&orders, thread);
    Callers::run(call, |callers| {
        for step in 0..300 {
            at(&time, 100 * step);
            // Whoever asks the second time from here on has read the new time;
            // each thread alone offers more than the limit.
            callers.each_asks(limit + 2);
            let qps = orders.node().pass_qps;
            assert_eq!(qps, limit as f64, "at {} ms", 100 * step);
        }
    });
    // All was offered at the beginning of each second: so it passed there.
    let node = orders.node();
    assert_eq!(node.total_pass, 30 * limit);
    assert_eq!(node.in_flight, 0);
    // Only the callers' last questions are missing.
    assert_eq!(node.total_success, 30 * limit);
}

#[test]
fn a_rate_is_kept_to_the_single_call_in_every_accounted_window() {
    exactly(
        50,
        r#"[{"resource": "orders", "count": 50}]"#,
        |orders, _| drop(orders.try_entry()),
    );
}

#[test]
fn two_rules_on_one_node_refuse_nobody_for_the_sake_of_somebody_refused() {
    let rules = [
        r#"[{"resource": "orders", "count": 40}, {"resource": "orders", "count": 20}]"#,
        r#"[{"resource": "orders", "count": 20}, {"resource": "orders", "count": 40}]"#,
        r#"[{"resource": "orders", "count": 40}, {"resource": "orders", "count": 20},
            {"resource": "orders", "count": 100, "grade": 0}]"#,
    ];
    for rules in rules {
        exactly(20, rules, |orders, _| drop(orders.try_entry()));
    }
}

#[test]
fn origins_contexts_and_directions_together_keep_the_limit_of_the_resource() {
    exactly(
        30,
        r#"[{"resource": "orders", "count": 30},
            {"resource": "orders", "count": 29, "limitApp": "other"}]"#,
        |orders, thread| {
            let origin = ["a", "b", "c"][thread % 3];
            let traffic = [Traffic::Inbound, Traffic::Outbound][thread % 2];
            let request = orders.request().origin(origin).context(origin);
            drop(request.traffic(traffic).try_entry());
        },
    );
}

#[test]
fn prioritized_calls_and_calls_given_up_never_bring_a_window_above_the_limit() {
    const LIMIT: u64 = 40;
    let (engine, time) = flow(r#"[{"resource": "orders", "count": 40}]"#);
    let orders = engine.resource("orders");
    let turn = AtomicU64::new(0);
    let call = |_| match turn.fetch_add(1, Ordering::Relaxed) % 4 {
        0 => drop(orders.request().prioritized().reserve()),
        1 => drop(orders.request().prioritized().reserve().map(|p| p.begin())),
        2 => drop(orders.request().weight(3).reserve()),
        _ => drop(orders.try_entry()),
    };
    Callers::run(call, |callers| {
        for step in 0..600 {
            at(&time, 50 * step);
            callers.each_asks(40);
            let node = orders.node();
            assert!(
                node.pass_qps <= LIMIT as f64,
                "{} at step {step}",
                node.pass_qps
            );
            assert!(node.waiting <= LIMIT);
        }
    });
    at(&time, 32_000);
    let node = orders.node();
    assert_eq!((node.in_flight, node.waiting, node.pass_qps), (0, 0, 0.0));
}

// https://github.com/alibaba/Sentinel/issues/628
#[test]
fn b078_of_ten_threads_that_meet_at_a_barrier_exactly_two_enter() {
    let (engine, _time) = flow(r#"[{"resource": "orders", "count": 2, "grade": 0}]"#);
    let orders = engine.resource("orders");
    let barrier = Barrier::new(10);
    let (entered, inside, peak) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..10 {
            let (barrier, orders) = (&barrier, &orders);
            let (entered, inside, peak) = (&entered, &inside, &peak);
            scope.spawn(move || {
                for round in 0..1_000 {
                    barrier.wait();
                    let entry = orders.entry();
                    if entry.is_ok() {
                        entered.fetch_add(1, Ordering::Relaxed);
                        let now_inside = inside.fetch_add(1, Ordering::Relaxed) + 1;
                        peak.fetch_max(now_inside, Ordering::Relaxed);
                    }
                    barrier.wait();
                    if thread == 0 {
                        assert_eq!(entered.swap(0, Ordering::Relaxed), 2, "round {round}");
                        inside.store(0, Ordering::Relaxed);
                    }
                    drop(entry);
                    barrier.wait();
                }
            });
        }
    });
    assert_eq!(peak.into_inner(), 2);
    assert_eq!(totals(&orders).in_flight, 0);
}

#[test]
fn a_concurrency_limit_holds_while_rules_are_swapped() {
    const LIMIT: u64 = 3;
    let list =
        |extra: &str| format!(r#"[{{"resource": "orders", "count": 3, "grade": 0}}{extra}]"#);
    let lists = [list(""), list(r#", {"resource": "orders", "count": 1e9}"#)];
    let (engine, _time) = flow(&lists[0]);
    let orders = engine.resource("orders");
    let (inside, peak) = (AtomicU64::new(0), AtomicU64::new(0));
    let call = |_| {
        if let Ok(entry) = orders.entry() {
            peak.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
            entry.exit();
        }
    };
    Callers::run(call, |callers| {
        for swap in 0..500 {
            engine.load_json("flow", &lists[swap % 2]).unwrap();
            if swap % 50 == 0 {
                callers.each_asks(1);
            }
        }
    });
    assert!(peak.into_inner() <= LIMIT);
    assert_eq!(orders.in_flight(), 0);
}

// https://github.com/alibaba/Sentinel/pull/1783
#[test]
fn b122_no_call_passes_a_rule_of_zero_while_it_is_reloaded_ten_thousand_times() {
    let short = r#"[{"resource": "orders", "count": 0}]"#;
    let long = r#"[{"resource": "a", "count": 1}, {"resource": "orders", "count": 0},
                   {"resource": "b.*", "regex": true, "count": 7}]"#;
    let (engine, _time) = flow(short);
    let orders = engine.resource("orders");
    let passed = AtomicU64::new(0);
    let call = |thread: usize| {
        let by_handle = thread.is_multiple_of(2);
        let entry = if by_handle {
            orders.try_entry()
        } else {
            engine.try_entry("orders")
        };
        passed.fetch_add(u64::from(entry.is_ok()), Ordering::Relaxed);
        // A list is read whole or not at all.
        let rules = engine.flow_rules();
        assert!(matches!(rules.len(), 1 | 3));
        assert_eq!(rules.matching("orders").len(), 1);
    };
    Callers::run(call, |callers| {
        for swap in 0..10_000 {
            let list = if swap % 3 == 0 { long } else { short };
            engine.load_json("flow", list).unwrap();
        }
        callers.each_asks(1);
    });
    assert_eq!(passed.into_inner(), 0);
    assert_eq!(engine.stats().generation, 10_002);
}

#[test]
fn a_line_gives_no_place_twice_and_skips_none() {
    const CALLS: usize = 400;
    let (engine, _time) = flow(
        r#"[{"resource": "mail", "count": 1000, "controlBehavior": 2,
             "maxQueueingTimeMs": 3199}]"#,
    );
    let mail = engine.resource("mail");
    let barrier = Barrier::new(THREADS);
    let mut waits: Vec<u128> = std::thread::scope(|scope| {
        let line_up = || {
            barrier.wait();
            let line_up = |_| mail.reserve().ok();
            let places: Vec<_> = (0..CALLS + 10).filter_map(line_up).collect();
            let waits: Vec<_> = places.iter().map(|p| p.wait().as_millis()).collect();
            places.into_iter().for_each(|place| place.begin().exit());
            waits
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(line_up)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    waits.sort_unstable();
    let every_ms: Vec<u128> = (0..(CALLS * THREADS) as u128).collect();
    assert_eq!(waits, every_ms);
}

#[test]
fn engines_are_shared_dropped_and_reloaded_by_many_threads_without_harm() {
    let (engine, time) = flow("[]");
    let engine = Arc::new(engine);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let engine: Arc<Engine> = Arc::clone(&engine);
            let time = time.clone();
            scope.spawn(move || {
                for n in 0..300 {
                    let name = format!("resource {}", (n + thread * 7) % 40);
                    if n % 25 == thread {
                        let rule = format!(r#"[{{"resource": "{name}", "count": {n}}}]"#);
                        engine.load_json("flow", rule).unwrap();
                    }
                    drop(engine.request(&name).origin("web").context("api").entry());
                    time.advance(ms(1));
                }
            });
        }
    });
    assert_eq!(engine.stats().resources, 40);
    for name in engine.resources() {
        assert_eq!(engine.node(&name).unwrap().in_flight, 0, "{name}");
    }
}

//! What threads keep at hand of an engine: chains of resources, and resources by
//! name. It must not show, but in time.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

mod common;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use common::{document, flow};
use flowgate::{
    Call, Clock, Engine, Outcome, Position, Resource, Slot, SlotError, TimeSource, Timestamp,
    Verdict,
};

/// More than a thread keeps at hand.
const MANY: usize = 200;

/// A clock of an engine, to see from outside whether the engine still has it.
struct Standing(#[expect(dead_code, reason = "it is only counted")] Arc<()>);

impl TimeSource for Standing {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000)
    }
}

fn watched() -> (Engine, Weak<()>) {
    let token = Arc::new(());
    let alive = Arc::downgrade(&token);
    let engine = Engine::builder().clock(Clock::custom(Standing(token)));
    (engine.build(), alive)
}

fn enter(resource: &Resource) -> bool {
    resource.try_entry().is_ok()
}

#[test]
fn after_a_load_has_returned_every_call_of_every_thread_is_under_the_new_rules() {
    const THREADS: usize = 4;
    let (engine, _) = flow("[]");
    let turn = Barrier::new(THREADS + 1);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let names = (0..MANY).map(|n| n.to_string());
                let handles: Vec<_> = names.map(|name| engine.resource(&name)).collect();
                for round in 0..20 {
                    let refuses = round % 2 == 1;
                    for handle in &handles {
                        for _ in 0..6 {
                            assert_eq!(enter(handle), !refuses, "round {round}");
                            assert_eq!(engine.try_entry(handle.name()).is_ok(), !refuses);
                        }
                    }
                    turn.wait();
                    turn.wait();
                }
            });
        }
        for round in 0..20 {
            turn.wait();
            let rules = [r#"[{"resource": ".*", "regex": true, "count": 0}]"#, "[]"];
            engine.load_json("flow", rules[round % 2]).unwrap();
            turn.wait();
        }
    });
    for name in engine.resources() {
        let figures = engine.node(&name).unwrap();
        assert_eq!(figures.in_flight, 0, "{name}");
        assert_eq!(figures.total_pass, (THREADS * 10 * 12) as u64, "{name}");
    }
}

/// A slot that makes calls itself, of the resource that it is asked about and of
/// another, as many levels deep as it was told.
struct CallsAgain {
    engine: OnceLock<Engine>,
    depth: AtomicU64,
}

impl CallsAgain {
    fn call(&self) {
        let deeper = |depth: u64| depth.checked_sub(1);
        let order = Ordering::Relaxed;
        let Ok(depth) = self.depth.fetch_update(order, order, deeper) else {
            return;
        };
        let engine = self.engine.get().unwrap();
        let name = ["orders", "stock"][depth as usize / 2 % 2];
        let entry = engine.try_entry(name).unwrap();
        engine.resource(name).entry().unwrap().exit();
        entry.exit_with(Outcome::Error);
    }
}

struct Calling(Arc<CallsAgain>);

impl Slot for Calling {
    fn name(&self) -> &'static str {
        "calling"
    }

    fn check(&self, _: &mut Call<'_>) -> Result<Verdict, SlotError> {
        self.0.call();
        Ok(Verdict::Pass)
    }

    fn exited(&self, _: &flowgate::Departure<'_>) {
        self.0.call();
    }
}

#[test]
fn a_slot_may_make_calls_of_its_own_and_each_is_counted_once() {
    let again = Arc::new(CallsAgain {
        engine: OnceLock::new(),
        depth: AtomicU64::new(0),
    });
    let slot = Calling(Arc::clone(&again));
    let builder = Engine::builder().slot(Position::Last, slot);
    let (engine, _) = common::built(builder);
    engine
        .load_json(
            "degrade",
            r#"[{"resource": "orders", "grade": 2, "count": 1e6, "timeWindow": 1}]"#,
        )
        .unwrap();
    assert!(again.engine.set(engine.clone()).is_ok());
    let orders = engine.resource("orders");
    for _ in 0..50 {
        again.depth.store(6, Ordering::Relaxed);
        orders.entry().unwrap().exit();
        assert_eq!(again.depth.load(Ordering::Relaxed), 0, "it made no calls");
    }
    let figures = ["orders", "stock"].map(|name| engine.node(name).unwrap());
    // Of each six one by name, that failed, and one by handle.
    let [passed, failed] = [
        figures.iter().map(|node| node.total_pass).sum::<u64>(),
        figures.iter().map(|node| node.total_exception).sum(),
    ];
    assert_eq!((passed, failed), (50 * 13, 50 * 6));
    assert!(figures.iter().all(|node| node.in_flight == 0));
    assert_eq!(engine.stats().slot_faults, 0);
}

/// All kinds of rules, so that the chain at hand holds whatever a chain can.
const ALL_KINDS: &str = r#"{
    "authority": [{"resource": "orders", "limitApp": "web", "strategy": 1}],
    "system": [{"qps": 1e9, "maxThread": 1000000, "highestSystemLoad": 1e9}],
    "paramFlow": [{"resource": "orders", "paramIdx": 0, "count": 1e6}],
    "flow": [{"resource": "orders", "count": 1e9},
             {"resource": "orders", "count": 1e9, "strategy": 1, "refResource": "orders"},
             {"resource": "orders", "count": 1e6, "controlBehavior": 2}],
    "isolation": [{"resource": "orders", "count": 1000}],
    "degrade": [{"resource": "orders", "grade": 2, "count": 1e6, "timeWindow": 1}]
}"#;

fn await_that(is_so: impl Fn() -> bool, otherwise: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{otherwise}");
        thread::yield_now();
    }
}

#[test]
fn an_engine_ends_though_threads_still_have_its_chains_and_names_at_hand() {
    let (engine, alive) = watched();
    engine.load_document(ALL_KINDS).unwrap();
    let orders = engine.resource("orders");
    for _ in 0..10 {
        let request = orders.request().traffic(flowgate::Traffic::Inbound);
        request.entry().unwrap().exit();
        engine.entry("orders").unwrap().exit();
    }
    assert!(alive.upgrade().is_some());
    drop((engine, orders));
    // Its sampler has a thread, which is told to end and then does.
    await_that(|| alive.upgrade().is_none(), "the engine is kept");
}

#[test]
fn the_thread_of_a_coarse_clock_ends_though_threads_have_chains_at_hand() {
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").ok()?;
        let names = tasks.flatten().filter_map(|task| {
            let comm = task.path().join("comm");
            std::fs::read_to_string(comm).ok()
        });
        Some(names.filter(|name| name.trim() == "flowgate-clock").count())
    };
    let Some(before) = threads() else {
        return; // only where the system tells
    };
    let engine = Engine::builder()
        .coarse_clock(Duration::from_millis(1))
        .build();
    engine.load_document(ALL_KINDS).unwrap();
    for _ in 0..10 {
        engine.entry("orders").unwrap().exit();
    }
    assert_eq!(threads(), Some(before + 1));
    drop(engine);
    await_that(|| threads() == Some(before), "the clock's thread runs on");
}

#[test]
fn the_same_name_means_the_resource_of_the_engine_that_is_asked() {
    let engines: Vec<_> = (0..3).map(|_| flow("[]").0).collect();
    for (n, engine) in engines.iter().cycle().take(300).enumerate() {
        engine.try_entry("orders").unwrap().exit();
        assert_eq!(
            engine.node("orders").unwrap().total_pass,
            n as u64 / 3 + 1,
            "call {n}"
        );
    }
    drop(engines);
    let (engine, _) = flow(r#"[{"resource": "orders", "count": 0}]"#);
    assert!(engine.try_entry("orders").is_err());
}

#[test]
fn a_resource_beyond_the_limit_moves_home_though_it_was_called_by_name() {
    let (engine, _) = common::built(Engine::builder().resources_max(1));
    engine.try_entry("first").unwrap().exit();
    for _ in 0..10 {
        engine.try_entry("second").unwrap().exit();
    }
    assert!(engine.node("second").is_none());
    let rule = r#"[{"resource": "second", "count": 0}]"#;
    engine.load_json("flow", rule).unwrap();
    assert!(engine.try_entry("second").is_err());
    assert!(engine.try_entry("first").is_ok());
}

#[test]
fn calls_that_report_back_are_heard_however_many_there_are_and_wherever_they_end() {
    let rules = r#"{"degrade": [{"resource": "orders", "grade": 2, "count": 1e6, "timeWindow": 1,
        "minRequestAmount": 1000000}]}"#;
    let (engine, _) = document(rules);
    let orders = engine.resource("orders");
    let mut heard = 0;
    for many in [1, 2, 40, 3] {
        let here: Vec<_> = (0..many).map(|_| orders.entry().unwrap()).collect();
        let elsewhere: Vec<_> = (0..many).map(|_| orders.entry().unwrap()).collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                for entry in elsewhere {
                    entry.exit_with(Outcome::Error);
                }
                orders.entry().unwrap().exit();
            });
        });
        here.into_iter().for_each(drop);
        heard += 2 * many + 1;
        let [breaker] = &engine.breakers("orders")[..] else {
            panic!("one breaker");
        };
        assert_eq!(breaker.figures().results.total, heard, "after {many}");
    }
    assert_eq!(orders.in_flight(), 0);
}

thread_local! {
    static LAST: RefCell<Option<CallsAtTheEnd>> = const { RefCell::new(None) };
}

/// Makes a call when its thread has nothing at hand any more. By handle: look-ups
/// by name are not to be had then, as `papaya` has given up its own.
struct CallsAtTheEnd(Resource);

impl Drop for CallsAtTheEnd {
    fn drop(&mut self) {
        self.0.entry().unwrap().exit();
        self.0.try_entry().unwrap().exit();
    }
}

#[test]
fn a_thread_that_is_being_torn_down_may_still_make_calls() {
    let breaker =
        r#"{"degrade": [{"resource": "orders", "grade": 2, "count": 1e6, "timeWindow": 1}]}"#;
    for rules in ["{}", breaker] {
        let (engine, _) = document(rules);
        let at_the_end = CallsAtTheEnd(engine.resource("orders"));
        thread::spawn(move || {
            // What a thread made first it gives up last.
            LAST.with(|last| last.borrow_mut().get_or_insert(at_the_end).0.clone())
                .entry()
                .unwrap()
                .exit();
        })
        .join()
        .unwrap();
        let figures = engine.node("orders").unwrap();
        assert_eq!((figures.total_pass, figures.in_flight), (3, 0), "{rules}");
    }
}

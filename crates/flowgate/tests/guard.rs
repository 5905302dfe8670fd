//! The guard: every way in and out of an entry, and what is counted for it.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use common::{Totals, document, flow, ms, refusal, totals};
use flowgate::{Block, CallError, Engine, Entry, Measure, Outcome, Resource, Timestamp, Traffic};

fn free() -> (Engine, Resource) {
    let (engine, _) = flow("[]");
    let orders = engine.resource("orders");
    (engine, orders)
}

const PASSED: Totals = Totals {
    pass: 1,
    block: 0,
    success: 0,
    exception: 0,
    cancelled: 0,
    in_flight: 0,
    waiting: 0,
};
const SUCCEEDED: Totals = Totals {
    success: 1,
    ..PASSED
};
const FAILED: Totals = Totals {
    success: 1,
    exception: 1,
    ..PASSED
};
const CANCELLED: Totals = Totals {
    cancelled: 1,
    ..PASSED
};
const RUNNING: Totals = Totals {
    in_flight: 1,
    ..PASSED
};

#[test]
fn an_entry_is_in_flight_until_it_leaves_and_is_counted_by_its_outcome() {
    type Leave = fn(Entry<'_>);
    let table: [(Leave, Totals); 5] = [
        (|entry| entry.exit(), SUCCEEDED),
        (|entry| entry.exit_with(Outcome::Success), SUCCEEDED),
        (|entry| entry.exit_with(Outcome::Error), FAILED),
        (|entry| entry.exit_with(Outcome::Cancelled), CANCELLED),
        (|entry| drop(entry), SUCCEEDED),
    ];
    for (leave, expected) in table {
        let (_engine, orders) = free();
        let entry = orders.entry().unwrap();
        assert_eq!(totals(&orders), RUNNING);
        leave(entry);
        assert_eq!(totals(&orders), expected);
    }
}

#[test]
fn a_panic_inside_an_entry_counts_as_an_error_and_goes_on_unchanged() {
    let (_engine, orders) = free();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _entry = orders.entry().unwrap();
        resume_unwind(Box::new(17));
    }));
    assert_eq!(*panic.unwrap_err().downcast::<i32>().unwrap(), 17);
    assert_eq!(totals(&orders), FAILED);
}

#[test]
fn leaving_early_by_return_or_question_mark_counts_as_a_success() {
    fn early(orders: &Resource) -> Option<u32> {
        let _entry = orders.entry().ok()?;
        None?;
        Some(1)
    }
    let (_engine, orders) = free();
    assert_eq!(early(&orders), None);
    assert_eq!(totals(&orders), SUCCEEDED);
}

#[test]
fn an_entry_made_while_a_panic_unwinds_is_not_failed_by_that_panic() {
    struct CleansUp<'a>(&'a Resource);
    impl Drop for CleansUp<'_> {
        fn drop(&mut self) {
            let _entry = self.0.entry().unwrap();
        }
    }
    let (_engine, orders) = free();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _cleans_up = CleansUp(&orders);
        resume_unwind(Box::new(()));
    }));
    assert!(panic.is_err());
    assert_eq!(totals(&orders), SUCCEEDED);
}

#[test]
fn guards_leave_on_other_threads_in_any_order() {
    let (engine, orders) = free();
    let guards: Vec<Entry<'static>> = (0..16).map(|_| engine.entry("orders").unwrap()).collect();
    assert_eq!(totals(&orders).in_flight, 16);
    let (odd, even): (Vec<_>, Vec<_>) = guards
        .into_iter()
        .enumerate()
        .partition(|(n, _)| n % 2 == 1);
    let leave_reversed = |guards: Vec<(usize, Entry<'static>)>| {
        std::thread::spawn(move || {
            guards.into_iter().rev().for_each(|(n, guard)| match n % 4 {
                0 => guard.exit_with(Outcome::Error),
                1 => guard.exit_with(Outcome::Cancelled),
                _ => drop(guard),
            });
        })
    };
    let leaving = [leave_reversed(even), leave_reversed(odd)];
    leaving
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let expected = Totals {
        pass: 16,
        success: 12,
        exception: 4,
        cancelled: 4,
        ..Totals::default()
    };
    assert_eq!(totals(&orders), expected);
}

#[test]
fn a_thread_that_panics_with_a_guard_it_was_given_fails_the_call() {
    let (engine, orders) = free();
    let entry = engine.entry("orders").unwrap();
    let thread = std::thread::spawn(move || {
        let _entry = entry;
        resume_unwind(Box::new(()));
    });
    assert!(thread.join().is_err());
    assert_eq!(totals(&orders), FAILED);
}

#[test]
fn call_and_run_classify_the_result_of_the_work() {
    let (engine, _time) = flow(r#"[{"resource": "orders", "count": 3}]"#);
    let orders = engine.resource("orders");
    assert_eq!(orders.call(|| Ok::<_, ()>(1)), Ok(1));
    assert_eq!(
        orders.call(|| Err::<(), _>("no")),
        Err(CallError::Failed("no"))
    );
    assert_eq!(orders.run(|| 3), Ok(3));
    let block = refusal(Measure::Rate, "flow/orders#1", 3.0, 3.0, Some(ms(1_000)));
    let refused = orders.call(|| -> Result<(), ()> { unreachable!("refused") });
    assert_eq!(refused, Err(CallError::Blocked(block.clone())));
    assert_eq!(orders.run(|| unreachable!("refused")), Err::<(), _>(block));
    let expected = Totals {
        pass: 3,
        block: 2,
        success: 3,
        exception: 1,
        ..Totals::default()
    };
    assert_eq!(totals(&orders), expected);
}

#[test]
fn call_passes_a_panic_on_and_counts_an_error() {
    let (_engine, orders) = free();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        orders.call(|| -> Result<(), ()> { resume_unwind(Box::new("boom")) })
    }));
    assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "boom");
    assert_eq!(totals(&orders), FAILED);
}

#[test]
fn the_macro_looks_up_its_resource_once_in_the_default_engine() {
    fn enter() -> Result<(), Block> {
        flowgate::entry!("macro")?.exit();
        Ok(())
    }
    enter().unwrap();
    enter().unwrap();
    flowgate::entry("macro").unwrap().exit();
    flowgate::try_entry("macro").unwrap().exit();
    let node = flowgate::engine().node("macro").unwrap();
    assert_eq!((node.total_pass, node.in_flight), (4, 0));
    // Rules loaded later hold at a call site that was used before.
    let rule = r#"[{"resource": "macro", "count": 0}]"#;
    flowgate::engine().load_json("flow", rule).unwrap();
    assert_eq!(
        enter(),
        Err(refusal(Measure::Rate, "flow/macro#1", 0.0, 4.0, None))
    );
    // The default engine is in use and cannot be replaced.
    assert!(flowgate::init(Engine::new()).is_err());
}

#[test]
fn while_switched_off_everything_passes_and_nothing_is_counted() {
    let (engine, _time) = flow(r#"[{"resource": "orders", "count": 1}]"#);
    let orders = engine.resource("orders");
    let before = orders.entry().unwrap();
    engine.set_enabled(false);
    let off: Vec<_> = (0..3).map(|_| orders.entry().unwrap()).collect();
    assert_eq!(off[0].entered(), None);
    assert_eq!(off[0].resource(), None);
    assert_eq!(totals(&orders), RUNNING);
    // Admitted before: leaves as it came. Admitted while off: never counts.
    before.exit();
    engine.set_enabled(true);
    drop(off);
    assert_eq!(totals(&orders), SUCCEEDED);
    assert!(orders.entry().is_err());
}

#[test]
fn a_handle_and_its_guards_outlive_the_engine() {
    let (engine, time) = document(
        r#"{"flow": [
            {"resource": "orders", "count": 2},
            {"resource": "orders", "count": 0, "strategy": 1, "refResource": "stock"}
        ]}"#,
    );
    let orders = engine.resource("orders");
    let entry = orders.entry().unwrap();
    drop(engine);
    time.advance(ms(5));
    entry.exit();
    assert!(orders.entry().is_ok());
    // Both the rule on itself, and the one on a resource that nobody can find
    // any more.
    assert_eq!(
        orders.entry().unwrap_err(),
        refusal(Measure::Rate, "flow/orders#1", 2.0, 2.0, Some(ms(995)))
    );
    let expected = Totals {
        pass: 2,
        block: 1,
        success: 2,
        ..Totals::default()
    };
    assert_eq!(totals(&orders), expected);
}

#[test]
fn asking_for_figures_makes_nothing() {
    let (engine, _time) = flow(
        r#"[{"resource": "orders", "count": 5, "strategy": 1, "refResource": "stock"},
            {"resource": "orders", "count": 5, "limitApp": "web"}]"#,
    );
    assert_eq!(engine.node("orders"), None);
    assert_eq!(engine.resources(), Vec::<String>::new());
    engine.entry("orders").unwrap().exit();
    // Neither the related resource nor the named origin was ever called.
    assert_eq!(engine.node("stock"), None);
    assert_eq!(engine.origin_node("orders", "web"), None);
    assert_eq!(engine.context_node("orders", ""), None);
    assert_eq!(engine.resources(), ["orders"]);
}

#[test]
fn the_related_resource_is_looked_at_as_soon_as_it_was_entered() {
    let (engine, _time) =
        flow(r#"[{"resource": "read", "count": 2, "strategy": 1, "refResource": "write"}]"#);
    let (read, write) = (engine.resource("read"), engine.resource("write"));
    assert_eq!(common::passed(&read, 5), 5);
    assert_eq!(common::passed(&write, 2), 2);
    assert_eq!(
        read.entry().unwrap_err(),
        refusal(Measure::Rate, "flow/read#1", 2.0, 2.0, Some(ms(1_000)))
    );
    assert_eq!(totals(&write).pass, 2);
}

#[test]
fn the_inbound_total_takes_calls_of_both_directions_apart() {
    let (engine, time) = flow(r#"[{"resource": "both", "count": 4}]"#);
    let both = engine.resource("both");
    let ask = |traffic| both.request().traffic(traffic).entry();
    let out = ask(Traffic::Outbound).unwrap();
    let inbound = [Traffic::Inbound; 3].map(|traffic| ask(traffic).unwrap());
    ask(Traffic::Inbound).unwrap_err();
    ask(Traffic::Outbound).unwrap_err();
    // Inbound from the start, with one call back out.
    let first = engine.resource("first");
    let first_in = first.request().traffic(Traffic::Inbound).entry().unwrap();
    first.entry().unwrap().exit();
    let running = Totals {
        pass: 4,
        block: 1,
        in_flight: 4,
        ..Totals::default()
    };
    assert_eq!(Totals::from(engine.inbound()), running);
    time.advance(ms(20));
    let [one, two, three] = inbound;
    one.exit();
    two.exit_with(Outcome::Error);
    three.exit_with(Outcome::Cancelled);
    first_in.exit();
    out.exit();
    let ended = Totals {
        pass: 4,
        block: 1,
        success: 3,
        exception: 1,
        cancelled: 1,
        ..Totals::default()
    };
    assert_eq!(Totals::from(engine.inbound()), ended);
    assert_eq!(engine.inbound().avg_rt, ms(20));
    let whole = Totals {
        pass: 4,
        block: 2,
        success: 3,
        exception: 1,
        cancelled: 1,
        ..Totals::default()
    };
    assert_eq!(totals(&both), whole);
}

#[test]
fn origins_and_contexts_have_figures_of_their_own() {
    let (engine, time) = flow("[]");
    let orders = engine.resource("orders");
    let request = || orders.request().origin("web").context("checkout").weight(2);
    let entry = request().entry().unwrap();
    assert_eq!(entry.entered(), Some(Timestamp::from_millis(1_000_000)));
    assert_eq!(entry.resource(), Some("orders"));
    time.advance(ms(30));
    entry.exit_with(Outcome::Error);
    orders.entry().unwrap().exit();
    let expected = Totals {
        pass: 2,
        success: 2,
        exception: 2,
        ..Totals::default()
    };
    let origin = engine.origin_node("orders", "web").unwrap();
    let context = engine.context_node("orders", "checkout").unwrap();
    assert_eq!(origin, context);
    assert_eq!(Totals::from(origin.clone()), expected);
    // Sum of times by sum of weights.
    assert_eq!((origin.avg_rt, origin.min_rt), (ms(15), Some(ms(30))));
    assert_eq!(totals(&orders).pass, 3);
    // Calls of the default context are not counted apart unless asked for.
    assert_eq!(engine.context_node("orders", ""), None);
}

#[test]
fn calls_of_the_default_context_are_counted_apart_on_request() {
    let (engine, _time) = common::built(Engine::builder().default_context_statistics(true));
    engine.entry("orders").unwrap().exit();
    let node = engine.context_node("orders", flowgate::CONTEXT_DEFAULT);
    assert_eq!(Totals::from(node.unwrap()), SUCCEEDED);
    // So are they when a rule looks at that context.
    let (engine, _time) = flow(
        r#"[{"resource": "orders", "count": 1, "strategy": 2,
             "refResource": "sentinel_default_context"}]"#,
    );
    engine.entry("orders").unwrap().exit();
    assert!(engine.entry("orders").is_err());
    assert!(engine.request("orders").context("other").entry().is_ok());
}

#[test]
fn the_engine_tells_its_own_figures() {
    let (engine, _time) = flow("[]");
    assert_eq!(engine.stats().generation, 2);
    assert_eq!(engine.stats().resources, 0);
    engine.entry("a").unwrap().exit();
    engine.entry("").unwrap().exit();
    engine.load_json("flow", "nonsense").unwrap_err();
    engine.load_document("{}").unwrap();
    let stats = engine.stats();
    assert_eq!((stats.resources, stats.generation), (2, 3));
    assert_eq!(engine.resources(), ["", "a"]);
}

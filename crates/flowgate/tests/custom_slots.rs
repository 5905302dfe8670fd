//! Slots of the service's own: where they stand, what they hear, and what
//! becomes of those that fail.

mod common;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Totals, built, ms, totals};
use flowgate::{
    Block, BlockKind, BuiltIn, Call, Departure, Engine, EngineBuilder, Outcome, Position, RuleId,
    Slot, SlotError, Verdict,
};

type Log = Arc<Mutex<Vec<String>>>;

/// What a test slot does when it is asked.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Pass,
    Wait,
    Refuse,
    Fail,
    Panic,
    PanicWhenTold,
}

struct Told {
    name: &'static str,
    does: Does,
    log: Log,
}

impl Told {
    fn note(&self, what: &str) {
        let mut log = self.log.lock().unwrap_or_else(|e| e.into_inner());
        log.push(format!("{} {what}", self.name));
    }
}

fn block_of(name: &'static str) -> Block {
    Block::new(BlockKind::Custom(name), RuleId::new(name), 0.0, 1.0)
}

impl Slot for Told {
    fn name(&self) -> &'static str {
        self.name
    }

    fn check(&self, call: &mut Call<'_>) -> Result<Verdict, SlotError> {
        self.note("check");
        match self.does {
            Does::Pass | Does::PanicWhenTold => Ok(Verdict::Pass),
            Does::Wait => {
                call.leave_ticket(7, [1, 2, 3]);
                Ok(Verdict::Wait(ms(250)))
            }
            Does::Refuse => Ok(Verdict::Block(block_of(self.name))),
            Does::Fail => Err(SlotError::new("no answer")),
            Does::Panic => std::panic::resume_unwind(Box::new("boom")),
        }
    }

    fn undo(&self, call: &Call<'_>) {
        self.note(&format!("undo {}", call.tickets().count()));
    }

    fn passed(&self, _: &mut Call<'_>) {
        self.note("passed");
        if self.does == Does::PanicWhenTold {
            std::panic::resume_unwind(Box::new("boom".to_owned()));
        }
    }

    fn blocked(&self, _: &Call<'_>, block: &Block) {
        self.note(&format!("blocked by {}", block.rule()));
    }

    fn exited(&self, departure: &Departure<'_>) {
        self.note(&format!(
            "exited {:?} {:?}",
            departure.outcome,
            departure.took()
        ));
    }
}

fn with(
    builder: EngineBuilder,
    log: &Log,
    at: Position,
    name: &'static str,
    does: Does,
) -> EngineBuilder {
    let log = Arc::clone(log);
    builder.slot(at, Told { name, does, log })
}

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap_or_else(|e| e.into_inner()))
}

#[test]
fn slots_stand_where_they_were_put_and_hear_the_outcome_leaving_in_reverse() {
    let log = Log::default();
    let places = [
        ("last", Position::Last),
        ("after breaker", Position::After(BuiltIn::Degrade)),
        ("before breaker", Position::Before(BuiltIn::Degrade)),
        ("after flow", Position::After(BuiltIn::Flow)),
        ("before flow", Position::Before(BuiltIn::Flow)),
        ("first", Position::First),
        ("first too", Position::First),
    ];
    let builder = places
        .iter()
        .fold(Engine::builder(), |builder, (name, at)| {
            with(builder, &log, *at, name, Does::Pass)
        });
    let (engine, time) = built(builder);
    let order = [
        "first",
        "first too",
        "before flow",
        "after flow",
        "before breaker",
        "after breaker",
        "last",
    ];
    let all = |what: &str| order.map(|name| format!("{name} {what}"));
    let entry = engine.entry("orders").unwrap();
    assert_eq!(taken(&log), [all("check"), all("passed")].concat());
    time.advance(ms(3));
    entry.exit_with(Outcome::Error);
    let mut left = all("exited Error 3ms");
    left.reverse();
    assert_eq!(taken(&log), left);
}

#[test]
fn a_refusal_undoes_the_slots_before_it_in_reverse_and_all_slots_hear_of_it() {
    let log = Log::default();
    let mut builder = with(
        Engine::builder(),
        &log,
        Position::First,
        "waits",
        Does::Wait,
    );
    builder = with(builder, &log, Position::First, "passes", Does::Pass);
    builder = with(builder, &log, Position::First, "refuses", Does::Refuse);
    builder = with(builder, &log, Position::Last, "never asked", Does::Pass);
    let (engine, _time) = built(builder);
    let orders = engine.resource("orders");
    assert_eq!(orders.entry().unwrap_err(), block_of("refuses"));
    // The one that refused reserved nothing, so it has nothing to give back.
    let expected = [
        "waits check",
        "passes check",
        "refuses check",
        "passes undo 0",
        "waits undo 1",
        "waits blocked by refuses",
        "passes blocked by refuses",
        "refuses blocked by refuses",
        "never asked blocked by refuses",
    ];
    assert_eq!(taken(&log), expected);
    assert_eq!(
        totals(&orders),
        Totals {
            block: 1,
            ..Totals::default()
        }
    );
}

#[test]
fn a_slot_that_asks_to_wait_is_waited_for_given_up_or_refused_like_a_rule() {
    let log = Log::default();
    let (engine, time) = built(with(
        Engine::builder(),
        &log,
        Position::First,
        "waits",
        Does::Wait,
    ));
    let orders = engine.resource("orders");
    orders.entry().unwrap().exit();
    assert_eq!(time.now(), common::START + ms(250));
    let waited = ["waits check", "waits passed", "waits exited Success 250ms"];
    assert_eq!(taken(&log), waited);

    drop(orders.reserve().unwrap());
    assert_eq!(taken(&log), ["waits check", "waits passed", "waits undo 1"]);

    let refused = orders.try_entry().unwrap_err();
    let expected = Block::new(BlockKind::Custom("waits"), RuleId::new("waits"), 0.0, 250.0)
        .measured_in(flowgate::Measure::WaitMs)
        .retry_after_at(Some(ms(250)));
    assert_eq!(refused, expected);
    let undone = ["waits check", "waits undo 1", "waits blocked by waits"];
    assert_eq!(taken(&log), undone);
    let expected = Totals {
        pass: 1,
        block: 1,
        success: 1,
        cancelled: 1,
        ..Totals::default()
    };
    assert_eq!(totals(&orders), expected);
}

// https://github.com/alibaba/Sentinel/issues/2605
#[test]
fn b096_a_slot_that_fails_or_panics_is_counted_and_does_not_unbalance_the_counters() {
    for (does, message) in [(Does::Fail, "no answer"), (Does::Panic, "panicked: boom")] {
        let log = Log::default();
        let faults = Arc::new(Mutex::new(Vec::new()));
        let hook = {
            let faults = Arc::clone(&faults);
            move |slot: &'static str, fault: &SlotError| {
                faults.lock().unwrap().push((slot, fault.to_string()));
                // Not even a hook that panics does harm.
                std::panic::resume_unwind(Box::new(()));
            }
        };
        let builder = with(Engine::builder(), &log, Position::First, "faulty", does);
        let builder = with(builder, &log, Position::Last, "sound", Does::Pass);
        let (engine, _time) = built(builder.on_slot_fault(hook));
        let orders = engine.resource("orders");
        for _ in 0..100 {
            orders.entry().unwrap().exit();
        }
        assert_eq!(engine.stats().slot_faults, 100);
        assert_eq!(
            *faults.lock().unwrap(),
            vec![("faulty", message.to_owned()); 100]
        );
        let expected = Totals {
            pass: 100,
            success: 100,
            ..Totals::default()
        };
        assert_eq!(totals(&orders), expected);
        // It is not heard again on a call that it failed on.
        let once = [
            "faulty check",
            "sound check",
            "sound passed",
            "sound exited Success 0ns",
        ];
        assert_eq!(taken(&log), [once; 100].concat());
    }
}

#[test]
fn a_slot_that_panics_when_told_of_a_pass_does_not_hear_of_the_exit() {
    let log = Log::default();
    let builder = with(
        Engine::builder(),
        &log,
        Position::Last,
        "faulty",
        Does::PanicWhenTold,
    );
    let (engine, _time) = built(builder);
    engine.entry("orders").unwrap().exit();
    assert_eq!(taken(&log), ["faulty check", "faulty passed"]);
    assert_eq!(engine.stats().slot_faults, 1);
    assert_eq!(engine.node("orders").unwrap().in_flight, 0);
}

#[test]
fn a_faulty_slot_is_not_asked_to_undo_what_it_never_reserved() {
    let log = Log::default();
    let builder = with(
        Engine::builder(),
        &log,
        Position::First,
        "faulty",
        Does::Panic,
    );
    let builder = with(builder, &log, Position::Last, "refuses", Does::Refuse);
    let (engine, _time) = built(builder);
    engine.entry("orders").unwrap_err();
    let expected = [
        "faulty check",
        "refuses check",
        "refuses blocked by refuses",
    ];
    assert_eq!(taken(&log), expected);
}

/// Counts what it holds: up when it lets a call in, down when it is undone or
/// has ended.
struct Permits {
    held: Arc<AtomicI64>,
    most: i64,
}

impl Slot for Permits {
    fn name(&self) -> &'static str {
        "permits"
    }

    fn check(&self, _: &mut Call<'_>) -> Result<Verdict, SlotError> {
        if self.held.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.held.fetch_sub(1, Ordering::Relaxed);
            return Ok(Verdict::Block(block_of("permits")));
        }
        Ok(Verdict::Pass)
    }

    fn undo(&self, _: &Call<'_>) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    fn exited(&self, _: &Departure<'_>) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn a_slot_of_permits_is_balanced_whoever_refuses() {
    let held = Arc::new(AtomicI64::new(0));
    let permits = Permits {
        held: Arc::clone(&held),
        most: 2,
    };
    let (engine, _time) = built(Engine::builder().slot(Position::First, permits));
    engine
        .load_json("flow", r#"[{"resource": "orders", "count": 3}]"#)
        .unwrap();
    let orders = engine.resource("orders");
    let in_use = || held.load(Ordering::Relaxed);
    let guards = [orders.entry().unwrap(), orders.entry().unwrap()];
    // Refused by itself ...
    assert_eq!(orders.entry().unwrap_err(), block_of("permits"));
    assert_eq!(in_use(), 2);
    drop(guards);
    assert_eq!(in_use(), 0);
    // ... and, once the rule is full, by the flow slot after it.
    orders.entry().unwrap().exit();
    assert_eq!(orders.entry().unwrap_err().kind(), BlockKind::Flow);
    assert_eq!(in_use(), 0);
    drop(orders.reserve());
    assert_eq!(in_use(), 0);
}

#[test]
fn a_wait_of_a_slot_and_a_wait_of_a_rule_are_one_wait() {
    let log = Log::default();
    let builder = with(
        Engine::builder(),
        &log,
        Position::First,
        "waits",
        Does::Wait,
    );
    let (engine, _time) = built(builder);
    let rule = r#"[{"resource": "mail", "count": 10, "controlBehavior": 2}]"#;
    engine.load_json("flow", rule).unwrap();
    let mail = engine.resource("mail");
    let waits: Vec<Duration> = (0..5)
        .map(|_| {
            let pending = mail.reserve().unwrap();
            let wait = pending.wait();
            pending.begin().exit();
            wait
        })
        .collect();
    assert_eq!(waits, [ms(250), ms(250), ms(250), ms(300), ms(400)]);
}

#[test]
fn a_slot_that_cannot_even_say_its_name_does_no_harm() {
    struct Nameless;
    impl Slot for Nameless {
        fn name(&self) -> &'static str {
            panic!("no name")
        }
        fn check(&self, _: &mut Call<'_>) -> Result<Verdict, SlotError> {
            Err(SlotError::new("no check"))
        }
    }
    let builder = Engine::builder().slot(Position::First, Nameless);
    let (engine, _time) = built(builder);
    engine.entry("orders").unwrap().exit();
    assert_eq!(engine.node("orders").unwrap().in_flight, 0);
    assert!(engine.stats().slot_faults > 0);
}

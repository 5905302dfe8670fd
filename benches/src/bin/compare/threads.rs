//! Two pinned threads on one hot resource, against one of them alone.
//!
//! The value is what two get done in a second by what one gets done. Rounds of
//! both are run in turn, by the same two threads: the second one sleeps while the
//! first is alone. A round of two counts only if neither waited for a processor.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use flowgate::Resource;

use crate::contest::{Budget, Medians, Round, calls_per_round, hardly_waited, in_turn};
use crate::entries::{call, passing};
use crate::line::Figures;
use crate::machine;

const ONE_RULE: &str = r#"{"flow": [{"resource": "orders", "count": 1e9}]}"#;
const REFUSING: &str = r#"{"flow": [{"resource": "orders", "count": 0}]}"#;
/// Longer than rounds of one thread: two need a moment to come together.
const ROUND: u64 = 5;

/// When a thread began and ended, and how long it waited for a processor.
#[derive(Clone, Copy, Debug)]
struct Shift {
    start: Instant,
    end: Instant,
    waited_ns: u64,
}

impl Shift {
    /// Gets `ready`, then works. Waiting for a processor counts from before it is
    /// ready: a thread that is ready and then has to wait keeps the other one
    /// working alone.
    fn of(ready: impl FnOnce(), work: impl FnOnce()) -> Self {
        let waited = machine::waited_ns();
        ready();
        let start = Instant::now();
        work();
        let end = Instant::now();
        Shift {
            start,
            end,
            waited_ns: machine::waited_ns() - waited,
        }
    }

    fn undisturbed(self) -> bool {
        hardly_waited(self.waited_ns, self.end - self.start)
    }
}

/// Two threads that work side by side whenever they are told to.
pub(crate) struct Crew<'a> {
    gate: &'a Barrier,
    here: &'a AtomicU64,
    calls: &'a AtomicU64,
    second: &'a Mutex<Option<Shift>>,
    work: &'a (dyn Fn(u64) + Sync),
}

impl Crew<'_> {
    /// One thread makes so many calls.
    pub(crate) fn one(&self, calls: u64) -> Round {
        let shift = Shift::of(|| (), || (self.work)(calls));
        Round {
            ns: (shift.end - shift.start).as_nanos() as f64 / calls as f64,
            undisturbed: shift.undisturbed(),
        }
    }

    /// Each thread makes so many calls. From the first one's start to the last
    /// one's end, by all calls.
    pub(crate) fn two(&self, calls: u64) -> Round {
        self.calls.store(calls, Ordering::Relaxed);
        self.here.store(0, Ordering::Relaxed);
        self.gate.wait();
        let first = self.shift(calls);
        self.gate.wait();
        let second = self.second.lock().ok().and_then(|shift| *shift);
        let second = second.unwrap_or(first);
        let took = first.end.max(second.end) - first.start.min(second.start);
        Round {
            ns: took.as_nanos() as f64 / (2 * calls) as f64,
            undisturbed: first.undisturbed() && second.undisturbed(),
        }
    }

    fn shift(&self, calls: u64) -> Shift {
        // Awake on its processor before either begins.
        let together = || {
            self.here.fetch_add(1, Ordering::Relaxed);
            while self.here.load(Ordering::Relaxed) < 2 {
                std::hint::spin_loop();
            }
        };
        Shift::of(together, || (self.work)(calls))
    }

    /// What the second thread does until there is nothing more to do.
    fn follow(&self, done: &AtomicBool) {
        let _pinned = machine::pin(1);
        loop {
            self.gate.wait();
            if done.load(Ordering::Relaxed) {
                return;
            }
            let shift = self.shift(self.calls.load(Ordering::Relaxed));
            if let Ok(mut second) = self.second.lock() {
                *second = Some(shift);
            }
            self.gate.wait();
        }
    }
}

/// Gives `lead` a crew of two threads that do `work`: so many calls.
pub(crate) fn with_crew<R>(work: &(dyn Fn(u64) + Sync), lead: impl FnOnce(&Crew<'_>) -> R) -> R {
    let (gate, done) = (Barrier::new(2), AtomicBool::new(false));
    let (here, calls) = (AtomicU64::new(0), AtomicU64::new(0));
    let second = Mutex::new(None);
    let crew = Crew {
        gate: &gate,
        here: &here,
        calls: &calls,
        second: &second,
        work,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let crew = Crew { ..crew };
            crew.follow(&done);
        });
        let _pinned = machine::pin(0);
        let result = lead(&crew);
        done.store(true, Ordering::Relaxed);
        gate.wait();
        result
    })
}

fn two_by_one(budget: Budget, work: &(dyn Fn(u64) + Sync)) -> Medians {
    let calls = ROUND * calls_per_round(&mut repeat_work(work)) / 2;
    with_crew(work, |crew| {
        // The threads meet for the first time, and share out what they share.
        for _ in 0..10 {
            crew.two(calls);
        }
        in_turn(budget, &mut |side| match side {
            0 => crew.two(calls),
            _ => crew.one(calls),
        })
    })
}

fn repeat_work(work: &(dyn Fn(u64) + Sync)) -> impl FnMut(u64) -> Duration {
    move |calls| {
        let start = Instant::now();
        work(calls);
        start.elapsed()
    }
}

fn calls_of(orders: &Resource) -> impl Fn(u64) + Sync + '_ {
    move |calls| (0..calls).for_each(|_| call(orders))
}

/// Two threads that do `work`, so many calls each, against one.
pub(crate) fn hot(budget: Budget, work: &(dyn Fn(u64) + Sync)) -> Result<Figures> {
    ensure!(machine::processors() >= 2, "this needs two processors");
    let medians = two_by_one(budget, work);
    Ok(Figures::against("one thread", medians))
}

pub(crate) fn no_rule(budget: Budget) -> Result<Figures> {
    let (_engine, orders) = passing("{}")?;
    hot(budget, &calls_of(&orders))
}

pub(crate) fn one_rule(budget: Budget) -> Result<Figures> {
    let (_engine, orders) = passing(ONE_RULE)?;
    hot(budget, &calls_of(&orders))
}

pub(crate) fn refused(budget: Budget) -> Result<Figures> {
    let engine = flowgate_bench::engine(REFUSING)?;
    let orders = engine.resource("orders");
    ensure!(orders.try_entry().is_err(), "a call is refused");
    hot(budget, &calls_of(&orders))
}

//! What the schedules have in common: how they are run, and an engine with a
//! ledger of what its callers saw.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flowgate::{
    Block, Clock, Engine, EngineBuilder, Entry, ManualClock, NodeSnapshot, Outcome, Pending,
    Timestamp,
};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::thread;
use shuttle::{Config, Runner};

const START: Timestamp = Timestamp::from_millis(1_000_000);
/// Switches at just the right place that a PCT schedule has, less one.
const DEPTH: usize = 3;

/// Runs `schedule` as often as it was asked for, by default `times`.
pub(crate) fn explore(times: usize, schedule: fn()) {
    if let Ok(text) = std::env::var("REPLAY") {
        return run(ReplayScheduler::new_from_encoded(text.trim()), schedule);
    }
    let asked = std::env::var("SCHEDULES").ok();
    let times = asked.map_or(times, |times| times.parse().expect("a number"));
    run(RandomScheduler::new(times.div_ceil(2)), schedule);
    run(PctScheduler::new(DEPTH, times / 2), schedule);
}

fn run(scheduler: impl Scheduler + 'static, schedule: fn()) {
    let mut config = Config::new();
    config.silence_warnings = true;
    // Documents are read on the stack of a task.
    config.stack_size = 1 << 19;
    Runner::new(scheduler, config).run(schedule);
}

/// A number drawn from `range`, as a part of the schedule.
pub(crate) fn draw(range: Range<u64>) -> u64 {
    thread_rng().gen_range(range)
}

/// One of `choices`.
pub(crate) fn one_of<T: Copy>(choices: &[T]) -> T {
    choices[draw(0..choices.len() as u64) as usize]
}

/// Runs all of `tasks` at once, to their ends.
pub(crate) fn at_once(tasks: Vec<Box<dyn FnOnce() + Send>>) {
    let tasks: Vec<_> = tasks.into_iter().map(thread::spawn).collect();
    for task in tasks {
        task.join().expect("a task has failed");
    }
}

/// An engine, its clock, and what its callers saw. Writing it down is no step of
/// the schedule.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) time: ManualClock,
    pub(crate) saw: Saw,
    moment: AtomicU64,
    admitted: Mutex<Vec<Admitted>>,
}

/// Sums of weights, as callers saw them.
#[derive(Default)]
pub(crate) struct Saw {
    pub(crate) passed: AtomicU64,
    pub(crate) blocked: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
}

/// A call that went ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    /// When it is charged.
    pub(crate) charged: Timestamp,
    pub(crate) weight: u64,
    /// Numbered moments before it asked and after it was admitted.
    pub(crate) asked: u64,
    pub(crate) got: u64,
    /// The clock when it asked.
    pub(crate) came: Timestamp,
}

/// A call as it asks: the moment, and the time.
#[derive(Clone, Copy)]
struct Asked(u64, Timestamp);

impl World {
    pub(crate) fn new(document: &str) -> Arc<Self> {
        World::built(Engine::builder(), document)
    }

    pub(crate) fn built(builder: EngineBuilder, document: &str) -> Arc<Self> {
        let time = ManualClock::at(START);
        let clock = Clock::manual(time.clone());
        let engine = builder.clock(clock).jitter_seed(1).build();
        engine
            .load_document(document)
            .expect("the document is fine");
        Arc::new(World {
            engine,
            time,
            saw: Saw::default(),
            moment: AtomicU64::new(0),
            admitted: Mutex::default(),
        })
    }

    /// The number of this moment: later ones have greater numbers.
    pub(crate) fn moment(&self) -> u64 {
        self.moment.fetch_add(1, SeqCst)
    }

    /// Asks, and writes the answer down. What `ask` gives back has to go ahead.
    pub(crate) fn enter(
        &self,
        weight: u32,
        ask: impl FnOnce() -> Result<Entry<'static>, Block>,
    ) -> Option<Entry<'static>> {
        let asked = self.asks();
        let answer = ask();
        self.answered(weight, asked, self.moment(), answer)
    }

    /// The same with a wait as a value: it goes ahead, or is given up.
    pub(crate) fn reserve(
        &self,
        weight: u32,
        gives_up: bool,
        ask: impl FnOnce() -> Result<Pending<'static>, Block>,
    ) -> Option<Entry<'static>> {
        let asked = self.asks();
        let answer = ask();
        let got = self.moment();
        match answer {
            Ok(pending) if gives_up => {
                if draw(0..2) == 0 {
                    thread::yield_now();
                }
                pending.cancel();
                self.saw.cancelled.fetch_add(weight.into(), SeqCst);
                None
            }
            answer => self.answered(weight, asked, got, answer.map(Pending::begin)),
        }
    }

    fn asks(&self) -> Asked {
        Asked(self.moment(), self.time.now())
    }

    fn answered(
        &self,
        weight: u32,
        Asked(asked, came): Asked,
        got: u64,
        answer: Result<Entry<'static>, Block>,
    ) -> Option<Entry<'static>> {
        let weight = u64::from(weight);
        let Ok(entry) = answer else {
            self.saw.blocked.fetch_add(weight, SeqCst);
            return None;
        };
        self.saw.passed.fetch_add(weight, SeqCst);
        let charged = entry.entered().unwrap_or(START) + entry.waited();
        let call = Admitted {
            charged,
            weight,
            asked,
            got,
            came,
        };
        self.admitted
            .lock()
            .expect("no task fails in it")
            .push(call);
        Some(entry)
    }

    /// A call ends.
    pub(crate) fn exit(&self, entry: Entry<'static>, weight: u32, outcome: Outcome) {
        let weight = u64::from(weight);
        match outcome {
            Outcome::Cancelled => self.saw.cancelled.fetch_add(weight, SeqCst),
            _ => self.saw.ended.fetch_add(weight, SeqCst),
        };
        if outcome == Outcome::Error {
            self.saw.failed.fetch_add(weight, SeqCst);
        }
        entry.exit_with(outcome);
    }

    /// Moves the clock.
    pub(crate) fn advance(&self, millis: u64) {
        self.time.advance(Duration::from_millis(millis));
    }

    /// A task that moves the clock a few times, by milliseconds of `range`.
    pub(crate) fn timer(self: &Arc<Self>, range: Range<u64>) -> Box<dyn FnOnce() + Send> {
        let world = Arc::clone(self);
        Box::new(move || (0..draw(0..4)).for_each(|_| world.advance(draw(range.clone()))))
    }

    /// The calls that went ahead so far.
    pub(crate) fn admitted(&self) -> Vec<Admitted> {
        self.admitted.lock().expect("no task fails in it").clone()
    }

    /// Nothing is held of `resource`.
    pub(crate) fn nothing_is_held(&self, resource: &str) {
        let node = self.engine.node(resource).unwrap_or_default();
        let held = (node.in_flight, node.permits, node.queued);
        assert_eq!(held, (0, 0, 0), "of {resource}");
        for breaker in self.engine.breakers(resource) {
            let figures = breaker.figures();
            assert_eq!(figures.probes_out, 0, "of {}", breaker.rule_id());
        }
    }

    /// The statistics of these resources together are what callers saw.
    pub(crate) fn statistics_agree(&self, resources: &[&str]) {
        let nodes: Vec<_> = resources
            .iter()
            .filter_map(|resource| self.engine.node(resource))
            .collect();
        let sum = |of: fn(&NodeSnapshot) -> u64| nodes.iter().map(of).sum::<u64>();
        let counted = [
            sum(|node| node.total_pass),
            sum(|node| node.total_block),
            sum(|node| node.total_success),
            sum(|node| node.total_exception),
            sum(|node| node.total_cancelled),
        ];
        let Saw {
            passed,
            blocked,
            ended,
            failed,
            cancelled,
        } = &self.saw;
        let seen = [passed, blocked, ended, failed, cancelled].map(|sum| sum.load(SeqCst));
        assert_eq!(counted, seen, "passed, blocked, ended, failed, cancelled");
    }
}

/// How a call may end.
pub(crate) const OUTCOMES: [Outcome; 4] = [
    Outcome::Success,
    Outcome::Error,
    Outcome::Ignored,
    Outcome::Cancelled,
];

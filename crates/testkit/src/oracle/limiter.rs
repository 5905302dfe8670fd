//! What the oracle drives: one face for engines, for limiters on their own, and
//! for those that are broken on purpose.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flowgate::{
    Arg, Block, BlockKind, Clock, Engine, EngineBuilder, Entry, ManualClock, NodeSnapshot, Outcome,
    Pending, Position, Resource, SlidingWindowLimiter, Slot, SlotError, Timestamp,
    TokenBucketLimiter, Verdict,
};
use serde_json::{Map, Value};

use super::case::{BASE_NS, Call, Form, How, Limit, RESOURCE, Setup};

/// Something that admits calls or refuses them, on a clock that is set.
pub(crate) trait Limiter: Sync {
    /// Sets the clock; a time behind the newest makes it stand still.
    fn set_time(&self, ns: u64);

    /// Moves the clock forward.
    fn advance(&self, ns: u64);

    /// The time now.
    fn now(&self) -> u64;

    /// A call of one thread asks to enter.
    fn enter(&self, thread: usize, call: &Call) -> Result<In<'_>, Refused>;

    /// Puts another set of limits in force.
    fn load(&self, set: usize) {
        let _ = set;
    }

    /// The figures of the node; `None` where nothing is counted.
    fn figures(&self) -> Option<NodeSnapshot> {
        None
    }
}

/// A call that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The kind of rule that refused it, if it was a rule.
    pub(crate) by: Option<&'static str>,
}

/// A call that was admitted.
pub(crate) struct In<'a> {
    /// When it arrived, as it is charged.
    pub(crate) charged_ns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) held: Held<'a>,
}

/// What an admitted call holds.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for each call that is driven"
)]
pub(crate) enum Held<'a> {
    Waiting(Pending<'a>),
    Running(Entry<'a>),
    /// Of a limiter on its own nothing is held.
    Nothing,
}

impl<'a> Held<'a> {
    /// The wait is over.
    pub(crate) fn begin(self) -> Held<'a> {
        match self {
            Held::Waiting(pending) => Held::Running(pending.begin()),
            other => other,
        }
    }

    /// The call ends, or is given up if it waits.
    pub(crate) fn end(self, how: How) {
        match self {
            Held::Waiting(pending) => pending.cancel(),
            Held::Running(entry) => entry.exit_with(match how {
                How::Success => Outcome::Success,
                How::Error => Outcome::Error,
                How::Cancelled => Outcome::Cancelled,
            }),
            Held::Nothing => {}
        }
    }
}

/// The limiter that a setup describes.
pub(crate) fn honest(setup: &Setup) -> Box<dyn Limiter> {
    match setup.form {
        Form::Rules => Box::new(Rules::new(setup, Engine::builder())),
        Form::Alone => Box::new(Alone::new(setup, false)),
    }
}

/// The same, but threads are put to sleep between their reading of the clock
/// and the first rule, now and then.
pub(crate) fn sleepy(setup: &Setup) -> Box<dyn Limiter> {
    match setup.form {
        Form::Rules => {
            let builder = Engine::builder().slot(Position::First, Sleepy(AtomicU64::new(0)));
            Box::new(Rules::new(setup, builder))
        }
        Form::Alone => Box::new(Alone::new(setup, true)),
    }
}

/// How many calls go by until one is put to sleep.
const SLEEPS_ONCE_IN: u32 = 61;

/// A slot that has read no clock, refuses nobody, and lets other threads run.
struct Sleepy(AtomicU64);

impl Slot for Sleepy {
    fn name(&self) -> &'static str {
        "sleepy"
    }

    fn check(&self, _: &mut flowgate::Call<'_>) -> Result<Verdict, SlotError> {
        let turn = self.0.fetch_add(1, Ordering::Relaxed);
        if turn.is_multiple_of(SLEEPS_ONCE_IN.into()) {
            std::thread::yield_now();
        }
        Ok(Verdict::Pass)
    }

    fn hears_exits(&self) -> bool {
        false
    }
}

/// Rules of an engine, for one resource.
struct Rules {
    engine: Engine,
    resource: Resource,
    clock: ManualClock,
    documents: Vec<String>,
    has_keys: bool,
}

impl Rules {
    fn new(setup: &Setup, builder: EngineBuilder) -> Self {
        let clock = ManualClock::at(Timestamp::from_nanos(BASE_NS));
        let engine = builder
            .clock(Clock::manual(clock.clone()))
            .second_view(setup.view_boxes, Duration::from_millis(setup.view_ms))
            .borrow_wait_max(Duration::from_millis(setup.borrow_wait_ms))
            .build();
        let rules = Rules {
            resource: engine.resource(RESOURCE),
            engine,
            clock,
            documents: (0..setup.sets.len())
                .map(|set| document(setup.document(set)))
                .collect(),
            has_keys: setup.has_keys(),
        };
        rules.load(0);
        rules
    }

    fn ask(&self, call: &Call, args: &[Arg<'_>]) -> Result<In<'_>, Block> {
        let mut request = self.resource.request().weight(call.weight).args(args);
        if call.prioritized {
            request = request.prioritized();
        }
        if call.may_wait {
            let pending = request.reserve()?;
            let wait_ns = pending.wait().as_nanos() as u64;
            if wait_ns > 0 {
                // A call that waits has its reading of the clock for itself.
                let charged_ns = self.clock.now().as_nanos();
                let held = Held::Waiting(pending);
                return Ok(In {
                    charged_ns,
                    wait_ns,
                    held,
                });
            }
            return Ok(entered(pending.begin()));
        }
        request.try_entry().map(entered)
    }
}

fn entered(entry: Entry<'_>) -> In<'_> {
    In {
        charged_ns: entry.entered().map_or(0, Timestamp::as_nanos),
        wait_ns: entry.waited().as_nanos() as u64,
        held: Held::Running(entry),
    }
}

/// A document as the engine reads it: its kinds have the engine's names.
fn document(mut kinds: Map<String, Value>) -> String {
    if let Some(list) = kinds.remove("param_flow") {
        kinds.insert("paramFlow".to_owned(), list);
    }
    Value::Object(kinds).to_string()
}

impl Limiter for Rules {
    fn set_time(&self, ns: u64) {
        self.clock.set(Timestamp::from_nanos(ns));
    }

    fn advance(&self, ns: u64) {
        self.clock.advance(Duration::from_nanos(ns));
    }

    fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    fn enter(&self, _thread: usize, call: &Call) -> Result<In<'_>, Refused> {
        let by_key = [Arg::from(i64::from(call.key))];
        let args = if self.has_keys { &by_key[..] } else { &[] };
        self.ask(call, args).map_err(|block| Refused {
            by: Some(match block.kind() {
                BlockKind::ParamFlow => "param_flow",
                kind => kind.name(),
            }),
        })
    }

    fn load(&self, set: usize) {
        let loaded = self.engine.load_document(&self.documents[set]);
        if let Err(error) = loaded {
            panic!("the oracle's own rules are refused: {error}");
        }
    }

    fn figures(&self) -> Option<NodeSnapshot> {
        Some(self.resource.node())
    }
}

/// A limiter on its own.
struct Alone {
    limiter: Lone,
    /// Whether threads are put to sleep between their reading and their call.
    sleepy: bool,
    now: AtomicU64,
}

enum Lone {
    Window(Box<SlidingWindowLimiter>),
    Bucket(Box<TokenBucketLimiter>),
}

impl Alone {
    fn new(setup: &Setup, sleepy: bool) -> Self {
        let ms = Duration::from_millis;
        let limiter = match setup.sets[0][0] {
            Limit::Interval {
                milli,
                interval_ms,
                boxes,
                strict,
            } => {
                let make = match strict {
                    true => SlidingWindowLimiter::strict,
                    false => SlidingWindowLimiter::new,
                };
                let made = make(ms(interval_ms), boxes, milli / 1000);
                let made = made.expect("the oracle's boxes divide their interval");
                Lone::Window(Box::new(made))
            }
            Limit::Bucket {
                milli,
                interval_ms,
                burst,
                ..
            } => {
                let made = TokenBucketLimiter::new(milli as f64 / 1e3, ms(interval_ms), burst);
                Lone::Bucket(Box::new(made.expect("the oracle's buckets fit a word")))
            }
            ref other => panic!("no limiter on its own has {other:?}"),
        };
        Alone {
            limiter,
            sleepy,
            now: BASE_NS.into(),
        }
    }
}

impl Limiter for Alone {
    /// It is handed what the clock reads, also when that goes back.
    fn set_time(&self, ns: u64) {
        self.now.store(ns, Ordering::Relaxed);
    }

    fn advance(&self, ns: u64) {
        self.now.fetch_add(ns, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn enter(&self, _thread: usize, call: &Call) -> Result<In<'_>, Refused> {
        let ns = self.now();
        if self.sleepy && call.id.is_multiple_of(SLEEPS_ONCE_IN) {
            // Others may move the clock on meanwhile.
            std::thread::yield_now();
        }
        let at = Timestamp::from_nanos(ns);
        let admitted = match &self.limiter {
            Lone::Window(window) => window.acquire_at(at, call.weight).is_ok(),
            Lone::Bucket(bucket) => bucket.acquire_at(at, call.weight).is_ok(),
        };
        match admitted {
            true => Ok(In {
                charged_ns: ns,
                wait_ns: 0,
                held: Held::Nothing,
            }),
            false => Err(Refused { by: None }),
        }
    }
}

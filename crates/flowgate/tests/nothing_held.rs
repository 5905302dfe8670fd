//! Any calls under any rules end with nothing in flight and nothing held: rule
//! sets that are made at random, of every kind, swapped under way; calls that
//! enter, wait, stand in line, are polled, given up, fail or panic.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

mod common;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use common::{built, ms};
use flowgate::{
    Arg, Block, Engine, Entry, ManualClock, OnInvalid, Outcome, Pending, Request, Traffic,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const RESOURCES: [&str; 2] = ["a", "b"];
const ORIGINS: [&str; 3] = ["", "x", "y"];
static ARGS: [[Arg<'static>; 1]; 4] = [
    [Arg::Int(1)],
    [Arg::Int(2)],
    [Arg::Str("three")],
    [Arg::Null],
];

/// What a rule may say; `N` stands for a small number.
const KINDS: [(&str, &[&str]); 6] = [
    (
        "authority",
        &[
            r#""limitApp": "x""#,
            r#""limitApp": "y", "strategy": 1"#,
            r#""limitApp": "x, y", "mode": "observe""#,
        ],
    ),
    (
        "system",
        &[r#""maxThread": N"#, r#""qps": N"#, r#""avgRt": N"#],
    ),
    (
        "paramFlow",
        &[
            r#""paramIdx": 0, "count": N, "grade": 0"#,
            r#""paramIdx": 0, "count": N, "burstCount": 1"#,
            r#""paramIdx": -1, "count": N, "controlBehavior": 2, "maxQueueingTimeMs": 900"#,
            r#""paramIdx": 0, "count": N, "grade": 0, "maxValues": 1"#,
        ],
    ),
    (
        "flow",
        &[
            r#""count": N"#,
            r#""count": N, "grade": 0"#,
            r#""count": N, "limitApp": "other""#,
            r#""count": N, "strategy": 1, "refResource": "b""#,
            r#""count": N, "controlBehavior": 1, "warmUpPeriodSec": 2"#,
            r#""count": N, "controlBehavior": 2, "maxQueueingTimeMs": 900"#,
            r#""count": N, "controlBehavior": 3, "warmUpPeriodSec": 2, "maxQueueingTimeMs": 900"#,
            r#""count": N, "statIntervalMs": 3000"#,
            r#""count": N, "accounting": "strict""#,
            r#""count": N, "accounting": "tokenBucket", "burstCount": 3"#,
            r#""count": N, "accounting": "tokenBucket", "controlBehavior": 2,
               "maxQueueingTimeMs": 900"#,
        ],
    ),
    (
        "isolation",
        &[
            r#""count": N"#,
            r#""count": N, "maxQueueingTimeMs": 300"#,
            r#""count": N, "maxQueueingTimeMs": 900, "maxQueueLength": 2"#,
        ],
    ),
    (
        "degrade",
        &[
            r#""grade": 2, "count": N, "timeWindow": 1, "minRequestAmount": 1, "probeNum": 2"#,
            r#""grade": 1, "count": 0.4, "timeWindow": 1, "minRequestAmount": N"#,
            r#""grade": 0, "count": 100, "slowRatioThreshold": 0.5, "timeWindow": 1,
               "minRequestAmount": 1, "statWindowCalls": 4"#,
        ],
    ),
];

/// Limits on calls at once: each lets in just its number if nothing is held.
const EXACT: &str = r#"{
    "authority": [], "flow": [], "degrade": [],
    "system": [{"maxThread": 7}],
    "paramFlow": [{"resource": "a", "paramIdx": 0, "count": 2, "grade": 0}],
    "isolation": [{"resource": "a", "count": 3}, {"resource": "b", "count": 9}]}"#;

fn rules_of(
    (kind, says): (&'static str, &'static [&'static str]),
) -> impl Strategy<Value = String> {
    let whose = select(vec![
        r#""resource": "a""#,
        r#""resource": "b""#,
        r#""resource": "?", "match": "glob""#,
    ]);
    let mode = prop_oneof![4 => Just(""), 1 => Just(r#", "mode": "observe""#)];
    let rule = (whose, select(says), 0..6_u32, mode).prop_map(move |(whose, says, n, mode)| {
        let says = says.replace('N', &n.to_string());
        let mode = if says.contains("mode") { "" } else { mode };
        match kind {
            "system" => format!("{{{says}{mode}}}"),
            _ => format!("{{{whose}, {says}{mode}}}"),
        }
    });
    vec(rule, 0..3).prop_map(move |rules| format!(r#""{kind}": [{}]"#, rules.join(", ")))
}

/// A document of some kinds of rules; others stay as they are.
fn documents() -> impl Strategy<Value = String> {
    let kinds = KINDS.map(|kind| proptest::option::weighted(0.7, rules_of(kind)));
    Vec::from(kinds).prop_map(|kinds| {
        let kinds: Vec<_> = kinds.into_iter().flatten().collect();
        format!("{{{}}}", kinds.join(", "))
    })
}

#[derive(Clone, Debug)]
enum Step {
    Call(Ask, How),
    /// One that waits goes ahead, or is given up.
    Begin(usize),
    GiveUp(usize),
    /// A future is polled, or dropped.
    Poll(usize),
    Drop(usize),
    Leave(usize, End),
    Advance(u64),
    Load(String),
    Switch(bool),
}

#[derive(Clone, Copy, Debug)]
enum How {
    Entry,
    TryEntry,
    Reserve,
    Acquire,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Exit(Outcome),
    Drop,
    Panic,
}

#[derive(Clone, Copy, Debug)]
struct Ask {
    resource: usize,
    origin: usize,
    args: usize,
    weight: u32,
    inbound: bool,
    prioritized: bool,
}

fn asks() -> impl Strategy<Value = Ask> {
    let names = (0..RESOURCES.len(), 0..ORIGINS.len(), 0..ARGS.len());
    let how = (0..3_u32, any::<bool>(), proptest::bool::weighted(0.2));
    (names, how).prop_map(|(names, how)| Ask {
        resource: names.0,
        origin: names.1,
        args: names.2,
        weight: how.0,
        inbound: how.1,
        prioritized: how.2,
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let how = select(vec![How::Entry, How::TryEntry, How::Reserve, How::Acquire]);
    let end = select(vec![
        End::Exit(Outcome::Success),
        End::Exit(Outcome::Error),
        End::Exit(Outcome::Ignored),
        End::Exit(Outcome::Cancelled),
        End::Drop,
        End::Panic,
    ]);
    let which = any::<usize>;
    prop_oneof![
        10 => (asks(), how).prop_map(|(ask, how)| Step::Call(ask, how)),
        2 => which().prop_map(Step::Begin),
        2 => which().prop_map(Step::GiveUp),
        3 => which().prop_map(Step::Poll),
        1 => which().prop_map(Step::Drop),
        6 => (which(), end).prop_map(|(which, end)| Step::Leave(which, end)),
        3 => (0..700_u64).prop_map(Step::Advance),
        1 => documents().prop_map(Step::Load),
        1 => proptest::bool::weighted(0.8).prop_map(Step::Switch),
    ]
}

type Acquiring = Pin<Box<dyn Future<Output = Result<Entry<'static>, Block>>>>;

struct World {
    engine: Engine,
    time: ManualClock,
    pending: Vec<Pending<'static>>,
    acquiring: Vec<Acquiring>,
    open: Vec<Entry<'static>>,
}

impl World {
    fn step(&mut self, step: Step) {
        match step {
            Step::Call(ask, how) => self.call(ask, how),
            Step::Begin(at) => self
                .open
                .extend(pick(&mut self.pending, at).map(Pending::begin)),
            Step::GiveUp(at) => drop(pick(&mut self.pending, at)),
            Step::Poll(at) => {
                let acquiring = pick(&mut self.acquiring, at);
                acquiring.into_iter().for_each(|future| self.poll(future));
            }
            Step::Drop(at) => drop(pick(&mut self.acquiring, at)),
            Step::Leave(at, how) => {
                let entry = pick(&mut self.open, at);
                entry.into_iter().for_each(|entry| end(entry, how));
            }
            Step::Advance(millis) => self.time.advance(ms(millis)),
            // Rules that cannot be are left out: any list is one to try.
            Step::Load(text) => {
                self.engine
                    .load_document_with(text, OnInvalid::Skip)
                    .unwrap();
            }
            Step::Switch(on) => self.engine.set_enabled(on),
        }
    }

    fn call(&mut self, ask: Ask, how: How) {
        let request = self.request(ask);
        match how {
            How::Entry => self.open.extend(request.entry().ok()),
            How::TryEntry => self.open.extend(request.try_entry().ok()),
            How::Reserve => self.pending.extend(request.reserve().ok()),
            How::Acquire => self.poll(Box::pin(request.acquire())),
        }
    }

    fn request(&self, ask: Ask) -> Request<'static, 'static> {
        let request = self.engine.request(RESOURCES[ask.resource]);
        let request = request.origin(ORIGINS[ask.origin]).args(&ARGS[ask.args]);
        let request = request.weight(ask.weight).traffic(match ask.inbound {
            true => Traffic::Inbound,
            false => Traffic::Outbound,
        });
        match ask.prioritized {
            true => request.prioritized(),
            false => request,
        }
    }

    fn poll(&mut self, mut future: Acquiring) {
        match future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(answer) => self.open.extend(answer.ok()),
            Poll::Pending => self.acquiring.push(future),
        }
    }
}

fn pick<T>(list: &mut Vec<T>, at: usize) -> Option<T> {
    let at = at.checked_rem(list.len())?;
    Some(list.swap_remove(at))
}

fn end(entry: Entry<'static>, how: End) {
    match how {
        End::Exit(outcome) => entry.exit_with(outcome),
        End::Drop => drop(entry),
        End::Panic => {
            // Without the message: a thousand of them would hide a real one.
            let unwound = catch_unwind(AssertUnwindSafe(move || {
                let _entry = entry;
                std::panic::resume_unwind(Box::new("a failing handler"));
            }));
            assert!(unwound.is_err());
        }
    }
}

/// How many of `ask` run at once, and no more.
fn at_once<'a>(ask: impl Fn() -> Request<'static, 'a>) -> usize {
    let entries: Vec<_> = (0..20).map_while(|_| ask().try_entry().ok()).collect();
    entries.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_calls_under_any_rules_leave_nothing_held(
        first in documents(),
        history in vec(steps(), 1..120),
    ) {
        let (engine, time) = built(Engine::builder());
        let mut world = World {
            engine: engine.clone(),
            time: time.clone(),
            pending: Vec::new(),
            acquiring: Vec::new(),
            open: Vec::new(),
        };
        world.step(Step::Load(first));
        for step in history {
            world.step(step);
        }
        drop(world);
        engine.set_enabled(true);
        for resource in RESOURCES {
            let node = engine.node(resource).unwrap_or_default();
            prop_assert_eq!((node.in_flight, node.permits, node.queued), (0, 0, 0), "{}", resource);
            for origin in ["x", "y"] {
                let node = engine.origin_node(resource, origin).unwrap_or_default();
                let held = (node.in_flight, node.permits, node.queued);
                prop_assert_eq!(held, (0, 0, 0), "{} of {}", origin, resource);
            }
            for breaker in engine.breakers(resource) {
                prop_assert_eq!(breaker.figures().probes_out, 0, "{}", breaker.rule_id());
            }
        }
        prop_assert_eq!(engine.inbound().in_flight, 0);

        // What limits calls at once lets in exactly its limit. How many inbound
        // calls are left of before a rule is looked up anew when time has passed.
        time.advance(ms(1_000));
        engine.load_document(EXACT).unwrap();
        let a = || engine.request("a");
        prop_assert_eq!(at_once(|| a().args(&ARGS[0])), 2);
        prop_assert_eq!(at_once(a), 3);
        prop_assert_eq!(at_once(|| engine.request("b")), 9);
        prop_assert_eq!(at_once(|| engine.request("b").traffic(Traffic::Inbound)), 7);
    }
}

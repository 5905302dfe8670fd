//! Whatever happens, nothing is left behind: histories of calls under rules of
//! every kind, with reloads, refusals, waits that are given up, panics and time.
//! In the end nothing is in flight, no permit and no probe is held, and each
//! limit lets in exactly what it says.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use common::{built, ms};
use flowgate::{
    Arg, CircuitState, Engine, Entry, ManualClock, NodeSnapshot, Outcome, Pending, Traffic,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const RESOURCES: [&str; 2] = ["a", "b"];

/// Rules of every kind; some in the shadow, by patterns, or none at all.
const DOCUMENTS: [&str; 4] = [
    r#"{"authority": [{"resource": "a", "limitApp": "x", "strategy": 1}],
        "system": [{"maxThread": 3, "qps": 20}],
        "paramFlow": [{"resource": "a", "paramIdx": 0, "count": 2, "grade": 0},
                      {"resource": "b", "paramIdx": 0, "count": 3, "burstCount": 1}],
        "flow": [{"resource": "a", "count": 8}, {"resource": "b", "count": 4, "grade": 0},
                 {"resource": "b", "count": 6, "accounting": "strict"}],
        "isolation": [{"resource": "a", "count": 4}],
        "degrade": [{"resource": "a", "grade": 2, "count": 1, "timeWindow": 1, "minRequestAmount": 1,
                     "probeNum": 2}]}"#,
    r#"{"authority": [{"resource": "*", "limitApp": "x, y"}],
        "system": [{"avgRt": 300}, {"maxThread": 5, "mode": "observe"}],
        "paramFlow": [{"resource": "a", "paramIdx": -1, "count": 5, "controlBehavior": 2,
                       "maxQueueingTimeMs": 400}],
        "flow": [{"resource": "a", "count": 5, "controlBehavior": 2, "maxQueueingTimeMs": 900},
                 {"resource": "b", "count": 3, "statIntervalMs": 3000},
                 {"resource": "b", "count": 3, "accounting": "tokenBucket", "controlBehavior": 2}],
        "isolation": [{"resource": "b", "count": 3}, {"resource": "a", "count": 2, "mode": "observe"}],
        "degrade": [{"resource": "*", "grade": 1, "count": 0.4, "timeWindow": 1, "minRequestAmount": 2,
                     "statIntervalMs": 2000, "statSlidingWindowBucketCount": 4}]}"#,
    r#"{"authority": [], "system": [],
        "paramFlow": [{"resource": "a", "match": "prefix", "paramIdx": 0, "count": 1, "grade": 0,
                       "mode": "observe"}],
        "flow": [{"resource": "a", "count": 6, "controlBehavior": 1, "warmUpPeriodSec": 3},
                 {"resource": "b", "count": 2, "mode": "observe"},
                 {"resource": "a", "count": 4, "accounting": "tokenBucket", "burstCount": 7},
                 {"resource": "b", "count": 2, "accounting": "tokenBucket", "controlBehavior": 2,
                  "mode": "observe"},
                 {"resource": "b", "count": 4, "accounting": "strict", "mode": "observe"}],
        "isolation": [{"resource": "?", "match": "glob", "count": 6}],
        "degrade": [{"resource": "a", "grade": 0, "count": 100, "slowRatioThreshold": 0.5,
                     "timeWindow": 1, "minRequestAmount": 1, "statWindowCalls": 4},
                    {"resource": "b", "grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1,
                     "mode": "observe"}]}"#,
    r#"{"authority": [], "system": [], "paramFlow": [], "flow": [], "isolation": [], "degrade": []}"#,
];

/// What each limit lets in when nothing is held.
const EXACT: &str = r#"{
    "authority": [], "flow": [], "degrade": [],
    "system": [{"maxThread": 7}],
    "paramFlow": [{"resource": "a", "paramIdx": 0, "count": 2, "grade": 0},
                  {"resource": "b", "paramIdx": 0, "count": 3, "grade": 0}],
    "isolation": [{"resource": "a", "count": 3}, {"resource": "b", "count": 9}]}"#;

#[derive(Clone, Debug)]
enum Step {
    Call(Ask),
    /// One that waits goes ahead, or is given up.
    Begin(usize),
    GiveUp(usize),
    Leave(usize, How),
    Advance(u64),
    Load(usize),
    Switch(bool),
}

#[derive(Clone, Debug)]
struct Ask {
    resource: usize,
    weight: u32,
    origin: &'static str,
    inbound: bool,
    arg: Option<i64>,
    listed: bool,
    waits: bool,
    prioritized: bool,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Exit(Outcome),
    Drop,
    Panic,
}

fn ask() -> impl Strategy<Value = Ask> {
    let who = (0..2_usize, 0..3_u32, select(vec!["", "x", "y", "z"]));
    let what = (
        any::<bool>(),
        proptest::option::weighted(0.8, 0..3_i64),
        any::<bool>(),
    );
    let how = (any::<bool>(), proptest::bool::weighted(0.1));
    (who, what, how).prop_map(|(who, what, how)| Ask {
        resource: who.0,
        weight: who.1,
        origin: who.2,
        inbound: what.0,
        arg: what.1,
        listed: what.2,
        waits: how.0,
        prioritized: how.1,
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let outcome = select(vec![
        How::Exit(Outcome::Success),
        How::Exit(Outcome::Error),
        How::Exit(Outcome::Ignored),
        How::Exit(Outcome::Cancelled),
        How::Drop,
        How::Panic,
    ]);
    prop_oneof![
        8 => ask().prop_map(Step::Call),
        2 => (0..8_usize).prop_map(Step::Begin),
        1 => (0..8_usize).prop_map(Step::GiveUp),
        6 => (0..8_usize, outcome).prop_map(|(which, how)| Step::Leave(which, how)),
        4 => (0..700_u64).prop_map(Step::Advance),
        1 => (0..DOCUMENTS.len()).prop_map(Step::Load),
        1 => proptest::bool::weighted(0.8).prop_map(Step::Switch),
    ]
}

struct World {
    engine: Engine,
    time: ManualClock,
    pending: Vec<Pending<'static>>,
    open: Vec<Entry<'static>>,
}

impl World {
    fn new() -> Self {
        let (engine, time) = built(Engine::builder());
        World {
            engine,
            time,
            pending: Vec::new(),
            open: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Call(ask) => self.call(&ask),
            Step::Begin(at) if at < self.pending.len() => {
                let pending = self.pending.swap_remove(at);
                self.open.push(pending.begin());
            }
            Step::GiveUp(at) if at < self.pending.len() => drop(self.pending.swap_remove(at)),
            Step::Leave(at, how) if at < self.open.len() => leave(self.open.swap_remove(at), how),
            Step::Begin(_) | Step::GiveUp(_) | Step::Leave(..) => {}
            Step::Advance(millis) => self.time.advance(ms(millis)),
            Step::Load(which) => {
                let loaded = self.engine.load_document(DOCUMENTS[which]);
                loaded.expect("the document is fine");
            }
            Step::Switch(on) => self.engine.set_enabled(on),
        }
    }

    fn call(&mut self, ask: &Ask) {
        let value = ask.arg.map_or(Arg::Null, Arg::from);
        let list = [value, Arg::Null, value];
        let args = [if ask.listed { Arg::List(&list) } else { value }];
        let traffic = match ask.inbound {
            true => Traffic::Inbound,
            false => Traffic::Outbound,
        };
        let mut request = self
            .engine
            .request(RESOURCES[ask.resource])
            .origin(ask.origin)
            .weight(ask.weight)
            .traffic(traffic)
            .args(&args);
        if ask.prioritized {
            request = request.prioritized();
        }
        if ask.waits {
            self.pending.extend(request.reserve().ok());
        } else {
            self.open.extend(request.try_entry().ok());
        }
    }

    /// All calls end one way or another.
    fn end(&mut self) {
        drop(std::mem::take(&mut self.pending));
        let ways = [How::Drop, How::Exit(Outcome::Cancelled), How::Panic];
        for (entry, how) in self.open.drain(..).zip(ways.into_iter().cycle()) {
            leave(entry, how);
        }
    }
}

fn leave(entry: Entry<'static>, how: How) {
    match how {
        How::Exit(outcome) => entry.exit_with(outcome),
        How::Drop => drop(entry),
        How::Panic => {
            // Without the message: a thousand of them would hide a real one.
            let unwound = catch_unwind(AssertUnwindSafe(move || {
                let _entry = entry;
                std::panic::resume_unwind(Box::new("a failing handler"));
            }));
            assert!(unwound.is_err());
        }
    }
}

fn held(node: &NodeSnapshot) -> (u64, u64, u64) {
    (node.in_flight, node.permits, node.queued)
}

/// How many calls of `resource` with argument 0 run at once, and no more.
fn at_once(engine: &Engine, resource: &str, traffic: Traffic) -> usize {
    let args = [Arg::from(0)];
    let request = || engine.request(resource).traffic(traffic).args(&args);
    let entries: Vec<_> = (0..20).map_while(|_| request().try_entry().ok()).collect();
    entries.len()
}

/// How many inbound calls without arguments run at once.
fn inbound_at_once(engine: &Engine) -> usize {
    let request = || engine.request("b").traffic(Traffic::Inbound);
    let entries: Vec<_> = (0..20).map_while(|_| request().try_entry().ok()).collect();
    entries.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_is_left_behind_under_any_rules(history in vec(steps(), 1..120)) {
        let mut world = World::new();
        let engine = world.engine.clone();
        for step in history {
            world.step(step);
        }
        world.end();
        engine.set_enabled(true);
        for resource in RESOURCES {
            let node = engine.node(resource).unwrap_or_default();
            prop_assert_eq!(held(&node), (0, 0, 0), "{}", resource);
            for origin in ["x", "y", "z"] {
                let node = engine.origin_node(resource, origin).unwrap_or_default();
                prop_assert_eq!(held(&node), (0, 0, 0), "{} {}", resource, origin);
            }
        }
        prop_assert_eq!(engine.inbound().in_flight, 0);

        // No breaker sticks: after its time each lets a call probe, and closes.
        world.time.advance(Duration::from_secs(60));
        for resource in RESOURCES {
            for _ in 0..4 {
                if let Ok(entry) = engine.request(resource).origin("y").try_entry() {
                    entry.exit();
                }
                world.time.advance(Duration::from_secs(5));
            }
            for breaker in engine.breakers(resource) {
                prop_assert_eq!(breaker.state(), CircuitState::Closed, "{}", breaker.rule_id());
            }
        }

        // What limits calls at once lets in exactly its limit, twice over.
        engine.load_document(EXACT).expect("the document is fine");
        for _ in 0..2 {
            prop_assert_eq!(at_once(&engine, "a", Traffic::Outbound), 2);
            prop_assert_eq!(at_once(&engine, "b", Traffic::Outbound), 3);
            prop_assert_eq!(inbound_at_once(&engine), 7);
            let permits = (0..20).map_while(|_| engine.try_entry("a").ok()).collect::<Vec<_>>();
            prop_assert_eq!(permits.len(), 3);
        }
    }
}

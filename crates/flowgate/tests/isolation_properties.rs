//! Properties of whole histories with permits: whatever happens, nobody gets in
//! above the limit, and in the end nothing is held.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

mod common;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use common::{built, ms};
use flowgate::{Block, Engine, Entry, Outcome, Pending};
use proptest::prelude::*;

/// Isolation rules alone, and with rules that refuse or queue before and after.
const DOCUMENTS: [&str; 6] = [
    r#"{"flow": [], "isolation": [], "degrade": []}"#,
    r#"{"isolation": [{"resource": "a", "count": 3, "maxQueueingTimeMs": 300},
                      {"resource": "b", "count": 2}]}"#,
    r#"{"isolation": [{"resource": "a|b", "regex": true, "count": 5, "maxQueueingTimeMs": 100,
                       "maxQueueLength": 2},
                      {"resource": "a", "count": 4, "maxQueueingTimeMs": 500}]}"#,
    r#"{"isolation": [{"resource": "a", "count": 1, "maxQueueingTimeMs": 1000},
                      {"resource": "b", "count": 1, "maxQueueingTimeMs": 50},
                      {"resource": "b", "count": 1, "mode": "observe"}],
        "flow": [{"resource": "a", "count": 10, "controlBehavior": 2},
                 {"resource": "b", "count": 2, "grade": 0}]}"#,
    r#"{"degrade": [{"resource": "a", "grade": 2, "count": 0, "timeWindow": 1,
                     "minRequestAmount": 1}],
        "flow": [{"resource": "a", "count": 4}, {"resource": "b", "count": 4, "limitApp": "x"}]}"#,
    r#"{"isolation": [{"resource": "a", "count": 0, "maxQueueingTimeMs": 100},
                      {"resource": "b", "count": 2, "threshold": null}], "degrade": []}"#,
];
/// The limits on `a` and `b` in these; `None`: none, or as it was.
const LIMITS: [Option<[u64; 2]>; 6] = [
    Some([u64::MAX; 2]),
    Some([3, 2]),
    Some([4, 5]),
    Some([1, 1]),
    None,
    Some([0, 2]),
];
const RESOURCES: [&str; 2] = ["a", "b"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Call {
        ask: Ask,
        how: How,
    },
    /// Looks whether one that waits may go on.
    Poll(usize),
    GiveUp(usize),
    Begin(usize),
    Leave(usize, Option<Outcome>),
    Advance(u64),
    Load(usize),
    Switch(bool),
}

#[derive(Clone, Copy, Debug)]
struct Ask {
    resource: usize,
    weight: u32,
    origin: bool,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Entry,
    TryEntry,
    Reserve,
    Acquire,
}

fn steps() -> impl Strategy<Value = Step> {
    let ask = (0..2_usize, 0..4_u32, any::<bool>()).prop_map(|(resource, weight, origin)| Ask {
        resource,
        weight,
        origin,
    });
    let how = prop_oneof![
        1 => Just(How::Entry),
        2 => Just(How::TryEntry),
        1 => Just(How::Reserve),
        5 => Just(How::Acquire)
    ];
    let outcome = prop_oneof![
        Just(None),
        Just(Some(Outcome::Success)),
        Just(Some(Outcome::Error)),
        Just(Some(Outcome::Cancelled))
    ];
    prop_oneof![
        8 => (ask, how).prop_map(|(ask, how)| Step::Call { ask, how }),
        5 => any::<usize>().prop_map(Step::Poll),
        2 => any::<usize>().prop_map(Step::GiveUp),
        1 => any::<usize>().prop_map(Step::Begin),
        5 => (any::<usize>(), outcome).prop_map(|(n, outcome)| Step::Leave(n, outcome)),
        2 => (0_u64..400).prop_map(Step::Advance),
        1 => (0..DOCUMENTS.len()).prop_map(Step::Load),
        1 => prop::bool::weighted(0.9).prop_map(Step::Switch),
    ]
}

type Asked = Pin<Box<dyn Future<Output = Result<Entry<'static>, Block>>>>;

struct History {
    engine: Engine,
    limits: [u64; 2],
    /// With their resources and weights; weight `None`: not guarded.
    inside: Vec<(usize, Entry<'static>)>,
    pending: Vec<(usize, Pending<'static>)>,
    waiting: Vec<(usize, Asked)>,
}

impl History {
    fn call(
        &mut self,
        Ask {
            resource,
            weight,
            origin,
        }: Ask,
        how: How,
    ) {
        let name = RESOURCES[resource];
        let request = self.engine.request(name).weight(weight);
        let request = request.origin(if origin { "x" } else { "" });
        let entered = match how {
            How::Entry => request.entry(),
            How::TryEntry => request.try_entry(),
            How::Reserve => {
                let pending = request.reserve().ok();
                self.pending
                    .extend(pending.map(|pending| (resource, pending)));
                return;
            }
            How::Acquire => {
                self.waiting.push((resource, Box::pin(request.acquire())));
                self.poll(self.waiting.len() - 1);
                return;
            }
        };
        let Ok(entry) = entered else { return };
        if entry.entered().is_some() && weight > 0 {
            let permits = self.engine.node(name).unwrap().permits;
            assert!(permits <= self.limits[resource], "{permits} on {name}");
        }
        self.inside.push((resource, entry));
    }

    fn poll(&mut self, n: usize) {
        let (resource, asked) = &mut self.waiting[n];
        let resource = *resource;
        match asked.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => {}
            Poll::Ready(done) => {
                drop(self.waiting.swap_remove(n));
                self.inside.extend(done.ok().map(|entry| (resource, entry)));
            }
        }
    }

    /// Every call that is inside is in flight, and every one that waits at most
    /// holds permits or stands in line.
    fn check(&self) {
        for (resource, name) in RESOURCES.iter().enumerate() {
            let Some(node) = self.engine.node(name) else {
                continue;
            };
            let guarded = |entry: &Entry<'_>| entry.entered().is_some();
            let inside = self.inside.iter();
            let inside = inside.filter(|(of, entry)| *of == resource && guarded(entry));
            let inside = inside.count() as u64;
            let of = |all: &[(usize, Pending<'_>)]| {
                all.iter().filter(|(of, _)| *of == resource).count() as u64
            };
            let pending = of(&self.pending);
            let waiting = self.waiting.iter().filter(|(of, _)| *of == resource);
            let waiting = waiting.count() as u64;
            let in_flight = node.in_flight;
            assert!(
                (inside..=inside + pending + waiting).contains(&in_flight),
                "{in_flight} on {name}"
            );
            assert!(node.queued <= waiting, "{} in line of {name}", node.queued);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_history_ends_with_nobody_in_flight_in_line_or_holding_permits(
        document in 1..DOCUMENTS.len(),
        steps in proptest::collection::vec(steps(), 1..80),
    ) {
        let (engine, time) = built(Engine::builder());
        let mut history = History {
            engine,
            limits: [u64::MAX; 2],
            inside: Vec::new(),
            pending: Vec::new(),
            waiting: Vec::new(),
        };
        for step in std::iter::once(Step::Load(document)).chain(steps) {
            let History { inside, pending, waiting, .. } = &mut history;
            match step {
                Step::Call { ask, how } => history.call(ask, how),
                Step::Poll(n) if !waiting.is_empty() => {
                    let n = n % waiting.len();
                    history.poll(n);
                }
                Step::GiveUp(n) if n % 4 == 0 && !pending.is_empty() => {
                    drop(pending.swap_remove(n % pending.len()));
                }
                Step::GiveUp(n) if !waiting.is_empty() => {
                    drop(waiting.swap_remove(n % waiting.len()));
                }
                Step::Begin(n) if !pending.is_empty() => {
                    let (resource, pending) = pending.swap_remove(n % pending.len());
                    inside.push((resource, pending.begin()));
                }
                Step::Leave(n, outcome) if !inside.is_empty() => {
                    let (_, entry) = inside.swap_remove(n % inside.len());
                    match outcome {
                        Some(outcome) => entry.exit_with(outcome),
                        None => drop(entry),
                    }
                }
                Step::Advance(millis) => time.advance(ms(millis)),
                Step::Load(n) => {
                    history.engine.load_document(DOCUMENTS[n]).unwrap();
                    history.limits = LIMITS[n].unwrap_or(history.limits);
                }
                Step::Switch(on) => history.engine.set_enabled(on),
                _ => {}
            }
            history.check();
        }
        let History { engine, inside, pending, waiting, .. } = history;
        drop((inside, pending, waiting));
        for name in RESOURCES {
            let nodes = [engine.node(name), engine.origin_node(name, "x")];
            for node in nodes.into_iter().flatten() {
                prop_assert_eq!((node.in_flight, node.permits, node.queued), (0, 0, 0));
            }
        }
        // What is free can be had.
        engine.set_enabled(true);
        engine.load_document(DOCUMENTS[0]).unwrap();
        engine.load_document(DOCUMENTS[1]).unwrap();
        let all: Vec<_> = (0..3).map(|_| engine.try_entry("a").unwrap()).collect();
        prop_assert!(engine.try_entry("a").is_err());
        drop(all);
    }
}

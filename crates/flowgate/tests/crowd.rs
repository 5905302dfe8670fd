//! Four threads for each processor, under rules of every kind that are swapped
//! under way: in the end the sums are exact, and nothing is held.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

mod common;

use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use common::{built, ms};
use flowgate::{Arg, Block, Engine, Entry, NodeSnapshot, Outcome, Traffic};

const RESOURCES: [&str; 2] = ["a", "b"];
/// Calls of each thread.
const CALLS: u64 = 20_000;

const DOCUMENTS: [&str; 3] = [
    r#"{"authority": [{"resource": "a", "limitApp": "z", "strategy": 1}],
        "system": [{"maxThread": 6, "qps": 1000}],
        "paramFlow": [{"resource": "a", "paramIdx": 0, "count": 2, "grade": 0},
                      {"resource": "b", "paramIdx": 0, "count": 50, "burstCount": 10}],
        "flow": [{"resource": "a", "count": 60}, {"resource": "b", "count": 3, "grade": 0}],
        "isolation": [{"resource": "a", "count": 4, "maxQueueingTimeMs": 50}],
        "degrade": [{"resource": "a", "grade": 2, "count": 30, "timeWindow": 1, "probeNum": 2}]}"#,
    r#"{"authority": [{"resource": "*", "limitApp": "x, y"}],
        "system": [{"avgRt": 30000}, {"maxThread": 2, "mode": "observe"}],
        "paramFlow": [{"resource": "b", "paramIdx": 0, "count": 100, "controlBehavior": 2,
                       "maxQueueingTimeMs": 400}],
        "flow": [{"resource": "b", "count": 100, "controlBehavior": 2, "maxQueueingTimeMs": 900},
                 {"resource": "a", "count": 80, "accounting": "strict"},
                 {"resource": "a", "count": 90, "accounting": "tokenBucket", "burstCount": 40},
                 {"resource": "b", "count": 90, "accounting": "tokenBucket", "burstCount": 40,
                  "controlBehavior": 2, "maxQueueingTimeMs": 100}],
        "isolation": [{"resource": "b", "count": 5}],
        "degrade": [{"resource": "*", "grade": 1, "count": 0.5, "timeWindow": 1}]}"#,
    r#"{"authority": [], "system": [],
        "paramFlow": [{"resource": "a", "paramIdx": 0, "count": 3, "grade": 0, "maxValues": 2}],
        "flow": [{"resource": "a", "count": 200, "controlBehavior": 1, "warmUpPeriodSec": 3},
                 {"resource": "b", "count": 100, "limitApp": "y", "statIntervalMs": 3000}],
        "isolation": [{"resource": "?", "match": "glob", "count": 6}],
        "degrade": [{"resource": "b", "grade": 0, "count": 100, "slowRatioThreshold": 0.5,
                     "timeWindow": 1, "statWindowCalls": 40}]}"#,
];

/// Limits on calls at once: each lets in just its number if nothing is held.
const EXACT: &str = r#"{
    "authority": [], "flow": [], "degrade": [],
    "system": [{"maxThread": 7}],
    "paramFlow": [{"resource": "a", "paramIdx": 0, "count": 2, "grade": 0}],
    "isolation": [{"resource": "a", "count": 3}, {"resource": "b", "count": 9}]}"#;

const OUTCOMES: [Outcome; 4] = [
    Outcome::Success,
    Outcome::Error,
    Outcome::Ignored,
    Outcome::Cancelled,
];

/// Sums of weights, as callers saw them: passed, blocked, ended, failed,
/// cancelled.
#[derive(Default)]
struct Sums([AtomicU64; 5]);

impl Sums {
    fn add(&self, which: usize, weight: u32) {
        self.0[which].fetch_add(weight.into(), Ordering::Relaxed);
    }

    fn exit(&self, entry: Entry<'_>, weight: u32, outcome: Outcome) {
        match outcome {
            Outcome::Cancelled => self.add(4, weight),
            _ => self.add(2, weight),
        }
        if outcome == Outcome::Error {
            self.add(3, weight);
        }
        entry.exit_with(outcome);
    }
}

/// Numbers that look random and are the same each time.
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

#[test]
fn a_crowd_under_rules_of_every_kind_ends_with_exact_sums() {
    let threads = 4 * thread::available_parallelism().map_or(2, usize::from);
    let (engine, time) = built(Engine::builder());
    engine.load_document(DOCUMENTS[0]).unwrap();
    let (sums, done) = (Sums::default(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..threads {
            let (engine, sums, done) = (&engine, &sums, &done);
            scope.spawn(move || {
                let mut draws = Draws(0x9e37_79b9_7f4a_7c15 ^ thread as u64);
                for n in 0..CALLS {
                    call(engine, sums, &mut draws);
                    // More threads than processors: they take turns more often
                    // than the scheduler would have them.
                    if n % 8 == 0 {
                        thread::yield_now();
                    }
                }
                done.fetch_add(1, Ordering::Release);
            });
        }
        // Less than a minute of the clock in all, so that nothing has left the
        // totals by the end.
        let mut swaps = (0..50).zip(DOCUMENTS.iter().cycle());
        while done.load(Ordering::Acquire) < threads {
            if let Some((_, document)) = swaps.next() {
                engine.load_document(document).unwrap();
                time.advance(ms(700));
            }
            thread::yield_now();
        }
    });
    time.advance(ms(3_000));
    let seen = sums.0.map(AtomicU64::into_inner);
    assert_eq!(counted(&engine), seen);
    assert!(
        seen.iter().all(|sum| *sum > 0),
        "{seen:?}: something never happened"
    );
    for resource in RESOURCES {
        let node = engine.node(resource).unwrap();
        let held = (node.in_flight, node.permits, node.queued, node.waiting);
        assert_eq!(held, (0, 0, 0, 0), "{resource}");
        for breaker in engine.breakers(resource) {
            assert_eq!(breaker.figures().probes_out, 0, "{}", breaker.rule_id());
        }
    }
    assert_eq!(engine.inbound().in_flight, 0);

    engine.load_document(EXACT).unwrap();
    let at_once = |resource, args: &[Arg<'_>], traffic| {
        let ask = || engine.request(resource).traffic(traffic).args(args);
        let entries: Vec<_> = (0..20).map_while(|_| ask().try_entry().ok()).collect();
        entries.len()
    };
    assert_eq!(at_once("a", &[Arg::Int(0)], Traffic::Outbound), 2);
    assert_eq!(at_once("a", &[], Traffic::Outbound), 3);
    assert_eq!(at_once("b", &[], Traffic::Outbound), 9);
    assert_eq!(at_once("b", &[], Traffic::Inbound), 7);
}

fn call(engine: &Engine, sums: &Sums, draws: &mut Draws) {
    let args = [Arg::Int(draws.below(4).into())];
    let weight = 1 + draws.below(2) as u32;
    let traffic = [Traffic::Inbound, Traffic::Outbound][draws.below(2) as usize];
    let resource = RESOURCES[draws.below(2) as usize];
    let request = engine
        .request(resource)
        .origin(["", "x", "y", "z"][draws.below(4) as usize])
        .weight(weight)
        .traffic(traffic)
        .args(&args);
    let answer = match draws.below(6) {
        0 => request
            .prioritized()
            .reserve()
            .map(|pending| Some(pending.begin())),
        1 => request.reserve().map(|pending| {
            thread::yield_now();
            pending.cancel();
            None
        }),
        // Where calls wait for their time, this would move the clock.
        2 if resource == "a" => polled(request.acquire()),
        _ => request.try_entry().map(Some),
    };
    match answer {
        Ok(Some(entry)) => {
            sums.add(0, weight);
            if draws.below(4) == 0 {
                thread::yield_now();
            }
            sums.exit(entry, weight, OUTCOMES[draws.below(4) as usize]);
        }
        Ok(None) => sums.add(4, weight),
        Err(_) => sums.add(1, weight),
    }
}

/// Looks a few times whether the permits have come; then leaves the line.
fn polled<'a>(
    acquiring: impl Future<Output = Result<Entry<'a>, Block>>,
) -> Result<Option<Entry<'a>>, Block> {
    let mut acquiring = pin!(acquiring);
    for _ in 0..3 {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(answer) = acquiring.as_mut().poll(&mut context) {
            return answer.map(Some);
        }
        thread::yield_now();
    }
    Ok(None)
}

fn counted(engine: &Engine) -> [u64; 5] {
    let nodes = RESOURCES.map(|resource| engine.node(resource).unwrap());
    let sum = |of: fn(&NodeSnapshot) -> u64| nodes.iter().map(of).sum();
    [
        sum(|node| node.total_pass),
        sum(|node| node.total_block),
        sum(|node| node.total_success),
        sum(|node| node.total_exception),
        sum(|node| node.total_cancelled),
    ]
}

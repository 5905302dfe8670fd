//! A call that is refused at the very end, or given up, has never been: the
//! calls after it are decided as if it had not come, under rules of every kind.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use common::{built, ms};
use flowgate::{
    Arg, Block, BlockKind, Call, Engine, Entry, Outcome, Position, Queue, Request, RuleId, Slot,
    SlotError, Traffic, Verdict,
};

/// Refuses, or has calls wait, as it was told to.
struct Last(Arc<AtomicU8>);

const PASSES: u8 = 0;
const REFUSES: u8 = 1;
const WAITS: u8 = 2;
const QUEUES: u8 = 3;

impl Slot for Last {
    fn name(&self) -> &'static str {
        "last"
    }

    fn check(&self, _: &mut Call<'_>) -> Result<Verdict, SlotError> {
        let kind = BlockKind::Custom(self.name());
        let block = Block::new(kind, RuleId::new("last"), 0.0, 0.0);
        Ok(match self.0.load(Ordering::Relaxed) {
            REFUSES => Verdict::Block(block),
            WAITS => Verdict::Wait(ms(3)),
            // Nobody may stand in this line.
            QUEUES => Verdict::Queue(Queue {
                limit: 0,
                wait_max: ms(5),
                queued_max: 0,
                rule: 0,
                block,
            }),
            _ => Verdict::Pass,
        })
    }
}

const DOCUMENTS: [&str; 7] = [
    r#"{"system": [{"qps": 12, "maxThread": 6}, {"qps": 11, "avgRt": 900}],
        "paramFlow": [{"resource": "a", "paramIdx": 0, "count": 4, "burstCount": 1},
                      {"resource": "a", "paramIdx": 0, "count": 4, "grade": 0},
                      {"resource": "a", "paramIdx": 0, "count": 6, "controlBehavior": 2,
                       "maxQueueingTimeMs": 900}],
        "flow": [{"resource": "a", "count": 9}, {"resource": "a", "limitApp": "web", "count": 8},
                 {"resource": "a", "limitApp": "other", "count": 3},
                 {"resource": "a", "count": 30, "statIntervalMs": 4000},
                 {"resource": "a", "count": 15, "controlBehavior": 2, "maxQueueingTimeMs": 500},
                 {"resource": "a", "count": 7, "grade": 0}],
        "isolation": [{"resource": "a", "count": 6}, {"resource": "*", "count": 5}],
        "degrade": [{"resource": "a", "grade": 2, "count": 1, "timeWindow": 1, "minRequestAmount": 2},
                    {"resource": "a", "grade": 0, "count": 400, "slowRatioThreshold": 0.6,
                     "timeWindow": 2, "minRequestAmount": 1, "probeNum": 2, "backoffMultiplier": 2}]}"#,
    r#"{"flow": [{"resource": "a", "count": 12, "controlBehavior": 1, "warmUpPeriodSec": 3}]}"#,
    r#"{"flow": [{"resource": "a", "count": 5, "accounting": "strict"},
                 {"resource": "a", "count": 3, "accounting": "strict", "limitApp": "web"},
                 {"resource": "a", "count": 6, "accounting": "strict", "statIntervalMs": 3000,
                  "statSlidingWindowBucketCount": 3}]}"#,
    r#"{"flow": [{"resource": "a", "count": 3, "accounting": "tokenBucket", "burstCount": 9},
                 {"resource": "a", "count": 4, "accounting": "tokenBucket", "controlBehavior": 2,
                  "maxQueueingTimeMs": 900},
                 {"resource": "a", "count": 2, "accounting": "tokenBucket", "limitApp": "web"}]}"#,
    r#"{"flow": [{"resource": "a", "count": 3, "strategy": 2, "refResource": "entrance"},
                 {"resource": "a", "count": 4, "strategy": 1, "refResource": "b"}]}"#,
    r#"{"flow": [{"resource": "a", "count": 4}, {"resource": "a", "limitApp": "web", "count": 3}]}"#,
    r#"{"degrade": [{"resource": "a", "grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1,
                     "probeNum": 2, "probeSuccessRatio": 0.5},
                    {"resource": "a", "grade": 1, "count": 0.5, "timeWindow": 1, "minRequestAmount": 2,
                     "statIntervalMs": 3000, "statSlidingWindowBucketCount": 3}]}"#,
];

/// Numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// Asks in one of the ways that come to nothing.
fn come_to_nothing(request: Request<'_, '_>, way: usize, last: &AtomicU8) {
    let told = |what| last.store(what, Ordering::Relaxed);
    match way {
        0 => {
            told(REFUSES);
            assert!(request.entry().is_err());
        }
        1 => {
            told(WAITS);
            assert!(request.try_entry().is_err());
        }
        2 => {
            told(QUEUES);
            assert!(request.try_entry().is_err());
        }
        3 => {
            told(QUEUES);
            assert!(request.entry().is_err());
        }
        _ => drop(request.reserve()),
    }
    told(PASSES);
}

/// What is decided in the history of this number, with or without calls that
/// come to nothing.
fn decisions(document: &str, number: u64, with_others: bool) -> Vec<String> {
    let last = Arc::new(AtomicU8::new(PASSES));
    let slot = Last(Arc::clone(&last));
    let (engine, time) = built(Engine::builder().slot(Position::Last, slot));
    engine.load_document(document).unwrap();
    let (a, b) = (engine.resource("a"), engine.resource("b"));
    let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut open: Vec<Entry<'_>> = Vec::new();
    let mut decided = Vec::new();
    for _ in 0..70 {
        let args = [Arg::from(dice.below(2))];
        let is_b = dice.below(5) == 0;
        let mut request = if is_b { &b } else { &a }.request().args(&args);
        request = request.origin(dice.one_of(&["web", "app", ""]));
        request = request.weight(dice.one_of(&[1, 1, 1, 2, 0, 9]));
        request = request.context(dice.one_of(&["", "entrance"]));
        request = request.traffic(dice.one_of(&[Traffic::Inbound, Traffic::Outbound]));
        if dice.below(4) == 0 {
            request = request.prioritized();
        }
        match dice.below(6) {
            0 | 1 => match request.reserve() {
                Ok(pending) => {
                    decided.push(format!("waits {:?}", pending.wait()));
                    open.push(pending.begin());
                }
                Err(block) => decided.push(format!("{block:?}")),
            },
            2 | 3 => {
                let way = dice.below(5);
                // One of `b` would make it a resource that was entered.
                if with_others && !is_b {
                    come_to_nothing(request, way, &last);
                }
            }
            4 => {
                let (which, outcome) = (
                    dice.below(8),
                    dice.one_of(&[Outcome::Success, Outcome::Error, Outcome::Cancelled]),
                );
                if !open.is_empty() {
                    open.swap_remove(which % open.len()).exit_with(outcome);
                }
            }
            _ => time.advance(ms(dice.one_of(&[0, 1, 50, 200, 500, 1_000, 1_001, 3_000]))),
        }
        let node = a.node();
        decided.push(format!("holds {} {}", node.in_flight, node.permits));
    }
    decided
}

#[test]
fn a_call_that_comes_to_nothing_changes_no_decision() {
    for document in DOCUMENTS {
        for number in 1..120 {
            let without = decisions(document, number, false);
            let with = decisions(document, number, true);
            assert_eq!(without, with, "history {number} of {document}");
        }
    }
}

//! Hot parameters against a naive reference: maps, whole numbers, and a copy of
//! everything to go back to.

use std::collections::HashMap;
use std::time::Duration;

use flowgate_core::{Arg, Timestamp};
use flowgate_rules::param_flow::{ParamFlowRule, ParamState, Share, Shares};
use proptest::collection::vec;
use proptest::prelude::*;

/// What a value may use up, counted as the documentation says it.
#[derive(Clone, Debug, Default)]
struct Naive {
    /// Tokens, and when they were last refilled, in ms.
    buckets: HashMap<i128, (u64, u64)>,
    /// Parts of tokens, as many as flow in within a millisecond for each tenth
    /// of the count, and when they were worked out, in ms.
    levels: HashMap<i128, (u64, u64)>,
    /// Release time of the last in line, in ns.
    lines: HashMap<i128, u64>,
    in_flight: HashMap<i128, u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Counted {
    Tokens,
    Levels,
    Queue,
    InFlight,
}

#[derive(Clone, Copy, Debug)]
struct Spec {
    counted: Counted,
    tenths: u64,
    duration_sec: u64,
    burst: u64,
    wait_ms_max: u64,
    special_count: u64,
}

const SPECIAL: i128 = 0;

impl Spec {
    fn rule(&self) -> ParamFlowRule {
        let count = self.tenths as f64 / 10.0;
        let rule = match self.counted {
            Counted::InFlight => ParamFlowRule::concurrency("a", 0, count),
            Counted::Tokens => ParamFlowRule::qps("a", 0, count).burst(self.burst as u32),
            Counted::Levels => ParamFlowRule::qps("a", 0, count)
                .burst(self.burst as u32)
                .token_bucket(),
            Counted::Queue => {
                ParamFlowRule::qps("a", 0, count).rate_limiter(self.wait_ms_max as u32)
            }
        };
        rule.duration_in_sec(self.duration_sec as u32)
            .item(SPECIAL, self.special_count as f64)
    }

    fn tenths_of(&self, value: i128) -> u64 {
        match value {
            SPECIAL => self.special_count * 10,
            _ => self.tenths,
        }
    }

    /// One element of a call; the wait in ns if there is room.
    fn take(&self, state: &mut Naive, value: i128, now_ms: u64, weight: u64) -> Option<u64> {
        let tenths = self.tenths_of(value);
        let duration_ms = self.duration_sec * 1_000;
        match self.counted {
            Counted::InFlight => {
                let taken = state.in_flight.entry(value).or_default();
                (*taken < tenths / 10).then(|| *taken += 1)?;
                Some(0)
            }
            _ if weight == 0 => Some(0),
            _ if tenths == 0 => None,
            Counted::Tokens => {
                let capacity = tenths / 10 + self.burst;
                let new = (capacity, now_ms);
                let (mut tokens, mut since) = *state.buckets.get(&value).unwrap_or(&new);
                let elapsed = now_ms - since;
                if elapsed > duration_ms {
                    tokens = capacity.min(tokens + elapsed * tenths / 10 / duration_ms);
                    since = now_ms;
                }
                let left = tokens.checked_sub(weight)?;
                state.buckets.insert(value, (left, since));
                Some(0)
            }
            Counted::Levels => {
                let token = 10 * duration_ms;
                let capacity = (tenths / 10 + self.burst) * token;
                let (parts, since) = *state.levels.get(&value).unwrap_or(&(capacity, now_ms));
                let parts = capacity.min(parts + (now_ms - since) * tenths);
                let left = parts.checked_sub(weight * token)?;
                state.levels.insert(value, (left, now_ms));
                Some(0)
            }
            Counted::Queue => {
                let now_ns = now_ms * 1_000_000;
                let span_ns = weight * duration_ms * 1_000_000 * 10;
                let cost_ns = (2 * span_ns + tenths) / (2 * tenths);
                let release_ns = match state.lines.get(&value) {
                    Some(last) => now_ns.max(last + cost_ns),
                    None => now_ns,
                };
                let wait_ns = release_ns - now_ns;
                (wait_ns <= self.wait_ms_max * 1_000_000).then(|| {
                    state.lines.insert(value, release_ns);
                    wait_ns
                })
            }
        }
    }

    /// A whole call: all its values or none.
    fn call(&self, state: &mut Naive, values: &[i128], now_ms: u64, weight: u64) -> Option<u64> {
        let before = state.clone();
        let mut longest = 0;
        for value in values {
            match self.take(state, *value, now_ms, weight) {
                Some(wait_ns) => longest = longest.max(wait_ns),
                None => {
                    *state = before;
                    return None;
                }
            }
        }
        Some(longest)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Call {
        values: Vec<i128>,
        weight: u64,
        /// Given back at once, as when a later rule refuses.
        undone: bool,
    },
    Later(u64),
    /// The oldest call in flight ends.
    Exit,
}

fn step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![2 => Just(SPECIAL), 6 => 1_i128..4];
    let values = prop_oneof![3 => vec(value.clone(), 1), 1 => vec(value, 0..4)];
    prop_oneof![
        6 => (values, prop_oneof![1 => Just(0), 8 => 1_u64..4], prop::bool::weighted(0.2))
            .prop_map(|(values, weight, undone)| Step::Call { values, weight, undone }),
        3 => prop_oneof![0_u64..50, 900_u64..1_100, 0_u64..10_000].prop_map(Step::Later),
        1 => Just(Step::Exit),
    ]
}

fn spec() -> impl Strategy<Value = Spec> {
    (
        prop_oneof![
            Just(Counted::Tokens),
            Just(Counted::Levels),
            Just(Counted::Queue),
            Just(Counted::InFlight)
        ],
        prop_oneof![1 => Just(0), 5 => 1_u64..80],
        1_u64..4,
        0_u64..3,
        prop_oneof![Just(0), 1_u64..3_000],
        0_u64..6,
    )
        .prop_map(
            |(counted, tenths, duration_sec, burst, wait_ms_max, special_count)| Spec {
                counted,
                tenths,
                duration_sec,
                burst,
                wait_ms_max,
                special_count,
            },
        )
}

fn arg_of<'a>(values: &[Arg<'a>], list: &'a [Arg<'a>]) -> Arg<'a> {
    match values {
        [one] => *one,
        _ => Arg::List(list),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn decisions_are_those_of_a_naive_reference(spec in spec(), steps in vec(step(), 1..80)) {
        let state = ParamState::new(&spec.rule());
        let mut naive = Naive::default();
        let mut in_flight: Vec<(Vec<i128>, Vec<Share>)> = Vec::new();
        let mut now_ms = 1_700_000_000_000;
        for step in steps {
            let now = Timestamp::from_millis(now_ms);
            match step {
                Step::Later(ms) => now_ms += ms,
                Step::Exit => {
                    if in_flight.is_empty() {
                        continue;
                    }
                    let (values, shares) = in_flight.remove(0);
                    shares.into_iter().for_each(|share| state.leave(share));
                    for value in values {
                        naive.in_flight.entry(value).and_modify(|taken| *taken -= 1);
                    }
                }
                Step::Call { values, weight, undone } => {
                    let list: Vec<Arg<'_>> = values.iter().map(|v| Arg::Int(*v)).collect();
                    let mut shares = Shares::new();
                    let arg = arg_of(&list, &list);
                    let found = state.take(arg, now, weight as u32, &mut shares);
                    let before = naive.clone();
                    let expected = spec.call(&mut naive, &values, now_ms, weight);
                    prop_assert_eq!(
                        found.ok(),
                        expected.map(Duration::from_nanos),
                        "{:?} {:?}", spec, values
                    );
                    if found.is_err() {
                        prop_assert!(shares.is_empty());
                        continue;
                    }
                    if undone {
                        for share in shares.drain(..).rev() {
                            state.give_back(share, now, weight as u32);
                        }
                        naive = before;
                    } else if spec.counted == Counted::InFlight {
                        in_flight.push((values, shares.into_vec()));
                    }
                }
            }
        }
    }
}

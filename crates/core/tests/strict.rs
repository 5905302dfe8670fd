//! Strict accounting against a log of every call that passed: no span of the
//! interval holds more than the limit, wherever it begins.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flowgate_core::leap_array::{SAMPLE_COUNT_MAX, SlidingWindow, Taken};
use flowgate_core::{
    Accounting, Clock, Hold, Holds, Interval, ManualClock, Node, NodeSettings, Nodes, Place,
    SlidingWindowLimiter, Timestamp, Traffic, View,
};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn ms(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn ns(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// How many of `offered` calls at `now` pass.
fn passed(limiter: &SlidingWindowLimiter, now: Timestamp, offered: u64) -> u64 {
    (0..offered)
        .map(|_| u64::from(limiter.acquire_at(now, 1).is_ok()))
        .sum()
}

/// 100 calls a second let 200 through within 516 ms, as reported of two windows:
/// <https://github.com/alibaba/Sentinel/issues/2859>.
#[test]
fn calls_on_both_sides_of_an_edge_are_counted_together() {
    let strict = SlidingWindowLimiter::strict(SECOND, 2, 100).unwrap();
    let windows = SlidingWindowLimiter::new(SECOND, 2, 100).unwrap();
    let both = |now, offered| [&strict, &windows].map(|it| passed(it, now, offered));
    assert_eq!(both(ms(10_484), 100), [100, 100]);
    assert_eq!(both(ms(11_000), 100), [0, 100]);
    // All that a span of one second may hold, and not a call more.
    assert_eq!(both(ms(11_483), 100), [0, 0]);
    assert_eq!(passed(&strict, ms(11_500), 100), 100);
}

#[test]
fn with_fifty_boxes_the_edge_costs_a_fiftieth() {
    let limiter = SlidingWindowLimiter::strict(SECOND, Interval::STRICT_BOXES, 100).unwrap();
    assert_eq!(passed(&limiter, ms(10_499), 150), 100);
    let full = limiter.acquire_at(ms(10_999), 1).unwrap_err();
    assert_eq!(full.sum, 100);
    // The box of 10,480 to 10,500 ms leaves when it is wholly out of the second.
    assert_eq!(full.retry_after, Some(Duration::from_millis(501)));
    assert_eq!(passed(&limiter, ms(11_499), 1), 0);
    assert_eq!(passed(&limiter, ms(11_500), 150), 100);
}

#[test]
fn a_strict_limiter_in_one_box_counts_two() {
    let limiter = SlidingWindowLimiter::strict(SECOND, 1, 10).unwrap();
    assert_eq!(passed(&limiter, ms(5_999), 20), 10);
    assert_eq!(passed(&limiter, ms(6_999), 20), 0);
    assert_eq!(passed(&limiter, ms(7_000), 20), 10);
}

#[test]
fn a_strict_limiter_runs_on_its_clock() {
    let time = ManualClock::new();
    let clock = Clock::manual(time.clone());
    let limiter = SlidingWindowLimiter::strict_with_clock(SECOND, 10, 5, clock).unwrap();
    assert_eq!((0..9).filter(|_| limiter.try_acquire()).count(), 5);
    assert!(limiter.current_qps() > 4.5 && limiter.current_qps() < 5.0);
    time.advance(SECOND + Duration::from_millis(100));
    assert!(limiter.try_acquire_n(5));
    assert!(!limiter.try_acquire_n(1));
}

#[test]
fn a_geometry_is_refused_for_the_same_reasons_in_both_accountings() {
    let day = Duration::from_secs(86_400);
    assert!(SlidingWindowLimiter::strict(day, SAMPLE_COUNT_MAX - 1, 1).is_err());
    assert!(SlidingWindowLimiter::strict(day, SAMPLE_COUNT_MAX, 1).is_err());
    assert!(SlidingWindowLimiter::new(day, SAMPLE_COUNT_MAX, 1).is_ok());
    let most = Duration::from_nanos(SAMPLE_COUNT_MAX.into()) - Duration::from_nanos(1);
    assert!(SlidingWindowLimiter::strict(most, SAMPLE_COUNT_MAX - 1, 1).is_ok());
    for (length, boxes) in [
        (Duration::ZERO, 1),
        (SECOND, 0),
        (SECOND, 1_001),
        (Duration::from_millis(1), 7),
        (Duration::from_micros(1_500), 1),
    ] {
        let refused = Interval::strict(length, boxes).unwrap_err();
        assert_eq!(refused, Interval::new(length, boxes).unwrap_err());
    }
}

#[test]
fn fifty_boxes_divide_any_interval_that_a_rule_can_name() {
    for millis in [1, 3, 7, 997, 60_000, u64::from(u32::MAX)] {
        let length = Duration::from_millis(millis);
        assert!(Interval::strict(length, Interval::STRICT_BOXES).is_ok());
    }
}

// Views.

fn node() -> Node {
    Node::new(&Arc::new(NodeSettings::default()))
}

fn own(interval: &Interval) -> View<'_> {
    View::Own {
        interval: *interval,
        among: std::slice::from_ref(interval),
    }
}

#[test]
fn a_strict_interval_is_another_than_that_of_the_same_boxes() {
    let strict = Interval::strict(SECOND, 2).unwrap();
    let windows = Interval::new(SECOND, 2).unwrap();
    assert_ne!(strict, windows);
    assert_eq!((strict.length(), strict.boxes()), (SECOND, 2));
    assert_eq!((strict.is_strict(), windows.is_strict()), (true, false));
    assert_eq!(strict.accounting(), Accounting::Strict);
    assert_eq!(windows.accounting(), Accounting::Window);

    let node = node();
    let take = |interval, now| node.reserve_in(own(interval), now, 1, 1).is_ok();
    assert!(take(&strict, ms(10_400)) && take(&windows, ms(10_400)));
    assert_eq!(node.intervals(), [strict, windows]);
    assert!(!take(&strict, ms(11_000)) && take(&windows, ms(11_000)));
}

#[test]
fn a_call_holds_passes_of_both_accountings_apart() {
    let strict = Interval::strict(SECOND, 2).unwrap();
    let windows = Interval::new(SECOND, 2).unwrap();
    let node = node();
    let nodes = Nodes::new(&node, Traffic::Outbound, None, None);
    let now = ms(10_400);
    let mut holds = Holds::default();
    node.open(own(&windows), now);
    let taken = node.reserve_in(own(&strict), now, 3, 5).unwrap();
    holds.set_taken_in(Place::Resource, own(&strict), taken);
    assert_eq!(
        holds.pass_in(Place::Resource, own(&windows)),
        Hold::Nothing,
        "reserved strictly only"
    );
    holds.admit(&nodes, now, 3).unwrap();
    assert_eq!(node.passes_in(strict, now), Some(3));
    assert_eq!(node.passes_in(windows, now), Some(3));
    holds.release(&nodes, 3);
    assert_eq!(node.passes_in(strict, now), Some(0));
}

#[test]
fn a_strict_view_nobody_asks_for_lives_as_long_as_its_counts_matter() {
    let strict = Interval::strict(SECOND, 2).unwrap();
    let node = node();
    let nodes = Nodes::new(&node, Traffic::Outbound, None, None);
    let admit = |now| Holds::default().admit(&nodes, now, 1).unwrap();
    assert!(node.reserve_in(own(&strict), ms(10_400), 1, 1).is_ok());
    // What passed at 10,400 counts until 11,500.
    admit(ms(11_499));
    assert_eq!(node.passes_in(strict, ms(11_499)), Some(2));
    admit(ms(12_000));
    assert_eq!(node.intervals(), []);
}

// Against a log.

/// Every call that passed: when it was charged, and its weight.
struct Log {
    box_ns: u64,
    boxes: u64,
    limit: u64,
    newest: u64,
    passed: Vec<(u64, u64)>,
}

impl Log {
    fn interval(&self) -> u64 {
        self.box_ns * self.boxes
    }

    /// A reading behind the newest counts as the newest.
    fn charge(&mut self, reading: u64) -> u64 {
        self.newest = self.newest.max(reading);
        self.newest
    }

    /// Weights in the box of `at` and the `boxes` before it.
    fn counted(&self, at: u64) -> u64 {
        let first = (at / self.box_ns).saturating_sub(self.boxes);
        let counts = |&&(time, _): &&(u64, u64)| time / self.box_ns >= first;
        self.passed.iter().filter(counts).map(|(_, n)| n).sum()
    }

    fn fits(&self, at: u64, weight: u64) -> bool {
        self.counted(at) + weight <= self.limit
    }

    /// The most that any span of the interval holds, its beginning included and
    /// its end not. The fullest one begins with a call.
    fn fullest(&self) -> u64 {
        let sum_from = |start: u64| -> u64 {
            let inside =
                |&&(time, _): &&(u64, u64)| (start..start + self.interval()).contains(&time);
            self.passed.iter().filter(inside).map(|(_, n)| n).sum()
        };
        let spans = self.passed.iter().map(|(start, _)| sum_from(*start));
        spans.max().unwrap_or(0)
    }

    /// A window in which the same has passed.
    fn replayed(&self) -> SlidingWindow {
        let window = self.window();
        for (time, weight) in &self.passed {
            let _ = window.pass(ns(*time), *weight as u32);
        }
        window
    }

    fn window(&self) -> SlidingWindow {
        SlidingWindow::strict(self.boxes as u32, Duration::from_nanos(self.interval())).unwrap()
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// The clock, also back.
    Move(i64),
    Call(u32),
    GiveBack(prop::sample::Index),
}

/// In thousandths of the interval.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let by = prop_oneof![
        6 => 0_i64..60,
        3 => 0_i64..400,
        1 => 900_i64..1_200,
        1 => -700_i64..0,
    ];
    let step = prop_oneof![
        4 => by.prop_map(Step::Move),
        8 => (1_u32..5).prop_map(Step::Call),
        1 => any::<prop::sample::Index>().prop_map(Step::GiveBack),
    ];
    proptest::collection::vec(step, 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_span_of_the_interval_ever_holds_more_than_the_limit_and_no_call_is_refused_in_vain(
        boxes in 1_u64..60,
        box_ns in 20_u64..2_000,
        limit in 0_u64..25,
        steps in steps(),
    ) {
        let mut log = Log { box_ns, boxes, limit, newest: 0, passed: Vec::new() };
        let window = log.window();
        let mut held: Vec<(Taken, (u64, u64))> = Vec::new();
        let mut reading = 10 * log.interval() + 7;
        for step in steps {
            match step {
                Step::Move(by) => {
                    let by = by * log.interval() as i64 / 1_000;
                    reading = reading.saturating_add_signed(by);
                }
                Step::Call(weight) => {
                    let (at, amount) = (log.charge(reading), u64::from(weight));
                    let fits = log.fits(at, amount);
                    let probed = window.probe(ns(reading), weight, limit);
                    let got = window.reserve(ns(reading), weight, limit);
                    prop_assert_eq!((probed.is_ok(), got.is_ok()), (fits, fits));
                    match got {
                        Ok(taken) => {
                            log.passed.push((at, amount));
                            prop_assert_eq!(taken.sum(), log.counted(at));
                            held.push((taken, (at, amount)));
                        }
                        Err(full) => {
                            prop_assert_eq!(full.sum, log.counted(at));
                            prop_assert_eq!(probed.unwrap_err(), full);
                            prop_assert_eq!(full.retry_after.is_none(), amount > limit);
                            if let Some(after) = full.retry_after {
                                // A reading behind the newest box waits from there.
                                let from = reading.max(at / box_ns * box_ns);
                                let then = from + after.as_nanos() as u64;
                                let at_time = |time| log.replayed().reserve(ns(time), weight, limit);
                                prop_assert!(at_time(then).is_ok(), "too early");
                                prop_assert!(at_time(then - 1).is_err(), "too late");
                            }
                        }
                    }
                }
                Step::GiveBack(index) if !held.is_empty() => {
                    let (taken, entry) = held.swap_remove(index.index(held.len()));
                    window.give_back(taken);
                    let at = log.passed.iter().position(|it| *it == entry).unwrap();
                    log.passed.remove(at);
                }
                Step::GiveBack(_) => {}
            }
            let now = log.charge(reading);
            prop_assert_eq!(window.passes(ns(reading)), log.counted(now));
            prop_assert!(log.fullest() <= limit, "{} in one interval", log.fullest());
        }
    }

    #[test]
    fn under_full_load_the_one_box_more_is_all_that_is_given_up(
        boxes in 1_u64..60,
        limit in 1_u64..40,
        offset in 0_u64..1_000,
        calls_per_box in 1_u64..5,
    ) {
        const BOX_NS: u64 = 1_000;
        let interval = Duration::from_nanos(BOX_NS * boxes);
        let limiter = SlidingWindowLimiter::strict(interval, boxes as u32, limit).unwrap();
        // Whole rounds of all boxes that count, with as many calls as may pass
        // at each of a few moments of every box.
        let rounds = 5;
        let moments = rounds * (boxes + 1) * calls_per_box;
        let start = 1_000_000 * (boxes + 1) * BOX_NS;
        let within = |moment| offset % (BOX_NS / calls_per_box) + moment * BOX_NS / calls_per_box;
        let passed: u64 = (0..moments)
            .map(|moment| passed(&limiter, ns(start + within(moment)), limit))
            .sum();
        // So boxes / (boxes + 1) of the limit per interval.
        prop_assert_eq!(passed, rounds * limit);
    }
}

/// The log of each thread has the box that a call was charged to; a span of the
/// interval touches one box more than it holds.
#[test]
fn eight_threads_never_exceed_the_limit_in_any_interval() {
    const LIMIT: u64 = 40;
    const BOXES: u64 = 20;
    let node = node();
    let interval = Interval::strict(Duration::from_millis(BOXES), BOXES as u32).unwrap();
    let clock = AtomicU64::new(0);
    let work = || {
        let mut mine = Vec::new();
        for round in 0..20_000_u64 {
            let at = match round % 16 {
                0 => clock.fetch_add(1, Ordering::Relaxed),
                _ => clock.load(Ordering::Relaxed),
            };
            let now = ms(1_000_000 + at / 8);
            let Ok(taken) = node.reserve_in(own(&interval), now, 1, LIMIT) else {
                continue;
            };
            // Some are refused later on; what they held may be in a box before.
            if round % 3 == 0 {
                node.give_back(Hold::Passed(taken));
                continue;
            }
            let mut holds = Holds::default();
            holds.set_taken_in(Place::Resource, own(&interval), taken);
            let nodes = Nodes::new(&node, Traffic::Outbound, None, None);
            holds.admit(&nodes, now, 1).unwrap();
            mine.push(taken.to_words()[0]);
        }
        mine
    };
    let numbers: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut boxes = std::collections::BTreeMap::<u64, u64>::new();
    for number in numbers {
        *boxes.entry(number).or_default() += 1;
    }
    let newest = *boxes.keys().last().unwrap();
    let fullest = (boxes.keys().copied().min().unwrap()..=newest)
        .map(|first| {
            boxes
                .range(first..=first + BOXES)
                .map(|(_, n)| n)
                .sum::<u64>()
        })
        .max();
    assert_eq!(fullest, Some(LIMIT), "offered is far more than the limit");
    // Nothing is left of what was given back.
    let last = ms(newest);
    let kept: u64 = boxes.range(newest - BOXES..).map(|(_, n)| n).sum();
    assert_eq!(node.passes_in(interval, last), Some(kept));
}

//! Threads that meet on one ring while time moves. No property here depends on
//! the machine's clock or on who is fast.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use flowgate_core::leap_array::cell::Counter;
use flowgate_core::leap_array::{Borrowed, PassCell, Span};
use flowgate_core::node::Passing;
use flowgate_core::node::permits::Share;
use flowgate_core::{
    Clock, LeapArray, ManualClock, MetricBucket, MetricEvent, Node, NodeSettings,
    SlidingWindowLimiter, Timestamp,
};

const THREADS: usize = 8;
const BOX: Duration = Duration::from_millis(10);

/// Runs `work` on `THREADS` threads until `drive` returns; gives the sum of
/// what they return.
fn on_threads(work: impl Fn(&AtomicBool) -> u64 + Sync, drive: impl FnOnce()) -> u64 {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| work(&done))).collect();
        drive();
        done.store(true, Ordering::Release);
        workers.into_iter().map(|w| w.join().unwrap()).sum()
    })
}

/// Gives way until `condition` holds.
fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// Whoever is late with an old reading is charged to the newest window; as each
/// window is left only when it is full, the total is exact.
#[test]
fn each_window_admits_exactly_the_limit_from_eight_threads() {
    const LIMIT: u64 = 100;
    const WINDOWS: u64 = 1_000;
    let time = ManualClock::new();
    let clock = Clock::manual(time.clone());
    let limiter = SlidingWindowLimiter::with_clock(BOX, 1, LIMIT, clock).unwrap();
    let refused = AtomicU64::new(0);
    let passed = on_threads(
        |done| {
            let mut passed = 0;
            while !done.load(Ordering::Acquire) {
                if limiter.try_acquire() {
                    passed += 1;
                } else {
                    refused.fetch_add(1, Ordering::Relaxed);
                    thread::yield_now();
                }
            }
            passed
        },
        || {
            for window in 0..WINDOWS {
                if window > 0 {
                    time.advance(BOX);
                }
                let before = refused.load(Ordering::Relaxed);
                // Offered more than the limit: some are refused.
                until(|| {
                    let sum = limiter.passed_at(time.now());
                    assert!(sum <= LIMIT, "{sum} in window {window}");
                    sum == LIMIT && refused.load(Ordering::Relaxed) > before + 10
                });
            }
        },
    );
    assert_eq!(passed, LIMIT * WINDOWS);
}

/// The ring is longer than the span, so that every window can be checked when
/// all is over.
#[test]
fn every_span_of_ten_boxes_holds_exactly_the_limit_from_eight_threads() {
    const LIMIT: u64 = 57;
    const BOXES: u64 = 1_500;
    let time = ManualClock::new();
    let ring: LeapArray<PassCell> = LeapArray::new(2_000, BOX * 2_000).unwrap();
    let span = Span::new(1, 10);
    let passed = on_threads(
        |done| {
            let mut passed = 0;
            while !done.load(Ordering::Acquire) {
                match ring.reserve(time.now(), 1, span, LIMIT, None) {
                    Ok(_taken) => passed += 1,
                    Err(_full) => thread::yield_now(),
                }
            }
            passed
        },
        || {
            for number in 0..BOXES {
                // Three of four boxes are left before the span is full.
                let now = time.now();
                until(|| number % 4 != 0 || ring.passes_in(now, span, None) == LIMIT);
                time.advance(BOX);
            }
            until(|| ring.passes_in(time.now(), span, None) == LIMIT);
        },
    );
    let mut counts = vec![0; BOXES as usize + 1];
    for window in ring.windows(time.now()) {
        counts[window.number() as usize] = window.bucket().get(window.lap());
    }
    assert_eq!(counts.iter().sum::<u64>(), passed);
    for (last, span) in counts.windows(10).enumerate() {
        let sum = span.iter().sum::<u64>();
        assert!(sum <= LIMIT, "{sum} up to box {}", last + 9);
        if (last + 9) % 4 == 0 {
            assert_eq!(sum, LIMIT, "up to box {}", last + 9);
        }
    }
}

/// Weights, calls that give back, and loans: never more than the limit in any
/// span, the loans of begun windows included.
#[test]
fn no_span_exceeds_the_limit_with_weights_loans_and_what_is_given_back() {
    const LIMIT: u64 = 40;
    const WINDOWS: u64 = 400;
    let time = ManualClock::new();
    let ring: LeapArray<PassCell> = LeapArray::new(500, BOX * 500).unwrap();
    let borrowed = Borrowed::new(2);
    let lent: Vec<AtomicU64> = (0..WINDOWS + 4).map(|_| AtomicU64::new(0)).collect();
    let span = Span::new(1, 2);
    let (seed, refused) = (AtomicU64::new(1), AtomicU64::new(0));
    on_threads(
        |done| {
            let mut random = seed.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
            while !done.load(Ordering::Acquire) {
                // xorshift64: any sequence will do.
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let now = time.now();
                let weight = (random >> 32) as u32 % 5 + 1;
                if random.is_multiple_of(3) {
                    if let Ok((loan, _)) = ring.borrow(now, weight, span, LIMIT, BOX * 3, &borrowed)
                    {
                        let at = &lent[loan.window() as usize];
                        at.fetch_add(u64::from(weight), Ordering::Relaxed);
                    }
                } else {
                    match ring.reserve(now, weight, span, LIMIT, Some(&borrowed)) {
                        Ok(taken) if random.is_multiple_of(7) => ring.give_back(taken),
                        Ok(_kept) => {}
                        Err(_full) => {
                            refused.fetch_add(1, Ordering::Relaxed);
                            thread::yield_now();
                        }
                    }
                }
            }
            0
        },
        || {
            for _ in 0..WINDOWS {
                let before = refused.load(Ordering::Relaxed);
                until(|| refused.load(Ordering::Relaxed) > before + 10);
                time.advance(BOX);
            }
        },
    );
    let mut counts = vec![0; lent.len()];
    for window in ring.windows(time.now()) {
        counts[window.number() as usize] = window.bucket().get(window.lap());
    }
    let lent = lent.iter().map(|n| n.load(Ordering::Relaxed));
    assert!(lent.clone().sum::<u64>() > 0, "nobody borrowed");
    counts
        .iter_mut()
        .zip(lent)
        .for_each(|(count, n)| *count += n);
    for (first, pair) in counts.windows(2).enumerate() {
        let sum = pair[0] + pair[1];
        assert!(sum <= LIMIT, "{sum} in windows {first} and {}", first + 1);
    }
}

#[test]
fn all_that_is_added_while_time_moves_is_in_some_window() {
    const WINDOWS: u64 = 300;
    let time = ManualClock::new();
    let ring: LeapArray<MetricBucket> = LeapArray::new(512, BOX * 512).unwrap();
    let events = [
        MetricEvent::Block,
        MetricEvent::Success,
        MetricEvent::Exception,
        MetricEvent::Cancelled,
    ];
    let rounds = AtomicU64::new(0);
    let added = on_threads(
        |done| {
            let mut added = 0;
            while !done.load(Ordering::Acquire) {
                let now = time.now();
                for (n, event) in (1..).zip(events) {
                    ring.current(now).add(event, n);
                }
                ring.current(now).add_rt(7);
                let _taken = ring.pass(now, 2);
                added += 1;
                rounds.fetch_add(1, Ordering::Relaxed);
            }
            added
        },
        || {
            for window in 1..=WINDOWS {
                until(|| rounds.load(Ordering::Relaxed) > 50 * window);
                time.advance(BOX);
            }
        },
    );
    let total = |event| -> u64 { ring.windows(time.now()).map(|w| w.get(event)).sum() };
    for (n, event) in (1..).zip(events) {
        assert_eq!(total(event), n * added, "{event:?}");
    }
    assert_eq!(total(MetricEvent::ResponseTime), 7 * added);
    assert_eq!(total(MetricEvent::Pass), 2 * added);
}

#[test]
fn a_node_shows_every_call_of_the_minute_and_none_in_flight_at_the_end() {
    let settings = Arc::new(NodeSettings::default());
    let node = Node::new(&settings);
    let time = ManualClock::new();
    let rounds = AtomicU64::new(0);
    let calls = on_threads(
        |done| {
            let mut calls = 0;
            while !done.load(Ordering::Acquire) {
                let now = time.now();
                let passing = if calls % 4 == 0 {
                    Passing::ForNow
                } else {
                    Passing::Now
                };
                let arrived = node.arrive(now, 1, Share::NOTHING, passing).unwrap();
                node.block(now, 3);
                let failed = calls % 2 == 0;
                node.complete(time.now(), 1, Duration::from_millis(1), failed, false);
                node.leave_from(arrived.seat, 1);
                calls += 1;
                rounds.fetch_add(1, Ordering::Relaxed);
            }
            calls
        },
        || {
            // 59 seconds in half seconds: all of it stays in the minute.
            for step in 1..=118 {
                until(|| rounds.load(Ordering::Relaxed) > 100 * step);
                time.advance(Duration::from_millis(500));
            }
        },
    );
    let shown = node.snapshot(time.now());
    assert_eq!(
        (shown.total_pass, shown.total_block, shown.total_success),
        (calls, 3 * calls, calls)
    );
    assert!(shown.total_exception >= calls / 2);
    assert_eq!(shown.in_flight, 0);
}

// https://github.com/alibaba/sentinel-golang/pull/327
#[test]
fn b025_a_writer_that_is_late_by_one_box_is_counted() {
    const CALLS: u64 = 2_000;
    for boxes in [1, 2, 10] {
        let interval = Duration::from_secs(u64::from(boxes));
        // Thread A of the report, held between reading the clock and writing.
        let ring: LeapArray<Counter> = LeapArray::new(boxes, interval).unwrap();
        let mut held = ring.current(Timestamp::from_millis(999));
        ring.current(Timestamp::from_millis(1_000)).add(1);
        held.add(1);
        let now = Timestamp::from_millis(1_000);
        assert_eq!(ring.windows(now).map(|w| w.get()).sum::<u64>(), 2);

        // 32 threads whose readings are on both sides of the boundary.
        let ring: LeapArray<Counter> = LeapArray::new(boxes, interval).unwrap();
        if boxes == 1 {
            // A ring of one box forgets the first as soon as the second begins.
            ring.current(now);
        }
        thread::scope(|scope| {
            for late in 0..32 {
                let ring = &ring;
                scope.spawn(move || {
                    for call in 0..CALLS {
                        let time = Timestamp::from_millis(999 + (late + call) % 2);
                        ring.current(time).add(1);
                    }
                });
            }
        });
        let total: u64 = ring.windows(now).map(|w| w.get()).sum();
        assert_eq!(total, 32 * CALLS, "{boxes} boxes");
    }
}

//! Models of the lock-free parts: every interleaving and every value that the
//! memory model allows, for two or three threads and one property each.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p flowgate-core --test loom
//! --release`. Rings are tiny, a window is 10 ns long, and the number of
//! preemptions is bounded, so that all models together end within minutes.
//!
//! A model that never fails proves little: where a comment says "fails if", the
//! code was broken in that way and the model was seen to fail. Where it says "is to
//! fail if", that has not been tried yet.
#![cfg(loom)]
#![allow(
    missing_docs,
    reason = "without --cfg loom nothing is left to document"
)]

#[path = "loom/borrow.rs"]
mod borrow;
#[path = "loom/counters.rs"]
mod counters;
#[path = "loom/holes.rs"]
mod holes;
#[path = "loom/lease.rs"]
mod lease;
#[path = "loom/permits.rs"]
mod permits;
#[path = "loom/publish.rs"]
mod publish;
#[path = "loom/sliding.rs"]
mod sliding;
#[path = "loom/striped.rs"]
mod striped;
#[path = "loom/stripes.rs"]
mod stripes;
#[path = "loom/token_bucket.rs"]
mod token_bucket;
#[path = "loom/views.rs"]
mod views;

use std::time::Duration;

use flowgate_core::leap_array::cell::Counter;
use flowgate_core::leap_array::{PassCell, Span};
use flowgate_core::{LeapArray, Timestamp};
use loom::sync::Arc;
use loom::thread;

const WIDTH: Duration = Duration::from_nanos(10);

/// A time in the middle of window `number`.
fn at(number: u64) -> Timestamp {
    Timestamp::from_nanos(number * 10 + 5)
}

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    // Steps of one run: leases are many words.
    builder.max_branches = 10_000;
    builder.check(body);
}

fn counters(slots: u32) -> Arc<LeapArray<Counter>> {
    Arc::new(LeapArray::new(slots, WIDTH * slots).expect("windows of 10 ns"))
}

fn passes(slots: u32) -> Arc<LeapArray<PassCell>> {
    Arc::new(LeapArray::new(slots, WIDTH * slots).expect("windows of 10 ns"))
}

/// Opens window 1 and seals those before it, so that a model which is not about
/// that need not try all its orders.
fn open(ring: &LeapArray<PassCell>, span: Span) {
    let taken = ring.reserve(at(1), 1, span, 1, None);
    ring.give_back(taken.expect("the ring is empty"));
}

/// Whether a call in window `number` passes, of a span of two.
fn reserves(ring: &LeapArray<PassCell>, number: u64, limit: u64) -> bool {
    let span = Span::new(1, 2);
    ring.reserve(at(number), 1, span, limit, None).is_ok()
}

fn counted(ring: &LeapArray<PassCell>, number: u64) -> u64 {
    ring.passes_in(at(number), Span::new(1, 2), None)
}

fn total(ring: &LeapArray<Counter>, now: Timestamp) -> u64 {
    ring.windows(now).map(|window| window.get()).sum()
}

// (a) The rollover of the ring.

/// Fails if `Counter::add` counts with `Relaxed`: a slow renewer then sees the
/// count without the stamp, and renews it away.
#[test]
fn two_writers_that_open_one_window_together_lose_nothing() {
    model(3, || {
        let ring = counters(1);
        ring.current(at(1)).add(7);
        let other = Arc::clone(&ring);
        let writer = thread::spawn(move || other.current(at(2)).add(1));
        ring.current(at(2)).add(1);
        writer.join().unwrap();
        assert_eq!(total(&ring, at(2)), 2);
    });
}

/// Fails if a renewal does not stop when the head has moved past its window:
/// the late writer then gives the newer window's cell back to the older lap,
/// and every writer of the newer window turns in circles.
#[test]
fn a_writer_that_is_a_lap_late_neither_erases_nor_stops_the_newer_window() {
    model(3, || {
        let ring = counters(1);
        let late_ring = Arc::clone(&ring);
        let late = thread::spawn(move || {
            let mut window = late_ring.current(at(1));
            window.add(1);
            window.number()
        });
        ring.current(at(2)).add(1);
        let late_in = late.join().unwrap();
        let count = total(&ring, at(2));
        match late_in {
            // Counted before the rollover, or in its last instruction.
            1 => assert!((1..=2).contains(&count), "{count}"),
            _ => assert_eq!(count, 2),
        }
    });
}

/// Two windows of one ring are opened at once over old contents, and a reader
/// looks on. Fails if renewal does not compare before it swaps.
#[test]
fn windows_opened_at_once_hold_what_was_added_and_show_no_more() {
    model(2, || {
        let ring = counters(2);
        ring.current(at(1)).add(7);
        ring.current(at(2)).add(7);
        let writers: Vec<_> = [3, 4]
            .into_iter()
            .map(|number| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || ring.current(at(number)).add(1))
            })
            .collect();
        // At window 4 nothing of windows 1 and 2 counts any more.
        let seen = total(&ring, at(4));
        assert!(seen <= 2, "{seen}");
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(total(&ring, at(4)), 2);
    });
}

// (b) Reserving across a rollover.

/// Both windows are in one span, so exactly one call passes, whichever of them
/// it is charged to. Fails without sealing.
#[test]
fn of_two_calls_on_both_sides_of_a_rollover_exactly_one_passes_at_limit_one() {
    model(3, || {
        let (ring, limit) = (passes(2), 1);
        assert!(reserves(&ring, 1, limit), "the ring is empty");
        let other = Arc::clone(&ring);
        let early = thread::spawn(move || reserves(&other, 3, limit));
        let late = reserves(&ring, 4, limit);
        let passed = u64::from(early.join().unwrap()) + u64::from(late);
        assert_eq!(passed, 1);
        assert_eq!(counted(&ring, 4), 1);
    });
}

/// Where the ring is as long as the span, a late call finds the window before
/// its own gone. Here it is still there, and only the seal turns the call away.
/// Fails if a call that finds its window sealed goes on.
#[test]
fn in_a_ring_longer_than_the_span_exactly_one_of_the_two_passes_too() {
    model(3, || {
        let ring = passes(3);
        let span = Span::new(1, 2);
        open(&ring, span);
        let other = Arc::clone(&ring);
        let early = thread::spawn(move || other.reserve(at(1), 1, span, 1, None).is_ok());
        let late = ring.reserve(at(2), 1, span, 1, None).is_ok();
        let passed = u64::from(early.join().unwrap()) + u64::from(late);
        assert_eq!(passed, 1);
        assert_eq!(ring.passes_in(at(2), span, None), 1);
    });
}

/// Three threads, of which two open the newer window: a model that is large
/// even with one preemption.
#[test]
fn of_three_calls_around_a_rollover_exactly_the_limit_passes() {
    model(1, || {
        let (ring, limit) = (passes(2), 3);
        assert!(reserves(&ring, 1, limit), "the ring is empty");
        let calls: Vec<_> = [2, 2]
            .into_iter()
            .map(|number| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || u64::from(reserves(&ring, number, limit)))
            })
            .collect();
        let mine = u64::from(reserves(&ring, 1, limit));
        let passed = mine + calls.into_iter().map(|c| c.join().unwrap()).sum::<u64>();
        assert_eq!(passed, 2);
        assert_eq!(counted(&ring, 2), 3);
    });
}

/// The slot that the early call needs is the one that the late call takes
/// over. Each may pass, as no span holds both windows; the newer one must.
#[test]
fn a_call_whose_slot_is_taken_over_neither_passes_twice_nor_stops_the_newer_one() {
    model(3, || {
        let (ring, limit) = (passes(2), 1);
        let other = Arc::clone(&ring);
        let early = thread::spawn(move || reserves(&other, 3, limit));
        let late = reserves(&ring, 5, limit);
        let early = early.join().unwrap();
        assert!(early || late);
        assert_eq!(counted(&ring, 5), 1);
    });
}

/// A call that nothing limits, and one that is admitted on the sum of the
/// window before. Fails if a sealed window takes passes.
#[test]
fn a_call_that_nothing_limits_is_not_counted_in_a_window_already_added_up() {
    model(3, || {
        let ring = passes(2);
        let (both, last) = (Span::new(1, 2), Span::new(1, 1));
        open(&ring, both);
        let other = Arc::clone(&ring);
        let late = thread::spawn(move || other.pass(at(1), 1).amount());
        let is_admitted = ring.reserve(at(2), 1, both, 1, None).is_ok();
        assert_eq!(late.join().unwrap(), 1);
        // Whoever was admitted has seen nothing in window 1, and nothing may
        // have come there since.
        match is_admitted {
            true => assert_eq!(ring.passes_in(at(2), last, None), 2),
            false => assert_eq!(ring.passes_in(at(2), both, None), 1),
        }
    });
}

// (c) Giving back.

#[test]
fn what_is_given_back_admits_one_call_more_and_never_two() {
    model(3, || {
        let ring = passes(2);
        let span = Span::new(1, 2);
        let taken = ring.reserve(at(1), 1, span, 1, None).expect("empty");
        let calls: Vec<_> = [1, 2]
            .into_iter()
            .map(|number| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || ring.reserve(at(number), 1, span, 1, None).is_ok())
            })
            .collect();
        ring.give_back(taken);
        let passed: u64 = calls
            .into_iter()
            .map(|c| u64::from(c.join().unwrap()))
            .sum();
        assert!(passed <= 1);
        assert_eq!(ring.passes_in(at(2), span, None), passed);
        // Whatever was not taken meanwhile is there to be taken.
        assert_eq!(ring.reserve(at(2), 1, span, 1, None).is_ok(), passed == 0);
    });
}

/// A place given back a lap late must not be taken out of the newer window.
#[test]
fn giving_back_after_the_slot_was_taken_over_takes_nothing_from_the_newer_window() {
    model(3, || {
        let ring = passes(1);
        let span = Span::new(1, 1);
        let taken = ring.reserve(at(1), 1, span, 1, None).expect("empty");
        let other = Arc::clone(&ring);
        let call = thread::spawn(move || other.reserve(at(2), 1, span, 1, None).is_ok());
        ring.give_back(taken);
        assert!(call.join().unwrap());
        assert_eq!(ring.passes_in(at(2), span, None), 1);
    });
}

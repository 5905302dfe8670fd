//! Models of the lock-free parts: every interleaving and every value that the
//! memory model allows, for two or three threads and one property each.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p flowgate-core --test loom
//! --release`. Rings are tiny, a window is 10 ns long, and the number of
//! preemptions is bounded, so that all models together end within minutes.
//!
//! A model that never fails proves little: where a comment says "fails if", the
//! code was broken in that way and the model was seen to fail.
#![cfg(loom)]
#![allow(
    missing_docs,
    reason = "without --cfg loom nothing is left to document"
)]

#[path = "loom/permits.rs"]
mod permits;
#[path = "loom/sliding.rs"]
mod sliding;
#[path = "loom/token_bucket.rs"]
mod token_bucket;

use std::time::Duration;

use flowgate_core::leap_array::cell::Counter;
use flowgate_core::leap_array::{Borrowed, PassCell, Span};
use flowgate_core::publish::{Derived, Published};
use flowgate_core::{LeapArray, SlidingWindowLimiter, Timestamp};
use loom::sync::Arc;
use loom::thread;

const WIDTH: Duration = Duration::from_nanos(10);
/// Long enough for a borrower to wait for any window.
const PATIENT: Duration = Duration::from_secs(1);

/// A time in the middle of window `number`.
fn at(number: u64) -> Timestamp {
    Timestamp::from_nanos(number * 10 + 5)
}

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
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

fn limiter(boxes: u32, threshold: u64) -> Arc<SlidingWindowLimiter> {
    let limiter = SlidingWindowLimiter::new(WIDTH * boxes, boxes, threshold);
    Arc::new(limiter.expect("boxes of 10 ns"))
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
        let limiter = limiter(2, 1);
        limiter.acquire_at(at(1), 1).expect("the ring is empty");
        let other = Arc::clone(&limiter);
        let early = thread::spawn(move || other.acquire_at(at(3), 1).is_ok());
        let late = limiter.acquire_at(at(4), 1).is_ok();
        let passed = u64::from(early.join().unwrap()) + u64::from(late);
        assert_eq!(passed, 1);
        assert_eq!(limiter.passed_at(at(4)), 1);
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
        let limiter = limiter(2, 3);
        limiter.acquire_at(at(1), 1).expect("the ring is empty");
        let calls: Vec<_> = [2, 2]
            .into_iter()
            .map(|number| {
                let limiter = Arc::clone(&limiter);
                thread::spawn(move || u64::from(limiter.acquire_at(at(number), 1).is_ok()))
            })
            .collect();
        let mine = u64::from(limiter.acquire_at(at(1), 1).is_ok());
        let passed = mine + calls.into_iter().map(|c| c.join().unwrap()).sum::<u64>();
        assert_eq!(passed, 2);
        assert_eq!(limiter.passed_at(at(2)), 3);
    });
}

/// The slot that the early call needs is the one that the late call takes
/// over. Each may pass, as no span holds both windows; the newer one must.
#[test]
fn a_call_whose_slot_is_taken_over_neither_passes_twice_nor_stops_the_newer_one() {
    model(3, || {
        let limiter = limiter(2, 1);
        let other = Arc::clone(&limiter);
        let early = thread::spawn(move || other.acquire_at(at(3), 1).is_ok());
        let late = limiter.acquire_at(at(5), 1).is_ok();
        let early = early.join().unwrap();
        assert!(early || late);
        assert_eq!(limiter.passed_at(at(5)), 1);
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

// (d) Borrowing against ordinary calls.

/// The window borrowed from still holds the present one, so at limit one there
/// is room for one of them. Fails if a borrower does not confirm.
#[test]
fn of_a_borrower_and_an_ordinary_call_exactly_one_gets_the_last_place() {
    model(3, || {
        let ring = passes(2);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        open(&ring, span);
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let ordinary = thread::spawn(move || r.reserve(at(1), 1, span, 1, Some(&b)).is_ok());
        let loan = ring.borrow(at(1), 1, span, 1, WIDTH, &borrowed).is_ok();
        let ordinary = ordinary.join().unwrap();
        assert!(loan != ordinary, "loan {loan}, ordinary {ordinary}");
        assert_eq!(ring.passes_in(at(2), span, Some(&borrowed)), 1);
    });
}

/// The ordinary call arrives in the window that is being borrowed from.
#[test]
fn a_borrower_and_a_call_of_the_window_it_borrows_from_hold_the_limit() {
    model(2, || {
        let ring = passes(2);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        open(&ring, span);
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let ordinary = thread::spawn(move || r.reserve(at(2), 1, span, 1, Some(&b)).is_ok());
        let _ = ring.borrow(at(1), 1, span, 1, PATIENT, &borrowed);
        let _ = ordinary.join().unwrap();
        assert!(ring.passes_in(at(2), span, Some(&borrowed)) <= 1);
        assert!(ring.passes_in(at(3), span, Some(&borrowed)) <= 1);
    });
}

/// Of two borrowers at limit one, one waits in vain: never both, never none.
#[test]
fn of_two_borrowers_exactly_one_gets_the_last_place() {
    model(3, || {
        let ring = passes(2);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        open(&ring, span);
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let other = thread::spawn(move || r.borrow(at(1), 1, span, 1, PATIENT, &b).is_ok());
        let mine = ring.borrow(at(1), 1, span, 1, PATIENT, &borrowed).is_ok();
        let other = other.join().unwrap();
        assert!(!(mine && other));
        assert_eq!(
            borrowed.waiting(span, 1),
            u64::from(mine) + u64::from(other)
        );
    });
}

/// One pass is given back and taken again while somebody borrows: the word of the
/// window is then as it was, though in between there was room. Fails if a
/// borrower, or an ordinary caller that looks ahead, counts the present window
/// anew instead of by the word that it will swap.
#[test]
fn a_borrower_does_not_lend_what_was_free_for_a_moment_only() {
    model(3, || {
        let ring = passes(2);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        open(&ring, span);
        let held = ring.reserve(at(1), 1, span, 1, None).expect("all is free");
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let ordinary = thread::spawn(move || {
            r.give_back(held);
            r.reserve(at(1), 1, span, 1, Some(&b)).is_ok()
        });
        let loan = ring.borrow(at(1), 1, span, 1, WIDTH, &borrowed).is_ok();
        let ordinary = ordinary.join().unwrap();
        assert!(!(loan && ordinary), "both have it");
        assert!(ring.passes_in(at(2), span, Some(&borrowed)) <= 1);
    });
}

/// A borrower goes ahead early, by its clock, while another call is in the
/// window borrowed from. Fails if a caller does not look for unsettled amounts
/// after it has added up.
#[test]
fn a_borrower_that_goes_ahead_early_is_never_out_of_the_count() {
    model(3, || {
        let ring = passes(2);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        let (loan, _) = ring
            .borrow(at(1), 1, span, 1, WIDTH, &borrowed)
            .expect("all is free");
        ring.current(at(2));
        let b = Arc::clone(&borrowed);
        let early = thread::spawn(move || b.go_early(loan));
        let refused = ring.reserve(at(2), 1, span, 1, Some(&borrowed));
        assert!(refused.is_err());
        early.join().unwrap();
        assert_eq!(ring.passes_in(at(2), span, Some(&borrowed)), 1);
    });
}

/// Fails if amounts are taken from the early ones before they are added to the
/// firm ones.
#[test]
fn two_callers_that_settle_one_early_loan_count_it_once() {
    model(2, || {
        let ring = passes(2);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        let (loan, _) = ring
            .borrow(at(1), 1, span, 1, WIDTH, &borrowed)
            .expect("all is free");
        borrowed.go_early(loan);
        // Opened before, as this is not about that; it settles nothing.
        ring.current(at(2));
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let other = thread::spawn(move || r.reserve(at(2), 1, span, 1, Some(&b)).is_ok());
        assert!(ring.reserve(at(2), 1, span, 1, Some(&borrowed)).is_err());
        assert!(!other.join().unwrap());
        assert_eq!(borrowed.amount(2), 1);
    });
}

/// A node's ring is longer than its span, so the borrower's own window is not
/// always among those that a later call seals. Fails if a borrower does not
/// look at the head again after it has shown its amount.
#[test]
fn a_borrower_overtaken_by_the_window_it_borrows_from_does_not_exceed_it() {
    model(3, || {
        let ring = passes(4);
        let borrowed = Arc::new(Borrowed::new(1));
        let span = Span::new(1, 1);
        open(&ring, span);
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let ordinary = thread::spawn(move || r.reserve(at(2), 1, span, 1, Some(&b)).is_ok());
        let _ = ring.borrow(at(1), 1, span, 1, PATIENT, &borrowed);
        let _ = ordinary.join().unwrap();
        assert!(ring.passes_in(at(2), span, Some(&borrowed)) <= 1);
        assert!(ring.passes_in(at(3), span, Some(&borrowed)) <= 1);
    });
}

/// Fails if a late borrower may overwrite the amount of a newer window.
#[test]
fn a_borrower_that_is_laps_late_does_not_erase_a_newer_loan() {
    model(3, || {
        let ring = passes(4);
        let borrowed = Arc::new(Borrowed::new(1));
        let span = Span::new(1, 1);
        // Windows 2 and 5 share a word of `Borrowed`: it has three.
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let late = thread::spawn(move || {
            let _ = r.borrow(at(1), 1, span, 1, WIDTH, &b);
        });
        let newer = ring.borrow(at(4), 1, span, 1, WIDTH, &borrowed);
        late.join().unwrap();
        assert_eq!(borrowed.amount(5), u64::from(newer.is_ok()));
    });
}

// (e) Plans that are swapped while calls run.

/// What a chain is to a plan. Two fields, to see a mixture if there were one.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Chain(u64, u64);

fn chain(derived: &Derived<Chain>, plan: &Published<u64>) -> Chain {
    derived.with(plan, |plan| Chain(*plan, *plan), |chain| *chain)
}

#[test]
fn a_call_sees_one_plan_and_never_an_older_one_than_before() {
    model(3, || {
        let plan = Arc::new(Published::new(1));
        let derived = Arc::new(Derived::new(Chain(0, 0)));
        let (p, d) = (Arc::clone(&plan), Arc::clone(&derived));
        let publisher = thread::spawn(move || {
            p.publish(2);
            // Published: whoever starts anew sees it.
            assert_eq!(chain(&d, &p), Chain(2, 2));
        });
        let (p, d) = (Arc::clone(&plan), Arc::clone(&derived));
        let caller = thread::spawn(move || {
            let (first, second) = (chain(&d, &p), chain(&d, &p));
            assert_eq!((first.0, second.0), (first.1, second.1));
            assert!(1 <= first.0 && first.0 <= second.0, "{first:?}, {second:?}");
        });
        publisher.join().unwrap();
        // The other caller may still be about to store what it made of plan 1.
        assert_eq!(chain(&derived, &plan), Chain(2, 2));
        caller.join().unwrap();
        assert_eq!(chain(&derived, &plan), Chain(2, 2));
    });
}

/// Fails if `Derived` keeps whatever was finished last: the slow caller then
/// puts its chain of plan 1 over that of plan 2 while the swap is under way.
#[test]
fn a_caller_that_finishes_an_old_chain_late_takes_nobody_back() {
    model(3, || {
        let plan = Arc::new(Published::new(1));
        let derived = Arc::new(Derived::new(Chain(0, 0)));
        let other = Arc::clone(&plan);
        let publisher = thread::spawn(move || other.publish(2));
        let (p, d) = (Arc::clone(&plan), Arc::clone(&derived));
        let slow = thread::spawn(move || chain(&d, &p));
        let (first, second) = (chain(&derived, &plan), chain(&derived, &plan));
        assert!(first.0 <= second.0, "{first:?}, {second:?}");
        assert_eq!(publisher.join().unwrap(), 2);
        let _ = slow.join().unwrap();
        assert_eq!(chain(&derived, &plan), Chain(2, 2));
    });
}

/// Fails if `publish` raises the generation before it stores the value.
#[test]
fn who_sees_a_generation_finds_its_value_or_a_newer_one() {
    model(3, || {
        let plan = Arc::new(Published::new(1));
        let other = Arc::clone(&plan);
        let publisher = thread::spawn(move || {
            other.publish(2);
            other.publish(3);
        });
        let promised = plan.generation();
        let (found, value) = plan.load();
        assert!(found >= promised, "{found} after {promised}");
        assert_eq!(found, *value);
        publisher.join().unwrap();
    });
}

/// Two swaps in a row, one reader: it never goes back.
#[test]
fn a_call_follows_two_swaps_forward_only() {
    model(3, || {
        let plan = Arc::new(Published::new(1));
        let derived = Arc::new(Derived::new(Chain(0, 0)));
        let other = Arc::clone(&plan);
        let publisher = thread::spawn(move || {
            assert_eq!(other.publish(2), 2);
            assert_eq!(other.publish(3), 3);
        });
        let seen = [chain(&derived, &plan), chain(&derived, &plan)];
        assert!(seen[0].0 <= seen[1].0, "{seen:?}");
        assert!(seen.iter().all(|c| c.0 == c.1 && (1..=3).contains(&c.0)));
        publisher.join().unwrap();
        assert_eq!(chain(&derived, &plan), Chain(3, 3));
    });
}

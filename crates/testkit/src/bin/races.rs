//! The lock-free parts from four threads for each processor, for a run under
//! ThreadSanitizer: `scripts/tsan.sh` builds and runs it.
//!
//! It uses atomics, threads and nothing else of the standard library that waits:
//! locks, channels and one-time cells of an uninstrumented `std` would be taken
//! for races. What each part promises is checked too, so it may be run without
//! the sanitizer. Panics, with exit code 101, if a promise is broken.

#![expect(clippy::print_stdout, reason = "this program's output is its purpose")]
#![expect(clippy::expect_used, reason = "a broken promise is to end it")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use flowgate_core::leap_array::{Borrowed, PassCell, Span};
use flowgate_core::node::permits::{Permits, Share};
use flowgate_core::publish::{Derived, Published};
use flowgate_core::token_bucket::{Quota, TokenBucket};
use flowgate_core::{LeapArray, Timestamp};
use flowgate_rules::flow::pacing::Pacer;

const ROUNDS: u64 = 2_000;
const BOX: Duration = Duration::from_millis(10);

fn main() {
    let parts: [(&str, fn()); 5] = [
        ("passes, loans and what is given back", passes),
        ("permits", permits),
        ("places in a line", places),
        ("tokens", tokens),
        ("a plan that is swapped", plans),
    ];
    for (name, part) in parts {
        part();
        println!("{name}: as promised");
    }
}

/// Lives to the end of the program, so that nothing is freed under way: what
/// counts references in `std` is not instrumented either.
fn shared<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Runs `work` on all threads; returns the sum of what they say.
fn crowd(work: impl Fn(u64) -> u64 + Copy + Send + 'static) -> u64 {
    let threads = 4 * thread::available_parallelism().map_or(2, usize::from) as u64;
    let threads: Vec<_> = (0..threads)
        .map(|number| thread::spawn(move || work(number)))
        .collect();
    let sums = threads.into_iter().map(thread::JoinHandle::join);
    sums.map(|sum| sum.expect("a thread has failed")).sum()
}

fn passes() {
    const LIMIT: u64 = 50;
    let ring: &LeapArray<PassCell> = shared(LeapArray::new(4, BOX * 4).expect("boxes of 10 ms"));
    let borrowed = shared(Borrowed::new(2));
    let (span, clock) = (Span::new(1, 2), shared(AtomicU64::new(0)));
    crowd(move |number| {
        for round in 0..ROUNDS {
            // Whoever comes moves the time: a box is 64 steps long.
            let step = clock.fetch_add(1, Ordering::Relaxed);
            let now = Timestamp::from_nanos(step * BOX.as_nanos() as u64 / 64);
            match (number + round) % 4 {
                0 => {
                    if let Ok((loan, _)) = ring.borrow(now, 1, span, LIMIT, BOX * 3, borrowed)
                        && round % 3 == 0
                    {
                        ring.repay(borrowed, loan);
                    }
                }
                1 => {
                    if let Ok(taken) = ring.reserve(now, 2, span, LIMIT, Some(borrowed)) {
                        ring.give_back(taken);
                    }
                }
                _ => _ = ring.reserve(now, 1, span, LIMIT, Some(borrowed)),
            }
        }
        0
    });
    let now = Timestamp::from_nanos(clock.load(Ordering::Relaxed) * BOX.as_nanos() as u64 / 64);
    let sum = ring.passes_in(now, span, Some(borrowed));
    assert!(sum <= LIMIT, "{sum} passes");
}

fn permits() {
    const LIMIT: u64 = 5;
    let permits = shared(Permits::new());
    let inside = shared(AtomicU64::new(0));
    crowd(move |number| {
        let weight = 1 + (number % 3) as u32;
        for _ in 0..ROUNDS {
            if permits.try_take(Share::WHOLE, weight, LIMIT).is_ok() {
                let now = inside.fetch_add(weight.into(), Ordering::SeqCst) + u64::from(weight);
                assert!(now <= LIMIT, "{now} inside");
                inside.fetch_sub(weight.into(), Ordering::SeqCst);
                permits.leave(Share::WHOLE, weight);
            }
        }
        0
    });
    assert_eq!((permits.calls(), permits.permits()), (0, 0));
}

fn places() {
    const COST_NS: u64 = 1_000;
    let pacer = shared(Pacer::default());
    let now = Timestamp::from_millis(1);
    let taken = crowd(move |_| {
        let places = (0..ROUNDS).map(|_| pacer.request(now, COST_NS, u64::MAX >> 1));
        places.filter(Result::is_ok).count() as u64
    });
    // All places before the next one are taken, each once.
    let next = pacer.request(now, COST_NS, u64::MAX >> 1);
    let next = next.expect("there is no end of places").release_ns - now.as_nanos();
    assert_eq!(next, taken * COST_NS);
}

fn tokens() {
    const BURST: u64 = 10_000;
    let quota = Quota::new(1.0, Duration::from_secs(1), BURST).expect("whole numbers");
    let bucket = shared(TokenBucket::new(quota));
    let now = Timestamp::from_millis(1_000);
    let taken = crowd(move |_| {
        let tokens = (0..ROUNDS).map(|_| bucket.take(now, 1));
        tokens.filter(Result::is_ok).count() as u64
    });
    assert_eq!(taken, BURST);
}

fn plans() {
    let plan = shared(Published::new(0_u64));
    let derived = shared(Derived::new(0_u64));
    crowd(move |number| {
        let mut last = 0;
        for round in 0..ROUNDS {
            // Publishers take turns; here there is one.
            if number == 0 && round % 8 == 0 {
                plan.publish(round);
            }
            let seen = ***derived.current(plan, |_, _| false, |plan| *plan);
            assert!(seen >= last, "{seen} after {last}");
            last = seen;
        }
        0
    });
}

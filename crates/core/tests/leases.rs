//! Passes reserved in advance decide as passes reserved one by one.

use std::time::Duration;

use flowgate_core::leap_array::{Borrowed, Full, Lease, Leases, Loan, PassCell, Span, Taken};
use flowgate_core::seat::Seat;
use flowgate_core::striped::Striped;
use flowgate_core::{LeapArray, Timestamp};
use proptest::prelude::*;

const BOX: Duration = Duration::from_millis(100);
const BOXES: u32 = 12;

fn ring() -> LeapArray<PassCell> {
    LeapArray::new(BOXES, BOX * BOXES).expect("boxes of 100 ms")
}

fn start() -> Timestamp {
    Timestamp::from_millis(1_000_000)
}

/// The leases of so many threads that have met, as seen by one of them. The last
/// one has none: it has no seat.
struct Met<'a>(&'a [Lease], usize);

impl Leases for Met<'_> {
    fn mine(&self) -> Option<&Lease> {
        self.0.get(self.1)
    }

    fn come(&self) -> Option<&Lease> {
        self.mine()
    }

    fn meet(&self) {}

    fn is_spread(&self) -> bool {
        true
    }

    fn all(&self) -> impl Iterator<Item = &Lease> {
        self.0.iter()
    }
}

/// A ring with loans, and leases for three threads.
struct Leased {
    ring: LeapArray<PassCell>,
    borrowed: Borrowed,
    leases: [Lease; 3],
    span: Span,
}

impl Leased {
    fn new(span: Span, windows: u64) -> Self {
        Leased {
            ring: ring(),
            borrowed: Borrowed::new(windows),
            leases: Default::default(),
            span,
        }
    }

    fn takes(&self, thread: usize, now: Timestamp, n: u32, limit: u64) -> Result<Taken, Full> {
        let (leases, borrowed) = (Met(&self.leases, thread), &self.borrowed);
        (self.ring).reserve_leased(now, n, self.span, limit, borrowed, &leases)
    }

    fn borrows(&self, now: Timestamp, n: u32, limit: u64) -> Option<(Loan, Duration)> {
        self.ring.reclaim(&Met(&self.leases, 0), |_| true);
        let (span, patience) = (self.span, Duration::from_secs(1));
        let lent = (self.ring).borrow(now, n, span, limit, patience, &self.borrowed);
        lent.ok()
    }

    fn used(&self, now: Timestamp) -> u64 {
        let all = 0..=u64::MAX;
        let counted = || self.ring.passes_in(now, self.span, Some(&self.borrowed));
        Met(&self.leases, 0).used(&all, counted)
    }
}

/// What may happen next.
#[derive(Clone, Debug)]
enum Step {
    Call {
        thread: usize,
        weight: u32,
    },
    /// Many calls of weight 1.
    Calls {
        thread: usize,
        calls: usize,
    },
    Borrow(u32),
    GiveBack(usize),
    Repay,
    Time(i64),
    Limit(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4_usize, 0..30_u32).prop_map(|(thread, weight)| Step::Call { thread, weight }),
        8 => (0..4_usize, 1..60_usize).prop_map(|(thread, calls)| Step::Calls { thread, calls }),
        1 => (1..20_u32).prop_map(Step::Borrow),
        4 => (0..200_usize).prop_map(Step::GiveBack),
        1 => Just(Step::Repay),
        // Sometimes back, mostly within a box.
        6 => (-60..250_i64).prop_map(Step::Time),
        1 => (1..400_u64).prop_map(Step::Limit),
    ]
}

proptest! {
    /// One after another, calls find with leases just what they find without: the
    /// same decisions, sums and times, whoever holds what.
    #[test]
    fn calls_of_several_threads_find_what_they_would_find_without_leases(
        (group, windows) in prop_oneof![Just((1, 2)), Just((1, 10)), Just((5, 2)), Just((1, 1))],
        limit in 1..400_u64,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let span = Span::new(group, windows);
        let (leased, plain) = (Leased::new(span, windows), Leased::new(span, windows));
        let (mut now, mut limit) = (start(), limit);
        let (mut held, mut loans) = (Vec::new(), Vec::new());
        for step in steps {
            let (thread, weight, calls) = match step {
                Step::Call { thread, weight } => (thread, weight, 1),
                Step::Calls { thread, calls } => (thread, 1, calls),
                _ => (0, 0, 0),
            };
            for _ in 0..calls {
                let with = leased.takes(thread, now, weight, limit);
                let without =
                    (plain.ring).reserve(now, weight, span, limit, Some(&plain.borrowed));
                match (with, without) {
                    (Ok(with), Ok(without)) => {
                        prop_assert_eq!(with.amount(), without.amount());
                        prop_assert!(with.sum() >= without.sum() && with.sum() <= limit);
                        held.push((with, without));
                    }
                    (with, without) => prop_assert_eq!(with.err(), without.err()),
                }
            }
            match step {
                Step::Call { .. } | Step::Calls { .. } => {}
                Step::Borrow(n) => {
                    let (with, without) = (leased.borrows(now, n, limit), plain.borrows(now, n, limit));
                    prop_assert_eq!(with, without);
                    loans.extend(with.zip(without));
                }
                Step::GiveBack(at) if at < held.len() => {
                    let (with, without) = held.swap_remove(at);
                    leased.ring.give_back(with);
                    plain.ring.give_back(without);
                }
                Step::GiveBack(_) => {}
                Step::Repay => {
                    if let Some(((with, _), (without, _))) = loans.pop() {
                        leased.ring.repay(&leased.borrowed, with);
                        plain.ring.repay(&plain.borrowed, without);
                    }
                }
                Step::Time(ms) => now = Timestamp::from_millis(now.as_millis().saturating_add_signed(ms)),
                Step::Limit(next) => limit = next,
            }
            prop_assert_eq!(leased.used(now), plain.used(now));
        }
    }
}

/// Leases of real threads, as if these had met.
fn met() -> Striped<Lease> {
    let leases = Striped::default();
    let mut strangers = (0..flowgate_core::seat::SEATS).rev().map(Seat::numbered);
    let (first, second) = (strangers.next(), strangers.next());
    leases.mine_or_meet(first.flatten());
    while !leases.is_spread() {
        leases.mine_or_meet(second.flatten());
    }
    leases
}

#[test]
fn an_eighth_thread_that_asks_for_all_gets_what_seven_have_left() {
    let (ring, leases, borrowed) = (ring(), met(), Borrowed::new(2));
    let (span, now) = (Span::new(1, 2), start());
    let takes = || ring.reserve_leased(now, 1, span, 1_000, &borrowed, &leases);
    for calls in [1, 2, 3] {
        let barrier = std::sync::Barrier::new(7);
        std::thread::scope(|scope| {
            for _ in 0..7 {
                scope.spawn(|| {
                    (0..calls).for_each(|_| _ = takes().expect("there is room"));
                    // Each with a seat, and a lease, of its own.
                    barrier.wait();
                });
            }
        });
    }
    assert!(ring.passes_in(now, span, None) > 42, "nobody has a lease");
    let passed = (0..1_000).filter(|_| takes().is_ok()).count();
    assert_eq!(passed, 1_000 - 7 * 6);
}

/// Six threads, a clock that one of them moves, and calls of all weights, some of
/// which are given back: no span ever holds more than the limit, and all of it is
/// there in the end.
#[test]
fn threads_that_reserve_in_advance_around_many_edges_never_exceed_the_limit() {
    use std::sync::atomic::{AtomicU64, Ordering};
    const LIMIT: u64 = 500;
    let (ring, leases, borrowed) = (ring(), met(), Borrowed::new(2));
    let span = Span::new(1, 2);
    let clock = AtomicU64::new(start().as_millis());
    let now = || Timestamp::from_millis(clock.load(Ordering::SeqCst));
    // What was taken of each box and not given back.
    let boxes: Vec<_> = (0..400).map(|_| AtomicU64::new(0)).collect();
    let first = start().as_millis() / 100;
    std::thread::scope(|scope| {
        for thread in 0..6_u32 {
            let (ring, leases, borrowed, boxes, clock) =
                (&ring, &leases, &borrowed, &boxes, &clock);
            scope.spawn(move || {
                for turn in 0..30_000_u32 {
                    if thread == 0 && turn % 100 == 0 {
                        clock.fetch_add(50, Ordering::SeqCst);
                    }
                    let weight = if turn % 31 == 0 { 1 + turn % 5 } else { 1 };
                    let taken = ring.reserve_leased(now(), weight, span, LIMIT, borrowed, leases);
                    let Ok(taken) = taken else {
                        continue;
                    };
                    if turn % 7 == 0 {
                        ring.give_back(taken);
                    } else {
                        let number = taken.to_words()[0] - first;
                        boxes[number as usize].fetch_add(weight.into(), Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let boxes: Vec<_> = boxes.into_iter().map(AtomicU64::into_inner).collect();
    for pair in boxes.windows(2) {
        assert!(pair[0] + pair[1] <= LIMIT, "{pair:?}");
    }
    assert!(
        boxes.iter().sum::<u64>() > 10 * LIMIT,
        "hardly anybody passed"
    );
    // Nobody is there any more: the next span has all of it.
    let later = now() + 2 * BOX;
    let takes = || ring.reserve_leased(later, 1, span, LIMIT, &borrowed, &leases);
    assert_eq!(
        (0..2 * LIMIT).filter(|_| takes().is_ok()).count() as u64,
        LIMIT
    );
}

//! Reservations against a naive model: a list of what was admitted, in which
//! box, added up anew for every question.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::ops::RangeInclusive;
use std::time::Duration;

use flowgate_core::leap_array::{Borrowed, Loan, PassCell, Span, Taken};
use flowgate_core::{LeapArray, Timestamp};
use proptest::prelude::*;

const BOX_NS: u64 = 1_000;
/// Where loans are in play the limit does not change.
const LIMIT: u64 = 7;

/// Boxes per window, windows per span, boxes in the ring.
#[derive(Clone, Copy, Debug)]
struct Shape {
    group: u64,
    windows: u64,
    slots: u32,
}

const SHAPES: [Shape; 7] = [
    shape(1, 1, 1),
    shape(1, 2, 2),
    shape(1, 1, 5),
    shape(1, 2, 9),
    shape(1, 10, 10),
    shape(2, 3, 8),
    shape(5, 2, 16),
];

const fn shape(group: u64, windows: u64, slots: u32) -> Shape {
    Shape {
        group,
        windows,
        slots,
    }
}

impl Shape {
    fn ring(self) -> LeapArray<PassCell> {
        let interval = Duration::from_nanos(BOX_NS) * self.slots;
        LeapArray::new(self.slots, interval).unwrap()
    }

    fn span(self) -> Span {
        Span::new(self.group, self.windows)
    }

    fn window_ns(self) -> u64 {
        self.group * BOX_NS
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A step of time, also back.
    Move(i64),
    Reserve {
        weight: u32,
        limit: u64,
    },
    /// Gives back one of the amounts held.
    GiveBack(prop::sample::Index),
    Borrow {
        weight: u32,
        wait_max_ns: u64,
    },
    Repay(prop::sample::Index),
    /// A borrower goes ahead before its window has begun.
    GoEarly(prop::sample::Index),
}

fn moves() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => 0_i64..1_500,
        3 => 0_i64..8_000,
        1 => 0_i64..100_000,
        1 => -5_000_i64..0,
    ]
    .prop_map(Step::Move)
}

fn without_loans() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => moves(),
        6 => (1_u32..6, 0_u64..9).prop_map(|(weight, limit)| Step::Reserve { weight, limit }),
        1 => any::<prop::sample::Index>().prop_map(Step::GiveBack),
    ]
}

fn with_loans() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => moves(),
        4 => (1_u32..6).prop_map(|weight| Step::Reserve { weight, limit: LIMIT }),
        1 => any::<prop::sample::Index>().prop_map(Step::GiveBack),
        4 => (0_u32..6, 0_u64..12_000)
            .prop_map(|(weight, wait_max_ns)| Step::Borrow { weight, wait_max_ns }),
        1 => any::<prop::sample::Index>().prop_map(Step::Repay),
        1 => any::<prop::sample::Index>().prop_map(Step::GoEarly),
    ]
}

/// What was admitted, by window; loans stand at the window borrowed from.
struct Naive {
    shape: Shape,
    /// The time of the raw clock.
    now: u64,
    /// The newest box that anything touched.
    head: u64,
    passes: Vec<(u64, u64)>,
    loans: Vec<(u64, u64)>,
    /// Loans of those who have gone ahead, while their window is to come.
    early: Vec<(u64, u64)>,
}

impl Naive {
    fn new(shape: Shape) -> Self {
        Naive {
            shape,
            now: 500,
            head: 0,
            passes: Vec::new(),
            loans: Vec::new(),
            early: Vec::new(),
        }
    }

    fn step(&mut self, by: i64) {
        self.now = self.now.saturating_add_signed(by);
    }

    /// Rolls to the present; returns the present window. What was borrowed from
    /// it counts from now on; who went ahead and was not met in the window is
    /// forgotten.
    fn roll(&mut self) -> u64 {
        self.head = self.head.max(self.now / BOX_NS);
        let present = self.head / self.shape.group;
        let begun = |&mut (window, _): &mut (u64, u64)| window <= present;
        for (window, n) in self.early.extract_if(.., begun) {
            if window == present {
                self.loans.push((window, n));
            }
        }
        present
    }

    /// The time that is charged: a clock that went back stands still.
    fn charged(&self) -> u64 {
        self.now.max(self.head * BOX_NS)
    }

    /// What counts in the span that ends with `window`, if nobody comes.
    fn held(&self, window: u64) -> u64 {
        self.held_from(window, 0..=window)
    }

    /// Of that, what was taken or borrowed from one of `windows`.
    fn held_from(&self, window: u64, windows: RangeInclusive<u64>) -> u64 {
        let first = (window + 1).saturating_sub(self.shape.windows);
        let all = self.passes.iter().chain(&self.loans).chain(&self.early);
        all.filter(|(at, _)| (first..=window).contains(at) && windows.contains(at))
            .map(|(_, n)| n)
            .sum()
    }

    /// What is borrowed from windows to come.
    fn waiting(&mut self) -> u64 {
        let present = self.roll();
        let loans = self.loans.iter().chain(&self.early);
        loans.filter(|(at, _)| *at > present).map(|(_, n)| n).sum()
    }

    /// The first window to come that begins in less than `wait_max_ns` and has
    /// room beside all that is borrowed from any.
    fn lender(&mut self, weight: u32, wait_max_ns: u64) -> Option<u64> {
        let present = self.roll();
        let last = present + self.shape.windows;
        let waiting = self.waiting();
        let mut to_come = present + 1..=last;
        to_come.find(|&window| {
            let wait_ns = window * self.shape.window_ns() - self.charged();
            let left = self.held_from(window, 0..=present);
            let fits = left + waiting + u64::from(weight) <= LIMIT;
            wait_ns < wait_max_ns && waiting < LIMIT && fits
        })
    }

    /// A call at `time` passes if its own span and all that will hold it have
    /// room.
    fn fits_at(&self, time: u64, weight: u32, limit: u64) -> bool {
        let window = time / self.shape.window_ns();
        (window..window + self.shape.windows).all(|by| self.held(by) + u64::from(weight) <= limit)
    }

    /// The greatest sum of any span from the present window on.
    fn most(&mut self) -> u64 {
        let present = self.roll();
        (present..present + 3 * self.shape.windows)
            .map(|window| self.held(window))
            .max()
            .unwrap()
    }
}

/// Runs `steps` on a ring and on the model side by side.
fn run(shape: Shape, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (ring, span) = (shape.ring(), shape.span());
    let borrowed = Borrowed::new(shape.windows);
    let mut naive = Naive::new(shape);
    let mut taken: Vec<(Taken, (u64, u64))> = Vec::new();
    let mut lent: Vec<(Loan, (u64, u64))> = Vec::new();
    let mut refused = None;
    for step in steps {
        let now = |naive: &Naive| Timestamp::from_nanos(naive.now);
        match step {
            Step::Move(by) => naive.step(by),
            Step::Reserve { weight, limit } => {
                let present = naive.roll();
                let expected = naive.fits_at(naive.charged(), weight, limit);
                let asked = ring.probe(now(&naive), weight, span, limit, Some(&borrowed), None);
                let got = ring.reserve(now(&naive), weight, span, limit, Some(&borrowed));
                prop_assert_eq!(asked.is_ok(), expected);
                prop_assert_eq!(got.is_ok(), expected);
                match got {
                    Ok(ticket) => {
                        let entry = (present, u64::from(weight));
                        naive.passes.push(entry);
                        taken.push((ticket, entry));
                        prop_assert_eq!(ticket.sum(), naive.held(present));
                        prop_assert_eq!(ticket.amount(), weight);
                        refused = None;
                    }
                    Err(full) => {
                        prop_assert_eq!(asked.unwrap_err(), full);
                        // The sum is the one there was no room beside.
                        prop_assert!(full.exceeds(weight, limit));
                        prop_assert!(!full.exceeds(weight, full.sum + u64::from(weight)));
                        let after = full.retry_after.map(|d| d.as_nanos() as u64);
                        prop_assert_eq!(after.is_none(), u64::from(weight) > limit);
                        if let Some(after) = after {
                            let at = naive.charged() + after;
                            prop_assert!(naive.fits_at(at, weight, limit), "too early");
                            prop_assert!(!naive.fits_at(at - 1, weight, limit), "too late");
                            // If nobody comes in their window, early loans are
                            // forgotten: then there is room sooner.
                            refused = naive.early.is_empty().then_some((at, weight, limit));
                        }
                    }
                }
            }
            Step::GiveBack(index) => {
                if taken.is_empty() {
                    continue;
                }
                let (ticket, entry) = taken.swap_remove(index.index(taken.len()));
                ring.give_back(ticket);
                let at = naive.passes.iter().position(|e| *e == entry).unwrap();
                naive.passes.swap_remove(at);
                refused = None;
            }
            Step::Borrow {
                weight,
                wait_max_ns,
            } => {
                naive.roll();
                let wait_max = Duration::from_nanos(wait_max_ns);
                let expected = naive.lender(weight, wait_max_ns);
                let may = ring.may_borrow(now(&naive), weight, span, LIMIT, wait_max, &borrowed);
                prop_assert_eq!(may, expected.is_some());
                let got = ring.borrow(now(&naive), weight, span, LIMIT, wait_max, &borrowed);
                prop_assert_eq!(got.ok().map(|(loan, _)| loan.window()), expected);
                if let Ok((loan, wait)) = got {
                    let start = loan.window() * shape.window_ns();
                    prop_assert_eq!(wait.as_nanos() as u64, start - naive.charged());
                    // To itself the borrower is as if it had not borrowed.
                    let again = ring.probe(
                        now(&naive),
                        weight,
                        span,
                        LIMIT,
                        Some(&borrowed),
                        Some(loan),
                    );
                    let fits = naive.fits_at(naive.charged(), weight, LIMIT);
                    prop_assert_eq!(again.is_ok(), fits);
                    if let Some(after) = again.err().and_then(|full| full.retry_after) {
                        let at = naive.charged() + after.as_nanos() as u64;
                        prop_assert!(naive.fits_at(at, weight, LIMIT), "too early");
                        prop_assert!(!naive.fits_at(at - 1, weight, LIMIT), "too late");
                    }
                    let entry = (loan.window(), u64::from(weight));
                    naive.loans.push(entry);
                    lent.push((loan, entry));
                    refused = None;
                }
                prop_assert_eq!(borrowed.waiting(span, naive.head), naive.waiting());
                prop_assert!(naive.most() <= LIMIT);
            }
            Step::Repay(index) => {
                if lent.is_empty() {
                    continue;
                }
                let (loan, entry) = lent.swap_remove(index.index(lent.len()));
                ring.repay(&borrowed, loan);
                let at = naive.loans.iter().position(|e| *e == entry).unwrap();
                naive.loans.swap_remove(at);
                refused = None;
            }
            Step::GoEarly(index) => {
                let present = naive.roll();
                let to_come: Vec<_> = (0..lent.len())
                    .filter(|&at| lent[at].0.window() > present)
                    .collect();
                if to_come.is_empty() {
                    continue;
                }
                let (loan, entry) = lent.swap_remove(to_come[index.index(to_come.len())]);
                borrowed.go_early(loan);
                let at = naive.loans.iter().position(|e| *e == entry).unwrap();
                naive.loans.swap_remove(at);
                naive.early.push(entry);
                refused = None;
            }
        }
        let present = naive.roll();
        let sum = ring.passes_in(now(&naive), span, Some(&borrowed));
        prop_assert_eq!(sum, naive.held(present));
    }
    // The last call that was told when to come again does so, a nanosecond
    // early and then in time; nobody else has come since.
    if let Some((at, weight, limit)) = refused.filter(|(at, ..)| *at > naive.charged()) {
        let retry = |ns| {
            let time = Timestamp::from_nanos(ns);
            ring.reserve(time, weight, span, limit, Some(&borrowed))
        };
        prop_assert!(retry(at - 1).is_err());
        prop_assert!(retry(at).is_ok());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn reservations_agree_with_a_list_of_what_was_admitted(
        shape in prop::sample::select(&SHAPES[..]),
        steps in prop::collection::vec(without_loans(), 1..80),
    ) {
        run(shape, steps)?;
    }

    #[test]
    fn with_loans_no_span_ever_exceeds_the_limit_and_retry_times_hold(
        shape in prop::sample::select(&SHAPES[..]),
        steps in prop::collection::vec(with_loans(), 1..80),
    ) {
        run(shape, steps)?;
    }
}

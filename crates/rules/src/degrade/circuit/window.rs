//! Which results a closed breaker looks at, and when they are too bad.
//!
//! Of threads that note results together, at least one sees the results of all;
//! so if they are too bad together, one of them opens. Last calls and bad results
//! in a row read the sums off the addition itself. In an interval there are two
//! sums in each of several boxes: a thread adds first and reads afterwards, with
//! a fence between. The boxes are those of [`LeapArray`], which loses nothing when
//! they are renewed. What was noted is that of one closed state, as the next one
//! has a window of its own. (A single box comes here only when it has more results
//! than [`Tumbling`](super::tumbling::Tumbling) can hold.)

use std::ops::Add;
use std::time::Duration;

use once_cell::race::OnceBox;

use flowgate_core::leap_array::cell::Counter;
use flowgate_core::leap_array::{Bucket, Renewal};
use flowgate_core::sync::{AtomicU64, Ordering, fence};
use flowgate_core::{LeapArray, Timestamp};

use super::ring::LastCalls;

/// Which results a closed breaker looks at.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Span {
    /// Those of an interval, in so many boxes: with one it tumbles, with more
    /// it slides by a box.
    Time {
        /// The span of all boxes.
        interval: Duration,
        /// How many there are; they divide the interval.
        boxes: u32,
    },
    /// The last so many.
    Calls(u32),
    /// Those since the last good one.
    InARow,
}

/// What is too much: always more than, never as much as, except that a ratio
/// of 1 is reached by nothing but bad results.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Threshold {
    /// A ratio of bad results, 0 to 1.
    Ratio(f64),
    /// A number of bad results.
    Number(f64),
}

/// How many results there are, and how many of them are bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Results {
    /// All of them.
    pub total: u64,
    /// The bad ones.
    pub bad: u64,
}

impl Add for Results {
    type Output = Results;

    fn add(self, other: Results) -> Results {
        Results {
            total: self.total + other.total,
            bad: self.bad + other.bad,
        }
    }
}

/// The results of one closed state.
#[derive(Debug)]
pub(super) enum Window {
    Timed(Timed),
    Last(LastCalls),
    /// Bad results since the last good one.
    InARow(AtomicU64),
}

/// A ring of boxes. That of a single box is made when a result comes here.
#[derive(Debug)]
pub(super) struct Timed {
    interval: Duration,
    boxes: u32,
    /// In a box, as a ring keeps cache lines of its own.
    ring: OnceBox<LeapArray<Tally>>,
}

/// The results of one box.
#[derive(Debug, Default)]
pub(super) struct Tally {
    total: Counter,
    bad: Counter,
}

impl Bucket for Tally {
    fn renew(&self, renewal: &Renewal<'_>) {
        self.total.renew(renewal);
        self.bad.renew(renewal);
    }
}

impl Window {
    pub(super) fn new(span: &Span) -> Self {
        match *span {
            Span::Calls(calls) => Window::Last(LastCalls::new(calls)),
            Span::InARow => Window::InARow(AtomicU64::new(0)),
            Span::Time { interval, boxes } => {
                let timed = Timed {
                    interval,
                    boxes,
                    ring: OnceBox::new(),
                };
                if boxes != 1 {
                    timed.ring();
                }
                Window::Timed(timed)
            }
        }
    }

    /// Notes a result; returns all results with it. Of threads that meet here
    /// at least one sees the results of all: none is lost on the decision.
    pub(super) fn note(&self, bad: bool, now: Timestamp) -> Results {
        match self {
            Window::Timed(timed) => {
                let ring = timed.ring();
                let mut window = ring.current(now);
                window.add_to(|results| &results.total, 1);
                if bad {
                    window.add_to(|results| &results.bad, 1);
                }
                // SeqCst: of two threads that add and then read, the one whose
                // fence is the later sees what the other has added. Without it
                // each could miss the other's, and both go by.
                fence(Ordering::SeqCst);
                sum(ring.windows(now))
            }
            Window::Last(calls) => calls.note(bad),
            Window::InARow(streak) => {
                // Relaxed: the decision is read off the addition itself, and
                // all additions to one word are in one order.
                let streak = match bad {
                    true => streak.fetch_add(1, Ordering::Relaxed).saturating_add(1),
                    false => {
                        streak.store(0, Ordering::Relaxed);
                        0
                    }
                };
                in_a_row(streak)
            }
        }
    }

    /// The results that count at `now`. Looking moves nothing.
    pub(super) fn read(&self, now: Timestamp) -> Results {
        match self {
            Window::Timed(timed) => timed.ring.get().map_or(Results::default(), |ring| {
                let from = now - ring.interval();
                let windows = ring.windows_unrolled(now);
                sum(windows.filter(|window| window.start() > from))
            }),
            Window::Last(calls) => calls.read(),
            Window::InARow(streak) => in_a_row(streak.load(Ordering::Relaxed)),
        }
    }
}

impl Timed {
    fn ring(&self) -> &LeapArray<Tally> {
        // Rules are checked when they are loaded; one that was not gets a window
        // that can be made.
        let make = || {
            LeapArray::new(self.boxes, self.interval)
                .or_else(|_| LeapArray::new(1, self.interval))
                .or_else(|_| LeapArray::new(1, Duration::from_secs(1)))
                .expect("one window of a second is a ring")
        };
        self.ring.get_or_init(|| Box::new(make()))
    }
}

fn sum<'a>(boxes: impl Iterator<Item = flowgate_core::leap_array::Window<'a, Tally>>) -> Results {
    let results = boxes.map(|window| Results {
        total: window.count_of(|results| &results.total),
        bad: window.count_of(|results| &results.bad),
    });
    results.fold(Results::default(), Results::add)
}

fn in_a_row(streak: u64) -> Results {
    Results {
        total: streak,
        bad: streak,
    }
}

impl Threshold {
    #[inline]
    pub(super) fn is_exceeded(self, results: Results) -> bool {
        let Results { total, bad } = results;
        match self {
            // By far the most frequent: no ratio is asked for.
            Threshold::Number(limit) | Threshold::Ratio(limit) if bad == 0 => limit < 0.0,
            Threshold::Number(limit) => bad as f64 > limit,
            Threshold::Ratio(limit) => {
                let ratio = bad as f64 / total.max(1) as f64;
                ratio > limit || (limit >= 1.0 && ratio >= 1.0)
            }
        }
    }
}

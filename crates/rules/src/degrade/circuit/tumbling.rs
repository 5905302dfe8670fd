//! The results of one box after the other, with one atomic step per result.
//!
//! Nearly all breakers look at one box: a second, say, and then the next. Its two
//! sums are one word, so an addition learns both of one instant, and of all
//! results that are too bad together the last one sees all. What box that is, and
//! of which closed state, stands in a second word, which is written once per box:
//!
//! ```text
//! head    63    56 55                                  12 11       0
//!         |  gen.  |  number of the box, since the epoch |   tag   |
//! counts  63      52 51                       22 21                0
//!         |   tag   |  results                  |  bad ones        |
//! ```
//!
//! The **tag** is the number of the renewal, around 4,096: as long as both words
//! have the same, the counts are those of the head's box.
//!
//! * **Renewing** takes two steps that anybody may finish. Who finds the head's box
//!   over, or of an earlier closed state, exchanges the head for its own box with
//!   the next tag. Who finds the tag of the counts one behind exchanges the counts
//!   for none with the head's tag. Only then the head may be exchanged again.
//! * **Counting** is one compare-and-swap on the counts that were looked at. If it
//!   succeeds they were not renewed since (unless its thread slept through exactly
//!   4,096 renewals and found as many counted): the result is in its box, as if
//!   it had come before the renewal, or it is not counted at all.
//! * **Late results.** A clock reading older than the head's box counts in that.
//! * **Generations.** A caller reads both words, and asks *then* whether the closed
//!   state that its call belongs to is still the present one. If so, what it has
//!   read is not of a later one: whoever wrote that had asked the same, of the
//!   later one. So what differs from its own generation is older and may be
//!   renewed. Eight bits of the generation are enough to differ, as each closed
//!   state renews the box when it begins ([`Tumbling::begin`]).
//!
//! A box that is full, at a billion results or four million bad ones, stands
//! still: further results go elsewhere, and whoever decides adds both up.

use std::time::Duration;

use flowgate_core::Timestamp;
use flowgate_core::sync::{AtomicU64, Ordering};

use super::window::Results;

const TAG_BITS: u32 = 12;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
const NUMBER_BITS: u32 = 44;
/// The last box that has a number: with boxes of a millisecond in the year 2527.
const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;
const BAD_BITS: u32 = 22;
/// The most bad results of a box.
const BAD_MASK: u64 = (1 << BAD_BITS) - 1;
const ONE: u64 = 1 << BAD_BITS;
const TOTAL_MAX: u64 = (1 << (64 - TAG_BITS - BAD_BITS)) - 1;

/// The results of the present box of a closed circuit.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Tumbling {
    width_ns: u64,
    head: AtomicU64,
    counts: AtomicU64,
}

/// What became of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Noted {
    /// It is one of these.
    Counted(Results),
    /// It is not, as there are these already, of the box that began then.
    Full(Results, Timestamp),
    /// It is not, as its closed state is over.
    Over,
}

/// Both words, of one renewal.
#[derive(Clone, Copy)]
struct Present {
    head: u64,
    counts: u64,
}

impl Tumbling {
    /// With boxes of this width.
    pub(super) fn new(width: Duration) -> Self {
        Tumbling {
            width_ns: u64::try_from(width.as_nanos()).unwrap_or(u64::MAX).max(1),
            head: AtomicU64::new(0),
            counts: AtomicU64::new(0),
        }
    }

    /// Counts a result of the closed state `generation` if the present box is its
    /// own and not full; the results with it. `is_current` says whether that state
    /// is still the present one.
    #[inline]
    pub(super) fn add(
        &self,
        generation: u64,
        bad: bool,
        now: Timestamp,
        is_current: impl Fn() -> bool,
    ) -> Option<Results> {
        loop {
            let present = self.look();
            let is_mine = present.is_whole()
                && present.is_of(generation)
                && now.as_nanos() < self.end_ns(present.number());
            if !is_mine || present.is_full() || !is_current() {
                return None;
            }
            if let Some(results) = self.count(present, bad) {
                return Some(results);
            }
        }
    }

    /// The same, beginning a new box if need be.
    #[cold]
    pub(super) fn note(
        &self,
        generation: u64,
        bad: bool,
        now: Timestamp,
        is_current: impl Fn() -> bool,
    ) -> Noted {
        loop {
            let Some(present) = self.renewed(generation, now, &is_current) else {
                return Noted::Over;
            };
            if present.is_full() {
                let begin_ns = present.number().saturating_mul(self.width_ns);
                return Noted::Full(present.results(), Timestamp::from_nanos(begin_ns));
            }
            if let Some(results) = self.count(present, bad) {
                return Noted::Counted(results);
            }
        }
    }

    /// The closed state `generation` begins: with no results.
    pub(super) fn begin(&self, generation: u64, now: Timestamp, is_current: impl Fn() -> bool) {
        self.renewed(generation, now, &is_current);
    }

    /// What counts of the closed state `generation` at `now`. Looking moves
    /// nothing.
    pub(super) fn read(&self, generation: u64, now: Timestamp) -> Results {
        let present = self.look();
        let counts = present.is_whole()
            && present.is_of(generation)
            && now.as_nanos() < self.end_ns(present.number());
        match counts {
            true => present.results(),
            false => Results::default(),
        }
    }

    /// Has the present box hold these results.
    #[cfg(all(test, not(loom)))]
    pub(super) fn fill(&self, results: Results) {
        let tag = self.look().head << (64 - TAG_BITS);
        let counts = tag | results.total << BAD_BITS | results.bad;
        self.counts.store(counts, Ordering::Relaxed);
    }

    /// Both words when they are of this generation and of the box at `now`, or of
    /// a later box; `None`: the generation is over.
    fn renewed(
        &self,
        generation: u64,
        now: Timestamp,
        is_current: &impl Fn() -> bool,
    ) -> Option<Present> {
        loop {
            let present = self.look();
            if !is_current() {
                return None;
            }
            let Present { head, counts } = present;
            let number = self.number_at(now).max(present.number());
            if present.is_begun() {
                let none = (head & TAG_MASK) << (64 - TAG_BITS);
                let _ = exchange(&self.counts, counts, none);
            } else if !present.is_whole() {
                // Others have renewed it between the two looks.
            } else if !present.is_of(generation) || number > present.number() {
                let next = (generation << (NUMBER_BITS + TAG_BITS))
                    | (number << TAG_BITS)
                    | (head.wrapping_add(1) & TAG_MASK);
                let _ = exchange(&self.head, head, next);
            } else {
                return Some(present);
            }
        }
    }

    /// The head first: if the counts have its tag they are of its box.
    #[inline]
    fn look(&self) -> Present {
        // Acquire: what was read was written by one who knew a present state; and
        // the counts are as new as the head.
        let head = self.head.load(Ordering::Acquire);
        let counts = self.counts.load(Ordering::Acquire);
        Present { head, counts }
    }

    #[inline]
    fn count(&self, present: Present, bad: bool) -> Option<Results> {
        let counts = present.counts + ONE + u64::from(bad);
        exchange(&self.counts, present.counts, counts).then(|| results(counts))
    }

    #[inline]
    fn end_ns(&self, number: u64) -> u64 {
        (number + 1).saturating_mul(self.width_ns)
    }

    fn number_at(&self, now: Timestamp) -> u64 {
        (now.as_nanos() / self.width_ns).min(NUMBER_MAX)
    }
}

impl Present {
    /// Whether the counts are those of the head's box.
    #[inline]
    fn is_whole(self) -> bool {
        self.counts >> (64 - TAG_BITS) == self.head & TAG_MASK
    }

    /// Whether the counts are still those of the box before.
    fn is_begun(self) -> bool {
        ((self.counts >> (64 - TAG_BITS)) + 1) & TAG_MASK == self.head & TAG_MASK
    }

    #[inline]
    fn is_of(self, generation: u64) -> bool {
        self.head >> (NUMBER_BITS + TAG_BITS) == generation & 0xff
    }

    #[inline]
    fn number(self) -> u64 {
        (self.head >> TAG_BITS) & NUMBER_MAX
    }

    #[inline]
    fn is_full(self) -> bool {
        let Results { total, bad } = self.results();
        total == TOTAL_MAX || bad == BAD_MASK
    }

    #[inline]
    fn results(self) -> Results {
        results(self.counts)
    }
}

#[inline]
fn results(counts: u64) -> Results {
    Results {
        total: (counts >> BAD_BITS) & TOTAL_MAX,
        bad: counts & BAD_MASK,
    }
}

/// AcqRel: whoever finds what is written here finds all that its writer knew.
#[inline]
fn exchange(word: &AtomicU64, from: u64, to: u64) -> bool {
    word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const WIDTH: Duration = Duration::from_nanos(10);

    fn at(ns: u64) -> Timestamp {
        Timestamp::from_nanos(ns)
    }

    fn note(window: &Tumbling, generation: u64, bad: bool, ns: u64) -> Option<(u64, u64)> {
        let added = window.add(generation, bad, at(ns), || true);
        let noted = match added {
            Some(results) => Noted::Counted(results),
            None => window.note(generation, bad, at(ns), || true),
        };
        match noted {
            Noted::Counted(Results { total, bad }) => Some((total, bad)),
            Noted::Full(..) | Noted::Over => None,
        }
    }

    #[test]
    fn a_box_holds_its_own_results_and_those_that_come_late() {
        let window = Tumbling::new(WIDTH);
        let found = [(10, false), (19, true), (20, true), (15, false), (29, true)]
            .map(|(ns, bad)| note(&window, 1, bad, ns).unwrap());
        assert_eq!(found, [(1, 0), (2, 1), (1, 1), (2, 1), (3, 2)]);
        assert_eq!(window.read(1, at(29)), Results { total: 3, bad: 2 });
        assert_eq!(window.read(1, at(30)), Results::default());
        assert_eq!(window.read(2, at(29)), Results::default());
        // Idle for as many boxes as there are tags, and one more.
        for boxes in [4_095, 4_096, 4_097] {
            let window = Tumbling::new(WIDTH);
            note(&window, 1, true, 5);
            assert_eq!(note(&window, 1, false, 10 * boxes), Some((1, 0)));
        }
    }

    #[test]
    fn a_closed_state_finds_nothing_of_those_before_and_ends_with_its_own() {
        let window = Tumbling::new(WIDTH);
        note(&window, 1, true, 5);
        window.begin(3, at(6), || true);
        assert_eq!(note(&window, 3, false, 7), Some((1, 0)));
        window.begin(5, at(8), || false);
        assert_eq!(window.read(3, at(8)), Results { total: 1, bad: 0 });
        assert_eq!(window.add(3, true, at(8), || false), None);
        assert_eq!(window.note(3, true, at(8), || false), Noted::Over);
        // Eight bits of it are the same, as if all states between had none.
        window.begin(4, at(8), || true);
        assert_eq!(note(&window, 260, true, 9), Some((1, 1)));
    }

    #[test]
    fn a_box_that_is_full_stands_still_until_the_next() {
        let results = |total, bad| Results { total, bad };
        for full in [results(TOTAL_MAX, 7), results(BAD_MASK, BAD_MASK)] {
            let window = Tumbling::new(WIDTH);
            note(&window, 1, false, 15);
            window.fill(results(full.total - 1, full.bad - 1));
            assert_eq!(note(&window, 1, true, 16), Some((full.total, full.bad)));
            assert_eq!(window.add(1, true, at(17), || true), None);
            let noted = window.note(1, true, at(17), || true);
            assert_eq!(noted, Noted::Full(full, at(10)));
            assert_eq!(note(&window, 1, true, 20), Some((1, 1)));
        }
    }

    #[test]
    fn boxes_beyond_the_last_number_are_one() {
        let window = Tumbling::new(Duration::from_nanos(1));
        for (ns, total) in [(NUMBER_MAX - 1, 1), (NUMBER_MAX, 1), (u64::MAX, 2)] {
            assert_eq!(note(&window, 1, false, ns), Some((total, 0)));
        }
    }

    #[test]
    fn of_many_threads_the_last_one_sees_the_results_of_all() {
        let window = Tumbling::new(WIDTH);
        note(&window, 1, true, 5);
        let greatest = std::thread::scope(|scope| {
            let count = |thread| {
                let window = &window;
                let results = (0..20_000).map(move |n| note(window, 1, n % 4 == thread, 15));
                results.max().flatten()
            };
            let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || count(n))).collect();
            let greatest = threads.into_iter().map(|it| it.join().expect("no panic"));
            greatest.max().flatten()
        });
        assert_eq!(greatest, Some((80_000, 20_000)));
    }
}

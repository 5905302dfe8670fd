//! The counters of a node, spread over processors where threads meet.
//!
//! Passes are reserved, so they are counted in one ring that all threads share,
//! and as long as threads hardly meet so is everything else: a node is small.
//! An addition that finds its counter changed between looking and adding has
//! *met* another thread. After [`MEETINGS`] of those, each thread reports what
//! it has to report (refusals, completions, response times) to a ring of its
//! processor's share, made on first use: their counters then lie on cache lines
//! of their own. Readers add the rings up; nothing moves between them.
//!
//! **Nothing is lost, nothing counts twice.** A ring is made once and stays. A
//! report goes to one ring, which one it does not matter, and there into one
//! window (see [`leap_array`](crate::leap_array)). The rings number their windows
//! alike, and each keeps its own head; a report in a ring of a share is charged
//! as the shared ring would charge it, so that a clock that has gone back there
//! does not count in an older window here. A share's head may lag behind: its
//! windows are read by number, and one that nobody has opened holds nothing.
#![cfg_attr(
    not(loom),
    expect(unreachable_pub, reason = "models reach what only nodes use")
)]

use std::ops::RangeInclusive;

use crate::leap_array::{LeapArray, Window};
use crate::metric::MetricBucket;
use crate::sync::{AtomicUsize, OnceLock, Ordering};
use crate::tally::{MEETINGS, thread_number};
use crate::time::Timestamp;

#[cfg(not(loom))]
use super::NodeSettings;

/// All that a node counts in its own boxes.
#[derive(Debug)]
pub struct Counters {
    shared: LeapArray<MetricBucket>,
    meetings: AtomicUsize,
    /// One for each processor but the first, whose threads keep the shared ring.
    spread: Box<[OnceLock<LeapArray<MetricBucket>>]>,
    box_ns: u64,
}

impl Counters {
    #[cfg(not(loom))]
    pub(super) fn new(settings: &NodeSettings) -> Self {
        Self::with_width(settings.box_ns, settings.boxes, settings.stripes)
    }

    /// `boxes` boxes of `box_ns`, and where threads meet one ring for each of so
    /// many shares.
    pub fn with_width(box_ns: u64, boxes: usize, shares: usize) -> Self {
        Counters {
            shared: LeapArray::with_width(box_ns, boxes),
            meetings: AtomicUsize::new(0),
            spread: (1..shares).map(|_| OnceLock::new()).collect(),
            box_ns,
        }
    }

    /// The ring that passes are counted in.
    #[inline]
    pub fn shared(&self) -> &LeapArray<MetricBucket> {
        &self.shared
    }

    /// Does `write` on the present window of this thread's ring; it says
    /// whether it has met another thread.
    #[inline]
    pub fn report(
        &self,
        now: Timestamp,
        write: impl FnOnce(&mut Window<'_, MetricBucket>) -> bool,
    ) {
        // Relaxed: whoever misses a meeting counts in the shared ring once more.
        if self.meetings.load(Ordering::Relaxed) >= MEETINGS {
            let ring = self.mine();
            // A reading behind the newest counts as that, in every ring.
            write(&mut ring.current(self.shared.charged(now)));
        } else if write(&mut self.shared.current(now)) {
            self.meetings.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The windows of these numbers in all rings.
    pub fn windows(
        &self,
        boxes: RangeInclusive<u64>,
    ) -> impl Iterator<Item = Window<'_, MetricBucket>> {
        let rings = self.spread.iter().filter_map(OnceLock::get);
        std::iter::once(&self.shared)
            .chain(rings)
            .flat_map(move |ring| boxes.clone().filter_map(|number| ring.existing(number)))
    }

    fn mine(&self) -> &LeapArray<MetricBucket> {
        let share = thread_number() % (self.spread.len() + 1);
        let Some(spread) = share.checked_sub(1).and_then(|at| self.spread.get(at)) else {
            return &self.shared;
        };
        let boxes = self.shared.sample_count();
        spread.get_or_init(|| LeapArray::with_width(self.box_ns, boxes))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::MetricEvent;

    #[test]
    fn threads_that_meet_are_spread_and_nothing_is_lost() {
        let settings = NodeSettings {
            stripes: 4,
            ..NodeSettings::default()
        };
        let counters = Counters::new(&settings);
        let now = Timestamp::from_millis(1_000_000);
        let count = |n: u64| {
            for _ in 0..n {
                counters.report(now, |window| {
                    window.add(MetricEvent::Block, 1);
                    true // as if another thread had been there
                });
            }
        };
        count(MEETINGS as u64);
        assert_eq!(
            counters
                .spread
                .iter()
                .filter(|ring| ring.get().is_some())
                .count(),
            0
        );
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| count(1_000));
            }
        });
        let head = counters.shared.current(now).number();
        let total: u64 = counters
            .windows(head..=head)
            .map(|window| window.get(MetricEvent::Block))
            .sum();
        assert_eq!(total, MEETINGS as u64 + 8_000);
        assert!(
            counters.spread.iter().any(|ring| ring.get().is_some()),
            "nobody was spread"
        );
    }

    #[test]
    fn a_thread_alone_meets_nobody() {
        let counters = Counters::new(&NodeSettings::default());
        for ms in 0..10_000 {
            let now = Timestamp::from_millis(1_000_000 + ms);
            counters.report(now, |window| window.add(MetricEvent::Success, 1));
        }
        assert_eq!(counters.meetings.load(Ordering::Relaxed), 0);
    }
}

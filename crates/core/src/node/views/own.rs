//! One view: its ring, and how it is known to be in use.

use crate::leap_array::{Full, SlidingWindow, Taken};
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

use super::Interval;

#[derive(Debug)]
pub(super) struct OwnView {
    pub(super) interval: Interval,
    /// Tells passes of this ring from those of others of the same interval,
    /// before and after it. The node's own ring is 0.
    pub(super) name: u16,
    pub(super) ring: SlidingWindow,
    /// The latest box in which somebody asked or reserved, or [`RETIRED`].
    ///
    /// Relaxed throughout: the word stands for itself, and the list is
    /// published by its own store.
    asked: AtomicU64,
}

const RETIRED: u64 = u64::MAX;

impl OwnView {
    pub(super) fn new(interval: Interval, name: u16, now: Timestamp) -> Self {
        let ring = SlidingWindow::with_width(interval.box_ns(), interval.boxes_counted());
        OwnView {
            asked: AtomicU64::new(ring.number_at(now)),
            interval,
            name,
            ring,
        }
    }

    /// Notes that somebody asks; false if the view is retired.
    #[inline]
    pub(super) fn ask(&self, now: Timestamp) -> bool {
        self.ask_in(self.ring.number_at(now))
    }

    /// Notes that somebody asks in box `number`. An old value that says so already
    /// will do: whoever has retired the view since has found that box gone.
    #[inline]
    fn ask_in(&self, number: u64) -> bool {
        self.asked.load(Ordering::Relaxed) == number || self.ask_first_in(number)
    }

    #[cold]
    fn ask_first_in(&self, number: u64) -> bool {
        let later = |asked: u64| (asked != RETIRED).then(|| asked.max(number));
        self.asked
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, later)
            .is_ok()
    }

    /// Whether nobody has asked for as long as a box counts when `number` is the
    /// present one.
    #[inline]
    pub(super) fn is_forgotten(&self, number: u64) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        number > asked.saturating_add(self.ring.boxes())
    }

    /// Retires it if `condition` holds and nobody asks meanwhile.
    pub(super) fn retire_if(&self, condition: impl Fn(&Self) -> bool) {
        let asked = self.asked.load(Ordering::Relaxed);
        if condition(self) {
            // Who asks in between keeps it.
            let _ =
                self.asked
                    .compare_exchange(asked, RETIRED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Until when it counts if nobody asks any more.
    pub(super) fn counts_until(&self) -> Timestamp {
        let asked = self.asked.load(Ordering::Relaxed);
        let last = asked.saturating_add(self.ring.boxes());
        Timestamp::from_nanos(last.saturating_mul(self.interval.box_ns()))
    }

    /// Whether it is about to be dropped.
    pub(super) fn is_retired(&self) -> bool {
        self.asked.load(Ordering::Relaxed) == RETIRED
    }

    pub(super) fn pass(&self, now: Timestamp, weight: u32) -> Taken {
        self.ring.pass(now, weight).of_ring(self.name)
    }

    /// The error is `None` if the view was retired before; nothing is taken then.
    pub(super) fn reserve(
        &self,
        now: Timestamp,
        weight: u32,
        limit: u64,
    ) -> Result<Taken, Option<Full>> {
        let taken = self.ring.reserve(now, weight, limit)?;
        if self.ask_in(taken.number()) {
            return Ok(taken.of_ring(self.name));
        }
        self.ring.give_back(taken);
        Err(None)
    }

    pub(super) fn probe(
        &self,
        now: Timestamp,
        weight: u32,
        limit: u64,
        own: Option<Taken>,
    ) -> Result<(), Full> {
        let own = own.filter(|taken| taken.ring() == self.name);
        let taken = own.map_or(0, |taken| taken.amount());
        let more = weight.saturating_sub(taken);
        let probed = self.ring.probe(now, more, limit);
        probed.map_err(|full| Full {
            sum: full.sum.saturating_sub(u64::from(taken)),
            ..full
        })
    }

    /// The beginning of the box that passes were counted in.
    pub(super) fn counted_at(&self, taken: Taken) -> Timestamp {
        Timestamp::from_nanos(taken.number().saturating_mul(self.interval.box_ns()))
    }
}

//! What a node shows.

use std::ops::RangeInclusive;

use crate::leap_array::Leases;
use crate::sync::Ordering;
use crate::time::Timestamp;

use super::figures::{NodeSnapshot, RawFigures};
use super::settings::{MINUTE_SECONDS, SECOND_NS};
use super::sums::{Sums, least};
use super::{Counts, INBOUND, Node, UNDECIDED, stripes};

impl Node {
    /// Calls in flight.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.known().map_or(0, |counts| counts.permits.calls())
    }

    /// Calls that wait for permits of their resource.
    pub fn queued(&self) -> u64 {
        (self.known()).map_or(0, |counts| counts.queued.load(Ordering::Relaxed))
    }

    /// Whether any call has ever come here.
    pub fn was_used(&self) -> bool {
        self.first_direction() != UNDECIDED
    }

    /// Passes in the second view.
    pub fn passes_in_second(&self, now: Timestamp) -> u64 {
        let Some(counts) = self.known() else {
            return 0;
        };
        let (span, borrowed) = (self.settings.second, Some(&counts.borrowed));
        let head = self.present(now).number();
        let boxes = span.first(head, 0)..=head;
        let counted = || self.ring().passes_in(now, span, borrowed);
        counts.leases.used(&boxes, counted)
    }

    /// Passes in the calendar second before the one of `now`, those admitted on
    /// loan in it included.
    pub fn passes_in_previous_second(&self, now: Timestamp) -> u64 {
        if self.known().is_none() {
            return 0;
        }
        let now = self.ring().charged(now);
        let Some(previous) = now.as_secs().checked_sub(1) else {
            return 0;
        };
        let figures = self.figures(
            now,
            Seconds {
                first: previous,
                last: previous,
            },
        );
        figures.pass + figures.occupied_pass
    }

    /// All figures at `now`.
    pub fn snapshot(&self, now: Timestamp) -> NodeSnapshot {
        self.raw(now).snapshot(&self.settings)
    }

    /// The inbound calls' part of all figures at `now`, if there were any.
    pub fn inbound(&self, now: Timestamp) -> Option<RawFigures> {
        let twin = self.twin().map(|twin| twin.own_raw(now));
        match (self.first_direction(), twin) {
            (INBOUND, None) => Some(self.own_raw(now)),
            (INBOUND, Some(outbound)) => Some(self.own_raw(now).without(&outbound)),
            (_, twin) => twin,
        }
    }

    fn raw(&self, now: Timestamp) -> RawFigures {
        let mut raw = self.own_raw(now);
        if let Some(twin) = self.twin() {
            // Calls of a twin are in this node's counts already.
            let twin = twin.own_raw(now);
            raw.second.rt_min_ns = least(raw.second.rt_min_ns, twin.second.rt_min_ns);
        }
        raw
    }

    pub(super) fn own_raw(&self, now: Timestamp) -> RawFigures {
        if self.known().is_none() {
            return RawFigures::default();
        }
        let head = self.present(now).number();
        // All views at one moment, also when the reading is behind the newest.
        let now = self.ring().charged(now);
        let span = self.settings.second;
        let second = self.sum(span.first(head, 0)..=head);
        let secs = now.as_secs();
        let first = (secs + 1).saturating_sub(MINUTE_SECONDS);
        let previous = secs.checked_sub(1).map(|s| Seconds { first: s, last: s });
        RawFigures {
            second,
            borrowed: self.counts().borrowed.begun(span, head),
            minute: self.figures(now, Seconds { first, last: secs }),
            previous: previous.map(|s| self.figures(now, s)).unwrap_or_default(),
            in_flight: self.in_flight(),
            permits: self.counts().permits.permits(),
            queued: self.queued(),
            waiting: self.counts().borrowed.waiting(span, head),
        }
    }

    fn figures(&self, now: Timestamp, seconds: Seconds) -> Sums {
        let head = self.present(now).number();
        let per_second = SECOND_NS / self.settings.box_ns;
        let first = seconds.first * per_second;
        let last = ((seconds.last + 1) * per_second - 1).min(head);
        if first > last {
            Sums::default()
        } else {
            self.sum(first..=last)
        }
    }

    pub(super) fn sum(&self, boxes: RangeInclusive<u64>) -> Sums {
        let Some(Counts { ring, leases, .. }) = self.known() else {
            return Sums::default();
        };
        let mut total = stripes::sums(ring, boxes.clone());
        if leases.is_spread() {
            let counted = || stripes::sums(ring, boxes.clone()).pass;
            total.pass = leases.used(&boxes, counted);
        }
        total
    }
}

struct Seconds {
    first: u64,
    last: u64,
}

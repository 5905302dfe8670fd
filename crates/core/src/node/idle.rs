//! Whether anybody would miss a node.
//!
//! A node may be thrown away, and a new one made when a call comes, if nothing
//! that it holds can ever be seen again: nobody is in flight or waits, and all
//! that was counted has left every view of it.
//!
//! Whether calls still come is asked without a step on their way: whoever asks
//! *marks* the node, in the byte that every call compares with its own direction.
//! The next call finds that they differ, goes the slow way, and takes the mark
//! off. So a node that is still marked was entered by nobody since. A call that
//! looks at the byte while it is being marked may be missed: the mark alone
//! decides nothing, [`Node::is_as_new`] does.

use crate::sync::Ordering;
use crate::time::Timestamp;

use super::sums::Sums;
use super::{Node, RESTING, UNDECIDED};

impl Node {
    /// Marks the node; true if no call has entered it since it was last marked,
    /// or ever.
    pub fn rest(&self) -> bool {
        // Relaxed, as all of this byte: it stands for itself.
        let before = self.direction.fetch_or(RESTING, Ordering::Relaxed);
        before == UNDECIDED || before & RESTING != 0
    }

    /// Whether no call has entered it since it was marked.
    pub fn is_resting(&self) -> bool {
        self.direction.load(Ordering::Relaxed) & RESTING != 0
    }

    /// Whether it has anything to count with: it was used, or looked at for a
    /// rule.
    pub fn has_counts(&self) -> bool {
        self.known().is_some()
    }

    /// Whether a new node would be the same to whoever comes at `now` or later.
    /// Certain only if nobody else has the node.
    pub fn is_as_new(&self, now: Timestamp) -> bool {
        let Some(counts) = self.known() else {
            return true;
        };
        let nobody = self.in_flight() == 0
            && self.queued() == 0
            && counts.permits.permits() == 0
            && counts.views.are_empty(now);
        // What was counted last has left every view of the ring: its boxes, which
        // are many and seldom at hand, need no look.
        let (ring, span) = (self.ring(), self.settings.second);
        let present = ring.number_at(now);
        if ring.head().saturating_add(ring.sample_count() as u64) <= present {
            let loans = [
                counts.borrowed.begun(span, present),
                counts.borrowed.waiting(span, present),
            ];
            return nobody && loans == [0; 2];
        }
        let raw = self.own_raw(now);
        nobody
            && raw.waiting == 0
            && raw.borrowed == 0
            && [raw.second, raw.minute, raw.previous]
                .iter()
                .all(Sums::is_nothing)
    }
}

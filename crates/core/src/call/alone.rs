//! A call that nobody is asked about, and that counts on one node.

use super::{Share, Traffic};
use crate::node::Node;
use crate::time::Timestamp;

impl Node {
    /// Counts a call in whose only node this is, as
    /// [`Holds::admit`](super::Holds::admit) does, and says when it is charged.
    /// What it takes need not be noted: nothing can come after this that would
    /// have it give back.
    ///
    /// `None` if it counts in a twin as well, or there is no room: then nothing
    /// was taken.
    #[inline]
    pub fn admit_alone(&self, traffic: Traffic, now: Timestamp, weight: u32) -> Option<Timestamp> {
        if self.twin_for(traffic).is_some() {
            return None;
        }
        let in_flight = self.enter(Share::NOTHING, weight).ok()?;
        let taken = self.arrive(now, in_flight, Some(weight));
        let counted = taken.map_or(now, |taken| self.counted_at(taken));
        let latest = self.count_in_views(now, weight, |_, _, pass| pass());
        Some(now.max(counted).max(latest))
    }
}

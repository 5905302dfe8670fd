//! A call that nobody is asked about, and that counts on one node.

use super::{Place, Seats, Share, Traffic};
use crate::node::{Node, Passing};
use crate::time::Timestamp;

impl Node {
    /// Counts a call in whose only node this is, as
    /// [`Holds::admit`](super::Holds::admit) does, and says when it is
    /// charged, and from where it is in flight.
    /// What it takes need not be noted: nothing can come after this that would
    /// have it give back.
    ///
    /// `None` if it counts in a twin as well, or there is no room: then nothing
    /// was taken.
    #[inline]
    pub fn admit_alone(
        &self,
        traffic: Traffic,
        now: Timestamp,
        weight: u32,
    ) -> Option<(Timestamp, Seats)> {
        if self.twin_for(traffic).is_some() {
            return None;
        }
        let arrived = self
            .arrive(now, weight, Share::NOTHING, Passing::Now)
            .ok()?;
        let latest = self.count_in_views(now, weight, |_, _, pass| pass());
        let seats = Seats::of(Place::Resource, arrived.seat);
        Some((arrived.charged.max(latest), seats))
    }
}

//! Passes in one view of a node.

use crate::call::Hold;
use crate::leap_array::{Full, Taken};
use crate::node::Node;
use crate::time::Timestamp;

use super::{Interval, View};

impl Node {
    /// Makes sure that `view` counts calls that are admitted from now on.
    pub fn open(&self, view: View<'_>, now: Timestamp) {
        if let View::Own { interval, among } = view {
            self.counts().views.open(interval, among, now);
        }
    }

    /// Takes `weight` passes of `view` if it then holds no more than `limit`, in
    /// one atomic step.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room; nothing has changed then.
    #[inline]
    pub fn reserve_in(
        &self,
        view: View<'_>,
        now: Timestamp,
        weight: u32,
        limit: u64,
    ) -> Result<Taken, Full> {
        match view {
            View::Second => self.reserve(now, weight, limit),
            View::Own { interval, among } => self
                .counts()
                .views
                .reserve(interval, among, now, weight, limit),
        }
    }

    /// Whether [`Node::reserve_in`] would find room for a call that holds `own`
    /// there by now; see [`Node::probe`]. Takes nothing.
    ///
    /// # Errors
    ///
    /// [`Full`] as there.
    pub fn probe_in(
        &self,
        view: View<'_>,
        now: Timestamp,
        weight: u32,
        limit: u64,
        own: Hold,
    ) -> Result<(), Full> {
        match view {
            View::Second => self.probe(now, weight, limit, own),
            View::Own { interval, among } => {
                let own = match own {
                    Hold::Passed(taken) => Some(taken),
                    _ => None,
                };
                self.counts()
                    .views
                    .probe(interval, among, now, weight, limit, own)
            }
        }
    }

    /// Passes counted in the view of `interval`, if there is one. Looking makes
    /// none, and keeps none.
    pub fn passes_in(&self, interval: Interval, now: Timestamp) -> Option<u64> {
        self.known()?.views.passes(interval, now)
    }

    /// The intervals that are counted here for rules, beside the second and the
    /// minute.
    pub fn intervals(&self) -> Vec<Interval> {
        (self.known()).map_or_else(Vec::new, |counts| counts.views.intervals())
    }

    /// Gives back what was taken of a view of its own.
    #[cold]
    pub(in crate::node) fn give_back_in_view(&self, taken: Taken) {
        self.counts().views.give_back(taken);
    }

    /// Counts an admitted call in the views of this node; see [`Views::count`].
    #[inline]
    pub(crate) fn count_in_views(
        &self,
        now: Timestamp,
        weight: u32,
        hold: impl FnMut(u16, Interval, &dyn Fn() -> Taken) -> Taken,
    ) -> Timestamp {
        self.counts().views.count(now, weight, hold)
    }
}

//! Views of a node beside the second and the minute: intervals that rules ask
//! for, from milliseconds to weeks.
//!
//! A view is a ring of its own that counts passes and nothing else, keyed by
//! its [`Interval`]: rules that name the same one share it. It is made when a
//! rule first asks for it on this node, and counts from then on every call that
//! is admitted here, whoever asked and whether or not a rule reserved. So the
//! next rule of that interval, or the same rule with another limit, sees what
//! has passed.
//!
//! Boxes begin at multiples of their length since the epoch. In a single box, a
//! day is a UTC day, and an hour begins on the hour; in several, the interval
//! slides by one box at a time. A strict interval is counted in one box more than
//! it holds, so that the boxes that count always cover the whole of it.
//!
//! **How a view ends.** An admitted call asks for the view before it is counted
//! in it, as long as a rule for this node names it. A view that counts although
//! nobody has asked for as long as a box counts is therefore of no rule in force, and
//! all that any rule ever saw in it has left it: it is dropped, and nothing is
//! lost. Until then a rule that comes back finds it complete. Beyond
//! [`VIEWS_MAX`] views the asking rules' own are kept, and of the others those
//! dropped first that would be forgotten next. (That bound is for many changes of
//! rules; it is the one way in which a view goes whose passes still count.)
//!
//! Finding a view takes no lock and allocates nothing; making and dropping one
//! takes turns and copies the list. A view is *retired* before it is dropped:
//! that and asking for it are steps on one word, so whoever finds it retired
//! makes a new one. A call that has reserved asks once more, now for the box that
//! it was charged to, which may be newer than its clock reading. If the view was
//! retired in between it gives back and begins anew; if not, the view stays for
//! as long as that box counts. So, within the bound, no pass that a rule has
//! taken is forgotten while it counts, however long its thread slept.
//!
//! The cell that holds the list loads and stores whole pointers, and what is made
//! once is made once: `arc-swap` and `OnceLock` promise that, and models assume
//! it.

mod interval;
#[cfg(not(loom))]
mod of_node;
mod own;

use std::sync::Arc;

use crate::leap_array::passes::BESIDE;
use crate::leap_array::{Full, Taken};
use crate::sync::{Cell, Mutex, MutexGuard, OnceLock, unpoisoned};
use crate::time::Timestamp;

pub use interval::{Interval, View};
use own::OwnView;

/// How many views a node keeps that the asking rules do not name: far more than
/// rules have intervals, as one that is dropped while it counts forgets what it
/// has counted. More are made only if the asking rules name more. Models have no
/// time for so many.
pub const VIEWS_MAX: usize = if cfg!(loom) { 2 } else { 256 };

/// The views of one node that rules have asked for.
#[derive(Debug, Default)]
pub struct Views {
    /// Made with the first view: most nodes have none.
    inner: OnceLock<Box<Inner>>,
}

#[derive(Debug)]
struct Inner {
    list: Cell<Vec<Arc<OwnView>>>,
    /// Held while the list is changed; the name given to a ring last.
    changing: Mutex<u16>,
}

impl Views {
    /// Makes sure that the view of `interval` counts calls that are admitted from
    /// now on. `among`: all intervals that the asker names, this one included.
    pub fn open(&self, interval: Interval, among: &[Interval], now: Timestamp) {
        self.with(interval, among, now, |_| {});
    }

    /// Takes `weight` passes of the view of `interval` if it then holds no more
    /// than `limit`, in one atomic step.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room; nothing has changed then.
    #[inline]
    pub fn reserve(
        &self,
        interval: Interval,
        among: &[Interval],
        now: Timestamp,
        weight: u32,
        limit: u64,
    ) -> Result<Taken, Full> {
        let reserve = |view: &OwnView| view.reserve(now, weight, limit);
        loop {
            match self.with(interval, among, now, reserve) {
                Ok(taken) => return Ok(taken),
                Err(Some(full)) => return Err(full),
                Err(None) => {}
            }
        }
    }

    /// Whether [`Views::reserve`] would find room for a call that has taken `own`
    /// there by now. Takes nothing.
    ///
    /// # Errors
    ///
    /// [`Full`] as there.
    pub fn probe(
        &self,
        interval: Interval,
        among: &[Interval],
        now: Timestamp,
        weight: u32,
        limit: u64,
        own: Option<Taken>,
    ) -> Result<(), Full> {
        let probe = |view: &OwnView| view.probe(now, weight, limit, own);
        self.with(interval, among, now, probe)
    }

    /// Passes counted in the view of `interval`, if there is one. Looking makes
    /// none, and keeps none.
    pub fn passes(&self, interval: Interval, now: Timestamp) -> Option<u64> {
        let list = self.inner.get()?.list.load();
        let view = list.iter().find(|view| view.interval == interval)?;
        Some(view.ring.passes(now))
    }

    /// Whether nothing counts in any view.
    pub fn are_empty(&self, now: Timestamp) -> bool {
        let Some(inner) = self.inner.get() else {
            return true;
        };
        let list = inner.list.load();
        list.iter().all(|view| view.ring.passes(now) == 0)
    }

    /// The intervals of all views.
    pub fn intervals(&self) -> Vec<Interval> {
        let list = self.inner.get().map(|inner| inner.list.load());
        list.map_or_else(Vec::new, |list| {
            list.iter().map(|view| view.interval).collect()
        })
    }

    /// Lends the view of `interval` to `use_it`, made if there is none.
    #[inline]
    fn with<R>(
        &self,
        interval: Interval,
        among: &[Interval],
        now: Timestamp,
        use_it: impl FnOnce(&OwnView) -> R,
    ) -> R {
        if let Some(inner) = self.inner.get() {
            let list = inner.list.load();
            if let Some(view) = list.iter().find(|view| view.interval == interval)
                && view.ask(now)
            {
                return use_it(view);
            }
        }
        use_it(&self.make(interval, among, now))
    }

    /// The view of `interval`, made by this call or by whoever was faster.
    #[cold]
    fn make(&self, interval: Interval, among: &[Interval], now: Timestamp) -> Arc<OwnView> {
        let inner = self.inner.get_or_init(Inner::new);
        let mut name = inner.take_turn();
        let old = inner.list.load_full();
        let found = old.iter().find(|view| view.interval == interval);
        if let Some(view) = found.filter(|view| view.ask(now)) {
            return Arc::clone(view);
        }
        *name = next_name(*name, &old);
        let made = Arc::new(OwnView::new(interval, *name, now));
        inner.retire_beyond_bound(&old, among);
        let kept = old.iter().filter(|view| !view.is_retired());
        let list = kept.chain([&made]).map(Arc::clone).collect();
        inner.list.store(list);
        made
    }

    /// Counts an admitted call in every view. `hold` is given the name of the
    /// view's ring, its interval, and what takes the passes; it says what the
    /// call holds there in the end. Returns the latest beginning of a box that
    /// the call is counted in.
    #[inline]
    pub fn count(
        &self,
        now: Timestamp,
        weight: u32,
        hold: impl FnMut(u16, Interval, &dyn Fn() -> Taken) -> Taken,
    ) -> Timestamp {
        match self.inner.get() {
            None => Timestamp::EPOCH,
            Some(inner) => inner.count(now, weight, hold),
        }
    }

    /// Gives back what was taken of a view.
    #[cold]
    pub fn give_back(&self, taken: Taken) {
        // A view that was dropped meanwhile has nothing to give back to.
        if let Some(inner) = self.inner.get()
            && let list = inner.list.load()
            && let Some(view) = list.iter().find(|view| view.name == taken.ring())
        {
            view.ring.give_back(taken);
        }
    }
}

impl Inner {
    fn new() -> Box<Self> {
        Box::new(Inner {
            list: Cell::new(Vec::new()),
            changing: Mutex::new(0),
        })
    }

    fn take_turn(&self) -> MutexGuard<'_, u16> {
        // The list is replaced as a whole: nothing is left half done.
        unpoisoned(self.changing.lock())
    }

    fn count(
        &self,
        now: Timestamp,
        weight: u32,
        mut hold: impl FnMut(u16, Interval, &dyn Fn() -> Taken) -> Taken,
    ) -> Timestamp {
        let mut latest = Timestamp::EPOCH;
        let mut forgotten = false;
        for view in self.list.load().iter() {
            let taken = hold(view.name, view.interval, &|| view.pass(now, weight));
            latest = latest.max(view.counted_at(taken));
            forgotten |= view.is_forgotten(taken.number());
        }
        if forgotten {
            self.drop_forgotten(now);
        }
        latest
    }

    #[cold]
    fn drop_forgotten(&self, now: Timestamp) {
        let _turn = self.take_turn();
        let old = self.list.load_full();
        for view in old.iter() {
            view.retire_if(|view| view.is_forgotten(view.ring.number_at(now)));
        }
        let kept = old.iter().filter(|view| !view.is_retired());
        self.list.store(kept.map(Arc::clone).collect());
    }

    /// Retires views until there is room for one more within [`VIEWS_MAX`], or
    /// only those of `among` are left.
    fn retire_beyond_bound(&self, list: &[Arc<OwnView>], among: &[Interval]) {
        let live = |view: &&Arc<OwnView>| !view.is_retired();
        let mut others: Vec<_> = list
            .iter()
            .filter(live)
            .filter(|view| !among.contains(&view.interval))
            .collect();
        others.sort_by_key(|view| view.counts_until());
        let room = VIEWS_MAX - 1;
        let beyond = list.iter().filter(live).count().saturating_sub(room);
        for view in others.into_iter().take(beyond) {
            view.retire_if(|_| true);
        }
    }
}

/// The next name that no ring of `list` has; 0 is the node's own ring, and
/// [`BESIDE`] what is beside it.
fn next_name(last: u16, list: &[Arc<OwnView>]) -> u16 {
    let mut name = last;
    loop {
        name = (name % (BESIDE - 1)) + 1;
        if list.iter().all(|view| view.name != name) {
            return name;
        }
    }
}

//! Calls that ran before there was a budget: how many of them still do.
//!
//! Nobody hears when they leave, but their resources count them. So their
//! number, the *base*, is looked up when it matters: all calls in flight on the
//! resources, without those that are certainly ours. The base is never less than
//! the truth, and it only falls.
//!
//! To be sure of those that are ours there are two counters that only grow:
//! `settled`, raised after a call of ours was counted by its resource, and
//! `left`, raised before it leaves there. A look-up reads `settled`, then the
//! resources, then `left`:
//!
//! * a call that was settled before, and had not left afterwards, was counted by
//!   its resource all the time in between, and there are at least
//!   `settled − left` of those;
//! * an old call that is still in flight afterwards was too;
//! * these are different calls, so the sum over the resources, one after the
//!   other, is at least both together, and `sum − (settled − left)` is at least
//!   the old calls that are left. It may be more, by calls on their way in and
//!   out at that moment: the next look-up corrects it.
//!
//! As old calls only become fewer, a look-up that was overtaken by a later one
//! still says a number that is no less than the truth, and the least of all is
//! kept. Once it is 0 it stays so, and nothing is counted any more.
//!
//! What makes one thread see another's counts in that order: `settled` is raised
//! with release and read with acquire; between `left` and the resource's count
//! stands a release fence, between reading the resources and `left` an acquire
//! fence. Models in `tests/loom_system.rs` run all of it.

use flowgate_core::sync::{AtomicU64, Ordering, fence};

/// How many calls are in flight that came before the budget.
#[derive(Debug)]
pub struct OlderCalls {
    base: AtomicU64,
    settled: AtomicU64,
    left: AtomicU64,
}

impl OlderCalls {
    /// So many are in flight, all of them older.
    pub fn new(in_flight: u64) -> Self {
        OlderCalls {
            base: AtomicU64::new(in_flight),
            settled: AtomicU64::new(0),
            left: AtomicU64::new(0),
        }
    }

    /// How many there are at most.
    #[inline]
    pub fn at_most(&self) -> u64 {
        // Relaxed: an older value is a larger one, which is as true.
        self.base.load(Ordering::Relaxed)
    }

    /// A call of ours is now counted by its resource. Says whether
    /// [`leave`](Self::leave) has to be told.
    #[inline]
    pub fn settle(&self) -> bool {
        let counts = self.at_most() != 0;
        if counts {
            // Release: who sees this finds the call in its resource's count.
            self.settled.fetch_add(1, Ordering::Release);
        }
        counts
    }

    /// A call that was settled is about to leave its resource.
    #[inline]
    pub fn leave(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
        // Who sees that the call has left its resource finds it in here.
        fence(Ordering::Release);
    }

    /// Looks again, with what `in_flight` says of all resources; `None` from it
    /// changes nothing. Returns how many there are at most.
    #[cold]
    pub fn look_up(&self, in_flight: impl FnOnce() -> Option<u64>) -> u64 {
        // Acquire: see `settle`.
        let settled = self.settled.load(Ordering::Acquire);
        let Some(all) = in_flight() else {
            return self.at_most();
        };
        // See `leave`.
        fence(Ordering::Acquire);
        let left = self.left.load(Ordering::Relaxed);
        let older = all.saturating_sub(settled.saturating_sub(left));
        let lower = |base: u64| (older < base).then_some(older);
        match self
            .base
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower)
        {
            Ok(_) => older,
            Err(base) => base,
        }
    }
}

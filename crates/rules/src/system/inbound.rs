//! The budget of all inbound calls of an engine: how many pass per second, and
//! how many run at once, to the single call.
//!
//! Resources count their own calls, and no node counts all of them: it would be
//! one cache line that all threads write. Only while a system rule is in force
//! is there this budget, and every inbound call takes its passes and a place
//! from it, in one atomic step each, as flow rules do from a resource.
//!
//! # Coming into force in mid-flight
//!
//! **Passes.** The budget begins with what the resources have counted in each
//! box of the second view, so what passed before counts, and leaves the account
//! when it would have anyway.
//!
//! **Places.** Calls that run already were not counted here and do not leave
//! here. They are the *base*: a number that is never less than how many of them
//! are still in flight. A call takes a place if `places taken + base` is below
//! the limit, by a compare-and-swap on the places; so at no time do more run
//! than the limit, or than ran already.
//!
//! The base only falls. It starts as all inbound calls in flight, and is looked
//! up again when a call would be refused because of it: all calls in flight on
//! the resources, without those that are certainly ours. To be sure of those
//! there are two counters that only grow: `settled`, raised after a call of ours
//! was counted by its resource, and `left`, raised before it leaves there. The
//! look-up reads `settled`, then the resources, then `left`:
//!
//! * a call that was settled before, and had not left afterwards, was counted by
//!   its resource all the time in between, and there are at least
//!   `settled − left` of those;
//! * an old call that is still in flight afterwards was too;
//! * these are different calls, so the sum over the resources, one after the
//!   other, is at least both together, and `sum − (settled − left)` is at least
//!   the old calls that are left. It may be more, by calls on their way in and out
//!   at that moment: then somebody is refused, and the next look-up corrects it.
//!
//! As old calls only become fewer, a look-up that was overtaken by a later one
//! still says a number that is no less than the truth, and the least of all is
//! kept.
//!
//! # What it does not do
//!
//! A call that had entered the old chain and was counted nowhere yet at the
//! moment of the first look is in neither number. It is as if the rule had come
//! a moment later; there are at most as many of those as threads on their way in.
//! The two directions of a resource that is called both ways are told apart by
//! two counters ([`Node::inbound_in_flight`]). Calls that ran before the budget
//! leave no response time in it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use flowgate_core::call::Hold;
use flowgate_core::leap_array::{Full, Taken};
use flowgate_core::node::Throughput;
use flowgate_core::node::permits::Share;
use flowgate_core::{Node, NodeSettings, Outcome, Timestamp};

use super::machine::{InboundTotals, Limits};

/// The base is looked up at most this often, as it costs a look at every
/// resource.
const LOOK_EVERY_NS: u64 = 1_000_000;

/// The budget of all inbound calls of an engine.
pub struct Inbound {
    node: Node,
    totals: Option<Arc<dyn InboundTotals>>,
    /// Calls in flight that were admitted before the budget was there; never
    /// less than there really are.
    base: AtomicU64,
    settled: AtomicU64,
    left: AtomicU64,
    looked_at: AtomicU64,
}

/// What one call holds of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    taken: Taken,
    passes: u64,
    in_flight: u64,
    is_settled: bool,
}

/// Why a call finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// So many have passed.
    Passes(Full),
    /// So many are in flight.
    Places(u64),
}

impl Inbound {
    /// A budget that goes on from `totals`.
    pub(super) fn open(nodes: &Arc<NodeSettings>, totals: Option<&Arc<dyn InboundTotals>>) -> Self {
        let node = Node::new(nodes);
        for sums in totals.map_or_else(Vec::new, |totals| totals.boxes()) {
            node.resume(&sums);
        }
        Inbound {
            node,
            base: AtomicU64::new(totals.and_then(|totals| totals.in_flight()).unwrap_or(0)),
            totals: totals.map(Arc::clone),
            settled: AtomicU64::new(0),
            left: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
        }
    }

    /// Takes passes of `weight` and one place, if both are within `limits`.
    ///
    /// # Errors
    ///
    /// What there was no room for; then nothing is held.
    #[inline]
    pub fn enter(&self, now: Timestamp, weight: u32, limits: Limits) -> Result<Held, NoRoom> {
        // Looked at first: a call that finds no place takes no passes that
        // somebody else may be refused for.
        if self.in_flight() >= limits.places {
            self.peek(now, weight, limits)?;
        }
        let taken = self.node.reserve(now, weight, limits.passes);
        let taken = taken.map_err(NoRoom::Passes)?;
        match self.take_place(now, limits.places) {
            Ok(in_flight) => Ok(Held {
                taken,
                passes: taken.sum(),
                in_flight,
                is_settled: false,
            }),
            Err(in_flight) => {
                self.node.give_back(Hold::Passed(taken));
                Err(NoRoom::Places(in_flight))
            }
        }
    }

    /// Whether [`Inbound::enter`] would find room; takes nothing.
    ///
    /// # Errors
    ///
    /// As there.
    #[cold]
    pub fn peek(&self, now: Timestamp, weight: u32, limits: Limits) -> Result<(), NoRoom> {
        let probed = self.node.probe(now, weight, limits.passes, Hold::Nothing);
        probed.map_err(NoRoom::Passes)?;
        if self.in_flight() >= limits.places {
            self.look_up_base(now);
        }
        match self.in_flight() {
            in_flight if in_flight >= limits.places => Err(NoRoom::Places(in_flight)),
            _ => Ok(()),
        }
    }

    /// Counts a call that was admitted without asking here; `None` if there
    /// are more in flight than can be counted.
    #[must_use]
    pub fn count(&self, now: Timestamp, weight: u32) -> Option<Held> {
        let in_flight = self.node.enter(Share::PERMITS, 0).ok()? + self.base();
        let taken = self.node.pass(now, weight);
        let passes = self.node.passes_in_second(now);
        let mut held = Held {
            taken,
            passes,
            in_flight,
            is_settled: false,
        };
        self.settle(&mut held);
        Some(held)
    }

    /// The call was admitted, and its resource counts it from now on.
    #[inline]
    pub fn settle(&self, held: &mut Held) {
        // Relaxed: once it is 0 it stays so, and nobody looks up any more.
        if self.base.load(Ordering::Relaxed) != 0 {
            // Release: who sees this finds the call in its resource's count.
            self.settled.fetch_add(1, Ordering::Release);
            held.is_settled = true;
        }
    }

    /// Gives back what a call held that was refused, or given up while it
    /// waited.
    pub fn give_back(&self, held: Held) {
        self.node.give_back(Hold::Passed(held.taken));
        self.leave(held);
    }

    /// The call has ended, `took` after its arrival.
    #[inline]
    pub fn exit(&self, held: Held, now: Timestamp, weight: u32, took: Duration, outcome: Outcome) {
        let failed = outcome == Outcome::Error;
        if outcome != Outcome::Cancelled {
            self.node.complete(now, weight, took, failed, false);
        }
        self.leave(held);
    }

    /// Inbound calls in flight; while some are that came before the budget, it
    /// may be more than there are.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.node.in_flight() + self.base()
    }

    /// Passes in the second view.
    pub fn passes(&self, now: Timestamp) -> u64 {
        self.node.passes_in_second(now)
    }

    /// How fast calls have ended in the second view.
    pub fn throughput(&self, now: Timestamp) -> Throughput {
        self.node.throughput(now)
    }

    #[inline]
    fn base(&self) -> u64 {
        // Relaxed: an older value is a larger one, which is as true.
        self.base.load(Ordering::Relaxed)
    }

    fn take_place(&self, now: Timestamp, places: u64) -> Result<u64, u64> {
        let attempt = |base: u64| {
            let taken = self.node.try_enter(1, places.saturating_sub(base));
            let with_base = |in_flight: u64| in_flight.saturating_add(base);
            taken.map(with_base).map_err(with_base)
        };
        let base = self.base();
        match attempt(base) {
            Err(_) if base != 0 && self.look_up_base(now) < base => attempt(self.base()),
            decided => decided,
        }
    }

    #[inline]
    fn leave(&self, held: Held) {
        if held.is_settled {
            self.left.fetch_add(1, Ordering::Relaxed);
            // Between this count and that of the resource, which the call leaves
            // next: who sees that it has left there finds it in here.
            fence(Ordering::Release);
        }
        self.node.leave(Share::PLACE, 0);
    }

    /// Looks how many calls are still in flight that came before the budget;
    /// see the head of this page.
    #[cold]
    fn look_up_base(&self, now: Timestamp) -> u64 {
        let Some(totals) = self.totals.as_ref().filter(|_| self.base() != 0) else {
            return self.base();
        };
        // Relaxed: only to keep the rest from looking at the same time.
        let last = self.looked_at.load(Ordering::Relaxed);
        let now_ns = now.as_nanos().max(1);
        let is_early = last != 0 && now_ns.saturating_sub(last) < LOOK_EVERY_NS;
        let claim = || {
            self.looked_at
                .compare_exchange(last, now_ns, Ordering::Relaxed, Ordering::Relaxed)
        };
        if is_early || claim().is_err() {
            return self.base();
        }
        // Acquire: pairs with `settle`.
        let settled = self.settled.load(Ordering::Acquire);
        let Some(all) = totals.in_flight() else {
            return self.base();
        };
        // Pairs with the fence in `leave`.
        fence(Ordering::Acquire);
        let left = self.left.load(Ordering::Relaxed);
        let old = all.saturating_sub(settled.saturating_sub(left));
        self.base.fetch_min(old, Ordering::Relaxed).min(old)
    }
}

impl Held {
    /// Passes in the second view with those of this call, when it took them.
    #[inline]
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// Calls in flight with this one, when it took its place.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// As the data of a ticket.
    #[inline]
    pub fn to_words(self) -> [u64; 3] {
        let [number, amount] = self.taken.to_words();
        let in_flight = self.in_flight.min(IN_FLIGHT_MAX) << IN_FLIGHT_SHIFT;
        let settled = u64::from(self.is_settled) << SETTLED_SHIFT;
        [number, amount | settled | in_flight, self.passes]
    }

    /// From the data of a ticket.
    #[inline]
    pub fn from_words([number, packed, passes]: [u64; 3]) -> Self {
        Held {
            taken: Taken::from_words([number, packed & u64::from(u32::MAX)]),
            passes,
            in_flight: packed >> IN_FLIGHT_SHIFT,
            is_settled: packed >> SETTLED_SHIFT & 1 == 1,
        }
    }
}

/// Below it is the amount.
const SETTLED_SHIFT: u32 = 32;
const IN_FLIGHT_SHIFT: u32 = 33;
const IN_FLIGHT_MAX: u64 = u64::MAX >> IN_FLIGHT_SHIFT;

impl fmt::Debug for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound")
            .field("in_flight", &self.node.in_flight())
            .field("base", &self.base())
            .finish_non_exhaustive()
    }
}

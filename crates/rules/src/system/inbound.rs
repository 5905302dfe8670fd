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
//! up again, on the resources' own counters, when a call would be refused because
//! of it; why it is then never less than the truth is said in [`OlderCalls`].
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
use std::time::Duration;

use flowgate_core::call::Hold;
use flowgate_core::leap_array::{Full, Taken};
use flowgate_core::node::Throughput;
use flowgate_core::node::permits::Share;
use flowgate_core::sync::{AtomicU64, Ordering};
use flowgate_core::{Node, NodeSettings, Outcome, Timestamp};

use super::machine::{InboundTotals, Limits};
use super::older::OlderCalls;

/// The base is looked up at most this often, as it costs a look at every
/// resource.
const LOOK_EVERY_NS: u64 = 1_000_000;

/// The budget of all inbound calls of an engine.
pub struct Inbound {
    node: Node,
    totals: Option<Arc<dyn InboundTotals>>,
    older: OlderCalls,
    /// When older calls were last looked up, in nanoseconds; 0: never.
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
        let in_flight = totals.and_then(|totals| totals.in_flight());
        Inbound {
            node,
            older: OlderCalls::new(in_flight.unwrap_or(0)),
            totals: totals.map(Arc::clone),
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
            self.look_up_older(now);
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
        let in_flight = self.node.enter(Share::PERMITS, 0).ok()? + self.older.at_most();
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
        held.is_settled = self.older.settle();
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
        self.node.in_flight() + self.older.at_most()
    }

    /// The same, looked up again unless that was just done: for a call that would
    /// be refused because of it.
    #[cold]
    pub fn in_flight_now(&self, now: Timestamp) -> u64 {
        self.look_up_older(now);
        self.in_flight()
    }

    /// Passes in the second view.
    pub fn passes(&self, now: Timestamp) -> u64 {
        self.node.passes_in_second(now)
    }

    /// How fast calls have ended in the second view.
    pub fn throughput(&self, now: Timestamp) -> Throughput {
        self.node.throughput(now)
    }

    fn take_place(&self, now: Timestamp, places: u64) -> Result<u64, u64> {
        let attempt = |base: u64| {
            let taken = self.node.try_enter(1, places.saturating_sub(base));
            let with_base = |in_flight: u64| in_flight.saturating_add(base);
            taken.map(with_base).map_err(with_base)
        };
        let base = self.older.at_most();
        match attempt(base) {
            Err(full) => match self.look_up_older(now) {
                fewer if fewer < base => attempt(fewer),
                _ => Err(full),
            },
            taken => taken,
        }
    }

    #[inline]
    fn leave(&self, held: Held) {
        if held.is_settled {
            self.older.leave();
        }
        self.node.leave(Share::PLACE, 0);
    }

    /// How many calls are still in flight that came before the budget, looked up
    /// again unless that was just done.
    #[cold]
    fn look_up_older(&self, now: Timestamp) -> u64 {
        let known = self.older.at_most();
        let Some(totals) = self.totals.as_ref().filter(|_| known != 0) else {
            return known;
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
            return known;
        }
        self.older.look_up(|| totals.in_flight())
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
        let [number, taken] = self.taken.to_words();
        let settled = u64::from(self.is_settled) << SETTLED_SHIFT;
        let in_flight = self.in_flight.min(u64::MAX >> IN_FLIGHT_SHIFT) << IN_FLIGHT_SHIFT;
        [
            number,
            taken | settled,
            self.passes.min(PASSES_MAX) | in_flight,
        ]
    }

    /// From the data of a ticket.
    #[inline]
    pub fn from_words([number, taken, counts]: [u64; 3]) -> Self {
        Held {
            taken: Taken::from_words([number, taken]),
            passes: counts & PASSES_MAX,
            in_flight: counts >> IN_FLIGHT_SHIFT,
            is_settled: taken >> SETTLED_SHIFT == 1,
        }
    }
}

/// Below it is what was taken.
const SETTLED_SHIFT: u32 = 48;
/// Below it are the passes, of which a window holds 2³⁴ at most.
const IN_FLIGHT_SHIFT: u32 = 40;
const PASSES_MAX: u64 = (1 << IN_FLIGHT_SHIFT) - 1;

impl fmt::Debug for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound")
            .field("in_flight", &self.node.in_flight())
            .field("older", &self.older.at_most())
            .finish_non_exhaustive()
    }
}

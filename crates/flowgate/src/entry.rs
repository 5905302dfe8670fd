//! The guard: proof that a call was admitted.

use std::fmt;
use std::sync::Arc;

use flowgate_core::{Departure, Node, Nodes, Outcome, Ticket, Timestamp, Traffic};
use flowgate_slots::{Slot, SlotChain, StatisticSlot};
use smallvec::SmallVec;

use crate::pending::Admission;
use crate::resource::ResourceRef;

/// The guard of an admitted call: as long as it lives the call is in flight.
///
/// Dropping it counts the call as a success, or as an error if a panic is
/// unwinding; [`exit_with`](Entry::exit_with) says how it ended. It leaves
/// through the chain that admitted it, whatever rules are in force by then. It
/// may be sent to another thread and held across `await`.
///
/// A second exit is no run-time question: `exit` takes the guard.
///
/// ```compile_fail
/// # let orders = flowgate::Engine::new().resource("orders");
/// let entry = orders.entry().unwrap();
/// entry.exit();
/// entry.exit(); // use of moved value
/// ```
#[must_use = "the call counts as ended as soon as the entry is dropped"]
pub struct Entry<'a> {
    /// `None` after the exit, and while guarding is switched off.
    guarded: Option<Guarded<'a>>,
}

/// An entry that outlives the handle it came from.
pub type OwnedEntry = Entry<'static>;

pub(crate) struct Guarded<'a> {
    resource: ResourceRef<'a>,
    origin: Option<Arc<Node>>,
    context: Option<Arc<Node>>,
    chain: Option<Arc<SlotChain>>,
    tickets: SmallVec<[Ticket; 2]>,
    excluded: u64,
    entered: Timestamp,
    weight: u32,
    traffic: Traffic,
    /// Entered while a panic was unwinding: that panic is not this call's.
    in_panic: bool,
}

impl<'a> Guarded<'a> {
    #[inline]
    pub(crate) fn new(resource: ResourceRef<'a>, admission: Admission) -> Self {
        let Admission {
            chain,
            hears_exits,
            holds,
            entered,
            weight,
            traffic,
            origin,
            context,
        } = admission;
        Guarded {
            resource,
            origin,
            context,
            chain: chain.filter(|_| hears_exits),
            excluded: holds.excluded(),
            tickets: if hears_exits {
                holds.tickets
            } else {
                SmallVec::new()
            },
            entered,
            weight,
            traffic,
            in_panic: std::thread::panicking(),
        }
    }

    #[inline]
    fn leave(&self, outcome: Outcome) {
        let (origin, context) = (self.origin.as_deref(), self.context.as_deref());
        let mut departure = Departure {
            resource: &self.resource.name,
            entered: self.entered,
            now: self.resource.shared.clock.now(),
            weight: self.weight,
            outcome,
            nodes: Nodes::new(&self.resource.node, self.traffic, origin, context),
            tickets: &self.tickets,
            slot: 0,
        };
        if let Some(chain) = &self.chain {
            chain.leave(&mut departure, self.excluded);
        }
        StatisticSlot.exited(&departure);
    }
}

impl<'a> Entry<'a> {
    #[inline]
    pub(crate) fn guarding(guarded: Guarded<'a>) -> Self {
        Entry {
            guarded: Some(guarded),
        }
    }

    pub(crate) fn unguarded() -> Self {
        Entry { guarded: None }
    }

    /// The call has ended well.
    #[inline]
    pub fn exit(self) {
        self.exit_with(Outcome::Success);
    }

    /// The call has ended like this.
    #[inline]
    pub fn exit_with(mut self, outcome: Outcome) {
        if let Some(guarded) = self.guarded.take() {
            guarded.leave(outcome);
        }
    }

    /// When the call arrived; `None` while guarding is switched off.
    pub fn entered(&self) -> Option<Timestamp> {
        self.guarded.as_ref().map(|guarded| guarded.entered)
    }

    /// Name of the resource; `None` while guarding is switched off.
    pub fn resource(&self) -> Option<&str> {
        self.guarded.as_ref().map(|guarded| &*guarded.resource.name)
    }
}

impl Drop for Entry<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(guarded) = self.guarded.take() {
            let panicked = std::thread::panicking() && !guarded.in_panic;
            guarded.leave(if panicked {
                Outcome::Error
            } else {
                Outcome::Success
            });
        }
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("resource", &self.resource())
            .field("entered", &self.entered())
            .finish()
    }
}

/// An entry whose work is a future: dropped before its end it was cancelled,
/// unless a panic dropped it.
#[cfg(feature = "tokio")]
pub(crate) struct CancelOnDrop<'a>(Option<Entry<'a>>);

#[cfg(feature = "tokio")]
impl<'a> CancelOnDrop<'a> {
    pub(crate) fn new(entry: Entry<'a>) -> Self {
        CancelOnDrop(Some(entry))
    }

    pub(crate) fn finish(mut self, outcome: Outcome) {
        if let Some(entry) = self.0.take() {
            entry.exit_with(outcome);
        }
    }
}

#[cfg(feature = "tokio")]
impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        match self.0.take() {
            // The entry itself tells a panic from a success.
            Some(entry) if std::thread::panicking() => drop(entry),
            Some(entry) => entry.exit_with(Outcome::Cancelled),
            None => {}
        }
    }
}

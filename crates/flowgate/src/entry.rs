//! The guard: proof that a call was admitted.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flowgate_core::call::Seats;
use flowgate_core::{Departure, Node, Nodes, Outcome, Timestamp, Traffic};
use flowgate_slots::{Slot, StatisticSlot};

use crate::request::Spec;
use crate::resource::ResourceRef;
use crate::visit::Visit;

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

/// An entry that holds its resource instead of borrowing a handle: what asking
/// by name gives, and [`Request::into_owned`](crate::Request::into_owned).
pub type OwnedEntry = Entry<'static>;

pub(crate) struct Guarded<'a> {
    resource: ResourceRef<'a>,
    stay: Stay,
    /// It is on its way out: should a clock of a service's own panic there, it
    /// does not leave twice.
    has_left: bool,
}

/// What a call in flight keeps until its end.
pub(crate) struct Stay {
    pub(crate) entered: Timestamp,
    /// How long it was told to wait.
    waited_ns: u64,
    pub(crate) weight: u32,
    pub(crate) traffic: Traffic,
    /// From where it is in flight.
    pub(crate) seats: Seats,
    /// Entered while a panic was unwinding: that panic is not this call's.
    in_panic: bool,
    pub(crate) origin: Option<Arc<Node>>,
    pub(crate) context: Option<Arc<Node>>,
    /// Only calls that report back have their chain along.
    pub(crate) reports_to: Option<Visit>,
}

impl Stay {
    /// Of a call that arrives.
    #[inline]
    pub(crate) fn arriving(now: Timestamp, spec: &Spec<'_>) -> Self {
        Stay {
            entered: now,
            waited_ns: 0,
            weight: spec.weight,
            traffic: spec.traffic,
            seats: Seats::default(),
            in_panic: std::thread::panicking(),
            origin: None,
            context: None,
            reports_to: None,
        }
    }

    /// It was told to wait, and has done so.
    pub(crate) fn has_waited(&mut self, wait: Duration) {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        self.waited_ns = self.waited_ns.saturating_add(wait_ns);
    }

    /// The nodes that count the call, beside that of its resource.
    #[inline]
    pub(crate) fn nodes<'n>(&'n self, resource: &'n Node) -> Nodes<'n> {
        let (origin, context) = (self.origin.as_deref(), self.context.as_deref());
        Nodes::new(resource, self.traffic, origin, context)
    }
}

impl Guarded<'_> {
    #[inline]
    fn leave(&mut self, outcome: Outcome) {
        self.has_left = true;
        let Guarded { resource, stay, .. } = self;
        let visit = stay.reports_to.take();
        let mut departure = Departure {
            resource: &resource.name,
            entered: stay.entered,
            now: resource.shared.clock.now(),
            weight: stay.weight,
            outcome,
            nodes: stay.nodes(&resource.node),
            seats: stay.seats,
            tickets: visit.as_ref().map_or(&[], Visit::tickets),
            slot: 0,
        };
        if let Some(visit) = &visit {
            visit.report(&mut departure);
        }
        StatisticSlot.exited(&departure);
        if let Some(visit) = visit {
            visit.put_back(resource.chain.number());
        }
    }
}

impl<'a> Entry<'a> {
    #[inline]
    pub(crate) fn guarding(resource: ResourceRef<'a>, stay: Stay) -> Self {
        Entry {
            guarded: Some(Guarded {
                resource,
                stay,
                has_left: false,
            }),
        }
    }

    #[inline]
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
        self.leave(outcome);
    }

    /// Where it stands: it is not moved once more.
    fn leave(&mut self, outcome: Outcome) {
        if let Some(guarded) = &mut self.guarded {
            guarded.leave(outcome);
            self.guarded = None;
        }
    }

    /// When the call arrived, as it is charged: its clock reading, or the
    /// beginning of a newer window that others had opened by then. `None` while
    /// guarding is switched off.
    pub fn entered(&self) -> Option<Timestamp> {
        self.guarded.as_ref().map(|guarded| guarded.stay.entered)
    }

    /// How long a rule had the call wait before it went ahead.
    pub fn waited(&self) -> Duration {
        self.guarded.as_ref().map_or(Duration::ZERO, |guarded| {
            Duration::from_nanos(guarded.stay.waited_ns)
        })
    }

    /// Name of the resource; `None` while guarding is switched off.
    pub fn resource(&self) -> Option<&str> {
        self.guarded.as_ref().map(|guarded| &*guarded.resource.name)
    }
}

impl Drop for Entry<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(guarded) = self.guarded.as_ref().filter(|guarded| !guarded.has_left) {
            let panicked = std::thread::panicking() && !guarded.stay.in_panic;
            self.leave(if panicked {
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

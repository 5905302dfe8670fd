//! Between admission and entry: the wait, as a value.

use std::sync::Arc;
use std::time::Duration;

use flowgate_core::call::Holds;
use flowgate_core::{Call, Node, Nodes, Timestamp, Traffic};
use flowgate_slots::SlotChain;

use crate::entry::{Entry, Guarded};
use crate::resource::ResourceRef;

/// A call that was admitted, and may have to wait before it goes ahead.
///
/// [`begin`](Pending::begin) it when the wait is over; dropping it gives its
/// place back. The crate's own ways to wait ([`Request::entry`],
/// `Request::acquire`) are made of this.
///
/// [`Request::entry`]: crate::Request::entry
#[must_use = "dropping it gives the place back"]
pub struct Pending<'a> {
    resource: Option<ResourceRef<'a>>,
    admission: Option<Admission>,
}

/// What a call was admitted with.
pub(crate) struct Admission {
    pub(crate) chain: Option<Arc<SlotChain>>,
    pub(crate) hears_exits: bool,
    pub(crate) holds: Holds,
    pub(crate) entered: Timestamp,
    pub(crate) weight: u32,
    pub(crate) traffic: Traffic,
    pub(crate) origin: Option<Arc<Node>>,
    pub(crate) context: Option<Arc<Node>>,
}

impl<'a> Pending<'a> {
    #[inline]
    pub(crate) fn new(resource: ResourceRef<'a>, admission: Option<Admission>) -> Self {
        Pending {
            resource: Some(resource),
            admission,
        }
    }

    /// How long to wait from the arrival; zero: go ahead.
    #[inline]
    pub fn wait(&self) -> Duration {
        self.admission
            .as_ref()
            .map_or(Duration::ZERO, |admission| admission.holds.wait)
    }

    /// Goes ahead. The pass of a call that had to wait is counted now, unless a
    /// rule counted it on arrival.
    #[inline]
    pub fn begin(mut self) -> Entry<'a> {
        let (Some(resource), Some(mut admission)) = (self.resource.take(), self.admission.take())
        else {
            return Entry::unguarded();
        };
        if !admission.holds.wait.is_zero() {
            let now = resource.shared.clock.now();
            let Admission {
                traffic, weight, ..
            } = admission;
            let (origin, context) = (admission.origin.as_deref(), admission.context.as_deref());
            let nodes = Nodes::new(&resource.node, traffic, origin, context);
            admission.holds.go_ahead(&nodes, now, weight);
        }
        Entry::guarding(Guarded::new(resource, admission))
    }

    /// Gives the place back, as dropping does.
    pub fn cancel(self) {
        drop(self);
    }

    /// Waits on the calling thread, by the engine's clock.
    pub(crate) fn wait_on_thread(&self, wait: Duration) {
        let Some(resource) = &self.resource else {
            return;
        };
        #[cfg(feature = "tokio")]
        if tokio::runtime::Handle::try_current().is_ok() {
            let waits = &resource.shared.counters.waits_in_runtime;
            waits.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        resource.shared.clock.sleep(wait);
    }

    /// Waits on a timer. A manual clock is moved forward instead.
    #[cfg(feature = "tokio")]
    pub(crate) async fn wait_on_timer(&self, wait: Duration) {
        let Some(resource) = &self.resource else {
            return;
        };
        match resource.shared.clock.as_manual() {
            Some(manual) => {
                manual.advance(wait);
                tokio::task::yield_now().await;
            }
            None => tokio::time::sleep(wait).await,
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let (Some(resource), Some(admission)) = (&self.resource, self.admission.take()) else {
            return;
        };
        let Admission {
            origin,
            context,
            traffic,
            weight,
            holds,
            chain,
            ..
        } = admission;
        let nodes = Nodes::new(
            &resource.node,
            traffic,
            origin.as_deref(),
            context.as_deref(),
        );
        let mut call = Call {
            resource: &resource.name,
            now: resource.shared.clock.now(),
            weight,
            prioritized: false,
            traffic,
            origin: "",
            context: "",
            args: &[],
            nodes,
            holds,
            slot: 0,
        };
        match chain {
            Some(chain) => chain.cancel(&mut call),
            None => SlotChain::default().cancel(&mut call),
        }
    }
}

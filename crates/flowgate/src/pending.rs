//! Between admission and entry: the wait, as a value.

use std::time::Duration;

use flowgate_core::Call;
use flowgate_core::call::Holds;

use crate::entry::{Entry, Stay};
use crate::resource::ResourceRef;
use crate::visit::{Chain, Visit};

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

/// What a call holds that has not gone ahead yet.
pub(crate) struct Admission {
    pub(crate) chain: Chain,
    pub(crate) holds: Holds,
    pub(crate) stay: Stay,
}

impl<'a> Pending<'a> {
    #[inline]
    pub(crate) fn new(resource: ResourceRef<'a>, admission: Admission) -> Self {
        Pending {
            resource: Some(resource),
            admission: Some(admission),
        }
    }

    /// Of a call that nothing guards.
    pub(crate) fn unguarded() -> Self {
        Pending {
            resource: None,
            admission: None,
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
        let (Some(resource), Some(admission)) = (self.resource.take(), self.admission.take())
        else {
            return Entry::unguarded();
        };
        let Admission {
            chain,
            mut holds,
            mut stay,
        } = admission;
        if !holds.wait.is_zero() {
            stay.has_waited(holds.wait);
            let now = resource.shared.clock.now();
            holds.go_ahead(&stay.nodes(&resource.node), now, stay.weight);
        }
        if chain.slots.hears_exits() {
            stay.reports_to = Some(Visit::reporting(resource.chain.number(), &chain, &holds));
        }
        Entry::guarding(resource, stay)
    }

    /// Gives the place back, as dropping does.
    pub fn cancel(self) {
        drop(self);
    }

    /// Goes ahead after a wait on the calling thread, by the engine's clock.
    pub(crate) fn begin_on_thread(self) -> Entry<'a> {
        self.wait_on_thread(self.wait());
        self.begin()
    }

    fn wait_on_thread(&self, wait: Duration) {
        let Some(resource) = self.resource.as_ref().filter(|_| !wait.is_zero()) else {
            return;
        };
        resource.shared.counters.note_wait_on_thread();
        resource.shared.clock.sleep(wait);
    }

    /// Waits on a timer. A manual clock is moved forward instead.
    #[cfg(feature = "tokio")]
    pub(crate) async fn wait_on_timer(&self, wait: Duration) {
        let Some(resource) = self.resource.as_ref().filter(|_| !wait.is_zero()) else {
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
        let Admission { chain, holds, stay } = admission;
        let mut call = Call {
            resource: &resource.name,
            now: resource.shared.clock.now(),
            weight: stay.weight,
            prioritized: false,
            may_wait: true,
            may_queue: false,
            traffic: stay.traffic,
            origin: "",
            context: "",
            args: &[],
            attachments: &[],
            nodes: stay.nodes(&resource.node),
            holds,
            slot: 0,
        };
        chain.slots.cancel(&mut call);
    }
}

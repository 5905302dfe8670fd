//! Standing in line for permits: what a call is between two ways through its
//! chain.
//!
//! The first way ended at a slot that had no permits for it, and gave back all
//! that was taken. Now the call stands in the line of its resource, holding
//! nothing. Whoever leaves hands the permits on; with them the call goes through
//! the same chain a second time, at a new clock reading, so that rates are asked
//! when it can really go. If that refuses it, the permits go to the next in line.
//!
//! ```text
//! Standing ── step in ──▶ Waiting ── permits ──▶ Granted ── second way ──▶ admitted
//!     │                     │  │                                      └──▶ refused
//!     └─ line too long      │  └─ time over: refused, counted as blocked
//!                           └─ dropped: counted as cancelled
//! ```

use std::sync::Arc;
use std::task::Waker;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use flowgate_core::call::Holds;
use flowgate_core::node::permits::Turn;
use flowgate_core::{Block, Clock, Node, Nodes, Timestamp, Traffic};
use flowgate_slots::Line;

use crate::entry::Stay;
use crate::pending::Pending;
use crate::request::Spec;
use crate::resource::{ResourceInner, ResourceRef};
use crate::visit::Chain;

/// A call that was told to stand in line.
pub(crate) struct Standing {
    pub(crate) chain: Chain,
    pub(crate) line: Box<Line>,
    pub(crate) stay: Stay,
}

/// A call that stands in line. Dropped there it leaves, and counts as cancelled.
pub(crate) struct Waiting<'w> {
    standing: Standing,
    place: PlaceInLine<'w>,
}

/// A call that has its permits, and nothing else yet.
pub(crate) struct Granted {
    pub(crate) chain: Chain,
    pub(crate) stay: Stay,
    pub(crate) holds: Holds,
}

impl Standing {
    /// Waits for the permits on the thread, and goes through the chain with
    /// them; the call may have to wait again, for its time.
    pub(crate) fn wait_on_thread<'a>(
        self,
        resource: ResourceRef<'a>,
        spec: &Spec<'_>,
    ) -> Result<Pending<'a>, Block> {
        let waiting = Waiting::step_in(&resource, self, spec)?;
        waiting.wait_on_thread();
        let granted = waiting.end(spec)?;
        let admission = resource.enter_granted(granted, spec)?;
        Ok(Pending::new(resource, admission))
    }

    /// The same without holding up the thread.
    #[cfg(feature = "tokio")]
    pub(crate) async fn wait_on_timer<'a>(
        self,
        resource: ResourceRef<'a>,
        spec: &Spec<'_>,
    ) -> Result<Pending<'a>, Block> {
        let waiting = Waiting::step_in(&resource, self, spec)?;
        waiting.wait_on_timer().await;
        let granted = waiting.end(spec)?;
        let admission = resource.enter_granted(granted, spec)?;
        Ok(Pending::new(resource, admission))
    }
}

impl<'w> Waiting<'w> {
    /// Steps into the line.
    pub(crate) fn step_in(
        resource: &'w ResourceInner,
        standing: Standing,
        spec: &Spec<'_>,
    ) -> Result<Self, Block> {
        match PlaceInLine::take(resource, &standing) {
            Some(place) => Ok(Waiting { standing, place }),
            None => Err(resource.turn_away(standing, spec)),
        }
    }

    /// Waits on the calling thread until the permits are there or the time is
    /// over.
    ///
    /// A manual clock is moved to the end of the wait instead, if the permits are
    /// not there by then: nobody else may be there to move it.
    pub(crate) fn wait_on_thread(&self) {
        let clock = self.place.clock();
        if let Some(manual) = clock.as_manual() {
            if !self.is_over(Waker::noop()) {
                manual.set(self.deadline());
            }
            return;
        }
        self.place.resource.shared.counters.note_wait_on_thread();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let end = Instant::now().checked_add(self.left());
        while !self.is_over(&waker) {
            match end.map(|end| end.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return,
                Some(left) => thread::park_timeout(left),
                // Longer than the system can count.
                None => thread::park(),
            }
        }
    }

    /// The same on a timer. Where there is no runtime there is no timer either,
    /// and the time is over for whoever looks then.
    #[cfg(feature = "tokio")]
    pub(crate) async fn wait_on_timer(&self) {
        let has_timer = tokio::runtime::Handle::try_current().is_ok();
        let mut timer = std::pin::pin!(has_timer.then(|| tokio::time::sleep(self.left())));
        std::future::poll_fn(|context| {
            if self.is_over(context.waker()) {
                return std::task::Poll::Ready(());
            }
            match timer.as_mut().as_pin_mut() {
                Some(timer) => timer.poll(context),
                None => std::task::Poll::Pending,
            }
        })
        .await;
        let manual = self.place.clock().as_manual();
        if let Some(manual) = manual.filter(|_| !self.place.has_come(Waker::noop())) {
            manual.set(self.deadline());
        }
    }

    /// Leaves the line, with the permits or refused.
    pub(crate) fn end(self, spec: &Spec<'_>) -> Result<Granted, Block> {
        let Waiting {
            standing,
            mut place,
        } = self;
        if !place.leave() {
            return Err(place.resource.turn_away(standing, spec));
        }
        let Standing {
            chain,
            line,
            mut stay,
        } = standing;
        stay.has_waited(place.clock().now().since(stay.entered));
        Ok(Granted {
            holds: Holds::granted(line.slot, line.queue.rule),
            chain,
            stay,
        })
    }

    /// Whether there is nothing to wait for any more; if there is, `waker` is
    /// woken when the permits are there.
    fn is_over(&self, waker: &Waker) -> bool {
        self.place.has_come(waker) || self.left().is_zero()
    }

    fn left(&self) -> Duration {
        self.deadline().since(self.place.clock().now())
    }

    fn deadline(&self) -> Timestamp {
        self.standing.stay.entered + self.standing.line.queue.wait_max
    }
}

/// A place in the line of a resource, and in the figures of who waits.
struct PlaceInLine<'w> {
    resource: &'w ResourceInner,
    /// `None` as soon as it was left.
    turn: Option<Turn>,
    traffic: Traffic,
    origin: Option<Arc<Node>>,
    context: Option<Arc<Node>>,
}

impl<'w> PlaceInLine<'w> {
    /// Nothing if the line is too long.
    fn take(resource: &'w ResourceInner, standing: &Standing) -> Option<Self> {
        let Standing { line, stay, .. } = standing;
        let (limit, queued_max) = (line.queue.limit, line.queue.queued_max);
        let permits = resource.node.permits();
        let turn = permits.line_up(stay.weight, limit, queued_max).ok()?;
        let place = PlaceInLine {
            resource,
            turn: Some(turn),
            traffic: stay.traffic,
            origin: stay.origin.clone(),
            context: stay.context.clone(),
        };
        place.nodes().iter().for_each(|(_, node)| node.queue_up());
        Some(place)
    }

    fn has_come(&self, waker: &Waker) -> bool {
        let permits = self.resource.node.permits();
        let turn = self.turn.as_ref();
        turn.is_some_and(|turn| permits.has_come(turn, waker))
    }

    /// Whether the permits had been granted: they are the call's then.
    fn leave(&mut self) -> bool {
        let Some(turn) = self.turn.take() else {
            return false;
        };
        self.nodes().iter().for_each(|(_, node)| node.queue_off());
        self.resource.node.permits().withdraw(turn)
    }

    fn clock(&self) -> &'w Clock {
        &self.resource.shared.clock
    }

    fn nodes(&self) -> Nodes<'_> {
        let (origin, context) = (self.origin.as_deref(), self.context.as_deref());
        Nodes::new(&self.resource.node, self.traffic, origin, context)
    }
}

impl Drop for PlaceInLine<'_> {
    fn drop(&mut self) {
        let Some(turn) = self.turn.take() else {
            return;
        };
        let weight = turn.weight();
        self.resource.node.permits().step_out(turn);
        let now = self.clock().now();
        for (_, node) in self.nodes().iter() {
            node.queue_off();
            node.cancelled(now, weight);
        }
    }
}

/// Wakes a thread that waits.
struct Unpark(Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

//! A node: the statistics of one resource, or of one origin or context of it.
//!
//! All views of a node read one ring of boxes. The *second view* (by default
//! two windows of 500 ms) is what rules compare with; the *minute view* is the
//! last 60 whole seconds. The boxes are as long as the greatest length that
//! divides both a window of the second view and one second, so each event is
//! written once.
//!
//! Rules that count over an interval of their own ask for further [`views`].
//!
//! What limits nothing and is limited by nothing a thread counts by itself: its
//! calls in flight ([`permits`]), and in stripes of the present box passes,
//! refusals and completions. Passes that a rule reserves are counted in the ring,
//! on the word that decides.
//!
//! A node is small until it is used: what it counts with is made by the first
//! call, and reading it makes nothing.
//!
//! A node outlives the rules: a rule that is raised or lowered in mid-window
//! sees what has already passed.

mod account;
mod calls;
mod figures;
mod idle;
mod passes;
pub mod permits;
mod reading;
mod settings;
pub(crate) mod stripes;
pub(crate) mod sums;
pub mod views;

use std::sync::Arc;

use crate::call::Traffic;
use crate::leap_array::{Borrowed, LeapArray, Lease, Window};
use crate::metric::MetricBucket;
use crate::striped::Striped;
use crate::sync::{AtomicU8, AtomicU64, OnceLock, Ordering};
use crate::time::Timestamp;

pub use account::{BoxSums, Throughput};
pub use calls::{Arrived, Passing};
pub use figures::{NodeSnapshot, RawFigures};
pub use settings::NodeSettings;
pub use views::{Interval, View};

use permits::Permits;
use views::Views;

/// The statistics of one resource, origin or context.
#[derive(Debug)]
pub struct Node {
    settings: Arc<NodeSettings>,
    /// The direction of the first call; see [`Node::twin_for`].
    direction: AtomicU8,
    /// Made on first use: most resources of a large registry are idle.
    counts: OnceLock<Box<Counts>>,
}

/// What a node that was used has counted.
#[derive(Debug)]
struct Counts {
    ring: LeapArray<MetricBucket>,
    borrowed: Borrowed,
    /// What threads have reserved of the second view in advance.
    leases: Striped<Lease>,
    views: Views,
    permits: Permits,
    /// Calls of this node that stand in the line of their resource.
    queued: AtomicU64,
    twin: OnceLock<Box<Node>>,
}

const UNDECIDED: u8 = 0;
const INBOUND: u8 = 1;
const OUTBOUND: u8 = 2;
/// Beside one of these: no call has come since, see [`idle`].
const RESTING: u8 = 0x80;

impl Node {
    /// A node that has counted nothing.
    pub fn new(settings: &Arc<NodeSettings>) -> Self {
        Node {
            settings: Arc::clone(settings),
            direction: AtomicU8::new(UNDECIDED),
            counts: OnceLock::new(),
        }
    }

    /// What it counts with, made now if it is the first use.
    #[inline]
    fn counts(&self) -> &Counts {
        match self.counts.get() {
            Some(counts) => counts,
            None => self.make_counts(),
        }
    }

    #[cold]
    fn make_counts(&self) -> &Counts {
        (self.counts).get_or_init(|| Box::new(Counts::new(&self.settings)))
    }

    /// The same for those who only read: a node that was never used has counted
    /// nothing, and need not be made for that.
    #[inline]
    fn known(&self) -> Option<&Counts> {
        self.counts.get().map(|counts| &**counts)
    }

    fn twin(&self) -> Option<&Node> {
        self.known()?.twin.get().map(|twin| &**twin)
    }

    /// Where a call of this direction is counted in addition.
    ///
    /// Nearly every resource is called in one direction only, so the inbound
    /// total is a sum over resources whose first call was inbound, and costs
    /// calls nothing. A resource that is called both ways counts the direction
    /// that came second in a twin as well; the total is taken apart by it. Least
    /// values cannot be taken apart, so those of such calls are in the twin alone.
    #[inline]
    pub fn twin_for(&self, traffic: Traffic) -> Option<&Node> {
        let mine = match traffic {
            Traffic::Inbound => INBOUND,
            Traffic::Outbound => OUTBOUND,
        };
        // Relaxed: only its own value matters. Every call looks here: that is how
        // a node knows that calls still come.
        let first = self.direction.load(Ordering::Relaxed);
        if first == mine {
            return None;
        }
        self.settle_direction(mine)
    }

    #[cold]
    fn settle_direction(&self, mine: u8) -> Option<&Node> {
        let settle = |found: u8| match found & !RESTING {
            UNDECIDED => Some(mine),
            first => (found != first).then_some(first),
        };
        let found = self
            .direction
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, settle);
        match found.unwrap_or_else(|found| found) & !RESTING {
            UNDECIDED => None,
            first if first == mine => None,
            _ => {
                let twin = &self.counts().twin;
                Some(twin.get_or_init(|| Box::new(Node::new(&self.settings))))
            }
        }
    }

    /// The direction of the first call.
    fn first_direction(&self) -> u8 {
        // Relaxed: set once, but for the mark, and only its own value matters.
        self.direction.load(Ordering::Relaxed) & !RESTING
    }

    /// The ring that passes are counted in.
    #[inline]
    fn ring(&self) -> &LeapArray<MetricBucket> {
        &self.counts().ring
    }

    /// The present window of that ring.
    #[inline]
    fn present(&self, now: Timestamp) -> Window<'_, MetricBucket> {
        let present = self.ring().current(now);
        if self.counts().borrowed.has_early() {
            self.counts()
                .borrowed
                .settle(self.settings.second.window(present.number()));
        }
        present
    }

    /// Somebody has come at `now`.
    #[inline]
    fn settle_early(&self, now: Timestamp) {
        if self.counts().borrowed.has_early() {
            self.present(now);
        }
    }
}

impl Counts {
    fn new(settings: &NodeSettings) -> Self {
        Counts {
            ring: LeapArray::with_width(settings.box_ns, settings.boxes),
            borrowed: Borrowed::new(settings.second.windows()),
            leases: Striped::default(),
            views: Views::default(),
            permits: Permits::new(),
            queued: AtomicU64::new(0),
            twin: OnceLock::new(),
        }
    }
}

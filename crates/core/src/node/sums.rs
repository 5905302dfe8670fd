//! Sums over the boxes of a node.
#![cfg_attr(
    not(loom),
    expect(unreachable_pub, reason = "models reach what only nodes use")
)]

use crate::leap_array::Window;
use crate::metric::{MetricBucket, MetricEvent};

/// Sums over some boxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of `MetricEvent`")]
pub struct Sums {
    pub pass: u64,
    pub block: u64,
    pub success: u64,
    pub exception: u64,
    pub rt_ns: u64,
    pub occupied_pass: u64,
    pub cancelled: u64,
    pub rt_min_ns: Option<u64>,
    pub concurrency_max: u64,
}

impl Sums {
    /// What one window holds.
    pub(super) fn of(window: &Window<'_, MetricBucket>) -> Self {
        Sums {
            pass: window.get(MetricEvent::Pass),
            block: window.get(MetricEvent::Block),
            success: window.get(MetricEvent::Success),
            exception: window.get(MetricEvent::Exception),
            rt_ns: window.get(MetricEvent::ResponseTime),
            occupied_pass: window.get(MetricEvent::OccupiedPass),
            cancelled: window.get(MetricEvent::Cancelled),
            rt_min_ns: window.bucket().rt_min_ns(window.lap()),
            concurrency_max: window.bucket().concurrency_max(window.lap()),
        }
    }

    pub(super) fn add(&mut self, other: &Sums) {
        self.pass += other.pass;
        self.block += other.block;
        self.success += other.success;
        self.exception += other.exception;
        self.rt_ns = self.rt_ns.saturating_add(other.rt_ns);
        self.occupied_pass += other.occupied_pass;
        self.cancelled += other.cancelled;
        self.rt_min_ns = least(self.rt_min_ns, other.rt_min_ns);
        self.concurrency_max = self.concurrency_max.max(other.concurrency_max);
    }

    /// Whether nothing was counted at all.
    #[cfg(not(loom))]
    pub(super) fn is_nothing(&self) -> bool {
        *self == Sums::default()
    }

    pub(super) fn without(&self, part: &Sums) -> Sums {
        Sums {
            pass: self.pass.saturating_sub(part.pass),
            block: self.block.saturating_sub(part.block),
            success: self.success.saturating_sub(part.success),
            exception: self.exception.saturating_sub(part.exception),
            rt_ns: self.rt_ns.saturating_sub(part.rt_ns),
            occupied_pass: self.occupied_pass.saturating_sub(part.occupied_pass),
            cancelled: self.cancelled.saturating_sub(part.cancelled),
            ..*self
        }
    }
}

pub(super) fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    [a, b].into_iter().flatten().min()
}

//! How the nodes of one engine count.

use std::time::Duration;

use crate::leap_array::{GeometryError, Span, window_width_ns};

pub(super) const SECOND_NS: u64 = 1_000_000_000;
pub(super) const MINUTE_SECONDS: u64 = 60;
/// More boxes than this would make one node weigh megabytes.
const BOXES_MAX: u64 = 60_000;

/// How the nodes of one engine count. The default is Sentinel's.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    pub(super) box_ns: u64,
    pub(super) boxes: usize,
    pub(super) second: Span,
    pub(super) second_interval: Duration,
    pub(super) borrow_wait_max: Duration,
    pub(super) rt_seed: Duration,
}

impl NodeSettings {
    /// `sample_count` windows of the second view in `interval`; a prioritized
    /// call borrows if it then waits less than `borrow_wait_max`; `rt_seed` is
    /// the least response time that a throughput is reckoned with while nothing
    /// was measured, and the largest one.
    ///
    /// # Errors
    ///
    /// If the windows do not divide the interval, or they and one second have
    /// so small a common measure that a minute of it would be over 60,000
    /// boxes.
    pub fn new(
        sample_count: u32,
        interval: Duration,
        borrow_wait_max: Duration,
        rt_seed: Duration,
    ) -> Result<Self, GeometryError> {
        let window_ns = window_width_ns(sample_count, interval)?;
        let box_ns = greatest_common_divisor(window_ns, SECOND_NS);
        let group = window_ns / box_ns;
        let span_boxes = group.saturating_mul(u64::from(sample_count));
        // One more second than the minute: the calendar second before this one
        // is asked for, and the first of the sixty must still be whole.
        let minute_boxes = (MINUTE_SECONDS + 1) * SECOND_NS / box_ns;
        let boxes = minute_boxes
            .max(span_boxes.saturating_add(group))
            .saturating_add(1);
        if boxes > BOXES_MAX {
            let problem = "the windows and one second have too small a common measure; \
                           choose windows that divide a second";
            return Err(GeometryError {
                sample_count,
                interval,
                problem,
            });
        }
        Ok(NodeSettings {
            box_ns,
            boxes: boxes as usize,
            second: Span::new(group, u64::from(sample_count)),
            second_interval: interval,
            borrow_wait_max: borrow_wait_max.min(interval),
            rt_seed,
        })
    }

    /// The interval of the second view.
    pub fn second_interval(&self) -> Duration {
        self.second_interval
    }
}

impl Default for NodeSettings {
    fn default() -> Self {
        let half = Duration::from_millis(500);
        NodeSettings::new(2, Duration::from_secs(1), half, Duration::from_secs(5))
            .expect("two windows divide a second")
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

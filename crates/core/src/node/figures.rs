//! What a node shows: the figures made of its sums.

use std::time::Duration;

use super::NodeSettings;
use super::sums::Sums;

/// The sums of one node, or of several: what a [`NodeSnapshot`] is made of.
#[derive(Clone, Debug, Default)]
pub struct RawFigures {
    pub(super) second: Sums,
    pub(super) borrowed: u64,
    pub(super) minute: Sums,
    pub(super) previous: Sums,
    pub(super) in_flight: u64,
    pub(super) permits: u64,
    pub(super) queued: u64,
    pub(super) waiting: u64,
}

impl RawFigures {
    /// Adds the figures of another node.
    pub fn add(&mut self, other: &RawFigures) {
        self.second.add(&other.second);
        self.minute.add(&other.minute);
        self.previous.add(&other.previous);
        self.borrowed += other.borrowed;
        self.in_flight += other.in_flight;
        self.permits += other.permits;
        self.queued += other.queued;
        self.waiting += other.waiting;
    }

    pub(super) fn without(&self, part: &RawFigures) -> RawFigures {
        RawFigures {
            second: self.second.without(&part.second),
            minute: self.minute.without(&part.minute),
            previous: self.previous.without(&part.previous),
            borrowed: self.borrowed.saturating_sub(part.borrowed),
            in_flight: self.in_flight.saturating_sub(part.in_flight),
            permits: self.permits.saturating_sub(part.permits),
            queued: self.queued.saturating_sub(part.queued),
            waiting: self.waiting.saturating_sub(part.waiting),
        }
    }

    /// The figures as people and dashboards read them.
    pub fn snapshot(&self, settings: &NodeSettings) -> NodeSnapshot {
        let secs = settings.second_interval.as_secs_f64();
        let RawFigures {
            second,
            minute,
            previous,
            ..
        } = self;
        NodeSnapshot {
            pass_qps: (second.pass + self.borrowed) as f64 / secs,
            block_qps: second.block as f64 / secs,
            success_qps: second.success as f64 / secs,
            exception_qps: second.exception as f64 / secs,
            cancelled_qps: second.cancelled as f64 / secs,
            avg_rt: second
                .rt_ns
                .checked_div(second.success)
                .map_or(Duration::ZERO, Duration::from_nanos),
            min_rt: second.rt_min_ns.map(Duration::from_nanos),
            max_concurrency: second.concurrency_max,
            total_pass: minute.pass + minute.occupied_pass,
            total_block: minute.block,
            total_success: minute.success,
            total_exception: minute.exception,
            total_occupied_pass: minute.occupied_pass,
            total_cancelled: minute.cancelled,
            previous_pass: previous.pass + previous.occupied_pass,
            previous_block: previous.block,
            in_flight: self.in_flight,
            permits: self.permits,
            queued: self.queued,
            waiting: self.waiting,
        }
    }
}

/// What a node shows at one moment. Counts are in weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSnapshot {
    /// Passes per second over the second view, borrowed ones included as soon
    /// as their window has begun.
    pub pass_qps: f64,
    /// Refusals per second over the second view.
    pub block_qps: f64,
    /// Calls ended per second over the second view, failed ones included.
    pub success_qps: f64,
    /// Calls failed per second over the second view.
    pub exception_qps: f64,
    /// Calls given up per second over the second view.
    pub cancelled_qps: f64,
    /// Mean response time over the second view: sum of times by sum of weights
    /// ended; zero if none ended.
    pub avg_rt: Duration,
    /// Least response time over the second view; `None` if none was measured.
    pub min_rt: Option<Duration>,
    /// The most calls in flight that a call of the second view has met, itself
    /// included.
    pub max_concurrency: u64,
    /// Passes of the last 60 seconds.
    pub total_pass: u64,
    /// Refusals of the last 60 seconds.
    pub total_block: u64,
    /// Calls ended in the last 60 seconds.
    pub total_success: u64,
    /// Calls failed in the last 60 seconds.
    pub total_exception: u64,
    /// Of the passes of the last 60 seconds, those admitted on loan.
    pub total_occupied_pass: u64,
    /// Calls given up in the last 60 seconds.
    pub total_cancelled: u64,
    /// Passes of the calendar second before this one.
    pub previous_pass: u64,
    /// Refusals of the calendar second before this one.
    pub previous_block: u64,
    /// Calls in flight, those that wait for their time included.
    pub in_flight: u64,
    /// The weights of the calls in flight, and permits granted to calls that
    /// are just going to be.
    pub permits: u64,
    /// Calls that wait for permits, and are not in flight yet.
    pub queued: u64,
    /// Passes borrowed from windows that have not begun.
    pub waiting: u64,
}

impl NodeSnapshot {
    /// Calls of the last 60 seconds, passed or refused.
    pub fn total_request(&self) -> u64 {
        self.total_pass + self.total_block
    }
}

//! What is counted in each window of a node.

use crate::leap_array::cell::{Counter, Greatest, Lap, Least};
use crate::leap_array::{Bucket, PassCell, Passes, Renewal, Window};
use crate::node::stripes::Stripes;
use crate::node::sums::Sums;

/// Something that is counted per window, in weights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MetricEvent {
    /// Admitted.
    Pass,
    /// Refused.
    Block,
    /// Ended with an error of the guarded work.
    Exception,
    /// Ended, errors included.
    Success,
    /// Response time from arrival to end, in nanoseconds.
    ResponseTime,
    /// Admitted on loan from a window to come, counted when it was admitted.
    OccupiedPass,
    /// Given up while waiting, or ended as cancelled.
    Cancelled,
}

/// The counters of one window.
#[derive(Debug, Default)]
pub struct MetricBucket {
    pass: PassCell,
    block: Counter,
    exception: Counter,
    success: Counter,
    rt_ns: Counter,
    occupied_pass: Counter,
    cancelled: Counter,
    rt_min_ns: Least,
    concurrency_max: Greatest,
}

impl MetricBucket {
    /// The count of `event` in the window of `lap`.
    pub fn get(&self, event: MetricEvent, lap: Lap) -> u64 {
        match self.counter(event) {
            Some(counter) => counter.get(lap),
            None => self.pass.get(lap),
        }
    }

    /// The least response time of the window of `lap` in nanoseconds.
    pub fn rt_min_ns(&self, lap: Lap) -> Option<u64> {
        self.rt_min_ns.get(lap)
    }

    /// The most calls in flight at once in the window of `lap`, as seen by the
    /// calls that arrived in it.
    pub fn concurrency_max(&self, lap: Lap) -> u64 {
        self.concurrency_max.get(lap)
    }

    /// Adds what a thread has counted by itself of the window of `lap`, unless a
    /// newer window has taken the cells over.
    pub(crate) fn pour(&self, lap: Lap, sums: &Sums) {
        self.pass.pour(lap, sums.pass);
        let counters = [
            (&self.block, sums.block),
            (&self.exception, sums.exception),
            (&self.success, sums.success),
            (&self.rt_ns, sums.rt_ns),
            (&self.cancelled, sums.cancelled),
        ];
        for (counter, sum) in counters.into_iter().filter(|(_, sum)| *sum != 0) {
            counter.add(lap, sum);
        }
        if let Some(rt_ns) = sums.rt_min_ns {
            self.rt_min_ns.note(lap, rt_ns);
        }
        self.concurrency_max.note(lap, sums.concurrency_max);
    }

    /// The counter of `event`; passes have a cell of another make.
    fn counter(&self, event: MetricEvent) -> Option<&Counter> {
        match event {
            MetricEvent::Pass => None,
            MetricEvent::Block => Some(&self.block),
            MetricEvent::Exception => Some(&self.exception),
            MetricEvent::Success => Some(&self.success),
            MetricEvent::ResponseTime => Some(&self.rt_ns),
            MetricEvent::OccupiedPass => Some(&self.occupied_pass),
            MetricEvent::Cancelled => Some(&self.cancelled),
        }
    }
}

impl Bucket for MetricBucket {
    type Beside = Stripes;

    fn renew(&self, renewal: &Renewal<'_>) {
        self.pass.renew(renewal);
        self.block.renew(renewal);
        self.exception.renew(renewal);
        self.success.renew(renewal);
        self.rt_ns.renew(renewal);
        self.occupied_pass.renew(renewal);
        self.cancelled.renew(renewal);
        self.rt_min_ns.renew(renewal);
        self.concurrency_max.renew(renewal);
    }
}

impl Passes for MetricBucket {
    fn passes(&self) -> &PassCell {
        &self.pass
    }
}

impl Window<'_, MetricBucket> {
    /// Adds `n` to `event` here. Passes are not added here: see
    /// [`LeapArray::pass`](crate::LeapArray::pass).
    #[inline]
    pub fn add(&mut self, event: MetricEvent, n: u64) {
        self.write(|bucket, lap| match bucket.counter(event) {
            Some(counter) => counter.add(lap, n),
            None => true,
        });
    }

    /// Takes `n` borrowed passes out of this window's count again.
    pub(crate) fn take_out_occupied(&self, n: u64) {
        self.bucket().occupied_pass.take_out(self.lap(), n);
    }

    /// Adds a response time, for the sum and the least.
    #[inline]
    pub fn add_rt(&mut self, rt_ns: u64) {
        self.add(MetricEvent::ResponseTime, rt_ns);
        self.note_rt_min(rt_ns);
    }

    /// Notes a response time for the least only.
    #[inline]
    pub fn note_rt_min(&mut self, rt_ns: u64) {
        self.write(|bucket, lap| bucket.rt_min_ns.note(lap, rt_ns));
    }

    /// Notes that `in_flight` calls were in flight at once.
    #[inline]
    pub fn note_concurrency(&mut self, in_flight: u64) {
        self.write(|bucket, lap| bucket.concurrency_max.note(lap, in_flight));
    }

    /// The count of `event` in this window.
    pub fn get(&self, event: MetricEvent) -> u64 {
        self.bucket().get(event, self.lap())
    }
}

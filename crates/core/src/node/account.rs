//! What a second account of the same calls needs of a node.
//!
//! A budget for all inbound calls counts them in a node of its own, and only
//! while a rule asks for it. When it comes into force it goes on from what the
//! nodes of the resources have counted, window by window, so that what has
//! passed leaves the account when it would have anyway.

use std::time::Duration;

use crate::time::Timestamp;

use super::sums::{Sums, least};
use super::{INBOUND, Node};

/// How often the two counters of a resource that is called both ways are read
/// before it is given up to find them at one moment.
const LOOKS_MAX: usize = 4;

/// What one box of the second view has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BoxSums {
    /// When the box began.
    pub start: Timestamp,
    /// Weights passed.
    pub passed: u64,
    /// Weights ended.
    pub ended: u64,
    /// Response times of the calls that ended, in nanoseconds.
    pub rt_ns: u64,
    /// The least of them.
    pub rt_min_ns: Option<u64>,
}

impl BoxSums {
    /// Adds what another node has counted in the same box.
    pub fn add(&mut self, other: &BoxSums) {
        self.passed += other.passed;
        self.ended += other.ended;
        self.rt_ns = self.rt_ns.saturating_add(other.rt_ns);
        self.rt_min_ns = least(self.rt_min_ns, other.rt_min_ns);
    }
}

/// How fast calls of a node have ended in its second view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// The most weights ended in one window, per second; Sentinel's
    /// `maxSuccessQps`, at least one per window.
    pub peak_per_second: f64,
    /// The least response time, from 1 ms to the engine's largest one, which
    /// also stands for "none was measured".
    pub rt_min: Duration,
    /// Sum of response times by sum of weights ended; `None` if none ended.
    pub rt_mean: Option<Duration>,
}

impl Throughput {
    /// How many calls can be in flight before they queue, by Little's law: rate
    /// by response time, both at their best. This is Sentinel's test on the
    /// lines of BBR, `maxSuccessQps × minRt`.
    pub fn capacity(&self) -> f64 {
        self.peak_per_second * self.rt_min.as_secs_f64()
    }
}

impl Node {
    /// Inbound calls in flight. Of a resource that is called both ways this is
    /// the difference of two counters: if they do not stand still for a moment,
    /// all its calls are taken for inbound ones.
    pub fn inbound_in_flight(&self) -> u64 {
        let inbound = self.first_direction() == INBOUND;
        match (inbound, self.twin()) {
            (true, None) => self.in_flight(),
            (true, Some(outbound)) => {
                for _ in 0..LOOKS_MAX {
                    let before = outbound.in_flight();
                    let all = self.in_flight();
                    if outbound.in_flight() == before && self.in_flight() == all {
                        return all.saturating_sub(before);
                    }
                }
                self.in_flight()
            }
            (false, Some(inbound)) => inbound.in_flight(),
            (false, None) => 0,
        }
    }

    /// What inbound calls have counted in each box of the second view, the
    /// oldest first. Passes borrowed for it are told with its last box.
    pub fn inbound_boxes(&self, now: Timestamp) -> Vec<BoxSums> {
        let inbound = self.first_direction() == INBOUND;
        match (inbound, self.twin()) {
            (true, None) => self.boxes(now, None),
            (true, Some(outbound)) => self.boxes(now, Some(outbound)),
            (false, Some(inbound)) => inbound.boxes(now, None),
            (false, None) => Vec::new(),
        }
    }

    fn boxes(&self, now: Timestamp, without: Option<&Node>) -> Vec<BoxSums> {
        if self.known().is_none() {
            return Vec::new();
        }
        let head = self.present(now).number();
        let span = self.settings.second;
        let sums = |number: u64| {
            let all = self.sum(number..=number);
            let part = without.map_or_else(Sums::default, |node| node.sum(number..=number));
            let borrowed = |node: &Node| match number == head {
                true => node.counts().borrowed.begun(span, head),
                false => 0,
            };
            let borrowed = borrowed(self).saturating_sub(without.map_or(0, borrowed));
            BoxSums {
                start: Timestamp::from_nanos(number.saturating_mul(self.settings.box_ns)),
                passed: all.pass.saturating_sub(part.pass) + borrowed,
                ended: all.success.saturating_sub(part.success),
                rt_ns: all.rt_ns.saturating_sub(part.rt_ns),
                rt_min_ns: all.rt_min_ns,
            }
        };
        (span.first(head, 0)..=head).map(sums).collect()
    }

    /// Counts what others have counted before this node was there. Boxes are
    /// told in the order of time.
    pub fn resume(&self, sums: &BoxSums) {
        let weight = |sum: u64| u32::try_from(sum).unwrap_or(u32::MAX);
        let ns = Duration::from_nanos;
        if sums.passed > 0 {
            let _ = self.pass(sums.start, weight(sums.passed));
        }
        if sums.ended > 0 {
            // The least one apart, as one of a node's least is noted per call.
            let rt_min_ns = sums.rt_min_ns.unwrap_or(0).min(sums.rt_ns);
            let others = ns(sums.rt_ns - rt_min_ns);
            self.complete(sums.start, weight(sums.ended), others, false, true);
            self.complete(
                sums.start,
                0,
                ns(rt_min_ns),
                false,
                sums.rt_min_ns.is_none(),
            );
        }
    }

    /// How fast calls have ended in the second view.
    pub fn throughput(&self, now: Timestamp) -> Throughput {
        let head = (self.known()).map_or(0, |_| self.present(now).number());
        let span = self.settings.second;
        let mut total = Sums::default();
        let mut peak = 0;
        let first = span.first(head, 0);
        for window in span.window(first)..=span.window(head) {
            let boxes = window * span.group()..=((window + 1) * span.group() - 1).min(head);
            let sums = self.sum(boxes);
            peak = peak.max(sums.success);
            total.add(&sums);
        }
        let settings = &self.settings;
        let per_second = span.windows() as f64 / settings.second_interval.as_secs_f64();
        let rt_min = total
            .rt_min_ns
            .map_or(settings.rt_seed, Duration::from_nanos);
        Throughput {
            peak_per_second: peak.max(1) as f64 * per_second,
            rt_min: rt_min.min(settings.rt_seed).max(Duration::from_millis(1)),
            rt_mean: total
                .rt_ns
                .checked_div(total.success)
                .map(Duration::from_nanos),
        }
    }
}

//! What became of the calls: by time, by phase, and by part of the site.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flowgate::Timestamp;
use tokio::sync::Notify;

use crate::{PHASES, SECONDS};

/// Ticks of a second.
pub(crate) const TICKS: usize = 10;

/// A call is counted in the phase it arrived in, also when it goes ahead in the
/// next.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) phase: usize,
    pub(crate) section: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) offered: u64,
    pub(crate) passed: u64,
    pub(crate) blocked: u64,
    pub(crate) queued: u64,
    pub(crate) wait: Duration,
    pub(crate) wait_max: Duration,
}

/// All that is shown. Written by the service, read by the view.
pub(crate) struct Board {
    start: Timestamp,
    sections: Vec<String>,
    tallies: Mutex<Tallies>,
    closed: AtomicBool,
    closing: Notify,
}

pub(crate) struct Tallies {
    /// One for each tick, and one for what comes after the end.
    pub(crate) ticks: Vec<Tally>,
    pub(crate) phases: Vec<Tally>,
    pub(crate) sections: Vec<Tally>,
}

impl Board {
    pub(crate) fn new(start: Timestamp, sections: &[String]) -> Self {
        Board {
            start,
            sections: sections.to_vec(),
            tallies: Mutex::new(Tallies {
                ticks: vec![Tally::default(); SECONDS * TICKS + 1],
                phases: vec![Tally::default(); PHASES.len()],
                sections: vec![Tally::default(); sections.len()],
            }),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
        }
    }

    pub(crate) fn offered(&self, call: Call, now: Timestamp) {
        self.count(call, now, |tally| tally.offered += 1);
    }

    pub(crate) fn passed(&self, call: Call, now: Timestamp) {
        self.count(call, now, |tally| tally.passed += 1);
    }

    pub(crate) fn blocked(&self, call: Call, now: Timestamp) {
        self.count(call, now, |tally| tally.blocked += 1);
    }

    pub(crate) fn queued(&self, call: Call, now: Timestamp, wait: Duration) {
        self.count(call, now, |tally| {
            tally.queued += 1;
            tally.wait += wait;
            tally.wait_max = tally.wait_max.max(wait);
        });
    }

    fn count(&self, call: Call, now: Timestamp, count: impl Fn(&mut Tally)) {
        let mut tallies = self.tallies();
        // What is left over when the time is up is not part of any second.
        let tick = (self.tick_at(now)).min(tallies.ticks.len() - 1);
        count(&mut tallies.ticks[tick]);
        count(&mut tallies.phases[call.phase]);
        count(&mut tallies.sections[call.section]);
    }

    /// The tick that `time` is in, from the start of the run.
    pub(crate) fn tick_at(&self, time: Timestamp) -> usize {
        time.since(self.start).as_millis() as usize * TICKS / 1_000
    }

    pub(crate) fn tallies(&self) -> MutexGuard<'_, Tallies> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sections(&self) -> &[String] {
        &self.sections
    }

    /// The run is over, or somebody has seen enough of it.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.closing.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits for [`close`](Board::close).
    pub(crate) async fn closed(&self) {
        self.closing.notified().await;
    }
}

impl Tally {
    pub(crate) fn of(ticks: &[Tally]) -> Tally {
        let mut sum = Tally::default();
        for tick in ticks {
            sum.offered += tick.offered;
            sum.passed += tick.passed;
            sum.blocked += tick.blocked;
            sum.queued += tick.queued;
            sum.wait += tick.wait;
            sum.wait_max = sum.wait_max.max(tick.wait_max);
        }
        sum
    }

    /// Of the calls that waited.
    pub(crate) fn wait_mean(&self) -> Duration {
        match u32::try_from(self.queued) {
            Ok(queued @ 1..) => self.wait / queued,
            _ => Duration::ZERO,
        }
    }
}

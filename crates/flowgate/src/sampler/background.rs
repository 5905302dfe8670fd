//! The thread that samples.
//!
//! It is started when a rule in force first needs samples, and ends when none
//! does any more or the engine is dropped; in both cases it is woken, so nobody
//! waits for an interval to go by. It holds what it works with and nothing of the
//! engine, so it keeps no engine alive. At most one such thread lives: one that
//! is told to end and wanted again before it has seen that simply goes on.
//!
//! On a manual clock there is no thread: whoever moves the time says when to
//! sample, with [`Engine::sample_now`](crate::Engine::sample_now).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use flowgate_core::Clock;
use flowgate_rules::system::{Machine, Sample};

use super::{HostSampler, SystemSampler};

/// How many intervals a sample counts: a sampler may miss a few, and is not
/// believed for longer.
const LASTS_INTERVALS: u32 = 5;

/// What an engine is told about sampling when it is built.
pub(crate) struct SamplingSettings {
    pub(crate) sampler: Option<Box<dyn SystemSampler>>,
    pub(crate) interval: Duration,
}

impl Default for SamplingSettings {
    fn default() -> Self {
        SamplingSettings {
            sampler: None,
            interval: Duration::from_secs(1),
        }
    }
}

/// An engine's hold on its sampler; dropping it ends the thread.
pub(crate) struct Sampling {
    work: Arc<Work>,
}

/// What the thread works with.
struct Work {
    machine: Arc<Machine>,
    clock: Clock,
    interval: Duration,
    sampler: Mutex<Box<dyn SystemSampler>>,
    faults: AtomicU64,
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Default)]
struct Orders {
    wanted: bool,
    /// Whether a thread is there that will read the orders once more.
    is_running: bool,
}

impl Sampling {
    pub(crate) fn new(settings: SamplingSettings, machine: &Arc<Machine>, clock: &Clock) -> Self {
        let SamplingSettings { sampler, interval } = settings;
        machine.keep_samples_for(interval.saturating_mul(LASTS_INTERVALS));
        let sampler = sampler.unwrap_or_else(|| {
            let host = HostSampler::new();
            if !host.has_load_and_cpu() {
                machine.lacks_load_and_cpu();
            }
            Box::new(host)
        });
        let work = Work {
            machine: Arc::clone(machine),
            clock: clock.clone(),
            interval,
            sampler: Mutex::new(sampler),
            faults: AtomicU64::new(0),
            orders: Mutex::default(),
            changed: Condvar::new(),
        };
        Sampling {
            work: Arc::new(work),
        }
    }

    /// Says whether a rule in force needs samples.
    pub(crate) fn want(&self, wanted: bool) {
        let mut orders = self.work.orders();
        orders.wanted = wanted;
        self.work.changed.notify_all();
        if !wanted || orders.is_running || self.work.clock.as_manual().is_some() {
            return;
        }
        let work = Arc::clone(&self.work);
        let thread = thread::Builder::new().name("flowgate-sampler".into());
        match thread.spawn(move || work.run()) {
            Ok(_) => orders.is_running = true,
            // No thread to be had: counted, and tried again with the next rules.
            Err(_) => self.work.count_fault(),
        }
    }

    /// Samples now, on this thread.
    pub(crate) fn sample_now(&self) -> Sample {
        self.work.sample();
        self.work.machine.sample(self.work.clock.now())
    }

    /// How often the sampler has panicked, or no thread was to be had for it.
    pub(crate) fn faults(&self) -> u64 {
        self.work.faults.load(Ordering::Relaxed)
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.work.orders().wanted = false;
        self.work.changed.notify_all();
    }
}

impl Work {
    fn run(&self) {
        loop {
            self.sample();
            if !self.rest() {
                return;
            }
        }
    }

    /// Waits for the next interval; false if there is none.
    fn rest(&self) -> bool {
        let until = Instant::now().checked_add(self.interval);
        let mut orders = self.orders();
        while orders.wanted {
            let left = match until {
                Some(until) => until.saturating_duration_since(Instant::now()),
                None => Duration::MAX,
            };
            if left.is_zero() {
                return true;
            }
            orders = self
                .changed
                .wait_timeout(orders, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        // Under the lock: who wants samples again from here on starts a thread.
        orders.is_running = false;
        false
    }

    fn sample(&self) {
        let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
        // A sampler that panics may be left as it is: it is asked to try again,
        // and what it then says is as good as its own care.
        match catch_unwind(AssertUnwindSafe(|| sampler.sample())) {
            Ok(sample) => self.machine.feed(self.clock.now(), sample),
            Err(_) => self.count_fault(),
        }
    }

    fn count_fault(&self) {
        self.faults.fetch_add(1, Ordering::Relaxed);
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! What an engine knows of the machine it runs on, and of all its inbound
//! calls together.
//!
//! Somebody else reads the machine (the engine's sampler, on its own thread)
//! and feeds a [`Sample`] now and then; rules read single figures of it.
//!
//! **A figure that is not known refuses nothing.** It is unknown as long as
//! nobody has fed it, where the system does not have it, and again when it is
//! older than [`Machine::keep_samples_for`] says, since a sampler that hangs must
//! not decide about calls for ever.
//!
//! The [`Inbound`] budget is made when the first chain with a system rule asks
//! for it and forgotten when there is no such rule any more.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flowgate_core::node::BoxSums;
use flowgate_core::sync::{AtomicBool, Mutex, MutexGuard, OnceLock, Ordering, unpoisoned};
use flowgate_core::{NodeSettings, Timestamp};

use super::figures::Figures;
pub use super::figures::Sample;
use super::inbound::Inbound;

/// Sums over the nodes of all resources of an engine.
///
/// The engine installs it ([`Machine::install_totals`]); only a budget that
/// comes into force, or is about to refuse, asks.
pub trait InboundTotals: Send + Sync {
    /// Inbound calls in flight; `None`: nobody is there any more to ask.
    fn in_flight(&self) -> Option<u64>;

    /// What inbound calls have counted in each box of the second view by now,
    /// the oldest first.
    fn boxes(&self) -> Vec<BoxSums>;
}

/// Limits on all inbound calls together; `u64::MAX` is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Passes in the second view.
    pub passes: u64,
    /// Calls in flight.
    pub places: u64,
}

/// What an engine knows of the machine, and of all its inbound calls.
pub struct Machine {
    nodes: Arc<NodeSettings>,
    totals: OnceLock<Arc<dyn InboundTotals>>,
    /// Taken where chains are built and where rules are loaded, never by calls.
    inbound: Mutex<Option<Arc<Inbound>>>,
    figures: Figures,
    has_load_and_cpu: AtomicBool,
}

impl Limits {
    /// No limit.
    pub const NONE: Limits = Limits {
        passes: u64::MAX,
        places: u64::MAX,
    };

    /// As `[passes, places]`.
    #[must_use]
    pub fn of([passes, places]: [u64; 2]) -> Self {
        Limits { passes, places }
    }
}

impl Machine {
    /// A machine of which nothing is known yet. The budget counts as `nodes`
    /// say.
    #[must_use]
    pub fn new(nodes: Arc<NodeSettings>) -> Self {
        Machine {
            nodes,
            totals: OnceLock::new(),
            inbound: Mutex::new(None),
            figures: Figures::default(),
            has_load_and_cpu: AtomicBool::new(true),
        }
    }

    // Samples.

    /// Takes a sample that was made at `now`, by the clock of the engine.
    pub fn feed(&self, now: Timestamp, sample: Sample) {
        self.figures.feed(now, sample);
    }

    /// How long a sample counts.
    pub fn keep_samples_for(&self, lasts: Duration) {
        self.figures.keep_for(lasts);
    }

    /// The newest sample, as far as it still counts at `now`.
    #[must_use]
    pub fn sample(&self, now: Timestamp) -> Sample {
        self.figures.sample(now)
    }

    /// The load of the last minute, if known.
    #[inline]
    #[must_use]
    pub fn load1(&self, now: Timestamp) -> Option<f64> {
        self.figures.load1(now)
    }

    /// How busy the processors are, if known.
    #[inline]
    #[must_use]
    pub fn cpu(&self, now: Timestamp) -> Option<f64> {
        self.figures.cpu(now)
    }

    /// Memory in use, in bytes, if known.
    #[inline]
    #[must_use]
    pub fn memory_used_bytes(&self, now: Timestamp) -> Option<u64> {
        self.figures.memory_used_bytes(now)
    }

    /// Says that nobody will ever feed load and processor use: rules that ask
    /// for them are then warned about when they are loaded.
    pub fn lacks_load_and_cpu(&self) {
        // Relaxed: said before the engine has rules, and a warning at most.
        self.has_load_and_cpu.store(false, Ordering::Relaxed);
    }

    /// Whether load and processor use can be known.
    #[must_use]
    pub fn has_load_and_cpu(&self) -> bool {
        // Relaxed: see `lacks_load_and_cpu`.
        self.has_load_and_cpu.load(Ordering::Relaxed)
    }

    // Inbound calls.

    /// Tells where sums over all resources are to be had; only the first one is
    /// heard.
    pub fn install_totals(&self, totals: Arc<dyn InboundTotals>) {
        // A second engine on one machine would be a mistake of its builder's.
        let _ = self.totals.set(totals);
    }

    /// The budget of all inbound calls, made if there is none, with what has
    /// passed and what runs.
    ///
    /// Takes a lock and, the first time, adds up all resources: it is for those
    /// who build chains, not for calls.
    #[must_use]
    pub fn inbound(&self) -> Arc<Inbound> {
        let mut current = self.lock();
        let open = || Arc::new(Inbound::open(&self.nodes, self.totals.get()));
        Arc::clone(current.get_or_insert_with(open))
    }

    /// The budget, if there is one.
    #[must_use]
    pub fn inbound_if_open(&self) -> Option<Arc<Inbound>> {
        self.lock().clone()
    }

    /// Ends the budget: the rules that it was for are gone, or have not come
    /// yet. Calls that it counts go on holding it and leave it as they came; the
    /// next rule starts another from the counts of the resources.
    pub fn forget_inbound(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Inbound>>> {
        // The pointer is whole whoever panicked while holding this.
        unpoisoned(self.inbound.lock())
    }
}

impl Default for Machine {
    fn default() -> Self {
        Machine::new(Arc::new(NodeSettings::default()))
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("has_load_and_cpu", &self.has_load_and_cpu())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1_000_000);

    #[test]
    fn a_figure_that_was_never_fed_is_unknown() {
        let machine = Machine::default();
        assert_eq!(machine.sample(AT), Sample::default());
        let sample = Sample {
            cpu: Some(0.5),
            load1: Some(f64::NAN),
            ..Sample::default()
        };
        machine.feed(AT, sample);
        let known = Sample {
            load1: None,
            ..sample
        };
        assert_eq!(machine.sample(AT), known);
        assert_eq!((machine.cpu(AT), machine.load1(AT)), (Some(0.5), None));
    }

    #[test]
    fn a_sample_that_is_too_old_is_unknown_again() {
        let machine = Machine::default();
        machine.keep_samples_for(Duration::from_secs(2));
        let sample = Sample {
            memory_used_bytes: Some(7),
            ..Sample::default()
        };
        machine.feed(AT, sample);
        let after = |ms| AT + Duration::from_millis(ms);
        assert_eq!(machine.sample(after(2_000)), sample);
        assert_eq!(machine.memory_used_bytes(after(2_000)), Some(7));
        assert_eq!(machine.sample(after(2_001)), Sample::default());
        assert_eq!(machine.memory_used_bytes(after(2_001)), None);
        // A reading behind the sample's is not older.
        assert_eq!(machine.sample(Timestamp::EPOCH), sample);
    }

    #[test]
    fn a_budget_is_shared_until_it_is_forgotten() {
        let machine = Machine::default();
        assert!(machine.inbound_if_open().is_none());
        let first = machine.inbound();
        assert!(Arc::ptr_eq(&first, &machine.inbound()));
        machine.forget_inbound();
        assert!(!Arc::ptr_eq(&first, &machine.inbound()));
    }
}

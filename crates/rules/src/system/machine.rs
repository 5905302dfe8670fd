//! What an engine knows of the machine it runs on, and of all its inbound
//! calls together.
//!
//! Somebody else reads the machine (the engine's sampler, on its own thread)
//! and feeds a [`Sample`] now and then; rules read single figures of it. Each
//! figure is an atomic of its own: a reader may see one of the newer sample and
//! one of the older, which for figures of load is the same as asking a moment
//! earlier. The time of the sample is stored last and read first, so no figure of
//! an old sample counts as one of a new (models in `tests/loom_system.rs`).
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
use flowgate_core::sync::{
    AtomicBool, AtomicU64, Mutex, MutexGuard, OnceLock, Ordering, unpoisoned,
};
use flowgate_core::{NodeSettings, Timestamp};

use super::inbound::Inbound;

/// How long a sample counts unless somebody says otherwise: five of the default
/// sampling intervals.
const LASTS: Duration = Duration::from_secs(5);

/// Figures of the machine at one moment; `None` is what is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Mean number of runnable processes over the last minute.
    pub load1: Option<f64>,
    /// How busy the processors are, from 0 to 1: of the whole machine, or of
    /// what this process may use of it, whichever is more.
    pub cpu: Option<f64>,
    /// Share of time in which some task waited for a processor (Linux's
    /// pressure stall information), from 0 to 1.
    pub cpu_pressure: Option<f64>,
    /// Share of scheduling periods in which the quota was used up, from 0 to 1.
    pub throttled: Option<f64>,
    /// Memory in use, without what can be dropped at once, in bytes.
    pub memory_used_bytes: Option<u64>,
    /// Memory that may be used, in bytes.
    pub memory_limit_bytes: Option<u64>,
}

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
    /// Nanoseconds of the engine's clock; 0: never.
    sampled_at: AtomicU64,
    lasts_ns: AtomicU64,
    has_load_and_cpu: AtomicBool,
}

/// One atomic per figure; all ones is "not known", for a number as well as for
/// the bits of a fraction, where it is no number.
struct Figures {
    load1: AtomicU64,
    cpu: AtomicU64,
    cpu_pressure: AtomicU64,
    throttled: AtomicU64,
    memory_used_bytes: AtomicU64,
    memory_limit_bytes: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

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
            figures: Figures::unknown(),
            sampled_at: AtomicU64::new(0),
            lasts_ns: AtomicU64::new(nanos(LASTS)),
            has_load_and_cpu: AtomicBool::new(true),
        }
    }

    // Samples.

    /// Takes a sample that was made at `now`, by the clock of the engine.
    pub fn feed(&self, now: Timestamp, sample: Sample) {
        let fraction = |figure: Option<f64>| match figure {
            Some(known) if known.is_finite() => known.to_bits(),
            _ => UNKNOWN,
        };
        let Figures {
            load1,
            cpu,
            cpu_pressure,
            throttled,
            memory_used_bytes,
            memory_limit_bytes,
        } = &self.figures;
        // Relaxed: each figure stands for itself.
        load1.store(fraction(sample.load1), Ordering::Relaxed);
        cpu.store(fraction(sample.cpu), Ordering::Relaxed);
        cpu_pressure.store(fraction(sample.cpu_pressure), Ordering::Relaxed);
        throttled.store(fraction(sample.throttled), Ordering::Relaxed);
        let whole = |figure: Option<u64>| figure.unwrap_or(UNKNOWN);
        memory_used_bytes.store(whole(sample.memory_used_bytes), Ordering::Relaxed);
        memory_limit_bytes.store(whole(sample.memory_limit_bytes), Ordering::Relaxed);
        // Release: who sees the new time does not take older figures for new.
        self.sampled_at
            .store(now.as_nanos().max(1), Ordering::Release);
    }

    /// How long a sample counts.
    pub fn keep_samples_for(&self, lasts: Duration) {
        // Relaxed: a setting that stands for itself.
        self.lasts_ns.store(nanos(lasts), Ordering::Relaxed);
    }

    /// The newest sample, as far as it still counts at `now`.
    #[must_use]
    pub fn sample(&self, now: Timestamp) -> Sample {
        if !self.is_fresh(now) {
            return Sample::default();
        }
        let figures = &self.figures;
        Sample {
            load1: fraction(&figures.load1),
            cpu: fraction(&figures.cpu),
            cpu_pressure: fraction(&figures.cpu_pressure),
            throttled: fraction(&figures.throttled),
            memory_used_bytes: whole(&figures.memory_used_bytes),
            memory_limit_bytes: whole(&figures.memory_limit_bytes),
        }
    }

    /// The load of the last minute, if known.
    #[inline]
    #[must_use]
    pub fn load1(&self, now: Timestamp) -> Option<f64> {
        self.is_fresh(now).then(|| fraction(&self.figures.load1))?
    }

    /// How busy the processors are, if known.
    #[inline]
    #[must_use]
    pub fn cpu(&self, now: Timestamp) -> Option<f64> {
        self.is_fresh(now).then(|| fraction(&self.figures.cpu))?
    }

    /// Memory in use, in bytes, if known.
    #[inline]
    #[must_use]
    pub fn memory_used_bytes(&self, now: Timestamp) -> Option<u64> {
        self.is_fresh(now)
            .then(|| whole(&self.figures.memory_used_bytes))?
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
        self.has_load_and_cpu.load(Ordering::Relaxed)
    }

    fn is_fresh(&self, now: Timestamp) -> bool {
        // Acquire: see `feed`.
        let at = self.sampled_at.load(Ordering::Acquire);
        at != 0 && now.as_nanos().saturating_sub(at) <= self.lasts_ns.load(Ordering::Relaxed)
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

impl Figures {
    fn unknown() -> Self {
        let unknown = || AtomicU64::new(UNKNOWN);
        Figures {
            load1: unknown(),
            cpu: unknown(),
            cpu_pressure: unknown(),
            throttled: unknown(),
            memory_used_bytes: unknown(),
            memory_limit_bytes: unknown(),
        }
    }
}

#[inline]
fn fraction(figure: &AtomicU64) -> Option<f64> {
    whole(figure).map(f64::from_bits)
}

#[inline]
fn whole(figure: &AtomicU64) -> Option<u64> {
    // Relaxed: each figure stands for itself; its age was looked at before.
    Some(figure.load(Ordering::Relaxed)).filter(|bits| *bits != UNKNOWN)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
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

#[cfg(all(test, not(loom)))]
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

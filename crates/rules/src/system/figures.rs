//! The figures of the machine, as the sampler last saw them.
//!
//! Each figure is an atomic of its own. A reader may see one of the newer sample
//! and one of the older: for figures of load that is the same as asking a moment
//! earlier, or for one of them later.
//!
//! The time of a sample is stored after its figures, with release, and read before
//! them, with acquire. So who sees the time of a sample finds its figures or those
//! of a later one, and a figure that is too old never counts as fresh. Figures
//! that are fresh may count as too old for a moment, and are unknown then.
//! Samplers take turns. `tests/loom_system.rs` has models of one and two readers.

use std::time::Duration;

use flowgate_core::Timestamp;
use flowgate_core::sync::{AtomicU64, Ordering};

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

/// One atomic per figure; all ones is "not known", for a number as well as for
/// the bits of a fraction, where it is no number.
pub(super) struct Figures {
    load1: AtomicU64,
    cpu: AtomicU64,
    cpu_pressure: AtomicU64,
    throttled: AtomicU64,
    memory_used_bytes: AtomicU64,
    memory_limit_bytes: AtomicU64,
    /// Nanoseconds of the engine's clock; 0: never.
    sampled_at: AtomicU64,
    lasts_ns: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

impl Figures {
    /// Takes a sample that was made at `now`.
    pub(super) fn feed(&self, now: Timestamp, sample: Sample) {
        let fraction = |figure: Option<f64>| match figure {
            Some(known) if known.is_finite() => known.to_bits(),
            _ => UNKNOWN,
        };
        let whole = |figure: Option<u64>| figure.unwrap_or(UNKNOWN);
        for (figure, value) in [
            (&self.load1, fraction(sample.load1)),
            (&self.cpu, fraction(sample.cpu)),
            (&self.cpu_pressure, fraction(sample.cpu_pressure)),
            (&self.throttled, fraction(sample.throttled)),
            (&self.memory_used_bytes, whole(sample.memory_used_bytes)),
            (&self.memory_limit_bytes, whole(sample.memory_limit_bytes)),
        ] {
            // Relaxed: each figure stands for itself.
            figure.store(value, Ordering::Relaxed);
        }
        // Release: who sees the new time does not take older figures for new.
        self.sampled_at
            .store(now.as_nanos().max(1), Ordering::Release);
    }

    /// How long a sample counts.
    pub(super) fn keep_for(&self, lasts: Duration) {
        // Relaxed: a setting that stands for itself.
        self.lasts_ns.store(nanos(lasts), Ordering::Relaxed);
    }

    /// The newest sample, as far as it still counts at `now`.
    pub(super) fn sample(&self, now: Timestamp) -> Sample {
        if !self.is_fresh(now) {
            return Sample::default();
        }
        Sample {
            load1: fraction(&self.load1),
            cpu: fraction(&self.cpu),
            cpu_pressure: fraction(&self.cpu_pressure),
            throttled: fraction(&self.throttled),
            memory_used_bytes: whole(&self.memory_used_bytes),
            memory_limit_bytes: whole(&self.memory_limit_bytes),
        }
    }

    #[inline]
    pub(super) fn load1(&self, now: Timestamp) -> Option<f64> {
        self.is_fresh(now).then(|| fraction(&self.load1))?
    }

    #[inline]
    pub(super) fn cpu(&self, now: Timestamp) -> Option<f64> {
        self.is_fresh(now).then(|| fraction(&self.cpu))?
    }

    #[inline]
    pub(super) fn memory_used_bytes(&self, now: Timestamp) -> Option<u64> {
        self.is_fresh(now).then(|| whole(&self.memory_used_bytes))?
    }

    #[inline]
    fn is_fresh(&self, now: Timestamp) -> bool {
        // Acquire: see `feed`.
        let at = self.sampled_at.load(Ordering::Acquire);
        at != 0 && now.as_nanos().saturating_sub(at) <= self.lasts_ns.load(Ordering::Relaxed)
    }
}

impl Default for Figures {
    fn default() -> Self {
        let unknown = || AtomicU64::new(UNKNOWN);
        Figures {
            load1: unknown(),
            cpu: unknown(),
            cpu_pressure: unknown(),
            throttled: unknown(),
            memory_used_bytes: unknown(),
            memory_limit_bytes: unknown(),
            sampled_at: AtomicU64::new(0),
            lasts_ns: AtomicU64::new(nanos(LASTS)),
        }
    }
}

#[inline]
fn fraction(figure: &AtomicU64) -> Option<f64> {
    whole(figure).map(f64::from_bits)
}

#[inline]
fn whole(figure: &AtomicU64) -> Option<u64> {
    // Relaxed: its age was looked at before, with acquire.
    Some(figure.load(Ordering::Relaxed)).filter(|bits| *bits != UNKNOWN)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

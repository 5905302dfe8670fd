//! The sampler: what reads the load of the machine, apart from all calls.
//!
//! ```text
//! background   the thread that samples while a rule needs it
//! host         the sampler that an engine has by itself: /proc, and the control group
//! cgroup       which control group this is, and what it may use: version 1 and 2
//! proc         the few lines of /proc that are needed
//! ```
//!
//! A call never reads a file. It compares with the newest [`Sample`], which the
//! engine's sampler made on a thread of its own. That thread runs only while a
//! rule in force needs what it sees, and ends with the engine.
//!
//! The text files of the kernel are read by hand, tolerantly: what is missing or
//! makes no sense leaves its own figure unknown and no other. Crates that parse
//! whole files refuse all of them for one line that they do not know, and
//! containers and sandboxes leave out lines at will.

mod background;
mod cgroup;
mod host;
mod proc;

pub use flowgate_rules::system::Sample;

pub use host::HostSampler;

pub(crate) use background::{Sampling, SamplingSettings};

/// Reads the machine.
///
/// ```
/// use flowgate::{Engine, Sample, SystemSampler};
///
/// /// Trusts somebody else's gauge.
/// struct Gauge;
///
/// impl SystemSampler for Gauge {
///     fn sample(&mut self) -> Sample {
///         Sample { cpu: Some(0.35), ..Sample::default() }
///     }
/// }
///
/// let engine = Engine::builder().sampler(Gauge).build();
/// assert_eq!(engine.sample_now().cpu, Some(0.35));
/// ```
pub trait SystemSampler: Send + 'static {
    /// The figures now; `None` for what is not known. Called once in a sampling
    /// interval, on the sampler's thread. A panic is caught and counted
    /// ([`EngineStats::sampler_faults`](crate::EngineStats::sampler_faults)), and it
    /// is called again after the next interval.
    fn sample(&mut self) -> Sample;
}

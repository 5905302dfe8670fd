//! What the engine, not a rule, decides.

use std::sync::Arc;

use crate::degrade::Observers;
use crate::system::Machine;

/// Engine-wide figures that rules are read and run with.
///
/// ```
/// use flowgate_rules::Settings;
/// let settings = Settings { cold_factor: 5, ..Settings::default() };
/// assert_eq!(settings.interval_ms, 1000);
/// ```
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many times slower than `count` a cold warm-up rule starts, at least
    /// 2. Sentinel's `csp.sentinel.flow.cold.factor`, default 3; a rule's
    /// `warmUpColdFactor` goes before it.
    pub cold_factor: u32,
    /// Length of the second view in milliseconds, default 1000. Decides from
    /// which `count` on a call can pass at all: `count × interval ≥ 1`.
    pub interval_ms: u32,
    /// Who is told when a breaker changes its state.
    pub breaker_observers: Observers,
    /// What the jitter of breakers is drawn from; `None`: each breaker has a
    /// seed of its own, so that those of many processes do not come back at
    /// once. Give one to have the same times in each run.
    pub jitter_seed: Option<u64>,
    /// What the engine knows of the machine and of all its inbound calls. Two
    /// settings are equal whatever it is.
    pub machine: Arc<Machine>,
}

impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            cold_factor,
            interval_ms,
            breaker_observers,
            jitter_seed,
            machine: _,
        } = self;
        (cold_factor, interval_ms) == (&other.cold_factor, &other.interval_ms)
            && (breaker_observers, jitter_seed) == (&other.breaker_observers, &other.jitter_seed)
    }
}

impl Eq for Settings {}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cold_factor: 3,
            interval_ms: 1000,
            breaker_observers: Observers::default(),
            jitter_seed: None,
            machine: Arc::default(),
        }
    }
}

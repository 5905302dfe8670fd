//! What the engine, not a rule, decides.

use std::fmt;
use std::sync::Arc;

use flowgate_core::Timestamp;

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
    /// What the engine knows of the machine and of all its inbound calls. Two
    /// settings are equal whatever it is.
    pub machine: Arc<Machine>,
    /// How much memory is in use, for flow rules that follow it. Default:
    /// unknown.
    pub memory_used: MemoryUsed,
    /// Who is told when a breaker changes its state.
    pub breaker_observers: Observers,
    /// What the jitter of breakers is drawn from; `None`: each breaker has a
    /// seed of its own, so that those of many processes do not come back at
    /// once. Give one to have the same times in each run.
    pub jitter_seed: Option<u64>,
}

/// How much memory is in use. Asked on the way of calls, so it must answer from
/// what it has at hand, as a sampler has left it there.
///
/// ```
/// use flowgate_rules::MemoryUsed;
///
/// let now = flowgate_core::Timestamp::from_millis(1_000);
/// let used = MemoryUsed::new(|_| Some(512 << 20));
/// assert_eq!(used.bytes(now), Some(512 << 20));
/// assert_eq!(MemoryUsed::default().bytes(now), None);
/// ```
///
/// The default knows nothing.
#[derive(Clone, Default)]
pub struct MemoryUsed(Option<Source>);

type Source = Arc<dyn Fn(Timestamp) -> Option<u64> + Send + Sync>;

impl MemoryUsed {
    /// What `read` says at a time given to it, in bytes; `None` while it is not
    /// known, or known too long.
    pub fn new(read: impl Fn(Timestamp) -> Option<u64> + Send + Sync + 'static) -> Self {
        MemoryUsed(Some(Arc::new(read)))
    }

    /// Whether there is anybody to ask.
    #[must_use]
    pub fn has_source(&self) -> bool {
        self.0.is_some()
    }

    /// Bytes in use at `now`, if that is known.
    #[inline]
    pub fn bytes(&self, now: Timestamp) -> Option<u64> {
        self.0.as_ref().and_then(|read| read(now))
    }
}

/// Equal if they ask the same source.
impl PartialEq for MemoryUsed {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
            (mine, theirs) => mine.is_none() && theirs.is_none(),
        }
    }
}

impl Eq for MemoryUsed {}

impl fmt::Debug for MemoryUsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryUsed")
            .field("is_known", &self.0.is_some())
            .finish()
    }
}

impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            cold_factor,
            interval_ms,
            machine: _,
            memory_used,
            breaker_observers,
            jitter_seed,
        } = self;
        (cold_factor, interval_ms, jitter_seed)
            == (&other.cold_factor, &other.interval_ms, &other.jitter_seed)
            && (memory_used, breaker_observers) == (&other.memory_used, &other.breaker_observers)
    }
}

impl Eq for Settings {}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cold_factor: 3,
            interval_ms: 1000,
            machine: Arc::default(),
            memory_used: MemoryUsed::default(),
            breaker_observers: Observers::default(),
            jitter_seed: None,
        }
    }
}

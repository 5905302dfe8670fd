//! What the engine, not a rule, decides.

use std::fmt;
use std::sync::Arc;

use flowgate_core::Timestamp;

use crate::degrade::Observers;

/// Engine-wide figures that rules are read and run with.
///
/// ```
/// use flowgate_rules::Settings;
/// let settings = Settings { cold_factor: 5, ..Settings::default() };
/// assert_eq!(settings.interval_ms, 1000);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many times slower than `count` a cold warm-up rule starts, at least
    /// 2. Sentinel's `csp.sentinel.flow.cold.factor`, default 3; a rule's
    /// `warmUpColdFactor` goes before it.
    pub cold_factor: u32,
    /// Length of the second view in milliseconds, default 1000. Decides from
    /// which `count` on a call can pass at all: `count × interval ≥ 1`.
    pub interval_ms: u32,
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

impl Default for Settings {
    fn default() -> Self {
        Self {
            cold_factor: 3,
            interval_ms: 1000,
            memory_used: MemoryUsed::default(),
            breaker_observers: Observers::default(),
            jitter_seed: None,
        }
    }
}

//! Setting up an engine.

use std::sync::Arc;
use std::time::Duration;

use flowgate_core::publish::{Published, StandIn};
use flowgate_core::sync::{AtomicBool, Mutex};
use flowgate_core::{Clock, GeometryError, NodeSettings};
use flowgate_rules::system::Machine;
use flowgate_rules::{BreakerTransition, Decide, Observers, RuleSet, Settings};
use flowgate_slots::{ChainPlan, CustomSlot, FaultCounter, Position, Slot, SlotError, SlotKinds};

use crate::engine::{Counters, Engine, Limits, Shared};
use crate::protection::{Protection, Totals};
use crate::registry::{NoResources, Registry};
use crate::sampler::{SamplingSettings, SystemSampler};
use crate::visit::Compiled;

/// A chain has at most 64 slots; the rest is for those that come with Flowgate.
const CUSTOM_SLOTS_MAX: usize = 32;

/// Settings of an [`Engine`], with Sentinel's defaults.
#[must_use]
pub struct EngineBuilder {
    clock: Option<Clock>,
    sample_count: u32,
    interval: Duration,
    borrow_wait_max: Duration,
    rt_max: Duration,
    cold_factor: u32,
    breaker_observers: Observers,
    jitter_seed: Option<u64>,
    limits: Limits,
    custom: Vec<CustomSlot>,
    kinds: SlotKinds,
    faults: FaultCounter,
    sampling: SamplingSettings,
}

/// Why an engine cannot be built: a setting that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The second view.
    #[error("second view: {0}")]
    SecondView(#[from] GeometryError),
    /// An interval that is no whole number of milliseconds.
    #[error("second view: {0:?} is not a whole number of milliseconds up to 49 days")]
    Interval(Duration),
    /// A cold factor below 2.
    #[error("cold factor: {0} would not warm up; give 2 or more")]
    ColdFactor(u32),
    /// A limit of nothing.
    #[error("{0}: 0 would leave nothing to count with; give 1 or more")]
    Limit(&'static str),
    /// An idle timeout below a second.
    #[error("idle timeout: {0:?} is too short; give 1 s or more")]
    IdleTimeout(Duration),
    /// A sampler that would never rest.
    #[error("sampling interval: {0:?} is too short; give 1 ms or more")]
    SamplingInterval(Duration),
    /// Too many custom slots and kinds.
    #[error("{0} custom slots and kinds; give at most {CUSTOM_SLOTS_MAX}")]
    CustomSlots(usize),
}

impl Default for EngineBuilder {
    fn default() -> Self {
        EngineBuilder {
            clock: None,
            sample_count: 2,
            interval: Duration::from_secs(1),
            borrow_wait_max: Duration::from_millis(500),
            rt_max: Duration::from_millis(5_000),
            cold_factor: 3,
            breaker_observers: Observers::default(),
            jitter_seed: None,
            limits: Limits {
                resources_max: 100_000,
                idle_timeout: Duration::from_secs(600),
                origins_max: 200,
                contexts_max: 200,
                callers_max: 10_000,
                default_context_statistics: false,
            },
            custom: Vec::new(),
            kinds: SlotKinds::standard(),
            faults: FaultCounter::default(),
            sampling: SamplingSettings::default(),
        }
    }
}

impl EngineBuilder {
    /// Where the time comes from. Default: the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The time from a clock that a thread of the engine's renews every
    /// `resolution` (at least 100 µs): [`Clock::cached`]. Reading the processor's
    /// counter is a good part of what a guarded call costs, and a call reads the
    /// clock twice; here that is two plain loads.
    ///
    /// What it costs: decisions and statistics lag by up to the resolution, or
    /// longer where that thread is not let run. Windows begin and end that much
    /// late, and a response time is off by as much either way. A
    /// millisecond is little against windows of 500 ms; do not use it where
    /// breakers look at response times of a few milliseconds, or lines pace calls
    /// closer than the resolution.
    pub fn coarse_clock(self, resolution: Duration) -> Self {
        self.clock(Clock::cached(resolution))
    }

    /// The second view, that is the statistics per second, which rates are
    /// compared with: `sample_count` windows in `interval`. Default: 2 in 1 s.
    /// More windows slide more smoothly and take more memory (see
    /// `docs/guarantees.md`).
    pub fn second_view(mut self, sample_count: u32, interval: Duration) -> Self {
        self.sample_count = sample_count;
        self.interval = interval;
        self
    }

    /// A prioritized call borrows from a window to come if it then waits less
    /// than this; at most the interval of the second view. Default: 500 ms.
    pub fn borrow_wait_max(mut self, wait: Duration) -> Self {
        self.borrow_wait_max = wait;
        self
    }

    /// The least response time that the BBR test of system rules reckons with
    /// while nothing was measured, and the largest one. Default: 5 s.
    pub fn rt_max(mut self, rt: Duration) -> Self {
        self.rt_max = rt;
        self
    }

    /// How many times slower than its rate a cold warm-up rule starts, at
    /// least 2. Default: 3.
    pub fn cold_factor(mut self, factor: u32) -> Self {
        self.cold_factor = factor;
        self
    }

    /// Called after each change of a breaker's state, on the thread of the call
    /// that made it: be quick, hand on what takes time. No lock is held; a panic
    /// is caught and counted. Several are called in the order they were added.
    ///
    /// Two changes of one breaker that follow at once may come in the other
    /// order, by two threads: their `generation` says which was first.
    pub fn on_breaker_change(
        mut self,
        observer: impl Fn(&BreakerTransition) + Send + Sync + 'static,
    ) -> Self {
        self.breaker_observers.add(observer);
        self
    }

    /// What the `jitter` of breakers is drawn from, to have the same open times
    /// in each run. Default: each breaker has a seed of its own.
    pub fn jitter_seed(mut self, seed: u64) -> Self {
        self.jitter_seed = Some(seed);
        self
    }

    /// The most resources with statistics of their own. One takes some 300 bytes,
    /// and from its first call on about 11 KB at the default second view, and as
    /// much again per processor (16 at most) where threads meet. Default:
    /// 100,000. Resources that a rule names are always among them; others beyond
    /// the limit are guarded by the rules that match them, and counted together.
    pub fn resources_max(mut self, resources: usize) -> Self {
        self.limits.resources_max = resources;
        self
    }

    /// How long a resource is kept that nobody calls: after this time, and twice
    /// this at the latest if new resources come or [`Engine::sweep`] is called, it
    /// is forgotten, unless somebody holds a handle, a rule names it, or
    /// something that it or a rule remembers of it still matters. Near the limit
    /// on resources a minute is enough. Default: 10 minutes; at least 1 s.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.limits.idle_timeout = timeout;
        self
    }

    /// The most origins of one resource with statistics of their own; those
    /// beyond, unless a rule names them, are counted together, as one origin.
    /// Default: 200.
    pub fn origins_max(mut self, origins: usize) -> Self {
        self.limits.origins_max = origins;
        self
    }

    /// The most contexts of one resource with statistics of their own; those
    /// beyond, unless a rule names them, are counted together, as one context.
    /// Default: 200.
    pub fn contexts_max(mut self, contexts: usize) -> Self {
        self.limits.contexts_max = contexts;
        self
    }

    /// The most origins and contexts with statistics of their own on all
    /// resources together, about 11 KB each; beyond it as beyond the bounds of
    /// one resource. Default: 10,000.
    pub fn callers_max(mut self, callers: usize) -> Self {
        self.limits.callers_max = callers;
        self
    }

    /// Whether calls that name no context are counted apart from the resource
    /// as a whole, as Sentinel does. Default: only where a rule needs it, as it
    /// doubles the cost of counting.
    pub fn default_context_statistics(mut self, count: bool) -> Self {
        self.limits.default_context_statistics = count;
        self
    }

    /// Adds a slot of your own to the chain of every resource.
    pub fn slot(mut self, position: Position, slot: impl Slot) -> Self {
        self.custom.push(CustomSlot {
            position,
            slot: Arc::new(slot),
        });
        self
    }

    /// Adds a kind of rules of your own: documents may then have a list of its
    /// name, and its slot stands at `position` in the chain of every resource
    /// that such a rule is for. A kind of the name of another takes its place
    /// in documents. If it panics, that is caught and counted as for custom
    /// slots.
    pub fn kind<K: Decide>(mut self, position: Position) -> Self {
        self.kinds.add::<K>(position);
        self
    }

    /// Called when a custom slot fails or panics, on the thread of the call.
    pub fn on_slot_fault(
        mut self,
        hook: impl Fn(&'static str, &SlotError) + Send + Sync + 'static,
    ) -> Self {
        self.faults = FaultCounter::with_hook(hook);
        self
    }

    /// What reads load, processors and memory of the machine. Default:
    /// [`HostSampler`](crate::HostSampler).
    pub fn sampler(mut self, sampler: impl SystemSampler) -> Self {
        self.sampling.sampler = Some(Box::new(sampler));
        self
    }

    /// How often the machine is sampled while a rule looks at it, at least 1 ms.
    /// A figure counts for five intervals. Default: 1 s.
    pub fn sampling_interval(mut self, interval: Duration) -> Self {
        self.sampling.interval = interval;
        self
    }

    /// The engine.
    ///
    /// # Panics
    ///
    /// If the settings cannot be; [`EngineBuilder::try_build`] returns that as
    /// an error. The default settings can.
    pub fn build(self) -> Engine {
        match self.try_build() {
            Ok(engine) => engine,
            Err(error) => panic!("engine settings: {error}"),
        }
    }

    /// The engine.
    ///
    /// # Errors
    ///
    /// [`BuildError`] says which setting cannot be.
    pub fn try_build(self) -> Result<Engine, BuildError> {
        let EngineBuilder {
            sample_count,
            interval,
            borrow_wait_max,
            rt_max,
            ..
        } = self;
        let nodes = NodeSettings::new(sample_count, interval, borrow_wait_max, rt_max)?;
        let whole_ms = interval.as_nanos().is_multiple_of(1_000_000);
        let interval_ms = u32::try_from(interval.as_millis())
            .ok()
            .filter(|_| whole_ms);
        let interval_ms = interval_ms.ok_or(BuildError::Interval(interval))?;
        if self.cold_factor < 2 {
            return Err(BuildError::ColdFactor(self.cold_factor));
        }
        for (name, limit) in [
            ("resources_max", self.limits.resources_max),
            ("origins_max", self.limits.origins_max),
            ("contexts_max", self.limits.contexts_max),
            ("callers_max", self.limits.callers_max),
        ] {
            if limit == 0 {
                return Err(BuildError::Limit(name));
            }
        }
        if self.limits.idle_timeout < Duration::from_secs(1) {
            return Err(BuildError::IdleTimeout(self.limits.idle_timeout));
        }
        if self.sampling.interval < Duration::from_millis(1) {
            return Err(BuildError::SamplingInterval(self.sampling.interval));
        }
        let custom_slots = self.custom.len() + self.kinds.custom_len();
        if custom_slots > CUSTOM_SLOTS_MAX {
            return Err(BuildError::CustomSlots(custom_slots));
        }
        let nodes = Arc::new(nodes);
        let machine = Arc::new(Machine::new(Arc::clone(&nodes)));
        let settings = Settings {
            cold_factor: self.cold_factor,
            interval_ms,
            breaker_observers: self.breaker_observers,
            jitter_seed: self.jitter_seed,
            machine: Arc::clone(&machine),
        };
        let clock = self.clock.unwrap_or_default();
        let custom: Arc<[CustomSlot]> = self.custom.into();
        let faults = Arc::new(self.faults);
        let kinds = Arc::new(self.kinds);
        let plan = ChainPlan {
            rules: RuleSet::new(kinds.kinds()),
            kinds: Arc::clone(&kinds),
            settings: settings.clone(),
            custom: Arc::clone(&custom),
            faults: Arc::clone(&faults),
            registry: Arc::new(NoResources),
        };
        let shared = Arc::new(Shared {
            protection: Protection::new(self.sampling, &machine, &clock),
            clock,
            nodes,
            plan: Published::new(plan),
            enabled: AtomicBool::new(true),
            limits: self.limits,
            counters: Counters::default(),
            faults,
            custom,
            kinds,
            settings,
            unmade: StandIn::new(Compiled::default()),
            loading: Mutex::default(),
        });
        let registry = Registry::new(Arc::clone(&shared));
        machine.install_totals(Totals::of(&registry));
        Ok(Engine { shared, registry })
    }
}

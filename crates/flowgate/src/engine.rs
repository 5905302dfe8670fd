//! The engine: clock, resources, and the rules in force.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flowgate_core::node::RawFigures;
use flowgate_core::publish::{Published, StandIn};
use flowgate_core::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, unpoisoned,
};
use flowgate_core::{Clock, NodeSettings, NodeSnapshot};
use flowgate_rules::{
    Degrade, DegradeRule, Flow, FlowRule, KindSpec, LoadOptions, LoadReport, OnInvalid, RuleError,
    RuleInfo, RuleKind, RuleSet, RuleTable, Settings,
};
use flowgate_slots::{ChainPlan, CustomSlot, FaultCounter, SlotKinds};

use crate::builder::EngineBuilder;
use crate::enter;
use crate::left::Left;
use crate::protection::Protection;
use crate::registry::Registry;
use crate::request::{Request, Spec};
use crate::resource::{Resource, ResourceRef};
use crate::sampler::Sample;
use crate::sweep::Swept;
use crate::visit::Compiled;

/// What one or many services are guarded by: a clock, the resources and their
/// statistics, and the rules in force.
///
/// Cloning shares. Any number of engines may live in one process; the crate's
/// free functions use a default one ([`crate::engine`]).
///
/// ```
/// use flowgate::Engine;
///
/// let engine = Engine::new();
/// engine.load_json("flow", r#"[{"resource": "orders", "count": 2}]"#)?;
///
/// let orders = engine.resource("orders");
/// let passed = (0..5).filter(|_| orders.try_entry().is_ok()).count();
/// assert!(passed >= 2);
/// # Ok::<(), flowgate::RuleError>(())
/// ```
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
    pub(crate) registry: Arc<Registry>,
}

/// What every resource of an engine needs at hand.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) nodes: Arc<NodeSettings>,
    pub(crate) plan: Published<ChainPlan>,
    pub(crate) enabled: AtomicBool,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    pub(crate) faults: Arc<FaultCounter>,
    pub(crate) custom: Arc<[CustomSlot]>,
    pub(crate) kinds: Arc<SlotKinds>,
    pub(crate) settings: Settings,
    pub(crate) protection: Protection,
    /// The chain of a resource that was never used.
    pub(crate) unmade: StandIn<Compiled>,
    /// Held while a document is put in force: loaders take turns.
    pub(crate) loading: Mutex<Left>,
}

/// Bounds on what an engine remembers.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) resources_max: usize,
    pub(crate) idle_timeout: Duration,
    pub(crate) origins_max: usize,
    pub(crate) contexts_max: usize,
    pub(crate) callers_max: usize,
    pub(crate) default_context_statistics: bool,
}

/// What happens seldom and should be seen. All but `callers` are added to and
/// read with `Relaxed`: figures that nothing else is read after.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) evicted_resources: AtomicU64,
    pub(crate) overflowed_resources: AtomicU64,
    pub(crate) overflowed_origins: AtomicU64,
    pub(crate) overflowed_contexts: AtomicU64,
    /// Origins and contexts with statistics of their own, on all resources.
    pub(crate) callers: AtomicUsize,
    pub(crate) waits_in_runtime: AtomicU64,
}

impl Counters {
    /// A thread is going to be held up; counted if it is a runtime's.
    pub(crate) fn note_wait_on_thread(&self) {
        #[cfg(feature = "tokio")]
        if tokio::runtime::Handle::try_current().is_ok() {
            self.waits_in_runtime.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The engine's own figures, beside those of its resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineStats {
    /// Resources with statistics of their own.
    pub resources: usize,
    /// Resources that were forgotten because nobody called them any more.
    pub evicted_resources: u64,
    /// Look-ups of resources beyond the limit on resources: their calls are
    /// guarded, and counted together.
    pub overflowed_resources: u64,
    /// Origins and contexts with statistics of their own, on all resources.
    pub callers: usize,
    /// Calls of origins beyond the limits on origins.
    pub overflowed_origins: u64,
    /// Calls of contexts beyond the limits on contexts.
    pub overflowed_contexts: u64,
    /// Blocking waits inside an async runtime, where each holds up a worker:
    /// use `acquire().await` there. Counted with the feature `tokio`.
    pub waits_in_runtime: u64,
    /// Faults of custom slots.
    pub slot_faults: u64,
    /// Panics of those who are told of breakers' changes.
    pub breaker_observer_panics: u64,
    /// How often the sampler of the machine has panicked, or no thread was to
    /// be had for it.
    pub sampler_faults: u64,
    /// Number of the rules in force; grows with each load.
    pub generation: u64,
}

impl Engine {
    /// An engine on the system clock, with Sentinel's defaults and no rules.
    pub fn new() -> Self {
        Engine::builder().build()
    }

    /// To set up an engine otherwise.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// The clock that decisions are made by.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    // Calls.

    /// A handle to the resource `name`: get it once, use it many times.
    #[inline]
    pub fn resource(&self, name: &str) -> Resource {
        self.registry.resource(name)
    }

    /// Asks to enter the resource `name`; waits on the thread if told to queue.
    ///
    /// # Errors
    ///
    /// [`Block`](crate::Block) if a rule refuses.
    #[inline]
    pub fn entry(&self, name: &str) -> Result<crate::Entry<'static>, crate::Block> {
        enter::enter(
            ResourceRef::Held(self.registry.for_call(name)),
            &Spec::PLAIN,
        )
    }

    /// Asks to enter the resource `name`; never waits.
    ///
    /// # Errors
    ///
    /// [`Block`](crate::Block) if a rule refuses, or would have the call wait.
    #[inline]
    pub fn try_entry(&self, name: &str) -> Result<crate::Entry<'static>, crate::Block> {
        enter::try_enter(
            ResourceRef::Held(self.registry.for_call(name)),
            &Spec::PLAIN,
        )
    }

    /// Asks to enter the resource `name`; waits without holding up the thread.
    ///
    /// # Errors
    ///
    /// [`Block`](crate::Block) if a rule refuses.
    #[cfg(feature = "tokio")]
    pub async fn acquire(&self, name: &str) -> Result<crate::Entry<'static>, crate::Block> {
        self.request(name).acquire().await
    }

    /// A call of the resource `name` with an origin, context, weight, priority,
    /// direction or arguments.
    #[inline]
    pub fn request<'r>(&self, name: &str) -> Request<'static, 'r> {
        Request::owned(self.registry.for_call(name))
    }

    // Rules.

    /// Puts a list of rules of one kind in force: `kind` is `flow`, `degrade`
    /// or another of [`Engine::kinds`], `text` an array as Sentinel writes it.
    /// `[]` clears the kind.
    ///
    /// # Errors
    ///
    /// [`RuleError`] with every fault of the text; then nothing has changed.
    pub fn load_json(&self, kind: &str, text: impl AsRef<[u8]>) -> Result<LoadReport, RuleError> {
        self.load_json_with(kind, text, OnInvalid::Refuse)
    }

    /// The same, with a choice of what happens to faulty rules, and of the
    /// dialect.
    ///
    /// # Errors
    ///
    /// As [`Engine::load_json`]; with [`OnInvalid::Skip`] only if the text is
    /// not a list of rules at all.
    pub fn load_json_with(
        &self,
        kind: &str,
        text: impl AsRef<[u8]>,
        options: impl Into<LoadOptions>,
    ) -> Result<LoadReport, RuleError> {
        self.replace(|rules, settings| rules.with_list(kind, text, settings, options))
    }

    /// Puts a whole document in force: an object with a list for each kind. A
    /// kind that it does not mention stays as it is.
    ///
    /// # Errors
    ///
    /// [`RuleError`] with every fault of the text; then nothing has changed.
    pub fn load_document(&self, text: impl AsRef<[u8]>) -> Result<LoadReport, RuleError> {
        self.load_document_with(text, OnInvalid::Refuse)
    }

    /// The same, with a choice of what happens to faulty rules, and of the
    /// dialect.
    ///
    /// # Errors
    ///
    /// As [`Engine::load_document`].
    pub fn load_document_with(
        &self,
        text: impl AsRef<[u8]>,
        options: impl Into<LoadOptions>,
    ) -> Result<LoadReport, RuleError> {
        self.replace(|rules, settings| rules.with_document(text, settings, options))
    }

    /// Puts rules of kind `K` that were built in code in force.
    ///
    /// ```
    /// use flowgate::{Engine, Flow, FlowRule};
    /// let engine = Engine::new();
    /// engine.load_rules::<Flow>(vec![FlowRule::qps("orders", 100.0)])?;
    /// assert_eq!(engine.table::<Flow>().len(), 1);
    /// # Ok::<(), flowgate::RuleError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RuleError`] with every fault; then nothing has changed.
    pub fn load_rules<K: RuleKind>(&self, list: Vec<K::Rule>) -> Result<LoadReport, RuleError> {
        self.replace(|rules, settings| rules.with_rules::<K>(list, settings, OnInvalid::Refuse))
    }

    /// [`load_rules`](Self::load_rules) for flow rules.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn load_flow(&self, list: Vec<FlowRule>) -> Result<LoadReport, RuleError> {
        self.load_rules::<Flow>(list)
    }

    /// [`load_rules`](Self::load_rules) for circuit breakers.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn load_degrade(&self, list: Vec<DegradeRule>) -> Result<LoadReport, RuleError> {
        self.load_rules::<Degrade>(list)
    }

    /// Replaces the rules of one kind whose `resource` is written exactly as
    /// `resource`, a name or a pattern, by a list of such rules. `[]` removes
    /// them. Others stay.
    ///
    /// # Errors
    ///
    /// [`RuleError`] with every fault of the text, rules for other resources
    /// among them; then nothing has changed.
    pub fn load_json_of(
        &self,
        kind: &str,
        resource: &str,
        text: impl AsRef<[u8]>,
    ) -> Result<LoadReport, RuleError> {
        let refuse = OnInvalid::Refuse;
        self.replace(|rules, settings| rules.with_list_of(kind, resource, text, settings, refuse))
    }

    /// Adds a list of rules of one kind behind those in force. A rule that says
    /// the same as one of those, whatever its id, is not added: the report has
    /// a warning, and the one in force keeps its id and its state.
    ///
    /// # Errors
    ///
    /// [`RuleError`] with every fault of the text, ids that are taken among
    /// them; then nothing has changed.
    pub fn append_json(&self, kind: &str, text: impl AsRef<[u8]>) -> Result<LoadReport, RuleError> {
        let refuse = OnInvalid::Refuse;
        self.replace(|rules, settings| rules.with_more(kind, text, settings, refuse))
    }

    /// Removes the rule of this kind and id; the report says whether there was
    /// one. Give ids to rules that you mean to remove: made-up ones count the
    /// rules of a resource, and those behind it move up.
    ///
    /// # Errors
    ///
    /// [`RuleError`] if there is no such kind.
    pub fn remove_rule(&self, kind: &str, id: &str) -> Result<LoadReport, RuleError> {
        self.replace(|rules, settings| rules.without(kind, id, settings))
    }

    /// The kinds of rules there are, and the fields of each: for tools that
    /// read rule files or describe them.
    pub fn kinds(&self) -> Vec<KindSpec> {
        self.shared.kinds.kinds().specs()
    }

    /// All rules in force with what they have done, kind by kind.
    pub fn rules(&self) -> Vec<RuleInfo> {
        self.shared.plan.load().1.rules.infos()
    }

    /// The rules of kind `K` in force.
    pub fn table<K: RuleKind>(&self) -> Arc<RuleTable<K>> {
        self.shared.plan.load().1.rules.table::<K>()
    }

    /// The flow rules in force.
    pub fn flow_rules(&self) -> Arc<RuleTable<Flow>> {
        self.table::<Flow>()
    }

    /// The circuit breakers in force.
    pub fn degrade_rules(&self) -> Arc<RuleTable<Degrade>> {
        self.table::<Degrade>()
    }

    fn replace(
        &self,
        change: impl FnOnce(&RuleSet, &Settings) -> Result<(RuleSet, LoadReport), RuleError>,
    ) -> Result<LoadReport, RuleError> {
        let mut left = self.shared.take_turn();
        let (_, plan) = self.shared.plan.load();
        let Shared {
            settings,
            protection,
            ..
        } = &*self.shared;
        let (mut rules, report) = change(&plan.rules, settings)?;
        let demand = protection.prepare(&plan.rules, &rules);
        let gone = rules.take_left();
        // Not to be held while it is replaced: who replaces it drops it.
        drop(plan);
        self.shared
            .plan
            .publish(self.shared.plan_of(rules, &self.registry));
        protection.settle(&demand);
        left.add(gone);
        Ok(report)
    }

    // Idle resources.

    /// Forgets the resources that nobody has called for the builder's
    /// [`idle_timeout`](EngineBuilder::idle_timeout) and nothing would miss, and
    /// says what it has found. Goes over all resources once, on this thread, in
    /// short steps: calls do not wait for it.
    ///
    /// New resources do a piece of this each, so memory is bounded without it.
    /// To have it back after a peak, also if no new resources come, call this now
    /// and then, for example each minute.
    pub fn sweep(&self) -> Swept {
        self.registry.sweep()
    }

    // The switch.

    /// Switches all guarding on or off: while off, every call passes, and
    /// nothing is checked or counted. Calls admitted before leave as they came.
    pub fn set_enabled(&self, enabled: bool) {
        // Release, and acquire where it is read: a call that finds it on finds
        // the rules that were loaded before.
        self.shared.enabled.store(enabled, Ordering::Release);
    }

    /// Whether calls are guarded.
    pub fn is_enabled(&self) -> bool {
        self.shared.enabled.load(Ordering::Acquire)
    }

    // Figures.

    /// The figures of the resource `name`, if it is known: it was asked for, and
    /// not forgotten since. Looking makes nothing.
    pub fn node(&self, name: &str) -> Option<NodeSnapshot> {
        let resource = self.registry.find(name)?;
        Some(resource.node.snapshot(self.clock().now()))
    }

    /// The figures of one origin of a resource, if it is known to have called it.
    pub fn origin_node(&self, name: &str, origin: &str) -> Option<NodeSnapshot> {
        let resource = self.registry.find(name)?;
        let node = resource.known_callers()?.origins.find(origin)?;
        Some(node.snapshot(self.clock().now()))
    }

    /// The figures of a resource in one context, if it was ever called there
    /// and that was counted apart. Calls that name no context are counted apart
    /// only if the engine was built so, or a rule asks for it.
    pub fn context_node(&self, name: &str, context: &str) -> Option<NodeSnapshot> {
        let context = crate::request::context_or_default(context);
        let resource = self.registry.find(name)?;
        let node = resource.known_callers()?.contexts.find(context)?;
        Some(node.snapshot(self.clock().now()))
    }

    /// The figures of all inbound calls together: a sum, taken now.
    pub fn inbound(&self) -> NodeSnapshot {
        let now = self.clock().now();
        let mut total = RawFigures::default();
        self.registry.for_each(|resource| {
            if let Some(figures) = resource.node.inbound(now) {
                total.add(&figures);
            }
        });
        total.snapshot(&self.shared.nodes)
    }

    /// The machine as it was sampled last; what is not known, or was seen too
    /// long ago, is `None`. The engine samples only while a rule in force looks
    /// at the machine.
    pub fn machine(&self) -> Sample {
        self.shared.protection.machine().sample(self.clock().now())
    }

    /// Samples the machine now, on this thread. On a manual clock this is the
    /// only way: nobody else knows when time has gone by.
    pub fn sample_now(&self) -> Sample {
        self.shared.protection.sampling.sample_now()
    }

    /// The names of all resources with statistics of their own, sorted.
    pub fn resources(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.registry
            .for_each(|resource| names.push(resource.name.to_string()));
        names.sort_unstable();
        names
    }

    /// The engine's own figures.
    pub fn stats(&self) -> EngineStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.shared.counters;
        EngineStats {
            resources: self.registry.len(),
            evicted_resources: read(&counters.evicted_resources),
            overflowed_resources: read(&counters.overflowed_resources),
            callers: counters.callers.load(Ordering::Relaxed),
            overflowed_origins: read(&counters.overflowed_origins),
            overflowed_contexts: read(&counters.overflowed_contexts),
            waits_in_runtime: read(&counters.waits_in_runtime),
            slot_faults: self.shared.faults.count(),
            breaker_observer_panics: self.shared.settings.breaker_observers.panics(),
            sampler_faults: self.shared.protection.sampling.faults(),
            generation: self.shared.plan.generation(),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        crate::visit::let_go();
        crate::by_name::let_go();
    }
}

impl Shared {
    fn take_turn(&self) -> MutexGuard<'_, Left> {
        // What the lock guards is replaced as a whole: a loader that panicked
        // has left nothing half done.
        unpoisoned(self.loading.lock())
    }

    fn plan_of(&self, rules: RuleSet, registry: &Arc<Registry>) -> ChainPlan {
        ChainPlan {
            rules,
            kinds: Arc::clone(&self.kinds),
            settings: self.settings.clone(),
            custom: Arc::clone(&self.custom),
            faults: Arc::clone(&self.faults),
            registry: crate::registry::Finder::new(registry),
        }
    }
}

impl Default for Engine {
    fn default() -> Self {
        Engine::new()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("clock", self.clock())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

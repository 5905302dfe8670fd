//! A handle to one resource.
//!
//! How a call comes in is in `enter`, and what it then holds in `entry`.

use std::fmt;
use std::sync::{Arc, Weak};

use flowgate_core::call::Holds;
use flowgate_core::publish::{Dated, Derived, Lent};
use flowgate_core::sync::OnceLock;
use flowgate_core::{Block, Call, Node, NodeSnapshot, Outcome, Timestamp};
use flowgate_slots::ChainPlan;

use crate::call_error::CallError;
use crate::callers::{Bound, Callers};
use crate::engine::Shared;
use crate::enter;
use crate::entry::{Entry, Stay};
use crate::pending::Pending;
use crate::registry::Registry;
use crate::request::{Request, Spec};
use crate::visit::Compiled;

/// A handle to one named resource. Cheap to clone; clones are the same
/// resource.
///
/// Asking through a handle saves the look-up by name, and the guard borrows
/// from it: get it once, keep it where the calls are made.
#[derive(Clone)]
pub struct Resource {
    pub(crate) inner: Arc<ResourceInner>,
    /// Rules that relate to other resources find them there, also when the
    /// engine is gone.
    pub(crate) _registry: Arc<Registry>,
}

pub(crate) struct ResourceInner {
    pub(crate) name: Arc<str>,
    pub(crate) node: Arc<Node>,
    /// Made when the first call names an origin or context.
    callers: OnceLock<Box<Callers>>,
    pub(crate) shared: Arc<Shared>,
    beyond: Option<Box<Beyond>>,
    pub(crate) chain: Derived<Compiled>,
}

/// What a resource is that has no place in the registry.
enum Beyond {
    /// A handle, taken when there was no place. Each of its calls looks for one.
    Homeless(Weak<Registry>),
    /// The resource of one call, counted with others in this one. A rule on
    /// callers would count for nothing with callers for each call.
    Guest(Arc<ResourceInner>),
}

/// The resource of a call: lent by a handle, or held by the call itself.
pub(crate) enum ResourceRef<'a> {
    Lent(&'a Arc<ResourceInner>),
    Held(Arc<ResourceInner>),
}

impl<'a> ResourceRef<'a> {
    /// A handle that was taken beyond the limit may have a place by now, or
    /// counts with others.
    #[cold]
    pub(crate) fn at_home(self) -> Self {
        match self.home() {
            Some(home) => ResourceRef::Held(home),
            None => self,
        }
    }
}

impl std::ops::Deref for ResourceRef<'_> {
    type Target = ResourceInner;

    #[inline]
    fn deref(&self) -> &ResourceInner {
        match self {
            ResourceRef::Lent(inner) => inner,
            ResourceRef::Held(inner) => inner,
        }
    }
}

impl Resource {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Asks to enter; waits on the thread if told to queue.
    ///
    /// Inside an async runtime this holds up a worker: use
    /// `acquire().await` there.
    ///
    /// # Errors
    ///
    /// [`Block`] if a rule refuses.
    #[inline]
    pub fn entry(&self) -> Result<Entry<'_>, Block> {
        enter::enter(ResourceRef::Lent(&self.inner), &Spec::PLAIN)
    }

    /// Asks to enter; never waits.
    ///
    /// # Errors
    ///
    /// [`Block`] if a rule refuses, or would have the call wait: then its place
    /// in the line is given back, and `retry_after` says how long the wait is.
    #[inline]
    pub fn try_entry(&self) -> Result<Entry<'_>, Block> {
        enter::try_enter(ResourceRef::Lent(&self.inner), &Spec::PLAIN)
    }

    /// Asks to enter; waits on a timer if told to queue. A future dropped while
    /// it waits gives its place back.
    ///
    /// # Errors
    ///
    /// [`Block`] if a rule refuses.
    #[cfg(feature = "tokio")]
    pub async fn acquire(&self) -> Result<Entry<'_>, Block> {
        match enter::acquire(ResourceRef::Lent(&self.inner), &Spec::PLAIN) {
            Ok(answer) => answer,
            Err(wait) => wait.await,
        }
    }

    /// Asks to enter, and returns the wait as a value instead of waiting.
    ///
    /// # Errors
    ///
    /// [`Block`] if a rule refuses.
    pub fn reserve(&self) -> Result<Pending<'_>, Block> {
        self.request().reserve()
    }

    /// A call with an origin, context, weight, priority, direction or
    /// arguments.
    #[inline]
    pub fn request<'r>(&self) -> Request<'_, 'r> {
        Request::lent(&self.inner)
    }

    /// Runs `work` inside an entry, and reports by its result whether it
    /// failed. A panic in it counts as an error and goes on.
    ///
    /// # Errors
    ///
    /// [`CallError::Blocked`] if a rule refuses, [`CallError::Failed`] with the
    /// error of `work`.
    pub fn call<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>> {
        self.request().call(work)
    }

    /// Runs `work` inside an entry, and has `classify` say what its result means
    /// for the resource: not every `Err` is a failure of it, and not every `Ok`
    /// a success. What is [`Outcome::Ignored`] no breaker looks at.
    ///
    /// ```
    /// use flowgate::{Engine, Outcome};
    ///
    /// enum Refusal { NotFound, Unreachable }
    /// # let fetch = || Err::<u32, _>(Refusal::NotFound);
    ///
    /// let shop = Engine::new().resource("shop");
    /// let found = shop.call_with(fetch, |result| match result {
    ///     Ok(_) => Outcome::Success,
    ///     Err(Refusal::NotFound) => Outcome::Ignored,
    ///     Err(Refusal::Unreachable) => Outcome::Error,
    /// });
    /// assert!(found.is_err());
    /// assert_eq!(shop.node().total_exception, 0);
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Resource::call`].
    pub fn call_with<T, E>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
        classify: impl FnOnce(&Result<T, E>) -> Outcome,
    ) -> Result<T, CallError<E>> {
        self.request().call_with(work, classify)
    }

    /// Runs `work`, which cannot fail, inside an entry.
    ///
    /// # Errors
    ///
    /// [`Block`] if a rule refuses.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T, Block> {
        self.request().run(work)
    }

    /// The async twin of [`Resource::call`]. A future dropped before its end
    /// leaves as cancelled.
    ///
    /// # Errors
    ///
    /// As [`Resource::call`].
    #[cfg(feature = "tokio")]
    pub async fn call_async<T, E, F>(&self, work: F) -> Result<T, CallError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        self.request().call_async(work).await
    }

    /// The async twin of [`Resource::call_with`]. A future dropped before its
    /// end leaves as cancelled.
    ///
    /// # Errors
    ///
    /// As [`Resource::call`].
    #[cfg(feature = "tokio")]
    pub async fn call_async_with<T, E, F>(
        &self,
        work: F,
        classify: impl FnOnce(&Result<T, E>) -> Outcome,
    ) -> Result<T, CallError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        self.request().call_async_with(work, classify).await
    }

    /// Its figures now.
    pub fn node(&self) -> NodeSnapshot {
        let now = self.inner.shared.clock.now();
        self.counted_in().snapshot(now)
    }

    /// Calls in flight now, those that wait included.
    pub fn in_flight(&self) -> u64 {
        self.counted_in().in_flight()
    }

    fn counted_in(&self) -> Arc<Node> {
        let home = self.inner.lives_in();
        Arc::clone(&home.as_ref().unwrap_or(&self.inner).node)
    }
}

impl ResourceInner {
    /// A resource with statistics of its own.
    pub(crate) fn new(name: &str, shared: &Arc<Shared>) -> Self {
        Self::with(
            name.into(),
            Arc::new(Node::new(&shared.nodes)),
            shared,
            None,
        )
    }

    /// What a handle holds that has no place in the registry.
    pub(crate) fn homeless(name: &str, shared: &Arc<Shared>, registry: Weak<Registry>) -> Self {
        let node = Arc::new(Node::new(&shared.nodes));
        let beyond = Beyond::Homeless(registry);
        Self::with(name.into(), node, shared, Some(Box::new(beyond)))
    }

    /// A resource with a name of its own for one call, counting where `host`
    /// counts.
    pub(crate) fn guest(name: &str, host: Arc<ResourceInner>) -> Self {
        let (node, shared) = (Arc::clone(&host.node), Arc::clone(&host.shared));
        let beyond = Beyond::Guest(host);
        Self::with(name.into(), node, &shared, Some(Box::new(beyond)))
    }

    /// The same resource, never used.
    pub(crate) fn renewed(&self) -> Self {
        let node = Arc::new(Node::new(&self.shared.nodes));
        Self::with(Arc::clone(&self.name), node, &self.shared, None)
    }

    fn with(
        name: Arc<str>,
        node: Arc<Node>,
        shared: &Arc<Shared>,
        beyond: Option<Box<Beyond>>,
    ) -> Self {
        ResourceInner {
            name,
            node,
            callers: OnceLock::new(),
            shared: Arc::clone(shared),
            beyond,
            chain: Derived::with_stand_in(&shared.unmade),
        }
    }

    /// Under what name rules keep what they remember of it.
    fn state(&self) -> &str {
        match self.beyond.as_deref() {
            Some(Beyond::Guest(host)) => &host.name,
            Some(Beyond::Homeless(_)) | None => &self.name,
        }
    }

    /// The origins and contexts that its calls are counted with.
    fn callers(&self) -> &Callers {
        match self.beyond.as_deref() {
            Some(Beyond::Guest(host)) => host.callers(),
            Some(Beyond::Homeless(_)) | None => self.callers.get_or_init(Box::default),
        }
    }

    /// The same if there are any.
    pub(crate) fn known_callers(&self) -> Option<&Callers> {
        self.callers.get().map(|callers| &**callers)
    }

    /// Whether it is what a handle holds that was taken when there was no place.
    #[inline]
    pub(crate) fn is_homeless(&self) -> bool {
        matches!(self.beyond.as_deref(), Some(Beyond::Homeless(_)))
    }

    /// Of what a handle holds that has no place: where a call of it counts, made
    /// now if need be.
    #[inline]
    pub(crate) fn home(&self) -> Option<Arc<ResourceInner>> {
        match self.beyond.as_deref()? {
            Beyond::Homeless(registry) => Some(registry.upgrade()?.home_of(&self.name)),
            Beyond::Guest(_) => None,
        }
    }

    /// The same, if there is such a resource.
    fn lives_in(&self) -> Option<Arc<ResourceInner>> {
        match self.beyond.as_deref()? {
            Beyond::Homeless(registry) => registry.upgrade()?.lives_in(&self.name),
            Beyond::Guest(_) => None,
        }
    }

    /// Whether nobody else has its node, as rules that relate to it do. Certain
    /// only if nobody else has the resource.
    pub(crate) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.node) == 1
    }

    /// Whether any call has ever asked for it.
    pub(crate) fn was_entered(&self) -> bool {
        self.node.was_used()
    }

    /// The chain under the rules in force, made if it has to be.
    pub(crate) fn current_chain(&self) -> Lent<Dated<Compiled>> {
        let shared = &*self.shared;
        let default_context = shared.limits.default_context_statistics;
        let is_right = |plan: &ChainPlan, made: &Compiled| made.is_right(plan, &self.name);
        self.chain.current(&shared.plan, is_right, |plan| {
            Compiled::of(plan, &self.name, self.state(), default_context)
        })
    }

    /// A call that may wait, but stands in no line, and holds nothing yet.
    #[inline]
    pub(crate) fn call<'c>(&'c self, spec: &Spec<'c>, stay: &'c Stay, now: Timestamp) -> Call<'c> {
        Call {
            resource: &self.name,
            now,
            weight: spec.weight,
            prioritized: spec.prioritized,
            may_wait: true,
            may_queue: false,
            traffic: spec.traffic,
            origin: spec.origin,
            context: spec.context,
            args: spec.args,
            attachments: spec.attachments,
            nodes: stay.nodes(&self.node),
            holds: Holds::default(),
            slot: 0,
        }
    }

    pub(crate) fn origin(&self, name: &str, compiled: &Compiled) -> Arc<Node> {
        let Shared {
            limits, counters, ..
        } = &*self.shared;
        let bound = Bound {
            names_max: limits.origins_max,
            total: &counters.callers,
            total_max: limits.callers_max,
            exempt: &compiled.named.origins,
            overflowed: &counters.overflowed_origins,
        };
        self.callers()
            .origins
            .node(name, &self.shared.nodes, &bound)
    }

    pub(crate) fn context(&self, name: &str, compiled: &Compiled) -> Arc<Node> {
        let Shared {
            limits, counters, ..
        } = &*self.shared;
        let bound = Bound {
            names_max: limits.contexts_max,
            total: &counters.callers,
            total_max: limits.callers_max,
            exempt: &compiled.named.contexts,
            overflowed: &counters.overflowed_contexts,
        };
        self.callers()
            .contexts
            .node(name, &self.shared.nodes, &bound)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

// A handle is shared between threads and tasks.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Resource>();
    shared::<crate::Engine>();
};

//! A handle to one resource.
//!
//! How a call comes in is in `enter`, and what it then holds in `entry`.

use std::fmt;
use std::sync::{Arc, Weak};

use flowgate_core::call::Holds;
use flowgate_core::publish::{Dated, Derived, Lent};
use flowgate_core::{Block, Call, Node, NodeSnapshot, Outcome, Timestamp};
use flowgate_slots::ChainPlan;

use crate::call_error::CallError;
use crate::engine::Shared;
use crate::enter;
use crate::entry::{Entry, Stay};
use crate::pending::Pending;
use crate::registry::{Bound, NamedNodes, Registry};
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
    /// Under what name rules keep what they remember of this resource.
    state: Arc<str>,
    pub(crate) node: Arc<Node>,
    /// Resources beyond the limit have these in common, as they have the node:
    /// a rule on callers would count for nothing with one for each call.
    pub(crate) origins: Arc<NamedNodes>,
    pub(crate) contexts: Arc<NamedNodes>,
    pub(crate) shared: Arc<Shared>,
    /// Of a resource beyond the limit: where it may find a place by now.
    registry: Option<Weak<Registry>>,
    pub(crate) chain: Derived<Compiled>,
}

/// The resource of a call: lent by a handle, or held by the call itself.
pub(crate) enum ResourceRef<'a> {
    Lent(&'a Arc<ResourceInner>),
    Held(Arc<ResourceInner>),
}

impl<'a> ResourceRef<'a> {
    /// A resource beyond the limit may have got a place of its own since.
    #[cold]
    pub(crate) fn at_home(self) -> Self {
        match self.moved_to() {
            Some(own) => ResourceRef::Held(own),
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
        let overflows = self.inner.overflows();
        let moved = overflows.then(|| self.inner.moved_to()).flatten();
        Arc::clone(&moved.as_ref().unwrap_or(&self.inner).node)
    }
}

impl ResourceInner {
    pub(crate) fn new(name: &str, state: &str, shared: &Arc<Shared>) -> Self {
        ResourceInner {
            name: name.into(),
            state: state.into(),
            node: Arc::new(Node::new(&shared.nodes)),
            origins: Arc::default(),
            contexts: Arc::default(),
            shared: Arc::clone(shared),
            registry: None,
            chain: Derived::new(Compiled::default()),
        }
    }

    /// A resource with a name of its own, counting where `other` counts.
    pub(crate) fn counting_with(
        name: &str,
        state: &str,
        shared: &Arc<Shared>,
        other: &ResourceInner,
        registry: Weak<Registry>,
    ) -> Self {
        ResourceInner {
            name: name.into(),
            state: state.into(),
            node: Arc::clone(&other.node),
            origins: Arc::clone(&other.origins),
            contexts: Arc::clone(&other.contexts),
            shared: Arc::clone(shared),
            registry: Some(registry),
            chain: Derived::new(Compiled::default()),
        }
    }

    /// Whether it counts with others beyond the limit on resources.
    #[inline]
    pub(crate) fn overflows(&self) -> bool {
        self.registry.is_some()
    }

    /// The resource of the same name that has statistics of its own by now, as
    /// a rule names it or it was asked for before.
    #[cold]
    pub(crate) fn moved_to(&self) -> Option<Arc<ResourceInner>> {
        self.registry.as_ref()?.upgrade()?.make(&self.name)
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
            Compiled::of(plan, &self.name, &self.state, default_context)
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
        self.origins.node(name, &self.shared.nodes, &bound)
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
        self.contexts.node(name, &self.shared.nodes, &bound)
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

//! The resources of an engine, by name; and the origins and contexts of one
//! resource.
//!
//! **Looking up takes no lock.** Names are put into a `papaya` table and never
//! taken out, so what was found stays true. A thread has what it calls by name
//! [at hand](crate::by_name).
//!
//! **Names may come from clients**, who may choose them so that they meet in a
//! table. The hash is seeded at random for each engine and no secret of a
//! cryptographer's: who can measure times finely enough could find names that
//! meet. What that gives is bounded, as the number of names in a table is: look-ups
//! that take as long as there are names that meet, for those names.
//!
//! **Making takes turns**, once per name. Who has its turn looks for the name
//! again, so two threads that come with one new name get one node. It then
//! compares the number of names with the bound, puts the name in, and only then
//! raises the number.
//!
//! **Nobody is counted elsewhere whose name has a place.** A thread that finds the
//! bound reached takes no turn; but the last place may just have been taken for
//! its own name. The numbers are raised with release and read with acquire: so it
//! finds all names that are in the number, and looks for its own once more.
//!
//! The number of origins and contexts of all resources together is raised by
//! threads that take turns at different locks. It may exceed its bound by as many
//! as are making one at that moment.
//!
//! **Assumed** is of `papaya` that a look-up which begins after a name was put in
//! finds it, and of `OnceLock` that all get the one value that was made. No model
//! checker sees into these; `tests/shuttle.rs` runs this code with both as one
//! step.

use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

use flowgate_core::sync::{
    AtomicU64, AtomicUsize, Mutex, MutexGuard, OnceLock, Ordering, unpoisoned,
};
use flowgate_core::{Node, NodeSettings, Timestamp};
use flowgate_slots::Registry as FindNode;
use foldhash::quality::RandomState;

use crate::by_name;
use crate::engine::Shared;
use crate::resource::{Resource, ResourceInner};

/// Name of what counts the calls of resources beyond the limit.
pub(crate) const OVERFLOW: &str = "(other resources)";

/// All resources of an engine.
///
/// Looking up takes no lock. Making does, once per name: two threads that come
/// with one new name must not end with one of them counted elsewhere because
/// the other has just taken the last place.
pub(crate) struct Registry {
    shared: Arc<Shared>,
    by_name: papaya::HashMap<Arc<str>, Arc<ResourceInner>, RandomState>,
    hasher: RandomState,
    /// Raised after the resource was put in.
    count: AtomicUsize,
    making: Mutex<()>,
    /// Counts for all that have no statistics of their own.
    overflow: OnceLock<Arc<ResourceInner>>,
    me: Weak<Registry>,
}

impl Registry {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        let hasher = RandomState::default();
        Arc::new_cyclic(|me| Registry {
            shared,
            by_name: papaya::HashMap::with_hasher(hasher.clone()),
            hasher,
            count: AtomicUsize::new(0),
            making: Mutex::new(()),
            overflow: OnceLock::new(),
            me: Weak::clone(me),
        })
    }

    /// The time, by the clock of the engine.
    pub(crate) fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    pub(crate) fn len(&self) -> usize {
        // Relaxed: a figure.
        self.count.load(Ordering::Relaxed)
    }

    /// The resource `name`, if it has statistics of its own.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<ResourceInner>> {
        let found = self.by_name.pin().get(name).cloned();
        let overflow = || self.overflow.get().filter(|_| name == OVERFLOW).cloned();
        found.or_else(overflow)
    }

    pub(crate) fn for_each(&self, mut visit: impl FnMut(&ResourceInner)) {
        let resources = self.by_name.pin();
        let overflow = self.overflow.get();
        resources
            .values()
            .chain(overflow)
            .for_each(|resource| visit(resource));
    }

    /// The resource `name`, made if it is new: a handle, which may be kept.
    #[inline]
    pub(crate) fn resource(self: &Arc<Self>, name: &str) -> Resource {
        let inner = match self.by_name.pin().get(name) {
            Some(found) => Arc::clone(found),
            None => self.make(name).unwrap_or_else(|| self.overflowing(name)),
        };
        let registry = Arc::clone(self);
        Resource {
            inner,
            _registry: registry,
        }
    }

    /// The same for one call. Beyond the limit, and where no pattern could
    /// match, all names share one resource.
    #[inline]
    pub(crate) fn for_call(&self, name: &str) -> Arc<ResourceInner> {
        let hash = self.hasher.hash_one(name);
        let is_it = |found: &ResourceInner| {
            *found.name == *name && Arc::ptr_eq(&found.shared, &self.shared)
        };
        by_name::recall(hash, is_it).unwrap_or_else(|| self.look_up_for_call(name, hash))
    }

    fn look_up_for_call(&self, name: &str, hash: u64) -> Arc<ResourceInner> {
        match self.by_name.pin().get(name) {
            Some(found) => {
                by_name::remember(hash, found);
                Arc::clone(found)
            }
            None => self.make(name).unwrap_or_else(|| self.overflow_for(name)),
        }
    }

    /// The resource `name` with statistics of its own; `None` if it has none
    /// and there is no place for it.
    #[cold]
    pub(crate) fn make(&self, name: &str) -> Option<Arc<ResourceInner>> {
        if !self.has_place(name) {
            // Whoever took the last place may have done so for this name.
            return self.by_name.pin().get(name).cloned();
        }
        let _turn = take_turn(&self.making);
        let resources = self.by_name.pin();
        if let Some(made) = resources.get(name) {
            return Some(Arc::clone(made));
        }
        if !self.has_place(name) {
            return None;
        }
        let inner = Arc::new(ResourceInner::new(name, name, &self.shared));
        resources.insert(Arc::clone(&inner.name), Arc::clone(&inner));
        // Release: who sees the number finds the resource.
        self.count.fetch_add(1, Ordering::Release);
        Some(inner)
    }

    /// Under what name rules keep what they remember of the calls of `name`.
    pub(crate) fn state_name<'n>(&self, name: &'n str) -> &'n str {
        let has_own = self.by_name.pin().contains_key(name) || self.has_place(name);
        if has_own { name } else { OVERFLOW }
    }

    /// Whether one more resource has a place, or must have one because a rule
    /// names it.
    fn has_place(&self, name: &str) -> bool {
        if self.count.load(Ordering::Acquire) < self.shared.limits.resources_max {
            return true;
        }
        let (_, plan) = self.shared.plan.load();
        plan.rules.names(name) || plan.rules.looks_at(name)
    }

    fn overflow_for(&self, name: &str) -> Arc<ResourceInner> {
        let (_, plan) = self.shared.plan.load();
        if plan.rules.has_patterns() {
            return self.overflowing(name);
        }
        self.count_overflow();
        Arc::clone(self.overflow())
    }

    /// A resource beyond the limit: counted with the others beyond it, guarded
    /// by the rules that match its own name. It moves to a place of its own as
    /// soon as a rule names it.
    fn overflowing(&self, name: &str) -> Arc<ResourceInner> {
        self.count_overflow();
        let registry = Weak::clone(&self.me);
        let overflow = self.overflow();
        let inner = ResourceInner::counting_with(name, OVERFLOW, &self.shared, overflow, registry);
        Arc::new(inner)
    }

    fn overflow(&self) -> &Arc<ResourceInner> {
        let make = || Arc::new(ResourceInner::new(OVERFLOW, OVERFLOW, &self.shared));
        self.overflow.get_or_init(make)
    }

    fn count_overflow(&self) {
        let overflowed = &self.shared.counters.overflowed_resources;
        // Relaxed: a figure.
        overflowed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Nothing is half done where a thread panics while it makes something new.
fn take_turn(making: &Mutex<()>) -> MutexGuard<'_, ()> {
    unpoisoned(making.lock())
}

/// How rules find the nodes of other resources, without keeping the registry.
pub(crate) struct Finder(Weak<Registry>);

impl Finder {
    pub(crate) fn new(registry: &Arc<Registry>) -> Arc<Self> {
        Arc::new(Finder(Arc::downgrade(registry)))
    }
}

impl FindNode for Finder {
    fn node(&self, resource: &str) -> Option<Arc<Node>> {
        let inner = self.0.upgrade()?.find(resource)?;
        // A handle makes a resource; its first call makes it entered.
        inner.was_entered().then(|| Arc::clone(&inner.node))
    }
}

/// Before any rules are loaded nobody looks for a resource.
pub(crate) struct NoResources;

impl FindNode for NoResources {
    fn node(&self, _: &str) -> Option<Arc<Node>> {
        None
    }
}

/// How many names are counted apart.
pub(crate) struct Bound<'a> {
    pub(crate) names_max: usize,
    /// How many there are on all resources of the engine, and may be.
    pub(crate) total: &'a AtomicUsize,
    pub(crate) total_max: usize,
    /// Names that a rule names: they are counted apart whatever the bound.
    pub(crate) exempt: &'a [String],
    /// Where calls of names beyond the bound are counted.
    pub(crate) overflowed: &'a AtomicU64,
}

/// Nodes of one resource, by the name of an origin or context.
#[derive(Default)]
pub(crate) struct NamedNodes {
    by_name: OnceLock<papaya::HashMap<Box<str>, Arc<Node>, RandomState>>,
    /// Raised after the node was put in; see [`Registry`].
    count: AtomicUsize,
    making: Mutex<()>,
    /// Counts for all names beyond the limit.
    overflow: OnceLock<Arc<Node>>,
}

impl NamedNodes {
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Node>> {
        self.by_name.get()?.pin().get(name).cloned()
    }

    /// The node of `name`, made if it is new and within `bound`.
    #[inline]
    pub(crate) fn node(
        &self,
        name: &str,
        settings: &Arc<NodeSettings>,
        bound: &Bound<'_>,
    ) -> Arc<Node> {
        let nodes = self.by_name.get_or_init(Default::default).pin();
        if let Some(node) = nodes.get(name) {
            return Arc::clone(node);
        }
        let is_full = || {
            (self.count.load(Ordering::Acquire) >= bound.names_max
                || bound.total.load(Ordering::Acquire) >= bound.total_max)
                && bound.exempt.iter().all(|exempt| exempt != name)
        };
        let turn = (!is_full()).then(|| take_turn(&self.making));
        if let Some(node) = nodes.get(name) {
            return Arc::clone(node);
        }
        if turn.is_none() || is_full() {
            bound.overflowed.fetch_add(1, Ordering::Relaxed);
            return Arc::clone(self.overflow.get_or_init(|| Arc::new(Node::new(settings))));
        }
        let node = Arc::new(Node::new(settings));
        nodes.insert(name.into(), Arc::clone(&node));
        // Release, both: who sees the number finds the node.
        bound.total.fetch_add(1, Ordering::Release);
        self.count.fetch_add(1, Ordering::Release);
        node
    }
}

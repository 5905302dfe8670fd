//! The origins and contexts of one resource, by name.
//!
//! Made when the first call names one: most resources have neither. As in the
//! [registry](crate::registry), looking up takes no lock, names take turns to be
//! made, and nobody is counted elsewhere whose name has a place. They go with
//! their resource.
//!
//! The number of origins and contexts of all resources together is raised by
//! threads that take turns at different locks. It may exceed its bound by as many
//! as are making one at that moment.

use std::sync::Arc;

use crate::registry::NameHasher;
use flowgate_core::sync::{
    AtomicU64, AtomicUsize, Mutex, MutexGuard, OnceLock, Ordering, unpoisoned,
};
use flowgate_core::{Node, NodeSettings, Timestamp};

/// Who calls one resource, and where.
#[derive(Default)]
pub(crate) struct Callers {
    pub(crate) origins: NamedNodes,
    pub(crate) contexts: NamedNodes,
}

impl Callers {
    /// How many have a node of their own.
    pub(crate) fn len(&self) -> usize {
        // Relaxed: whoever needs the exact number has the callers alone.
        let count = |nodes: &NamedNodes| nodes.count.load(Ordering::Relaxed);
        count(&self.origins) + count(&self.contexts)
    }

    /// Whether new nodes would be the same to whoever comes at `now` or later.
    pub(crate) fn are_as_new(&self, now: Timestamp) -> bool {
        self.origins.are_as_new(now) && self.contexts.are_as_new(now)
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
    by_name: OnceLock<papaya::HashMap<Box<str>, Arc<Node>, NameHasher>>,
    /// Raised after the node was put in.
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
        let nodes = self
            .by_name
            .get_or_init(|| papaya::HashMap::with_hasher(NameHasher::default()))
            .pin();
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

    fn are_as_new(&self, now: Timestamp) -> bool {
        let by_name = self.by_name.get();
        let named =
            by_name.is_none_or(|nodes| nodes.pin().values().all(|node| node.is_as_new(now)));
        named && self.overflow.get().is_none_or(|node| node.is_as_new(now))
    }
}

/// Nothing is half done where a thread panics while it makes something new.
fn take_turn(making: &Mutex<()>) -> MutexGuard<'_, ()> {
    unpoisoned(making.lock())
}

//! The resources of an engine, by name; and the origins and contexts of one
//! resource.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use flowgate_core::{Node, NodeSettings};
use flowgate_slots::Registry as FindNode;

use crate::engine::Shared;
use crate::resource::{Resource, ResourceInner};

/// Name of what counts the calls of resources beyond the limit.
pub(crate) const OVERFLOW: &str = "(other resources)";

/// All resources of an engine.
pub(crate) struct Registry {
    shared: Arc<Shared>,
    by_name: papaya::HashMap<Arc<str>, Arc<ResourceInner>>,
    count: AtomicUsize,
    /// Counts for all that have no statistics of their own.
    overflow: OnceLock<Arc<ResourceInner>>,
}

impl Registry {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Registry {
            shared,
            by_name: papaya::HashMap::new(),
            count: AtomicUsize::new(0),
            overflow: OnceLock::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The resource `name`, if it has statistics of its own.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<ResourceInner>> {
        if name == OVERFLOW {
            return self.overflow.get().cloned();
        }
        self.by_name.pin().get(name).cloned()
    }

    pub(crate) fn for_each(&self, mut visit: impl FnMut(&ResourceInner)) {
        let resources = self.by_name.pin();
        let overflow = self.overflow.get();
        resources
            .values()
            .chain(overflow)
            .for_each(|resource| visit(resource));
    }

    /// The resource `name`, made if it is new.
    #[inline]
    pub(crate) fn resource(&self, name: &str) -> Resource {
        match self.by_name.pin().get(name) {
            Some(found) => Resource {
                inner: Arc::clone(found),
            },
            None => self.make(name),
        }
    }

    #[cold]
    fn make(&self, name: &str) -> Resource {
        // The place is taken before the resource is made: threads that come
        // with new names at once do not exceed the limit together.
        let limit = self.shared.limits.resources_max;
        let taken = self.count.fetch_add(1, Ordering::AcqRel);
        if taken >= limit && !self.is_named(name) {
            self.count.fetch_sub(1, Ordering::AcqRel);
            return self.make_overflowing(name);
        }
        let inner = Arc::new(ResourceInner::new(name, name, &self.shared));
        let resources = self.by_name.pin();
        match resources.try_insert(Arc::clone(&inner.name), inner) {
            Ok(made) => Resource {
                inner: Arc::clone(made),
            },
            Err(met) => {
                self.count.fetch_sub(1, Ordering::AcqRel);
                Resource {
                    inner: Arc::clone(met.current),
                }
            }
        }
    }

    fn is_named(&self, name: &str) -> bool {
        let (_, plan) = self.shared.plan.load();
        let rules = &plan.rules;
        rules.flow.by_resource(name).next().is_some()
            || rules.degrade.by_resource(name).next().is_some()
    }

    /// A resource beyond the limit: counted with the others beyond it, guarded
    /// by the rules that match its own name.
    fn make_overflowing(&self, name: &str) -> Resource {
        self.shared
            .counters
            .overflowed_resources
            .fetch_add(1, Ordering::Relaxed);
        let make = || Arc::new(ResourceInner::new(OVERFLOW, OVERFLOW, &self.shared));
        let overflow = self.overflow.get_or_init(make);
        let (_, plan) = self.shared.plan.load();
        if !plan.rules.flow.has_patterns() && !plan.rules.degrade.has_patterns() {
            return Resource {
                inner: Arc::clone(overflow),
            };
        }
        let inner = ResourceInner::counting_with(name, OVERFLOW, &self.shared, overflow);
        Resource {
            inner: Arc::new(inner),
        }
    }
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

/// Nodes of one resource, by the name of an origin or context.
#[derive(Default)]
pub(crate) struct NamedNodes {
    by_name: OnceLock<papaya::HashMap<Box<str>, Arc<Node>>>,
    count: AtomicUsize,
    /// Counts for all names beyond the limit.
    overflow: OnceLock<Arc<Node>>,
}

impl NamedNodes {
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Node>> {
        self.by_name.get()?.pin().get(name).cloned()
    }

    /// The node of `name`, made if it is new and within `limit`.
    #[inline]
    pub(crate) fn node(
        &self,
        name: &str,
        settings: &Arc<NodeSettings>,
        limit: usize,
        overflowed: &AtomicU64,
    ) -> Arc<Node> {
        let nodes = self.by_name.get_or_init(papaya::HashMap::new).pin();
        if let Some(node) = nodes.get(name) {
            return Arc::clone(node);
        }
        if self.count.fetch_add(1, Ordering::AcqRel) >= limit {
            self.count.fetch_sub(1, Ordering::AcqRel);
            overflowed.fetch_add(1, Ordering::Relaxed);
            return Arc::clone(self.overflow.get_or_init(|| Arc::new(Node::new(settings))));
        }
        match nodes.try_insert(name.into(), Arc::new(Node::new(settings))) {
            Ok(made) => Arc::clone(made),
            Err(met) => {
                self.count.fetch_sub(1, Ordering::AcqRel);
                Arc::clone(met.current)
            }
        }
    }
}

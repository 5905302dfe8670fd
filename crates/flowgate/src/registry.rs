//! The resources of an engine, by name.
//!
//! **Looking up takes no lock.** A `papaya` table leads from names to weak
//! references; the one strong reference is in a shard (see [`sweep`](crate::sweep)),
//! until the resource is forgotten. What was found is the caller's as long as it
//! holds it, and is not forgotten meanwhile: see `core::kept`.
//!
//! **Making takes turns**, per shard of names. Who has its turn looks for the name
//! again, so two threads that come with one new name get one node. It then takes a
//! place, puts the name in, and only then raises the number of resources. Whoever
//! sweeps the shard has the same turn, so then each name in the table leads to a
//! resource, and a caller that finds nothing behind a name waits for a few steps.
//!
//! **Nobody is counted elsewhere whose name has a place.** A thread that finds the
//! number at its bound takes no turn; but the last place may just have been taken
//! for its own name. The number is raised with release and read with acquire: so
//! it finds all names that are in the number, and looks for its own once more.
//!
//! **Nobody is counted twice.** Names beyond the bound are counted together, in the
//! *overflow*. As long as there is one, names for which a pattern may hold get no
//! places, also where some have become free: what such a name has used up of its
//! limit is in the overflow, and it would begin anew. It ends as any resource
//! does, when nobody has it and it is as new. A thread that makes it says so
//! first, then lets all that are just making something end, and only then lets
//! anybody count there; and who counts there looks for its own name once more
//! when it holds it.
//!
//! **Assumed** is of `papaya` that a look-up which begins after a name was put in
//! finds it, and of `OnceLock` that all get the one value that was made. No model
//! checker sees into these; `tests/shuttle.rs` runs this code with both as one
//! step.

use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

use crossbeam_utils::CachePadded;
use flowgate_core::kept::Kept;
use flowgate_core::sync::{AtomicBool, AtomicUsize, Cell, Mutex, MutexGuard, Ordering, unpoisoned};
use flowgate_core::{Node, Timestamp};
use flowgate_slots::Registry as FindNode;

use crate::by_name;
use crate::engine::Shared;
use crate::resource::{Resource, ResourceInner};
use crate::sweep::{STEPS_BEYOND, STEPS_MAKING, Shard, Slot};

/// Name of what counts the calls of resources beyond the limit.
pub(crate) const OVERFLOW: &str = "(other resources)";

/// How names are hashed; keyed at random, as they may come from outside.
pub(crate) type NameHasher = foldhash::quality::RandomState;
type Names = papaya::HashMap<Arc<str>, Weak<ResourceInner>, NameHasher>;

/// Locks for making. Of shuttle's schedules one would not be like another if
/// which names share a lock were a matter of chance.
const SHARDS: usize = if cfg!(shuttle) { 1 } else { 64 };

/// In how many of them a call beyond the limit looks for room.
const SHARDS_BEYOND: usize = 4;

/// All resources of an engine.
pub(crate) struct Registry {
    pub(crate) shared: Arc<Shared>,
    pub(crate) names: Names,
    hasher: NameHasher,
    pub(crate) shards: Box<[CachePadded<Mutex<Shard>>]>,
    /// Places taken: never more than there are but for names that must have one.
    pub(crate) places: AtomicUsize,
    /// Names in the table. Raised after one was put in.
    pub(crate) count: AtomicUsize,
    pub(crate) overflow: Overflow,
    /// The shard that those beyond the limit look at next.
    hand: AtomicUsize,
    me: Weak<Registry>,
}

/// Counts for all that have no statistics of their own.
pub(crate) struct Overflow {
    /// Whether somebody may be counted here. Set before anybody is.
    pub(crate) is_open: AtomicBool,
    found: Cell<Weak<ResourceInner>>,
    /// Taken before the lock of a shard, never after.
    pub(crate) kept: Mutex<Option<Slot>>,
}

impl Registry {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        let hasher = NameHasher::default();
        Arc::new_cyclic(|me| Registry {
            shared,
            names: Names::with_hasher(hasher.clone()),
            hasher,
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            places: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            overflow: Overflow {
                is_open: AtomicBool::new(false),
                found: Cell::new(Weak::new()),
                kept: Mutex::new(None),
            },
            hand: AtomicUsize::new(0),
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

    // Looking.

    /// The resource `name`, if it has statistics of its own.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<ResourceInner>> {
        let overflow = || match name == OVERFLOW {
            true => self.known_overflow(),
            false => None,
        };
        self.own(name).or_else(overflow)
    }

    /// Where calls of `name` are counted, if they are.
    pub(crate) fn lives_in(&self, name: &str) -> Option<Arc<ResourceInner>> {
        self.own(name).or_else(|| self.known_overflow())
    }

    fn own(&self, name: &str) -> Option<Arc<ResourceInner>> {
        let found = self.names.pin().get(name).map(Weak::upgrade)?;
        found.or_else(|| self.own_in_turn(name))
    }

    /// The same where a name has led to nothing: somebody sweeps.
    #[cold]
    fn own_in_turn(&self, name: &str) -> Option<Arc<ResourceInner>> {
        let _turn = take_turn(self.shard_of(name));
        self.names.pin().get(name)?.upgrade()
    }

    fn known_overflow(&self) -> Option<Arc<ResourceInner>> {
        let found = self.overflow.found.load().upgrade();
        found.or_else(|| {
            let kept = unpoisoned(self.overflow.kept.lock());
            kept.as_ref().map(|slot| slot.resource.hold())
        })
    }

    pub(crate) fn for_each(&self, mut visit: impl FnMut(&ResourceInner)) {
        let names = self.names.pin();
        for (name, found) in &names {
            let found = found.upgrade().or_else(|| self.own_in_turn(name));
            found.iter().for_each(|resource| visit(resource));
        }
        let overflow = self.known_overflow();
        overflow.iter().for_each(|resource| visit(resource));
    }

    // Finding or making.

    /// The resource `name`, made if it is new: a handle, which may be kept.
    #[inline]
    pub(crate) fn resource(self: &Arc<Self>, name: &str) -> Resource {
        let found = self.names.pin().get(name).and_then(Weak::upgrade);
        let inner = found
            .or_else(|| self.make(name))
            .unwrap_or_else(|| self.homeless(name));
        Resource {
            inner,
            _registry: Arc::clone(self),
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
        if let Some(found) = self.names.pin().get(name).and_then(Weak::upgrade) {
            by_name::remember(hash, &found);
            return found;
        }
        self.make(name).unwrap_or_else(|| self.beyond(name, true))
    }

    /// The same for a call of a handle that was taken beyond the limit.
    #[cold]
    pub(crate) fn home_of(&self, name: &str) -> Arc<ResourceInner> {
        let found = self.own(name).or_else(|| self.make(name));
        found.unwrap_or_else(|| self.beyond(name, false))
    }

    /// The resource `name` with statistics of its own; `None` if it has none
    /// and there is no place for it.
    #[cold]
    fn make(&self, name: &str) -> Option<Arc<ResourceInner>> {
        if !self.has_place(name) {
            // Whoever took the last place may have done so for this name.
            return self.own(name);
        }
        let now = self.shared.clock.now();
        let mut shard = take_turn(self.shard_of(name));
        let names = self.names.pin();
        if let Some(made) = names.get(name).and_then(Weak::upgrade) {
            return Some(made);
        }
        if !self.take_place(name) {
            return None;
        }
        let kept = Kept::new(ResourceInner::new(name, &self.shared));
        let inner = kept.hold();
        names.insert(Arc::clone(&inner.name), kept.found_by());
        // Release: who sees the number finds the resource.
        self.count.fetch_add(1, Ordering::Release);
        let gone = shard.sweep(self, now, STEPS_MAKING).gone;
        shard.keep(kept, now);
        drop(shard);
        drop(gone);
        Some(inner)
    }

    /// Under what name rules keep what they remember of the calls of `name`.
    pub(crate) fn state_name<'n>(&self, name: &'n str) -> &'n str {
        let has_own = self.own(name).is_some() || self.has_place(name);
        if has_own { name } else { OVERFLOW }
    }

    /// Whether one more resource has a place, or must have one because a rule
    /// names it.
    fn has_place(&self, name: &str) -> bool {
        let is_full = self.count.load(Ordering::Acquire) >= self.shared.limits.resources_max;
        // Acquire: who finds it closed finds what it has done before.
        let is_open = || self.overflow.is_open.load(Ordering::Acquire);
        if !is_full && !is_open() {
            return true;
        }
        let (_, plan) = self.shared.plan.load();
        plan.names(name) || !(is_full || plan.rules.has_patterns())
    }

    /// Takes a place, in turn with all that make something of this name.
    fn take_place(&self, name: &str) -> bool {
        if !self.has_place(name) {
            return false;
        }
        let max = self.shared.limits.resources_max;
        // Relaxed: the number stands for itself.
        let taken = self
            .places
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |places| {
                (places < max).then_some(places + 1)
            });
        if taken.is_ok() {
            return true;
        }
        let must = self.shared.plan.load().1.names(name);
        if must {
            self.places.fetch_add(1, Ordering::Relaxed);
        }
        must
    }

    fn shard_of(&self, name: &str) -> &Mutex<Shard> {
        // By the upper bits: the table looks at the others.
        let hash = self.hasher.hash_one(name) >> 32;
        &self.shards[hash as usize % SHARDS]
    }

    // Beyond the limit.

    /// A handle beyond the limit. It moves to a place of its own as soon as there
    /// is one.
    #[cold]
    fn homeless(&self, name: &str) -> Arc<ResourceInner> {
        self.count_overflow();
        let registry = Weak::clone(&self.me);
        Arc::new(ResourceInner::homeless(name, &self.shared, registry))
    }

    /// A call beyond the limit: counted with the others beyond it, guarded by the
    /// rules that match its own name.
    #[cold]
    fn beyond(&self, name: &str, is_look_up: bool) -> Arc<ResourceInner> {
        if self.make_room()
            && let Some(made) = self.make(name)
        {
            return made;
        }
        let overflow = self.overflow();
        // What made room for another may have made some for this name.
        if let Some(own) = self.own(name) {
            return own;
        }
        if is_look_up {
            self.count_overflow();
        }
        match self.shared.plan.load().1.rules.has_patterns() {
            true => Arc::new(ResourceInner::guest(name, overflow)),
            false => overflow,
        }
    }

    /// Looks at a few resources, unless others do; whether one was forgotten.
    fn make_room(&self) -> bool {
        let now = self.shared.clock.now();
        let closed = self.sweep_overflow(now);
        closed || (0..SHARDS_BEYOND).any(|_| self.make_room_in_next(now))
    }

    fn make_room_in_next(&self, now: Timestamp) -> bool {
        // Relaxed: any shard will do.
        let hand = self.hand.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let Ok(mut shard) = self.shards[hand].try_lock() else {
            return false;
        };
        let gone = shard.sweep(self, now, STEPS_BEYOND).gone;
        drop(shard);
        !gone.is_empty()
    }

    fn overflow(&self) -> Arc<ResourceInner> {
        let found = self.overflow.found.load().upgrade();
        found.unwrap_or_else(|| self.make_overflow())
    }

    #[cold]
    fn make_overflow(&self) -> Arc<ResourceInner> {
        let mut kept = unpoisoned(self.overflow.kept.lock());
        if let Some(slot) = &*kept {
            return slot.resource.hold();
        }
        // Release, as the locks after it: who has its turn later sees it.
        self.overflow.is_open.store(true, Ordering::Release);
        for shard in &self.shards {
            drop(take_turn(shard));
        }
        let now = self.shared.clock.now();
        let slot = Slot::new(Kept::new(ResourceInner::new(OVERFLOW, &self.shared)), now);
        let overflow = slot.resource.hold();
        self.overflow.tell(&slot);
        *kept = Some(slot);
        overflow
    }

    fn count_overflow(&self) {
        let overflowed = &self.shared.counters.overflowed_resources;
        // Relaxed: a figure.
        overflowed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Overflow {
    /// Where it is found from now on.
    pub(crate) fn tell(&self, slot: &Slot) {
        self.found.store(slot.resource.found_by());
    }
}

/// Nothing is half done where a thread panics while it makes something new.
pub(crate) fn take_turn(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    unpoisoned(shard.lock())
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

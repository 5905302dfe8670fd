//! Forgetting resources that nobody calls any more.
//!
//! Each shard of names keeps its resources in a list, and a hand goes round it.
//! Who makes a resource moves the hand of its shard a little further than one
//! ([`STEPS_MAKING`]), so in the long run as many resources go as come; calls beyond the limit on
//! resources move the hands too, where nobody else does; and whoever calls
//! [`Engine::sweep`](crate::Engine::sweep) moves all of them once round. There is
//! no thread for it. Looking at a resource whose time has not come is a comparison
//! of two numbers that lie in the list.
//!
//! **When.** The first look comes an idle timeout after the resource was made, the
//! next ones an idle timeout after the last. A look marks the node (see
//! `core::node`); who is found marked was not called since. Near the limit on
//! resources the looks come each minute and need no mark.
//!
//! **Who goes.** A resource goes if
//!
//! * nobody has it: no handle, no open entry, nobody waiting (all of these hold a
//!   reference), and nobody is just about to (see `core::kept`);
//! * its node and those of its callers are as new: nothing in flight or borrowed,
//!   and what was counted has left every view, those of rules included;
//! * no rule names it, and what rules with patterns remember of it is as new;
//!   that is forgotten with it, in the same turn, so whoever makes the name again
//!   finds nothing of it.
//!
//! So nobody is admitted or refused who would not have been otherwise. A resource
//! that a rule names, in its `resource` or to relate to it, stays; if it is only
//! named in a `resource`, it gives its statistics back: a new one takes its place,
//! as long as rules do not hold the old node.

use std::sync::Arc;
use std::time::Duration;

use flowgate_core::Timestamp;
use flowgate_core::kept::{Kept, Taken};
use flowgate_core::sync::Ordering;
use flowgate_rules::{Idle, Whose};
use flowgate_slots::ChainPlan;

use crate::registry::{OVERFLOW, Registry, take_turn};
use crate::resource::ResourceInner;

/// How far a hand moves at once.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    /// Resources it passes, at most.
    slots: usize,
    /// Of these, whose time for a look has come: what costs something.
    looks: usize,
}

/// By whoever makes a resource. A resource is passed about twice before its time
/// comes, and looked at twice before it goes, so in the long run as many go as are
/// made.
pub(crate) const STEPS_MAKING: Steps = Steps {
    slots: 16,
    looks: 4,
};
/// By a call beyond the limit.
pub(crate) const STEPS_BEYOND: Steps = Steps { slots: 8, looks: 4 };
/// By a sweep in one turn.
const SWEEPING: usize = 64;
/// How many times as far near the limit.
const HASTE: usize = 4;
/// After what time all that a node shows has left its views.
const MINUTE: Duration = Duration::from_secs(61);

/// What a sweep has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Resources whose time for a look had come.
    pub looked_at: usize,
    /// Resources that were forgotten.
    pub evicted: usize,
    /// Resources that stay, and have given back their statistics.
    pub renewed: usize,
}

/// The resources of some of the names.
#[derive(Default)]
pub(crate) struct Shard {
    slots: Vec<Slot>,
    hand: usize,
}

/// A resource in its place.
pub(crate) struct Slot {
    pub(crate) resource: Kept<ResourceInner>,
    /// When it was made or looked at, in seconds.
    looked_at: u32,
    /// When its node was marked.
    marked_at: u32,
}

/// What a few looks have found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) looked_at: usize,
    pub(crate) renewed: usize,
    /// To be dropped when the turn is over.
    pub(crate) gone: Vec<ResourceInner>,
}

/// One round of looks.
struct Look<'r> {
    registry: &'r Registry,
    plan: Option<Arc<ChainPlan>>,
    now: Timestamp,
    now_s: u32,
    /// Whether places run short.
    is_short: bool,
}

/// What becomes of a resource that nobody would miss.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Forgotten,
    Renewed,
    Kept,
}

impl Slot {
    pub(crate) fn new(resource: Kept<ResourceInner>, now: Timestamp) -> Self {
        Slot {
            resource,
            looked_at: seconds(now),
            marked_at: seconds(now),
        }
    }
}

impl Shard {
    pub(crate) fn keep(&mut self, resource: Kept<ResourceInner>, now: Timestamp) {
        self.slots.push(Slot::new(resource, now));
    }

    /// Moves the hand. The caller has its turn.
    pub(crate) fn sweep(&mut self, registry: &Registry, now: Timestamp, steps: Steps) -> Found {
        let mut found = Found::default();
        let mut look = Look::new(registry, now);
        let slots = match look.is_short {
            true => steps.slots * HASTE,
            false => steps.slots,
        };
        for _ in 0..slots.min(self.slots.len()) {
            if found.looked_at == steps.looks {
                break;
            }
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let slot = &mut self.slots[self.hand];
            if !look.is_due(slot) {
                self.hand += 1;
                continue;
            }
            found.looked_at += 1;
            let idle = look.idle(slot);
            let end = idle.map_or(End::Kept, |_| look.end_of(slot.resource.get()));
            match (idle, end) {
                (None, _) | (_, End::Kept) => self.hand += 1,
                (Some(idle), end) => self.take(&mut look, idle, end, &mut found),
            }
        }
        found
    }

    /// Takes the resource under the hand away, if nobody would miss it.
    fn take(&mut self, look: &mut Look<'_>, idle: Duration, end: End, found: &mut Found) {
        let Slot {
            resource,
            looked_at,
            marked_at,
        } = self.slots.swap_remove(self.hand);
        let registry = look.registry;
        let stays = match resource.take_if(|resource| look.is_idle(resource, idle, end)) {
            Taken::Gone(gone) if end == End::Forgotten => {
                registry.names.pin().remove(&gone.name);
                look.plan().rules.forget(&gone.name, Whose::Resource);
                // Release, as when it was raised.
                registry.count.fetch_sub(1, Ordering::Release);
                registry.places.fetch_sub(1, Ordering::Relaxed);
                look.note_gone(&gone);
                found.gone.push(gone);
                return;
            }
            Taken::Gone(gone) => {
                let renewed = Kept::new(gone.renewed());
                registry.tell(&renewed);
                found.renewed += 1;
                look.note_callers(&gone);
                found.gone.push(gone);
                renewed
            }
            Taken::Moved(resource) => {
                registry.tell(&resource);
                resource
            }
            Taken::Stays(resource) => resource,
        };
        // Back to where it was; the last one, which stands there now, goes back
        // to its own place.
        self.slots.push(Slot {
            resource: stays,
            looked_at,
            marked_at,
        });
        let last = self.slots.len() - 1;
        self.slots.swap(self.hand, last);
        self.hand += 1;
    }
}

impl<'r> Look<'r> {
    fn new(registry: &'r Registry, now: Timestamp) -> Self {
        let max = registry.shared.limits.resources_max;
        // Relaxed: an estimate.
        let count = registry.count.load(Ordering::Relaxed);
        Look {
            registry,
            plan: None,
            now,
            now_s: seconds(now),
            is_short: count >= max - max / 8,
        }
    }

    fn plan(&mut self) -> &ChainPlan {
        let shared = &self.registry.shared;
        self.plan.get_or_insert_with(|| shared.plan.load().1)
    }

    fn timeout(&self) -> Duration {
        self.registry.shared.limits.idle_timeout
    }

    /// Whether it is time to look at it.
    #[inline]
    fn is_due(&self, slot: &Slot) -> bool {
        let wait = match self.is_short {
            true => MINUTE.min(self.timeout()),
            false => self.timeout(),
        };
        self.since(slot.looked_at) >= wait
    }

    fn since(&self, then: u32) -> Duration {
        // A clock that has gone back, or is past its 136 years, waits longer.
        Duration::from_secs(self.now_s.saturating_sub(then).into())
    }

    /// Looks at it and marks it; how long nobody has called it, at least, if that
    /// is long enough.
    fn idle(&self, slot: &mut Slot) -> Option<Duration> {
        slot.looked_at = self.now_s;
        if slot.resource.is_held() {
            return None;
        }
        let node = &slot.resource.get().node;
        match (node.was_used(), node.rest()) {
            (false, _) => Some(Duration::MAX),
            (true, true) => Some(self.since(slot.marked_at)),
            (true, false) => {
                slot.marked_at = self.now_s;
                // What the node shows will tell.
                self.is_short.then_some(Duration::ZERO)
            }
        }
    }

    fn end_of(&mut self, resource: &ResourceInner) -> End {
        let has_counts = resource.node.has_counts() || resource.known_callers().is_some();
        let plan = self.plan();
        match (
            plan.rules.names(&resource.name),
            plan.rules.looks_at(&resource.name),
        ) {
            (false, false) => End::Forgotten,
            (true, false) if has_counts => End::Renewed,
            _ => End::Kept,
        }
    }

    /// Whether a new resource would be the same to whoever comes. Asked twice, see
    /// [`Kept::take_if`].
    fn is_idle(&mut self, resource: &ResourceInner, since: Duration, end: End) -> bool {
        let now = self.now;
        // A call that has come since has taken the mark off.
        resource.node.is_resting()
            && resource.node.is_as_new(now)
            && resource
                .known_callers()
                .is_none_or(|callers| callers.are_as_new(now))
            && match end {
                End::Kept => false,
                // A rule of another resource may have the node.
                End::Renewed => resource.is_alone(),
                End::Forgotten => {
                    let idle = Idle { now, since };
                    let rules = &self.plan().rules;
                    resource.is_alone() && rules.is_as_new(&resource.name, Whose::Resource, idle)
                }
            }
    }

    fn note_gone(&self, gone: &ResourceInner) {
        let evicted = &self.registry.shared.counters.evicted_resources;
        // Relaxed: a figure.
        evicted.fetch_add(1, Ordering::Relaxed);
        self.note_callers(gone);
    }

    fn note_callers(&self, gone: &ResourceInner) {
        let callers = gone.known_callers().map_or(0, |callers| callers.len());
        // Release, as when it was raised.
        let count = &self.registry.shared.counters.callers;
        count.fetch_sub(callers, Ordering::Release);
    }
}

impl Registry {
    /// Looks at all resources whose time has come.
    pub(crate) fn sweep(&self) -> Swept {
        let now = self.shared.clock.now();
        let mut swept = Swept {
            evicted: usize::from(self.sweep_overflow(now)),
            ..Swept::default()
        };
        for shard in &self.shards {
            let mut left = take_turn(shard).slots.len();
            while left > 0 {
                let mut turn = take_turn(shard);
                let slots = SWEEPING.min(left);
                let found = turn.sweep(
                    self,
                    now,
                    Steps {
                        slots,
                        looks: slots,
                    },
                );
                drop(turn);
                swept.looked_at += found.looked_at;
                swept.renewed += found.renewed;
                swept.evicted += found.gone.len() - found.renewed;
                left = left.saturating_sub(SWEEPING);
            }
        }
        swept
    }

    /// Ends the overflow if nobody would miss it, unless others look at it; whether
    /// it has.
    pub(crate) fn sweep_overflow(&self, now: Timestamp) -> bool {
        // Relaxed: who misses it comes again.
        if !self.overflow.is_open.load(Ordering::Relaxed) {
            return false;
        }
        let Ok(mut kept) = self.overflow.kept.try_lock() else {
            return false;
        };
        let mut look = Look::new(self, now);
        // The sooner it goes the sooner its names have places.
        look.is_short = true;
        let Some(mut slot) = kept.take_if(|slot| look.is_due(slot)) else {
            return false;
        };
        let idle = look.idle(&mut slot);
        let idle = idle.filter(|_| !look.plan().names(OVERFLOW));
        let taken = match idle {
            None => Taken::Stays(slot.resource),
            Some(since) => slot.resource.take_if(|resource| {
                let idle = Idle { now, since };
                look.is_idle(resource, since, End::Renewed)
                    && look.plan().rules.is_as_new(OVERFLOW, Whose::Many, idle)
            }),
        };
        slot.resource = match taken {
            Taken::Gone(gone) => {
                look.plan().rules.forget(OVERFLOW, Whose::Many);
                look.note_callers(&gone);
                // Release: who finds it closed finds that all is forgotten.
                self.overflow.is_open.store(false, Ordering::Release);
                return true;
            }
            Taken::Stays(resource) | Taken::Moved(resource) => resource,
        };
        self.overflow.tell(&slot);
        *kept = Some(slot);
        false
    }

    /// Where a resource is found from now on. In turn with all that make one.
    fn tell(&self, resource: &Kept<ResourceInner>) {
        let name = Arc::clone(&resource.get().name);
        self.names.pin().insert(name, resource.found_by());
    }
}

fn seconds(now: Timestamp) -> u32 {
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
}

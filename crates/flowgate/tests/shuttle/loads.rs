//! Limits that are swapped under way, and what each call may have seen of them.

use std::sync::{Arc, Mutex};

use super::world::{Admitted, World, draw, one_of};

/// No limit.
pub(crate) const NONE: u64 = u64::MAX;

/// The limits that were in force.
pub(crate) struct Loads {
    world: Arc<World>,
    document: fn(u64) -> String,
    /// Each with the moments before it was loaded and after it was in force.
    list: Mutex<Vec<(u64, u64, u64)>>,
}

impl Loads {
    /// A world that begins with `limit`, as `document` writes it.
    pub(crate) fn beginning(limit: u64, document: fn(u64) -> String) -> Arc<Self> {
        Arc::new(Loads {
            world: World::new(&document(limit)),
            document,
            list: Mutex::new(vec![(limit, 0, 0)]),
        })
    }

    pub(crate) fn world(&self) -> Arc<World> {
        Arc::clone(&self.world)
    }

    /// A task that loads a few of `limits`.
    pub(crate) fn loader(self: &Arc<Self>, limits: &'static [u64]) -> Box<dyn FnOnce() + Send> {
        let loads = Arc::clone(self);
        Box::new(move || {
            for _ in 0..draw(1..4) {
                let limit = one_of(limits);
                let before = loads.world.moment();
                let loaded = loads.world.engine.load_document((loads.document)(limit));
                loaded.expect("the document is fine");
                let load = (limit, before, loads.world.moment());
                loads.list.lock().expect("no task fails in it").push(load);
            }
        })
    }

    /// The calls that went ahead, each with the greatest limit that it may have
    /// seen.
    pub(crate) fn calls(&self) -> Vec<(Admitted, u64)> {
        let list = self.list.lock().expect("no task fails in it");
        let limit = |call: &Admitted| {
            let ends = list.iter().skip(1).map(|load| load.2).chain([NONE]);
            let in_force = list.iter().zip(ends);
            let seen = in_force.filter(|(load, end)| load.1 <= call.got && *end >= call.asked);
            seen.map(|(load, _)| load.0).max().unwrap_or(NONE)
        };
        let calls = self.world.admitted();
        calls.iter().map(|call| (*call, limit(call))).collect()
    }
}

/// Whether calls that are counted together were within their limits.
///
/// Of any set of them, whichever was decided last has seen all others: together
/// they are within the greatest limit of the set. And if `last` says that a call
/// counts with all others, it has seen those that were decided before it asked.
pub(crate) fn kept(together: &[(Admitted, u64)], last: impl Fn(&Admitted) -> bool) {
    for (call, limit) in together {
        let lower = together.iter().filter(|(_, other)| other <= limit);
        let sum: u64 = lower.map(|(other, _)| other.weight).sum();
        assert!(sum <= *limit, "{sum} of {limit}: {together:#?}");
        if last(call) {
            let before = together.iter().filter(|(other, _)| other.got < call.asked);
            let before: u64 = before.map(|(other, _)| other.weight).sum();
            let sum = before + call.weight;
            assert!(sum <= *limit, "{sum} of {limit}: {call:?} in {together:#?}");
        }
    }
}

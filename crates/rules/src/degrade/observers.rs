//! Who is told when a breaker changes its state.
//!
//! Each change is told once to each observer, in the order they were added, by
//! the thread whose call made it: after it is in force, and with no lock held.
//! So an observer may look at the breaker, and even force it, which is told in
//! turn. Two changes of one breaker that follow at once are told by two threads,
//! and may come in the other order; [`BreakerTransition::generation`] says which
//! was first.
//!
//! Once, because a change is an exchange of the breaker's phase, and whoever did
//! it tells it (see `circuit`); the list is made before there are calls and
//! never changed. Models of two and three threads that change a circuit, and of
//! what is told, are in `tests/loom_breaker.rs`.
//!
//! An observer runs inside somebody's call: it should be quick, and hand on
//! what takes time. If it panics the panic ends here, and is counted.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use flowgate_core::sync::{AtomicU64, Ordering};
use flowgate_core::{RuleId, Timestamp};

use super::circuit::{Cause, Change, CircuitState};

/// A breaker has gone from one state to another.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct BreakerTransition {
    /// The resource that it guards.
    pub resource: Arc<str>,
    /// The id of its rule.
    pub rule: RuleId,
    /// Number of the stay in the new state: grows by one with each change of
    /// this breaker.
    pub generation: u64,
    /// The state it was in.
    pub from: CircuitState,
    /// The state it is in; the same as before for what was done by hand, if it
    /// was in that state already.
    pub to: CircuitState,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub cause: Cause,
}

type Observer = dyn Fn(&BreakerTransition) + Send + Sync;

/// All that want to be told. Clones share; two are equal if they are the same.
#[derive(Clone, Default)]
pub struct Observers {
    list: Vec<Arc<Observer>>,
    panics: Arc<AtomicU64>,
}

impl Observers {
    /// Adds one.
    pub fn add(&mut self, observer: impl Fn(&BreakerTransition) + Send + Sync + 'static) {
        self.list.push(Arc::new(observer));
    }

    /// Tells all of them of a change.
    pub fn tell(&self, resource: &str, rule: &RuleId, change: Change) {
        if self.list.is_empty() {
            return;
        }
        let Change {
            generation,
            from,
            to,
            at,
            cause,
        } = change;
        let transition = BreakerTransition {
            resource: resource.into(),
            rule: rule.clone(),
            generation,
            from,
            to,
            at,
            cause,
        };
        for observer in &self.list {
            let told = catch_unwind(AssertUnwindSafe(|| observer(&transition)));
            if told.is_err() {
                // Relaxed: a figure that nothing else is read after.
                self.panics.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// How many times one has panicked.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}

impl PartialEq for Observers {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.panics, &other.panics) && self.list.len() == other.list.len()
    }
}

impl Eq for Observers {}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers")
            .field("len", &self.list.len())
            .field("panics", &self.panics())
            .finish()
    }
}

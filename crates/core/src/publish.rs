//! How something new comes into force while calls run.
//!
//! A [`Published`] value is replaced by one pointer store, followed by a store
//! of its generation number. A [`Derived`] value is what a reader makes out of
//! it for itself (the chain of one resource, made out of the plan): it carries
//! the generation it was made from, and is made anew when that is no longer the
//! newest. Hence:
//!
//! * a reader uses one derived value for the whole of its call, so it sees one
//!   generation, never a mixture;
//! * after [`Published::publish`] has returned, every reader that starts anew
//!   sees that generation or a later one;
//! * a derived value never goes back: an old one that is finished late does not
//!   replace a newer one.
//!
//! The pointer cell itself is `arc-swap`; the models prove the protocol of
//! generations on top of it.

use std::sync::Arc;

use crate::sync::{AtomicU64, Cell, Ordering};

/// A value in force, with its generation.
#[derive(Debug)]
pub struct Published<T> {
    generation: AtomicU64,
    value: Cell<(u64, Arc<T>)>,
}

impl<T> Published<T> {
    /// `value` in force as generation 1.
    pub fn new(value: T) -> Self {
        Published {
            generation: AtomicU64::new(1),
            value: Cell::new((1, Arc::new(value))),
        }
    }

    /// The generation in force, or the one before it while a new value is just
    /// being put in place.
    #[inline]
    pub fn generation(&self) -> u64 {
        // Acquire: who sees the number finds the value of it, or a newer one.
        self.generation.load(Ordering::Acquire)
    }

    /// The value in force and its generation.
    pub fn load(&self) -> (u64, Arc<T>) {
        let current = self.value.load_full();
        (current.0, Arc::clone(&current.1))
    }

    /// Puts `value` in force and returns its generation. Callers must take
    /// turns (an engine holds its lock for loading).
    pub fn publish(&self, value: T) -> u64 {
        let next = self.generation.load(Ordering::Acquire) + 1;
        self.value.store((next, Arc::new(value)));
        self.generation.store(next, Ordering::Release);
        next
    }
}

/// What any number of derived values stand in with until their first use.
#[derive(Debug)]
pub struct StandIn<T>(Arc<(u64, T)>);

impl<T> StandIn<T> {
    /// `initial` is of generation 0, which no published value has.
    pub fn new(initial: T) -> Self {
        StandIn(Arc::new((0, initial)))
    }
}

/// A value made from a [`Published`] one, renewed when that has moved on.
#[derive(Debug)]
pub struct Derived<T> {
    value: Cell<(u64, T)>,
}

impl<T> Derived<T> {
    /// `initial` stands in until the first use; it is of generation 0, which
    /// no published value has.
    pub fn new(initial: T) -> Self {
        Derived::with_stand_in(&StandIn::new(initial))
    }

    /// The same with a value that others stand in with too: a pointer is all
    /// that an unused one takes.
    pub fn with_stand_in(stand_in: &StandIn<T>) -> Self {
        Derived {
            value: Cell::of(Arc::clone(&stand_in.0)),
        }
    }

    /// Lends the value for the generation in force to `use_it`, making it with
    /// `make` first if the one at hand is older. No reference count is touched
    /// unless it has to be made.
    #[inline]
    pub fn with<P, R>(
        &self,
        source: &Published<P>,
        make: impl FnOnce(&P) -> T,
        use_it: impl FnOnce(&T) -> R,
    ) -> R {
        let wanted = source.generation();
        let current = self.value.load();
        if current.0 >= wanted {
            return use_it(&current.1);
        }
        drop(current);
        let made = self.renew(source, make);
        use_it(&made.1)
    }

    #[cold]
    fn renew<P>(&self, source: &Published<P>, make: impl FnOnce(&P) -> T) -> Arc<(u64, T)> {
        let (generation, value) = source.load();
        let made = Arc::new((generation, make(&value)));
        self.value.store_if(made, |old, new| old.0 < new.0)
    }
}

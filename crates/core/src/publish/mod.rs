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
//! A thread may keep derived values [at hand](at_hand), by the number that each
//! has; then it looks at the generation and at memory of its own, and nowhere
//! else.
//!
//! The pointer cell itself is `arc-swap`; the models prove the protocol of
//! generations on top of it.

pub mod at_hand;

use std::ops::Deref;
use std::sync::Arc;

use crate::sync::cell::lent;
use crate::sync::{AtomicU64, Cell, Ordering};

pub use crate::sync::cell::Lent;
pub use at_hand::AtHand;

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

/// A value made from a [`Published`] one, and from which generation.
#[derive(Debug)]
pub struct Dated<T> {
    generation: u64,
    value: T,
}

impl<T> Dated<T> {
    /// The generation that it was made from.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl<T> Deref for Dated<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

/// A value made from a [`Published`] one, renewed when that has moved on.
#[derive(Debug)]
pub struct Derived<T> {
    number: u64,
    value: Cell<Dated<T>>,
}

impl<T> Derived<T> {
    /// `initial` stands in until the first use; it is of generation 0, which
    /// no published value has.
    pub fn new(initial: T) -> Self {
        Derived {
            number: next_number(),
            value: Cell::new(Dated {
                generation: 0,
                value: initial,
            }),
        }
    }

    /// Its number, which nothing else that is derived has or will have in this
    /// process. Never 0.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The value for the generation in force, made with `make` first if the one
    /// at hand is older. No reference count is touched unless it has to be made.
    #[inline]
    pub fn current<P>(&self, source: &Published<P>, make: impl FnOnce(&P) -> T) -> Lent<Dated<T>> {
        let wanted = source.generation();
        let current = self.value.load();
        if current.generation >= wanted {
            return current;
        }
        drop(current);
        self.renew(source, make)
    }

    #[cold]
    fn renew<P>(&self, source: &Published<P>, make: impl FnOnce(&P) -> T) -> Lent<Dated<T>> {
        let (generation, value) = source.load();
        let made = Arc::new(Dated {
            generation,
            value: make(&value),
        });
        let newer = |old: &Dated<T>, new: &Dated<T>| old.generation < new.generation;
        lent(self.value.store_if(made, newer))
    }
}

/// Numbers are the process's, so that a thread may ask a table of its own.
fn next_number() -> u64 {
    // Of `std` also in models: it orders nothing, and no decision looks at it.
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

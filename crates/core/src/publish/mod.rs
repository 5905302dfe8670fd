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
//! **A derived value that would be made just so again stays.** It is then dated
//! anew, in place: its generation is raised to that under which it was found
//! right. What is in place may be dated anew while another takes its place; the
//! later one then has a lower number than the value before it, and is looked at
//! once more by whoever comes next. Nobody uses a value of a generation before
//! the one that it saw in force.
//!
//! **What was published before is dropped by who publishes.** A reader may still
//! hold it, to derive something, while the next is published, and would then be
//! the last to hold it. So `publish` keeps what is replaced until nobody else
//! holds it, and looks whenever it is called.
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
use crate::sync::{AtomicU64, Cell, Mutex, Ordering, unpoisoned};

pub use crate::sync::cell::Lent;
pub use at_hand::AtHand;

/// A value in force, with its generation.
#[derive(Debug)]
pub struct Published<T> {
    generation: AtomicU64,
    value: Cell<(u64, Arc<T>)>,
    /// Values of before that readers may still hold.
    replaced: Mutex<Vec<Arc<T>>>,
}

impl<T> Published<T> {
    /// `value` in force as generation 1.
    pub fn new(value: T) -> Self {
        Published {
            generation: AtomicU64::new(1),
            value: Cell::new((1, Arc::new(value))),
            replaced: Mutex::new(Vec::new()),
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
        let (_, old) = self.load();
        self.value.store((next, Arc::new(value)));
        self.generation.store(next, Ordering::Release);
        let mut replaced = unpoisoned(self.replaced.lock());
        replaced.push(old);
        // Nobody finds what was replaced any more: who is alone with it stays so.
        replaced.retain(|value| Arc::strong_count(value) > 1);
        next
    }
}

/// A value made from a [`Published`] one, and the latest generation under which
/// it was made or found right.
#[derive(Debug)]
pub struct Dated<T> {
    generation: AtomicU64,
    value: T,
}

impl<T> Dated<T> {
    fn new(generation: u64, value: T) -> Self {
        Dated {
            generation: AtomicU64::new(generation),
            value,
        }
    }

    /// The latest generation under which it was made or found right.
    #[inline]
    pub fn generation(&self) -> u64 {
        // Relaxed, as where it is raised: the value is as it always was.
        self.generation.load(Ordering::Relaxed)
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

/// What any number of derived values stand in with until their first use.
#[derive(Debug)]
pub struct StandIn<T>(Arc<Dated<T>>);

impl<T> StandIn<T> {
    /// `initial` is of generation 0, which no published value has.
    pub fn new(initial: T) -> Self {
        StandIn(Arc::new(Dated::new(0, initial)))
    }
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
            number: next_number(),
            value: Cell::of(Arc::clone(&stand_in.0)),
        }
    }

    /// Its number, which nothing else that is derived has or will have in this
    /// process. Never 0.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The value for the generation in force. If the one at hand is older,
    /// `is_right` says of one that was made whether it would be made just so from
    /// what is in force now; if not, `make` makes it anew. No reference count is
    /// touched unless the generation has changed.
    #[inline]
    pub fn current<P>(
        &self,
        source: &Published<P>,
        is_right: impl FnOnce(&P, &T) -> bool,
        make: impl FnOnce(&P) -> T,
    ) -> Lent<Dated<T>> {
        let wanted = source.generation();
        let current = self.value.load();
        if current.generation() >= wanted {
            return current;
        }
        drop(current);
        self.renew(source, is_right, make)
    }

    #[cold]
    fn renew<P>(
        &self,
        source: &Published<P>,
        is_right: impl FnOnce(&P, &T) -> bool,
        make: impl FnOnce(&P) -> T,
    ) -> Lent<Dated<T>> {
        let (generation, value) = source.load();
        let old = self.value.load_full();
        let made_of = old.generation();
        if made_of >= generation {
            return lent(old);
        }
        if made_of > 0 && is_right(&value, &old.value) {
            old.generation.fetch_max(generation, Ordering::Relaxed);
            return lent(old);
        }
        let made = Arc::new(Dated::new(generation, make(&value)));
        let is_newer = |old: &Dated<T>, new: &Dated<T>| old.generation() < new.generation();
        lent(self.value.store_if(made, is_newer))
    }
}

/// Numbers are the process's, so that a thread may ask a table of its own.
fn next_number() -> u64 {
    // Of `std` also in models: it orders nothing, and no decision looks at it.
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

//! Something that is found by weak references, and thrown away when nobody has
//! it and nobody would miss it.
//!
//! One strong reference keeps it: [`Kept`]. Everybody else has a [`Weak`] one, from
//! a table of names or from a cache of a thread's own, and takes a strong one for
//! as long as a call needs it.
//!
//! **Nobody works on what is thrown away.** To take a strong reference is to raise
//! a count that is not zero; to throw away is to take the count from one to zero.
//! Both are one atomic step on one word. So either the caller is first, and the
//! sweeper finds that the thing is held; or the sweeper is, and the caller finds
//! nothing, and has to look again where things are made.
//!
//! **Nobody is forgotten who has just been there.** A caller may come and go
//! between the sweeper's look and that step. So the sweeper looks *twice*: before,
//! as most things are to stay, and after, when the thing is its own. What a caller
//! did is seen then: it lets its reference go with `Release`, and the step to zero
//! is followed by an `Acquire`. If the second look says no, the thing goes back in
//! a new place, and all weak references are to be made anew.
//!
//! Who makes and who sweeps take turns at one lock per name, so a caller who has
//! found nothing and waits for its turn finds what was put back, or that there is
//! nothing.
//!
//! `tests/loom.rs` has a model: callers that find, make and count, against a
//! sweeper that throws away and puts back. Loom cannot see into `Arc`: there it is
//! a count with the orderings of the standard library's.

use crate::sync::{Arc, Weak};

/// The one reference that keeps something in place.
#[derive(Debug)]
pub struct Kept<T>(Arc<T>);

/// What became of something that was to be taken away.
#[derive(Debug)]
pub enum Taken<T> {
    /// It is gone, and nobody finds it any more.
    Gone(T),
    /// It stays.
    Stays(Kept<T>),
    /// It stays in a new place: those who find things have to be told.
    Moved(Kept<T>),
}

impl<T> Kept<T> {
    /// Keeps `value`.
    pub fn new(value: T) -> Self {
        Kept(Arc::new(value))
    }

    /// A reference for somebody who works on it. Where things are swept that is
    /// done in turn with the sweeper.
    pub fn hold(&self) -> Arc<T> {
        Arc::clone(&self.0)
    }

    /// What others find it by.
    pub fn found_by(&self) -> Weak<T> {
        Arc::downgrade(&self.0)
    }

    /// Whether somebody has it.
    #[inline]
    pub fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// To look at.
    pub fn get(&self) -> &T {
        &self.0
    }

    /// Takes it away if nobody has it and `idle` says that nobody would miss it.
    /// That is asked before, and once more when it is the caller's alone.
    pub fn take_if(self, mut idle: impl FnMut(&T) -> bool) -> Taken<T> {
        if self.is_held() || !idle(&self.0) {
            return Taken::Stays(self);
        }
        match Arc::try_unwrap(self.0) {
            Err(held) => Taken::Stays(Kept(held)),
            Ok(value) if idle(&value) => Taken::Gone(value),
            Ok(value) => Taken::Moved(Kept::new(value)),
        }
    }
}

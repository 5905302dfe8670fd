//! A place for a shared value that is replaced as a whole.
//!
//! It is `arc-swap` in real builds. A model checker cannot see into that crate,
//! so under `--cfg loom` and `--cfg shuttle` the cell is a mutex around an `Arc`:
//! what is proved is proved of a cell that loads, stores and exchanges whole
//! pointers, which is what `arc-swap` promises.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use real::lent;
#[cfg(not(any(loom, shuttle)))]
pub use real::{Cell, Lent};

#[cfg(any(loom, shuttle))]
pub(crate) use modelled::lent;
#[cfg(any(loom, shuttle))]
pub use modelled::{Cell, Lent};

#[cfg(not(any(loom, shuttle)))]
mod real {
    use arc_swap::{ArcSwap, Guard};
    use std::sync::Arc;

    /// A shared value that is replaced as a whole; loading takes no lock.
    #[derive(Debug)]
    pub struct Cell<T>(ArcSwap<T>);

    /// A value that was in place; it stays as long as this does.
    pub type Lent<T> = Guard<Arc<T>>;

    /// The same of a value that is nowhere in place.
    pub(crate) fn lent<T>(value: Arc<T>) -> Lent<T> {
        Guard::from_inner(value)
    }

    impl<T> Cell<T> {
        /// A cell that holds `value`.
        pub fn new(value: T) -> Self {
            Cell(ArcSwap::from_pointee(value))
        }

        /// A cell that holds what others may hold too.
        pub fn of(value: Arc<T>) -> Self {
            Cell(ArcSwap::new(value))
        }

        /// The value in place; no reference count is touched.
        #[inline]
        pub fn load(&self) -> Lent<T> {
            self.0.load()
        }

        /// The value in place, for keeps.
        pub fn load_full(&self) -> Arc<T> {
            self.0.load_full()
        }

        /// Puts `value` in place.
        pub fn store(&self, value: T) {
            self.0.store(Arc::new(value));
        }

        /// Puts `new` in the place of `old`; false if something else is there.
        pub fn replace(&self, old: &Arc<T>, new: Arc<T>) -> bool {
            Arc::ptr_eq(&*self.0.compare_and_swap(old, new), old)
        }

        /// Stores `value` if `newer(old, value)`; returns what is then in place.
        pub fn store_if(&self, value: Arc<T>, newer: impl Fn(&T, &T) -> bool) -> Arc<T> {
            let kept = |old: &Arc<T>| {
                if newer(old, &value) {
                    Arc::clone(&value)
                } else {
                    Arc::clone(old)
                }
            };
            self.0.rcu(kept);
            self.0.load_full()
        }
    }
}

#[cfg(any(loom, shuttle))]
#[allow(missing_docs, reason = "the words of the real one")]
mod modelled {
    use std::sync::Arc;

    use crate::sync::{Mutex, MutexGuard};

    #[derive(Debug)]
    pub struct Cell<T>(Mutex<Arc<T>>);

    #[derive(Debug)]
    pub struct Lent<T>(Arc<T>);

    pub(crate) fn lent<T>(value: Arc<T>) -> Lent<T> {
        Lent(value)
    }

    impl<T> std::ops::Deref for Lent<T> {
        type Target = Arc<T>;

        fn deref(&self) -> &Arc<T> {
            &self.0
        }
    }

    impl<T> Cell<T> {
        pub fn new(value: T) -> Self {
            Cell(Mutex::new(Arc::new(value)))
        }

        pub fn of(value: Arc<T>) -> Self {
            Cell(Mutex::new(value))
        }

        pub fn load(&self) -> Lent<T> {
            Lent(self.load_full())
        }

        pub fn load_full(&self) -> Arc<T> {
            Arc::clone(&self.place())
        }

        pub fn store(&self, value: T) {
            *self.place() = Arc::new(value);
        }

        pub fn replace(&self, old: &Arc<T>, new: Arc<T>) -> bool {
            let mut place = self.place();
            let same = Arc::ptr_eq(&place, old);
            if same {
                *place = new;
            }
            same
        }

        pub fn store_if(&self, value: Arc<T>, newer: impl Fn(&T, &T) -> bool) -> Arc<T> {
            let mut place = self.place();
            if newer(&place, &value) {
                *place = value;
            }
            Arc::clone(&place)
        }

        fn place(&self) -> MutexGuard<'_, Arc<T>> {
            self.0.lock().expect("nobody panics while holding this")
        }
    }
}

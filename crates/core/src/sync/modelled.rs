//! Loom's atomic, made to explore what it would leave out.
//!
//! Loom 0.7 remembers only the last access to an atomic when it looks for
//! threads to let go first. A thread that loads before it swaps (all of ours
//! do) hides the loads of others behind its own, and whole orders are never
//! tried: <https://github.com/tokio-rs/loom/issues/166>,
//! <https://github.com/tokio-rs/loom/issues/392>. So each load is announced by
//! a read-modify-write of a second atomic, of which loom tries all orders. It
//! is relaxed and nobody uses its value: it adds no ordering to the code under
//! test, and loads may still give old values.
#![allow(missing_docs, reason = "the words of the standard library")]

use loom::sync::atomic::AtomicU64 as Atomic;
use loom::sync::atomic::Ordering::{self, Relaxed};

/// An atomic word.
#[derive(Debug, Default)]
pub struct AtomicU64 {
    value: Atomic,
    announced: Atomic,
}

impl AtomicU64 {
    pub fn new(value: u64) -> Self {
        AtomicU64 {
            value: Atomic::new(value),
            announced: Atomic::new(0),
        }
    }

    pub fn load(&self, order: Ordering) -> u64 {
        self.announced.fetch_add(1, Relaxed);
        self.value.load(order)
    }

    pub fn store(&self, value: u64, order: Ordering) {
        self.value.store(value, order);
    }

    pub fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.value.fetch_add(value, order)
    }

    pub fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.value.fetch_sub(value, order)
    }

    pub fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        self.value.fetch_or(value, order)
    }

    pub fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
        self.value.fetch_and(value, order)
    }

    pub fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        self.value.fetch_max(value, order)
    }

    pub fn compare_exchange(
        &self,
        from: u64,
        to: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.value.compare_exchange(from, to, success, failure)
    }

    pub fn compare_exchange_weak(
        &self,
        from: u64,
        to: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.value.compare_exchange_weak(from, to, success, failure)
    }

    pub fn fetch_update(
        &self,
        success: Ordering,
        failure: Ordering,
        mut f: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        let mut value = self.load(failure);
        while let Some(next) = f(value) {
            match self.compare_exchange_weak(value, next, success, failure) {
                Ok(before) => return Ok(before),
                Err(found) => value = found,
            }
        }
        Err(value)
    }
}

/// Two words that are one. Loom has none so wide: a lock stands for it, so
/// models prove what is built on a wide word that is read and exchanged as
/// a whole, which is what `portable-atomic` promises. Every step is seen in
/// one order by all, as a compare-and-swap of it on real hardware is.
#[derive(Debug)]
pub struct AtomicU128(loom::sync::Mutex<u128>);

impl AtomicU128 {
    pub fn new(value: u128) -> Self {
        AtomicU128(loom::sync::Mutex::new(value))
    }

    pub fn load(&self, _order: Ordering) -> u128 {
        *self.word()
    }

    pub fn store(&self, value: u128, _order: Ordering) {
        *self.word() = value;
    }

    pub fn compare_exchange(
        &self,
        from: u128,
        to: u128,
        _success: Ordering,
        _failure: Ordering,
    ) -> Result<u128, u128> {
        let mut word = self.word();
        let found = *word;
        if found != from {
            return Err(found);
        }
        *word = to;
        Ok(found)
    }

    fn word(&self) -> loom::sync::MutexGuard<'_, u128> {
        self.0.lock().expect("no model panics while it holds this")
    }
}

/// A value that is made once, at the first use, as `std` promises: makers take
/// turns, and whoever finds the value sees what making it did.
#[derive(Debug)]
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_made: AtomicU64,
    making: loom::sync::Mutex<()>,
}

impl<T> OnceLock<T> {
    pub fn new() -> Self {
        OnceLock {
            value: std::sync::OnceLock::new(),
            is_made: AtomicU64::new(0),
            making: loom::sync::Mutex::new(()),
        }
    }

    pub fn get(&self) -> Option<&T> {
        let is_made = self.is_made.load(Ordering::Acquire) != 0;
        is_made.then(|| self.value.get().expect("it was made"))
    }

    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let _turn = self.making.lock().expect("nobody panics while making");
        if let Some(value) = self.get() {
            return value;
        }
        let made = make();
        let value = self.value.get_or_init(|| made);
        self.is_made.store(1, Ordering::Release);
        value
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock::new()
    }
}

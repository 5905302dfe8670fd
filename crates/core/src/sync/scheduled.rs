//! What shuttle has no twin of.
#![allow(missing_docs, reason = "the words of the standard library")]

use std::sync::OnceLock as Once;

use super::{Mutex, unpoisoned};

/// A value that is made once, at the first use.
///
/// All tasks of shuttle run on one thread of the system, where making a value of
/// `std`'s while another task is just making it would wait for ever. So makers
/// take turns at a lock that shuttle knows, and the value is `std`'s.
pub struct OnceLock<T> {
    value: Once<T>,
    making: Mutex<()>,
}

impl<T> OnceLock<T> {
    pub const fn new() -> Self {
        OnceLock {
            value: Once::new(),
            making: Mutex::new(()),
        }
    }

    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    pub fn set(&self, value: T) -> Result<(), T> {
        let _turn = unpoisoned(self.making.lock());
        self.value.set(value)
    }

    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let turn = unpoisoned(self.making.lock());
        if let Some(value) = self.get() {
            return value;
        }
        let made = make();
        let value = self.value.get_or_init(|| made);
        drop(turn);
        value
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock::new()
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value.fmt(f)
    }
}

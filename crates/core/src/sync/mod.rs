//! One door to atomics and locks: `std` in real builds; `loom` under `--cfg loom`
//! and `shuttle` under `--cfg shuttle`, so that models and random schedules run
//! the very code that ships.
//!
//! Whatever a call touches on its way goes through here. What stays outside is no
//! part of a decision: the thread that reads the machine, and the numbers that
//! threads are given once.
//!
//! Loom tries every order of a few steps, with all that weak memory may do;
//! `tests/loom.rs` of this crate and the models of the rules are written for it.
//! Shuttle takes the whole engine and tries schedules at random, with every
//! atomic as if it were sequentially consistent: `flowgate/tests/shuttle.rs`.
//!
//! Open to Flowgate's other crates, whose lock-free parts have models too; no
//! part of what users are promised.

pub(crate) mod cell;
#[cfg(loom)]
mod modelled;
#[cfg(shuttle)]
mod scheduled;

#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub use loom::sync::{Mutex, MutexGuard};
#[cfg(loom)]
pub use modelled::{AtomicU64, AtomicU128, OnceLock};

#[cfg(shuttle)]
pub use scheduled::OnceLock;
#[cfg(shuttle)]
pub use shuttle::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicU128, AtomicUsize, Ordering, fence,
};
#[cfg(shuttle)]
pub use shuttle::sync::{Mutex, MutexGuard};

#[cfg(not(any(loom, shuttle)))]
pub use portable_atomic::AtomicU128;
#[cfg(not(any(loom, shuttle)))]
pub use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(not(any(loom, shuttle)))]
pub use std::sync::{Mutex, MutexGuard, OnceLock};

#[cfg(not(any(loom, shuttle)))]
pub use std::thread_local;

#[cfg(loom)]
pub use modelled::{Arc, Weak};
#[cfg(shuttle)]
pub use shuttle::thread_local;
#[cfg(not(loom))]
pub use std::sync::{Arc, Weak};

pub use cell::Cell;

/// The guard of a lock under which nothing is ever half done.
pub fn unpoisoned<G>(guard: std::sync::LockResult<G>) -> G {
    guard.unwrap_or_else(std::sync::PoisonError::into_inner)
}

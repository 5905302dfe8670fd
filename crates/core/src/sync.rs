//! One door to atomics: `std` in real builds, `loom` under `--cfg loom`, so
//! that the models in `tests/loom.rs` run the very code that ships.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

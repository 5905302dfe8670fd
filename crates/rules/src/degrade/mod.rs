//! Circuit breakers: when a resource is slow or failing, calls are refused
//! for a while instead of made worse.

// The models of the circuit are compiled without the rules.
pub mod circuit;
#[cfg(not(loom))]
mod read;
#[cfg(not(loom))]
mod rule;
#[cfg(not(loom))]
mod state;

#[cfg(not(loom))]
pub use rule::{BreakerStrategy, DegradeRule};
#[cfg(not(loom))]
pub use state::BreakerState;

/// The kind `degrade`, Sentinel's word for circuit breakers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Degrade;

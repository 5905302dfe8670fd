//! Circuit breakers: when a resource is slow or failing, calls are refused
//! for a while instead of made worse.

mod decide;
mod read;
mod rule;
mod state;

pub use rule::{BreakerStrategy, DegradeRule};
pub use state::{Admitted, BreakerState, CircuitState};

/// The kind `degrade`, Sentinel's word for circuit breakers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Degrade;

//! Circuit breakers: when a resource is slow or failing, calls are refused
//! for a while instead of made worse.
//!
//! ```text
//! rule       what a breaker says
//! strategy   what it looks at
//! read       how that is written in JSON
//! golang     and how sentinel-golang writes it
//! normal     what it means, unused fields put aside
//! check      what makes it valid
//! circuit    the states and the ways between them, without rules and calls
//! state      what the rule means to its circuit, and which results are bad
//! decide     how it decides on a call, and hears how that went
//! observers  who is told when a breaker changes its state
//! ```

mod check;
pub mod circuit;
mod decide;
mod golang;
mod normal;
mod observers;
mod read;
mod rule;
mod state;
mod strategy;

pub use observers::{BreakerTransition, Observers};
pub use rule::DegradeRule;
pub use state::BreakerState;
pub use strategy::BreakerStrategy;

/// The kind `degrade`, Sentinel's word for circuit breakers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Degrade;

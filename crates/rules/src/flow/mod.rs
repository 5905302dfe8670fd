//! Flow rules: how many calls of a resource may pass per second, or run at
//! once, and what happens to those beyond.

pub mod pacing;
pub mod rate;
mod read;
mod rule;
mod state;
pub mod warm_up;

pub(crate) use rule::count_bits;
pub use rule::{ControlBehavior, FlowRule, Grade, LimitApp, Strategy};
pub use state::{FlowState, Queue};

/// The kind `flow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow;

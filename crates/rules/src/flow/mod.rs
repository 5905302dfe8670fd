//! Flow rules: how many calls of a resource may pass per second, or per
//! interval of the rule's own, or run at once, and what happens to those
//! beyond.

mod accounting;
mod golang;
mod interval;
mod memory;
mod normal;
pub mod pacing;
pub mod rate;
pub(crate) mod read;
mod rule;
mod state;
pub mod warm_up;

pub use memory::MemoryLimits;
pub(crate) use rule::count_bits;
pub use rule::{ControlBehavior, FlowRule, Grade, LimitApp, Strategy};
pub use state::{FlowState, Queue};

/// The kind `flow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow;

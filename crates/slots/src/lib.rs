//! The processor slot chain: what every guarded call goes through.
//!
//! A [`Slot`] is one step: statistics, flow rules, breakers, or something of
//! the service's own. A [`SlotChain`] is the immutable, ordered list of the
//! slots of one resource, made from the rules in force ([`ChainPlan`]).
//!
//! ```text
//! enter:  check, in order, until the first that refuses
//!           refused:  undo, in reverse;  every slot hears `blocked`
//!           admitted: every slot hears `passed`
//! leave:  every slot hears `exited`, in reverse
//! ```
//!
//! No slot reads a clock, sleeps, or holds a lock across a call.

mod build;
mod chain;
mod flow;
mod guarded;
mod kinds;
mod rule;
mod slot;
mod statistic;

pub use build::{CONTEXT_DEFAULT, ChainPlan, CustomSlot, NamedCallers, Position, Registry};
pub use chain::{Halt, Line, SlotChain};
pub use flow::FlowSlot;
pub use guarded::{FaultCounter, SlotError};
pub use kinds::SlotKinds;
pub use rule::RuleSlot;
pub use slot::{BuiltIn, Slot};
pub use statistic::StatisticSlot;

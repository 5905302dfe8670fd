//! System rules: all inbound calls of an engine together, and the machine.
//!
//! ```text
//! rule      what a system rule says
//! read      its JSON
//! decide    whether a call passes, in Sentinel's order of checks
//! state     the limits of one rule, and the budget that it takes from
//! inbound   the budget: passes per second and calls in flight of all inbound calls, exact
//! machine   load, processors, memory, as the sampler last saw them
//! ```

pub mod inbound;
pub mod machine;

pub use inbound::{Held, Inbound, NoRoom};
pub use machine::{InboundTotals, Limits, Machine, Sample};

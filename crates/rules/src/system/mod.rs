//! System rules: all inbound calls of an engine together, and the machine.
//!
//! ```text
//! rule      what a system rule says
//! read      its JSON
//! golang    and how sentinel-golang writes it
//! decide    whether a call passes, in Sentinel's order of checks
//! state     the limits of one rule, and what all of them ask for together
//! inbound   the budget: passes per second and calls in flight of all inbound calls, exact
//! older     calls that ran before there was a budget
//! machine   what an engine knows of the machine and of all inbound calls
//! figures   load, processors, memory, as the sampler last saw them
//! ```

mod decide;
mod figures;
mod golang;
pub mod inbound;
pub mod machine;
pub mod older;
mod read;
mod rule;
mod state;

pub use inbound::{Held, Inbound, NoRoom};
pub use machine::{InboundTotals, Limits, Machine, Sample};
pub use rule::{Bbr, SystemRule};
pub use state::{Demand, SystemState};

/// The kind `system`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct System;

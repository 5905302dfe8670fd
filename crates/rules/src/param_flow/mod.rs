//! Hot parameters: how much each *value* of an argument may use of a resource,
//! so that one user, tenant or article does not use up what is there for all.
//!
//! ```text
//! rule     what the rule says
//! value    values as people write them, and the 128 bits a table knows them by
//! limit    a limit in the units that are compared
//! bucket   tokens of one value       (calls per second, refused beyond)
//! level    the same, refilled continuously
//! cells    its line, or its places   (queued; calls at once)
//! table    the values remembered: bounded, read without a lock
//! state    find the value, take what the call needs, all or nothing
//! hot      which values are the hottest, and how many there are
//! decide   which value a call names, and what the decision means for the call
//! read     the rule's JSON
//! ```
//!
//! A call names its value by the position of an argument or by an attachment.
//! The value's cell decides with one compare-and-swap, so no number of threads
//! gets one call more than the rule says. Memory is bounded by the rule; who is
//! limited is never forgotten (see `table`).

mod accounting;
mod bucket;
mod cells;
mod decide;
mod golang;
mod hot;
mod idle;
mod level;
mod limit;
mod normal;
mod read;
mod rule;
mod state;
mod table;
mod value;

pub use hot::HotValue;
pub use rule::{Param, ParamFlowRule, ParamItem};
pub use state::{ParamState, Refusal, Share, Shares};
pub use value::ParamValue;

/// The kind `paramFlow`, Sentinel's word for hot parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParamFlow;

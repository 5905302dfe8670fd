//! Isolation: how much of a resource may run at once, so that one that hangs
//! does not take the rest of the service with it.
//!
//! A call takes as many permits as it weighs, for as long as it runs. Permits
//! are counted by the node of the resource, for every call and whether or not
//! there are rules: a rule that is loaded or changed sees the calls that already
//! run. A rule therefore remembers nothing.
//!
//! Several rules of one resource reserve once, with the least of their limits, so
//! no call holds permits that a later rule must refuse.
//!
//! Calls beyond the limit are refused, or wait up to `maxQueueingTimeMs`, first
//! come, first served. What a waiter may count on, and who overtakes whom, is
//! written at [`flowgate_core::node::permits`].

mod decide;
mod read;
mod rule;

pub use rule::IsolationRule;

/// The kind `isolation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isolation;

//! What Flowgate's rules say and how they decide: one folder per kind, and
//! what all kinds share.
//!
//! ```text
//! document   text → JSON with places → fields → checked rules; faults, report
//! field      one definition per field: reading, errors, descriptions
//! kind       RuleKind: what a kind has to say of itself
//! dialect    Sentinel's spelling and sentinel-golang's
//! head       what every rule says: id, resource or pattern, mode
//! decide     Decide: how the rules of a kind decide on a call, one by one
//! kinds      Kinds: the kinds there are, a service's own among them
//! table      RuleTable: the rules of one kind in force, and what lives on
//! hits       what a rule has done, in numbers
//! describe   the page on rules, from what the kinds say of themselves
//! schema     JSON Schema of documents
//! write      rules as text, in either dialect
//! set        RuleSet: one table per kind, loaded as a whole or not at all
//! authority  who may call
//! system     all inbound calls together, and the machine
//! flow       flow rules
//! degrade    circuit breakers
//! ```
//!
//! Rules come from JSON as Alibaba Sentinel writes it, or are built in code;
//! both are checked alike. A document with a fault is refused whole, all
//! faults listed by path and position, and changes nothing:
//!
//! ```
//! use flowgate_rules::{OnInvalid, RuleSet, Settings};
//!
//! let text = r#"{
//!   "flow": [{"resource": "orders", "count": 20, "controlBehavior": 2, "maxQueueingTimeMs": -5}]
//! }"#;
//! let error = RuleSet::default()
//!     .with_document(text, &Settings::default(), OnInvalid::Refuse)
//!     .unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "flow[0].maxQueueingTimeMs: -5 is negative; give milliseconds, 0 means do not wait \
//!      (line 2, column 91)"
//! );
//! ```

#![cfg_attr(loom, allow(dead_code, reason = "the callers are left out"))]

// Under `--cfg loom` only what the models drive is compiled.
#[cfg(not(loom))]
pub mod authority;
#[cfg(not(loom))]
mod decide;
pub mod degrade;
#[cfg(not(loom))]
mod describe;
#[cfg(not(loom))]
mod dialect;
#[cfg(not(loom))]
pub mod document;
#[cfg(not(loom))]
pub mod field;
#[cfg(not(loom))]
pub mod flow;
#[cfg(not(loom))]
mod head;
#[cfg(not(loom))]
mod hits;
#[cfg(not(loom))]
mod kind;
#[cfg(not(loom))]
mod kinds;
#[cfg(not(loom))]
mod schema;
#[cfg(not(loom))]
mod set;
#[cfg(not(loom))]
mod settings;
#[cfg(not(loom))]
pub mod system;
#[cfg(not(loom))]
mod table;
#[cfg(not(loom))]
mod write;

#[cfg(not(loom))]
pub use authority::{Authority, AuthorityRule, ListStrategy};
#[cfg(not(loom))]
pub use decide::{Decide, Decision, InForce};
pub use degrade::Degrade;
pub use degrade::circuit::{Cause, Change, CircuitFigures, CircuitState, Forced, Results};
#[cfg(not(loom))]
pub use degrade::{BreakerState, BreakerStrategy, BreakerTransition, DegradeRule, Observers};
#[cfg(not(loom))]
pub use dialect::{Dialect, Golang, GolangRule, GolangSpec};
#[cfg(not(loom))]
pub use document::{
    Duplicate, Fault, Fields, KindReport, LoadOptions, LoadReport, OnInvalid, Place, Remark,
    RuleError, Warning,
};
#[cfg(not(loom))]
pub use flow::{ControlBehavior, Flow, FlowRule, FlowState, Grade, LimitApp, Strategy};
#[cfg(not(loom))]
pub use head::{DEFAULT_RESOURCE, Head, Matching, RuleMode};
#[cfg(not(loom))]
pub use hits::{HitCounts, Hits};
#[cfg(not(loom))]
pub use kind::{KindSpec, RuleKind, Scope};
#[cfg(not(loom))]
pub use kinds::Kinds;
#[cfg(not(loom))]
pub use set::RuleSet;
#[cfg(not(loom))]
pub use settings::Settings;
#[cfg(not(loom))]
pub use system::{System, SystemRule};
#[cfg(not(loom))]
pub use table::{RuleEntry, RuleInfo, RuleTable};
#[cfg(not(loom))]
pub use write::Written;

//! What Flowgate's rules say and how they decide: one folder per kind, and
//! what all kinds share.
//!
//! ```text
//! document   text → JSON with places → fields → checked rules; faults, report
//! field      one definition per field: reading, errors, descriptions
//! accounting how the accounting of a rate is written
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
//! isolation  limits on what runs at once
//! degrade    circuit breakers
//! param_flow hot parameters
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

// Under `--cfg loom` nothing of this is compiled: the models take the files
// that they drive into their own crate.
#![cfg(not(loom))]

mod accounting;
pub mod authority;
mod decide;
pub mod degrade;
mod describe;
mod dialect;
pub mod document;
pub mod field;
pub mod flow;
mod head;
mod hits;
mod idle;
pub mod isolation;
mod kind;
mod kinds;
mod object;
pub mod param_flow;
mod schema;
mod set;
mod settings;
pub mod system;
mod table;
mod write;

pub use accounting::Accountings;
pub use authority::{Authority, AuthorityRule, ListStrategy};
pub use decide::{Decide, Decision, InForce};
pub use degrade::circuit::{Cause, Change, CircuitFigures, CircuitState, Forced, Results};
pub use degrade::{
    BreakerState, BreakerStrategy, BreakerTransition, Degrade, DegradeRule, Observers,
};
pub use dialect::{Dialect, Golang, GolangRule, GolangSpec};
pub use document::{
    Duplicate, Fault, Fields, KindReport, LoadOptions, LoadReport, OnInvalid, Place, Remark,
    RuleError, Warning,
};
pub use flow::{ControlBehavior, Flow, FlowRule, FlowState, Grade, LimitApp, Strategy};
pub use head::{DEFAULT_RESOURCE, Head, Matching, RuleMode};
pub use hits::{HitCounts, Hits};
pub use idle::{Idle, Whose};
pub use isolation::{Isolation, IsolationRule};
pub use kind::{KindSpec, RuleKind, Scope};
pub use kinds::Kinds;
pub use param_flow::{ParamFlow, ParamFlowRule, ParamState};
pub use set::{Acting, RuleSet};
pub use settings::Settings;
pub use system::{Bbr, System, SystemRule};
pub use table::{RuleEntry, RuleInfo, RuleTable};
pub use write::Written;

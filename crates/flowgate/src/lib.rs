#![doc = include_str!("guide.md")]

mod builder;
mod call_error;
mod engine;
mod entry;
mod global;
mod pending;
mod queued;
mod registry;
mod request;
mod resource;

pub use builder::{BuildError, EngineBuilder};
pub use call_error::CallError;
pub use engine::{Engine, EngineStats};
pub use entry::{Entry, OwnedEntry};
#[cfg(feature = "tokio")]
pub use global::acquire;
pub use global::{AlreadyInUse, CallSite, engine, entry, init, try_entry};
pub use pending::Pending;
pub use request::Request;
pub use resource::Resource;

pub use flowgate_core::{
    Arg, Block, BlockKind, Call, Clock, Departure, GeometryError, ManualClock, Measure,
    NodeSnapshot, Nodes, Outcome, Queue, RuleId, SlidingWindowLimiter, Ticket, TimeSource,
    Timestamp, Traffic, Verdict, call::Holds, leap_array::Full,
};
pub use flowgate_rules::{
    BreakerStrategy, CircuitState, ControlBehavior, Decide, Decision, Degrade, DegradeRule,
    Duplicate, Fault, Fields, Flow, FlowRule, Grade, Head, HitCounts, InForce, Isolation,
    IsolationRule, KindReport, KindSpec, Kinds, LimitApp, LoadReport, Matching, OnInvalid, Place,
    RuleEntry, RuleError, RuleInfo, RuleKind, RuleMode, RuleTable, Scope, Settings, Strategy,
    Warning,
    field::{Choice, FieldKind, FieldSpec, Mode, Spelling},
};
pub use flowgate_slots::{BuiltIn, CONTEXT_DEFAULT, Position, Slot, SlotError};

/// The examples of the README, as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct ReadmeExamples;

/// The examples of the page on guarantees, as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guarantees.md")]
pub struct GuaranteesExamples;

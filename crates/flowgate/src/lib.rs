#![doc = include_str!("guide.md")]

mod breaker;
mod builder;
mod by_name;
mod call_error;
mod callers;
mod closures;
mod engine;
mod enter;
mod entry;
mod global;
mod left;
mod pending;
mod protection;
mod queued;
mod registry;
mod request;
mod resource;
mod sampler;
mod sweep;
mod visit;

pub use breaker::Breaker;
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
pub use sampler::{HostSampler, Sample, SystemSampler};
pub use sweep::Swept;

pub use flowgate_core::{
    Accounting, Arg, Block, BlockKind, Call, Clock, Departure, GeometryError, ManualClock, Measure,
    NodeSnapshot, Nodes, Outcome, Queue, RuleId, SlidingWindowLimiter, Ticket, TimeSource,
    Timestamp, TokenBucketLimiter, Traffic, Verdict,
    call::Holds,
    leap_array::Full,
    token_bucket::{QuotaError, TooFewTokens},
};
pub use flowgate_rules::{
    Accountings, Authority, AuthorityRule, Bbr, BreakerStrategy, BreakerTransition, Cause,
    CircuitFigures, CircuitState, ControlBehavior, Decide, Decision, Degrade, DegradeRule, Dialect,
    Duplicate, Fault, Fields, Flow, FlowRule, Forced, Golang, GolangRule, GolangSpec, Grade, Head,
    HitCounts, Idle, InForce, Isolation, IsolationRule, KindReport, KindSpec, Kinds, LimitApp,
    ListStrategy, LoadOptions, LoadReport, Matching, OnInvalid, Place, Results, RuleEntry,
    RuleError, RuleInfo, RuleKind, RuleMode, RuleSet, RuleTable, Scope, Settings, Strategy, System,
    SystemRule, Warning, Whose, Written,
    field::{Choice, FieldKind, FieldSpec, Mode},
    flow::MemoryLimits,
    param_flow::{HotValue, Param, ParamFlow, ParamFlowRule, ParamItem, ParamState, ParamValue},
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

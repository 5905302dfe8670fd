//! The foundation of Flowgate: time, sliding windows, statistics, and the
//! words in which a call is described.
//!
//! Nothing in this crate reads a clock on its own account, sleeps, logs, or
//! holds global state: time comes in as an argument, a decision goes out as a
//! value. What is here:
//!
//! * [`time`]: [`Timestamp`] and [`Clock`] (system, cached, manual, custom);
//! * [`leap_array`]: the lock-free ring of windows that everything counts in,
//!   and the reservation of passes on it;
//! * [`metric`]: what is counted per window;
//! * [`node`]: the statistics of one resource, origin or context;
//! * [`limiter`]: [`SlidingWindowLimiter`], for those who want only that;
//! * [`token_bucket`]: a bucket that is refilled continuously, in exact time,
//!   and [`TokenBucketLimiter`];
//! * [`holes`]: places given back from the middle of a line;
//! * [`accounting`]: the spans of time that a limit holds for;
//! * [`call`] and [`block`]: [`Call`], [`Verdict`], [`Outcome`], [`Block`];
//! * [`Tallies`]: counters that many threads add to;
//! * [`seat`] and [`striped`]: words that one thread alone writes;
//! * [`kept`]: what is thrown away when nobody has it;
//! * [`publish`]: how a new plan comes into force while calls run.
//!
//! Most users want the crate `flowgate`, which puts all of this together.

// Under `--cfg loom` only what the models drive is compiled.
#![cfg_attr(loom, allow(dead_code, reason = "the callers are left out"))]

pub mod accounting;
#[cfg(not(loom))]
pub mod block;
#[cfg(not(loom))]
pub mod call;
pub mod holes;
pub mod kept;
pub mod leap_array;
pub mod limiter;
pub mod metric;
#[cfg(not(loom))]
pub mod node;
#[cfg(loom)]
#[path = "node/modelled.rs"]
pub mod node;
pub mod publish;
pub mod seat;
pub mod striped;
#[doc(hidden)]
pub mod sync;
#[cfg(not(loom))]
mod tally;
#[cfg(loom)]
pub mod tally;
#[cfg(not(loom))]
pub mod time;
#[cfg(loom)]
#[path = "time/timestamp.rs"]
pub mod time;
pub mod token_bucket;

pub use accounting::Accounting;
#[cfg(not(loom))]
pub use block::{Block, BlockKind, Measure, RuleId};
#[cfg(not(loom))]
pub use call::{
    Arg, Call, Departure, Digest, Hold, Holds, Nodes, Outcome, Place, Queue, Ticket, Traffic,
    Verdict,
};
pub use leap_array::{GeometryError, LeapArray};
pub use limiter::SlidingWindowLimiter;
pub use metric::{MetricBucket, MetricEvent};
#[cfg(not(loom))]
pub use node::{Interval, Node, NodeSettings, NodeSnapshot, View};
pub use tally::Tallies;
pub use time::Timestamp;
#[cfg(not(loom))]
pub use time::{Clock, ManualClock, TimeSource};
pub use token_bucket::TokenBucket;
#[cfg(not(loom))]
pub use token_bucket::TokenBucketLimiter;

//! The words for what a circuit is, and for what happens to it.

use std::fmt;

use flowgate_core::Timestamp;
use serde::Serialize;

use super::Results;

/// What callers see of a breaker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CircuitState {
    /// Calls pass and are counted.
    Closed,
    /// Calls are refused until the open time is over.
    Open,
    /// A few calls try whether it works again.
    HalfOpen,
}

/// What somebody has decided in a breaker's place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Forced {
    /// Every call is refused, with no time to try again.
    Open,
    /// Every call passes, and none is counted.
    Closed,
}

/// A breaker has gone from one state to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Number of the stay in the new state; grows by one with each change of a
    /// breaker.
    pub generation: u64,
    /// The state it was in.
    pub from: CircuitState,
    /// The state it is in; the same as before for what was done by hand, if it
    /// was in that state already.
    pub to: CircuitState,
    /// When; never earlier than the change before it.
    pub at: Timestamp,
    /// Why.
    pub cause: Cause,
}

/// Why a breaker went from one state to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// Closed to open: these results are more than the threshold.
    Exceeded(Results),
    /// Open to half-open: the open time is over, and a call probes.
    OpenTimeOver,
    /// Half-open to closed: enough probes have succeeded.
    ProbesSucceeded,
    /// Half-open to open: too many probes have failed.
    ProbesFailed,
    /// Half-open to open: all probes were refused by another rule, cancelled or
    /// ended in a result that counts neither way. The next call probes at once.
    ProbesUndecided,
    /// By hand: open or closed, whatever calls do.
    Forced(Forced),
    /// By hand: no longer forced; it starts anew.
    Released,
    /// By hand: closed, and all forgotten.
    Reset,
}

impl fmt::Display for CircuitState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CircuitState::Closed => "closed",
            CircuitState::Open => "open",
            CircuitState::HalfOpen => "half-open",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Exceeded(Results { total, bad }) => {
                write!(f, "{bad} of {total} results were bad")
            }
            Cause::OpenTimeOver => f.write_str("the open time is over"),
            Cause::ProbesSucceeded => f.write_str("enough probes succeeded"),
            Cause::ProbesFailed => f.write_str("too many probes failed"),
            Cause::ProbesUndecided => f.write_str("no probe brought a result"),
            Cause::Forced(Forced::Open) => f.write_str("forced open"),
            Cause::Forced(Forced::Closed) => f.write_str("forced closed"),
            Cause::Released => f.write_str("released"),
            Cause::Reset => f.write_str("reset"),
        }
    }
}

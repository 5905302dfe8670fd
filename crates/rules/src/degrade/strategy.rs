//! What a circuit breaker looks at.

use serde::{Serialize, Serializer};

use super::circuit::Forced;
use crate::field::{Choice, Mode};

/// What a circuit breaker looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BreakerStrategy {
    /// The ratio of slow calls.
    #[default]
    SlowRatio,
    /// The ratio of failed calls.
    ErrorRatio,
    /// The number of failed calls.
    ErrorCount,
    /// The number of calls that have failed in a row.
    ConsecutiveErrors,
}

impl BreakerStrategy {
    /// Whether it looks at a span of time or at the last calls. Errors in a row
    /// need neither, nor a least number of calls.
    pub(super) fn looks_back(self) -> bool {
        self != Self::ConsecutiveErrors
    }
}

impl Mode for BreakerStrategy {
    const ALL: &'static [Self] = &[
        Self::SlowRatio,
        Self::ErrorRatio,
        Self::ErrorCount,
        Self::ConsecutiveErrors,
    ];
    const CHOICES: &'static [Choice] = &[
        Choice::new("slowRatio", "the ratio of slow calls").or(&["slowRequestRatio", "rt"]),
        Choice::new("errorRatio", "the ratio of failed calls").or(&["exceptionRatio"]),
        Choice::new("errorCount", "the number of failed calls").or(&["exceptionCount"]),
        Choice::new(
            "consecutiveErrors",
            "the number of calls that have failed in a row",
        )
        .or(&["consecutiveFailures"])
        .by_name(),
    ];
}

impl Serialize for BreakerStrategy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // Sentinel has no number for it.
            BreakerStrategy::ConsecutiveErrors => serializer.serialize_str("consecutiveErrors"),
            _ => serializer.serialize_u32(*self as u32),
        }
    }
}

impl Mode for Forced {
    const ALL: &'static [Self] = &[Self::Open, Self::Closed];
    const CHOICES: &'static [Choice] = &[
        Choice::new("open", "refuses every call"),
        Choice::new("closed", "lets every call pass, and counts none"),
    ];
}

//! Memory-adaptive limits: less is allowed the more memory is in use.
//!
//! Up to the low water mark the threshold for low use holds, from the high one
//! on that for high use, and in between the limit falls in a straight line:
//!
//! ```text
//! allowed = low + (high − low) · (used − low mark) / (high mark − low mark)
//! ```
//!
//! This is sentinel-golang's `MemoryAdaptive` strategy. What is in use is asked
//! of the engine's [`Machine`](crate::system::Machine). As long as nothing is known the
//! threshold for low use, the larger one, holds: a machine that cannot be
//! measured is not taken for a full one.

use std::hash::{Hash, Hasher};

use serde::Serialize;

use super::rule::count_bits;
use super::{ControlBehavior, FlowRule, Grade};
use crate::document::Fields;

pub(super) const LOW_USAGE: &str = "lowMemUsageThreshold";
pub(super) const HIGH_USAGE: &str = "highMemUsageThreshold";
pub(super) const LOW_MARK: &str = "memLowWaterMarkBytes";
pub(super) const HIGH_MARK: &str = "memHighWaterMarkBytes";

/// The limits of a rule that follows the memory in use: instead of `count`.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MemoryLimits {
    /// The limit while little memory is in use.
    #[serde(rename = "lowMemUsageThreshold")]
    pub low_usage: f64,
    /// The limit while much is in use: the lower one.
    #[serde(rename = "highMemUsageThreshold")]
    pub high_usage: f64,
    /// Up to how many bytes in use it is little.
    #[serde(rename = "memLowWaterMarkBytes")]
    pub low_mark_bytes: u64,
    /// From how many bytes in use on it is much.
    #[serde(rename = "memHighWaterMarkBytes")]
    pub high_mark_bytes: u64,
}

impl MemoryLimits {
    /// The limit while `used_bytes` are in use, if that is known.
    #[inline]
    pub fn allowed(&self, used_bytes: Option<u64>) -> f64 {
        let Some(used) = used_bytes.filter(|used| *used > self.low_mark_bytes) else {
            return self.low_usage;
        };
        if used >= self.high_mark_bytes {
            return self.high_usage;
        }
        let span = self.high_mark_bytes.saturating_sub(self.low_mark_bytes);
        let above = (used - self.low_mark_bytes) as f64;
        self.low_usage + (self.high_usage - self.low_usage) * above / span as f64
    }

    fn content(&self) -> impl Eq + Hash {
        let Self {
            low_usage,
            high_usage,
            low_mark_bytes,
            high_mark_bytes,
        } = *self;
        let thresholds = (count_bits(low_usage), count_bits(high_usage));
        (thresholds, low_mark_bytes, high_mark_bytes)
    }
}

impl PartialEq for MemoryLimits {
    fn eq(&self, other: &Self) -> bool {
        self.content() == other.content()
    }
}

impl Eq for MemoryLimits {}

impl Hash for MemoryLimits {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.content().hash(state);
    }
}

/// The limits, if any of the four fields says more than 0: sentinel-golang
/// writes 0 for those that are not in use.
pub(super) fn parse(grade: Grade, fields: &mut Fields<'_>) -> Option<MemoryLimits> {
    let used = grade == Grade::Qps;
    let low_usage = fields.number(LOW_USAGE);
    let high_usage = fields.number(HIGH_USAGE);
    let low_mark = fields.u64(LOW_MARK, used);
    let high_mark = fields.u64(HIGH_MARK, used);
    let thresholds = [low_usage, high_usage].into_iter().flatten();
    let marks = [low_mark, high_mark].into_iter().flatten();
    let given = thresholds.into_iter().any(|threshold| threshold != 0.0)
        || marks.into_iter().any(|mark| mark != 0);
    given.then(|| MemoryLimits {
        low_usage: low_usage.unwrap_or_default(),
        high_usage: high_usage.unwrap_or_default(),
        low_mark_bytes: low_mark.unwrap_or_default(),
        high_mark_bytes: high_mark.unwrap_or_default(),
    })
}

/// sentinel-golang's checks. That the high mark is within the machine's memory
/// is not one of ours: a document may be checked on another machine.
pub(super) fn check(rule: &FlowRule, fields: &mut Fields<'_>) {
    let Some(memory) = rule.memory else { return };
    if rule.grade == Grade::Concurrency {
        let message = "calls at once do not follow memory; write grade 1 (qps), or count instead";
        return fields.fault(LOW_USAGE, message);
    }
    if rule.behavior.warms_up() {
        fields.fault(
            "controlBehavior",
            "a limit moves with the temperature or with memory, not with both; write 0 (reject) or 2 (rateLimiter)",
        );
    }
    if rule.count != 0.0 {
        fields.warn(
            "count",
            "not used: the limit follows the memory in use; leave it out",
        );
    }
    for (field, threshold) in [
        (LOW_USAGE, memory.low_usage),
        (HIGH_USAGE, memory.high_usage),
    ] {
        if !(threshold > 0.0 && threshold.is_finite()) {
            let found = found(field, format!("{threshold} is no limit"), fields);
            fields.fault(field, format!("{found}; give more than 0, {TOGETHER}"));
        }
    }
    for (field, mark) in [
        (LOW_MARK, memory.low_mark_bytes),
        (HIGH_MARK, memory.high_mark_bytes),
    ] {
        if mark == 0 {
            let found = found(field, "0 bytes are always in use".to_owned(), fields);
            fields.fault(field, format!("{found}; give bytes, {TOGETHER}"));
        }
    }
    let both = |low, high| !fields.is_text() || fields.has(low) && fields.has(high);
    let both_usages = both(LOW_USAGE, HIGH_USAGE);
    let both_marks = both(LOW_MARK, HIGH_MARK);
    if both_usages && memory.high_usage >= memory.low_usage {
        let MemoryLimits {
            low_usage,
            high_usage,
            ..
        } = memory;
        fields.fault(
            HIGH_USAGE,
            format!(
                "{high_usage} is not below lowMemUsageThreshold {low_usage}; give less for high use"
            ),
        );
    }
    if both_marks && memory.low_mark_bytes >= memory.high_mark_bytes {
        let MemoryLimits {
            low_mark_bytes,
            high_mark_bytes,
            ..
        } = memory;
        fields.fault(
            HIGH_MARK,
            format!("{high_mark_bytes} is not above memLowWaterMarkBytes {low_mark_bytes}; give more bytes"),
        );
    }
    if rule.behavior == ControlBehavior::Reject && memory.high_usage < 1.0 {
        fields.warn(
            HIGH_USAGE,
            "below 1, so no call can pass while much memory is in use",
        );
    }
}

const TOGETHER: &str = "all four memory fields go together";

/// What is found in a field that was written, or that a rule built in code has.
fn found(field: &'static str, written: String, fields: &Fields<'_>) -> String {
    match fields.is_text() && !fields.has(field) {
        true => "missing".to_owned(),
        false => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_falls_in_a_straight_line_between_the_marks() {
        let limits = MemoryLimits {
            low_usage: 1000.0,
            high_usage: 100.0,
            low_mark_bytes: 1024,
            high_mark_bytes: 2048,
        };
        let table = [
            (None, 1000.0),
            (Some(0), 1000.0),
            (Some(1024), 1000.0),
            (Some(1280), 775.0),
            (Some(1536), 550.0),
            (Some(2047), 100.878_906_25),
            (Some(2048), 100.0),
            (Some(u64::MAX), 100.0),
        ];
        for (used, allowed) in table {
            assert_eq!(limits.allowed(used), allowed, "{used:?}");
        }
    }
}

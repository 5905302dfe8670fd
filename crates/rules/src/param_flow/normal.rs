//! What a hot-parameter rule means, apart from what it says and does not use.

use super::ParamFlowRule;
use crate::{ControlBehavior, Grade};

impl ParamFlowRule {
    /// The rule with fields that it does not use put back to their defaults.
    pub(super) fn normalized(&self) -> Self {
        let mut rule = self.clone();
        let default = Self::default();
        if rule.grade == Grade::Concurrency {
            rule.behavior = ControlBehavior::Reject;
            rule.duration_in_sec = default.duration_in_sec;
            rule.burst_count = default.burst_count;
        }
        rule.accounting = rule.accounted().unwrap_or_default();
        match rule.queues() {
            true => rule.burst_count = default.burst_count,
            false => rule.max_queueing_time_ms = default.max_queueing_time_ms,
        }
        rule
    }
}

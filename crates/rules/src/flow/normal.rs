//! What a flow rule means, apart from what it says and does not use.

use flowgate_core::Accounting;

use super::{FlowRule, Grade, Strategy};

impl FlowRule {
    /// The rule with fields that it does not use put back to their defaults.
    pub(super) fn normalized(&self) -> Self {
        let mut rule = self.clone();
        let default = Self::default();
        rule.behavior = rule.effective_behavior();
        if rule.strategy == Strategy::Direct {
            rule.ref_resource = None;
        }
        if !rule.behavior.warms_up() {
            rule.warm_up_period_sec = default.warm_up_period_sec;
            rule.warm_up_cold_factor = None;
        }
        if !rule.behavior.paces() {
            rule.max_queueing_time_ms = default.max_queueing_time_ms;
        }
        if rule.grade == Grade::Concurrency {
            rule.memory = None;
        }
        if rule.memory.is_some() {
            rule.count = default.count;
        }
        rule.accounting = rule.accounted().unwrap_or_default();
        rule.burst_count = rule.takes_tokens().then(|| rule.burst());
        rule.stat_interval_ms = rule.own_interval_ms();
        let has_own_view = rule.stat_interval_ms.is_some() || rule.accounting == Accounting::Strict;
        let counts_boxes = has_own_view && !rule.behavior.paces() && !rule.takes_tokens();
        rule.boxes = rule.boxes.filter(|boxes| counts_boxes && *boxes > 0);
        rule
    }
}

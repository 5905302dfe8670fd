//! What a circuit breaker means, apart from what it says and does not use.

use super::{BreakerStrategy, DegradeRule};

impl DegradeRule {
    /// The rule with fields that it does not use put back to their defaults,
    /// and what can be said in two ways said in one.
    pub(super) fn normalized(&self) -> Self {
        let mut rule = self.clone();
        let default = Self::default();
        if rule.grade != BreakerStrategy::SlowRatio {
            rule.slow_ratio_threshold = default.slow_ratio_threshold;
        }
        let open_ms = rule.open_time().as_millis();
        rule.time_window_ms = u64::try_from(open_ms).ok();
        rule.time_window_sec = default.time_window_sec;
        if rule.backoff_multiplier <= 1.0 {
            rule.max_time_window_sec = None;
        }
        let counts_in_a_row = rule.grade == BreakerStrategy::ConsecutiveErrors;
        if counts_in_a_row {
            rule.stat_window_calls = None;
            rule.min_request_amount = default.min_request_amount;
        }
        if counts_in_a_row || rule.stat_window_calls.is_some() {
            rule.stat_interval_ms = default.stat_interval_ms;
            rule.stat_buckets = default.stat_buckets;
        }
        rule.probe_num = rule.probe_num.filter(|probes| *probes != 1);
        rule.probe_success_ratio = rule.probe_success_ratio.filter(|ratio| *ratio < 1.0);
        rule
    }
}

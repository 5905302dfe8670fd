//! After what time without a call all values are as new.
//!
//! A table may hold very many values, so none is looked at: what any of them can
//! have used up comes back within a time that the rule tells. Its calls at once
//! are none when nobody is in flight at the resource.

use std::time::Duration;

use super::ParamFlowRule;
use super::limit::Limit;
use crate::Grade;

impl ParamFlowRule {
    /// How long no call must have come for every value to decide as if it had
    /// never been seen.
    ///
    /// Tokens: until an empty bucket is full, one that is refilled by spans or by
    /// steps included. Lines: as [`FlowState::is_as_new`] has it, after the
    /// longest wait of the last call.
    ///
    /// [`FlowState::is_as_new`]: crate::FlowState::is_as_new
    pub(super) fn forgets_after(&self) -> Duration {
        let span = Duration::from_secs(self.duration_in_sec.max(1).into());
        if self.grade == Grade::Concurrency {
            return Duration::ZERO;
        }
        let counts = self.items.iter().map(|item| item.count);
        counts
            .chain([self.count])
            .map(|count| match self.queues() {
                true => self.passed_after(count, span),
                false => self.refilled_after(count, span),
            })
            .max()
            .unwrap_or(span)
    }

    fn limit(&self, count: f64) -> Limit {
        Limit::new(count, self.duration_in_sec, self.burst_count)
    }

    fn passed_after(&self, count: f64, span: Duration) -> Duration {
        let wait_max = Duration::from_millis(self.max_queueing_time_ms.into());
        let cost = Duration::from_nanos(self.limit(count).cost_ns(1));
        wait_max + cost.max(span + wait_max)
    }

    fn refilled_after(&self, count: f64, span: Duration) -> Duration {
        let limit = self.limit(count);
        if limit.is_zero() {
            return span;
        }
        // A span for what `count` brings, another as refills wait for a whole
        // one, and what the burst takes beside.
        let spans = 2.0 + f64::from(self.burst_count) / count;
        let steps = Duration::from_millis(2 << limit.split.shift);
        Duration::try_from_secs_f64(span.as_secs_f64() * spans)
            .map_or(Duration::MAX, |refilled| refilled.saturating_add(steps))
    }
}

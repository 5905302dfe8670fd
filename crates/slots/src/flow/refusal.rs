//! What a refusal says.

use std::time::Duration;

use flowgate_core::leap_array::Full;
use flowgate_core::token_bucket::TooFewTokens;
use flowgate_core::{Accounting, Block, BlockKind, Measure, Timestamp};
use flowgate_rules::flow::Queue;

use super::FlowCheck;

impl FlowCheck {
    fn block(
        &self,
        measure: Measure,
        limit: f64,
        observed: f64,
        retry_after: Option<Duration>,
    ) -> Block {
        Block::new(BlockKind::Flow, self.rule.id.clone(), limit, observed)
            .measured_in(measure)
            .retry_after_at(retry_after)
    }

    /// What the rule's count is of.
    fn measure(&self) -> Measure {
        match self.state().period() {
            second if second == Duration::from_secs(1) => Measure::Rate,
            period => Measure::RatePer(period),
        }
    }

    /// Refused at `allowed` calls per period, which is `limit` in the view.
    #[inline]
    pub(super) fn refuse_rate(&self, allowed: f64, limit: u64, weight: u32, full: Full) -> Block {
        let never = u64::from(weight) > limit && !self.state().moves();
        let retry_after = if never { None } else { full.retry_after };
        let observed = self.state().per_period(full.sum);
        self.rate_block(allowed, observed, retry_after)
    }

    /// Refused as it would have to wait for a window that it borrows from, and
    /// must not; the present one holds `passes`.
    #[cold]
    pub(super) fn refuse_early(&self, passes: u64, wait: Duration) -> Block {
        let observed = self.state().per_period(passes);
        self.rate_block(self.rule().count, observed, Some(wait))
    }

    fn rate_block(&self, limit: f64, observed: f64, retry_after: Option<Duration>) -> Block {
        self.block(self.measure(), limit, observed, retry_after)
            .accounted_in(self.rule().accounting)
    }

    /// Refused by a bucket: limit and observed value are tokens that it holds,
    /// and that are taken.
    #[cold]
    pub(super) fn refuse_tokens(&self, now: Timestamp, too_few: TooFewTokens) -> Block {
        let (burst, taken) = self.state().tokens(now);
        self.block(Measure::Tokens, burst, taken, too_few.retry_after)
            .accounted_in(Accounting::TokenBucket)
    }

    #[cold]
    pub(super) fn refuse_concurrency(&self, in_flight: u64) -> Block {
        let limit = self.rule().count;
        self.block(Measure::Concurrency, limit, in_flight as f64, None)
    }

    /// Refused by a line: limit and observed value are waits in milliseconds.
    #[cold]
    pub(super) fn refuse_queue(&self, queue: Queue) -> Block {
        let limit_ms = self.state().wait_max().as_secs_f64() * 1e3;
        let observed_ms = queue.wait.as_secs_f64() * 1e3;
        self.block(Measure::WaitMs, limit_ms, observed_ms, queue.retry_after)
    }
}

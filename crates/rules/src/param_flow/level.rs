//! Tokens of one value, refilled continuously: at most `⌊count + burst⌋ + rate · t`
//! in any span `t`, see [`flowgate_core::token_bucket`].
//!
//! The cell is the core's word of 128 bits, which makes a slot of the table 16 bytes
//! longer.
//!
//! **Forgetting.** A value counts as limited until its bucket is full again. So
//! nothing is lost with one that is forgotten, and when it comes back it finds
//! what it would have found. The price: a value is remembered for as long as what
//! it took needs to flow in. If more values than the rule remembers come within
//! that time, newcomers share the overflow.

use std::time::Duration;

use flowgate_core::Timestamp;
use flowgate_core::token_bucket::{Level, Quota, QuotaError};

use super::ParamFlowRule;
use super::table::{Cell, Standing};
use crate::flow::rate::Rate;

impl ParamFlowRule {
    /// What the bucket of a value with this `count` holds and is filled with:
    /// `⌊count + burst⌋` tokens, and none at a count of 0.
    pub(super) fn quota(&self, count: f64) -> Result<Quota, QuotaError> {
        let duration = Duration::from_secs(self.duration_in_sec.max(1).into());
        let rate = Rate::per(count, duration);
        let tokens = match rate.is_zero() {
            true => 0,
            false => rate
                .limit_in(duration)
                .saturating_add(self.burst_count.into()),
        };
        Quota::new(count, duration, tokens)
    }
}

impl Cell for Level {
    type Limit = Quota;
    type Align = u64;

    fn reset(&self, quota: &Quota, since: Timestamp) {
        // The slot is opened with a release after this.
        self.reset(quota, since);
    }

    fn standing(&self, quota: &Quota, _: u32, now: Timestamp) -> Standing {
        match self.is_full(quota, now) {
            true => Standing::Idle,
            false => Standing::Limited,
        }
    }
}

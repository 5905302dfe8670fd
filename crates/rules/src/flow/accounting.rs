//! Flow rules that are accounted otherwise than in Sentinel's windows.
//!
//! *Strict* changes what is counted and nothing else, so whatever counts calls
//! may be strict: rates that refuse, warm up, or follow the memory. A queue
//! counts none; it is exact by itself.
//!
//! A *token bucket* belongs to the rule and takes no part in the counts of the
//! resource. What asks how many calls have passed is therefore not for it:
//! warm-up, and the count of another resource. It refuses or, as a rule that
//! queues, lets calls wait for their tokens: the burst at once, then an even
//! pace.

use flowgate_core::Accounting;
use flowgate_core::token_bucket::{Quota, QuotaError};

use super::rate::Rate;
use super::{ControlBehavior, FlowRule, Grade, Strategy};
use crate::dialect::Dialect;
use crate::document::Fields;

pub(super) use crate::accounting::FIELD;

pub(super) const BURST_FIELD: &str = "burstCount";

impl FlowRule {
    /// Lets the limit hold in any span of the interval, not only in a little
    /// less: see [`Accounting::Strict`].
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.accounting = Accounting::Strict;
        self
    }

    /// Takes tokens out of a bucket of `burst`, which fills with `count` per
    /// second or interval: see [`Accounting::TokenBucket`]. With
    /// [`rate_limiter`](Self::rate_limiter) calls wait for their tokens.
    #[must_use]
    pub fn token_bucket(mut self, burst: u64) -> Self {
        self.accounting = Accounting::TokenBucket;
        self.burst_count = Some(burst);
        self
    }

    /// How the rule's rate is accounted; `None`: it limits calls at once, or is
    /// a queue, and has no spans.
    #[must_use]
    pub fn accounted(&self) -> Option<Accounting> {
        match (self.grade, self.accounting) {
            (Grade::Concurrency, _) => None,
            (Grade::Qps, Accounting::TokenBucket) => Some(Accounting::TokenBucket),
            (Grade::Qps, _) if self.behavior.paces() => None,
            (Grade::Qps, accounting) => Some(accounting),
        }
    }

    /// Whether it has a bucket of tokens.
    pub(super) fn takes_tokens(&self) -> bool {
        self.accounted() == Some(Accounting::TokenBucket)
    }

    /// How many tokens its bucket holds: what it says, else the whole calls of
    /// `count`, and at least one.
    pub(super) fn burst(&self) -> u64 {
        let rate = Rate::per(self.count, self.period());
        let default = || rate.limit_in(self.period()).max(1);
        self.burst_count.unwrap_or_else(default)
    }

    /// What its bucket holds and is filled with. As nothing passes at a count
    /// of 0, such a bucket holds nothing to begin with either.
    pub(super) fn quota(&self) -> Result<Quota, QuotaError> {
        let burst = if self.count == 0.0 { 0 } else { self.burst() };
        Quota::new(self.count, self.period(), burst)
    }
}

/// Accounting and burst, as a rule of this grade has them.
pub(super) fn parse(grade: Grade, fields: &mut Fields<'_>) -> (Accounting, Option<u64>) {
    let accounting = fields.mode(FIELD).unwrap_or_default();
    let has_burst = grade == Grade::Qps && accounting == Accounting::TokenBucket;
    (accounting, fields.u64(BURST_FIELD, has_burst))
}

/// Whether a rule of these modes counts in boxes.
pub(super) fn has_boxes(grade: Grade, accounting: Accounting, behavior: ControlBehavior) -> bool {
    grade == Grade::Qps && accounting != Accounting::TokenBucket && !behavior.paces()
}

pub(super) fn check(rule: &FlowRule, fields: &mut Fields<'_>) {
    if rule.burst_count.is_some() && !rule.takes_tokens() {
        fields.warn(
            BURST_FIELD,
            "not used: only a bucket holds tokens; write accounting tokenBucket, or leave it out",
        );
    }
    match (rule.grade, rule.accounting) {
        (_, Accounting::Window) => {}
        (Grade::Concurrency, _) => fields.warn(
            FIELD,
            "not used: calls at once have no interval; leave it out",
        ),
        (Grade::Qps, Accounting::Strict) => check_strict(rule, fields),
        (Grade::Qps, Accounting::TokenBucket) => check_bucket(rule, fields),
    }
}

fn check_strict(rule: &FlowRule, fields: &mut Fields<'_>) {
    if rule.behavior.paces() {
        fields.fault(
            FIELD,
            "a queue spaces its calls and is exact by itself; leave it out",
        );
    }
}

fn check_bucket(rule: &FlowRule, fields: &mut Fields<'_>) {
    let dialect = fields.dialect();
    if rule.behavior.warms_up() {
        let would_do = match dialect {
            Dialect::Sentinel => "write controlBehavior 0 (reject) or 2 (rateLimiter)",
            Dialect::Golang => "write tokenCalculateStrategy 0 (direct)",
        };
        fields.fault(
            FIELD,
            format!("a token bucket does not warm up; {would_do}, or accounting window or strict"),
        );
    }
    if rule.memory.is_some() {
        fields.fault(
            FIELD,
            "a token bucket does not follow the memory in use; leave out the memory fields, or write accounting window or strict",
        );
    }
    if rule.strategy == Strategy::Relate {
        let direct = match dialect {
            Dialect::Sentinel => "strategy 0 (direct)",
            Dialect::Golang => "relationStrategy 0 (current)",
        };
        fields.fault(
            "strategy",
            format!("relate looks at another resource's count, and a bucket has none; write {direct}, or accounting window or strict"),
        );
    }
    check_burst(rule, fields);
}

fn check_burst(rule: &FlowRule, fields: &mut Fields<'_>) {
    if rule.burst_count == Some(0) {
        fields.fault(
            BURST_FIELD,
            "0 tokens let no call pass, ever; give at least 1 token, or leave it out for as many as count",
        );
    }
    // Of the count alone more is said where it is checked.
    if rule.count.is_finite()
        && rule.count >= 0.0
        && let Err(error) = rule.quota()
    {
        let field = match rule.burst_count {
            Some(_) => BURST_FIELD,
            None => "count",
        };
        fields.fault(field, error.to_string());
    }
}

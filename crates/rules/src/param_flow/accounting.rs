//! How the accounting of a hot-parameter rule is written, and what it allows.
//!
//! A value has no boxes to count in. Sentinel gives it a bucket that is refilled
//! by spans; that is what `window` means here. The exact one is `tokenBucket`.

use flowgate_core::Accounting;

use super::ParamFlowRule;
use super::read::{BEHAVIOR, ITEMS};
use crate::Grade;
use crate::accounting::FIELD;
use crate::document::Fields;
use crate::field::{Choice, FieldKind, FieldSpec};

/// In the order of [`Accounting::CHOICES`](crate::Mode::CHOICES).
const CHOICES: &[Choice] = &[
    Choice::new(
        Accounting::Window.name(),
        "a bucket that is refilled when more than durationInSec has passed, as in Sentinel",
    ),
    Choice::new(
        Accounting::Strict.name(),
        "for flow rules; tokenBucket is the exact one for values",
    ),
    Choice::new(
        Accounting::TokenBucket.name(),
        "a bucket that fills evenly: at most count + burstCount + rate · t in any span t",
    )
    .or(&["bucket"]),
];

pub(super) const SPEC: FieldSpec = FieldSpec::new(
    FIELD,
    FieldKind::Mode(CHOICES),
    "how a rate is counted (grade 1, controlBehavior 0)",
)
.default("0")
.advice("give window or tokenBucket")
.shared()
.added();

pub(super) fn check(rule: &ParamFlowRule, fields: &mut Fields<'_>) {
    match (rule.grade, rule.accounting) {
        (_, Accounting::Window) => {}
        (Grade::Concurrency, _) => fields.warn(
            FIELD,
            "not used: calls at once have no interval; leave it out",
        ),
        (Grade::Qps, Accounting::Strict) => fields.fault(
            FIELD,
            "strict counts in boxes, and a value has none; write tokenBucket, which is exact for values",
        ),
        (Grade::Qps, Accounting::TokenBucket) if rule.queues() => fields.fault(
            FIELD,
            format!("a queue spaces the calls of a value and takes no tokens; leave it out, or write {BEHAVIOR} 0 (reject)"),
        ),
        (Grade::Qps, Accounting::TokenBucket) => check_quotas(rule, fields),
    }
}

/// Whether all buckets can be held exactly. What is no count at all is told
/// where counts are checked.
fn check_quotas(rule: &ParamFlowRule, fields: &mut Fields<'_>) {
    let problem = |count: f64| {
        let is_count = count.is_finite() && count >= 0.0;
        is_count.then(|| rule.quota(count).err()).flatten()
    };
    if let Some(error) = problem(rule.count) {
        fields.fault("count", error.to_string());
    }
    for (position, item) in rule.items.iter().enumerate().take(ParamFlowRule::ITEMS_MAX) {
        if let Some(error) = problem(item.count) {
            fields.fault_in(ITEMS, position, "count", error.to_string());
        }
    }
}

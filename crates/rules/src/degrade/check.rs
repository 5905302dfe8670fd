//! What makes a circuit breaker valid.

use super::{BreakerStrategy, DegradeRule};
use crate::document::Fields;

/// Records all that is wrong or odd with `rule`.
pub(super) fn check(rule: &DegradeRule, fields: &mut Fields<'_>) {
    check_count(rule, fields);
    if rule.grade == BreakerStrategy::SlowRatio {
        check_ratio("slowRatioThreshold", rule.slow_ratio_threshold, fields);
    }
    check_zeros(rule, fields);
    check_open_time(rule, fields);
    check_window(rule, fields);
    check_probes(rule, fields);
}

fn check_count(rule: &DegradeRule, fields: &mut Fields<'_>) {
    let count = rule.count;
    let advice = match rule.grade {
        BreakerStrategy::ErrorRatio => return check_ratio("count", count, fields),
        BreakerStrategy::SlowRatio => "give the milliseconds from which on a call is slow",
        BreakerStrategy::ErrorCount => "give a number of errors",
        BreakerStrategy::ConsecutiveErrors => "give a number of errors in a row",
    };
    if !count.is_finite() {
        fields.fault("count", format!("{count} is not a finite number; {advice}"));
    } else if count < 0.0 {
        fields.fault("count", format!("{count} is negative; {advice}"));
    } else if rule.grade != BreakerStrategy::SlowRatio && count.fract() != 0.0 {
        let below = count.floor();
        fields.warn(
            "count",
            format!("{count} counts as {below}, as there are no parts of errors; {advice}"),
        );
    }
}

fn check_ratio(field: &'static str, ratio: f64, fields: &mut Fields<'_>) {
    if !(0.0..=1.0).contains(&ratio) {
        fields.fault(
            field,
            format!("{ratio} is no ratio; give a number from 0 to 1"),
        );
    }
}

fn check_zeros(rule: &DegradeRule, fields: &mut Fields<'_>) {
    let looks_back = rule.grade.looks_back();
    for (field, is_zero, message) in [
        (
            "timeWindow",
            rule.time_window_sec == 0 && rule.time_window_ms.is_none(),
            "0 would close it at once; give the seconds that the breaker stays open, at least 1",
        ),
        (
            "timeWindowMs",
            rule.time_window_ms == Some(0),
            "0 would close it at once; give the milliseconds that the breaker stays open, at least 1",
        ),
        (
            "minRequestAmount",
            looks_back && rule.min_request_amount == 0,
            "0 would open without a call; give a number of calls, at least 1",
        ),
        (
            "statIntervalMs",
            looks_back && rule.stat_interval_ms == 0,
            "0 looks at nothing; give milliseconds, at least 1",
        ),
        (
            "statSlidingWindowBucketCount",
            looks_back && rule.stat_buckets == 0,
            "0 looks at nothing; give a number of boxes from 1 to 1000",
        ),
        (
            "statWindowCalls",
            looks_back && rule.stat_window_calls == Some(0),
            "0 looks at nothing; give a number of calls from 1 to 100000, or leave it out",
        ),
        (
            "halfOpenTimeoutMs",
            rule.half_open_timeout_ms == Some(0),
            "0 gives every probe up at once; give milliseconds, at least 1, or leave it out",
        ),
        (
            "probeNum",
            rule.probe_num == Some(0),
            "0 would never close again; give a number of probes, at least 1, or leave it out",
        ),
    ] {
        if is_zero {
            fields.fault(field, message);
        }
    }
}

fn check_open_time(rule: &DegradeRule, fields: &mut Fields<'_>) {
    if let Some(open_ms) = rule.time_window_ms
        && rule.time_window_sec > 0
    {
        let seconds = rule.time_window_sec;
        fields.fault(
            "timeWindowMs",
            format!("{open_ms} beside {seconds} seconds of timeWindow; give one of the two"),
        );
    }
    let multiplier = rule.backoff_multiplier;
    if !multiplier.is_finite() || multiplier < 1.0 {
        fields.fault(
            "backoffMultiplier",
            format!("{multiplier} would make open times shorter; give a number of at least 1"),
        );
    }
    check_ratio("jitter", rule.jitter, fields);
    if let Some(max_sec) = rule.max_time_window_sec {
        if multiplier == 1.0 {
            fields.warn(
                "maxTimeWindow",
                "not used with a backoffMultiplier of 1, which keeps the open time as it is; \
                 leave it out",
            );
        } else if u128::from(max_sec) * 1_000 < rule.open_time().as_millis() {
            fields.fault(
                "maxTimeWindow",
                format!("{max_sec} is less than the first open time; give seconds above it"),
            );
        }
    }
}

/// A window is a span of time in boxes, or a number of calls, or for errors in
/// a row neither: what was given of another is a contradiction, as far as it
/// differs from the default, which is written out with every rule.
fn check_window(rule: &DegradeRule, fields: &mut Fields<'_>) {
    let (interval, boxes) = (rule.stat_interval_ms, rule.stat_buckets);
    if !rule.grade.looks_back() {
        for (field, given) in [
            ("statIntervalMs", interval != DegradeRule::STAT_INTERVAL_MS),
            ("statSlidingWindowBucketCount", boxes != 1),
            ("statWindowCalls", rule.stat_window_calls.is_some()),
            (
                "minRequestAmount",
                rule.min_request_amount != DegradeRule::MIN_REQUEST_AMOUNT,
            ),
        ] {
            if given {
                fields.warn(
                    field,
                    "not used: errors in a row are counted in whatever time; leave it out",
                );
            }
        }
        return;
    }
    if let Some(calls) = rule.stat_window_calls {
        check_calls(rule, calls, fields);
        for (field, given) in [
            ("statIntervalMs", interval != DegradeRule::STAT_INTERVAL_MS),
            ("statSlidingWindowBucketCount", boxes > 1),
        ] {
            if given {
                fields.fault(
                    field,
                    format!(
                        "a span of time beside the last {calls} calls of statWindowCalls; \
                         leave one of the two out"
                    ),
                );
            }
        }
    }
    let boxes_max = DegradeRule::STAT_BUCKETS_MAX;
    if boxes > boxes_max {
        fields.fault(
            "statSlidingWindowBucketCount",
            format!("{boxes} is above {boxes_max}; give a number of boxes from 1 to {boxes_max}"),
        );
    } else if boxes > 0 && !interval.is_multiple_of(boxes) {
        fields.fault(
            "statSlidingWindowBucketCount",
            format!(
                "{boxes} boxes do not divide the {interval} ms of statIntervalMs; \
                 give numbers that do"
            ),
        );
    }
}

fn check_calls(rule: &DegradeRule, calls: u32, fields: &mut Fields<'_>) {
    let calls_max = DegradeRule::STAT_WINDOW_CALLS_MAX;
    if calls > calls_max {
        fields.fault(
            "statWindowCalls",
            format!("{calls} is above {calls_max}; give a number of calls up to {calls_max}"),
        );
    }
    let calls_min = rule.min_request_amount;
    if calls > 0 && calls_min > calls {
        fields.fault(
            "minRequestAmount",
            format!(
                "{calls_min} are never among the last {calls} calls of statWindowCalls; \
                 give at most {calls}"
            ),
        );
    }
    if rule.grade == BreakerStrategy::ErrorCount && rule.count >= f64::from(calls) {
        let count = rule.count;
        fields.fault(
            "count",
            format!(
                "there are never more than {count} errors among the last {calls} calls of \
                 statWindowCalls; give less than {calls}"
            ),
        );
    }
}

fn check_probes(rule: &DegradeRule, fields: &mut Fields<'_>) {
    let (probes, probes_max) = (rule.probe_num.unwrap_or(1), DegradeRule::PROBES_MAX);
    if probes > probes_max {
        fields.fault(
            "probeNum",
            format!("{probes} is above {probes_max}; give a number of probes up to {probes_max}"),
        );
    }
    let Some(ratio) = rule.probe_success_ratio else {
        return;
    };
    if probes == 1 {
        fields.warn(
            "probeSuccessRatio",
            "not used with a single probe, which has to succeed; write probeNum too, or leave it out",
        );
    } else if !(ratio > 0.0 && ratio <= 1.0) {
        fields.fault(
            "probeSuccessRatio",
            format!("{ratio} is no part of the probes; give a ratio above 0 and up to 1"),
        );
    }
}

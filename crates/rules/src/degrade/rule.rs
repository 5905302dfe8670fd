//! What a circuit breaker says.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use serde::Serialize;

use super::BreakerStrategy;
use super::circuit::{Forced, PROBES_MAX};
use crate::flow::count_bits;
use crate::head::{Head, head_methods};

/// When to stop calling a resource, and for how long.
///
/// ```
/// use flowgate_rules::DegradeRule;
///
/// // Open for 10 s when more than half of the calls take longer than 200 ms.
/// let slow = DegradeRule::slow_ratio("pay", 200.0, 0.5, 10);
/// // Open for 5 s when more than a tenth of at least 20 calls fail.
/// let failing = DegradeRule::error_ratio("pay", 0.1, 5).min_requests(20);
/// assert_ne!(slow, failing);
/// ```
///
/// Two rules are equal if they say the same; their ids do not count.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DegradeRule {
    /// What it is called, which resources it guards, whether it is enforced.
    #[serde(flatten)]
    pub head: Head,
    /// What is looked at.
    pub grade: BreakerStrategy,
    /// What is too much: milliseconds from which on a call is slow, the ratio
    /// of errors (0 to 1), or the number of errors. Always more than this opens
    /// it, never as much, except that a ratio of 1 opens it when all fail.
    pub count: f64,
    /// The ratio of slow calls that is too much, 0 to 1.
    pub slow_ratio_threshold: f64,
    /// How long it stays open, in seconds; 0 if `time_window_ms` says it.
    #[serde(rename = "timeWindow", skip_serializing_if = "says_nothing")]
    pub time_window_sec: u32,
    /// How long it stays open in milliseconds, where seconds are too coarse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_window_ms: Option<u64>,
    /// How many times longer it stays open each time that it opens again
    /// without having closed, at least 1.
    pub backoff_multiplier: f64,
    /// The longest that it stays open by that, in seconds; `None`:
    /// [`MAX_TIME_WINDOW_SEC`](Self::MAX_TIME_WINDOW_SEC).
    #[serde(rename = "maxTimeWindow", skip_serializing_if = "Option::is_none")]
    pub max_time_window_sec: Option<u32>,
    /// By what part of itself an open time may be longer or shorter, 0 to 1.
    pub jitter: f64,
    /// How many calls there must have been before it opens.
    pub min_request_amount: u32,
    /// The span that is looked at, in milliseconds.
    pub stat_interval_ms: u32,
    /// In how many boxes: with one the span tumbles, with more it slides.
    #[serde(rename = "statSlidingWindowBucketCount")]
    pub stat_buckets: u32,
    /// Looks at this many last calls instead of a span of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat_window_calls: Option<u32>,
    /// When a probe that has not come back is given up, in milliseconds;
    /// `None`: after the open time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_open_timeout_ms: Option<u64>,
    /// How many probes there are; `None`: one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_num: Option<u32>,
    /// The part of the probes that has to succeed; `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_success_ratio: Option<f64>,
    /// Open or closed whatever calls do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<Forced>,
}

/// Whether these are the seconds of a rule that says milliseconds.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn says_nothing(time_window_sec: &u32) -> bool {
    *time_window_sec == 0
}

head_methods!(DegradeRule);

impl DegradeRule {
    /// Sentinel's default for `minRequestAmount`.
    pub const MIN_REQUEST_AMOUNT: u32 = 5;
    /// Sentinel's default for `statIntervalMs`.
    pub const STAT_INTERVAL_MS: u32 = 1000;
    /// The longest open time that grows by `backoff_multiplier`, where a rule
    /// does not say it: an hour.
    pub const MAX_TIME_WINDOW_SEC: u32 = 3_600;
    /// The most boxes of a sliding window.
    pub const STAT_BUCKETS_MAX: u32 = 1_000;
    /// The most calls of a window that counts calls; each takes two bits.
    pub const STAT_WINDOW_CALLS_MAX: u32 = 100_000;
    /// The most probes.
    pub const PROBES_MAX: u32 = PROBES_MAX;

    /// Opens for `time_window_sec` seconds when more than `ratio` of the calls
    /// take longer than `slow_ms` milliseconds.
    #[must_use]
    pub fn slow_ratio(
        resource: impl Into<String>,
        slow_ms: f64,
        ratio: f64,
        time_window_sec: u32,
    ) -> Self {
        Self {
            head: Head::of(resource),
            count: slow_ms,
            slow_ratio_threshold: ratio,
            time_window_sec,
            ..Self::default()
        }
    }

    /// Opens for `time_window_sec` seconds when more than `ratio` of the calls
    /// fail.
    #[must_use]
    pub fn error_ratio(resource: impl Into<String>, ratio: f64, time_window_sec: u32) -> Self {
        Self {
            head: Head::of(resource),
            grade: BreakerStrategy::ErrorRatio,
            count: ratio,
            time_window_sec,
            ..Self::default()
        }
    }

    /// Opens for `time_window_sec` seconds when more than `errors` calls fail.
    #[must_use]
    pub fn error_count(resource: impl Into<String>, errors: f64, time_window_sec: u32) -> Self {
        Self {
            grade: BreakerStrategy::ErrorCount,
            ..Self::error_ratio(resource, errors, time_window_sec)
        }
    }

    /// Opens for `time_window_sec` seconds when more than `errors` calls fail
    /// one after the other, in whatever time.
    #[must_use]
    pub fn consecutive_errors(
        resource: impl Into<String>,
        errors: f64,
        time_window_sec: u32,
    ) -> Self {
        Self {
            grade: BreakerStrategy::ConsecutiveErrors,
            ..Self::error_ratio(resource, errors, time_window_sec)
        }
    }

    /// What the strategy's figure is compared with: a ratio, or a number of
    /// calls.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        match self.grade {
            BreakerStrategy::SlowRatio => self.slow_ratio_threshold,
            BreakerStrategy::ErrorRatio
            | BreakerStrategy::ErrorCount
            | BreakerStrategy::ConsecutiveErrors => self.count,
        }
    }

    /// How many calls there must have been before it opens.
    #[must_use]
    pub fn min_requests(mut self, calls: u32) -> Self {
        self.min_request_amount = calls;
        self
    }

    /// The span that is looked at, in milliseconds.
    #[must_use]
    pub fn stat_interval_ms(mut self, interval_ms: u32) -> Self {
        self.stat_interval_ms = interval_ms;
        self
    }

    /// Slides the span by that many boxes, which have to divide it.
    #[must_use]
    pub fn buckets(mut self, boxes: u32) -> Self {
        self.stat_buckets = boxes;
        self
    }

    /// Looks at the last `calls` calls instead of a span of time.
    #[must_use]
    pub fn last_calls(mut self, calls: u32) -> Self {
        self.stat_window_calls = Some(calls);
        self
    }

    /// How long it stays open in milliseconds, instead of seconds.
    #[must_use]
    pub fn time_window_ms(mut self, open_ms: u64) -> Self {
        self.time_window_sec = 0;
        self.time_window_ms = Some(open_ms);
        self
    }

    /// Stays open `multiplier` times longer each time that it opens again
    /// without having closed, up to `max_sec` seconds.
    #[must_use]
    pub fn back_off(mut self, multiplier: f64, max_sec: u32) -> Self {
        self.backoff_multiplier = multiplier;
        self.max_time_window_sec = Some(max_sec);
        self
    }

    /// By what part of itself an open time may be longer or shorter, 0 to 1.
    #[must_use]
    pub fn jitter(mut self, part: f64) -> Self {
        self.jitter = part;
        self
    }

    /// The part of the probes that has to succeed, more than 0 and at most 1.
    #[must_use]
    pub fn probe_success_ratio(mut self, ratio: f64) -> Self {
        self.probe_success_ratio = Some(ratio);
        self
    }

    /// Open or closed whatever calls do.
    #[must_use]
    pub fn forced(mut self, forced: Forced) -> Self {
        self.force = Some(forced);
        self
    }

    /// How many probes there are, and that many must succeed.
    #[must_use]
    pub fn probes(mut self, number: u32) -> Self {
        self.probe_num = Some(number);
        self
    }

    /// When a probe that has not come back is given up, in milliseconds.
    #[must_use]
    pub fn half_open_timeout_ms(mut self, timeout_ms: u64) -> Self {
        self.half_open_timeout_ms = Some(timeout_ms);
        self
    }

    /// How long it stays open the first time, without jitter.
    #[must_use]
    pub fn open_time(&self) -> Duration {
        match self.time_window_ms {
            Some(open_ms) => Duration::from_millis(open_ms),
            None => Duration::from_secs(u64::from(self.time_window_sec)),
        }
    }

    /// How many of its probes have to succeed for it to close.
    #[must_use]
    pub fn probes_needed(&self) -> u32 {
        let probes = self.probe_num.unwrap_or(1);
        let Some(ratio) = self.probe_success_ratio else {
            return probes;
        };
        // 0.55 × 20 is a little more than 11 as binary fractions have it.
        let needed = (ratio * f64::from(probes) - 1e-9).ceil();
        (needed as u32).clamp(1, probes.max(1))
    }

    /// What makes two rules the same; taken apart by name, so that a new field
    /// does not go unnoticed.
    fn content(&self) -> impl Eq + Hash + '_ {
        let Self {
            head,
            grade,
            count,
            slow_ratio_threshold,
            time_window_sec,
            time_window_ms,
            backoff_multiplier,
            max_time_window_sec,
            jitter,
            min_request_amount,
            stat_interval_ms,
            stat_buckets,
            stat_window_calls,
            half_open_timeout_ms,
            probe_num,
            probe_success_ratio,
            force,
        } = self;
        (
            (head, grade, count_bits(*count), force),
            (count_bits(*slow_ratio_threshold), min_request_amount),
            (
                (time_window_sec, time_window_ms),
                count_bits(*backoff_multiplier),
                max_time_window_sec,
                count_bits(*jitter),
            ),
            (stat_interval_ms, stat_buckets, stat_window_calls),
            (
                half_open_timeout_ms,
                probe_num,
                probe_success_ratio.map(count_bits),
            ),
        )
    }
}

impl Default for DegradeRule {
    fn default() -> Self {
        Self {
            head: Head::default(),
            grade: BreakerStrategy::SlowRatio,
            count: 0.0,
            slow_ratio_threshold: 1.0,
            time_window_sec: 0,
            time_window_ms: None,
            backoff_multiplier: 1.0,
            max_time_window_sec: None,
            jitter: 0.0,
            min_request_amount: Self::MIN_REQUEST_AMOUNT,
            stat_interval_ms: Self::STAT_INTERVAL_MS,
            stat_buckets: 1,
            stat_window_calls: None,
            half_open_timeout_ms: None,
            probe_num: None,
            probe_success_ratio: None,
            force: None,
        }
    }
}

impl PartialEq for DegradeRule {
    fn eq(&self, other: &Self) -> bool {
        self.content() == other.content()
    }
}

impl Eq for DegradeRule {}

impl Hash for DegradeRule {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.content().hash(state);
    }
}

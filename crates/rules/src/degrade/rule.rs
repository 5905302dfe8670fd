//! What a circuit breaker says.

use std::hash::{Hash, Hasher};

use serde::{Serialize, Serializer};

use crate::field::{Choice, Mode};
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
    /// of errors (0 to 1), or the number of errors.
    pub count: f64,
    /// The ratio of slow calls that is too much, 0 to 1.
    pub slow_ratio_threshold: f64,
    /// How long it stays open, in seconds.
    #[serde(rename = "timeWindow")]
    pub time_window_sec: u32,
    /// How many calls there must have been before it opens.
    pub min_request_amount: u32,
    /// The span that is looked at, in milliseconds.
    pub stat_interval_ms: u32,
    /// When a probe that has not come back is given up, in milliseconds;
    /// `None`: after the open time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_open_timeout_ms: Option<u64>,
    /// How many probes there are; `None`: one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_num: Option<u32>,
}

head_methods!(DegradeRule);

/// What a circuit breaker looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BreakerStrategy {
    /// The ratio of slow calls.
    #[default]
    SlowRatio,
    /// The ratio of failed calls.
    ErrorRatio,
    /// The number of failed calls.
    ErrorCount,
}

impl DegradeRule {
    /// Sentinel's default for `minRequestAmount`.
    pub const MIN_REQUEST_AMOUNT: u32 = 5;
    /// Sentinel's default for `statIntervalMs`.
    pub const STAT_INTERVAL_MS: u32 = 1000;

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

    /// What the strategy's figure is compared with: a ratio, or a number of
    /// calls.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        match self.grade {
            BreakerStrategy::SlowRatio => self.slow_ratio_threshold,
            BreakerStrategy::ErrorRatio | BreakerStrategy::ErrorCount => self.count,
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

    /// What makes two rules the same; taken apart by name, so that a new field
    /// does not go unnoticed.
    fn content(&self) -> impl Eq + Hash + '_ {
        let Self {
            head,
            grade,
            count,
            slow_ratio_threshold,
            time_window_sec,
            min_request_amount,
            stat_interval_ms,
            half_open_timeout_ms,
            probe_num,
        } = self;
        (
            (head, grade, count_bits(*count)),
            (
                count_bits(*slow_ratio_threshold),
                time_window_sec,
                min_request_amount,
            ),
            (stat_interval_ms, half_open_timeout_ms, probe_num),
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
            min_request_amount: Self::MIN_REQUEST_AMOUNT,
            stat_interval_ms: Self::STAT_INTERVAL_MS,
            half_open_timeout_ms: None,
            probe_num: None,
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

impl Mode for BreakerStrategy {
    const ALL: &'static [Self] = &[Self::SlowRatio, Self::ErrorRatio, Self::ErrorCount];
    const CHOICES: &'static [Choice] = &[
        Choice::new("slowRatio", "the ratio of slow calls").or(&["slowRequestRatio", "rt"]),
        Choice::new("errorRatio", "the ratio of failed calls").or(&["exceptionRatio"]),
        Choice::new("errorCount", "the number of failed calls").or(&["exceptionCount"]),
    ];
}

impl Serialize for BreakerStrategy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(*self as u32)
    }
}

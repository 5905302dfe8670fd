//! What an isolation rule says.

use serde::Serialize;

use crate::head::{Head, head_methods};

/// How much of one resource may run at once.
///
/// ```
/// use flowgate_rules::IsolationRule;
///
/// // Four reports at once, whoever comes fifth is refused.
/// let reports = IsolationRule::at_once("reports", 4);
/// // The same, but up to 20 others wait, each for 300 ms at most.
/// let patient = IsolationRule::at_once("reports", 4).wait_ms(300).queue_length(20);
/// assert_ne!(reports, patient);
/// ```
///
/// Two rules are equal if they say the same; their ids do not count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IsolationRule {
    /// What it is called, which resources it limits, whether it is enforced.
    #[serde(flatten)]
    pub head: Head,
    /// The most permits at once: the sum of the weights of the calls that run.
    pub count: u32,
    /// The longest wait for permits in milliseconds. 0: none waits.
    pub max_queueing_time_ms: u32,
    /// How many calls of the resource may wait at once.
    pub max_queue_length: u32,
}

head_methods!(IsolationRule);

impl IsolationRule {
    /// The default for `maxQueueLength`: bounded, and above any line in which
    /// those at the end still want an answer.
    pub const MAX_QUEUE_LENGTH: u32 = 1000;

    /// `count` permits at once; calls beyond that are refused.
    #[must_use]
    pub fn at_once(resource: impl Into<String>, count: u32) -> Self {
        Self {
            head: Head::of(resource),
            count,
            ..Self::default()
        }
    }

    /// Calls beyond the limit wait this many milliseconds at most.
    #[must_use]
    pub fn wait_ms(mut self, wait_ms_max: u32) -> Self {
        self.max_queueing_time_ms = wait_ms_max;
        self
    }

    /// How many calls may wait at once.
    #[must_use]
    pub fn queue_length(mut self, calls_max: u32) -> Self {
        self.max_queue_length = calls_max;
        self
    }

    /// Whether calls beyond the limit wait at all.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.max_queueing_time_ms > 0 && self.max_queue_length > 0
    }
}

impl Default for IsolationRule {
    fn default() -> Self {
        Self {
            head: Head::default(),
            count: 0,
            max_queueing_time_ms: 0,
            max_queue_length: Self::MAX_QUEUE_LENGTH,
        }
    }
}

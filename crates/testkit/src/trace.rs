//! The format of trace files. Unknown fields are errors: what is not read
//! cannot be compared.

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trace {
    #[serde(rename = "case")]
    _case: String,
    #[serde(rename = "about", default)]
    _about: String,
    #[serde(rename = "reference", default)]
    _reference: String,
    #[serde(rename = "quirk", default)]
    _quirk: Option<String>,
    #[serde(rename = "seed", default)]
    _seed: Option<Value>,
    #[serde(default)]
    pub(crate) settings: Settings,
    pub(crate) rules: Option<Map<String, Value>>,
    pub(crate) rules_expect: Option<LoadExpect>,
    pub(crate) array: Option<ArraySpec>,
    pub(crate) controller: Option<ControllerSpec>,
    pub(crate) limiter: Option<LimiterSpec>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    pub(crate) second_sample_count: u32,
    pub(crate) second_interval_ms: u64,
    pub(crate) occupy_timeout_ms: u64,
    pub(crate) cold_factor: u32,
    pub(crate) statistic_max_rt: u64,
    pub(crate) sleep_advances_clock: bool,
    pub(crate) epoch_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            second_sample_count: 2,
            second_interval_ms: 1000,
            occupy_timeout_ms: 500,
            cold_factor: 3,
            statistic_max_rt: 5000,
            sleep_advances_clock: false,
            epoch_ms: 1_699_999_980_000,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadExpect {
    pub(crate) active: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArraySpec {
    pub(crate) kind: ArrayKind,
    pub(crate) sample_count: u32,
    pub(crate) interval_ms: u64,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ArrayKind {
    Bucket,
    Occupiable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ControllerSpec {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) count: f64,
    pub(crate) max_queueing_time_ms: u64,
    pub(crate) stat_duration_ms: u64,
}

/// A limiter on its own.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum LimiterSpec {
    SlidingWindow {
        interval_ms: u64,
        boxes: u32,
        threshold: u64,
    },
    /// At most the threshold in any span of the interval.
    StrictWindow {
        interval_ms: u64,
        boxes: u32,
        threshold: u64,
    },
    TokenBucket {
        interval_ms: u64,
        count: f64,
        burst: u64,
    },
}

/// One step; which fields it may have depends on `op`.
#[derive(Deserialize, Clone, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Step {
    pub(crate) op: String,
    pub(crate) t: i64,
    pub(crate) ns: u64,
    pub(crate) mono: Option<i64>,
    pub(crate) id: Option<u64>,
    pub(crate) resource: String,
    pub(crate) count: Option<u32>,
    pub(crate) n: Option<u64>,
    pub(crate) prioritized: bool,
    /// An entry that waits stays so until a step begins or cancels it.
    pub(crate) pending: bool,
    /// An entry that is refused if it would have to wait.
    pub(crate) no_wait: bool,
    pub(crate) traffic: Option<String>,
    pub(crate) context: Option<String>,
    pub(crate) origin: Option<String>,
    pub(crate) parent: Option<u64>,
    pub(crate) args: Option<Value>,
    pub(crate) args_from: Option<i64>,
    pub(crate) error: bool,
    pub(crate) cancelled: bool,
    pub(crate) inbound: bool,
    pub(crate) rules: Option<Map<String, Value>>,
    pub(crate) event: Option<String>,
    pub(crate) rt: Option<u64>,
    pub(crate) at: Option<i64>,
    pub(crate) start: Option<i64>,
    pub(crate) roll: Option<bool>,
    pub(crate) expect: Option<Map<String, Value>>,
}

//! What is driven: rules, and operations on them.
//!
//! A case is data and nothing else: it is drawn from a seed, run, shortened,
//! and written down as a trace. Times are nanoseconds on the charged clock.

use serde_json::{Map, Value, json};

/// Where the clock of every case begins: a whole minute, as in the traces.
pub(crate) const BASE_MS: u64 = 1_699_999_980_000;
/// The same in nanoseconds.
pub(crate) const BASE_NS: u64 = BASE_MS * MS;
/// Nanoseconds of a millisecond.
pub(crate) const MS: u64 = 1_000_000;
/// The name of the only resource.
pub(crate) const RESOURCE: &str = "orders";

/// One case: limits, and what happens to them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) setup: Setup,
    pub(crate) ops: Vec<Op>,
}

/// The limits of a case and the engine they are in force in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setup {
    pub(crate) form: Form,
    pub(crate) view_boxes: u32,
    pub(crate) view_ms: u64,
    pub(crate) borrow_wait_ms: u64,
    /// The first is in force from the beginning, the others can be loaded. All
    /// have the same limits in the same order, with other numbers.
    pub(crate) sets: Vec<Vec<Limit>>,
}

/// How the limits are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Rules of an engine.
    Rules,
    /// A limiter on its own, made of the only limit. It is handed the time.
    Alone,
}

/// One limit. `milli` is `count` in thousandths, so that all arithmetic on it
/// is exact.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Limit {
    /// Flow, reject, in the second view.
    Rate { milli: u64 },
    /// Flow, reject, over an interval of its own; strict: in any span of it.
    Interval {
        milli: u64,
        interval_ms: u64,
        boxes: u32,
        strict: bool,
    },
    /// Flow, a token bucket; with a wait, calls queue for tokens.
    Bucket {
        milli: u64,
        interval_ms: u64,
        burst: u64,
        wait_ms: Option<u64>,
    },
    /// Flow, warm-up.
    WarmUp {
        milli: u64,
        period_s: u64,
        cold: u32,
    },
    /// Flow, rate limiter.
    Line {
        milli: u64,
        interval_ms: u64,
        wait_ms: u64,
    },
    /// Flow, warm-up with rate limiter.
    WarmUpLine {
        milli: u64,
        period_s: u64,
        cold: u32,
        wait_ms: u64,
    },
    /// Flow, calls at once.
    AtOnce { count: u64 },
    /// Isolation.
    Permits { count: u64 },
    /// Hot parameters: tokens of each value.
    ParamTokens {
        milli: u64,
        burst: u64,
        period_s: u64,
    },
    /// Hot parameters: a token bucket for each value.
    ParamBucket {
        milli: u64,
        burst: u64,
        period_s: u64,
    },
    /// Hot parameters: a line for each value.
    ParamLine {
        milli: u64,
        period_s: u64,
        wait_ms: u64,
    },
    /// Hot parameters: calls of each value at once.
    ParamAtOnce { count: u64 },
}

/// One operation at one time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Op {
    /// The reading of the clock; may be behind that of the operation before.
    pub(crate) at_ns: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Call(Call),
    /// The call ends; one that still waits is given up. Nothing if it was
    /// refused.
    End {
        id: u32,
        how: How,
    },
    /// Puts a set of limits in force.
    Load {
        set: usize,
    },
    /// Compares the figures of the node with the log.
    Look,
}

/// A call that asks to enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) id: u32,
    pub(crate) weight: u32,
    /// The first argument, for limits of values.
    pub(crate) key: u32,
    pub(crate) prioritized: bool,
    /// Whether it may wait; otherwise it is refused if it would have to.
    pub(crate) may_wait: bool,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Success,
    Error,
    Cancelled,
}

impl Limit {
    /// The kind of rule it is, as traces write it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Limit::ParamTokens { .. }
            | Limit::ParamBucket { .. }
            | Limit::ParamLine { .. }
            | Limit::ParamAtOnce { .. } => "param_flow",
            Limit::Permits { .. } => "isolation",
            _ => "flow",
        }
    }

    /// Its count in thousandths.
    pub(crate) fn milli(&self) -> u64 {
        match *self {
            Limit::Rate { milli }
            | Limit::Interval { milli, .. }
            | Limit::Bucket { milli, .. }
            | Limit::WarmUp { milli, .. }
            | Limit::Line { milli, .. }
            | Limit::WarmUpLine { milli, .. }
            | Limit::ParamTokens { milli, .. }
            | Limit::ParamBucket { milli, .. }
            | Limit::ParamLine { milli, .. } => milli,
            Limit::AtOnce { count } | Limit::Permits { count } | Limit::ParamAtOnce { count } => {
                count * 1000
            }
        }
    }

    /// The same limit with another count.
    pub(crate) fn with_milli(&self, new: u64) -> Limit {
        let mut limit = self.clone();
        match &mut limit {
            Limit::Rate { milli }
            | Limit::Interval { milli, .. }
            | Limit::Bucket { milli, .. }
            | Limit::WarmUp { milli, .. }
            | Limit::Line { milli, .. }
            | Limit::WarmUpLine { milli, .. }
            | Limit::ParamTokens { milli, .. }
            | Limit::ParamBucket { milli, .. }
            | Limit::ParamLine { milli, .. } => *milli = new,
            Limit::AtOnce { count } | Limit::Permits { count } | Limit::ParamAtOnce { count } => {
                *count = new / 1000;
            }
        }
        limit
    }

    /// The same limit with this count, of which all is there at once: a bucket
    /// holds just as much.
    pub(crate) fn holding(&self, calls: u64) -> Limit {
        let mut limit = self.with_milli(calls * 1000);
        match &mut limit {
            Limit::Bucket { burst, .. } => *burst = calls,
            Limit::ParamTokens { burst, .. } | Limit::ParamBucket { burst, .. } => *burst = 0,
            _ => {}
        }
        limit
    }

    /// Whether it counts in an interval of its own.
    pub(crate) fn is_interval(&self) -> bool {
        matches!(self, Limit::Interval { .. })
    }

    /// Whether a call may have to wait for it.
    pub(crate) fn queues(&self) -> bool {
        matches!(
            self,
            Limit::Line { .. }
                | Limit::WarmUpLine { .. }
                | Limit::ParamLine { .. }
                | Limit::Bucket {
                    wait_ms: Some(_),
                    ..
                }
        )
    }

    /// The rule as documents write it.
    fn rule(&self) -> Value {
        let count = self.milli() as f64 / 1000.0;
        let mut rule = json!({"resource": RESOURCE, "count": count});
        let more = match *self {
            Limit::Rate { .. } => json!({}),
            Limit::Interval {
                interval_ms,
                boxes,
                strict,
                ..
            } => json!({"statIntervalMs": interval_ms, "statSlidingWindowBucketCount": boxes,
                "accounting": if strict { "strict" } else { "window" }}),
            Limit::Bucket {
                interval_ms,
                burst,
                wait_ms,
                ..
            } => json!({"accounting": "tokenBucket", "statIntervalMs": interval_ms,
                "burstCount": burst, "controlBehavior": if wait_ms.is_some() { 2 } else { 0 },
                "maxQueueingTimeMs": wait_ms.unwrap_or(0)}),
            Limit::WarmUp { period_s, cold, .. } => json!({"controlBehavior": 1,
                "warmUpPeriodSec": period_s, "warmUpColdFactor": cold}),
            Limit::Line {
                interval_ms,
                wait_ms,
                ..
            } => match interval_ms {
                1000 => json!({"controlBehavior": 2, "maxQueueingTimeMs": wait_ms}),
                _ => json!({"controlBehavior": 2, "maxQueueingTimeMs": wait_ms,
                    "statIntervalMs": interval_ms}),
            },
            Limit::WarmUpLine {
                period_s,
                cold,
                wait_ms,
                ..
            } => json!({"controlBehavior": 3, "warmUpPeriodSec": period_s,
                "warmUpColdFactor": cold, "maxQueueingTimeMs": wait_ms}),
            Limit::AtOnce { .. } => json!({"grade": 0}),
            Limit::Permits { count } => json!({"count": count}),
            Limit::ParamTokens {
                burst, period_s, ..
            } => json!({"paramIdx": 0, "burstCount": burst, "durationInSec": period_s}),
            Limit::ParamBucket {
                burst, period_s, ..
            } => json!({"paramIdx": 0, "accounting": "tokenBucket", "burstCount": burst,
                "durationInSec": period_s}),
            Limit::ParamLine {
                period_s, wait_ms, ..
            } => json!({"paramIdx": 0, "controlBehavior": 2, "durationInSec": period_s,
                "maxQueueingTimeMs": wait_ms}),
            Limit::ParamAtOnce { .. } => json!({"paramIdx": 0, "grade": 0}),
        };
        if let (Value::Object(rule), Value::Object(more)) = (&mut rule, more) {
            rule.extend(more);
        }
        rule
    }
}

impl Setup {
    /// An engine's defaults, with these limits and no others to load.
    pub(crate) fn rules(limits: Vec<Limit>) -> Setup {
        Setup {
            form: Form::Rules,
            view_boxes: 2,
            view_ms: 1000,
            borrow_wait_ms: 500,
            sets: vec![limits],
        }
    }

    /// The limits of a set as lists of rules by kind, as traces name the kinds.
    pub(crate) fn document(&self, set: usize) -> Map<String, Value> {
        let mut document = Map::new();
        for limit in &self.sets[set] {
            let list = document
                .entry(limit.kind())
                .or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                list.push(limit.rule());
            }
        }
        document
    }

    /// How long a box of an interval is, and how many of them are counted.
    pub(crate) fn boxes_of(interval_ms: u64, boxes: u32, strict: bool) -> (u64, u64) {
        let counted = u64::from(boxes) + u64::from(strict);
        (interval_ms * MS / u64::from(boxes), counted)
    }

    /// How long a box of the second view is.
    pub(crate) fn view_box_ns(&self) -> u64 {
        self.view_ms * MS / u64::from(self.view_boxes)
    }

    /// Whether calls are told apart by their argument.
    pub(crate) fn has_keys(&self) -> bool {
        self.sets[0]
            .iter()
            .any(|limit| limit.kind() == "param_flow")
    }

    /// Whether tokens of values are refilled by the call that finds it time.
    pub(crate) fn refills(&self) -> bool {
        let refills = |limit: &Limit| matches!(limit, Limit::ParamTokens { .. });
        self.sets[0].iter().any(refills)
    }

    /// Whether a call may have to wait.
    pub(crate) fn queues(&self) -> bool {
        self.sets[0].iter().any(Limit::queues)
    }
}

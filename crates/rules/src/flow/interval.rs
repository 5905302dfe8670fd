//! Flow rules with an interval of their own: `count` calls per minute, hour or
//! day.
//!
//! The calls are counted in a view of the node, a ring of boxes that begin at
//! multiples of their length since the epoch. The limit holds for the present
//! box and the `n − 1` before it, so at most `count` calls pass in any span of
//! `T · (n − 1) / n`.
//!
//! **Why ten boxes.** That makes it nine tenths of what is written, and a call
//! refused too early by at most a tenth; the first call of a box, and each that
//! is refused, looks at ten words. One box is a quota per calendar interval (a
//! day is a UTC day): cheapest, but twice the limit may pass around midnight.
//!
//! A *strict* rule counts one box more than the interval has, so that at most
//! `count` calls pass in any span of `T`, and in [`Interval::STRICT_BOXES`]
//! boxes, so that a call is refused too early by at most a fiftieth. It has a
//! view of its own even over one second: the second view is Sentinel's.

use std::time::Duration;

use flowgate_core::{Accounting, GeometryError, Interval};

use super::{FlowRule, Grade, MemoryLimits};
use crate::Settings;
use crate::document::Fields;

pub(super) const FIELD: &str = "statIntervalMs";
pub(super) const BOXES_FIELD: &str = "statSlidingWindowBucketCount";

impl FlowRule {
    /// In how many boxes an interval is counted if the rule does not say.
    pub const BOXES: u32 = 10;

    /// Makes `count` a limit per this many milliseconds.
    #[must_use]
    pub fn per_ms(mut self, stat_interval_ms: u32) -> Self {
        self.stat_interval_ms = Some(stat_interval_ms);
        self
    }

    /// Counts its interval in this many boxes.
    #[must_use]
    pub fn boxes(mut self, boxes: u32) -> Self {
        self.boxes = Some(boxes);
        self
    }

    /// Lets the limit follow the memory in use.
    #[must_use]
    pub fn memory(mut self, limits: MemoryLimits) -> Self {
        self.memory = Some(limits);
        self
    }

    /// Whether the rule decides by the memory in use, so that somebody has to
    /// measure it.
    #[must_use]
    pub fn needs_memory(&self) -> bool {
        self.memory.is_some() && self.grade == Grade::Qps
    }

    /// The period that `count` is for.
    pub(super) fn period(&self) -> Duration {
        let own_ms = self.own_interval_ms().unwrap_or(1_000);
        Duration::from_millis(own_ms.into())
    }

    /// The interval whose view it counts in; `None`: the second view, or none
    /// as it paces or takes tokens.
    pub(super) fn view(&self, settings: &Settings) -> Option<Interval> {
        // A faulty one was refused at load.
        self.try_view(settings).ok().flatten()
    }

    pub(super) fn try_view(&self, settings: &Settings) -> Result<Option<Interval>, GeometryError> {
        let own_ms = self.own_interval_ms();
        let boxes = self.boxes.filter(|boxes| *boxes > 0);
        let is_second_view = own_ms.is_none_or(|ms| ms == settings.interval_ms && boxes.is_none());
        match self.accounted() {
            Some(Accounting::Window) if !is_second_view => {
                Interval::new(self.period(), boxes.unwrap_or(Self::BOXES)).map(Some)
            }
            Some(Accounting::Strict) => {
                Interval::strict(self.period(), boxes.unwrap_or(Interval::STRICT_BOXES)).map(Some)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn own_interval_ms(&self) -> Option<u32> {
        let used = self.grade == Grade::Qps;
        self.stat_interval_ms.filter(|ms| *ms > 0 && used)
    }
}

pub(super) fn check(rule: &FlowRule, settings: &Settings, fields: &mut Fields<'_>) {
    let given = |value: Option<u32>| value.is_some_and(|value| value > 0);
    let boxes = rule.boxes.filter(|boxes| *boxes > 0);
    if rule.grade == Grade::Concurrency {
        if given(rule.stat_interval_ms) {
            fields.warn(
                FIELD,
                "not used: calls at once have no interval; leave it out",
            );
        }
    } else if boxes.is_some() && rule.takes_tokens() {
        fields.warn(
            BOXES_FIELD,
            "not used: a token bucket has no boxes; leave it out",
        );
    } else if boxes.is_some()
        && !given(rule.stat_interval_ms)
        && rule.accounting != Accounting::Strict
    {
        fields.warn(
            BOXES_FIELD,
            "not used: the second view has boxes of its own; write statIntervalMs too, or leave it out",
        );
    } else if boxes.is_some() && rule.effective_behavior().paces() {
        fields.warn(
            BOXES_FIELD,
            "not used: a queue spaces calls and counts none; leave it out",
        );
    }
    if rule.try_view(settings).is_ok() {
        return;
    }
    // Of the interval, u32 milliseconds are always fine.
    let (ms, boxes) = (rule.period().as_millis(), boxes.unwrap_or(0));
    let problem = match boxes > Interval::BOXES_MAX {
        true => format!("{boxes} boxes are too many, as each refused call looks at all"),
        false => format!("{boxes} boxes do not divide {ms} ms into whole nanoseconds"),
    };
    fields.fault(
        BOXES_FIELD,
        format!("{problem}; give 1 to 1000 boxes that divide the interval, or leave it out"),
    );
}

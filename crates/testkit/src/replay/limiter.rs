//! Traces of a limiter on its own, which is handed the time of each step.

use std::time::Duration;

use flowgate::SlidingWindowLimiter;

use super::{Compared, expectation, moment, only};
use crate::trace::{LimiterKind, LimiterSpec, Settings, Step};

pub(super) enum World {
    SlidingWindow(SlidingWindowLimiter),
}

impl World {
    pub(super) fn new(spec: &LimiterSpec) -> Result<Self, String> {
        let interval = Duration::from_millis(spec.interval_ms);
        match spec.kind {
            LimiterKind::SlidingWindow => {
                SlidingWindowLimiter::new(interval, spec.boxes, spec.threshold)
                    .map(World::SlidingWindow)
                    .map_err(|error| error.to_string())
            }
        }
    }

    pub(super) fn step(&self, step: &Step, settings: &Settings) -> Compared {
        if step.op != "acquire" {
            return Err(format!("cannot interpret op {}", step.op));
        }
        let now = moment(step, settings, false);
        let weight = step.count.unwrap_or(1);
        let passed = match self {
            World::SlidingWindow(limiter) => limiter.acquire_at(now, weight).is_ok(),
        };
        let found = if passed { "pass" } else { "block" };
        only(expectation(step)?, "result", &found.into())
    }
}

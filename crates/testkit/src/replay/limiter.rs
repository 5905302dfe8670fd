//! Traces of a limiter on its own, which is handed the time of each step.

use std::time::Duration;

use flowgate::{SlidingWindowLimiter, TokenBucketLimiter};

use super::{Compared, expectation, moment, only};
use crate::trace::{LimiterSpec, Settings, Step};

pub(super) enum World {
    Window(Box<SlidingWindowLimiter>),
    Bucket(Box<TokenBucketLimiter>),
}

impl World {
    pub(super) fn new(spec: &LimiterSpec) -> Result<Self, String> {
        let ms = Duration::from_millis;
        let window = match *spec {
            LimiterSpec::SlidingWindow {
                interval_ms,
                boxes,
                threshold,
            } => SlidingWindowLimiter::new(ms(interval_ms), boxes, threshold),
            LimiterSpec::StrictWindow {
                interval_ms,
                boxes,
                threshold,
            } => SlidingWindowLimiter::strict(ms(interval_ms), boxes, threshold),
            LimiterSpec::TokenBucket {
                interval_ms,
                count,
                burst,
            } => {
                let made = TokenBucketLimiter::new(count, ms(interval_ms), burst);
                let boxed = made.map(|limiter| World::Bucket(Box::new(limiter)));
                return boxed.map_err(|error| error.to_string());
            }
        };
        let boxed = window.map(|limiter| World::Window(Box::new(limiter)));
        boxed.map_err(|error| error.to_string())
    }

    pub(super) fn step(&self, step: &Step, settings: &Settings) -> Compared {
        if step.op != "acquire" {
            return Err(format!("cannot interpret op {}", step.op));
        }
        let now = moment(step, settings, false);
        let weight = step.count.unwrap_or(1);
        let passed = match self {
            World::Window(limiter) => limiter.acquire_at(now, weight).is_ok(),
            World::Bucket(limiter) => limiter.acquire_at(now, weight).is_ok(),
        };
        let found = if passed { "pass" } else { "block" };
        only(expectation(step)?, "result", &found.into())
    }
}

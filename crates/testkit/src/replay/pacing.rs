//! Traces of the pacing state alone: `can_pass`.

use flowgate_rules::flow::pacing::Pacer;
use flowgate_rules::flow::rate::Rate;

use super::{Compared, differs, expectation, expected_wait_ns, moment};
use crate::trace::{ControllerSpec, Settings, Step};

pub(super) struct World {
    pacer: Pacer,
    rate: Rate,
    wait_ns_max: u64,
}

impl World {
    pub(super) fn new(spec: &ControllerSpec) -> Result<Self, String> {
        if spec.kind != "throttling" {
            return Err(format!("controller of type {}", spec.kind));
        }
        // `count` per `stat_duration_ms`.
        let per_second = spec.count * 1000.0 / spec.stat_duration_ms as f64;
        Ok(World {
            pacer: Pacer::default(),
            rate: Rate::new(per_second),
            wait_ns_max: spec.max_queueing_time_ms * 1_000_000,
        })
    }

    pub(super) fn step(&self, step: &Step, settings: &Settings, whole_ms: bool) -> Compared {
        if step.op != "can_pass" {
            return Err(format!("cannot interpret op {}", step.op));
        }
        let now = moment(step, settings, whole_ms);
        let weight = step.count.unwrap_or(1);
        let wait_ns = match weight {
            0 => Some(0),
            _ => {
                let cost_ns = self.rate.cost_ns(weight);
                let place = self.pacer.request(now, cost_ns, self.wait_ns_max);
                place.ok().map(|place| place.release_ns - now.as_nanos())
            }
        };
        let expect = expectation(step)?;
        let expected = match expect.get("result").and_then(|result| result.as_str()) {
            Some("pass") => Some(expected_wait_ns(expect)?),
            Some("block") => None,
            _ => return Err(format!("cannot interpret {expect:?}")),
        };
        if expected == wait_ns {
            Ok(())
        } else {
            Err(differs("wait in ns", expected, wait_ns))
        }
    }
}

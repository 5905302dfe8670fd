//! What a system rule works with, and what all of them ask for together.

use std::sync::Arc;

use super::machine::{Limits, Machine};
use super::{Inbound, System, SystemRule};
use crate::Settings;
use crate::table::RuleTable;

/// The limits of one system rule, and the budget that it takes from.
///
/// The budget is the engine's, not the rule's: a rule that is changed starts
/// nothing anew.
#[derive(Debug)]
pub struct SystemState {
    machine: Arc<Machine>,
    /// None for a rule that looks at nothing.
    inbound: Option<Arc<Inbound>>,
    limits: Limits,
    interval_ms: u32,
}

/// What the system rules in force ask for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Whether there is a rule that counts inbound calls.
    pub counts_inbound: bool,
    /// Whether a rule looks at the load or the processors.
    pub needs_samples: bool,
    /// Whether a rule of another kind looks at the memory.
    pub needs_memory: bool,
}

impl SystemState {
    pub(super) fn new(rule: &SystemRule, settings: &Settings) -> Self {
        let machine = Arc::clone(&settings.machine);
        SystemState {
            inbound: (!rule.is_all_off()).then(|| machine.inbound()),
            limits: limits(rule, settings),
            interval_ms: settings.interval_ms,
            machine,
        }
    }

    /// The budget of all inbound calls; none if the rule looks at nothing.
    #[inline]
    pub fn inbound(&self) -> Option<&Inbound> {
        self.inbound.as_deref()
    }

    /// The figures of the machine.
    #[inline]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Passes of the second view as calls per second.
    pub(super) fn per_second(&self, passes: u64) -> f64 {
        passes as f64 * 1e3 / f64::from(self.interval_ms)
    }

    /// What the rule lets in.
    #[inline]
    pub fn limits(&self) -> Limits {
        self.limits
    }
}

impl Demand {
    /// What the rules of `table` ask for.
    #[must_use]
    pub fn of(table: &RuleTable<System>) -> Self {
        let nothing = Demand {
            counts_inbound: false,
            needs_samples: false,
            needs_memory: false,
        };
        table.acting().fold(nothing, |demand, entry| {
            let rule = entry.rule();
            Demand {
                counts_inbound: demand.counts_inbound || !rule.is_all_off(),
                needs_samples: demand.needs_samples || rule.needs_samples(),
                ..demand
            }
        })
    }
}

fn limits(rule: &SystemRule, settings: &Settings) -> Limits {
    Limits {
        passes: rule.qps.map_or(u64::MAX, |qps| passes(qps, settings)),
        places: rule.max_thread.unwrap_or(u64::MAX),
    }
}

/// Passes of the second view that are `qps` per second: whole ones, as half a
/// call cannot pass.
pub(super) fn passes(qps: f64, settings: &Settings) -> u64 {
    // The cast takes what is negative for 0, and what is too large for the largest.
    (qps * f64::from(settings.interval_ms) / 1e3).floor() as u64
}

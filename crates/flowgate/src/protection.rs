//! What an engine does for its system rules: it tells the budget of inbound
//! calls what resources have counted, and the sampler when it is needed.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use flowgate_core::node::BoxSums;
use flowgate_core::{Clock, Timestamp};
use flowgate_rules::RuleSet;
use flowgate_rules::system::{Demand, InboundTotals, Machine, System};

use crate::registry::Registry;
use crate::sampler::{Sampling, SamplingSettings};

/// The machine of an engine, and what samples it.
pub(crate) struct Protection {
    machine: Arc<Machine>,
    pub(crate) sampling: Sampling,
}

impl Protection {
    pub(crate) fn new(settings: SamplingSettings, machine: &Arc<Machine>, clock: &Clock) -> Self {
        Protection {
            machine: Arc::clone(machine),
            sampling: Sampling::new(settings, machine, clock),
        }
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// New rules are about to come into force. To be followed by
    /// [`settle`](Self::settle) when they are.
    pub(crate) fn prepare(&self, old: &RuleSet, new: &RuleSet) -> Demand {
        let old = Demand::of(&old.table::<System>());
        let mut demand = Demand::of(&new.table::<System>());
        demand.needs_memory = new.needs_memory();
        if !old.counts_inbound || !demand.counts_inbound {
            // Nobody has counted, or nobody will: the next rule starts from what
            // the resources have counted by then.
            self.machine.forget_inbound();
        }
        demand
    }

    /// The rules of `demand` are in force.
    pub(crate) fn settle(&self, demand: &Demand) {
        // Where there is nothing to read nobody has to try.
        let load_and_cpu = demand.needs_samples && self.machine.has_load_and_cpu();
        self.sampling.want(load_and_cpu || demand.needs_memory);
    }
}

/// Sums over the resources of an engine, which it does not keep alive, nor its
/// clock: chains get here, and threads keep chains that are in force no more.
pub(crate) struct Totals {
    registry: Weak<Registry>,
}

impl Totals {
    pub(crate) fn of(registry: &Arc<Registry>) -> Arc<Self> {
        Arc::new(Totals {
            registry: Arc::downgrade(registry),
        })
    }
}

impl InboundTotals for Totals {
    fn in_flight(&self) -> Option<u64> {
        let registry = self.registry.upgrade()?;
        let mut total = 0;
        registry.for_each(|resource| total += resource.node.inbound_in_flight());
        Some(total)
    }

    fn boxes(&self) -> Vec<BoxSums> {
        let mut boxes: BTreeMap<Timestamp, BoxSums> = BTreeMap::new();
        let mut add = |sums: BoxSums| match boxes.get_mut(&sums.start) {
            Some(total) => total.add(&sums),
            None => drop(boxes.insert(sums.start, sums)),
        };
        if let Some(registry) = self.registry.upgrade() {
            let now = registry.now();
            registry.for_each(|resource| {
                let boxes = resource.node.inbound_boxes(now);
                boxes.into_iter().for_each(&mut add);
            });
        }
        boxes.into_values().collect()
    }
}

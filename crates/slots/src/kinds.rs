//! Which slot the rules of a kind make, and where it stands in the chain.

use std::sync::Arc;

use flowgate_rules::{
    Authority, Decide, Degrade, InForce, Isolation, Kinds, ParamFlow, RuleKind, Scope, System,
};

use crate::build::{ChainPlan, Position};
use crate::flow::FlowSlot;
use crate::guarded::Guarded;
use crate::rule::RuleSlot;
use crate::slot::{BuiltIn, Slot};

/// The kinds of rules there are, with their slots.
#[derive(Clone)]
pub struct SlotKinds {
    kinds: Kinds,
    built_in: Vec<(BuiltIn, MakeSlot)>,
    custom: Vec<(Position, MakeSlot)>,
}

/// Makes the slot of a kind for one resource, whose state is kept under a name;
/// nothing if no rule applies there.
pub(crate) type MakeSlot = fn(&ChainPlan, &str, &str) -> Option<Arc<dyn Slot>>;

impl SlotKinds {
    /// The kinds that come with Flowgate.
    #[must_use]
    pub fn standard() -> Self {
        SlotKinds {
            kinds: Kinds::standard(),
            built_in: vec![
                (BuiltIn::Authority, rules_of::<Authority>),
                (BuiltIn::System, rules_of::<System>),
                (BuiltIn::ParamFlow, rules_of::<ParamFlow>),
                (BuiltIn::Flow, FlowSlot::make),
                (BuiltIn::Isolation, rules_of::<Isolation>),
                (BuiltIn::Degrade, rules_of::<Degrade>),
            ],
            custom: Vec::new(),
        }
    }

    /// Adds a kind of the service's own. Its slot is kept from doing harm as
    /// custom slots are. Rules of a kind that had its name are gone.
    pub fn add<K: Decide>(&mut self, position: Position) {
        self.kinds = self.kinds.with::<K>();
        self.custom.push((position, shielded::<K>));
    }

    /// How many kinds are a service's own.
    #[must_use]
    pub fn custom_len(&self) -> usize {
        self.custom.len()
    }

    /// The kinds.
    #[must_use]
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    pub(crate) fn built_in(&self) -> impl Iterator<Item = (BuiltIn, MakeSlot)> {
        self.built_in.iter().copied()
    }

    pub(crate) fn custom_at(&self, position: Position) -> impl Iterator<Item = MakeSlot> {
        let custom = self.custom.iter();
        custom
            .filter(move |(at, _)| *at == position)
            .map(|(_, make)| *make)
    }
}

impl Default for SlotKinds {
    fn default() -> Self {
        SlotKinds::standard()
    }
}

fn rules_of<K: Decide>(plan: &ChainPlan, resource: &str, state: &str) -> Option<Arc<dyn Slot>> {
    let rules = in_force::<K>(plan, resource, state);
    (!rules.is_empty()).then(|| -> Arc<dyn Slot> { Arc::new(RuleSlot::new(rules)) })
}

fn shielded<K: Decide>(plan: &ChainPlan, resource: &str, state: &str) -> Option<Arc<dyn Slot>> {
    let slot = rules_of::<K>(plan, resource, state)?;
    Some(Arc::new(Guarded::of_rules(slot, Arc::clone(&plan.faults))))
}

/// The rules of one kind that act on `resource`, with their live state.
pub(crate) fn in_force<K: RuleKind>(
    plan: &ChainPlan,
    resource: &str,
    state: &str,
) -> Vec<InForce<K>> {
    let Some(table) = plan.rules.table_ref::<K>() else {
        return Vec::new();
    };
    let (entries, state) = match K::SCOPE {
        Scope::Resource => (table.matching(resource), state),
        Scope::Engine => (table.acting().map(Arc::clone).collect(), ""),
    };
    let entries = entries.into_iter().zip(0..);
    entries
        .map(|(entry, index)| InForce::new(entry, state, &plan.settings, index))
        .collect()
}

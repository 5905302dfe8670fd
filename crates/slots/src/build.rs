//! How the chain of one resource is made from the rules in force.

use std::collections::HashSet;
use std::sync::Arc;

use flowgate_core::Node;
use flowgate_rules::flow::{LimitApp, Strategy};
use flowgate_rules::{Flow, RuleSet, Settings};

use crate::chain::SlotChain;
use crate::guarded::{FaultCounter, Guarded};
use crate::kinds::{MakeSlot, SlotKinds};
use crate::slot::{BuiltIn, Slot};

/// Sentinel's name for the context of calls that name none.
pub const CONTEXT_DEFAULT: &str = "sentinel_default_context";

/// Where a rule finds the node of another resource.
pub trait Registry: Send + Sync + 'static {
    /// The node of `resource`, if it was ever entered. Asking makes none.
    fn node(&self, resource: &str) -> Option<Arc<Node>>;
}

/// Where a custom slot stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// Before the built-in slots.
    First,
    /// Before one of them.
    Before(BuiltIn),
    /// After one of them.
    After(BuiltIn),
    /// After the built-in slots.
    Last,
}

/// A custom slot and its place.
#[derive(Clone)]
pub struct CustomSlot {
    /// Where it stands. Slots for one place stand in the order they were added.
    pub position: Position,
    /// The slot.
    pub slot: Arc<dyn Slot>,
}

/// Origins and contexts that rules of one resource name.
#[derive(Clone, Debug, Default)]
pub struct NamedCallers {
    /// In `limitApp`.
    pub origins: Vec<String>,
    /// In `refResource` of CHAIN rules.
    pub contexts: Vec<String>,
}

/// All that decides how chains are made: the rules of one generation, and what
/// an engine adds to them.
pub struct ChainPlan {
    /// The rules in force.
    pub rules: RuleSet,
    /// The slots that they make.
    pub kinds: Arc<SlotKinds>,
    /// What [`related_to`] finds in them.
    pub related: HashSet<Arc<str>>,
    /// Engine-wide figures.
    pub settings: Settings,
    /// Slots of the service's own; all resources have them.
    pub custom: Arc<[CustomSlot]>,
    /// Where their faults are counted.
    pub faults: Arc<FaultCounter>,
    /// Where rules find other resources.
    pub registry: Arc<dyn Registry>,
}

/// The resources that RELATE rules look at: they must have statistics of their
/// own, as much as those that rules limit.
pub fn related_to(rules: &RuleSet) -> HashSet<Arc<str>> {
    let table = rules.table::<Flow>();
    table
        .acting()
        .map(|entry| entry.rule())
        .filter(|rule| rule.strategy == Strategy::Relate)
        .filter_map(|rule| rule.ref_resource.as_deref().map(Arc::from))
        .collect()
}

impl ChainPlan {
    /// Whether a rule names `resource`, to limit it or to relate to it: then it
    /// has statistics of its own.
    pub fn names(&self, resource: &str) -> bool {
        self.related.contains(resource) || self.rules.names(resource)
    }

    /// The chain of `resource`. The rules keep what they remember of it under
    /// the name `state`: its own, or one that it shares with others.
    pub fn chain_of(&self, resource: &str, state: &str) -> SlotChain {
        let mut slots = Vec::new();
        let make = |slot: MakeSlot| slot(self, resource, state);
        self.add_custom(Position::First, make, &mut slots);
        for (which, slot) in self.kinds.built_in() {
            self.add_custom(Position::Before(which), make, &mut slots);
            slots.extend(make(slot));
            self.add_custom(Position::After(which), make, &mut slots);
        }
        self.add_custom(Position::Last, make, &mut slots);
        SlotChain::new(slots)
    }

    /// The origins and contexts that rules of `resource` name: they are counted
    /// apart whatever the bounds on origins and contexts.
    pub fn named(&self, resource: &str) -> NamedCallers {
        let mut named = NamedCallers::default();
        for entry in self.rules.table::<Flow>().matching(resource) {
            let rule = entry.rule();
            if let LimitApp::Named(origin) = &rule.limit_app {
                named.origins.push(origin.clone());
            }
            if rule.strategy == Strategy::Chain {
                named.contexts.extend(rule.ref_resource.clone());
            }
        }
        named
    }

    /// Whether a rule of `resource` looks at calls of the default context
    /// apart from the others.
    pub fn tells_default_context(&self, resource: &str) -> bool {
        self.rules
            .table::<Flow>()
            .matching(resource)
            .iter()
            .any(|entry| {
                let reference = entry.rule().ref_resource.as_deref().unwrap_or_default();
                entry.rule().strategy == Strategy::Chain && is_context(CONTEXT_DEFAULT, reference)
            })
    }

    /// The custom slots and the kinds of the service's own that stand here.
    fn add_custom(
        &self,
        position: Position,
        make: impl Fn(MakeSlot) -> Option<Arc<dyn Slot>>,
        slots: &mut Vec<Arc<dyn Slot>>,
    ) {
        let here = self
            .custom
            .iter()
            .filter(|custom| custom.position == position);
        slots.extend(here.map(|custom| -> Arc<dyn Slot> {
            let slot = Arc::clone(&custom.slot);
            Arc::new(Guarded::new(slot, Arc::clone(&self.faults)))
        }));
        slots.extend(self.kinds.custom_at(position).filter_map(make));
    }
}

/// Whether `context` is the one that a rule means by `reference`.
pub(crate) fn is_context(context: &str, reference: &str) -> bool {
    let named = |name| {
        if reference.is_empty() {
            CONTEXT_DEFAULT
        } else {
            name
        }
    };
    context == named(reference)
}

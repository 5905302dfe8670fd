//! How the chain of one resource is made from the rules in force.

use std::sync::Arc;

use flowgate_core::Node;
use flowgate_rules::flow::{LimitApp, Strategy};
use flowgate_rules::{Acting, Flow, RuleSet, Settings};

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
    /// Whether a rule looks at calls of the default context apart from the
    /// others.
    pub default_context: bool,
}

/// All that decides how chains are made: the rules of one generation, and what
/// an engine adds to them.
pub struct ChainPlan {
    /// The rules in force.
    pub rules: RuleSet,
    /// The slots that they make.
    pub kinds: Arc<SlotKinds>,
    /// Engine-wide figures.
    pub settings: Settings,
    /// Slots of the service's own; all resources have them.
    pub custom: Arc<[CustomSlot]>,
    /// Where their faults are counted.
    pub faults: Arc<FaultCounter>,
    /// Where rules find other resources.
    pub registry: Arc<dyn Registry>,
}

impl ChainPlan {
    /// Whether a rule names `resource`, to limit it or to relate to it: then it
    /// has statistics of its own.
    pub fn names(&self, resource: &str) -> bool {
        self.rules.looks_at(resource) || self.rules.names(resource)
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
        let flow = self.rules.table_ref::<Flow>();
        for entry in flow.map(|flow| flow.matching(resource)).unwrap_or_default() {
            let rule = entry.rule();
            if let LimitApp::Named(origin) = &rule.limit_app {
                named.origins.push(origin.clone());
            }
            if rule.strategy == Strategy::Chain {
                let reference = rule.ref_resource.as_deref().unwrap_or_default();
                named.default_context |= is_context(CONTEXT_DEFAULT, reference);
                named.contexts.extend(rule.ref_resource.clone());
            }
        }
        named
    }

    /// Which rules the chain of `resource` is made of.
    pub fn acting_on(&self, resource: &str) -> Acting {
        self.rules.acting_on(resource)
    }

    /// Whether a chain that was made of the rules `acting` by this plan, or by one
    /// before it of the same engine, is the one that would be made now: then it
    /// may stay, and so may what [`named`](Self::named) said.
    ///
    /// A chain is made of the rules that act on its resource, their states, and
    /// their ids. All else that goes into it is the same in all plans of an
    /// engine: the kinds, the settings, the slots of the service's own, the
    /// counter of faults, the way to other resources; and no slot looks at a
    /// rule that does not act on its resource. A state is made once for a rule and
    /// the name under which it is kept, and found again as long as the rule lives.
    /// So what is made of the same rules is the same.
    pub fn still_acts(&self, acting: Acting, resource: &str) -> bool {
        self.rules.still_acts(acting, resource)
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

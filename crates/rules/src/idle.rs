//! When what a rule remembers of a resource may be forgotten with it.
//!
//! An engine forgets resources that nobody calls any more. It may do so only if
//! no rule would have decided otherwise: it asks each rule that has met the
//! resource whether its state is [as new](RuleKind::is_as_new), and keeps the
//! resource if one says no. It asks when nobody has the resource, so a state that
//! is as new stays so.

use std::sync::Arc;
use std::time::Duration;

use flowgate_core::Timestamp;

use crate::kind::{RuleKind, Scope};
use crate::set::RuleSet;
use crate::table::{RuleEntry, RuleTable};

/// How a resource stands that may be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// The time.
    pub now: Timestamp,
    /// How long no call has come, at least.
    pub since: Duration,
}

/// Of what a name under which rules keep states is the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Of one resource, which has it: rules whose `resource` it matches.
    Resource,
    /// Of many that have other names: any rule.
    Many,
}

impl RuleSet {
    /// Whether all that rules keep under `name` is as new. For one resource that
    /// costs a hash, a match per pattern, and a look at each state.
    #[must_use]
    pub fn is_as_new(&self, name: &str, whose: Whose, idle: Idle) -> bool {
        self.tables()
            .all(|table| table.is_as_new(name, whose, idle))
    }

    /// Forgets all that rules keep under `name`.
    pub fn forget(&self, name: &str, whose: Whose) {
        self.tables().for_each(|table| table.forget(name, whose));
    }
}

impl<K: RuleKind> RuleTable<K> {
    /// The rules that may keep something under `name`: those for `*` are among
    /// them, as they were for it while no other was.
    pub(crate) fn acquainted<'t>(
        &'t self,
        name: &'t str,
        whose: Whose,
    ) -> Box<dyn Iterator<Item = &'t Arc<RuleEntry<K>>> + 't> {
        match (K::SCOPE, whose) {
            // They keep nothing of single resources.
            (Scope::Engine, _) => Box::new(std::iter::empty()),
            (Scope::Resource, Whose::Resource) => Box::new(self.entries_for(name)),
            (Scope::Resource, Whose::Many) => Box::new(self.entries().iter()),
        }
    }
}

impl<K: RuleKind> RuleEntry<K> {
    pub(crate) fn is_as_new(&self, name: &str, idle: Idle) -> bool {
        self.state_of(name)
            .is_none_or(|state| K::is_as_new(self.rule(), &state, idle))
    }
}

//! What an engine asks of all rules of a kind together, kept as rules come and
//! go.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::RuleEntry;
use crate::accounting::Accountings;
use crate::kind::RuleKind;

#[derive(Clone, Default)]
pub(super) struct Totals {
    pub(super) rules: usize,
    pub(super) accountings: Accountings,
    /// Acting rules that ask for the memory in use.
    pub(super) needing_memory: usize,
    /// Resources that acting rules look at, with the number of these rules.
    pub(super) looked_at: Arc<HashMap<Box<str>, usize>>,
}

impl Totals {
    pub(super) fn add<K: RuleKind>(&mut self, entry: &RuleEntry<K>) {
        self.rules += 1;
        self.accountings.add(K::accounting(&entry.rule));
        if !entry.acts() {
            return;
        }
        self.needing_memory += usize::from(K::needs_memory(&entry.rule));
        if let Some(other) = K::looks_at(&entry.rule) {
            let looked_at = Arc::make_mut(&mut self.looked_at);
            *looked_at.entry(other.into()).or_default() += 1;
        }
    }

    /// Takes off what [`add`](Self::add) added for the rule.
    pub(super) fn take_off<K: RuleKind>(&mut self, entry: &RuleEntry<K>) {
        self.rules -= 1;
        self.accountings.take_off(K::accounting(&entry.rule));
        if !entry.acts() {
            return;
        }
        self.needing_memory -= usize::from(K::needs_memory(&entry.rule));
        if let Some(other) = K::looks_at(&entry.rule) {
            let looked_at = Arc::make_mut(&mut self.looked_at);
            if let Entry::Occupied(mut rules) = looked_at.entry(other.into()) {
                *rules.get_mut() -= 1;
                if *rules.get() == 0 {
                    rules.remove();
                }
            }
        }
    }
}

//! The rules of one kind in force, written once for all kinds.
//!
//! A table never changes; loading makes a new one from the old. A rule that
//! says what it said before shares its states with its predecessor, so tokens,
//! pacing times and open breakers live through a reload. A changed rule
//! starts anew.
//!
//! Making one costs a hash per rule and no more: 10,000 rules take a few
//! milliseconds.

mod erased;
mod reload;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use flowgate_core::sync::{Mutex, unpoisoned};

use crate::Settings;
use crate::head::{Head, Matcher, RuleMode};
use crate::hits::Hits;
use crate::kind::RuleKind;

pub(crate) use erased::AnyTable;
pub use erased::RuleInfo;

/// The rules of one kind, in the order of the document.
pub struct RuleTable<K: RuleKind> {
    entries: Vec<Arc<RuleEntry<K>>>,
    /// Entries for a resource by its exact name, ascending.
    exact: HashMap<Arc<str>, Vec<usize>>,
    /// Entries with a pattern, ascending.
    patterns: Vec<usize>,
    /// Entries for the resources that no other entry names, ascending.
    defaults: Vec<usize>,
}

/// A rule in force.
pub struct RuleEntry<K: RuleKind> {
    rule: K::Rule,
    id: Arc<str>,
    position: usize,
    matcher: Matcher,
    live: Arc<Live<K>>,
}

/// What lives on while a rule stays the same: shared by the entries of equal
/// rules of successive tables.
struct Live<K: RuleKind> {
    /// One state for each resource that the rule has met: a single one for a
    /// plain name, one per matched resource for a pattern.
    states: Mutex<HashMap<Arc<str>, Arc<K::State>>>,
    hits: Hits,
}

impl<K: RuleKind> Default for Live<K> {
    fn default() -> Self {
        Self {
            states: Mutex::default(),
            hits: Hits::default(),
        }
    }
}

impl<K: RuleKind> RuleEntry<K> {
    /// What the rule says.
    #[must_use]
    pub fn rule(&self) -> &K::Rule {
        &self.rule
    }

    /// Its id: as given, else `kind/resource#n`, where `n` counts the loaded
    /// rules of the same `resource` from 1.
    #[must_use]
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Its index in the document, in which dropped rules count too.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// What the rule says that every rule says.
    #[must_use]
    pub fn head(&self) -> &Head {
        K::head(&self.rule)
    }

    /// What the rule has done so far.
    #[must_use]
    pub fn hits(&self) -> &Hits {
        &self.live.hits
    }

    /// Whether the rule is for `resource`: the same name, or a pattern that
    /// matches all of it. The default rule `*` is for all resources, as far as
    /// it can tell.
    #[must_use]
    pub fn matches(&self, resource: &str) -> bool {
        self.matcher.matches(&self.head().resource, resource)
    }

    /// What the rule remembers of `resource`; made at the first request.
    ///
    /// Takes a lock, so it belongs where chains are built, not on the path of
    /// a call.
    #[must_use]
    pub fn state_for(&self, resource: &str, settings: &Settings) -> Arc<K::State> {
        let mut states = unpoisoned(self.live.states.lock());
        if let Some(state) = states.get(resource) {
            return Arc::clone(state);
        }
        let state = Arc::new(K::new_state(&self.rule, settings));
        states.insert(Arc::from(resource), Arc::clone(&state));
        state
    }

    /// What the rule remembers of `resource`, if anything yet. Creates
    /// nothing.
    #[must_use]
    pub fn state_of(&self, resource: &str) -> Option<Arc<K::State>> {
        let states = unpoisoned(self.live.states.lock());
        states.get(resource).map(Arc::clone)
    }

    /// The resources of which the rule remembers something, with that.
    #[must_use]
    pub fn states(&self) -> Vec<(Arc<str>, Arc<K::State>)> {
        let states = unpoisoned(self.live.states.lock());
        let pairs = states.iter();
        pairs
            .map(|(name, state)| (Arc::clone(name), Arc::clone(state)))
            .collect()
    }

    /// Forgets what the rule remembers of `resource`, when that is evicted.
    pub fn forget(&self, resource: &str) {
        let mut states = unpoisoned(self.live.states.lock());
        states.remove(resource);
    }
}

impl<K: RuleKind> RuleTable<K> {
    /// All rules, in the order of the document.
    #[must_use]
    pub fn entries(&self) -> &[Arc<RuleEntry<K>>] {
        &self.entries
    }

    /// How many rules there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The rules that act on `resource`, in the order of the document: those
    /// that name it, or whose pattern matches it; if there are none, those for
    /// `*`. A rule that is off names its resource and does not act. Costs one
    /// hash and a match per pattern.
    #[must_use]
    pub fn matching(&self, resource: &str) -> Vec<Arc<RuleEntry<K>>> {
        let mut found = self.exact.get(resource).cloned().unwrap_or_default();
        let named = found.len();
        let matched = self
            .patterns
            .iter()
            .filter(|index| self.entries[**index].matches(resource));
        found.extend(matched);
        if found.is_empty() {
            found.clone_from(&self.defaults);
        } else if named > 0 && found.len() > named {
            found.sort_unstable();
        }
        found
            .into_iter()
            .map(|index| &self.entries[index])
            .filter(|entry| entry.head().mode != RuleMode::Off)
            .map(Arc::clone)
            .collect()
    }

    /// The rules that are or were for `resource`, whether they act or not, and
    /// all for `*`.
    pub(crate) fn entries_for<'t>(
        &'t self,
        resource: &'t str,
    ) -> impl Iterator<Item = &'t Arc<RuleEntry<K>>> {
        let named = self.exact.get(resource).into_iter().flatten();
        let matched = self.patterns.iter();
        let matched = matched.filter(move |index| self.entries[**index].matches(resource));
        let indexes = named.chain(matched).chain(&self.defaults);
        indexes.map(|index| &self.entries[*index])
    }

    /// All rules that act, whatever they are for, in the order of the document.
    pub fn acting(&self) -> impl Iterator<Item = &Arc<RuleEntry<K>>> {
        let entries = self.entries.iter();
        entries.filter(|entry| entry.head().mode != RuleMode::Off)
    }

    /// The rules whose `resource` is written exactly so, patterns included, in
    /// the order of the document.
    pub fn by_resource<'t>(
        &'t self,
        resource: &'t str,
    ) -> impl Iterator<Item = &'t Arc<RuleEntry<K>>> {
        self.entries
            .iter()
            .filter(move |entry| entry.head().resource == resource)
    }

    /// The rule with this id.
    #[must_use]
    pub fn by_id(&self, id: &str) -> Option<&Arc<RuleEntry<K>>> {
        self.entries.iter().find(|entry| &*entry.id == id)
    }

    /// The resources named by rules, each once, in no order; patterns are
    /// not among them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.exact.keys().map(|name| &**name)
    }

    /// Whether a rule may be for resources that it does not name.
    #[must_use]
    pub fn has_patterns(&self) -> bool {
        !self.patterns.is_empty() || !self.defaults.is_empty()
    }

    fn index(entries: Vec<Arc<RuleEntry<K>>>) -> Self {
        let mut exact: HashMap<Arc<str>, Vec<usize>> = HashMap::new();
        let (mut patterns, mut defaults) = (Vec::new(), Vec::new());
        for (index, entry) in entries.iter().enumerate() {
            let name = &*entry.head().resource;
            match entry.matcher {
                Matcher::Prefix | Matcher::Pattern(_) => patterns.push(index),
                Matcher::Default => defaults.push(index),
                Matcher::Exact => match exact.get_mut(name) {
                    Some(indexes) => indexes.push(index),
                    None => {
                        exact.insert(Arc::from(name), vec![index]);
                    }
                },
            }
        }
        Self {
            entries,
            exact,
            patterns,
            defaults,
        }
    }
}

impl<K: RuleKind> Default for RuleTable<K> {
    fn default() -> Self {
        Self::index(Vec::new())
    }
}

impl<K: RuleKind> fmt::Debug for RuleTable<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.entries).finish()
    }
}

impl<K: RuleKind> fmt::Debug for RuleEntry<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleEntry")
            .field("id", &self.id)
            .field("position", &self.position)
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}

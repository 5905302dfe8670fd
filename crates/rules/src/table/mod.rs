//! The rules of one kind in force, written once for all kinds.
//!
//! A table never changes; loading makes a new one from the old. A rule that
//! says what it said before shares its states with its predecessor, so tokens,
//! pacing times and open breakers live through a reload. A changed rule
//! starts anew.
//!
//! ```text
//! index   names to what has them: a change of one copies little
//! group   the rules of one `resource`, in their places
//! totals  what an engine asks of all rules together
//! reload  from one table to the next, through sorting (which rules are in)
//!         and succession (what they are called, whose state lives on)
//! ```
//!
//! Making one costs a hash per rule and no more. Replacing the rules of one
//! resource costs what these do, and the square root of the others.

mod erased;
mod group;
mod index;
mod reload;
mod sorting;
mod succession;
mod totals;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use flowgate_core::sync::{Mutex, OnceLock, unpoisoned};

use crate::Settings;
use crate::head::{Head, Matcher, RuleMode};
use crate::hits::Hits;
use crate::kind::{RuleKind, Scope};
use group::{Group, Placed};
use index::Index;
use totals::Totals;

pub(crate) use erased::AnyTable;
pub use erased::RuleInfo;
pub(crate) use index::hash_of;

/// The rules of one kind, in the order of the document.
pub struct RuleTable<K: RuleKind> {
    /// All rules, by what they write in `resource`.
    groups: Index<Arc<Group<K>>>,
    /// Those that were given an id, by that.
    ids: Index<Arc<RuleEntry<K>>>,
    /// Those with a pattern, in the order of their places.
    patterns: Arc<[Placed<K>]>,
    /// Those for the resources that no other rule names, too.
    defaults: Arc<[Placed<K>]>,
    /// Since which revision patterns and defaults are as they are.
    wide_since: u64,
    /// The revision of all rules that it came with.
    revision: u64,
    totals: Totals,
    /// The first place behind all rules that there ever were since a list
    /// replaced all.
    end: u64,
    /// Whether some rules came otherwise than with the list that replaced all.
    is_patched: bool,
    /// All rules in order; made when somebody asks.
    listed: OnceLock<Box<[Arc<RuleEntry<K>>]>>,
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

    /// Its index in the list that it came with, in which dropped rules count
    /// too.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// What the rule says that every rule says.
    #[must_use]
    pub fn head(&self) -> &Head {
        K::head(&self.rule)
    }

    /// Whether it does anything.
    pub(crate) fn acts(&self) -> bool {
        self.head().mode != RuleMode::Off
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
    /// All rules, in the order of the document. Asking a table for the first
    /// time sorts them.
    #[must_use]
    pub fn entries(&self) -> &[Arc<RuleEntry<K>>] {
        self.listed.get_or_init(|| {
            let groups = self.groups.iter();
            let mut all: Vec<&Placed<K>> = groups.flat_map(|(_, group)| &group.rules).collect();
            all.sort_unstable_by_key(|rule| rule.place);
            all.iter().map(|rule| Arc::clone(&rule.entry)).collect()
        })
    }

    /// All rules with their indexes in the document, in which dropped rules
    /// count too unless a change of some rules has come since.
    pub fn positions(&self) -> impl Iterator<Item = (usize, &Arc<RuleEntry<K>>)> {
        let entries = self.entries().iter().enumerate();
        entries.map(|(index, entry)| match self.is_patched {
            true => (index, entry),
            false => (entry.position, entry),
        })
    }

    /// How many rules there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.totals.rules
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rules that act on `resource`, in the order of the document: those
    /// that name it, or whose pattern matches it; if there are none, those for
    /// `*`. A rule that is off names its resource and does not act. Costs one
    /// hash and a match per pattern.
    #[must_use]
    pub fn matching(&self, resource: &str) -> Vec<Arc<RuleEntry<K>>> {
        let mut found: Vec<&Placed<K>> = Vec::new();
        if let Some(group) = self.group(hash_of(resource), resource) {
            found.extend(group.exact());
        }
        let named = found.len();
        let patterns = self.patterns.iter();
        found.extend(patterns.filter(|rule| rule.entry.matches(resource)));
        if found.is_empty() {
            found.extend(&*self.defaults);
        } else if named > 0 && found.len() > named {
            found.sort_unstable_by_key(|rule| rule.place);
        }
        found
            .into_iter()
            .map(|rule| &rule.entry)
            .filter(|entry| entry.acts())
            .map(Arc::clone)
            .collect()
    }

    /// The rules that are or were for `resource`, whether they act or not, and
    /// all for `*`.
    pub(crate) fn entries_for<'t>(
        &'t self,
        resource: &'t str,
    ) -> impl Iterator<Item = &'t Arc<RuleEntry<K>>> {
        let group = self.group(hash_of(resource), resource);
        let named = group.into_iter().flat_map(|group| group.exact());
        let matched = self.patterns.iter();
        let matched = matched.filter(move |rule| rule.entry.matches(resource));
        let rules = named.chain(matched).chain(&*self.defaults);
        rules.map(|rule| &rule.entry)
    }

    /// All rules that act, whatever they are for, in the order of the document.
    pub fn acting(&self) -> impl Iterator<Item = &Arc<RuleEntry<K>>> {
        let entries = self.entries().iter();
        entries.filter(|entry| entry.acts())
    }

    /// The rules whose `resource` is written exactly so, patterns included, in
    /// the order of the document.
    pub fn by_resource(&self, resource: &str) -> impl Iterator<Item = &Arc<RuleEntry<K>>> {
        let group = self.group(hash_of(resource), resource);
        let rules = group.into_iter().flat_map(|group| &group.rules);
        rules.map(|rule| &rule.entry)
    }

    /// The rule with this id.
    #[must_use]
    pub fn by_id(&self, id: &str) -> Option<&Arc<RuleEntry<K>>> {
        let given = self.ids.get(hash_of(id), id);
        let made_up = || {
            let resource = resource_of_id::<K>(id)?;
            self.by_resource(resource).find(|entry| &*entry.id == id)
        };
        given.or_else(made_up)
    }

    /// The resources named by rules, each once, in no order; patterns are
    /// not among them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let groups = self.groups.iter();
        let exact = groups.filter_map(|(_, group)| group.exact().next());
        exact.map(|rule| &*rule.entry.head().resource)
    }

    /// Whether a rule may be for resources that it does not name.
    #[must_use]
    pub fn has_patterns(&self) -> bool {
        !self.patterns.is_empty() || !self.defaults.is_empty()
    }

    fn group(&self, hash: u64, resource: &str) -> Option<&Arc<Group<K>>> {
        self.groups.get(hash, resource)
    }
}

/// The `resource` of the rules that could have this id without having been given
/// it.
fn resource_of_id<K: RuleKind>(id: &str) -> Option<&str> {
    let (name, ordinal) = id.strip_prefix(K::NAME)?.rsplit_once('#')?;
    ordinal
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(())?;
    match K::SCOPE {
        Scope::Resource => name.strip_prefix('/'),
        Scope::Engine => name.is_empty().then_some(""),
    }
}

impl<K: RuleKind> Default for RuleTable<K> {
    fn default() -> Self {
        Self {
            groups: Index::of(Vec::new()),
            ids: Index::of(Vec::new()),
            patterns: Arc::from([]),
            defaults: Arc::from([]),
            wide_since: 0,
            revision: 0,
            totals: Totals::default(),
            end: 0,
            is_patched: false,
            listed: OnceLock::new(),
        }
    }
}

impl<K: RuleKind> fmt::Debug for RuleTable<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries()).finish()
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

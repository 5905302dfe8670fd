//! From one table to the next: which rules are in, what they are called, whose
//! state lives on.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Live, RuleEntry, RuleTable};
use crate::accounting::Accountings;
use crate::document::{Draft, Duplicate, Fault, KindReport, Loading, Origin, Warning};
use crate::kind::{RuleKind, Scope};
use crate::kinds::Change;

impl<K: RuleKind> RuleTable<K> {
    /// The table of `drafts` in succession to this one. Tells `loading` of
    /// duplicates, of ids given twice, and of what changed.
    pub(crate) fn replace(
        &self,
        drafts: Vec<Draft<K>>,
        faulty: usize,
        loading: &mut Loading<'_>,
    ) -> Self {
        let given: HashSet<String> = drafts
            .iter()
            .filter_map(|draft| K::head(&draft.rule).id.clone())
            .collect();
        let total = drafts.len() + faulty;
        let mut sorting = Sorting::default();
        sorting.keep_ids(&drafts);
        let drafts: Vec<Draft<K>> = drafts
            .into_iter()
            .filter_map(|draft| sorting.admit(draft, loading))
            .collect();
        let mut report = KindReport {
            kind: K::NAME,
            active: drafts.len(),
            skipped: total - drafts.len() - sorting.duplicates,
            ..KindReport::default()
        };
        let entries = Succession::new(self, given).entries(drafts, &mut report);
        report.accountings = Accountings::of(entries.iter().map(|it| K::accounting(it.rule())));
        loading.report.kinds.push(report);
        Self::index(entries)
    }
}

impl<K: RuleKind> RuleTable<K> {
    /// As [`replace`](Self::replace), with `drafts` in the place of some rules
    /// only. Where rules stay, the new ones stand where the first of those that
    /// go stood.
    pub(crate) fn replace_some(
        &self,
        change: Change<'_>,
        drafts: Vec<Draft<K>>,
        faulty: usize,
        loading: &mut Loading<'_>,
    ) -> Self {
        let goes = |entry: &RuleEntry<K>| match change {
            Change::Append => false,
            Change::Resource(resource) => entry.head().resource == resource,
            Change::Id(id) => &*entry.id == id,
        };
        let place = self.entries.iter().position(|entry| goes(entry));
        let place = place.unwrap_or(self.entries.len());
        let mut all: Vec<Draft<K>> = Vec::with_capacity(self.entries.len() + drafts.len());
        let (before, behind) = self.entries.split_at(place);
        let stay = |entries: &[Arc<RuleEntry<K>>]| -> Vec<Draft<K>> {
            let staying = entries.iter().filter(|entry| !goes(entry));
            staying.map(|entry| entry.draft()).collect()
        };
        all.extend(stay(before));
        all.extend(drafts);
        all.extend(stay(behind));
        for (position, draft) in all.iter_mut().enumerate() {
            draft.position = position;
        }
        self.replace(all, faulty, loading)
    }
}

impl<K: RuleKind> RuleEntry<K> {
    /// The rule as it was read.
    fn draft(&self) -> Draft<K> {
        Draft {
            rule: self.rule.clone(),
            position: self.position,
            origin: Origin::InForce(Arc::clone(&self.id)),
            matcher: self.matcher.clone(),
            place: None,
        }
    }
}

/// Which rules of a list are in: no second of the same content, no second of
/// the same id.
struct Sorting<K: RuleKind> {
    /// Rules let in.
    seen: HashMap<K::Rule, Known>,
    /// What they mean.
    meant: HashMap<K::Rule, Known>,
    /// Ids given, with the rule that has it.
    owners: HashMap<String, Known>,
    duplicates: usize,
}

/// A rule that others are compared with.
#[derive(Debug, Clone)]
struct Known {
    position: usize,
    origin: Origin,
}

impl Known {
    fn of<K: RuleKind>(draft: &Draft<K>) -> Self {
        Self {
            position: draft.position,
            origin: draft.origin.clone(),
        }
    }
}

impl<K: RuleKind> Default for Sorting<K> {
    fn default() -> Self {
        Self {
            seen: HashMap::new(),
            meant: HashMap::new(),
            owners: HashMap::new(),
            duplicates: 0,
        }
    }
}

impl<K: RuleKind> Sorting<K> {
    /// Rules in force that stay keep their ids, also before those that are given
    /// in front of them.
    fn keep_ids(&mut self, drafts: &[Draft<K>]) {
        for draft in drafts {
            if let (Origin::InForce(_), Some(id)) = (&draft.origin, &K::head(&draft.rule).id) {
                self.owners.insert(id.clone(), Known::of(draft));
            }
        }
    }

    fn admit(&mut self, draft: Draft<K>, loading: &mut Loading<'_>) -> Option<Draft<K>> {
        let known = Known::of(&draft);
        let path = known.origin.shown(K::NAME);
        // The same rule once more may bring its id along; another may not.
        let original = self.seen.get(&draft.rule).cloned();
        let original_position = original.as_ref().map(|original| original.position);
        if let Some(id) = K::head(&draft.rule).id.as_deref() {
            match self.owners.entry(id.to_owned()) {
                Entry::Vacant(vacant) => {
                    vacant.insert(original.clone().unwrap_or_else(|| known.clone()));
                }
                Entry::Occupied(owner) if is_same_rule(owner.get(), &known, original_position) => {}
                Entry::Occupied(owner) => {
                    let owner = owner.get().origin.shown(K::NAME);
                    loading.faults.push(Fault {
                        path: format!("{path}.id"),
                        place: draft.place,
                        message: format!(
                            "{id} is the id of {owner} too; give each rule its own, or none"
                        ),
                    });
                    return None;
                }
            }
        }
        if let Some(original) = original {
            self.duplicates += 1;
            loading.report.duplicates.push(Duplicate {
                kind: K::NAME,
                position: match known.origin {
                    Origin::Given(position) => position,
                    Origin::InForce(_) => known.position,
                },
                original: original.position,
            });
            loading.warnings.push(Warning {
                path,
                place: draft.place,
                message: format!(
                    "says the same as {} and was loaded once; remove one",
                    original.origin.shown(K::NAME)
                ),
            });
            return None;
        }
        match self.meant.entry(K::normalized(&draft.rule)) {
            Entry::Vacant(vacant) => {
                vacant.insert(known.clone());
            }
            Entry::Occupied(first) => loading.warnings.push(Warning {
                path,
                place: draft.place,
                message: format!(
                    "means the same as {}, written otherwise; remove one",
                    first.get().origin.shown(K::NAME)
                ),
            }),
        }
        self.seen.insert(draft.rule.clone(), known);
        Some(draft)
    }
}

/// Whether the owner of an id is the rule itself, or the one that it repeats.
fn is_same_rule(owner: &Known, known: &Known, original: Option<usize>) -> bool {
    owner.position == known.position || Some(owner.position) == original
}

/// Finds for each new rule its predecessor in the old table.
struct Succession<'t, K: RuleKind> {
    by_rule: HashMap<&'t K::Rule, usize>,
    by_id: HashMap<&'t str, usize>,
    old: &'t RuleTable<K>,
    /// Ids that rules of the new list were given.
    given: HashSet<String>,
    /// How many new rules each resource has so far.
    ordinals: HashMap<String, usize>,
}

impl<'t, K: RuleKind> Succession<'t, K> {
    fn new(old: &'t RuleTable<K>, given: HashSet<String>) -> Self {
        let entries = || old.entries.iter().enumerate();
        Self {
            by_rule: entries()
                .map(|(index, entry)| (&entry.rule, index))
                .collect(),
            by_id: entries()
                .map(|(index, entry)| (&*entry.id, index))
                .collect(),
            old,
            given,
            ordinals: HashMap::new(),
        }
    }

    fn entries(mut self, drafts: Vec<Draft<K>>, report: &mut KindReport) -> Vec<Arc<RuleEntry<K>>> {
        let kept: Vec<Option<usize>> = drafts
            .iter()
            .map(|draft| self.by_rule.get(&draft.rule).copied())
            .collect();
        let mut gone = vec![true; self.old.entries.len()];
        for index in kept.iter().flatten() {
            gone[*index] = false;
        }
        let mut entries = Vec::with_capacity(drafts.len());
        for (draft, kept) in drafts.into_iter().zip(kept) {
            let id = self.id_of(&draft.rule);
            if let Some(index) = kept {
                report.kept.push(Arc::clone(&id));
                entries.push(self.keep(index, draft, id));
                continue;
            }
            match self.by_id.get(&*id) {
                Some(index) if gone[*index] => {
                    gone[*index] = false;
                    report.changed.push(Arc::clone(&id));
                }
                _ => report.added.push(Arc::clone(&id)),
            }
            entries.push(Arc::new(RuleEntry {
                rule: draft.rule,
                id,
                position: draft.position,
                matcher: draft.matcher,
                live: Arc::new(Live::default()),
            }));
        }
        let removed = self.old.entries.iter().zip(gone).filter(|(_, gone)| *gone);
        report.removed = removed.map(|(entry, _)| Arc::clone(&entry.id)).collect();
        entries
    }

    /// The old entry itself if nothing at all is new, else a new one on its
    /// states.
    fn keep(&self, index: usize, draft: Draft<K>, id: Arc<str>) -> Arc<RuleEntry<K>> {
        let old = &self.old.entries[index];
        let is_same = old.id == id
            && old.position == draft.position
            && old.head().id == K::head(&draft.rule).id;
        if is_same {
            return Arc::clone(old);
        }
        Arc::new(RuleEntry {
            rule: draft.rule,
            id,
            position: draft.position,
            matcher: draft.matcher,
            live: Arc::clone(&old.live),
        })
    }

    fn id_of(&mut self, rule: &K::Rule) -> Arc<str> {
        let head = K::head(rule);
        let resource = &*head.resource;
        let ordinal = match self.ordinals.get_mut(resource) {
            Some(ordinal) => ordinal,
            None => self.ordinals.entry(resource.to_owned()).or_default(),
        };
        *ordinal += 1;
        if let Some(id) = &head.id {
            return Arc::from(&**id);
        }
        loop {
            let id = match K::SCOPE {
                Scope::Resource => format!("{}/{resource}#{ordinal}", K::NAME),
                Scope::Engine => format!("{}#{ordinal}", K::NAME),
            };
            if !self.given.contains(&id) {
                return Arc::from(id);
            }
            *ordinal += 1;
        }
    }
}

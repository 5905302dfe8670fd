//! From one table to the next.
//!
//! A list that replaces all rules and one that replaces some go the same way.
//! Rules of one `resource` are looked at together, beside those that wrote the
//! same before: nothing of what is decided about a rule depends on rules of
//! another resource, but for ids. So a change of some rules looks at the
//! resources of these, and at those whose rules may be called otherwise now that
//! an id was given or is free; all other groups are the same objects as before.

use std::collections::HashSet;
use std::sync::Arc;

use flowgate_core::sync::OnceLock;

use super::group::{Group, Placed, SLOT, are_alike, stand_alike};
use super::index::{self, Index, Keyed};
use super::sorting::Sorting;
use super::succession::Succession;
use super::{Live, RuleEntry, RuleTable, Totals, hash_of, resource_of_id};
use crate::document::{Draft, KindReport, Loading, Origin};
use crate::head::{Head, Matcher};
use crate::kind::RuleKind;
use crate::kinds::Change;

/// A rule with the place that it is for.
pub(super) struct Given<K: RuleKind> {
    pub(super) draft: Draft<K>,
    pub(super) place: u64,
    /// Of its `resource`.
    hash: u64,
}

/// The rules of a table that a list is about.
enum About {
    All,
    /// Those of these resources.
    Some(HashSet<Arc<str>>),
}

impl<K: RuleKind> RuleTable<K> {
    /// The table of `drafts` in succession to this one. Tells `loading` of
    /// duplicates, of ids given twice, and of what changed.
    pub(crate) fn replace(
        &self,
        drafts: Vec<Draft<K>>,
        faulty: usize,
        loading: &mut Loading<'_>,
    ) -> Self {
        let end = (drafts.len() + faulty) as u64 * SLOT;
        let given = drafts.into_iter().map(|draft| {
            let place = draft.position as u64 * SLOT;
            Given::new(draft, place)
        });
        self.succeed(&About::All, given.collect(), faulty, end, loading)
    }

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
        let names = self.names_about(change, &drafts);
        let groups = || {
            let groups = names.iter();
            groups.filter_map(|name| self.group(hash_of(name), name))
        };
        let rules = || groups().flat_map(|group| &group.rules);
        let first = rules()
            .filter(|rule| goes(&rule.entry))
            .map(|rule| rule.place);
        let (mut end, first) = (self.end, first.min());
        let mut given: Vec<Given<K>> = rules()
            .filter(|rule| !goes(&rule.entry))
            .map(|rule| Given::new(rule.entry.draft(), rule.place))
            .collect();
        for (draft, index) in drafts.into_iter().zip(0..) {
            let place = match first {
                Some(first) => first + index,
                None => {
                    end += SLOT;
                    end - SLOT
                }
            };
            given.push(Given::new(draft, place));
        }
        given.sort_by_key(|rule| rule.place);
        self.succeed(&About::Some(names), given, faulty, end, loading)
    }

    /// The resources whose rules a change may be about.
    fn names_about(&self, change: Change<'_>, drafts: &[Draft<K>]) -> HashSet<Arc<str>> {
        let goes: Vec<&Arc<RuleEntry<K>>> = match change {
            Change::Append => Vec::new(),
            Change::Resource(resource) => self.by_resource(resource).collect(),
            Change::Id(id) => self.by_id(id).into_iter().collect(),
        };
        let heads = goes.iter().map(|entry| entry.head());
        let heads = heads.chain(drafts.iter().map(|draft| K::head(&draft.rule)));
        let names = heads.flat_map(|head| {
            let like_id = head.id.as_deref().and_then(resource_of_id::<K>);
            [Some(&*head.resource), like_id].into_iter().flatten()
        });
        names.map(Arc::from).collect()
    }

    /// `given` are all rules that there are going to be of what they are about,
    /// in the order of their places.
    fn succeed(
        &self,
        about: &About,
        given: Vec<Given<K>>,
        faulty: usize,
        end: u64,
        loading: &mut Loading<'_>,
    ) -> Self {
        let (total, revision) = (given.len() + faulty, loading.revision);
        // The rules of one resource side by side, in the order of the list.
        let mut by_name: Vec<(u64, usize)> = given.iter().map(|rule| rule.hash).zip(0..).collect();
        by_name.sort_unstable_by(|(hash, index), (other_hash, other)| {
            let by_hash = hash.cmp(other_hash);
            let by_name = by_hash.then_with(|| given[*index].name().cmp(given[*other].name()));
            by_name.then(index.cmp(other))
        });
        let is_alike = |(hash, index): &(u64, usize), (other_hash, other): &(u64, usize)| {
            hash == other_hash && given[*index].name() == given[*other].name()
        };
        let ends = by_name.chunk_by(is_alike).map(<[_]>::len);
        let ends: Vec<usize> = ends.collect();

        let others = |id: &str| {
            let owner = self.ids.get(hash_of(id), id)?;
            about.leaves(owner.head()).then(|| Arc::clone(&owner.id))
        };
        let mut sorting = Sorting::new(&given, others);
        let mut is_alone = vec![false; given.len()];
        for chunk in chunks(&by_name, &ends) {
            if let [(_, index)] = chunk {
                is_alone[*index] = true;
            }
        }
        let rules = given.iter().zip(is_alone).enumerate();
        let admitted: Vec<bool> = rules
            .map(|(index, (rule, is_alone))| sorting.admits(index, rule, is_alone, loading))
            .collect();
        let (duplicates, originals) = (sorting.duplicates, sorting.originals);
        let active = admitted.iter().filter(|admitted| **admitted).count();

        // A rule that is left out takes its id along.
        let ids = given
            .iter()
            .zip(&admitted)
            .filter(|(_, admitted)| **admitted);
        let ids = ids.filter_map(|(rule, _)| rule.id().map(str::to_owned));
        let ids: HashSet<String> = ids.collect();
        let has_ids = !ids.is_empty() || self.ids.len() > 0;
        let mut patterns = given.iter().map(|rule| &rule.draft.matcher);
        let has_patterns = !self.patterns.is_empty() || patterns.any(Matcher::is_pattern);
        let is_taken = |id: &str| has_ids && (ids.contains(id) || others(id).is_some());
        let mut succession = Succession::new(given.len(), revision, is_taken);
        (succession.has_ids, succession.has_patterns) = (has_ids, has_patterns);
        let given = given.into_iter().zip(admitted);
        let mut given: Vec<Option<Given<K>>> = given
            .map(|(rule, is_admitted)| is_admitted.then_some(rule))
            .collect();
        let mut groups: Groups<K> = Vec::with_capacity(ends.len());
        let mut succeeded = 0;
        for chunk in chunks(&by_name, &ends) {
            let first = chunk.iter().find_map(|(_, index)| given[*index].as_ref());
            if let Some(first) = first {
                let (hash, old) = (first.hash, self.group(first.hash, first.name()));
                succeeded += usize::from(old.is_some());
                groups.push((hash, succession.follow(old, chunk, &mut given)));
            }
        }
        let end = Ending {
            about,
            end,
            succeeded,
        };
        let table = self.with_groups(end, groups, &mut succession);

        for (report, place) in originals {
            let report = loading.report.duplicates.get_mut(report);
            if let (Some(report), true) = (report, table.is_patched) {
                report.original = table.before(place);
            }
        }
        let mut report = KindReport {
            kind: K::NAME,
            active: table.len(),
            untouched: table.len() - active,
            skipped: total - active - duplicates,
            accountings: table.totals.accountings,
            ..KindReport::default()
        };
        succession.report(&mut report);
        loading.report.kinds.push(report);
        loading.left.append(&mut succession.left);
        table
    }

    /// This table with these groups, sorted by their hashes, in the place of
    /// those that they are about.
    fn with_groups<T: Fn(&str) -> bool>(
        &self,
        ending: Ending<'_>,
        groups: Groups<K>,
        succession: &mut Succession<K, T>,
    ) -> Self {
        let Ending {
            about,
            end,
            succeeded,
        } = ending;
        let new = || groups.iter().flat_map(|(_, group)| &group.rules);
        let patterns = about.wide(&self.patterns, new(), Matcher::is_pattern);
        let defaults = about.wide(&self.defaults, new(), Matcher::is_default);
        let is_same =
            |old: &[Placed<K>], new: &[Placed<K>]| are_alike(old, new) && stand_alike(old, new);
        let is_same = is_same(&self.patterns, &patterns) && is_same(&self.defaults, &defaults);
        let mut totals = match about {
            About::All => Totals::default(),
            About::Some(_) => self.totals.clone(),
        };
        new().for_each(|rule| totals.add(&rule.entry));
        let with_ids = new()
            .map(|rule| &rule.entry)
            .filter(|entry| entry.head().id.is_some());
        let with_ids = with_ids.map(|entry| (hash_of(&entry.id), Arc::clone(entry)));
        let mut with_ids: Vec<(u64, Arc<RuleEntry<K>>)> = with_ids.collect();
        let (groups, ids) = match about {
            About::All => {
                with_ids.sort_by_key(|(hash, _)| *hash);
                let groups = Index::of(groups);
                if succeeded < self.groups.len() {
                    let olds = self.groups.iter();
                    let gone = olds.filter(|(hash, old)| groups.get(*hash, old.key()).is_none());
                    gone.for_each(|(_, old)| succession.end(old));
                }
                (groups, Index::of(with_ids))
            }
            About::Some(names) => {
                let mut changes = Vec::with_capacity(names.len());
                let mut id_changes = Vec::new();
                for name in names {
                    let hash = hash_of(name);
                    let old = self.group(hash, name);
                    let from = groups.partition_point(|(other, _)| *other < hash);
                    let alike = groups[from..]
                        .iter()
                        .take_while(|(other, _)| *other == hash);
                    let value = alike.map(|(_, new)| new).find(|new| new.key() == &**name);
                    if let (Some(old), None) = (old, value) {
                        succession.end(old);
                    }
                    for rule in old.into_iter().flat_map(|old| &old.rules) {
                        totals.take_off(&rule.entry);
                        if rule.entry.head().id.is_some() {
                            let name = Arc::clone(&rule.entry.id);
                            id_changes.push(index::Change::none(name));
                        }
                    }
                    changes.push(index::Change {
                        hash,
                        name: Arc::clone(name),
                        value: value.cloned(),
                    });
                }
                id_changes.extend(with_ids.into_iter().map(|(hash, entry)| index::Change {
                    hash,
                    name: Arc::clone(&entry.id),
                    value: Some(entry),
                }));
                (self.groups.with(changes), self.ids.with(id_changes))
            }
        };
        Self {
            groups,
            ids,
            patterns,
            defaults,
            wide_since: if is_same {
                self.wide_since
            } else {
                succession.revision
            },
            revision: succession.revision,
            totals,
            end,
            is_patched: matches!(about, About::Some(_)),
            listed: OnceLock::new(),
        }
    }

    /// How many rules stand before `place`.
    fn before(&self, place: u64) -> usize {
        let groups = self.groups.iter();
        let rules = groups.flat_map(|(_, group)| &group.rules);
        rules.filter(|rule| rule.place < place).count()
    }
}

/// Groups with the hashes of their names.
type Groups<K> = Vec<(u64, Arc<Group<K>>)>;

/// What a table ends with.
struct Ending<'a> {
    about: &'a About,
    /// The first place behind all rules.
    end: u64,
    /// How many old groups have a successor.
    succeeded: usize,
}

/// `all` in pieces of these lengths.
fn chunks<'a, T>(mut all: &'a [T], lens: &'a [usize]) -> impl Iterator<Item = &'a [T]> {
    lens.iter().map_while(move |len| {
        let (chunk, rest) = all.split_at_checked(*len)?;
        all = rest;
        Some(chunk)
    })
}

impl About {
    /// Rules of one sort: of `old` those that it leaves, and of `new`.
    fn wide<'r, K: RuleKind>(
        &self,
        old: &'r [Placed<K>],
        new: impl Iterator<Item = &'r Placed<K>>,
        is_such: fn(&Matcher) -> bool,
    ) -> Arc<[Placed<K>]> {
        let old = old.iter().filter(|rule| self.leaves(rule.entry.head()));
        let new = new.filter(|rule| is_such(&rule.entry.matcher));
        let mut all: Vec<Placed<K>> = old.chain(new).cloned().collect();
        all.sort_unstable_by_key(|rule| rule.place);
        all.into()
    }

    /// Whether it is not about the rules with this head.
    fn leaves(&self, head: &Head) -> bool {
        match self {
            Self::All => false,
            Self::Some(names) => !names.contains(&*head.resource),
        }
    }
}

impl<K: RuleKind> Given<K> {
    fn new(draft: Draft<K>, place: u64) -> Self {
        let hash = hash_of(&K::head(&draft.rule).resource);
        Self { draft, place, hash }
    }

    /// What it writes in `resource`.
    fn name(&self) -> &str {
        &K::head(&self.draft.rule).resource
    }

    /// The id that it was given.
    pub(super) fn id(&self) -> Option<&str> {
        K::head(&self.draft.rule).id.as_deref()
    }

    pub(super) fn into_entry(self, id: Arc<str>, live: Arc<Live<K>>) -> Arc<RuleEntry<K>> {
        Arc::new(RuleEntry {
            rule: self.draft.rule,
            id,
            position: self.draft.position,
            matcher: self.draft.matcher,
            live,
        })
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

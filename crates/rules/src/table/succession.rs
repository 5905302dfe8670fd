//! What becomes of the rules of one `resource`: what they are called, whose
//! state lives on.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use smallvec::SmallVec;

use super::group::{Group, Placed, are_alike, stand_alike};
use super::reload::Given;
use super::{Live, RuleEntry};
use crate::document::KindReport;
use crate::kind::{RuleKind, Scope};

/// From here on rules of one resource are hashed to be compared.
const MANY: usize = 8;

pub(super) struct Succession<K: RuleKind, T> {
    /// Whether an id was given to a rule, so that none is made up like it.
    pub(super) is_taken: T,
    pub(super) revision: u64,
    /// Whether it decides about calls what stands before what else.
    pub(super) has_patterns: bool,
    /// Whether a rule may be called as one of another `resource` was.
    pub(super) has_ids: bool,
    /// What became of each rule of the list, by its index in that.
    pub(super) fates: Vec<Option<(Fate, Arc<str>)>>,
    /// Rules that are in force no longer.
    pub(super) gone: Vec<Placed<K>>,
    /// Entries that are not in the new table. The rules of some of them are.
    pub(super) left: Vec<Arc<dyn Any + Send + Sync>>,
    /// An id while it is made up.
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    Changed,
    Added,
    /// Added, or changed under an id that a rule of another resource had.
    Open,
}

impl<K: RuleKind, T: Fn(&str) -> bool> Succession<K, T> {
    /// Of a list of `len` rules.
    pub(super) fn new(len: usize, revision: u64, is_taken: T) -> Self {
        Self {
            is_taken,
            revision,
            has_patterns: false,
            has_ids: false,
            fates: vec![None; len],
            gone: Vec::new(),
            left: Vec::new(),
            text: String::new(),
        }
    }

    /// The group of the rules of `given` with these indexes, which all write the
    /// same in `resource`, in succession to that of the same name.
    pub(super) fn follow(
        &mut self,
        old: Option<&Arc<Group<K>>>,
        new: &[(u64, usize)],
        given: &mut [Option<Given<K>>],
    ) -> Arc<Group<K>> {
        let olds: &[Placed<K>] = old.map_or(&[], |old| &old.rules);
        let known = Olds::of(olds, new.len());
        // Of which old rules there is one that succeeds them.
        let mut lives_on: SmallVec<[bool; MANY]> = SmallVec::from_elem(false, olds.len());
        let mut rules = SmallVec::new();
        let mut changed: SmallVec<[(usize, Arc<str>); MANY]> = SmallVec::new();
        let mut ordinal = 0;
        for (_, index) in new {
            let index = *index;
            let Some(given) = given.get_mut(index).and_then(Option::take) else {
                continue;
            };
            let id = self.id_of(&given.draft.rule, &mut ordinal);
            let place = given.place;
            let kept = known.equal_to(&given.draft.rule);
            let entry = match kept.and_then(|at| Some((at, olds.get(at)?))) {
                Some((at, old)) => {
                    lives_on[at] = true;
                    self.fates[index] = Some((Fate::Kept, Arc::clone(&id)));
                    keep(&old.entry, given, id)
                }
                None => {
                    changed.push((index, Arc::clone(&id)));
                    given.into_entry(id, Arc::new(Live::default()))
                }
            };
            rules.push(Placed { place, entry });
        }
        for (index, id) in changed {
            let same_id = known.called(&id).filter(|at| !lives_on[*at]);
            let fate = match same_id {
                Some(at) => {
                    lives_on[at] = true;
                    Fate::Changed
                }
                None if self.has_ids => Fate::Open,
                None => Fate::Added,
            };
            self.fates[index] = Some((fate, id));
        }
        for (old, lives_on) in olds.iter().zip(lives_on) {
            if !lives_on {
                self.gone.push(old.clone());
            }
        }
        self.settle(old, rules)
    }

    /// The rules of a resource of which no rule is left.
    pub(super) fn end(&mut self, old: &Group<K>) {
        self.gone.extend(old.rules.iter().cloned());
        self.leave(&old.rules, &[]);
    }

    /// The old group itself if nothing at all is new.
    fn settle(
        &mut self,
        old: Option<&Arc<Group<K>>>,
        rules: SmallVec<[Placed<K>; 1]>,
    ) -> Arc<Group<K>> {
        let mut since = self.revision;
        if let Some(old) = old {
            if are_alike(&old.rules, &rules) {
                let stands = stand_alike(&old.rules, &rules);
                let mut pairs = old.rules.iter().zip(&rules);
                if stands && pairs.all(|(old, new)| Arc::ptr_eq(&old.entry, &new.entry)) {
                    return Arc::clone(old);
                }
                if stands || !self.has_patterns {
                    since = old.since;
                }
            }
            self.leave(&old.rules, &rules);
        }
        Arc::new(Group { rules, since })
    }

    fn leave(&mut self, old: &[Placed<K>], new: &[Placed<K>]) {
        let is_there = |old: &Placed<K>| {
            let same_place = |new: &Placed<K>| Arc::ptr_eq(&new.entry, &old.entry);
            // Beyond a few it does no harm to keep some for a while.
            new.iter().take(MANY).any(same_place)
        };
        let left = old.iter().filter(|old| !is_there(old));
        self.left
            .extend(left.map(|old| -> Arc<dyn Any + Send + Sync> { Arc::clone(&old.entry) as _ }));
    }

    /// Tells `report` what became of the rules, in the order of the list.
    pub(super) fn report(&mut self, report: &mut KindReport) {
        self.gone.sort_unstable_by_key(|rule| rule.place);
        let mut is_gone = vec![true; self.gone.len()];
        let is_open = |fate: &Option<(Fate, _)>| matches!(fate, Some((Fate::Open, _)));
        let open = self.fates.iter().any(is_open);
        let by_id: HashMap<&str, usize> = match open {
            true => self
                .gone
                .iter()
                .zip(0..)
                .map(|(rule, at)| (&**rule.entry.id(), at))
                .collect(),
            false => HashMap::new(),
        };
        for (fate, id) in self.fates.drain(..).flatten() {
            let fate = match (fate, by_id.get(&*id)) {
                (Fate::Open, Some(at)) => {
                    is_gone[*at] = false;
                    Fate::Changed
                }
                (fate, _) => fate,
            };
            match fate {
                Fate::Kept => report.kept.push(id),
                Fate::Changed => report.changed.push(id),
                Fate::Added | Fate::Open => report.added.push(id),
            }
        }
        let gone = self.gone.iter().zip(is_gone).filter(|(_, gone)| *gone);
        report.removed = gone.map(|(rule, _)| Arc::clone(rule.entry.id())).collect();
    }

    fn id_of(&mut self, rule: &K::Rule, ordinal: &mut usize) -> Arc<str> {
        let head = K::head(rule);
        *ordinal += 1;
        if let Some(id) = &head.id {
            return Arc::from(&**id);
        }
        loop {
            self.text.clear();
            // Writing to a string does not fail.
            let _ = match K::SCOPE {
                Scope::Resource => write!(self.text, "{}/{}#{ordinal}", K::NAME, head.resource),
                Scope::Engine => write!(self.text, "{}#{ordinal}", K::NAME),
            };
            if !(self.is_taken)(&self.text) {
                return Arc::from(&*self.text);
            }
            *ordinal += 1;
        }
    }
}

/// The old entry itself if nothing at all is new, else a new one on its states.
fn keep<K: RuleKind>(old: &Arc<RuleEntry<K>>, given: Given<K>, id: Arc<str>) -> Arc<RuleEntry<K>> {
    let is_same = old.id == id
        && old.position == given.draft.position
        && old.head().id.as_deref() == given.id();
    match is_same {
        true => Arc::clone(old),
        false => given.into_entry(id, Arc::clone(&old.live)),
    }
}

/// Old rules of one resource, to be found among.
enum Olds<'o, K: RuleKind> {
    Few(&'o [Placed<K>]),
    Many {
        by_rule: HashMap<&'o K::Rule, usize>,
        by_id: HashMap<&'o str, usize>,
    },
}

impl<'o, K: RuleKind> Olds<'o, K> {
    /// For `seekers` to look among.
    fn of(olds: &'o [Placed<K>], seekers: usize) -> Self {
        if olds.len().min(seekers) <= MANY {
            return Self::Few(olds);
        }
        let all = || olds.iter().zip(0..);
        Self::Many {
            by_rule: all().map(|(old, at)| (old.entry.rule(), at)).collect(),
            by_id: all().map(|(old, at)| (&**old.entry.id(), at)).collect(),
        }
    }

    /// The old rule that says the same.
    fn equal_to(&self, rule: &K::Rule) -> Option<usize> {
        match self {
            Self::Few(olds) => olds.iter().position(|old| old.entry.rule() == rule),
            Self::Many { by_rule, .. } => by_rule.get(rule).copied(),
        }
    }

    fn called(&self, id: &str) -> Option<usize> {
        match self {
            Self::Few(olds) => olds.iter().position(|old| **old.entry.id() == *id),
            Self::Many { by_id, .. } => by_id.get(id).copied(),
        }
    }
}

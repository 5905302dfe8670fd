//! Which rules of a list are in: no second of the same content, no second of
//! the same id.
//!
//! What a rule says includes its `resource`. So a rule whose `resource` nobody
//! else writes has no equal, and is not compared.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::reload::Given;
use crate::document::{Duplicate, Fault, Loading, Origin, Warning};
use crate::kind::RuleKind;

pub(super) struct Sorting<'g, K: RuleKind, O> {
    /// Rules let in.
    seen: HashMap<&'g K::Rule, Known>,
    /// What they mean.
    meant: HashMap<K::Rule, Known>,
    /// Ids given, with the rule that has it.
    owners: HashMap<&'g str, Known>,
    /// An id, if a rule has it that is in force, stays, and is not in the list.
    others: O,
    pub(super) duplicates: usize,
    /// Of which report of a duplicate the original is in which place.
    pub(super) originals: Vec<(usize, u64)>,
}

/// A rule that others are compared with.
#[derive(Debug, Clone)]
struct Known {
    /// Which of the list.
    index: usize,
    place: u64,
    position: usize,
    origin: Origin,
}

impl Known {
    fn of<K: RuleKind>(index: usize, given: &Given<K>) -> Self {
        Self {
            index,
            place: given.place,
            position: given.draft.position,
            origin: given.draft.origin.clone(),
        }
    }
}

impl<'g, K, O> Sorting<'g, K, O>
where
    K: RuleKind,
    O: Fn(&str) -> Option<Arc<str>>,
{
    /// Sorts `given`; rules in force that stay keep their ids, also before those
    /// that are given in front of them.
    pub(super) fn new(given: &'g [Given<K>], others: O) -> Self {
        let mut owners = HashMap::new();
        for (index, rule) in given.iter().enumerate() {
            if let (Origin::InForce(_), Some(id)) = (&rule.draft.origin, rule.id()) {
                owners.insert(id, Known::of(index, rule));
            }
        }
        Self {
            seen: HashMap::new(),
            meant: HashMap::new(),
            owners,
            others,
            duplicates: 0,
            originals: Vec::new(),
        }
    }

    /// Whether the rule at `index` is in. `is_alone`: nobody else is of its
    /// `resource`.
    pub(super) fn admits(
        &mut self,
        index: usize,
        given: &'g Given<K>,
        is_alone: bool,
        loading: &mut Loading<'_>,
    ) -> bool {
        if is_alone && given.id().is_none() {
            return true;
        }
        let known = Known::of(index, given);
        // The same rule once more may bring its id along; another may not.
        let original = self.seen.get(&given.draft.rule).cloned();
        if let Some(id) = given.id()
            && let Some(owner) = self.take_id(id, &known, original.as_ref())
        {
            loading.faults.push(Fault {
                path: format!("{}.id", known.origin.shown(K::NAME)),
                place: given.draft.place,
                message: format!("{id} is the id of {owner} too; give each rule its own, or none"),
            });
            return false;
        }
        if is_alone {
            return true;
        }
        if let Some(original) = original {
            self.repeats(&known, &original, given, loading);
            return false;
        }
        match self.meant.entry(K::normalized(&given.draft.rule)) {
            Entry::Vacant(vacant) => {
                vacant.insert(known.clone());
            }
            Entry::Occupied(first) => loading.warnings.push(Warning {
                path: known.origin.shown(K::NAME),
                place: given.draft.place,
                message: format!(
                    "means the same as {}, written otherwise; remove one",
                    first.get().origin.shown(K::NAME)
                ),
            }),
        }
        self.seen.insert(&given.draft.rule, known);
        true
    }

    /// Gives `id` to a rule, or to the one that it repeats; who has it, if
    /// that is another.
    fn take_id(&mut self, id: &'g str, known: &Known, original: Option<&Known>) -> Option<String> {
        if let Some(id) = (self.others)(id) {
            return Some(Origin::InForce(id).shown(K::NAME));
        }
        match self.owners.entry(id) {
            Entry::Vacant(vacant) => {
                vacant.insert(original.unwrap_or(known).clone());
                None
            }
            Entry::Occupied(owner) => {
                let owner = owner.get();
                let is_same = owner.index == known.index
                    || original.is_some_and(|original| original.index == owner.index);
                (!is_same).then(|| owner.origin.shown(K::NAME))
            }
        }
    }

    fn repeats(
        &mut self,
        known: &Known,
        original: &Known,
        given: &Given<K>,
        loading: &mut Loading<'_>,
    ) {
        self.duplicates += 1;
        let reports = &mut loading.report.duplicates;
        self.originals.push((reports.len(), original.place));
        reports.push(Duplicate {
            kind: K::NAME,
            position: match known.origin {
                Origin::Given(position) => position,
                Origin::InForce(_) => known.position,
            },
            original: original.position,
        });
        loading.warnings.push(Warning {
            path: known.origin.shown(K::NAME),
            place: given.draft.place,
            message: format!(
                "says the same as {} and was loaded once; remove one",
                original.origin.shown(K::NAME)
            ),
        });
    }
}

//! The rules of one `resource`, and where they stand in the document.
//!
//! **Places.** A rule's place is a number; the order of the numbers is the order
//! of the document. A list that replaces all leaves 2³² numbers from each of its
//! rules to the next. Rules that replace those of one resource take numbers from
//! the place of the first of them on, and rules that are added begin 2³² behind
//! the last. So numbers that were left for the rules of one resource are only
//! ever taken by such, no two rules meet, and nobody else moves.

use std::sync::Arc;

use smallvec::SmallVec;

use super::RuleEntry;
use super::index::Keyed;
use crate::head::Matcher;
use crate::kind::RuleKind;

/// How far two rules of a list are apart.
pub(super) const SLOT: u64 = 1 << 32;

/// The rules whose `resource` is written alike, patterns included: at least one.
pub(super) struct Group<K: RuleKind> {
    /// In the order of their places.
    pub(super) rules: SmallVec<[Placed<K>; 1]>,
    /// Since which revision of all rules a chain can be made of them that is the
    /// same as one made now.
    pub(super) since: u64,
}

/// A rule in its place.
pub(super) struct Placed<K: RuleKind> {
    pub(super) place: u64,
    pub(super) entry: Arc<RuleEntry<K>>,
}

impl<K: RuleKind> Group<K> {
    /// The rules that take `resource` for a name.
    pub(super) fn exact(&self) -> impl Iterator<Item = &Placed<K>> {
        let rules = self.rules.iter();
        rules.filter(|rule| matches!(rule.entry.matcher, Matcher::Exact))
    }
}

impl<K: RuleKind> Keyed for Arc<Group<K>> {
    fn key(&self) -> &str {
        let first = self.rules.first();
        first.map_or("", |rule| &rule.entry.head().resource)
    }
}

/// By the id that it was given.
impl<K: RuleKind> Keyed for Arc<RuleEntry<K>> {
    fn key(&self) -> &str {
        &self.id
    }
}

impl<K: RuleKind> Clone for Placed<K> {
    fn clone(&self) -> Self {
        Self {
            place: self.place,
            entry: Arc::clone(&self.entry),
        }
    }
}

/// Whether calls cannot tell one list of rules from the other: the same states,
/// which only equal rules share, under the same ids, in the same order.
pub(super) fn are_alike<K: RuleKind>(old: &[Placed<K>], new: &[Placed<K>]) -> bool {
    let is_alike = |(old, new): (&Placed<K>, &Placed<K>)| {
        Arc::ptr_eq(&old.entry, &new.entry)
            || Arc::ptr_eq(&old.entry.live, &new.entry.live) && old.entry.id == new.entry.id
    };
    old.len() == new.len() && old.iter().zip(new).all(is_alike)
}

/// Whether two lists of as many rules stand in the same places.
pub(super) fn stand_alike<K: RuleKind>(old: &[Placed<K>], new: &[Placed<K>]) -> bool {
    let mut pairs = old.iter().zip(new);
    pairs.all(|(old, new)| old.place == new.place)
}

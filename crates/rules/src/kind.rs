//! A family of rules, and all that the shared machinery needs to know of it.

use std::fmt::Debug;
use std::hash::Hash;

use serde::Serialize;

use crate::Settings;
use crate::document::Fields;
use crate::field::{FieldSpec, Spelling};

/// One kind of rule: how its JSON is read, what makes it valid, and what it
/// remembers between calls.
///
/// The kind says what is its own; reading lists, finding duplicates, ids,
/// reports and the survival of state are written once, for all kinds.
pub trait RuleKind: Sized + Send + Sync + 'static {
    /// Its name in JSON, as in `{"flow": [...]}` and `flow[3].count`.
    const NAME: &'static str;

    /// A rule. Equality and hash go by what the rule says: its id does not
    /// count, so a reload that only renames a rule keeps the rule's state.
    type Rule: Clone + Eq + Hash + Serialize + Debug + Send + Sync + 'static;

    /// What a rule remembers of one resource between calls, if anything.
    type State: Send + Sync + 'static;

    /// The fields of its JSON objects.
    fn fields() -> &'static [FieldSpec];

    /// Names that sentinel-golang uses for its fields.
    fn spellings() -> &'static [Spelling] {
        &[]
    }

    /// Reads a rule. Fields of a wrong type are recorded as faults and read
    /// as absent.
    fn parse(fields: &mut Fields<'_>) -> Self::Rule;

    /// Records as faults what the rule cannot work with, as warnings what it
    /// hardly means. A bad value is a fault exactly when the rule uses it.
    /// The resource's name and its pattern were looked at before.
    fn validate(rule: &Self::Rule, settings: &Settings, fields: &mut Fields<'_>);

    /// The resource, or the pattern of resources, that the rule is for.
    fn resource(rule: &Self::Rule) -> &str;

    /// Whether [`resource`](Self::resource) is a pattern.
    fn regex(rule: &Self::Rule) -> bool;

    /// The id, if one was given.
    fn id(rule: &Self::Rule) -> Option<&str>;

    /// The state of a rule that has not seen a call.
    fn new_state(rule: &Self::Rule, settings: &Settings) -> Self::State;
}

/// A kind for those who describe rules to people.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct KindSpec {
    /// Its name in JSON.
    pub name: &'static str,
    /// The fields of its rules.
    pub fields: &'static [FieldSpec],
}

impl KindSpec {
    /// The description of `K`.
    #[must_use]
    pub fn of<K: RuleKind>() -> Self {
        Self {
            name: K::NAME,
            fields: K::fields(),
        }
    }
}

//! A family of rules, and all that the shared machinery needs to know of it.

use std::fmt::Debug;
use std::hash::Hash;

use serde::Serialize;

use crate::Settings;
use crate::document::Fields;
use crate::field::{FieldSpec, Spelling};
use crate::head::{self, Head};

/// One kind of rule: how its JSON is read, what makes it valid, and what it
/// remembers between calls.
///
/// The kind says what is its own; reading lists, finding duplicates, ids,
/// reports and the survival of state are written once, for all kinds.
pub trait RuleKind: Sized + Send + Sync + 'static {
    /// Its name in JSON, as in `{"flow": [...]}` and `flow[3].count`.
    const NAME: &'static str;

    /// What its rules are for, one sentence.
    const ABOUT: &'static str;

    /// What a rule of the kind is for.
    const SCOPE: Scope = Scope::Resource;

    /// A rule. Equality and hash go by what the rule says: its id does not
    /// count, so a reload that only renames a rule keeps the rule's state.
    type Rule: Clone + Eq + Hash + Serialize + Debug + Send + Sync + 'static;

    /// What a rule remembers of one resource between calls, if anything.
    type State: Send + Sync + 'static;

    /// The fields of its JSON objects, those of the [`Head`] left out.
    fn fields() -> &'static [FieldSpec];

    /// Names that sentinel-golang uses for its fields.
    fn spellings() -> &'static [Spelling] {
        &[]
    }

    /// Reads a rule whose head has been read. Fields of a wrong type are
    /// recorded as faults and read as absent.
    fn parse(head: Head, fields: &mut Fields<'_>) -> Self::Rule;

    /// Records as faults what the rule cannot work with, as warnings what it
    /// hardly means. A bad value is a fault exactly when the rule uses it.
    /// The head is looked at elsewhere.
    fn validate(rule: &Self::Rule, settings: &Settings, fields: &mut Fields<'_>);

    /// What the rule says that every rule says.
    fn head(rule: &Self::Rule) -> &Head;

    /// The state of a rule that has not seen a call.
    fn new_state(rule: &Self::Rule, settings: &Settings) -> Self::State;
}

/// What the rules of a kind are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// The resources that `resource` names.
    Resource,
    /// All calls of the engine; there is no `resource`.
    Engine,
}

/// A kind for those who describe rules to people.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct KindSpec {
    /// Its name in JSON.
    pub name: &'static str,
    /// What its rules are for.
    pub about: &'static str,
    /// Whether its rules are for resources.
    pub scope: Scope,
    /// The fields that all kinds have.
    pub head: &'static [FieldSpec],
    /// The fields of its own.
    pub fields: &'static [FieldSpec],
    /// Names of sentinel-golang that its fields do not have.
    pub spellings: &'static [Spelling],
}

impl KindSpec {
    /// The description of `K`.
    #[must_use]
    pub fn of<K: RuleKind>() -> Self {
        Self {
            name: K::NAME,
            about: K::ABOUT,
            scope: K::SCOPE,
            head: match K::SCOPE {
                Scope::Resource => head::FIELDS,
                Scope::Engine => head::FIELDS_OF_ENGINE,
            },
            fields: K::fields(),
            spellings: K::spellings(),
        }
    }

    /// All fields: those of every kind, then its own.
    pub fn all_fields(&self) -> impl Iterator<Item = &'static FieldSpec> + use<> {
        self.head.iter().chain(self.fields)
    }
}

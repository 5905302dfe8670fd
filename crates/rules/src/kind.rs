//! A family of rules, and all that the shared machinery needs to know of it.

use std::fmt::Debug;
use std::hash::Hash;

use flowgate_core::Accounting;
use serde::Serialize;

use crate::Settings;
use crate::dialect::{Dialect, Golang, GolangSpec};
use crate::document::Fields;
use crate::field::FieldSpec;
use crate::head::{self, Head};
use crate::idle::Idle;

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

    /// What there is to know beyond its fields, as Markdown with headings from
    /// the third level on. Its JSON blocks are lists of the kind, or whole
    /// documents. The tables of fields stand where a line says `{{fields}}`,
    /// else in front.
    const GUIDE: &'static str = "";

    /// What a rule of the kind is for.
    const SCOPE: Scope = Scope::Resource;

    /// A rule. Equality and hash go by what the rule says: its id does not
    /// count, so a reload that only renames a rule keeps the rule's state.
    type Rule: Clone + Eq + Hash + Serialize + Debug + Send + Sync + 'static;

    /// What a rule remembers of one resource between calls, if anything.
    type State: Send + Sync + 'static;

    /// The fields of its JSON objects, those of the [`Head`] left out.
    fn fields() -> &'static [FieldSpec];

    /// How sentinel-golang writes its rules; `None`: as they are written here.
    fn golang() -> Option<Golang<Self>> {
        None
    }

    /// Reads a rule whose head has been read. Fields of a wrong type are
    /// recorded as faults and read as absent.
    fn parse(head: Head, fields: &mut Fields<'_>) -> Self::Rule;

    /// Records as faults what the rule cannot work with, as warnings what it
    /// hardly means. A bad value is a fault exactly when the rule uses it.
    /// The head is looked at elsewhere, and what [`fields`](Self::fields) says
    /// of required fields and bounds is checked behind this, of rules that were
    /// read.
    fn validate(rule: &Self::Rule, settings: &Settings, fields: &mut Fields<'_>);

    /// The rule with what it does not use put back to the defaults: two rules
    /// of which that is equal mean the same. Only to find such pairs.
    fn normalized(rule: &Self::Rule) -> Self::Rule {
        rule.clone()
    }

    /// How the rule's rate is accounted, for reports. Default: `None`, for rules
    /// that limit no rate, or one without spans that could be chosen.
    fn accounting(rule: &Self::Rule) -> Option<Accounting> {
        let _ = rule;
        None
    }

    /// The other resource whose figures the rule looks at: that has statistics
    /// of its own, as resources have that rules name. Default: none.
    fn looks_at(rule: &Self::Rule) -> Option<&str> {
        let _ = rule;
        None
    }

    /// Whether the rule asks how much memory is in use. Default: no.
    fn needs_memory(rule: &Self::Rule) -> bool {
        let _ = rule;
        false
    }

    /// What the rule says that every rule says.
    fn head(rule: &Self::Rule) -> &Head;

    /// The state of a rule that has not seen a call.
    fn new_state(rule: &Self::Rule, settings: &Settings) -> Self::State;

    /// Whether `state` decides on whatever comes as a new one would: then a
    /// resource that nobody calls any more is forgotten together with it. Nobody
    /// has the resource meanwhile. Default: no, so a resource is kept as long as
    /// a rule of the kind remembers it.
    fn is_as_new(rule: &Self::Rule, state: &Self::State, idle: Idle) -> bool {
        let _ = (rule, state, idle);
        false
    }
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
    /// What sentinel-golang calls it and its fields; `None`: the same.
    pub golang: Option<GolangSpec>,
    /// What there is to know beyond the fields, as Markdown.
    pub guide: &'static str,
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
            golang: K::golang().map(|golang| golang.spec),
            guide: K::GUIDE,
        }
    }

    /// All fields: those of every kind, then its own.
    pub fn all_fields(&self) -> impl Iterator<Item = &'static FieldSpec> + use<> {
        self.head.iter().chain(self.fields)
    }

    /// The fields that a rule may have in this dialect: those of every kind,
    /// then its own, then those of Flowgate that the dialect does not know.
    pub fn fields_in(&self, dialect: Dialect) -> impl Iterator<Item = &'static FieldSpec> + use<> {
        let golang = self.golang.filter(|_| dialect == Dialect::Golang);
        let theirs: &'static [FieldSpec] = golang.map_or(&[], |golang| golang.fields);
        let ours = self.fields.iter().filter(move |spec| match &golang {
            None => true,
            Some(golang) => is_in_both(spec, golang),
        });
        self.head.iter().chain(theirs).chain(ours)
    }

    /// The field of this name in a dialect.
    #[must_use]
    pub fn field(&self, dialect: Dialect, name: &str) -> Option<&'static FieldSpec> {
        self.fields_in(dialect).find(|spec| spec.name == name)
    }

    /// Whose rule it is that has this field; `None` if both dialects have it,
    /// or none.
    #[must_use]
    pub fn told_by(&self, name: &str) -> Option<Dialect> {
        let golang = self.golang.as_ref()?;
        if name == GOLANG_ID {
            return Some(Dialect::Golang);
        }
        let ours = self.all_fields().find(|spec| spec.name == name);
        match (ours, golang.field(name)) {
            (Some(ours), None) if !ours.shared => Some(Dialect::Sentinel),
            (None, Some(_)) => Some(Dialect::Golang),
            _ => None,
        }
    }
}

/// How sentinel-golang wrote `id` before its fields had names of their own.
pub(crate) const GOLANG_ID: &str = "ID";

/// Whether our field is written alike in sentinel-golang's rules, and is not
/// one of theirs anyway.
fn is_in_both(ours: &FieldSpec, golang: &GolangSpec) -> bool {
    ours.shared && golang.field(ours.name).is_none() && golang.name_there(ours.name).is_none()
}

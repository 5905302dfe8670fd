//! The two ways in which rules are written: Alibaba Sentinel's own, for Java,
//! and sentinel-golang's.
//!
//! A rule means the same however it is written; a kind says once how
//! sentinel-golang spells it ([`Golang`]), and everything else is the same for
//! all kinds: which dialect a document is in, names in faults, conversion.
//!
//! What a dialect does not know but Flowgate does, such as `mode`, is read
//! alike in both, and so is a kind without a [`Golang`] as a whole. Who writes
//! for sentinel-golang means sentinel-golang, though: a rule that it would take
//! for another one is left out, see [`Written`](crate::Written).

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::document::Fields;
use crate::field::FieldSpec;
use crate::head::Head;
use crate::kind::RuleKind;

/// Whose fields a document uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Dialect {
    /// Sentinel's for Java, and Flowgate's own: `count`, `grade`.
    #[default]
    Sentinel,
    /// sentinel-golang's: `threshold`, `tokenCalculateStrategy`.
    Golang,
}

impl Dialect {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Sentinel, Self::Golang];

    /// Its name: `sentinel` or `golang`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sentinel => "sentinel",
            Self::Golang => "golang",
        }
    }

    /// Who writes so.
    #[must_use]
    pub fn owner(self) -> &'static str {
        match self {
            Self::Sentinel => "Sentinel",
            Self::Golang => "sentinel-golang",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How sentinel-golang writes the rules of one kind.
pub struct Golang<K: RuleKind> {
    /// Its names.
    pub spec: GolangSpec,
    /// As [`RuleKind::parse`], from sentinel-golang's fields. What
    /// [`RuleKind::validate`] says of the rule afterwards is about the field
    /// that [`GolangSpec::names`] gives, and goes unsaid if something was
    /// said of that field here.
    pub parse: fn(Head, &mut Fields<'_>) -> K::Rule,
    /// Writes what the rule says, its head left out.
    pub write: fn(&K::Rule, &mut GolangRule),
}

/// What sentinel-golang calls a kind and its fields.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GolangSpec {
    /// The kind: `circuitbreaker`.
    pub kind: &'static str,
    /// All fields that sentinel-golang has, `id`, `resource` and `regex` left
    /// out.
    pub fields: &'static [FieldSpec],
    /// Pairs of names for the same thing: here, and there.
    pub names: &'static [(&'static str, &'static str)],
}

impl GolangSpec {
    /// sentinel-golang's name for our field.
    pub(crate) fn name_there(&self, ours: &str) -> Option<&'static str> {
        let mut names = self.names.iter();
        names.find(|(here, _)| *here == ours).map(|(_, it)| *it)
    }

    /// Our name for sentinel-golang's field, or our names: "qps or avgRt".
    pub(crate) fn names_here(&self, theirs: &str) -> Option<String> {
        let names = self.names.iter().filter(|(_, there)| *there == theirs);
        let names: Vec<&str> = names.map(|(here, _)| *here).collect();
        match names.split_last()? {
            (only, []) => Some((*only).to_owned()),
            (last, others) => Some(format!("{} or {last}", others.join(", "))),
        }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&'static FieldSpec> {
        self.fields.iter().find(|spec| spec.name == name)
    }
}

/// A rule while it is written as sentinel-golang does.
#[derive(Debug, Default)]
pub struct GolangRule {
    /// The rule as one object, or several that together mean it.
    pub(crate) objects: Vec<Vec<(&'static str, Value)>>,
    pub(crate) lost: Vec<(&'static str, String)>,
    pub(crate) refused: Option<(&'static str, String)>,
}

impl GolangRule {
    /// Writes a field.
    pub fn field(&mut self, name: &'static str, value: impl Into<Value>) {
        if self.objects.is_empty() {
            self.objects.push(Vec::new());
        }
        if let Some(object) = self.objects.last_mut() {
            object.push((name, value.into()));
        }
    }

    /// Writes a field if there is a value.
    pub fn optional(&mut self, name: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.field(name, value);
        }
    }

    /// Goes on with a further object: what follows is a rule of its own there.
    pub fn another(&mut self) {
        self.objects.push(Vec::new());
    }

    /// Notes that `field` cannot be said there: "what is lost; what would do".
    pub fn loses(&mut self, field: &'static str, message: impl Into<String>) {
        self.lost.push((field, message.into()));
    }

    /// Notes that without `field` the rule would be another one, so that it
    /// cannot be said there at all.
    pub fn refuses(&mut self, field: &'static str, message: impl Into<String>) {
        self.refused.get_or_insert((field, message.into()));
    }
}

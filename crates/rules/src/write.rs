//! Rules written out as JSON, in either dialect: a rule on a line.
//!
//! In Sentinel's dialect a rule is what its [`Serialize`] says, in
//! sentinel-golang's what its kind's [`Golang`](crate::Golang) writes. What the
//! dialect has no words for is told, never dropped in silence.

use std::collections::BTreeSet;
use std::io;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer as Json};

use crate::dialect::{Dialect, GolangRule};
use crate::document::{Remark, rule_path};
use crate::head::Head;
use crate::kind::{KindSpec, RuleKind};
use crate::table::RuleTable;

/// Rules as text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// A document, or a list of one kind; with a line break at its end.
    pub text: String,
    /// Rules that are missing in it, as the dialect cannot say what they say.
    pub left_out: Vec<Remark>,
    /// What rules in it do not say, as the dialect cannot.
    pub lost: Vec<Remark>,
    /// Kinds and fields in it that only Flowgate reads, as `flow.mode`.
    pub own: BTreeSet<String>,
}

/// The rules of one kind as text.
#[derive(Debug, Default)]
pub(crate) struct WrittenList {
    /// JSON objects.
    pub(crate) rules: Vec<String>,
    /// What is to be said of them.
    pub(crate) remarks: Written,
}

impl Written {
    /// `[...]`
    pub(crate) fn list(list: WrittenList) -> Self {
        let text = lines("", &list.rules) + "\n";
        Self {
            text,
            ..list.remarks
        }
    }

    /// `{"flow": [...], ...}`
    pub(crate) fn document(lists: Vec<(&'static str, WrittenList)>) -> Self {
        let mut all = Self::default();
        let mut members = Vec::with_capacity(lists.len());
        for (kind, list) in lists {
            members.push(format!("  \"{kind}\": {}", lines("  ", &list.rules)));
            all.left_out.extend(list.remarks.left_out);
            all.lost.extend(list.remarks.lost);
            all.own.extend(list.remarks.own);
        }
        all.text = match members.is_empty() {
            true => "{}\n".to_owned(),
            false => format!("{{\n{}\n}}\n", members.join(",\n")),
        };
        all
    }
}

/// A list with a rule on each line.
fn lines(indent: &str, rules: &[String]) -> String {
    match rules.is_empty() {
        true => "[]".to_owned(),
        false => {
            let separator = format!(",\n{indent}  ");
            format!("[\n{indent}  {}\n{indent}]", rules.join(&separator))
        }
    }
}

/// The rules of a table.
pub(crate) fn write_table<K: RuleKind>(table: &RuleTable<K>, dialect: Dialect) -> WrittenList {
    let mut list = WrittenList::default();
    let spec = KindSpec::of::<K>();
    for entry in table.entries() {
        let (rule, position) = (entry.rule(), entry.position());
        match K::golang().filter(|_| dialect == Dialect::Golang) {
            None => {
                if dialect == Dialect::Golang {
                    list.remarks.own.insert(spec.name.to_owned());
                }
                list.push(&spec, dialect, rule);
            }
            Some(golang) => {
                let mut there = GolangRule::default();
                (golang.write)(rule, &mut there);
                list.push_golang(&spec, position, K::head(rule), there);
            }
        }
    }
    list
}

impl WrittenList {
    fn push_golang(&mut self, spec: &KindSpec, position: usize, head: &Head, there: GolangRule) {
        let remark = |(field, message): (&'static str, String)| Remark {
            path: rule_path(spec, position, field),
            place: None,
            message,
        };
        if let Some(refused) = there.refused {
            self.remarks.left_out.push(remark(refused));
            return;
        }
        self.remarks.lost.extend(there.lost.into_iter().map(remark));
        for (index, members) in there.objects.iter().enumerate() {
            let mut head = head.clone();
            if index > 0 {
                head.id = head.id.map(|id| format!("{id}-{}", index + 1));
            }
            self.push(spec, Dialect::Golang, &Object { head, members });
        }
    }

    fn push(&mut self, spec: &KindSpec, dialect: Dialect, rule: &impl Serialize) {
        let mut text = Vec::new();
        let written = rule.serialize(&mut Json::with_formatter(&mut text, Spaced));
        // Rules are plain values, which JSON can say.
        debug_assert!(written.is_ok(), "{written:?}");
        let text = String::from_utf8(text).unwrap_or_default();
        if let Ok(Value::Object(members)) = serde_json::from_str(&text) {
            let own = members
                .iter()
                .filter(|(name, value)| is_own(spec, dialect, name, value))
                .map(|(name, _)| format!("{}.{name}", spec.name));
            self.remarks.own.extend(own);
        }
        self.rules.push(text);
    }
}

/// Whether those who write in this dialect do not read the field, and it says
/// something.
fn is_own(spec: &KindSpec, dialect: Dialect, name: &str, value: &Value) -> bool {
    let Some(field) = spec.field(dialect, name) else {
        return false;
    };
    let default = field
        .default
        .and_then(|json| serde_json::from_str(json).ok());
    let says_nothing =
        default.is_some_and(|default: Value| match (default.as_f64(), value.as_f64()) {
            (Some(default), Some(value)) => default == value,
            _ => default == *value,
        });
    let is_theirs = match (&spec.golang, dialect) {
        (Some(golang), Dialect::Golang) => golang.field(name).is_some() || !field.added,
        _ => !field.added,
    };
    !is_theirs && !says_nothing
}

/// A rule as sentinel-golang writes it.
#[derive(Serialize)]
struct Object<'a> {
    #[serde(flatten)]
    head: Head,
    #[serde(flatten, serialize_with = "in_order")]
    members: &'a [(&'static str, Value)],
}

fn in_order<S: Serializer>(
    members: &&[(&'static str, Value)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(members.len()))?;
    for (name, value) in *members {
        map.serialize_entry(name, value)?;
    }
    map.end()
}

/// JSON on one line, with a space after each comma and colon.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        separate(writer, first)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        separate(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

fn separate<W: ?Sized + io::Write>(writer: &mut W, first: bool) -> io::Result<()> {
    match first {
        true => Ok(()),
        false => writer.write_all(b", "),
    }
}

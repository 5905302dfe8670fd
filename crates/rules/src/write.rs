//! Rules written out as JSON, in either dialect: a rule on a line.
//!
//! In Sentinel's dialect a rule is what its [`Serialize`] says, without what it
//! says anyway; it is Flowgate's own spelling too, so that nothing is lost, and
//! what Sentinel itself does not read is named. In sentinel-golang's it is what
//! its kind's [`Golang`](crate::Golang) writes. A rule that sentinel-golang
//! would take for another one is left out; what is lost of the others, or only
//! refines them, is told. Nothing is dropped in silence.

use std::collections::{BTreeSet, HashSet};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::dialect::{Dialect, GolangRule};
use crate::document::{Remark, rule_path};
use crate::field::{FieldKind, FieldSpec, choice_named};
use crate::head::{DEFAULT_RESOURCE, Head, Matching, RuleMode};
use crate::kind::{KindSpec, RuleKind};
use crate::object::Object;
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
    /// What in it only Flowgate reads: fields as `flow.mode`, and values as
    /// `flow.resource *` and `degrade.grade consecutiveErrors`.
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

    /// `{"flow": [...], ...}`, from the name of each kind, whether it is a
    /// member of the document, and its rules.
    pub(crate) fn document(lists: impl Iterator<Item = (&'static str, bool, WrittenList)>) -> Self {
        let mut all = Self::default();
        let mut members = Vec::new();
        for (kind, is_member, list) in lists {
            if is_member {
                members.push(format!("  \"{kind}\": {}", lines("  ", &list.rules)));
            }
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
    let entries = || table.entries().iter();
    if dialect == Dialect::Sentinel {
        entries().for_each(|entry| list.push(&spec, dialect, entry.rule()));
        return list;
    }
    let given = entries().filter_map(|entry| K::head(entry.rule()).id.clone());
    let mut ids: HashSet<String> = given.collect();
    for (position, entry) in table.positions() {
        let (rule, head) = (entry.rule(), K::head(entry.rule()));
        let mut there = GolangRule::default();
        match K::golang() {
            None => there.refuses(
                "resource",
                "sentinel-golang has no such rules, so nothing would be decided; leave it out",
            ),
            Some(golang) => {
                refuse_head(head, &mut there);
                (golang.write)(rule, &mut there);
            }
        }
        list.push_golang(&spec, position, head, there, &mut ids);
    }
    list
}

/// What every rule can say here, and none there.
fn refuse_head(head: &Head, there: &mut GolangRule) {
    if head.mode != RuleMode::Enforce {
        there.refuses(
            "mode",
            "sentinel-golang would enforce the rule; leave the rule out, or enforce it",
        );
    }
    if matches!(head.matching, Matching::Prefix | Matching::Glob) {
        there.refuses(
            "match",
            "sentinel-golang would take the pattern for a name; write a regular expression (regex)",
        );
    }
    if head.is_default() {
        there.refuses(
            "resource",
            "sentinel-golang would take * for a name; name the resources, or write a regular expression (regex)",
        );
    }
}

impl WrittenList {
    fn push_golang(
        &mut self,
        spec: &KindSpec,
        position: usize,
        head: &Head,
        there: GolangRule,
        ids: &mut HashSet<String>,
    ) {
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
                head.id = head.id.map(|id| free_id(&id, index + 1, ids));
            }
            self.push(spec, Dialect::Golang, &Members { head, members });
        }
    }

    fn push(&mut self, spec: &KindSpec, dialect: Dialect, rule: &impl Serialize) {
        let mut object = Object::of(rule);
        if dialect == Dialect::Sentinel {
            object.keep(|name, value| is_kept(spec, name, value));
        }
        let own = object
            .fields()
            .filter_map(|(name, value)| own(spec, dialect, name, &value));
        self.remarks.own.extend(own);
        self.rules.push(object.text());
    }
}

/// An id like this one that no rule has, and that is taken then.
fn free_id(id: &str, first: usize, ids: &mut HashSet<String>) -> String {
    let mut number = first;
    loop {
        let free = format!("{id}-{number}");
        if ids.insert(free.clone()) {
            return free;
        }
        number += 1;
    }
}

/// Whether a field is worth writing in Sentinel's dialect: it says something,
/// or is what a rule is read by.
fn is_kept(spec: &KindSpec, name: &str, value: &Value) -> bool {
    let field = spec.field(Dialect::Sentinel, name);
    ["count", "grade"].contains(&name) || field.is_none_or(|field| !is_default(field, value))
}

/// Whether the field says what it says where it is left out.
fn is_default(field: &FieldSpec, value: &Value) -> bool {
    let default = field.default.map(serde_json::from_str);
    let Some(Ok::<Value, _>(default)) = default else {
        return false;
    };
    match (default.as_f64(), value.as_f64()) {
        (Some(default), Some(value)) => default == value,
        _ => default == *value,
    }
}

/// The field as [`Written::own`] has it, if those who write in this dialect do
/// not read it, or not what it says.
fn own(spec: &KindSpec, dialect: Dialect, name: &str, value: &Value) -> Option<String> {
    let field = spec.field(dialect, name)?;
    let is_theirs = match (&spec.golang, dialect) {
        (Some(golang), Dialect::Golang) => golang.field(name).is_some() || !field.added,
        _ => !field.added,
    };
    let (kind, text) = (spec.name, value.as_str());
    if !is_theirs {
        return (!is_default(field, value)).then(|| format!("{kind}.{name}"));
    }
    let is_own_mode = match (field.kind, text) {
        (FieldKind::Mode(choices), Some(text)) => choice_named(choices, text)
            .and_then(|at| choices.get(at))
            .is_some_and(|choice| choice.by_name),
        _ => false,
    };
    let is_own_default =
        name == "resource" && text == Some(DEFAULT_RESOURCE) && !HAVE_DEFAULT_RULES.contains(&kind);
    (is_own_mode || is_own_default).then(|| format!("{kind}.{name} {}", text.unwrap_or_default()))
}

/// The kinds of which Sentinel for Java, too, takes a rule for `*` as one for
/// all resources without rules of their own.
const HAVE_DEFAULT_RULES: &[&str] = &["degrade"];

/// A rule as sentinel-golang writes it.
#[derive(Serialize)]
struct Members<'a> {
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

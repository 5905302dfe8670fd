//! Lists of rules that are opened but not yet read, and what their fields tell
//! of the dialect.
//!
//! A document is in one dialect as a whole: a flow list may tell for the list
//! of breakers beside it. So all lists are opened before the first rule is
//! read, and each object is taken apart only once.

use super::Loading;
use super::fault::{Fault, Place};
use super::fields::{is_dashboards, rule_path};
use super::json::{Member, Shape, Value, shorten};
use crate::dialect::Dialect;
use crate::kind::KindSpec;

/// One element of a list of rules.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    pub(crate) value: Value<'a>,
    /// Its fields, or why it has none.
    pub(crate) members: Result<Vec<Member<'a>>, String>,
}

/// In which dialect the rules of a text are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// All in this one.
    In(Dialect),
    /// No field tells: Sentinel's, if both readings mean the same.
    Untold,
    /// The text is refused; each rule in the dialect that its own fields tell,
    /// to find its other faults.
    Each,
}

/// Which dialects fields speak for.
#[derive(Debug, Default)]
struct Evidence<'a> {
    sentinel: Option<Clue<'a>>,
    golang: Option<Clue<'a>>,
    /// Sentinel's dashboard was here, which decides if nothing else does.
    dashboard: bool,
}

/// A field that speaks for a dialect.
#[derive(Debug, Clone, Copy)]
struct Clue<'a> {
    spec: KindSpec,
    position: usize,
    name: &'a str,
    place: Place,
}

/// Opens the list of one kind; what is no list is recorded as fatal.
pub(crate) fn open_list<'a>(
    spec: &KindSpec,
    value: Value<'a>,
    loading: &mut Loading<'_>,
) -> Vec<Item<'a>> {
    let items = if value.shape() == Shape::List {
        value.items()
    } else {
        Err(not_a_list(value, spec.name))
    };
    match items {
        Ok(items) => items.into_iter().map(Item::open).collect(),
        Err(message) => {
            loading.fatal.push(Fault {
                path: spec.name.to_owned(),
                place: Some(value.place()),
                message,
            });
            Vec::new()
        }
    }
}

/// The dialect of a text of these lists. Records as fatal that it has fields
/// of both.
pub(crate) fn recognise<'a>(
    lists: impl Iterator<Item = (KindSpec, &'a [Item<'a>])>,
    loading: &mut Loading<'_>,
) -> Reading {
    let mut evidence = Evidence::default();
    for (spec, items) in lists {
        for (position, item) in items.iter().enumerate() {
            evidence.look(spec, position, item);
        }
    }
    match evidence.verdict() {
        Reading::Each => {
            let clues = (evidence.sentinel, evidence.golang);
            if let (Some(sentinel), Some(golang)) = clues {
                loading
                    .fatal
                    .push(sentinel.beside(&golang, Dialect::Sentinel));
                loading
                    .fatal
                    .push(golang.beside(&sentinel, Dialect::Golang));
            }
            Reading::Each
        }
        reading => reading,
    }
}

impl<'a> Item<'a> {
    fn open(value: Value<'a>) -> Self {
        let members = match value.shape() {
            Shape::Object => value.members(),
            _ => Err(format!(
                "{} is not a rule; write an object {{\"resource\": ..., ...}}",
                value.shown()
            )),
        };
        Self { value, members }
    }

    /// The dialect that this rule's own fields tell.
    pub(crate) fn reading(&self, spec: KindSpec) -> Reading {
        let mut evidence = Evidence::default();
        evidence.look(spec, 0, self);
        evidence.verdict()
    }
}

impl<'a> Evidence<'a> {
    fn look(&mut self, spec: KindSpec, position: usize, item: &'a Item<'_>) {
        let members = item.members.iter().flatten();
        for member in members.filter(|member| member.value.shape() != Shape::Null) {
            let name = &*member.key;
            let side = match spec.told_by(name) {
                Some(Dialect::Sentinel) => &mut self.sentinel,
                Some(Dialect::Golang) => &mut self.golang,
                None => {
                    self.dashboard |= is_dashboards(name);
                    continue;
                }
            };
            side.get_or_insert(Clue {
                spec,
                position,
                name,
                place: member.key_place,
            });
        }
    }

    fn verdict(&self) -> Reading {
        match (&self.sentinel, &self.golang) {
            (Some(_), Some(_)) => Reading::Each,
            (Some(_), None) => Reading::In(Dialect::Sentinel),
            (None, Some(_)) => Reading::In(Dialect::Golang),
            (None, None) if self.dashboard => Reading::In(Dialect::Sentinel),
            (None, None) => Reading::Untold,
        }
    }
}

impl Clue<'_> {
    fn path(&self) -> String {
        rule_path(&self.spec, self.position, &shorten(self.name))
    }

    /// That this field stands in one text with another of the other dialect.
    fn beside(&self, other: &Self, dialect: Dialect) -> Fault {
        let (owner, others) = match dialect {
            Dialect::Sentinel => (Dialect::Sentinel, Dialect::Golang),
            Dialect::Golang => (Dialect::Golang, Dialect::Sentinel),
        };
        let golang = self.spec.golang.as_ref();
        let name = golang.and_then(|golang| match dialect {
            Dialect::Sentinel => golang.name_there(self.name).map(str::to_owned),
            Dialect::Golang => golang.names_here(self.name),
        });
        let hint = match name {
            Some(name) => format!(" ({} writes {name})", others.owner()),
            None => String::new(),
        };
        Fault {
            path: self.path(),
            place: Some(self.place),
            message: format!(
                "a field of {}, and {} is one of {}; write all rules in one dialect{hint}",
                owner.owner(),
                other.path(),
                others.owner(),
            ),
        }
    }
}

fn not_a_list(value: Value<'_>, kind: &str) -> String {
    let found = value.shown();
    match value.shape() {
        Shape::Null => {
            format!("null is not a list; write [] to clear the rules, or leave {kind} out")
        }
        Shape::Object if has_key(value, "resource") => {
            "a single rule, not a list; write it in brackets: [{...}]".to_owned()
        }
        Shape::Object => format!(
            "an object, not a list; write [...], or load a whole document {{\"{kind}\": [...]}} with load_document"
        ),
        _ => format!("{found} is not a list; write [{{...}}, {{...}}]"),
    }
}

fn has_key(value: Value<'_>, key: &str) -> bool {
    value
        .members()
        .is_ok_and(|members| members.iter().any(|member| member.key == key))
}

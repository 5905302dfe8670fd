//! From text to checked rules.
//!
//! ```text
//! bytes ─ text: UTF-8? ─ json: values with places ─ fields: one rule, typed
//!       ─ kind: validate ─ drafts ─ table: ids, duplicates, what lives on
//! ```
//!
//! Faults are collected, never thrown: whoever fixes a file wants all of them
//! at once. Only at the end is it decided whether the document is in force.

mod fault;
mod fields;
mod json;
mod report;
mod text;

use std::collections::BTreeSet;

pub(crate) use fault::Remarks;
pub use fault::{Fault, Place, Remark, RuleError, Warning};
pub use fields::Fields;
pub(crate) use json::{Shape, Value, shorten};
pub use report::{Duplicate, KindReport, LoadReport, OnInvalid};

use crate::Settings;
use crate::head::{Head, Matcher};
use crate::kind::{KindSpec, RuleKind, Scope};
use fields::Found;

/// A rule that was read and found valid by itself. How it stands to the
/// other rules of its list is the table's business.
#[derive(Debug)]
pub(crate) struct Draft<K: RuleKind> {
    pub(crate) rule: K::Rule,
    /// Index in the list as it was written, faulty ones counted.
    pub(crate) position: usize,
    pub(crate) matcher: Matcher,
    pub(crate) place: Option<Place>,
    pub(crate) ambiguous: Option<Fault>,
}

/// One load under way: how it is done, and what was found so far.
#[derive(Debug)]
pub(crate) struct Loading<'s> {
    pub(crate) settings: &'s Settings,
    pub(crate) on_invalid: OnInvalid,
    /// Faults of the document, which no option skips.
    pub(crate) fatal: Remarks,
    /// Faults of single rules.
    pub(crate) faults: Remarks,
    pub(crate) warnings: Remarks,
    /// Whether a field was seen that only Sentinel's own rules have.
    pub(crate) is_sentinels: bool,
    pub(crate) report: LoadReport,
    /// The one resource that rules may be for.
    pub(crate) only_for: Option<String>,
    dashboard: BTreeSet<&'static str>,
}

impl<'s> Loading<'s> {
    pub(crate) fn new(settings: &'s Settings, on_invalid: OnInvalid) -> Self {
        Self {
            settings,
            on_invalid,
            fatal: Remarks::default(),
            faults: Remarks::default(),
            warnings: Remarks::default(),
            is_sentinels: false,
            report: LoadReport::default(),
            only_for: None,
            dashboard: BTreeSet::new(),
        }
    }

    /// The verdict, with lines and columns of `text` filled in.
    pub(crate) fn finish(mut self, text: &str, base: usize) -> Result<LoadReport, RuleError> {
        let refuse = self.on_invalid == OnInvalid::Refuse && !self.faults.is_empty();
        if refuse || !self.fatal.is_empty() {
            self.fatal.append(self.faults);
            return Err(RuleError {
                faults: self.fatal.located(text, base),
            });
        }
        if !self.dashboard.is_empty() {
            let names: Vec<&str> = self.dashboard.into_iter().collect();
            self.warnings.push(Warning {
                path: "document".to_owned(),
                place: None,
                message: format!(
                    "fields that decide nothing here were ignored: {}",
                    names.join(", ")
                ),
            });
        }
        self.report.skipped = self.faults.located(text, base);
        self.report.warnings = self.warnings.located(text, base);
        Ok(self.report)
    }

    /// Takes over what was found in one rule; whether the rule is sound.
    fn absorb(&mut self, found: &mut Found) -> bool {
        self.is_sentinels |= found.is_sentinels;
        self.dashboard.extend(found.dashboard.drain(..));
        if found.faults.is_empty() {
            self.warnings.extend(found.warnings.drain(..));
            return true;
        }
        self.faults.extend(found.faults.drain(..));
        false
    }
}

/// Opens a text: decodes it and reads its one JSON value.
pub(crate) fn open<'a>(
    bytes: &'a [u8],
    path: &str,
    clear: &str,
) -> Result<(&'a str, usize, Value<'a>), RuleError> {
    let (text, base) = text::decode(bytes, path, clear).map_err(RuleError::one)?;
    let value = json::read(text, path).map_err(|fault| {
        let mut remarks = Remarks::default();
        remarks.push(fault);
        RuleError {
            faults: remarks.located(text, base),
        }
    })?;
    Ok((text, base, value))
}

/// Reads the list of one kind. Faulty rules are recorded and left out; the
/// second number is how many.
pub(crate) fn read_list<K: RuleKind>(
    value: Value<'_>,
    loading: &mut Loading<'_>,
) -> (Vec<Draft<K>>, usize) {
    let items = if value.shape() == Shape::List {
        value.items()
    } else {
        Err(not_a_list(value, K::NAME))
    };
    let items = match items {
        Ok(items) => items,
        Err(message) => {
            loading.fatal.push(Fault {
                path: K::NAME.to_owned(),
                place: Some(value.place()),
                message,
            });
            return (Vec::new(), 0);
        }
    };
    let total = items.len();
    let drafts: Vec<Draft<K>> = items
        .into_iter()
        .enumerate()
        .filter_map(|(position, item)| read_rule::<K>(position, item, loading))
        .collect();
    let faulty = total - drafts.len();
    (drafts, faulty)
}

/// Checks rules that were built in code as if they had been read.
pub(crate) fn check_list<K: RuleKind>(
    rules: Vec<K::Rule>,
    loading: &mut Loading<'_>,
) -> (Vec<Draft<K>>, usize) {
    let total = rules.len();
    let drafts: Vec<Draft<K>> = rules
        .into_iter()
        .enumerate()
        .filter_map(|(position, rule)| {
            let fields = Fields::of_code(KindSpec::of::<K>(), position);
            finish_rule::<K>(position, rule, fields, None, loading)
        })
        .collect();
    let faulty = total - drafts.len();
    (drafts, faulty)
}

fn read_rule<K: RuleKind>(
    position: usize,
    item: Value<'_>,
    loading: &mut Loading<'_>,
) -> Option<Draft<K>> {
    let fields = Fields::of_object(KindSpec::of::<K>(), position, item);
    match fields {
        Ok(mut fields) => {
            let head = Head::parse(K::SCOPE, &mut fields);
            let rule = K::parse(head, &mut fields);
            finish_rule::<K>(position, rule, fields, Some(item.place()), loading)
        }
        Err(fault) => {
            loading.faults.push(fault);
            None
        }
    }
}

fn finish_rule<K: RuleKind>(
    position: usize,
    rule: K::Rule,
    mut fields: Fields<'_>,
    place: Option<Place>,
    loading: &mut Loading<'_>,
) -> Option<Draft<K>> {
    let matcher = match K::SCOPE {
        Scope::Resource => K::head(&rule).compile(&mut fields),
        Scope::Engine => Some(Matcher::Exact),
    };
    if let Some(only_for) = &loading.only_for
        && K::head(&rule).resource != *only_for
    {
        fields.fault(
            "resource",
            format!("this list is for {only_for}; put rules for others into a list of their own"),
        );
    }
    K::validate(&rule, loading.settings, &mut fields);
    let mut found = fields.finish();
    let is_sound = loading.absorb(&mut found);
    matcher.filter(|_| is_sound).map(|matcher| Draft {
        rule,
        position,
        matcher,
        place,
        ambiguous: found.ambiguous,
    })
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

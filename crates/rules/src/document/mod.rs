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

use regex::{Regex, RegexBuilder};

pub(crate) use fault::Remarks;
pub use fault::{Fault, Place, Remark, RuleError, Warning};
pub use fields::Fields;
pub(crate) use json::{Shape, Value, shorten};
pub use report::{Duplicate, KindReport, LoadReport, OnInvalid};

use crate::Settings;
use crate::kind::RuleKind;
use fields::Found;

/// Compiled size that a rule's pattern may have. Names of resources are
/// matched by a few kilobytes; a bomb like `(a{500}){500}` ends here.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A rule that was read and found valid by itself. How it stands to the
/// other rules of its list is the table's business.
#[derive(Debug)]
pub(crate) struct Draft<K: RuleKind> {
    pub(crate) rule: K::Rule,
    /// Index in the list as it was written, faulty ones counted.
    pub(crate) position: usize,
    pub(crate) pattern: Option<Regex>,
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
            let fields = Fields::of_code(K::NAME, position);
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
    let fields = Fields::of_object(K::NAME, position, K::fields(), K::spellings(), item);
    match fields {
        Ok(mut fields) => {
            let rule = K::parse(&mut fields);
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
    let pattern = check_resource::<K>(&rule, &mut fields);
    K::validate(&rule, loading.settings, &mut fields);
    let mut found = fields.finish();
    loading.absorb(&mut found).then_some(Draft {
        rule,
        position,
        pattern,
        place,
        ambiguous: found.ambiguous,
    })
}

/// What holds for the resource of every kind: it is named, and its pattern
/// compiles.
fn check_resource<K: RuleKind>(rule: &K::Rule, fields: &mut Fields<'_>) -> Option<Regex> {
    let resource = K::resource(rule);
    if resource.trim().is_empty() {
        let found = if resource.is_empty() {
            "missing"
        } else {
            "blank"
        };
        fields.fault(
            "resource",
            format!("{found}; give the name of the resource that the rule limits"),
        );
        return None;
    }
    if !K::regex(rule) {
        return None;
    }
    // By itself first: what it opens it has to close, so that the anchors
    // stay outside.
    let compiled = compile(resource).and_then(|_| compile(&format!("^(?:{resource})$")));
    match compiled {
        Ok(regex) => Some(regex),
        Err(error) => {
            fields.fault("resource", pattern_message(resource, &error));
            None
        }
    }
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .size_limit(PATTERN_BYTES_MAX)
        .build()
}

/// `regex` draws a picture of several lines; the last says what is wrong.
fn pattern_message(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default();
    let reason = reason.trim_start_matches("error: ");
    format!(
        "{} is no regular expression ({reason}); correct it, or leave out regex to take it as a plain name",
        shorten(pattern)
    )
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

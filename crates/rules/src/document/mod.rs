//! From text to checked rules.
//!
//! ```text
//! bytes ─ text: UTF-8? ─ json: values with places ─ items: whose dialect?
//!       ─ fields: one rule, typed ─ kind: validate ─ drafts
//!       ─ table: ids, duplicates, what lives on
//! ```
//!
//! Faults are collected, never thrown: whoever fixes a file wants all of them
//! at once. Only at the end is it decided whether the document is in force.

mod fault;
mod fields;
mod items;
mod json;
mod report;
mod text;

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) use fault::Remarks;
pub use fault::{Fault, Place, Remark, RuleError, Warning};
pub use fields::Fields;
pub(crate) use fields::{dashboards, rule_path};
pub(crate) use items::{Item, Reading, open_list, recognise};
pub(crate) use json::{Shape, Value, shorten};
pub use report::{Duplicate, KindReport, LoadOptions, LoadReport, OnInvalid};

use crate::Settings;
use crate::dialect::Dialect;
use crate::head::{Head, Matcher};
use crate::kind::{KindSpec, RuleKind, Scope};
use fields::Found;

/// A rule that was read and found valid by itself. How it stands to the
/// other rules of its list is the table's business.
#[derive(Debug)]
pub(crate) struct Draft<K: RuleKind> {
    pub(crate) rule: K::Rule,
    /// Index in the list as it was written, faulty ones counted. Where a text
    /// replaces some rules only: in the list of all.
    pub(crate) position: usize,
    pub(crate) origin: Origin,
    pub(crate) matcher: Matcher,
    pub(crate) place: Option<Place>,
}

/// Where a rule comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The list that is loaded, from this position.
    Given(usize),
    /// It is in force, under this id, and stays.
    InForce(Arc<str>),
}

impl Origin {
    /// What reports call a rule of this kind: `flow[3]`.
    pub(crate) fn shown(&self, kind: &str) -> String {
        match self {
            Self::Given(position) => format!("{kind}[{position}]"),
            Self::InForce(id) => format!("the rule {id} in force"),
        }
    }
}

/// One load under way: how it is done, and what was found so far.
#[derive(Debug)]
pub(crate) struct Loading<'s> {
    pub(crate) settings: &'s Settings,
    pub(crate) options: LoadOptions,
    /// In which dialect the rules are read.
    pub(crate) reading: Reading,
    /// Faults of the document, which no option skips.
    pub(crate) fatal: Remarks,
    /// Faults of single rules.
    pub(crate) faults: Remarks,
    pub(crate) warnings: Remarks,
    pub(crate) report: LoadReport,
    /// Which revision of all rules is made.
    pub(crate) revision: u64,
    /// Entries of the rules before that are not among them any more.
    pub(crate) left: Vec<Arc<dyn Any + Send + Sync>>,
    /// The one resource that rules may be for.
    pub(crate) only_for: Option<String>,
    dashboard: BTreeSet<&'static str>,
}

impl<'s> Loading<'s> {
    pub(crate) fn new(settings: &'s Settings, options: LoadOptions) -> Self {
        Self {
            settings,
            options,
            reading: Reading::In(options.dialect.unwrap_or_default()),
            fatal: Remarks::default(),
            faults: Remarks::default(),
            warnings: Remarks::default(),
            report: LoadReport::default(),
            revision: 0,
            left: Vec::new(),
            only_for: None,
            dashboard: BTreeSet::new(),
        }
    }

    /// Finds out in which dialect the lists of a text are, unless that was
    /// told.
    pub(crate) fn recognise<'a>(
        &mut self,
        lists: impl Iterator<Item = (KindSpec, &'a [Item<'a>])>,
    ) {
        if self.options.dialect.is_none() {
            self.reading = recognise(lists, self);
        }
        if let Reading::In(dialect) = self.reading {
            self.report.dialect = dialect;
        }
    }

    /// The verdict, with lines and columns of `text` filled in.
    pub(crate) fn finish(mut self, text: &str, base: usize) -> Result<LoadReport, RuleError> {
        let refuse = self.options.on_invalid == OnInvalid::Refuse && !self.faults.is_empty();
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
        self.dashboard.extend(found.dashboard.drain(..));
        self.faults.extend(found.parts.drain(..));
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

/// Reads the rules of one kind. Faulty ones are recorded and left out; the
/// second number is how many.
pub(crate) fn read_list<K: RuleKind>(
    items: Vec<Item<'_>>,
    loading: &mut Loading<'_>,
) -> (Vec<Draft<K>>, usize) {
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
    item: Item<'_>,
    loading: &mut Loading<'_>,
) -> Option<Draft<K>> {
    let reading = match loading.reading {
        Reading::Each => item.reading(KindSpec::of::<K>()),
        reading => reading,
    };
    match reading {
        Reading::In(dialect) => read_in::<K>(dialect, position, item, loading),
        Reading::Untold if loading.reading == Reading::Untold => {
            read_untold::<K>(position, item, loading)
        }
        Reading::Untold => read_in::<K>(Dialect::Sentinel, position, item, loading),
        // Fields of both in one rule, and that has been said.
        Reading::Each => None,
    }
}

fn read_in<K: RuleKind>(
    dialect: Dialect,
    position: usize,
    item: Item<'_>,
    loading: &mut Loading<'_>,
) -> Option<Draft<K>> {
    let place = item.value.place();
    match Fields::of_object(KindSpec::of::<K>(), dialect, position, item) {
        Ok(mut fields) => {
            let rule = parse_in::<K>(dialect, &mut fields);
            finish_rule::<K>(position, rule, fields, Some(place), loading)
        }
        Err(fault) => {
            loading.faults.push(fault);
            None
        }
    }
}

fn parse_in<K: RuleKind>(dialect: Dialect, fields: &mut Fields<'_>) -> K::Rule {
    let head = Head::parse(K::SCOPE, fields);
    match K::golang().filter(|_| dialect == Dialect::Golang) {
        Some(golang) => (golang.parse)(head, fields),
        None => K::parse(head, fields),
    }
}

/// Reads a rule as Sentinel writes it, of a text that does not tell. If it can
/// be read the other way too and then means something else, that is a fault.
fn read_untold<K: RuleKind>(
    position: usize,
    item: Item<'_>,
    loading: &mut Loading<'_>,
) -> Option<Draft<K>> {
    let members = item.members.clone();
    let again = |members| Item {
        value: item.value,
        members,
    };
    let (other, named) = (again(members.clone()), again(members));
    let draft = read_in::<K>(Dialect::Sentinel, position, item, loading)?;
    if K::golang().is_none() || !means_otherwise::<K>(&draft.rule, other, loading.settings) {
        return Some(draft);
    }
    let kind = KindSpec::of::<K>();
    let fields = Fields::of_object(kind, Dialect::Sentinel, position, named);
    loading
        .faults
        .extend(fields.iter().map(Fields::two_meanings));
    None
}

/// Whether the text of `rule` is a sound rule of sentinel-golang too, and
/// another one. A reading in which a field of the text is good for nothing
/// is none that was meant.
fn means_otherwise<K: RuleKind>(rule: &K::Rule, item: Item<'_>, settings: &Settings) -> bool {
    let kind = KindSpec::of::<K>();
    let Ok(mut fields) = Fields::of_object(kind, Dialect::Golang, 0, item) else {
        return false;
    };
    let other = parse_in::<K>(Dialect::Golang, &mut fields);
    K::validate(&other, settings, &mut fields);
    fields.check_limits();
    let found = fields.finish();
    let is_likely = found.faults.is_empty() && !found.warns_of_given;
    is_likely && K::normalized(rule) != K::normalized(&other)
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
    fields.check_limits();
    let mut found = fields.finish();
    let is_sound = loading.absorb(&mut found);
    matcher.filter(|_| is_sound).map(|matcher| Draft {
        rule,
        position,
        origin: Origin::Given(position),
        matcher,
        place,
    })
}

//! One rule as it is read: typed getters for its fields, and the list of what
//! is wrong with it.
//!
//! Reading never stops at the first fault. A getter records it and answers
//! `None`, as for an absent field, so that the rest of the rule is read and
//! checked too. A second fault about the same field would be its echo and is
//! dropped.
//!
//! In sentinel-golang's dialect a field goes by two names: checks that do not
//! know of dialects speak of `count`, and what they say is about `threshold`.

mod keys;
mod limits;
mod objects;

pub(crate) use keys::{dashboards, is_dashboards};

use super::fault::{Fault, Place, Remark, Warning};
use super::items::Item;
use super::json::{Member, Shape, Value};
use crate::dialect::Dialect;
use crate::field::{self, Choice, FieldKind, FieldSpec, Mode};
use crate::kind::{GOLANG_ID, KindSpec};

/// A rule on its way from JSON, or a rule built in code that is checked.
#[derive(Debug)]
pub struct Fields<'a> {
    kind: KindSpec,
    dialect: Dialect,
    /// The rule that these fields are part of, and the field that they are in:
    /// `paramFlow[3].paramFlowItemList`.
    parent: Option<String>,
    position: usize,
    members: Vec<Member<'a>>,
    place: Option<Place>,
    /// Names that differ from those of the kind: here, and in the text.
    renamed: Vec<(&'static str, &'static str)>,
    faulty: Vec<&'static str>,
    /// Fields that the kind warned of.
    odd: Vec<&'static str>,
    /// Fields that the rule does not use.
    unused: Vec<&'static str>,
    found: Found,
}

/// What was found in one rule.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) faults: Vec<Fault>,
    pub(crate) warnings: Vec<Warning>,
    /// Whether a warning is about a field that the rule has.
    pub(crate) warns_of_given: bool,
    /// Dashboard fields that it had.
    pub(crate) dashboard: Vec<&'static str>,
    /// Faults of parts that the rule can do without: they refuse the document,
    /// but where faulty rules are skipped only the part is.
    pub(crate) parts: Vec<Fault>,
}

/// `flow[3].count`
pub(crate) fn rule_path(kind: &KindSpec, position: usize, field: &str) -> String {
    format!("{}[{position}].{field}", kind.name)
}

impl<'a> Fields<'a> {
    /// A rule built in code: nothing to read, only to check.
    pub(crate) fn of_code(kind: KindSpec, position: usize) -> Self {
        Self {
            kind,
            dialect: Dialect::Sentinel,
            parent: None,
            position,
            members: Vec::new(),
            place: None,
            renamed: Vec::new(),
            faulty: Vec::new(),
            odd: Vec::new(),
            unused: Vec::new(),
            found: Found::default(),
        }
    }

    /// The object `item` at `position` of the list `kind`. Keys are checked
    /// here: unknown ones and repeated ones are faults.
    pub(crate) fn of_object(
        kind: KindSpec,
        dialect: Dialect,
        position: usize,
        item: Item<'a>,
    ) -> Result<Self, Fault> {
        let mut fields = Self {
            dialect,
            place: Some(item.value.place()),
            ..Self::of_code(kind, position)
        };
        fields.members = item.members.map_err(|message| Fault {
            path: format!("{}[{position}]", kind.name),
            place: Some(item.value.place()),
            message,
        })?;
        if dialect == Dialect::Golang {
            for member in &mut fields.members {
                if member.key == GOLANG_ID {
                    member.key = "id".into();
                }
            }
        }
        fields.check_keys();
        Ok(fields)
    }

    fn read_object(mut self, value: Value<'a>, what: &str) -> Result<Self, Fault> {
        self.place = Some(value.place());
        let whole = |message: String| Fault {
            path: self.path(),
            place: Some(value.place()),
            message,
        };
        if value.shape() != Shape::Object {
            return Err(whole(format!("{} is not {what}", value.shown())));
        }
        self.members = value.members().map_err(whole)?;
        self.check_keys();
        Ok(self)
    }

    /// The dialect that the rule is written in.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// From here on what is said of the field `ours` is said of `theirs`: for
    /// rules that write one field of ours in one of several.
    pub fn rename(&mut self, ours: &'static str, theirs: &'static str) {
        self.renamed.push((ours, theirs));
    }

    /// What the text calls our field `field`.
    #[must_use]
    pub fn name_of(&self, field: &'static str) -> &'static str {
        let mut renamed = self.renamed.iter().rev();
        if let Some((_, theirs)) = renamed.find(|(ours, _)| *ours == field) {
            return theirs;
        }
        let golang = self.kind.golang.as_ref();
        golang
            .filter(|_| self.dialect == Dialect::Golang)
            .and_then(|golang| golang.name_there(field))
            .unwrap_or(field)
    }

    /// Records that `field` is wrong, as "what was found; what would do".
    pub fn fault(&mut self, field: &'static str, message: impl Into<String>) {
        let field = self.name_of(field);
        if self.faulty.contains(&field) {
            return;
        }
        self.faulty.push(field);
        let remark = self.remark(field, message.into());
        self.found.faults.push(remark);
    }

    /// Records that `field` is odd; the rule loads all the same.
    pub fn warn(&mut self, field: &'static str, message: impl Into<String>) {
        self.found.warns_of_given |= self.has(field);
        let name = self.name_of(field);
        self.odd.push(name);
        let remark = self.remark(name, message.into());
        self.found.warnings.push(remark);
    }

    /// Whether the rule is read from a text; else it was built in code and has
    /// no fields.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.place.is_some()
    }

    /// Whether the field was given, and not as `null`.
    #[must_use]
    pub fn has(&self, field: &'static str) -> bool {
        self.value(field).is_some()
    }

    /// A text.
    pub fn text(&mut self, field: &'static str) -> Option<String> {
        let value = self.value(field)?;
        if value.shape() != Shape::Text {
            return self.wrong(field, value, "is not text");
        }
        match value.string() {
            Ok(text) => Some(text.into_owned()),
            Err(error) => {
                self.fault(field, format!("{error}; write valid Unicode text"));
                None
            }
        }
    }

    /// A rule's id: text, or a whole number, which becomes its digits. Blank
    /// is none.
    pub fn id(&mut self, field: &'static str) -> Option<String> {
        let value = self.value(field)?;
        let id = match value.shape() {
            Shape::Number => self.whole(field)?.to_string(),
            Shape::Text => self.text(field)?,
            _ => return self.wrong(field, value, "is neither text nor a number"),
        };
        (!id.trim().is_empty()).then_some(id)
    }

    /// A finite number.
    pub fn number(&mut self, field: &'static str) -> Option<f64> {
        let value = self.value(field)?;
        let number = self.numeric(field, value)?;
        if number.is_finite() {
            Some(number)
        } else {
            self.wrong(field, value, "is too large for a number")
        }
    }

    /// A whole number. One that does not fit is a fault only if the rule
    /// `used` it; else it counts as absent, and a warning says so.
    pub fn u32(&mut self, field: &'static str, used: bool) -> Option<u32> {
        self.bounded(field, used, u64::from(u32::MAX))
            .and_then(|number| u32::try_from(number).ok())
    }

    /// As [`u32`](Self::u32), with twice the bits.
    pub fn u64(&mut self, field: &'static str, used: bool) -> Option<u64> {
        self.bounded(field, used, u64::MAX)
    }

    /// A whole number that may be negative.
    pub fn i32(&mut self, field: &'static str) -> Option<i32> {
        let number = self.whole(field)?;
        let fits = i32::try_from(number).ok();
        if fits.is_none() {
            let found = format!("{number} is beyond 2147483647");
            self.fault(field, self.with_advice(field, &found));
        }
        fits
    }

    /// `true` or `false`.
    pub fn flag(&mut self, field: &'static str) -> Option<bool> {
        let value = self.value(field)?;
        match value.text() {
            "true" => Some(true),
            "false" => Some(false),
            _ => {
                let shown = value.shown();
                self.fault(
                    field,
                    format!("{shown} is not true or false; write one of them"),
                );
                None
            }
        }
    }

    /// A mode, by number or name.
    pub fn mode<M: Mode>(&mut self, field: &'static str) -> Option<M> {
        let number = self.mode_number(field)?;
        let mode = usize::try_from(number)
            .ok()
            .and_then(|index| M::ALL.get(index));
        if mode.is_none() {
            self.fault_unknown_mode(field, &number.to_string());
        }
        mode.copied()
    }

    /// The number of a mode; a name becomes its number. Numbers that have no
    /// mode come through.
    pub fn mode_number(&mut self, field: &'static str) -> Option<i128> {
        let value = self.value(field)?;
        match value.shape() {
            Shape::Number => {
                let number = self.whole(field)?;
                let choice = usize::try_from(number)
                    .ok()
                    .and_then(|index| self.choices(field).get(index));
                if choice.is_some_and(|choice| choice.by_name) {
                    self.fault_unknown_mode(field, &number.to_string());
                    return None;
                }
                Some(number)
            }
            Shape::Text => {
                let name = self.text(field)?;
                let index = field::choice_named(self.choices(field), &name);
                if index.is_none() {
                    self.fault_unknown_mode(field, value.shown().as_str());
                }
                index.and_then(|index| i128::try_from(index).ok())
            }
            _ => {
                self.fault_unknown_mode(field, value.shown().as_str());
                None
            }
        }
    }

    /// Records that `shown` is no mode of `field`, and lists those that are.
    pub fn fault_unknown_mode(&mut self, field: &'static str, shown: &str) {
        let known = field::choices_text(self.choices(field));
        self.fault(field, format!("{shown} is not known; write {known}"));
    }

    /// All that was found.
    pub(crate) fn finish(self) -> Found {
        self.found
    }

    fn bounded(&mut self, field: &'static str, used: bool, max: u64) -> Option<u64> {
        if !used {
            self.unused(field);
        }
        let number = self.whole(field)?;
        if let Some(fits) = u64::try_from(number).ok().filter(|fits| *fits <= max) {
            return Some(fits);
        }
        let found = if number < 0 {
            format!("{number} is negative")
        } else {
            format!("{number} is above {max}")
        };
        if used {
            self.fault(field, self.with_advice(field, &found));
        } else {
            self.warn(field, format!("{found}, but this rule does not use it"));
        }
        None
    }

    /// A whole number of any size up to what `f64` and `i128` can say.
    fn whole(&mut self, field: &'static str) -> Option<i128> {
        let value = self.value(field)?;
        if let Ok(number) = value.text().parse::<i128>() {
            return Some(number);
        }
        let number = self.numeric(field, value)?;
        // 2^96: far above all that a field takes, far below the end of i128.
        if number.abs() > 2_f64.powi(96) {
            return self.wrong(field, value, "is too large");
        }
        if number.fract() != 0.0 {
            return self.wrong(field, value, "is not a whole number");
        }
        // Whole and in range, so the cast is exact.
        Some(number as i128)
    }

    fn numeric(&mut self, field: &'static str, value: Value<'a>) -> Option<f64> {
        match (value.shape(), value.text().parse::<f64>()) {
            (Shape::Number, Ok(number)) => Some(number),
            (Shape::Text, _) if is_number_in_quotes(value) => {
                let bare = value.text().trim_matches('"').trim();
                let message = format!("{} is text; write {bare} without quotes", value.shown());
                self.fault(field, message);
                None
            }
            _ => self.wrong(field, value, "is not a number"),
        }
    }

    fn wrong<T>(&mut self, field: &'static str, value: Value<'a>, what: &str) -> Option<T> {
        let found = format!("{} {what}", value.shown());
        self.fault(field, self.with_advice(field, &found));
        None
    }

    fn with_advice(&self, field: &str, found: &str) -> String {
        match self.spec(field).map_or("", |spec| spec.advice) {
            "" => found.to_owned(),
            advice => format!("{found}; {advice}"),
        }
    }

    fn choices(&self, field: &str) -> &'static [Choice] {
        match self.spec(field).map(|spec| spec.kind) {
            Some(FieldKind::Mode(choices)) => choices,
            _ => &[],
        }
    }

    fn spec(&self, field: &str) -> Option<&'static FieldSpec> {
        self.kind.field(self.dialect, field)
    }

    /// The value of a field; `null` is how Sentinel's dashboard writes absent.
    fn value(&self, field: &'static str) -> Option<Value<'a>> {
        self.given(self.name_of(field))
    }

    /// As [`value`](Self::value), of the field that the text calls so.
    fn given(&self, name: &str) -> Option<Value<'a>> {
        self.members
            .iter()
            .find(|member| member.key == name)
            .map(|member| member.value)
            .filter(|value| value.shape() != Shape::Null)
    }

    /// Where these fields are, as in `flow[3]`.
    fn path(&self) -> String {
        let list = self.parent.as_deref().unwrap_or(self.kind.name);
        format!("{list}[{}]", self.position)
    }

    fn remark(&self, field: &str, message: String) -> Remark {
        let member = self.members.iter().find(|member| member.key == field);
        Remark {
            path: format!("{}.{field}", self.path()),
            place: member.map(|member| member.value.place()).or(self.place),
            message,
        }
    }
}

fn is_number_in_quotes(value: Value<'_>) -> bool {
    value
        .text()
        .trim_matches('"')
        .trim()
        .parse::<f64>()
        .is_ok_and(f64::is_finite)
}

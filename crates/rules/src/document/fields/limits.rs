//! What the descriptions of fields ask of every rule: that required ones are
//! there, and that numbers are within their bounds.
//!
//! A kind looks first. A field about which it said something, a fault or a
//! warning, is not looked at again, so that its own words stand.

use super::Fields;
use crate::document::json::Shape;
use crate::field::FieldSpec;

impl Fields<'_> {
    /// Notes that the rule does not use `field`: a number out of bounds there
    /// is a warning, not a fault. [`u32`](Self::u32) and [`u64`](Self::u64)
    /// note it themselves.
    pub fn unused(&mut self, field: &'static str) {
        let name = self.name_of(field);
        self.unused.push(name);
    }

    /// Checks what was read against the descriptions of the fields. A rule that
    /// was built in code has no fields to check.
    pub(crate) fn check_limits(&mut self) {
        if !self.is_text() {
            return;
        }
        for spec in self.kind.fields_in(self.dialect) {
            self.check_presence(spec);
            self.check_bounds(spec);
        }
    }

    fn check_presence(&mut self, spec: &'static FieldSpec) {
        let is_there = |name: &'static str| {
            let is_faulty = self.faulty.contains(&name) || self.odd.contains(&name);
            is_faulty || self.given(name).is_some()
        };
        let is_needed = spec.required || spec.instead.is_some_and(|other| !is_there(other));
        if is_needed && !is_there(spec.name) {
            let message = match spec.instead {
                Some(other) => self.with_advice(spec.name, "missing") + ", or " + other,
                None => self.with_advice(spec.name, "missing"),
            };
            self.say(spec, true, message);
        }
    }

    fn check_bounds(&mut self, spec: &'static FieldSpec) {
        let value = self.given(spec.name);
        let Some(value) = value.filter(|value| value.shape() == Shape::Number) else {
            return;
        };
        let Ok(number) = value.text().parse::<f64>() else {
            return;
        };
        let found = match (spec.min, spec.max) {
            (Some(min), _) if number < f64::from(min) => format!("{number} is below {min}"),
            (_, Some(max)) if number > f64::from(max) => format!("{number} is above {max}"),
            _ => return,
        };
        let name = spec.name;
        if self.faulty.contains(&name) || self.odd.contains(&name) {
            return;
        }
        if self.unused.contains(&name) {
            self.say(spec, false, found + ", but this rule does not use it");
        } else {
            let message = self.with_advice(name, &found);
            self.say(spec, true, message);
        }
    }

    /// Of a field that is called as the text calls it.
    fn say(&mut self, spec: &FieldSpec, is_fault: bool, message: String) {
        let remark = self.remark(spec.name, message);
        if is_fault {
            self.faulty.push(spec.name);
            self.found.faults.push(remark);
        } else {
            self.found.warns_of_given = true;
            self.odd.push(spec.name);
            self.found.warnings.push(remark);
        }
    }
}

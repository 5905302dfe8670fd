//! A rule as a JSON object on one line, with its fields in their order.
//!
//! After a comma and a colon there is a space; a number that is whole has no
//! fraction: `5000`, not `5000.0`.

use std::fmt;
use std::io;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer as Json};
use serde_json::value::RawValue;

/// The fields of a rule, each with its value as text.
#[derive(Debug, Default)]
pub(crate) struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    /// What a rule says.
    pub(crate) fn of(rule: &impl Serialize) -> Self {
        let text = text_of(rule);
        let object = serde_json::from_str(&text);
        debug_assert!(object.is_ok(), "{text}: {object:?}");
        object.unwrap_or_default()
    }

    /// Its fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, Value)> {
        let fields = self.0.iter();
        fields.map(|(name, raw)| (&**name, value(raw)))
    }

    /// Leaves out the other fields.
    pub(crate) fn keep(&mut self, mut is_kept: impl FnMut(&str, &Value) -> bool) {
        self.0.retain(|(name, raw)| is_kept(name, &value(raw)));
    }

    /// `{"resource": "orders", "count": 100}`
    pub(crate) fn text(&self) -> String {
        let fields = self.0.iter();
        let fields = fields.map(|(name, raw)| format!("{}: {}", text_of(name), raw.get()));
        format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
    }
}

fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

fn text_of(value: &(impl Serialize + ?Sized)) -> String {
    let mut text = Vec::new();
    let written = value.serialize(&mut Json::with_formatter(&mut text, Line));
    // Rules are plain values, which JSON can say.
    debug_assert!(written.is_ok(), "{written:?}");
    String::from_utf8(text).unwrap_or_default()
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rule")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Object, M::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Object(fields))
    }
}

struct Line;

impl Formatter for Line {
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

    /// sentinel-golang reads some numbers into whole ones, and people write
    /// them so.
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, number: f64) -> io::Result<()> {
        // Up to here every whole number has its own f64.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if number.fract() == 0.0 && number.abs() < EXACT {
            // Whole and in range, so the cast is exact.
            write!(writer, "{}", number as i64)
        } else {
            serde_json::ser::CompactFormatter.write_f64(writer, number)
        }
    }
}

fn separate<W: ?Sized + io::Write>(writer: &mut W, first: bool) -> io::Result<()> {
    match first {
        true => Ok(()),
        false => writer.write_all(b", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_written_without_a_fraction() {
        for (value, written) in [
            (Value::from(20.0), "20"),
            (Value::from(0.5), "0.5"),
            (Value::from(-0.0), "0"),
            (Value::from(1e300), "1e+300"),
            (Value::from(u64::MAX), "18446744073709551615"),
        ] {
            assert_eq!(text_of(&value), written);
        }
    }

    #[test]
    fn fields_stay_in_their_order_and_lists_within_them_too() {
        let text = r#"{"z": 1, "a": [{"y": 2.0, "b": null}], "m\"": "x"}"#;
        let mut object: Object = serde_json::from_str(text).expect("an object");
        assert_eq!(object.text(), text);
        object.keep(|name, _| name != "a");
        assert_eq!(object.text(), r#"{"z": 1, "m\"": "x"}"#);
    }
}

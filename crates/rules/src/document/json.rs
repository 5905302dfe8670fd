//! JSON that knows where it stands.
//!
//! `serde_json` checks the whole text once and hands out each value as a slice
//! of it ([`RawValue`]); where the slice starts is the value's place. Objects
//! are read one level at a time, as pairs in their order, so that a key given
//! twice is seen. `serde_json` skips a raw value without recursion, so depth
//! costs no stack; beyond [`DEPTH_MAX`] it is refused all the same.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize};
use serde_json::value::RawValue;

use super::fault::{Fault, Place};

/// A rule document needs five levels; no honest one needs more than this.
const DEPTH_MAX: usize = 32;

/// Keys that an object may have; a rule has a dozen, with Sentinel's dashboard
/// two. Each key is compared with all before it.
const MEMBERS_MAX: usize = 64;

/// How much of a value or key is quoted in an error.
const QUOTED_MAX: usize = 48;

/// One value, not yet looked into. Its text is valid JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value<'a> {
    text: &'a str,
    offset: usize,
}

/// One `"key": value` of an object.
#[derive(Debug, Clone)]
pub(crate) struct Member<'a> {
    pub(crate) key: Cow<'a, str>,
    pub(crate) key_place: Place,
    pub(crate) value: Value<'a>,
}

/// What sort of value it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Null,
    Flag,
    Number,
    Text,
    List,
    Object,
}

/// Checks `text` and returns its one value. A fault names `path`.
pub(crate) fn read<'a>(text: &'a str, path: &str) -> Result<Value<'a>, Fault> {
    let fault = |offset: usize, message: String| Fault {
        path: path.to_owned(),
        place: Some(Place::unlocated(offset, 1)),
        message,
    };
    if let Some(offset) = too_deep(text) {
        return Err(fault(
            offset,
            format!("nested more than {DEPTH_MAX} deep; a list of rules is [{{...}}, {{...}}]"),
        ));
    }
    match serde_json::from_str::<&'a RawValue>(text) {
        Ok(raw) => Ok(Value {
            text: raw.get(),
            offset: distance(text, raw.get()),
        }),
        Err(error) => {
            let offset = offset_of(text, error.line(), error.column());
            Err(fault(offset, syntax_message(text, offset, &error)))
        }
    }
}

impl<'a> Value<'a> {
    pub(crate) fn shape(self) -> Shape {
        match self.text.as_bytes().first() {
            Some(b'n') => Shape::Null,
            Some(b't' | b'f') => Shape::Flag,
            Some(b'"') => Shape::Text,
            Some(b'[') => Shape::List,
            Some(b'{') => Shape::Object,
            _ => Shape::Number,
        }
    }

    /// The text of the value as it is written.
    pub(crate) fn text(self) -> &'a str {
        self.text
    }

    pub(crate) fn place(self) -> Place {
        let len = match self.shape() {
            Shape::List | Shape::Object => 1,
            _ => self.text.len(),
        };
        Place::unlocated(self.offset, len)
    }

    /// The value as an error names it: short ones as they are written.
    pub(crate) fn shown(self) -> String {
        match self.shape() {
            Shape::List => "a list".to_owned(),
            Shape::Object => "an object".to_owned(),
            _ => shorten(self.text),
        }
    }

    /// The elements of a list.
    pub(crate) fn items(self) -> Result<Vec<Value<'a>>, String> {
        let raw: Vec<&'a RawValue> = serde_json::from_str(self.text).map_err(reason)?;
        Ok(raw.into_iter().map(|raw| self.inner(raw)).collect())
    }

    /// The pairs of an object, in order, repeated keys included.
    pub(crate) fn members(self) -> Result<Vec<Member<'a>>, String> {
        let Pairs(pairs) = serde_json::from_str(self.text)
            .map_err(|error| format!("{}; the text has to be valid JSON", reason(error)))?;
        if pairs.len() > MEMBERS_MAX {
            return Err(format!(
                "an object of {} fields; at most {MEMBERS_MAX} are read",
                pairs.len()
            ));
        }
        pairs
            .into_iter()
            .map(|(key, value)| {
                let key = self.inner(key);
                Ok(Member {
                    key: key.string()?,
                    key_place: key.place(),
                    value: self.inner(value),
                })
            })
            .collect()
    }

    /// The text that a string stands for, escapes resolved.
    pub(crate) fn string(self) -> Result<Cow<'a, str>, String> {
        match self.text.get(1..self.text.len().saturating_sub(1)) {
            Some(plain) if !plain.contains('\\') => Ok(Cow::Borrowed(plain)),
            _ => serde_json::from_str(self.text)
                .map(Cow::Owned)
                .map_err(reason),
        }
    }

    fn inner(self, raw: &'a RawValue) -> Value<'a> {
        Value {
            text: raw.get(),
            offset: self.offset + distance(self.text, raw.get()),
        }
    }
}

/// At most the first characters of a text that is quoted in an error.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

struct Pairs<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Vec<(&'de RawValue, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(Visitor).map(Pairs)
    }
}

/// Bytes from the start of `outer` to the start of its slice `inner`.
fn distance(outer: &str, inner: &str) -> usize {
    inner.as_ptr().addr().saturating_sub(outer.as_ptr().addr())
}

/// Where nesting first exceeds the limit. Looks at brackets outside of strings
/// only; whether they match is `serde_json`'s business.
fn too_deep(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Some(offset);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// The offset of `serde_json`'s line (from 1) and column (bytes, from 1).
fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let start = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum::<usize>();
    let mut offset = (start + column.saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// `serde_json`'s message without its place (ours counts characters).
fn reason(error: serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

fn syntax_message(text: &str, offset: usize, error: &serde_json::Error) -> String {
    let found = token_at(text, offset);
    let bare = found.trim_start_matches('-');
    let what = match bare {
        "NaN" | "nan" | "Infinity" | "inf" | "Inf" => {
            return format!("{found} is not JSON; write a finite number");
        }
        "None" | "undefined" | "nil" | "NULL" => {
            return format!("{found} is not JSON; write null, or leave the field out");
        }
        "True" | "TRUE" | "False" | "FALSE" => {
            return format!("{found} is not JSON; write true or false");
        }
        _ => error.to_string(),
    };
    let what = what.rfind(" at line ").map_or(&*what, |end| &what[..end]);
    let would_do = match text[offset..].chars().next() {
        _ if error.is_eof() => "the text ends too early, see whether it was cut off",
        Some('/' | '#') => "JSON has no comments",
        Some('\'') => "JSON quotes text with \"",
        Some(']' | '}') if text[..offset].trim_end().ends_with(',') => "remove the comma before it",
        _ if what == "trailing characters" => "a document is one JSON value",
        Some(c) if c.is_alphabetic() => "JSON quotes text and keys with \"",
        _ => "the text has to be valid JSON",
    };
    format!("{what}; {would_do}")
}

/// The word around `offset`: letters, and a minus before them.
fn token_at(text: &str, offset: usize) -> &str {
    let word = |c: char| c.is_ascii_alphabetic() || c == '-';
    let start = text[..offset]
        .char_indices()
        .rev()
        .take_while(|(_, c)| word(*c))
        .last()
        .map_or(offset, |(at, _)| at);
    let tail = &text[start..];
    let end = tail.find(|c: char| !word(c)).unwrap_or(tail.len());
    &tail[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (usize, String) {
        let fault = read(text, "flow").unwrap_err();
        (fault.place.map_or(0, |place| place.offset), fault.message)
    }

    #[test]
    fn values_know_their_place() {
        let text = " [ {\"a\" : -1.5e3, \"b\\u0062\": [null], \"a\": \"x\"} ]\n";
        let list = read(text, "flow").unwrap();
        let object = list.items().unwrap()[0];
        let members: Vec<(String, usize, &str, usize, Shape)> = object
            .members()
            .unwrap()
            .iter()
            .map(|m| {
                let (key, value) = (m.key.to_string(), m.value);
                let place = value.place();
                (
                    key,
                    m.key_place.offset,
                    value.text(),
                    place.offset,
                    value.shape(),
                )
            })
            .collect();
        let at = |part: &str| text.find(part).unwrap();
        assert_eq!(
            members,
            [
                (
                    "a".to_owned(),
                    at("\"a\""),
                    "-1.5e3",
                    at("-1.5"),
                    Shape::Number
                ),
                (
                    "bb".to_owned(),
                    at("\"b"),
                    "[null]",
                    at("[null"),
                    Shape::List
                ),
                (
                    "a".to_owned(),
                    at("\"a\": "),
                    "\"x\"",
                    at("\"x\""),
                    Shape::Text
                ),
            ]
        );
    }

    #[test]
    fn syntax_errors_say_what_would_do() {
        for (text, at, message) in [
            ("[NaN]", 1, "NaN is not JSON; write a finite number"),
            ("[-NaN]", 2, "-NaN is not JSON; write a finite number"),
            (
                "[{\"count\": Infinity}]",
                11,
                "Infinity is not JSON; write a finite number",
            ),
            ("[1,]", 3, "expected value; remove the comma before it"),
            (
                "[{\"a\":1,}]",
                8,
                "key must be a string; remove the comma before it",
            ),
            (
                "[] []",
                3,
                "trailing characters; a document is one JSON value",
            ),
            (
                "[\"a",
                2,
                "EOF while parsing a string; the text ends too early, see whether it was cut off",
            ),
            ("// rules\n[]", 0, "expected value; JSON has no comments"),
            (
                "[{a:1}]",
                2,
                "key must be a string; JSON quotes text and keys with \"",
            ),
            ("['a']", 1, "expected value; JSON quotes text with \""),
            ("[True]", 1, "True is not JSON; write true or false"),
            (
                "[{\"a\" 1}]",
                6,
                "expected `:`; the text has to be valid JSON",
            ),
        ] {
            assert_eq!(refused(text), (at, message.to_owned()), "{text}");
        }
    }

    #[test]
    fn ten_mebibytes_of_nesting_are_refused_at_once() {
        let message = "nested more than 32 deep; a list of rules is [{...}, {...}]".to_owned();
        let half = 5 << 20;
        let balanced = "[".repeat(half) + &"]".repeat(half);
        let objects = "{\"a\":".repeat(2 << 20);
        for (text, at) in [("[".repeat(10 << 20), 32), (balanced, 32), (objects, 160)] {
            assert_eq!(refused(&text), (at, message.clone()));
        }
    }

    #[test]
    fn brackets_in_strings_do_not_nest() {
        let text = format!("[\"{}\\\"[[\"]", "[".repeat(100));
        assert!(read(&text, "flow").is_ok());
    }

    #[test]
    fn a_long_value_is_quoted_in_part() {
        assert_eq!(shorten("äöü"), "äöü");
        assert_eq!(shorten(&"ä".repeat(60)), "ä".repeat(48) + "...");
    }
}

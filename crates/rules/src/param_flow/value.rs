//! Values of arguments: as a rule names them, as a table knows them, as people
//! read them.
//!
//! A table knows a value by 128 bits and what they mean ([`Key`]): numbers,
//! characters and text of up to 15 bytes are their own key; longer text, and
//! values of the service's own, are known by a keyed 128-bit digest
//! ([`Digest`]). So a look-up compares two words, allocates nothing, and needs
//! no access to an owned copy. Among a million long texts two share a digest
//! with a chance of 1 to 10^26, and nobody can choose them so.
//!
//! Whole numbers of all widths are one value; text, floats, truth values and
//! characters are apart. -0.0 is 0.0, and one NaN is as another.

use std::fmt;
use std::hash::{Hash, Hasher};

use flowgate_core::{Arg, Digest};

use super::table::Key;

/// A value that a hot-parameter rule names or remembers.
#[derive(Debug, Clone)]
pub enum ParamValue {
    /// A whole number.
    Int(i128),
    /// A whole number above `i128::MAX`.
    Huge(u128),
    /// A number with a fraction.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A character.
    Char(char),
    /// A text.
    Text(Box<str>),
    /// A value of the service's own: see [`Arg::hashed`].
    Hashed(u128),
}

/// What the text of a special value is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Class {
    Int,
    Float32,
    Float64,
    Bool,
    Char,
    Text,
}

impl Class {
    /// The class called `name` in Sentinel's JSON: a Java type, in full or not.
    pub(super) fn named(name: &str) -> Option<Self> {
        let bare = name.trim();
        let bare = bare.strip_prefix("java.lang.").unwrap_or(bare);
        let bare = bare.strip_prefix("java.math.").unwrap_or(bare);
        Some(match bare.to_ascii_lowercase().as_str() {
            "int" | "integer" | "long" | "short" | "byte" | "biginteger" => Class::Int,
            "float" => Class::Float32,
            "double" => Class::Float64,
            "bool" | "boolean" => Class::Bool,
            "char" | "character" => Class::Char,
            "" | "string" => Class::Text,
            _ => return None,
        })
    }

    /// Reads `text`.
    ///
    /// # Errors
    ///
    /// What it is not, and what would do.
    pub(super) fn read(self, text: &str) -> Result<ParamValue, &'static str> {
        let trimmed = text.trim();
        match self {
            Class::Int => match (trimmed.parse(), trimmed.parse()) {
                (Ok(number), _) => Ok(ParamValue::Int(number)),
                (_, Ok(number)) => Ok(ParamValue::Huge(number)),
                _ => Err("is not a whole number; write its digits, or another classType"),
            },
            // A 32-bit float is widened, as the argument will be.
            Class::Float32 => trimmed
                .parse()
                .map(|number: f32| ParamValue::Float(number.into()))
                .map_err(|_| NO_NUMBER),
            Class::Float64 => trimmed
                .parse()
                .map(ParamValue::Float)
                .map_err(|_| NO_NUMBER),
            Class::Bool if trimmed.eq_ignore_ascii_case("true") => Ok(ParamValue::Bool(true)),
            Class::Bool if trimmed.eq_ignore_ascii_case("false") => Ok(ParamValue::Bool(false)),
            Class::Bool => Err("is not true or false; write one of them"),
            Class::Char => {
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (Some(c), None) => Ok(ParamValue::Char(c)),
                    _ => Err("is not one character; write one, or another classType"),
                }
            }
            Class::Text => Ok(ParamValue::Text(text.into())),
        }
    }
}

const NO_NUMBER: &str = "is not a number; write one, or another classType";

impl ParamValue {
    /// The name of its type in Sentinel's JSON. `None`: it has none there.
    pub(super) fn class_name(&self) -> Option<&'static str> {
        Some(match self {
            ParamValue::Int(number) if i32::try_from(*number).is_ok() => "int",
            ParamValue::Int(number) if i64::try_from(*number).is_ok() => "long",
            ParamValue::Int(_) | ParamValue::Huge(_) => "java.math.BigInteger",
            ParamValue::Float(_) => "double",
            ParamValue::Bool(_) => "boolean",
            ParamValue::Char(_) => "char",
            ParamValue::Text(_) => "java.lang.String",
            ParamValue::Hashed(_) => return None,
        })
    }

    pub(super) fn key(&self) -> Key {
        match self {
            ParamValue::Int(number) => Key::int(*number),
            ParamValue::Huge(number) => Key::huge(*number),
            ParamValue::Float(number) => Key::float(*number),
            ParamValue::Bool(is) => Key::new(BOOL, u128::from(*is)),
            ParamValue::Char(c) => Key::new(CHAR, u128::from(u32::from(*c))),
            ParamValue::Text(text) => Key::text(text),
            ParamValue::Hashed(digest) => Key::new(HASHED, *digest),
        }
    }

    /// Its text, if its key is only a digest of it.
    pub(super) fn long_text(&self) -> Option<&str> {
        match self {
            ParamValue::Text(text) if text.len() > SHORT_MAX => Some(text),
            _ => None,
        }
    }

    /// The value of `key`; `text` is that of a long one.
    pub(super) fn of_key(key: Key, text: Option<&str>) -> Self {
        match key.kind {
            INT => ParamValue::Int((key.bits >> 1) as i128 ^ -((key.bits & 1) as i128)),
            HUGE => ParamValue::Huge(key.bits),
            FLOAT => ParamValue::Float(f64::from_bits(key.bits as u64)),
            BOOL => ParamValue::Bool(key.bits != 0),
            CHAR => ParamValue::Char(char::from_u32(key.bits as u32).unwrap_or_default()),
            SHORT => {
                let bytes = key.bits.to_le_bytes();
                let len = match bytes[SHORT_MAX] {
                    0 => usize::from(bytes[WORD_MAX]).min(WORD_MAX),
                    len => usize::from(len).min(SHORT_MAX),
                };
                ParamValue::Text(String::from_utf8_lossy(&bytes[..len]).into())
            }
            LONG => ParamValue::Text(text.unwrap_or_default().into()),
            _ => ParamValue::Hashed(key.bits),
        }
    }
}

const INT: u8 = 1;
const HUGE: u8 = 2;
const FLOAT: u8 = 3;
const BOOL: u8 = 4;
const CHAR: u8 = 5;
const SHORT: u8 = 6;
const LONG: u8 = 7;
// A table has three bits for them.
const HASHED: u8 = 0;

/// Bytes of a text that is its own key; its length takes the 16th.
const SHORT_MAX: usize = 15;
/// Bytes of a text whose key is a single word; its length takes the eighth.
const WORD_MAX: usize = 7;

impl Key {
    /// The key of an argument, and its text if the key is only a digest. `None`:
    /// it has no value of its own (null, a list).
    #[inline]
    pub(super) fn of<'a>(arg: Arg<'a>) -> Option<(Key, Option<&'a str>)> {
        Some(match arg {
            Arg::Str(text) if text.len() > SHORT_MAX => (Key::text(text), Some(text)),
            Arg::Str(text) => (Key::text(text), None),
            Arg::Int(number) => (Key::int(number), None),
            Arg::Huge(number) => (Key::huge(number), None),
            Arg::Float(number) => (Key::float(number), None),
            Arg::Bool(is) => (Key::new(BOOL, u128::from(is)), None),
            Arg::Char(c) => (Key::new(CHAR, u128::from(u32::from(c))), None),
            Arg::Hashed(digest) => (Key::new(HASHED, digest), None),
            _ => return None,
        })
    }

    fn new(kind: u8, bits: u128) -> Self {
        Key { kind, bits }
    }

    /// Small numbers are small keys, those below 0 too: 0, -1, 1, -2, 2 …
    fn int(number: i128) -> Self {
        Key::new(INT, ((number << 1) ^ (number >> 127)) as u128)
    }

    fn huge(number: u128) -> Self {
        i128::try_from(number).map_or(Key::new(HUGE, number), Key::int)
    }

    fn float(number: f64) -> Self {
        let plain = if number.is_nan() {
            f64::NAN
        } else {
            number + 0.0
        };
        Key::new(FLOAT, plain.to_bits().into())
    }

    #[inline]
    fn text(text: &str) -> Self {
        let len = text.len();
        if len > SHORT_MAX {
            return Key::new(LONG, Digest::process().of(text));
        }
        let mut bytes = [0; SHORT_MAX + 1];
        bytes[..len].copy_from_slice(text.as_bytes());
        let last = if len > WORD_MAX { SHORT_MAX } else { WORD_MAX };
        bytes[last] = len as u8;
        Key::new(SHORT, u128::from_le_bytes(bytes))
    }
}

impl PartialEq for ParamValue {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ParamValue {}

impl Hash for ParamValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Key { kind, bits } = self.key();
        (kind, bits).hash(state);
    }
}

impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamValue::Int(number) => number.fmt(f),
            ParamValue::Huge(number) => number.fmt(f),
            // With its point, or it would read as a whole number.
            ParamValue::Float(number) => write!(f, "{number:?}"),
            ParamValue::Bool(is) => is.fmt(f),
            ParamValue::Char(c) => c.fmt(f),
            ParamValue::Text(text) => text.fmt(f),
            ParamValue::Hashed(digest) => write!(f, "#{digest:032x}"),
        }
    }
}

macro_rules! value_from {
    ($($from:ty => |$value:ident| $made:expr),* $(,)?) => {$(
        impl From<$from> for ParamValue {
            fn from($value: $from) -> Self {
                $made
            }
        }
    )*};
}
value_from! {
    i32 => |number| ParamValue::Int(number.into()),
    i64 => |number| ParamValue::Int(number.into()),
    u64 => |number| ParamValue::Int(number.into()),
    i128 => |number| ParamValue::Int(number),
    f64 => |number| ParamValue::Float(number),
    bool => |is| ParamValue::Bool(is),
    char => |c| ParamValue::Char(c),
    &str => |text| ParamValue::Text(text.into()),
    String => |text| ParamValue::Text(text.into()),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(arg: Arg<'_>) -> Key {
        Key::of(arg).unwrap().0
    }

    #[test]
    fn integers_of_all_widths_are_one_value_and_other_types_are_apart() {
        let sevens = [
            Arg::from(7_i8),
            Arg::from(7_u16),
            Arg::from(7_i64),
            Arg::from(7_u64),
            Arg::from(7_usize),
            Arg::from(7_u128),
            Arg::Huge(7),
        ];
        assert!(sevens.iter().all(|seven| key(*seven) == key(Arg::Int(7))));
        let others = [
            Arg::Int(7),
            Arg::Float(7.0),
            Arg::Str("7"),
            Arg::Char('7'),
            Arg::Bool(true),
            Arg::hashed(&7),
            Arg::from(u128::MAX),
            Arg::Int(-1),
        ];
        for (at, one) in others.iter().enumerate() {
            for other in &others[at + 1..] {
                assert_ne!(key(*one), key(*other), "{one:?} {other:?}");
            }
        }
        assert_eq!(key(Arg::Float(-0.0)), key(Arg::Float(0.0)));
        assert_eq!(key(Arg::Float(f64::NAN)), key(Arg::Float(-f64::NAN)));
        assert_eq!(key(Arg::from(2.5_f32)), key(Arg::from(2.5_f64)));
    }

    #[test]
    fn a_text_is_its_own_key_up_to_fifteen_bytes() {
        let texts = [
            "",
            "\0",
            "a",
            "a\0",
            "fifteen bytes!!",
            "sixteen bytes!!!",
            "sixteen bytes!!?",
        ];
        for (at, one) in texts.iter().enumerate() {
            let value = ParamValue::from(*one);
            let (key, long) = Key::of(Arg::Str(one)).unwrap();
            assert_eq!(key, value.key());
            assert_eq!(long, value.long_text());
            assert_eq!(ParamValue::of_key(key, long).to_string(), **one);
            for other in &texts[at + 1..] {
                assert_ne!(value, ParamValue::from(*other));
            }
        }
    }

    #[test]
    fn a_special_value_is_read_as_its_class_says() {
        let read = |name: &str, text: &str| Class::named(name).unwrap().read(text);
        for name in [
            "int",
            "java.lang.Integer",
            "long",
            "java.lang.Long",
            "short",
            "byte",
        ] {
            assert_eq!(read(name, "7"), Ok(ParamValue::Int(7)), "{name}");
        }
        assert_eq!(read("", "7"), Ok("7".into()));
        assert_eq!(read("java.lang.String", " x "), Ok(" x ".into()));
        assert_eq!(read("double", "1.5"), Ok(1.5.into()));
        assert_eq!(read("float", "0.1"), Ok(f64::from(0.1_f32).into()));
        assert_eq!(read("java.lang.Boolean", "TRUE"), Ok(true.into()));
        assert_eq!(read("char", "q"), Ok('q'.into()));
        let huge = u128::MAX.to_string();
        assert_eq!(
            read("java.math.BigInteger", &huge).unwrap().to_string(),
            huge
        );
        for (name, text) in [
            ("int", "abc"),
            ("int", "1.5"),
            ("double", "x"),
            ("boolean", "1"),
            ("char", "ab"),
        ] {
            assert!(read(name, text).is_err(), "{name} {text}");
        }
        assert_eq!(Class::named("com.example.User"), None);
    }
}

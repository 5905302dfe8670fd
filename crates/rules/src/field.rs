//! One definition per field of a rule. It feeds the reader (types, names of
//! modes, "did you mean"), the error texts, and whoever describes the rules
//! to people: documentation, command line, dashboard forms.

use serde::Serialize;

/// One field of a kind of rule, as it is written in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FieldSpec {
    /// Its JSON name, for example `maxQueueingTimeMs`.
    pub name: &'static str,
    /// What may stand there.
    pub kind: FieldKind,
    /// What an absent field (or `null`) means, as JSON text; `None`: it has
    /// to be given, or absent means something that has no JSON of its own.
    pub default: Option<&'static str>,
    /// What it is for, one sentence.
    pub help: &'static str,
    /// The last half of an error about it: what would do.
    pub advice: &'static str,
    /// Whether it is written so in sentinel-golang's dialect too, so that it
    /// does not tell the two apart.
    pub shared: bool,
    /// Whether it is Flowgate's own: Sentinel for Java does not read it.
    pub added: bool,
    /// Whether every rule has to have it.
    pub required: bool,
    /// The field that may stand in place of it: a rule has to have one of the
    /// two.
    pub instead: Option<&'static str>,
    /// The least that a rule which uses it may say, of a number.
    pub min: Option<u32>,
    /// The most.
    pub max: Option<u32>,
}

/// What may stand in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FieldKind {
    /// A rule's id: text, or a whole number.
    Id,
    /// Text.
    Text,
    /// A number, with or without a fraction.
    Number,
    /// A whole number; `20.0` is one.
    Whole,
    /// `true` or `false`.
    Flag,
    /// One of a few modes, by number (as Sentinel) or by name.
    Mode(&'static [Choice]),
    /// A list of objects with these fields.
    Objects(&'static [FieldSpec]),
}

/// One mode of a field of [`FieldKind::Mode`]. Its number is its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Its name in JSON. Case, `_` and `-` do not matter.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// What it does.
    pub help: &'static str,
    /// Whether it is written by its name alone: Sentinel refuses its number, so
    /// a document that has the number there is at fault.
    pub by_name: bool,
}

/// An enum that JSON writes as a number or a name.
pub trait Mode: Copy + 'static {
    /// The variants; each one's number in JSON is its index.
    const ALL: &'static [Self];
    /// Names and help, in the order of [`ALL`](Mode::ALL).
    const CHOICES: &'static [Choice];
}

impl FieldSpec {
    /// A field; the other parts follow through the methods below.
    #[must_use]
    pub const fn new(name: &'static str, kind: FieldKind, help: &'static str) -> Self {
        Self {
            name,
            kind,
            default: None,
            help,
            advice: "",
            shared: false,
            added: false,
            required: false,
            instead: None,
            min: None,
            max: None,
        }
    }

    /// What absent means, as JSON text.
    #[must_use]
    pub const fn default(mut self, json: &'static str) -> Self {
        self.default = Some(json);
        self
    }

    /// What would do, for errors.
    #[must_use]
    pub const fn advice(mut self, advice: &'static str) -> Self {
        self.advice = advice;
        self
    }

    /// Marks a field that is written so in sentinel-golang's dialect too.
    #[must_use]
    pub const fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Marks a field that Sentinel for Java does not read.
    #[must_use]
    pub const fn added(mut self) -> Self {
        self.added = true;
        self
    }

    /// Marks a field that every rule has to have: a text without it is at
    /// fault, "missing; " and the advice.
    ///
    /// This, [`min`](Self::min) and [`max`](Self::max) are checked of each rule
    /// that is read, once its kind has looked at it, and of a field only about
    /// which the kind has not said anything itself. Rules that are built in
    /// code have no fields: what those must not say is for
    /// [`validate`](crate::RuleKind::validate).
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Marks a field that every rule without the field `other` has to have.
    #[must_use]
    pub const fn required_or(mut self, other: &'static str) -> Self {
        self.instead = Some(other);
        self
    }

    /// The least that may stand there: less is a fault, or a warning if the
    /// rule does not use the field ([`Fields::unused`](crate::Fields::unused)).
    #[must_use]
    pub const fn min(mut self, min: u32) -> Self {
        self.min = Some(min);
        self
    }

    /// The most that may stand there, as [`min`](Self::min).
    #[must_use]
    pub const fn max(mut self, max: u32) -> Self {
        self.max = Some(max);
        self
    }
}

impl Choice {
    /// A mode with one name.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            aliases: &[],
            help,
            by_name: false,
        }
    }

    /// Takes its number away: it is written by name.
    #[must_use]
    pub const fn by_name(mut self) -> Self {
        self.by_name = true;
        self
    }

    /// Further names.
    #[must_use]
    pub const fn or(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    fn is_called(&self, name: &str) -> bool {
        let name = plain(name);
        plain(self.name) == name || self.aliases.iter().any(|alias| plain(alias) == name)
    }
}

/// The index of the choice called `name`.
pub(crate) fn choice_named(choices: &[Choice], name: &str) -> Option<usize> {
    choices.iter().position(|choice| choice.is_called(name))
}

/// "0 (`concurrency`) or 1 (`qps`)", for errors.
pub(crate) fn choices_text(choices: &[Choice]) -> String {
    let shown: Vec<String> = choices
        .iter()
        .enumerate()
        .map(|(number, choice)| match choice.by_name {
            true => format!("\"{}\"", choice.name),
            false => format!("{number} ({})", choice.name),
        })
        .collect();
    match shown.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// The known name that `name` most likely was meant to be.
pub(crate) fn similar<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // From here on a typo is likelier than another word; found by trying.
    const LIKE: f64 = 0.85;
    // A longer one is no typo, and comparing costs the product of the lengths.
    const LEN_MAX: usize = 64;
    if name.len() > LEN_MAX {
        return None;
    }
    let wanted = plain(name);
    known
        .map(|candidate| (strsim::jaro_winkler(&wanted, &plain(candidate)), candidate))
        .filter(|(likeness, _)| *likeness >= LIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// A name without what people write differently: case, `_`, `-`.
fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case_and_separators() {
        let choices = [Choice::new("rateLimiter", "").or(&["throttle"])];
        for name in ["rateLimiter", "RATE_LIMITER", "rate-limiter", "Throttle"] {
            assert_eq!(choice_named(&choices, name), Some(0), "{name}");
        }
        assert_eq!(choice_named(&choices, "rate limiter"), None);
    }

    #[test]
    fn a_typo_finds_its_field_and_another_word_finds_none() {
        let known = ["resource", "count", "maxQueueingTimeMs", "warmUpPeriodSec"];
        for (typo, meant) in [
            ("maxQueueTimeMs", Some("maxQueueingTimeMs")),
            ("max_queueing_time_ms", Some("maxQueueingTimeMs")),
            ("cuont", Some("count")),
            ("Resource", Some("resource")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(similar(typo, known.into_iter()), meant, "{typo}");
        }
    }
}

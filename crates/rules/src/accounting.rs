//! How the accounting of a rate is written.
//!
//! The names are the core's own: one spelling in documents, refusals and
//! reports. Flowgate alone reads the field, so it is written by name.

use std::fmt;

use flowgate_core::Accounting;
use serde::{Serialize, Serializer};

use crate::field::{Choice, Mode};

/// What the field is called, in every kind that has it.
pub(crate) const FIELD: &str = "accounting";

impl Mode for Accounting {
    const ALL: &'static [Self] = &[Self::Window, Self::Strict, Self::TokenBucket];
    const CHOICES: &'static [Choice] = &[
        Choice::new(
            Self::Window.name(),
            "boxes as in Sentinel: at most the limit in a little less than the interval",
        )
        .or(&["sliding", "slidingWindow"]),
        Choice::new(
            Self::Strict.name(),
            "boxes, and one more: at most the limit in any span of the interval",
        )
        .or(&["strictWindow"]),
        Choice::new(
            Self::TokenBucket.name(),
            "a bucket that fills evenly: at most burst + rate · t in any span t",
        )
        .or(&["bucket"]),
    ];
}

/// Whether it is what a rule means that says nothing of it.
pub(crate) fn is_window(accounting: &Accounting) -> bool {
    *accounting == Accounting::Window
}

/// As `serialize_with`: its name.
pub(crate) fn by_name<S: Serializer>(
    accounting: &Accounting,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(accounting.name())
}

/// The same of one that a rule may have.
pub(crate) fn by_name_if_any<S: Serializer>(
    accounting: &Option<Accounting>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    accounting.map(Accounting::name).serialize(serializer)
}

/// How many rules are accounted otherwise than in Sentinel's windows.
///
/// Its text is a list without zeros, `1 strict, 2 tokenBucket`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Accountings {
    /// [`Accounting::Strict`].
    pub strict: usize,
    /// [`Accounting::TokenBucket`].
    pub token_bucket: usize,
}

impl Accountings {
    /// Counts a rule that is accounted so.
    pub(crate) fn add(&mut self, accounting: Option<Accounting>) {
        match accounting {
            Some(Accounting::Strict) => self.strict += 1,
            Some(Accounting::TokenBucket) => self.token_bucket += 1,
            Some(Accounting::Window) | None => {}
        }
    }

    /// Counts it no longer.
    pub(crate) fn take_off(&mut self, accounting: Option<Accounting>) {
        match accounting {
            Some(Accounting::Strict) => self.strict -= 1,
            Some(Accounting::TokenBucket) => self.token_bucket -= 1,
            Some(Accounting::Window) | None => {}
        }
    }

    /// Whether there are none: all rates are in windows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Accountings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.strict, Accounting::Strict),
            (self.token_bucket, Accounting::TokenBucket),
        ];
        let there = counts.iter().filter(|(count, _)| *count > 0);
        for (index, (count, accounting)) in there.enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {accounting}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_listed_without_zeros() {
        use Accounting::{Strict, TokenBucket, Window};
        let text = |rules: &[Accounting]| {
            let mut counts = Accountings::default();
            counts.add(None);
            rules
                .iter()
                .for_each(|accounting| counts.add(Some(*accounting)));
            counts.add(Some(Strict));
            counts.take_off(Some(Strict));
            counts.to_string()
        };
        assert_eq!(text(&[Window]), "");
        assert_eq!(text(&[Strict, Window, Strict]), "2 strict");
        assert_eq!(text(&[TokenBucket, Strict]), "1 strict, 1 tokenBucket");
    }

    #[test]
    fn every_accounting_is_written_by_its_own_name() {
        assert_eq!(Accounting::ALL.len(), Accounting::CHOICES.len());
        for (accounting, choice) in Accounting::ALL.iter().zip(Accounting::CHOICES) {
            assert_eq!(accounting.name(), choice.name);
        }
    }
}

//! How the accounting of a rate is written.
//!
//! The names are the core's own: one spelling in documents, refusals and
//! reports. Flowgate alone reads the field, so it is written by name.

use flowgate_core::Accounting;
use serde::Serializer;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_accounting_is_written_by_its_own_name() {
        assert_eq!(Accounting::ALL.len(), Accounting::CHOICES.len());
        for (accounting, choice) in Accounting::ALL.iter().zip(Accounting::CHOICES) {
            assert_eq!(accounting.name(), choice.name);
        }
    }
}

//! What can be read of the values that a rule remembers: which are the hottest,
//! how many there are, and how many had to go.

use super::state::Values;
use super::table::{Figures, Key};
use super::{ParamState, ParamValue};

/// One of the values that a rule remembers, and what it has called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotValue {
    /// The value.
    pub value: ParamValue,
    /// Calls that passed since it was first seen, up to eight trillion.
    pub passed: u64,
    /// Calls refused since then, up to four billion.
    pub refused: u64,
}

impl HotValue {
    fn calls(&self) -> u64 {
        self.passed + self.refused
    }
}

impl ParamState {
    /// The `k` values with the most calls since they were first seen, hottest
    /// first. Exact over the values remembered; looks at all of them, so it is
    /// for people, not for calls.
    #[must_use]
    pub fn top(&self, k: usize) -> Vec<HotValue> {
        let mut top: Vec<HotValue> = Vec::new();
        self.each(|key, text, (passed, refused)| {
            if passed + refused == 0 {
                return;
            }
            top.push(HotValue {
                value: ParamValue::of_key(key, text),
                passed,
                refused,
            });
            // Kept short now and then, or a million values would be copied.
            if top.len() >= k.saturating_mul(2).max(1_024) {
                keep_hottest(&mut top, k);
            }
        });
        keep_hottest(&mut top, k);
        top
    }

    /// How many values are remembered, those with limits of their own included.
    #[must_use]
    pub fn values(&self) -> u64 {
        self.figures().values
    }

    /// How many values were forgotten to make room for others.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.figures().evicted
    }

    /// How many calls of new values found no room and shared the overflow.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.figures().overflowed
    }

    /// Memory in use, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.figures().bytes
    }

    fn each(&self, visit: impl FnMut(Key, Option<&str>, (u64, u64))) {
        match &self.values {
            Values::Tokens(table) => table.each(visit),
            Values::Levels(table) => table.each(visit),
            Values::Lines(table) => table.each(visit),
            Values::Places(table) => table.each(visit),
        }
    }

    fn figures(&self) -> Figures {
        match &self.values {
            Values::Tokens(table) => table.figures(),
            Values::Levels(table) => table.figures(),
            Values::Lines(table) => table.figures(),
            Values::Places(table) => table.figures(),
        }
    }
}

/// The `k` with the most calls, in that order.
fn keep_hottest(values: &mut Vec<HotValue>, k: usize) {
    values.sort_by_key(|value| std::cmp::Reverse(value.calls()));
    values.truncate(k);
}

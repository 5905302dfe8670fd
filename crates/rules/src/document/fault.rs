//! What is said about a place in a document: faults, which refuse a rule, and
//! warnings, which do not. Both name *where*, *what was found*, *what would
//! do*.

use std::fmt;

/// How many faults or warnings are printed before "… and N more".
const LISTED_MAX: usize = 100;

/// How many are kept: a 10 MiB document of `{},{},{},…` has millions.
const KEPT_MAX: usize = 10_000;

/// Something said about a place in a document.
///
/// ```text
/// flow[3].maxQueueingTimeMs: -5 is negative; give milliseconds, 0 means do not wait (line 4, column 12)
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Kind, position in the list (from 0) and field: `flow[3].count`.
    pub path: String,
    /// Where in the text; `None` for rules that were built in code.
    pub place: Option<Place>,
    /// What was found, and what would do.
    pub message: String,
}

/// A remark that refuses its rule, and with it the document.
pub type Fault = Remark;

/// A remark about a rule that loads all the same.
pub type Warning = Remark;

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Bytes before it, a byte order mark included.
    pub offset: usize,
    /// Its length in bytes, at least 1.
    pub len: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// Why rules were refused: all faults, in the order of the document.
///
/// The rules that were in force stay in force. Displayed as one fault per
/// line, at most 100 of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", Listed(faults))]
pub struct RuleError {
    /// At least one fault.
    pub faults: Vec<Fault>,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        match self.place {
            Some(place) => write!(f, " (line {}, column {})", place.line, place.column),
            None => Ok(()),
        }
    }
}

impl RuleError {
    pub(crate) fn one(fault: Fault) -> Self {
        Self {
            faults: vec![fault],
        }
    }
}

/// A list of remarks for people: one per line, with an end.
pub(crate) struct Listed<'a>(pub(crate) &'a [Remark]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, remark) in self.0.iter().take(LISTED_MAX).enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{remark}")?;
        }
        match self.0.len().saturating_sub(LISTED_MAX) {
            0 => Ok(()),
            more => write!(f, "\n... and {more} more"),
        }
    }
}

/// Remarks while they are collected: the first ten thousand, and how many came
/// after.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    kept: Vec<Remark>,
    more: usize,
}

impl Remarks {
    pub(crate) fn push(&mut self, remark: Remark) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(remark);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn extend(&mut self, remarks: impl IntoIterator<Item = Remark>) {
        remarks.into_iter().for_each(|remark| self.push(remark));
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.extend(other.kept);
        self.more += other.more;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// All of them in the order of the text, with lines and columns.
    /// `text` starts at byte `base` of what was handed in.
    pub(crate) fn located(self, text: &str, base: usize) -> Vec<Remark> {
        let mut remarks = self.kept;
        remarks.sort_by_key(|remark| remark.place.map_or(usize::MAX, |place| place.offset));
        let (mut line, mut column) = (1, 1);
        let mut rest = text.char_indices().peekable();
        for place in remarks.iter_mut().filter_map(|r| r.place.as_mut()) {
            while let Some((_, c)) = rest.next_if(|(at, _)| *at < place.offset) {
                (line, column) = if c == '\n' {
                    (line + 1, 1)
                } else {
                    (line, column + 1)
                };
            }
            *place = Place {
                offset: place.offset + base,
                line,
                column,
                ..*place
            };
        }
        if self.more > 0 {
            remarks.push(Remark {
                path: "document".to_owned(),
                place: None,
                message: format!("{} more are not listed; begin with these", self.more),
            });
        }
        remarks
    }
}

impl Place {
    /// A place of which line and column are found later, in
    /// [`Remarks::located`].
    pub(crate) fn unlocated(offset: usize, len: usize) -> Self {
        Self {
            offset,
            len: len.max(1),
            line: 0,
            column: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remark(offset: Option<usize>) -> Remark {
        Remark {
            path: "flow[0]".to_owned(),
            place: offset.map(|offset| Place::unlocated(offset, 1)),
            message: "x; y".to_owned(),
        }
    }

    #[test]
    fn places_are_found_in_one_sweep_in_characters() {
        let text = "äö\r\n  ü!\n";
        let mut remarks = Remarks::default();
        for offset in [8, 0, 10, 2] {
            remarks.push(remark(Some(offset)));
        }
        let found: Vec<(usize, usize, usize)> = remarks
            .located(text, 3)
            .iter()
            .filter_map(|r| r.place)
            .map(|p| (p.offset, p.line, p.column))
            .collect();
        assert_eq!(found, [(3, 1, 1), (5, 1, 2), (11, 2, 3), (13, 2, 4)]);
    }

    #[test]
    fn a_long_list_ends_with_a_count() {
        let error = RuleError {
            faults: vec![remark(None); 103],
        };
        let text = error.to_string();
        assert_eq!(text.lines().count(), 101);
        assert!(text.starts_with("flow[0]: x; y\n"), "{text}");
        assert!(text.ends_with("\n... and 3 more"), "{text}");
    }
}

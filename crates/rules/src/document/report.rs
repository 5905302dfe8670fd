//! What loading rules did.

use std::fmt;
use std::sync::Arc;

use super::fault::{Fault, Listed, Warning};
use crate::accounting::Accountings;
use crate::dialect::Dialect;

/// What to do with rules that have faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnInvalid {
    /// Refuse the document whole, listing all faults; nothing changes.
    #[default]
    Refuse,
    /// Drop each faulty rule, report it, load the rest, as Sentinel does. A
    /// document that cannot be read, or names an unknown kind, is refused
    /// all the same.
    Skip,
}

/// How a text of rules is loaded. From an [`OnInvalid`] or a [`Dialect`]
/// alone: with the default for the other.
///
/// ```
/// use flowgate_rules::{Dialect, LoadOptions, OnInvalid};
///
/// let options = LoadOptions { dialect: Some(Dialect::Golang), ..OnInvalid::Skip.into() };
/// assert_eq!(LoadOptions::from(Dialect::Golang).on_invalid, OnInvalid::Refuse);
/// # let _: LoadOptions = options;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadOptions {
    /// What to do with rules that have faults.
    pub on_invalid: OnInvalid,
    /// Whose fields the text has. `None`: that is seen from the fields;
    /// those of both are an error, and so is a text without any that
    /// means one thing in one dialect and another in the other.
    pub dialect: Option<Dialect>,
}

impl From<OnInvalid> for LoadOptions {
    fn from(on_invalid: OnInvalid) -> Self {
        Self {
            on_invalid,
            dialect: None,
        }
    }
}

impl From<Dialect> for LoadOptions {
    fn from(dialect: Dialect) -> Self {
        Self {
            on_invalid: OnInvalid::Refuse,
            dialect: Some(dialect),
        }
    }
}

/// What loading changed, per kind, and what was odd about it.
///
/// Its text is a summary for a log or a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadReport {
    /// The dialect that the text was read in.
    pub dialect: Dialect,
    /// One for each kind that was loaded.
    pub kinds: Vec<KindReport>,
    /// Faults of the rules that were dropped ([`OnInvalid::Skip`]).
    pub skipped: Vec<Fault>,
    /// Rules that say the same as an earlier one and were loaded once.
    pub duplicates: Vec<Duplicate>,
    /// What is odd but loads.
    pub warnings: Vec<Warning>,
}

/// What loading changed in one kind. Rules go by their id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KindReport {
    /// The kind: `flow`.
    pub kind: &'static str,
    /// Rules in force now.
    pub active: usize,
    /// How many of them are accounted otherwise than in windows.
    pub accountings: Accountings,
    /// Rules that were not there before.
    pub added: Vec<Arc<str>>,
    /// Rules of which the content changed under the same id; their state
    /// starts anew.
    pub changed: Vec<Arc<str>>,
    /// Rules that say what they said; their state lives on.
    pub kept: Vec<Arc<str>>,
    /// How many rules stay because the change was not about them nor about
    /// others of their resource; their state lives on. They are not among
    /// [`kept`](Self::kept).
    pub untouched: usize,
    /// Rules that are gone, by the ids that they had.
    pub removed: Vec<Arc<str>>,
    /// How many faulty rules were dropped ([`OnInvalid::Skip`]).
    pub skipped: usize,
}

/// A rule that says the same as an earlier one of its list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The kind of both.
    pub kind: &'static str,
    /// Position of the one left out, in the list that was given.
    pub position: usize,
    /// Position of the one in force: in the list that was given too, or if a
    /// text changed some rules only, in the list of all.
    pub original: usize,
}

impl LoadReport {
    /// What became of one kind; `None` if it was not in the document.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<&KindReport> {
        self.kinds.iter().find(|kind| kind.kind == name)
    }

    /// Rules of a kind now in force; 0 too if the kind was not in the
    /// document.
    #[must_use]
    pub fn active(&self, kind: &str) -> usize {
        self.kind(kind).map_or(0, |kind| kind.active)
    }

    /// Whether the rules in force say now what they said before.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.kinds
            .iter()
            .all(|kind| kind.added.is_empty() && kind.changed.is_empty() && kind.removed.is_empty())
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, kind) in self.kinds.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{kind}")?;
        }
        let sections: [(&str, &[Warning]); 2] =
            [("skipped", &self.skipped), ("warnings", &self.warnings)];
        for (name, remarks) in sections {
            if !remarks.is_empty() {
                write!(f, "\n{name}:\n{}", Listed(remarks))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for KindReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} in force", self.kind, self.active)?;
        if !self.accountings.is_empty() {
            write!(f, " ({})", self.accountings)?;
        }
        write!(
            f,
            ", {} added, {} changed, {} kept, {} removed",
            self.added.len(),
            self.changed.len(),
            self.kept.len() + self.untouched,
            self.removed.len(),
        )?;
        match self.skipped {
            0 => Ok(()),
            skipped => write!(f, ", {skipped} skipped"),
        }
    }
}

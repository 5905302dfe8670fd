//! What a guarded piece of work may end with.

use std::fmt;

use flowgate_core::{Block, Outcome};

/// Why guarded work gave no result: it was refused, or it failed.
#[derive(Clone, Debug, PartialEq)]
pub enum CallError<E> {
    /// A rule refused; the work was not begun.
    Blocked(Block),
    /// The work was done, and failed.
    Failed(E),
}

impl<E> CallError<E> {
    /// The refusal, if it was one.
    pub fn block(&self) -> Option<&Block> {
        match self {
            CallError::Blocked(block) => Some(block),
            CallError::Failed(_) => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Blocked(block) => block.fmt(f),
            CallError::Failed(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for CallError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Shown as the error itself, so what is behind it comes next.
        match self {
            CallError::Blocked(block) => block.source(),
            CallError::Failed(error) => error.source(),
        }
    }
}

pub(crate) fn outcome_of<T, E>(result: &Result<T, E>) -> Outcome {
    match result {
        Ok(_) => Outcome::Success,
        Err(_) => Outcome::Error,
    }
}

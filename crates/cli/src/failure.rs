//! What keeps a command from doing what it was asked to do.

use std::io;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{name}: {source}")]
    Read { name: String, source: io::Error },
    #[error("{name}: a whole document, not a list of {kind} rules; leave out --kind")]
    NoList { name: String, kind: &'static str },
    #[error("both rules and log are to be read from standard input; give one of them as a file")]
    BothFromStdin,
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
    #[error("cannot write: {0}")]
    Json(#[source] serde_json::Error),
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        match error.io_error_kind() {
            Some(kind) => Failure::Write(kind.into()),
            None => Failure::Json(error),
        }
    }
}

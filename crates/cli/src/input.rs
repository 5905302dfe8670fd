//! A file, or standard input for `-`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// What an argument names.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Stdin,
    File(PathBuf),
}

impl Input {
    /// For [`clap`]: any argument names an input.
    pub(crate) fn parse(argument: &str) -> Result<Self, std::convert::Infallible> {
        Ok(match argument {
            "-" => Input::Stdin,
            path => Input::File(path.into()),
        })
    }

    pub(crate) fn is_stdin(&self) -> bool {
        matches!(self, Input::Stdin)
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Input::Stdin => None,
            Input::File(path) => Some(path),
        }
    }

    /// What to call it in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Input::Stdin => "<stdin>".to_owned(),
            Input::File(path) => path.display().to_string(),
        }
    }

    pub(crate) fn read_all(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        self.open()?
            .0
            .read_to_end(&mut bytes)
            .map_err(|source| self.unreadable(source))?;
        Ok(bytes)
    }

    /// A reader, and the length in bytes if that is known beforehand.
    pub(crate) fn open(&self) -> Result<(Box<dyn BufRead>, Option<u64>), Failure> {
        let path = match self {
            Input::Stdin => return Ok((Box::new(io::stdin().lock()), None)),
            Input::File(path) => path,
        };
        let file = File::open(path).map_err(|source| self.unreadable(source))?;
        let len = file.metadata().ok().filter(|it| it.is_file());
        let len = len.map(|it| it.len());
        Ok((Box::new(BufReader::with_capacity(1 << 16, file)), len))
    }

    pub(crate) fn unreadable(&self, source: io::Error) -> Failure {
        Failure::Read {
            name: self.name(),
            source,
        }
    }
}

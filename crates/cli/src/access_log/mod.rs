//! Access logs in Common and Combined Log Format, as calls in the order of
//! time.
//!
//! ```text
//! 198.18.0.1 - frank [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 2326 "referer" "agent"
//! client                 time to the second         method, path
//! ```
//!
//! The whole log is read before the first call is made, for two reasons.
//! Servers write a line when a request *ends*, so the lines are not in the
//! order of time; they are sorted by it, and lines of one second stay in the
//! order of the file. And times are whole seconds: the `n` lines of one second
//! are spread evenly over it, the first at its begin, so that they do not all
//! arrive at once.
//!
//! What is no request is counted and never fatal. A kept request takes 16
//! bytes, plus each name once.

mod line;
mod names;
mod read;

pub use line::{Line, Malformed, parse};
pub use names::Names;

use std::io::{self, BufRead};

use flowgate::Timestamp;

/// What calls are told apart by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResourceOf {
    /// `GET:/path` without the query, as Sentinel's adapters for the web name
    /// resources.
    #[default]
    MethodPath,
    /// `/path` without the query.
    Path,
    /// `GET`.
    Method,
}

/// An access log that was read.
#[derive(Debug, Default)]
pub struct AccessLog {
    /// The requests, in the order of time.
    pub requests: Vec<Request>,
    /// The resources that they ask for.
    pub resources: Names,
    /// The addresses that they come from.
    pub clients: Names,
    /// All lines, blank ones left out.
    pub lines: u64,
    /// Lines that are no requests.
    pub malformed: u64,
    /// The first of them, with their number (from 1) and what is wrong.
    pub malformed_first: Vec<(u64, Malformed)>,
    /// Requests with an earlier time than the request in the line before.
    pub out_of_order: u64,
    /// Requests with bytes that are no UTF-8; these were replaced by U+FFFD.
    pub not_utf8: u64,
}

/// A request of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When, in whole seconds since the Unix epoch.
    pub second: u64,
    /// What for: an index of [`AccessLog::resources`].
    pub resource: u32,
    /// Who: an index of [`AccessLog::clients`].
    pub client: u32,
}

impl AccessLog {
    /// Reads a log to its end. `progress` is told the bytes of each line.
    ///
    /// # Errors
    ///
    /// Those of the reader.
    pub fn read(
        reader: impl BufRead,
        resource_of: ResourceOf,
        progress: impl FnMut(u64),
    ) -> io::Result<Self> {
        read::read(reader, resource_of, progress)
    }

    /// The second of the first request.
    pub fn first_second(&self) -> Option<u64> {
        self.requests.first().map(|request| request.second)
    }

    /// The second of the last request.
    pub fn last_second(&self) -> Option<u64> {
        self.requests.last().map(|request| request.second)
    }

    /// The requests with the time of their arrival: those of one second evenly
    /// spread over it, and all times after the first second divided by `speed`.
    pub fn arrivals(&self, speed: f64) -> impl Iterator<Item = (Timestamp, Request)> {
        let first = self.first_second().unwrap_or_default();
        let seconds = self.requests.chunk_by(|a, b| a.second == b.second);
        seconds.flat_map(move |of_second| {
            let since = (of_second[0].second - first) as f64;
            let n = of_second.len() as f64;
            of_second.iter().enumerate().map(move |(k, request)| {
                let after_ns = (since + k as f64 / n) * 1e9 / speed;
                let at = first.saturating_mul(1_000_000_000);
                let at = at.saturating_add(after_ns.round() as u64);
                (Timestamp::from_nanos(at), *request)
            })
        })
    }
}

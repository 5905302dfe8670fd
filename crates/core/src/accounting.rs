//! How a rate is accounted: over which spans of time its limit holds.

use std::fmt;

/// The spans of time that the limit of a rate holds for. `docs/guarantees.md`
/// has the bound of each, its proof, and what it costs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Accounting {
    /// Sentinel's boxes: the present one and the `n − 1` before it hold at most
    /// the limit, so at most that passes in any span of `T · (n − 1) / n`.
    #[default]
    Window,
    /// One box more is counted than the interval holds: at most the limit in
    /// any span of the interval.
    Strict,
    /// A bucket that is refilled continuously: at most `burst + rate · t` in any
    /// span `t`.
    TokenBucket,
}

impl Accounting {
    /// Its name in documents, refusals and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Accounting::Window => "window",
            Accounting::Strict => "strict",
            Accounting::TokenBucket => "tokenBucket",
        }
    }
}

impl fmt::Display for Accounting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

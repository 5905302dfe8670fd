//! What is written down of a run, and what is said of it in the end.

use std::fmt;

/// A call that was admitted, and when it is charged. Where that is not known to
/// the instant, both ends of what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) weight: u32,
    /// The value of its argument.
    pub(crate) key: u32,
}

/// All admissions of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// By when they are counted in windows: on arrival, or in the window that
    /// they borrowed from.
    pub(crate) counted: Vec<Admitted>,
    /// By when they went ahead, as the rule that spaces them knows it.
    pub(crate) released: Vec<Admitted>,
}

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// No more than the limit.
    Upper,
    /// No fewer than the limit, if as many ask.
    Lower,
    /// Figures are what the log says.
    Statistics,
    /// What calls hold is given back.
    InFlight,
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which one.
    pub bound: Bound,
    text: String,
}

impl Broken {
    pub(crate) fn new(bound: Bound, text: impl Into<String>) -> Self {
        Broken {
            bound,
            text: text.into(),
        }
    }

    pub(crate) fn statistics(name: &str, expected: u64, found: u64) -> Self {
        let text = format!("{name} is {found}, the log says {expected}");
        Broken::new(Bound::Statistics, text)
    }

    pub(crate) fn in_flight(name: &str, expected: u64, found: u64) -> Self {
        let text = format!("{name} is {found}, the log says {expected}");
        Broken::new(Bound::InFlight, text)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bound::Upper => "upper bound",
            Bound::Lower => "lower bound",
            Bound::Statistics => "statistics",
            Bound::InFlight => "in flight",
        })
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.bound, self.text)
    }
}

//! A line of the comparison: what is measured, against whom, and what it has to
//! reach.

use serde::{Deserialize, Serialize};

use crate::contest::{Budget, Medians, ROUNDS_MIN};

/// What a line's value speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    /// Our time by the peer's.
    #[serde(rename = "ratio")]
    Ratio,
    /// What two threads get done by what one gets done.
    #[serde(rename = "x")]
    Times,
    /// Our time less the peer's, in nanoseconds per call.
    #[serde(rename = "ns")]
    More,
    /// Bytes of memory each.
    #[serde(rename = "bytes")]
    Bytes,
    /// Our time in milliseconds.
    #[serde(rename = "ms")]
    Millis,
    /// How many of ours in a second.
    #[serde(rename = "per_s")]
    PerSecond,
}

impl Unit {
    /// Whether a greater value is the better one.
    pub(crate) fn more_is_better(self) -> bool {
        matches!(self, Unit::Times | Unit::PerSecond)
    }
}

/// What one measurement has shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Nanoseconds per call, or bytes.
    pub(crate) ours: f64,
    pub(crate) peer: &'static str,
    /// Nanoseconds per call, or bytes.
    pub(crate) theirs: Option<f64>,
    pub(crate) rounds: usize,
}

impl Figures {
    pub(crate) fn against(peer: &'static str, medians: Medians) -> Self {
        Figures {
            ours: medians.ours,
            peer,
            theirs: Some(medians.theirs),
            rounds: medians.rounds,
        }
    }
}

/// How a line is measured.
pub(crate) type Measure = fn(Budget) -> anyhow::Result<Figures>;

/// A line before it is measured.
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    /// What is done, in a few words.
    pub(crate) work: &'static str,
    pub(crate) unit: Unit,
    /// What the value must reach and should reach. A line without is told for
    /// information.
    pub(crate) target: Option<[f64; 2]>,
    pub(crate) measure: Measure,
}

/// A line that is measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: Unit,
    /// Nanoseconds per call of ours, if time is what is measured.
    pub(crate) ours_ns: Option<f64>,
    pub(crate) peer: String,
    pub(crate) peer_ns: Option<f64>,
    /// How many undisturbed rounds the figures are medians of.
    pub(crate) rounds: usize,
    pub(crate) build: String,
    pub(crate) target: Option<f64>,
    pub(crate) aim: Option<f64>,
    /// Whether the value reaches the target. Nothing if there is none, or if too
    /// few rounds were undisturbed to tell.
    pub(crate) met: Option<bool>,
}

impl Line {
    pub(crate) fn new(spec: &Spec, figures: Figures, build: &str) -> Self {
        let Figures { ours, theirs, .. } = figures;
        let other = theirs.unwrap_or(0.0);
        let value = match spec.unit {
            Unit::Ratio => ours / other,
            Unit::Times => other / ours,
            Unit::More => ours - other,
            Unit::Bytes => ours,
            Unit::Millis => ours / 1e6,
            Unit::PerSecond => 1e9 / ours,
        };
        let reached = |target: f64| match spec.unit.more_is_better() {
            true => value >= target,
            false => value <= target,
        };
        let is_time = spec.unit != Unit::Bytes;
        let judged = figures.rounds >= ROUNDS_MIN;
        Line {
            name: spec.name.to_owned(),
            value,
            unit: spec.unit,
            ours_ns: is_time.then_some(ours),
            peer: match theirs {
                Some(bytes) if !is_time => format!("{} ({bytes:.0} B)", figures.peer),
                _ => figures.peer.to_owned(),
            },
            peer_ns: theirs.filter(|_| is_time),
            rounds: figures.rounds,
            build: build.to_owned(),
            target: spec.target.map(|[must, _]| must),
            aim: spec.target.map(|[_, aim]| aim),
            met: spec
                .target
                .filter(|_| judged)
                .map(|[must, _]| reached(must)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(unit: Unit, ours: f64, theirs: f64, target: f64, rounds: usize) -> Line {
        let spec = Spec {
            name: "line",
            work: "",
            unit,
            target: Some([target, target]),
            measure: |_| unreachable!(),
        };
        let figures = Figures {
            ours,
            peer: "peer",
            theirs: Some(theirs),
            rounds,
        };
        Line::new(&spec, figures, "lto")
    }

    #[test]
    fn a_ratio_is_ours_by_theirs_and_less_is_better() {
        assert_eq!(line(Unit::Ratio, 30.0, 20.0, 1.5, 9).value, 1.5);
        assert_eq!(line(Unit::Ratio, 30.0, 20.0, 1.5, 9).met, Some(true));
        assert_eq!(line(Unit::Ratio, 31.0, 20.0, 1.5, 9).met, Some(false));
    }

    #[test]
    fn what_two_threads_get_done_is_better_if_it_is_more() {
        assert_eq!(line(Unit::Times, 10.0, 20.0, 1.8, 9).value, 2.0);
        assert_eq!(line(Unit::Times, 10.0, 20.0, 1.8, 9).met, Some(true));
        assert_eq!(line(Unit::Times, 20.0, 20.0, 1.8, 9).met, Some(false));
        assert_eq!(line(Unit::PerSecond, 100.0, 0.0, 1e6, 9).met, Some(true));
    }

    #[test]
    fn a_line_with_too_few_undisturbed_rounds_is_not_judged() {
        assert_eq!(line(Unit::More, 30.0, 20.0, 15.0, 4).met, None);
        assert_eq!(line(Unit::More, 30.0, 20.0, 15.0, 5).met, Some(true));
    }
}

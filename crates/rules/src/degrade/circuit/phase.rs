//! One stay in a state, with all that belongs to it.

use std::time::Duration;

use flowgate_core::Timestamp;

use super::Limits;
use super::change::{CircuitState, Forced};
use super::probes::Probes;
use super::window::{Results, Window};

/// One stay in a state.
#[derive(Debug)]
pub(super) struct Phase {
    /// Its number; each is one more than that before it.
    pub(super) generation: u64,
    /// When it began, never before the one that it follows.
    pub(super) since: Timestamp,
    pub(super) stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    Closed(Window),
    Open(Opening),
    HalfOpen(Opening, Probes),
    Forced(Forced),
}

/// What an open circuit knows, and a half-open one goes back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    pub(super) retry_at: Timestamp,
    /// Which it is in a row; the first is 1.
    pub(super) number: u32,
}

/// A circuit as it was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CircuitFigures {
    /// Its state.
    pub state: CircuitState,
    /// Whether it is forced.
    pub forced: Option<Forced>,
    /// Number of the stay in this state.
    pub generation: u64,
    /// When that began; the epoch if it was so from the start.
    pub since: Timestamp,
    /// How long until a call may probe; `None` if calls pass, or if it is
    /// forced open.
    pub retry_after: Option<Duration>,
    /// The results that a closed one looks at.
    pub results: Results,
    /// How many times in a row it has opened since it was last closed.
    pub openings: u32,
    /// Probes of a half-open one that have not come back, and are not over
    /// their time.
    pub probes_out: u64,
    /// Probes of a half-open one that have succeeded.
    pub probes_good: u64,
    /// Probes of a half-open one that have failed.
    pub probes_bad: u64,
}

/// The bit of a gate that lets every call pass.
pub(super) const PASSES: u64 = 1;

impl Stage {
    /// That of a circuit that is new.
    pub(super) fn initial(limits: &Limits) -> Self {
        match limits.forced {
            Some(forced) => Stage::Forced(forced),
            None => Stage::Closed(Window::new(&limits.span)),
        }
    }
}

impl Phase {
    pub(super) fn state(&self) -> CircuitState {
        match &self.stage {
            Stage::Closed(_) | Stage::Forced(Forced::Closed) => CircuitState::Closed,
            Stage::Open(_) | Stage::Forced(Forced::Open) => CircuitState::Open,
            Stage::HalfOpen(..) => CircuitState::HalfOpen,
        }
    }

    pub(super) fn forced(&self) -> Option<Forced> {
        match self.stage {
            Stage::Forced(forced) => Some(forced),
            _ => None,
        }
    }

    pub(super) fn gate(&self) -> u64 {
        let passes = match self.state() {
            CircuitState::Closed => PASSES,
            CircuitState::Open | CircuitState::HalfOpen => 0,
        };
        self.generation << 1 | passes
    }

    /// All that can be seen of it at `now`.
    pub(super) fn figures(&self, now: Timestamp) -> CircuitFigures {
        let mut figures = CircuitFigures {
            state: self.state(),
            forced: self.forced(),
            generation: self.generation,
            since: self.since,
            retry_after: None,
            results: Results::default(),
            openings: 0,
            probes_out: 0,
            probes_good: 0,
            probes_bad: 0,
        };
        match &self.stage {
            Stage::Closed(window) => figures.results = window.read(now),
            Stage::Open(opening) => {
                figures.openings = opening.number;
                figures.retry_after = Some(opening.retry_at.since(now));
            }
            Stage::HalfOpen(opening, probes) => {
                let tally = probes.tally(now);
                figures.openings = opening.number;
                figures.retry_after = Some(probes.wait(now));
                figures.probes_out = tally.out;
                figures.probes_good = tally.good;
                figures.probes_bad = tally.bad;
            }
            Stage::Forced(_) => {}
        }
        figures
    }
}

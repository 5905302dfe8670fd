//! The circuit: the states of one breaker and the ways between them.
//!
//! ```text
//!            more than the threshold            after the open time
//!  CLOSED ───────────────────────────▶ OPEN ───────────────────────▶ HALF-OPEN
//!     ▲                                 ▲ ▲                            │ │ │
//!     │                                 │ └── too many probes fail ────┘ │ │
//!     │                                 └──── all undecided: old time ───┘ │
//!     └────────────────── enough probes succeed ───────────────────────────┘
//! ```
//!
//! Beside these a circuit can be **forced**: closed, then it lets everything
//! pass and counts nothing, or open, then it lets nothing pass.
//!
//! # How it works
//!
//! Each stay in a state is a **phase**: an object of its own with its number,
//! the *generation*, and all that belongs to that stay (the results of a closed
//! one, the retry time of an open one, the probes of a half-open one). To
//! change the state is to exchange the phase, by comparing pointers: of several
//! threads that would change it one does, and the others find a newer phase.
//! A call remembers the generation it was admitted in, and its result is heard
//! only by a phase of that number: what was admitted before the breaker opened
//! never decides a probe, nor counts after it has closed again.
//!
//! The **gate** saves calls of a closed circuit the look at the phase. It holds
//! the generation and whether everything passes, is raised after each exchange,
//! and never goes back. A thread that sleeps between the two leaves the gate
//! behind: it then still admits calls into the generation that is over, as if
//! the circuit opened a little later, until any of them reports.
//!
//! # What it guarantees
//!
//! * Of results that are too bad together, at least one thread sees all, and
//!   opens (`window`, and for a single box `tumbling`).
//! * Never more probes are out than asked for; each is given up by itself, and
//!   none that is refused, dropped or hangs keeps the circuit half-open.
//! * Each change is told once, by the thread that made it, after it is in force.
//!   Two threads may tell theirs in the other order: the generations say which
//!   was first.
//! * No operation blocks. Only a change allocates, and a box of more results than
//!   `Tumbling` holds.

mod admitted;
mod back_off;
mod by_hand;
mod change;
mod phase;
mod probes;
mod ring;
mod tumbling;
mod window;

use std::sync::Arc;

use flowgate_core::Timestamp;
use flowgate_core::sync::{AtomicU64, Cell, Ordering};

pub use admitted::{Admitted, Refused};
pub use back_off::BackOff;
pub use change::{Cause, Change, CircuitState, Forced};
pub use phase::CircuitFigures;
pub use probes::{PROBES_MAX, Probing};
pub use window::{Results, Span, Threshold};

use phase::{Opening, PASSES, Phase, Stage};
use probes::{Probe, Probes, Taken, Verdict};
use tumbling::{Noted, Tumbling};
use window::Window;

/// What a circuit goes by.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Which results it looks at.
    pub span: Span,
    /// What is too much.
    pub threshold: Threshold,
    /// How many results there must be before it opens.
    pub results_min: u64,
    /// How long it stays open.
    pub back_off: BackOff,
    /// How it is probed.
    pub probing: Probing,
    /// Whether it is forced from the start.
    pub forced: Option<Forced>,
}

/// The states of one breaker; see the [module](self).
#[derive(Debug)]
pub struct Circuit {
    limits: Limits,
    /// Generation in the upper 63 bits; whether every call passes.
    gate: AtomicU64,
    phase: Cell<Phase>,
    /// The results of the closed state in place of its phase's window, if that is
    /// a single box: so its calls need not look at the phase.
    tumbling: Option<Tumbling>,
}

impl Circuit {
    /// A closed circuit, or a forced one if the limits say so.
    pub fn new(limits: Limits) -> Self {
        let phase = Phase {
            generation: 1,
            since: Timestamp::EPOCH,
            stage: Stage::initial(&limits),
        };
        Circuit {
            limits,
            gate: AtomicU64::new(phase.gate()),
            phase: Cell::new(phase),
            tumbling: match limits.span {
                Span::Time { interval, boxes: 1 } => Some(Tumbling::new(interval)),
                _ => None,
            },
        }
    }

    /// Whether a call may pass at `now`. Changes are told to `told`, here as in
    /// all that follows.
    ///
    /// # Errors
    ///
    /// [`Refused`] says how long until a call may probe.
    #[inline]
    pub fn admit(&self, now: Timestamp, told: impl FnMut(Change)) -> Result<Admitted, Refused> {
        // Acquire: who is admitted into a generation finds its phase.
        let gate = self.gate.load(Ordering::Acquire);
        if gate & PASSES != 0 {
            return Ok(Admitted::plainly(gate >> 1));
        }
        self.admit_probe(now, told)
    }

    #[cold]
    fn admit_probe(
        &self,
        now: Timestamp,
        mut told: impl FnMut(Change),
    ) -> Result<Admitted, Refused> {
        loop {
            let phase = self.phase.load();
            let phase: &Arc<Phase> = &phase;
            // A clock that goes back stands still.
            let now = now.max(phase.since);
            let generation = phase.generation;
            let wait = match &phase.stage {
                Stage::Closed(_) | Stage::Forced(Forced::Closed) => {
                    return Ok(Admitted::plainly(generation));
                }
                Stage::Forced(Forced::Open) => None,
                Stage::Open(opening) if now < opening.retry_at => Some(opening.retry_at.since(now)),
                Stage::Open(opening) => {
                    // This call is the first probe.
                    let (probes, probe) = Probes::with_one(self.limits.probing, now);
                    let stage = Stage::HalfOpen(*opening, probes);
                    if self.change(phase, stage, Cause::OpenTimeOver, now, &mut told) {
                        return Ok(Admitted::probing(generation + 1, probe));
                    }
                    continue;
                }
                Stage::HalfOpen(_, probes) => match probes.take(now) {
                    Taken::Probe(probe) => return Ok(Admitted::probing(generation, probe)),
                    Taken::Full(wait) => Some(wait),
                    Taken::Over => {
                        self.settle(phase, now, &mut told);
                        continue;
                    }
                },
            };
            return Err(Refused { retry_after: wait });
        }
    }

    /// Takes back an admission whose call was refused later, or given up, or
    /// whose result says nothing.
    pub fn undecided(&self, admitted: Admitted, now: Timestamp, told: impl FnMut(Change)) {
        if let Some(probe) = admitted.probe {
            self.come_back(admitted.generation, probe, None, now, told);
        }
    }

    /// Reports how a call ended that the circuit had let pass.
    #[inline]
    pub fn report(&self, admitted: Admitted, bad: bool, now: Timestamp, told: impl FnMut(Change)) {
        let Admitted { generation, probe } = admitted;
        if probe.is_none()
            && let Some(tumbling) = &self.tumbling
        {
            let passing = generation << 1 | PASSES;
            let is_current = || self.gate.load(Ordering::Acquire) == passing;
            if let Some(results) = tumbling.add(generation, bad, now, is_current) {
                if self.opens_at(results) {
                    self.open(generation, results, now, told);
                }
                return;
            }
        }
        self.report_to_phase(admitted, bad, now, told);
    }

    #[cold]
    fn report_to_phase(
        &self,
        admitted: Admitted,
        bad: bool,
        now: Timestamp,
        told: impl FnMut(Change),
    ) {
        let Admitted { generation, probe } = admitted;
        if let Some(probe) = probe {
            return self.come_back(generation, probe, Some(bad), now, told);
        }
        let phase = self.phase.load();
        let phase: &Arc<Phase> = &phase;
        if phase.generation != generation {
            // Whoever changed it may not have come to the gate yet.
            return self.raise_gate(phase);
        }
        let Stage::Closed(window) = &phase.stage else {
            return;
        };
        let results = match &self.tumbling {
            None => window.note(bad, now),
            Some(tumbling) => {
                match tumbling.note(generation, bad, now, || self.is_at(generation)) {
                    Noted::Counted(results) => results,
                    Noted::Full(results, begin) => results + window.note(bad, now.max(begin)),
                    Noted::Over => return,
                }
            }
        };
        if self.opens_at(results) {
            self.open(generation, results, now, told);
        }
    }

    #[inline]
    fn opens_at(&self, results: Results) -> bool {
        results.total >= self.limits.results_min && self.limits.threshold.is_exceeded(results)
    }

    /// The closed state `generation` ends, unless it is over already.
    #[cold]
    fn open(
        &self,
        generation: u64,
        results: Results,
        now: Timestamp,
        mut told: impl FnMut(Change),
    ) {
        let phase = self.phase.load();
        let phase: &Arc<Phase> = &phase;
        if phase.generation == generation && matches!(phase.stage, Stage::Closed(_)) {
            let now = now.max(phase.since);
            let opening = Stage::Open(self.opening(phase, 1, now));
            self.change(phase, opening, Cause::Exceeded(results), now, &mut told);
        }
    }

    fn is_at(&self, generation: u64) -> bool {
        self.phase.load().generation == generation
    }

    fn come_back(
        &self,
        generation: u64,
        probe: Probe,
        bad: Option<bool>,
        now: Timestamp,
        mut told: impl FnMut(Change),
    ) {
        let phase = self.phase.load();
        let phase: &Arc<Phase> = &phase;
        let Stage::HalfOpen(_, probes) = &phase.stage else {
            return;
        };
        let now = now.max(phase.since);
        if phase.generation == generation && probes.come_back(probe, bad, now) {
            self.settle(phase, now, &mut told);
        }
    }

    /// Ends a half-open phase if there is a verdict.
    fn settle(&self, phase: &Arc<Phase>, now: Timestamp, told: &mut impl FnMut(Change)) {
        let Stage::HalfOpen(opening, probes) = &phase.stage else {
            return;
        };
        let (stage, cause) = match probes.verdict() {
            None => return,
            Some(Verdict::Good) => (
                Stage::Closed(Window::new(&self.limits.span)),
                Cause::ProbesSucceeded,
            ),
            Some(Verdict::Bad) => {
                let number = opening.number.saturating_add(1);
                let again = self.opening(phase, number, now);
                (Stage::Open(again), Cause::ProbesFailed)
            }
            Some(Verdict::Undecided) => (Stage::Open(*opening), Cause::ProbesUndecided),
        };
        self.change(phase, stage, cause, now, told);
    }

    fn opening(&self, before: &Phase, number: u32, now: Timestamp) -> Opening {
        let open_time = self.limits.back_off.open_time(number, before.generation);
        Opening {
            retry_at: now + open_time,
            number,
        }
    }

    // What all changes have in common.

    /// Puts a new phase in the place of `before`; false if another is there.
    fn change(
        &self,
        before: &Arc<Phase>,
        stage: Stage,
        cause: Cause,
        now: Timestamp,
        told: &mut impl FnMut(Change),
    ) -> bool {
        let after = Arc::new(Phase {
            generation: before.generation + 1,
            since: now,
            stage,
        });
        if !self.phase.replace(before, Arc::clone(&after)) {
            return false;
        }
        if let (Stage::Closed(_), Some(tumbling)) = (&after.stage, &self.tumbling) {
            let generation = after.generation;
            tumbling.begin(generation, now, || self.is_at(generation));
        }
        self.raise_gate(&after);
        told(Change {
            generation: after.generation,
            from: before.state(),
            to: after.state(),
            at: now,
            cause,
        });
        true
    }

    /// AcqRel: a call that passes the raised gate finds this phase or a later
    /// one. The greatest generation wins, so a thread that is late changes
    /// nothing.
    fn raise_gate(&self, phase: &Phase) {
        self.gate.fetch_max(phase.gate(), Ordering::AcqRel);
    }

    // Looking. Nothing moves by it, and no probe is used up.

    /// The state now. An open circuit stays open until a call probes it.
    pub fn state(&self) -> CircuitState {
        self.phase.load().state()
    }

    /// All that can be seen of it at `now`.
    pub fn figures(&self, now: Timestamp) -> CircuitFigures {
        let phase = self.phase.load();
        let now = now.max(phase.since);
        let mut figures = phase.figures(now);
        if let (Stage::Closed(_), Some(tumbling)) = (&phase.stage, &self.tumbling) {
            figures.results = figures.results + tumbling.read(phase.generation, now);
        }
        figures
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

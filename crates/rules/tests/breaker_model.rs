//! The circuit against a naive one: whatever is done to both, they say and
//! count the same, and neither ever sticks.

#![cfg(not(loom))]

use std::time::Duration;

use flowgate_core::Timestamp;
use flowgate_rules::degrade::circuit::{
    Admitted, BackOff, Cause, Change, Circuit, CircuitFigures, CircuitState, Forced, Limits,
    Probing, Results, Span, Threshold,
};
use proptest::prelude::*;

/// A circuit written down as its documentation has it, with lists.
struct Naive {
    limits: Limits,
    generation: u64,
    stage: Stage,
    asked: u64,
}

enum Stage {
    Closed(Vec<(u64, bool)>),
    Open(Opening),
    HalfOpen {
        opening: Opening,
        /// Who is out in each place, and until when.
        places: Vec<Option<(u64, u64)>>,
        good: u32,
        bad: u32,
    },
    Forced(Forced),
}

#[derive(Clone, Copy)]
struct Opening {
    retry_at: u64,
    number: u32,
}

/// Generation, and for a probe its number and the end of its time.
type Token = (u64, Option<(u64, u64)>);

fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}

impl Naive {
    fn new(limits: Limits) -> Self {
        let mut naive = Naive {
            limits,
            generation: 0,
            stage: Stage::Forced(Forced::Open),
            asked: 0,
        };
        naive.start_anew();
        naive
    }

    fn start_anew(&mut self) {
        self.go(match self.limits.forced {
            Some(forced) => Stage::Forced(forced),
            None => Stage::Closed(Vec::new()),
        });
    }

    fn go(&mut self, stage: Stage) {
        self.generation += 1;
        self.stage = stage;
    }

    fn open(&mut self, number: u32, now: u64) {
        let open_time = self.limits.back_off.open_time(number, self.generation);
        let retry_at = now + ns(open_time);
        self.go(Stage::Open(Opening { retry_at, number }));
    }

    /// `Err`: how long to wait, if waiting helps.
    fn admit(&mut self, now: u64) -> Result<Token, Option<u64>> {
        let Probing {
            probes, timeout, ..
        } = self.limits.probing;
        let until = now + ns(timeout);
        self.asked += 1;
        let probe = (self.asked, until);
        match &mut self.stage {
            Stage::Closed(_) | Stage::Forced(Forced::Closed) => Ok((self.generation, None)),
            Stage::Forced(Forced::Open) => Err(None),
            Stage::Open(opening) if now < opening.retry_at => Err(Some(opening.retry_at - now)),
            Stage::Open(opening) => {
                let mut places = vec![None; probes as usize];
                places[0] = Some(probe);
                let opening = *opening;
                self.go(Stage::HalfOpen {
                    opening,
                    places,
                    good: 0,
                    bad: 0,
                });
                Ok((self.generation, Some(probe)))
            }
            Stage::HalfOpen { places, .. } => {
                let free = places.iter().position(Option::is_none);
                let over = |place: &Option<(u64, u64)>| place.is_some_and(|(_, end)| end <= now);
                match free.or_else(|| places.iter().position(over)) {
                    Some(place) => {
                        places[place] = Some(probe);
                        Ok((self.generation, Some(probe)))
                    }
                    None => {
                        let first = places.iter().flatten().map(|(_, end)| *end).min();
                        Err(first.map(|end| end - now))
                    }
                }
            }
        }
    }

    fn come_back(&mut self, (generation, probe): Token, result: Option<bool>, now: u64) {
        if generation != self.generation {
            return;
        }
        match (&mut self.stage, probe, result) {
            (Stage::Closed(results), None, Some(bad)) => {
                results.push((now, bad));
                let counts = self.results(now);
                if counts.total >= self.limits.results_min && self.is_too_much(counts) {
                    self.open(1, now);
                }
            }
            (
                Stage::HalfOpen {
                    opening,
                    places,
                    good,
                    bad,
                },
                Some(probe),
                result,
            ) => {
                let Some(place) = places.iter_mut().find(|place| **place == Some(probe)) else {
                    return;
                };
                *place = None;
                match result.filter(|_| now < probe.1) {
                    Some(true) => *bad += 1,
                    Some(false) => *good += 1,
                    None => {}
                }
                let Probing { probes, needed, .. } = self.limits.probing;
                let opening = *opening;
                if *good >= needed {
                    self.go(Stage::Closed(Vec::new()));
                } else if *bad > probes - needed {
                    self.open(opening.number + 1, now);
                } else if *good + *bad == 0 && places.iter().all(Option::is_none) {
                    self.go(Stage::Open(opening));
                }
            }
            _ => {}
        }
    }

    fn results(&self, now: u64) -> Results {
        let Stage::Closed(results) = &self.stage else {
            return Results::default();
        };
        let counted: Vec<bool> = match self.limits.span {
            Span::Time { interval, boxes } => {
                let width = ns(interval) / u64::from(boxes);
                let oldest = (now / width + 1).saturating_sub(u64::from(boxes));
                let inside = results.iter().filter(|(time, _)| time / width >= oldest);
                inside.map(|(_, bad)| *bad).collect()
            }
            Span::Calls(calls) => {
                let last = results.iter().rev().take(calls as usize);
                last.map(|(_, bad)| *bad).collect()
            }
            Span::InARow => {
                let last = results.iter().rev().map(|(_, bad)| *bad);
                last.take_while(|bad| *bad).collect()
            }
        };
        Results {
            total: counted.len() as u64,
            bad: counted.iter().filter(|bad| **bad).count() as u64,
        }
    }

    fn is_too_much(&self, Results { total, bad }: Results) -> bool {
        match self.limits.threshold {
            Threshold::Number(limit) => bad as f64 > limit,
            Threshold::Ratio(limit) if limit >= 1.0 => bad == total,
            Threshold::Ratio(limit) => bad as f64 / total as f64 > limit,
        }
    }

    fn force(&mut self, forced: Forced) -> bool {
        let differs = self.forced() != Some(forced);
        if differs {
            self.go(Stage::Forced(forced));
        }
        differs
    }

    fn release(&mut self) -> bool {
        let differs = self.forced().is_some() && self.forced() != self.limits.forced;
        if differs {
            self.start_anew();
        }
        differs
    }

    fn reset(&mut self) -> bool {
        let may = self.forced().is_none();
        if may {
            self.go(Stage::Closed(Vec::new()));
        }
        may
    }

    fn forced(&self) -> Option<Forced> {
        match self.stage {
            Stage::Forced(forced) => Some(forced),
            _ => None,
        }
    }

    /// Checks everything that can be seen.
    fn agrees_with(&self, figures: &CircuitFigures, now: u64) -> Result<(), TestCaseError> {
        prop_assert_eq!(figures.generation, self.generation);
        prop_assert_eq!(figures.forced, self.forced());
        prop_assert_eq!(figures.results, self.results(now));
        let (state, openings, out, good, bad) = match &self.stage {
            Stage::Closed(_) | Stage::Forced(Forced::Closed) => (CircuitState::Closed, 0, 0, 0, 0),
            Stage::Forced(Forced::Open) => (CircuitState::Open, 0, 0, 0, 0),
            Stage::Open(opening) => (CircuitState::Open, opening.number, 0, 0, 0),
            Stage::HalfOpen {
                opening,
                places,
                good,
                bad,
            } => {
                let out = places.iter().flatten().filter(|(_, end)| *end > now);
                let number = opening.number;
                (
                    CircuitState::HalfOpen,
                    number,
                    out.count() as u64,
                    *good,
                    *bad,
                )
            }
        };
        prop_assert_eq!(figures.state, state);
        prop_assert_eq!(figures.openings, openings);
        prop_assert_eq!(figures.probes_out, out);
        prop_assert_eq!(figures.probes_good, u64::from(good));
        prop_assert_eq!(figures.probes_bad, u64::from(bad));
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Admit,
    /// One of the calls that are out ends.
    Ends(usize, Option<bool>),
    Wait(u64),
    /// Until a refused call was told to come again, or a nanosecond less.
    WaitAsTold {
        early: bool,
    },
    Force(Forced),
    Release,
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let result = prop_oneof![2 => Just(Some(true)), 2 => Just(Some(false)), 1 => Just(None)];
    let step = prop_oneof![
        12 => Just(Step::Admit),
        12 => (any::<usize>(), result).prop_map(|(which, result)| Step::Ends(which, result)),
        3 => (1_u64..400).prop_map(Step::Wait),
        3 => any::<bool>().prop_map(|early| Step::WaitAsTold { early }),
        1 => prop_oneof![Just(Forced::Open), Just(Forced::Closed)].prop_map(Step::Force),
        2 => Just(Step::Release),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 1..150)
}

fn limits() -> impl Strategy<Value = Limits> {
    let span = prop_oneof![
        (1_u32..5, 10_u64..60).prop_map(|(boxes, width)| Span::Time {
            interval: Duration::from_nanos(width * u64::from(boxes)),
            boxes,
        }),
        (1_u32..40).prop_map(Span::Calls),
        Just(Span::InARow),
    ];
    let threshold = prop_oneof![
        prop_oneof![Just(0.0), Just(0.5), Just(1.0)].prop_map(Threshold::Ratio),
        (0_u32..4).prop_map(|number| Threshold::Number(f64::from(number))),
    ];
    let back_off = (
        prop_oneof![Just(1.0), Just(2.0)],
        0.0..1.0_f64,
        any::<u64>(),
    );
    let probing = (1_u32..4).prop_flat_map(|probes| (Just(probes), 1..=probes, 1_u64..150));
    let forced = prop_oneof![
        8 => Just(None),
        1 => Just(Some(Forced::Open)),
        1 => Just(Some(Forced::Closed)),
    ];
    (span, threshold, 1_u64..4, back_off, probing, forced).prop_map(
        |(span, threshold, results_min, (multiplier, jitter, seed), probing, forced)| Limits {
            span,
            threshold,
            results_min,
            back_off: BackOff {
                base: Duration::from_nanos(100),
                multiplier,
                max: Duration::from_nanos(500),
                jitter,
                seed,
            },
            probing: Probing {
                probes: probing.0,
                needed: probing.1,
                timeout: Duration::from_nanos(probing.2),
            },
            forced,
        },
    )
}

/// Each change takes up where the one before has left, and has its cause.
fn is_a_history(changes: &[Change]) -> Result<(), TestCaseError> {
    use CircuitState::{Closed, HalfOpen, Open};
    for pair in changes.windows(2) {
        prop_assert_eq!(pair[1].generation, pair[0].generation + 1);
        prop_assert_eq!(pair[1].from, pair[0].to);
        prop_assert!(pair[1].at >= pair[0].at);
    }
    for change in changes {
        let expected = match change.cause {
            Cause::Exceeded(_) => (Closed, Open),
            Cause::OpenTimeOver => (Open, HalfOpen),
            Cause::ProbesSucceeded => (HalfOpen, Closed),
            Cause::ProbesFailed | Cause::ProbesUndecided => (HalfOpen, Open),
            _ => continue,
        };
        prop_assert_eq!((change.from, change.to), expected);
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_circuit_does_what_the_naive_one_does_and_never_sticks(limits in limits(), steps in steps()) {
        let circuit = Circuit::new(limits);
        let mut naive = Naive::new(limits);
        let mut calls: Vec<(Admitted, Token)> = Vec::new();
        let mut changes = Vec::new();
        let mut now = 1_000;
        let mut told = None;
        let end = |(admitted, token): (Admitted, Token), result, now, naive: &mut Naive, changes: &mut Vec<Change>| {
            let (at, tell) = (Timestamp::from_nanos(now), |change| changes.push(change));
            let admitted = Admitted::from_words(admitted.to_words());
            match result {
                Some(bad) => circuit.report(admitted, bad, at, tell),
                None => circuit.undecided(admitted, at, tell),
            }
            naive.come_back(token, result, now);
        };
        for step in steps {
            let at = Timestamp::from_nanos(now);
            let tell = |change| changes.push(change);
            match step {
                Step::Admit => match (circuit.admit(at, tell), naive.admit(now)) {
                    (Ok(admitted), Ok(token)) => {
                        prop_assert_eq!(admitted.is_probe(), token.1.is_some());
                        calls.push((admitted, token));
                    }
                    (Err(refused), Err(wait)) => {
                        prop_assert_eq!(refused.retry_after.map(ns), wait);
                        told = wait.map(|wait| now + wait);
                    }
                    (one, other) => prop_assert!(false, "{one:?} but {other:?}"),
                },
                Step::Ends(which, result) if !calls.is_empty() => {
                    let call = calls.swap_remove(which % calls.len());
                    end(call, result, now, &mut naive, &mut changes);
                }
                Step::Ends(..) => {}
                Step::Wait(time) => now += time,
                Step::WaitAsTold { early } => {
                    let told = told.take().map(|told: u64| told - u64::from(early));
                    now = now.max(told.unwrap_or(now));
                }
                Step::Force(forced) => {
                    prop_assert_eq!(circuit.force(forced, at, tell), naive.force(forced));
                }
                Step::Release => prop_assert_eq!(circuit.release(at, tell), naive.release()),
                Step::Reset => prop_assert_eq!(circuit.reset(at, tell), naive.reset()),
            }
            naive.agrees_with(&circuit.figures(Timestamp::from_nanos(now)), now)?;
        }
        for call in calls {
            end(call, None, now, &mut naive, &mut changes);
        }
        is_a_history(&changes)?;
        prop_assert_eq!(changes.len() as u64 + 1, naive.generation);
        let figures = circuit.figures(Timestamp::from_nanos(now));
        naive.agrees_with(&figures, now)?;
        prop_assert_eq!(figures.probes_out, 0);
        // The longest opening, with jitter.
        let later = Timestamp::from_nanos(now + 1_000);
        let admitted = circuit.admit(later, drop).is_ok();
        prop_assert_eq!(admitted, figures.forced != Some(Forced::Open));
    }
}

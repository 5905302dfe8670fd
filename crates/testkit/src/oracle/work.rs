//! Pieces of work: cases and crowds, each with a name that it can be run by
//! again.

use super::Options;
use super::algorithms::{Algorithm, named};
use super::case::{Case, Setup};
use super::limiter;
use super::log::{Bound, Broken};
use super::random::Random;
use super::report::{Done, Failure};
use super::sequential::{self, steps_of};
use super::shrink::{Make, shrink};
use super::threads::{self, Crowd, Run};
use super::traffic;
use super::write::write;

/// Calls of one case.
const CASE_CALLS: u32 = 1024;
/// Cases of one piece of work at most.
const CASES_MAX: u64 = 16;
/// Calls of one crowd at most.
const CROWD_CALLS_MAX: u64 = 32_768;
/// And at least.
const CROWD_CALLS_MIN: u64 = 2048;

/// A piece of work.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub(crate) algorithm: &'static Algorithm,
    kind: Kind,
    index: u64,
    /// How many cases, from the index on.
    cases: u64,
    /// Calls of a crowd.
    calls: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One thread, against the model.
    Alone,
    /// A crowd at one instant.
    Together,
    /// A crowd that moves the clock.
    Free,
    /// Seven call once, the eighth asks for the rest.
    Leftovers,
}

/// How limiters are made.
#[derive(Clone, Copy)]
pub(crate) struct Makes<'m> {
    pub(crate) honest: Make<'m>,
    pub(crate) sleepy: Make<'m>,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Leftovers, Kind::Alone, Kind::Together, Kind::Free];

    fn letter(self) -> char {
        match self {
            Kind::Alone => 'a',
            Kind::Together => 't',
            Kind::Free => 'f',
            Kind::Leftovers => 'l',
        }
    }

    /// Of eight decisions, how many are made in this way.
    fn eighths(self, algorithm: &Algorithm) -> u64 {
        match (self, algorithm.exact) {
            (Kind::Alone, _) => 4,
            (Kind::Together, true) | (Kind::Free, true) => 2,
            (Kind::Free, false) => 4,
            (Kind::Together, false) | (Kind::Leftovers, _) => 0,
        }
    }
}

impl Work {
    /// What comes to about so many decisions, all algorithms in turn.
    pub(crate) fn plan(algorithms: &[&'static Algorithm], decisions: u64) -> Vec<Work> {
        let shares: u64 = algorithms.iter().map(|a| a.share).sum();
        let mut lists: Vec<Vec<Work>> = Vec::new();
        for &algorithm in algorithms {
            let part = u128::from(decisions) * u128::from(algorithm.share);
            let part = (part / u128::from(shares.max(1))) as u64;
            for kind in Kind::ALL {
                let calls = part * kind.eighths(algorithm) / 8;
                let case_calls = u64::from(CASE_CALLS);
                let cases = match kind {
                    Kind::Alone => calls.div_ceil(case_calls).clamp(1, CASES_MAX),
                    _ => 1,
                };
                let crowd = calls.clamp(CROWD_CALLS_MIN, CROWD_CALLS_MAX);
                let pieces = match kind {
                    Kind::Leftovers if algorithm.exact => 8,
                    Kind::Alone => calls.div_ceil(case_calls * cases),
                    _ => calls.div_ceil(crowd),
                };
                let work = |piece: u64| Work {
                    algorithm,
                    kind,
                    index: piece * cases,
                    cases,
                    calls: crowd,
                };
                lists.push((0..pieces).map(work).collect());
            }
        }
        let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
        let turn = |at: usize| lists.iter().filter_map(move |list| list.get(at).copied());
        (0..longest).flat_map(turn).collect()
    }

    /// The piece of work of that name.
    pub(crate) fn named(name: &str) -> Option<Work> {
        let (algorithm, case) = name.rsplit_once('-')?;
        let kind = Kind::ALL
            .into_iter()
            .find(|k| case.starts_with(k.letter()))?;
        Some(Work {
            algorithm: named(algorithm)?,
            kind,
            index: case[1..].parse().ok()?,
            cases: 1,
            calls: CROWD_CALLS_MAX,
        })
    }

    pub(crate) fn is_crowd(&self) -> bool {
        self.kind != Kind::Alone
    }

    fn name(&self, index: u64) -> String {
        format!("{}-{}{index}", self.algorithm.name, self.kind.letter())
    }

    /// Random numbers of this piece of work and no other.
    fn random(&self, seed: u64, index: u64) -> Random {
        let name = self.name(index);
        // FNV-1a: cases stay the same when algorithms are added.
        let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        Random::stream(seed, hash)
    }

    /// Does it.
    pub(crate) fn run(&self, options: &Options, makes: &Makes<'_>) -> Done {
        match self.kind {
            Kind::Alone => self.alone(options, makes),
            Kind::Leftovers => self.leftovers(options, makes),
            Kind::Together | Kind::Free => self.crowd(options, makes),
        }
    }

    fn alone(&self, options: &Options, makes: &Makes<'_>) -> Done {
        let mut done = Done::default();
        for index in self.index..self.index + self.cases {
            let mut random = self.random(options.seed, index);
            let setup = self.algorithm.draw(&mut random);
            let prioritized = self.algorithm.prioritized;
            let ops = traffic::draw(&mut random, &setup, prioritized, CASE_CALLS);
            let case = Case { setup, ops };
            let ran = sequential::run(&case, &*(makes.honest)(&case.setup));
            done.decisions += ran.decisions;
            done.spans += ran.spans;
            if let Some((_, broken)) = ran.failure {
                let (small, broken) = shrink(&case, &broken, makes.honest);
                done.failure = Some(self.failure(options, index, broken, &small, makes.honest));
                return done;
            }
        }
        done
    }

    fn crowd(&self, options: &Options, makes: &Makes<'_>) -> Done {
        let mut random = self.random(options.seed, self.index);
        let setup = self.algorithm.draw_fixed(&mut random);
        let run = Run {
            setup: &setup,
            prioritized: self.algorithm.prioritized,
            calls: self.calls,
        };
        let make = if random.once_in(2) {
            makes.sleepy
        } else {
            makes.honest
        };
        let limiter = make(&setup);
        let crowd = match self.kind {
            Kind::Free => threads::free(run, &*limiter, &mut random),
            // Holes are remembered up to a number: who finds one is anybody's
            // guess. And a refill by calls that are all refused in the end may
            // stay, where they meet, and with it the time of the next one.
            _ if setup.sets[0].len() > 1 && (setup.queues() || setup.refills()) => Crowd::default(),
            _ => threads::together(run, &*limiter, &mut random),
        };
        let failure = crowd.failure.map(|failed| {
            let honest: Make<'_> = &limiter::honest;
            self.failure(options, self.index, failed.broken, &failed.history, honest)
        });
        Done {
            decisions: crowd.decisions,
            spans: crowd.spans,
            least_share: crowd.least_share,
            failure,
        }
    }

    /// A limit of 1,000; `None` of several limits, and of a queue.
    fn leftovers_setup(&self, seed: u64) -> Option<Setup> {
        let mut random = self.random(seed, self.index);
        let mut setup = self.algorithm.draw_fixed(&mut random);
        let single = setup.sets[0].len() == 1;
        if !single || setup.queues() {
            return None;
        }
        setup.sets[0][0] = setup.sets[0][0].holding(1000);
        Some(setup)
    }

    fn leftovers(&self, options: &Options, makes: &Makes<'_>) -> Done {
        let Some(setup) = self.leftovers_setup(options.seed) else {
            return Done::default();
        };
        let (got, right) = threads::leftovers(&setup, makes.honest);
        let broken = (got != right).then(|| {
            let bound = if got > right {
                Bound::Upper
            } else {
                Bound::Lower
            };
            let text = format!("seven threads call once, the eighth gets {got} of {right}");
            Broken::new(bound, text)
        });
        let history = threads::leftovers_history(&setup);
        Done {
            decisions: 1007,
            spans: 1,
            least_share: Some(got as f64 / right as f64),
            failure: broken.map(|broken| {
                self.failure(options, self.index, broken, &history, &limiter::honest)
            }),
        }
    }

    fn failure(
        &self,
        options: &Options,
        index: u64,
        broken: Broken,
        case: &Case,
        make: Make<'_>,
    ) -> Failure {
        let name = self.name(index);
        let steps = steps_of(case, &*make(&case.setup));
        let about = format!("seed {}: {broken}", options.seed);
        let trace = write(&options.traces, &name, &about, &case.setup, &steps);
        Failure {
            case: format!("{}/{name}", options.seed),
            broken,
            steps: steps.len(),
            trace: trace.map_err(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::algorithms::ALGORITHMS;
    use super::*;

    /// Of a second view of half a second 500 are left to ask for.
    #[test]
    fn the_eighth_thread_always_has_hundreds_to_ask_for() {
        for algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.exact) {
            let works = Work::plan(&[algorithm], 8);
            let works = works.iter().filter(|work| work.kind == Kind::Leftovers);
            for setup in works.filter_map(|work| work.leftovers_setup(1)) {
                let (got, right) = threads::leftovers(&setup, &limiter::honest);
                assert_eq!(got, right, "{}", algorithm.name);
                assert!(right >= 493, "{}: {right} of {setup:?}", algorithm.name);
            }
        }
    }
}

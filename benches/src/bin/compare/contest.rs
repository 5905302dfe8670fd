//! Two sides measured in turn: ours, theirs, ours, theirs.
//!
//! What disturbs one side soon disturbs the other as well, so the ratio of the two
//! medians is steadier than either. A round counts only if its thread hardly
//! waited for a processor; with fewer than [`ROUNDS_MIN`] of those nothing is
//! said.

use std::time::{Duration, Instant};

use crate::machine;

/// So many undisturbed rounds at least, or the line is not judged.
pub(crate) const ROUNDS_MIN: usize = 5;
/// A round is disturbed if its thread waited for more than this share of it.
const WAITED_SHARE: f64 = 0.03;
/// How long one side's round takes: short, so that many fall between two
/// disturbances, and ten thousand times the resolution of the clock.
const ROUND: Duration = Duration::from_millis(2);
const WARM_UP: Duration = Duration::from_millis(30);

/// How much time a line may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Undisturbed rounds after which a line is done.
    pub(crate) rounds: usize,
    /// A line gives up after so long, even if all its rounds were disturbed.
    pub(crate) time: Duration,
}

/// One side: makes so many calls and says how long they took. What must be
/// prepared is prepared inside, but not counted.
pub(crate) type Side<'a> = &'a mut dyn FnMut(u64) -> Duration;

/// Medians of both sides' undisturbed rounds, in nanoseconds per call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Medians {
    pub(crate) ours: f64,
    pub(crate) theirs: f64,
    /// How many rounds were undisturbed. If none was, the medians are those of
    /// all rounds.
    pub(crate) rounds: usize,
}

/// One measured round of one side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) ns: f64,
    pub(crate) undisturbed: bool,
}

/// A side that makes one call after the other.
pub(crate) fn repeat(mut call: impl FnMut()) -> impl FnMut(u64) -> Duration {
    move |calls| {
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        start.elapsed()
    }
}

/// Both sides in turn on one pinned thread, in rounds of as many calls as take
/// about two milliseconds.
pub(crate) fn contest(budget: Budget, ours: Side<'_>, theirs: Side<'_>) -> Medians {
    let _pinned = machine::pin(0);
    let calls = [calls_per_round(ours), calls_per_round(theirs)];
    in_turn(budget, &mut |side| match side {
        0 => round(ours, calls[0]),
        _ => round(theirs, calls[1]),
    })
}

/// The same where one call is a round of its own.
pub(crate) fn contest_once(budget: Budget, ours: Side<'_>, theirs: Side<'_>) -> Medians {
    let _pinned = machine::pin(0);
    ours(1);
    theirs(1);
    in_turn(budget, &mut |side| match side {
        0 => round(ours, 1),
        _ => round(theirs, 1),
    })
}

/// Only one side, as many calls to a round as take about two milliseconds.
pub(crate) fn alone(budget: Budget, side: Side<'_>) -> Medians {
    let _pinned = machine::pin(0);
    let calls = calls_per_round(side);
    in_turn(budget, &mut |_| round(side, calls))
}

/// Runs rounds of sides 0 and 1 in turn until enough are undisturbed.
pub(crate) fn in_turn(budget: Budget, run: &mut dyn FnMut(usize) -> Round) -> Medians {
    let start = Instant::now();
    let mut all = Vec::new();
    let mut good = Vec::new();
    while good.len() < budget.rounds && (start.elapsed() < budget.time || all.len() < ROUNDS_MIN) {
        let pair = [run(0), run(1)];
        all.push(pair.map(|round| round.ns));
        if pair.iter().all(|round| round.undisturbed) {
            good.push(pair.map(|round| round.ns));
        }
    }
    let counted = if good.is_empty() { &all } else { &good };
    let of = |side: usize| median(counted.iter().map(|pair| pair[side]).collect());
    Medians {
        ours: of(0),
        theirs: of(1),
        rounds: good.len(),
    }
}

fn round(side: Side<'_>, calls: u64) -> Round {
    let (start, waited) = (Instant::now(), machine::waited_ns());
    let took = side(calls);
    let waited = machine::waited_ns() - waited;
    Round {
        ns: took.as_nanos() as f64 / calls as f64,
        undisturbed: hardly_waited(waited, start.elapsed()),
    }
}

/// Whether a thread that waited so long in so much time counts as undisturbed.
pub(crate) fn hardly_waited(waited_ns: u64, of: Duration) -> bool {
    waited_ns as f64 <= WAITED_SHARE * of.as_nanos() as f64
}

/// Warms a side up, and finds out how many of its calls make a round.
pub(crate) fn calls_per_round(side: Side<'_>) -> u64 {
    let start = Instant::now();
    let mut calls = 1_u64;
    loop {
        let took = side(calls);
        if took >= ROUND && start.elapsed() >= WARM_UP {
            let share = ROUND.as_secs_f64() / took.as_secs_f64();
            return ((calls as f64 * share) as u64).max(1);
        }
        if took < ROUND {
            calls *= 2;
        }
    }
}

/// The middle one of the figures, or 0 if there are none.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    match figures.len() {
        0 => 0.0,
        count if count % 2 == 1 => figures[count / 2],
        count => (figures[count / 2 - 1] + figures[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget {
        rounds: 5,
        time: Duration::ZERO,
    };

    #[test]
    fn disturbed_rounds_are_left_out_of_the_medians() {
        let budget = Budget {
            time: Duration::from_secs(3_600),
            ..BUDGET
        };
        let mut turns = 0;
        let medians = in_turn(budget, &mut |side| {
            turns += 1;
            // Every other pair has a disturbed side, and takes much longer.
            let undisturbed = turns % 4 != 2;
            let ns = if undisturbed { 10.0 } else { 1_000.0 };
            Round {
                ns: ns * (side + 1) as f64,
                undisturbed,
            }
        });
        assert_eq!(medians.rounds, 5);
        assert_eq!([medians.ours, medians.theirs], [10.0, 20.0]);
    }

    #[test]
    fn a_contest_without_one_undisturbed_round_ends_and_says_so() {
        let medians = in_turn(BUDGET, &mut |_| Round {
            ns: 7.0,
            undisturbed: false,
        });
        assert_eq!((medians.rounds, medians.ours), (0, 7.0));
    }

    #[test]
    fn the_median_is_the_middle_one_or_between_the_two_middle_ones() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![9.0, 1.0, 2.0, 4.0]), 3.0);
        assert_eq!(median(vec![]), 0.0);
    }

    #[test]
    fn three_percent_of_waiting_is_still_hardly_waited() {
        let round = Duration::from_millis(1);
        assert!(hardly_waited(30_000, round));
        assert!(!hardly_waited(30_001, round));
    }
}

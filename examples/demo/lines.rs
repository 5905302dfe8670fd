//! The board as lines of text.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::board::{Board, TICKS, Tally};
use crate::{PHASE_SECONDS, PHASES, SECONDS};

/// How many parts of the site the summary lists.
const SECTIONS_SHOWN: usize = 8;

/// Prints a line as each second has passed, until the board is closed.
pub(crate) fn show(board: &Board) -> io::Result<()> {
    let begin = Instant::now();
    let mut out = io::stdout();
    writeln!(out, "second  {HEAD}  rules")?;
    for second in 0..SECONDS {
        // Some calls of a second are counted a little after it.
        let end = Duration::from_secs(second as u64 + 1) + Duration::from_millis(20);
        while begin.elapsed() < end && !board.is_closed() {
            std::thread::sleep(Duration::from_millis(10));
        }
        if begin.elapsed() < Duration::from_secs(second as u64 + 1) {
            break;
        }
        let tally = Tally::of(&board.tallies().ticks[second * TICKS..][..TICKS]);
        let phase = PHASES[second / PHASE_SECONDS].name;
        writeln!(out, "{second:>6}  {}  {phase}", row(&tally))?;
    }
    Ok(())
}

/// Prints what came of it all.
pub(crate) fn summary(board: &Board) -> io::Result<()> {
    let mut out = io::stdout();
    let tallies = board.tallies();
    writeln!(out, "\n{HEAD}  rules")?;
    for (phase, tally) in PHASES.iter().zip(&tallies.phases) {
        writeln!(out, "{}  {}", row(tally), phase.name)?;
    }
    writeln!(out, "{}  all", row(&Tally::of(&tallies.phases)))?;

    let mut sections: Vec<(&String, &Tally)> =
        board.sections().iter().zip(&tallies.sections).collect();
    sections.sort_by_key(|(name, tally)| (std::cmp::Reverse(tally.offered), *name));
    writeln!(out, "\n{HEAD}  part of the site")?;
    for (name, tally) in sections.iter().take(SECTIONS_SHOWN) {
        writeln!(out, "{}  {name}", row(tally))?;
    }
    Ok(())
}

const HEAD: &str = "offered  passed  blocked  queued  mean wait  longest wait";

fn row(tally: &Tally) -> String {
    let Tally {
        offered,
        passed,
        blocked,
        queued,
        ..
    } = tally;
    let [mean, longest] = [tally.wait_mean(), tally.wait_max].map(|wait| match wait {
        Duration::ZERO => "-".to_owned(),
        wait => format!("{} ms", wait.as_millis()),
    });
    format!("{offered:>7}  {passed:>6}  {blocked:>7}  {queued:>6}  {mean:>9}  {longest:>12}")
}

//! Makes a failing case small: delta debugging over its operations (Zeller and
//! Hildebrandt, <https://doi.org/10.1109/32.988498>), then simpler weights, times
//! and limits, for as long as the same promise is broken.

use super::case::{BASE_NS, Case, How, Limit, MS, Setup, What};
use super::limiter::Limiter;
use super::log::{Bound, Broken};
use super::sequential::run;

/// Makes the limiter of a setup.
pub(crate) type Make<'m> = &'m (dyn Fn(&Setup) -> Box<dyn Limiter> + Sync);

/// How many runs it may cost.
const RUNS_MAX: u32 = 20_000;

struct Shrinking<'m> {
    make: Make<'m>,
    bound: Bound,
    best: Case,
    broken: Broken,
    runs: u32,
}

/// The smallest case found that breaks the same promise, and how it does.
pub(crate) fn shrink(case: &Case, broken: &Broken, make: Make<'_>) -> (Case, Broken) {
    let mut shrinking = Shrinking {
        make,
        bound: broken.bound,
        best: case.clone(),
        broken: broken.clone(),
        runs: 0,
    };
    shrinking.keep_if_fails(case.clone());
    loop {
        let before = shrinking.best.clone();
        shrinking.fewer_operations();
        shrinking.simpler_operations();
        shrinking.simpler_times();
        shrinking.smaller_limits();
        if shrinking.best == before || shrinking.runs >= RUNS_MAX {
            break;
        }
    }
    (shrinking.best, shrinking.broken)
}

impl Shrinking<'_> {
    /// Takes a case over if it breaks the same promise, up to where it does.
    fn keep_if_fails(&mut self, mut case: Case) -> bool {
        if self.runs >= RUNS_MAX {
            return false;
        }
        self.runs += 1;
        let limiter = (self.make)(&case.setup);
        match run(&case, &*limiter).failure {
            Some((at, broken)) if broken.bound == self.bound => {
                case.ops.truncate(at + 1);
                self.best = case;
                self.broken = broken;
                true
            }
            _ => false,
        }
    }

    fn fewer_operations(&mut self) {
        let mut chunk = self.best.ops.len().div_ceil(2);
        while chunk > 0 {
            let mut from = 0;
            let mut removed = false;
            while from < self.best.ops.len() {
                let mut case = self.best.clone();
                let to = (from + chunk).min(case.ops.len());
                case.ops.drain(from..to);
                if self.keep_if_fails(case) {
                    removed = true;
                } else {
                    from += chunk;
                }
            }
            if chunk == 1 && !removed {
                break;
            }
            if !removed {
                chunk /= 2;
            }
        }
    }

    fn simpler_operations(&mut self) {
        let simpler: [fn(&mut What); 6] = [
            |what| with_call(what, |call| call.weight = 1),
            |what| with_call(what, |call| call.weight = call.weight.div_ceil(2)),
            |what| with_call(what, |call| call.prioritized = false),
            |what| with_call(what, |call| call.may_wait = false),
            |what| with_call(what, |call| call.key = 0),
            |what| {
                if let What::End { how, .. } = what {
                    *how = How::Success;
                }
            },
        ];
        for change in simpler {
            for index in (0..self.best.ops.len()).rev() {
                let mut case = self.best.clone();
                let Some(op) = case.ops.get_mut(index) else {
                    continue;
                };
                change(&mut op.what);
                if case != self.best {
                    self.keep_if_fails(case);
                }
            }
        }
    }

    fn simpler_times(&mut self) {
        let first = self.best.ops.first().map_or(BASE_NS, |op| op.at_ns);
        for unit in [60_000 * MS, 1000 * MS, 500 * MS, 100 * MS, MS, 1] {
            let by = (first - BASE_NS) / unit * unit;
            let mut case = self.best.clone();
            let shifted = |at: u64| at.saturating_sub(by).max(BASE_NS);
            case.ops
                .iter_mut()
                .for_each(|op| op.at_ns = shifted(op.at_ns));
            if case != self.best && self.keep_if_fails(case) {
                break;
            }
        }
        for index in 0..self.best.ops.len() {
            for unit in [0, 1000 * MS, 500 * MS, 100 * MS, 10 * MS, MS] {
                let mut case = self.best.clone();
                let before = match index {
                    0 => BASE_NS,
                    _ => case.ops[index - 1].at_ns,
                };
                let Some(op) = case.ops.get_mut(index) else {
                    return;
                };
                op.at_ns = match unit {
                    0 => before,
                    unit => op.at_ns / unit * unit,
                };
                if case == self.best || self.keep_if_fails(case) {
                    break;
                }
            }
        }
    }

    /// The same with small counts, and without sets that nobody loads.
    fn smaller_limits(&mut self) {
        let loads = |op: &super::case::Op| matches!(op.what, What::Load { .. });
        if self.best.setup.sets.len() > 1 && !self.best.ops.iter().any(loads) {
            let mut case = self.best.clone();
            case.setup.sets.truncate(1);
            self.keep_if_fails(case);
        }
        for set in 0..self.best.setup.sets.len() {
            for place in 0..self.best.setup.sets[set].len() {
                let milli = self.best.setup.sets[set][place].milli();
                let smaller = [1000, 2000, milli / 2000 * 1000, milli / 1000 * 1000];
                for to in smaller.into_iter().filter(|to| (1000..milli).contains(to)) {
                    let mut case = self.best.clone();
                    let limit = &mut case.setup.sets[set][place];
                    *limit = limit.with_milli(to);
                    if self.keep_if_fails(case) {
                        break;
                    }
                }
            }
        }
        self.limits_with_fewer_calls();
        // A limit that has no part in it.
        for place in (0..self.best.setup.sets[0].len()).rev() {
            let mut case = self.best.clone();
            if case.setup.sets[0].len() > 1 {
                case.setup.sets.iter_mut().for_each(|set| {
                    set.remove(place);
                });
                self.keep_if_fails(case);
            }
        }
    }
}

impl Shrinking<'_> {
    /// A smaller limit takes as many calls fewer to fill.
    fn limits_with_fewer_calls(&mut self) {
        for place in 0..self.best.setup.sets[0].len() {
            let mut fewer = self.best.ops.len() / 2;
            while fewer > 0 {
                let less = |limit: &Limit| {
                    let to = limit.milli().checked_sub(1000 * fewer as u64)?;
                    (to >= 1000).then(|| limit.with_milli(to))
                };
                let smaller = |from: usize| {
                    let mut case = self.best.clone();
                    for set in &mut case.setup.sets {
                        set[place] = less(&set[place])?;
                    }
                    case.ops.drain(from..(from + fewer).min(case.ops.len()));
                    Some(case)
                };
                let offsets = 0..OFFSETS_MAX.min(self.best.ops.len());
                let cases: Vec<Case> = offsets.filter_map(smaller).collect();
                if !cases.into_iter().any(|case| self.keep_if_fails(case)) {
                    fewer /= 2;
                }
            }
        }
    }
}

/// Where calls are taken out to go with a smaller limit.
const OFFSETS_MAX: usize = 8;

fn with_call(what: &mut What, change: impl FnOnce(&mut super::case::Call)) {
    if let What::Call(call) = what {
        change(call);
    }
}

//! Every span of a log against the promise about spans: two pointers over the
//! sorted log, integers only.

use super::case::{Limit, MS, Setup};
use super::log::{Admitted, Bound, Broken, Log};

/// A promise about spans of time, in charged time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Promise {
    /// Any `boxes` consecutive boxes, aligned to the epoch, hold at most `most`;
    /// so does any span of `boxes − 1` box lengths.
    Boxes { box_ns: u64, boxes: u64, most: u64 },
    /// In any closed span `t` at most `most + t · milli / (1000 · interval)`,
    /// for each value.
    Bucket {
        most: u64,
        milli: u64,
        interval_ns: u64,
    },
    /// Each release at least `weight · interval · 1000 / milli`, rounded half
    /// up, after the one before, for each value.
    Apart { interval_ns: u64, milli: u64 },
}

/// What was looked at, and the first span that holds too much.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checked {
    pub(crate) spans: u64,
    pub(crate) broken: Option<(Broken, Vec<Admitted>)>,
}

impl Promise {
    /// What the limits of a setup promise. Where limits were changed on the
    /// way, the promise of the greatest.
    pub(crate) fn all_of(setup: &Setup) -> Vec<Promise> {
        let places = 0..setup.sets[0].len();
        let of_place = |place: usize| {
            let same = setup.sets.iter().map(move |set| &set[place]);
            let greatest = same.max_by_key(|limit| limit.milli())?;
            Promise::of(greatest, setup)
        };
        places.filter_map(of_place).collect()
    }

    fn of(limit: &Limit, setup: &Setup) -> Option<Promise> {
        Some(match *limit {
            Limit::Rate { milli } | Limit::WarmUp { milli, .. } => Promise::Boxes {
                box_ns: setup.view_box_ns(),
                boxes: setup.view_boxes.into(),
                most: milli * setup.view_ms / 1_000_000,
            },
            Limit::Interval {
                milli,
                interval_ms,
                boxes,
                strict,
            } => {
                let (box_ns, boxes) = Setup::boxes_of(interval_ms, boxes, strict);
                Promise::Boxes {
                    box_ns,
                    boxes,
                    most: milli / 1000,
                }
            }
            // A changed rule starts a line of its own, beside the old one.
            Limit::Line { .. } | Limit::WarmUpLine { .. } | Limit::ParamLine { .. }
                if setup.sets.len() > 1 =>
            {
                return None;
            }
            // So does a changed bucket.
            Limit::Bucket { .. } | Limit::ParamBucket { .. } if setup.sets.len() > 1 => {
                return None;
            }
            Limit::Bucket {
                milli,
                interval_ms,
                burst,
                ..
            } => Promise::Bucket {
                most: burst,
                milli,
                interval_ns: interval_ms * MS,
            },
            Limit::ParamBucket {
                milli,
                burst,
                period_s,
            } => Promise::Bucket {
                most: milli / 1000 + burst,
                milli,
                interval_ns: period_s * 1000 * MS,
            },
            Limit::Line {
                milli, interval_ms, ..
            } => Promise::Apart {
                interval_ns: interval_ms * MS,
                milli,
            },
            Limit::WarmUpLine { milli, .. } => Promise::Apart {
                interval_ns: 1000 * MS,
                milli,
            },
            Limit::ParamLine {
                milli, period_s, ..
            } => Promise::Apart {
                interval_ns: period_s * 1000 * MS,
                milli,
            },
            // ⌊count + burst⌋ between two refills, and twice that around one.
            // The bucket reads whole milliseconds: one more of them.
            Limit::ParamTokens {
                milli,
                burst,
                period_s,
            } if setup.sets.len() == 1 => {
                let interval_ns = period_s * 1000 * MS;
                Promise::Bucket {
                    most: 2 * (milli / 1000 + burst + 1) + MS * milli / (1000 * interval_ns) + 1,
                    milli,
                    interval_ns,
                }
            }
            Limit::ParamTokens { .. }
            | Limit::AtOnce { .. }
            | Limit::Permits { .. }
            | Limit::ParamAtOnce { .. } => return None,
        })
    }

    /// Checks all spans of a log: of when calls were counted, or of when they
    /// were released, where that is what is promised.
    pub(crate) fn check(&self, log: &mut Log) -> Checked {
        let log = match self {
            Promise::Boxes { .. } => &mut log.counted,
            Promise::Bucket { .. } | Promise::Apart { .. } => &mut log.released,
        };
        match *self {
            Promise::Boxes {
                box_ns,
                boxes,
                most,
            } => {
                log.sort_unstable_by_key(|a| (a.to_ns, a.from_ns));
                boxes_hold(log, box_ns, boxes, most)
            }
            Promise::Bucket {
                most,
                milli,
                interval_ns,
            } => {
                by_value(log);
                each_value(log, |log| bucket_holds(log, most, milli, interval_ns))
            }
            Promise::Apart { interval_ns, milli } => {
                by_value(log);
                each_value(log, |log| all_apart(log, interval_ns, milli))
            }
        }
    }
}

fn by_value(log: &mut [Admitted]) {
    log.sort_unstable_by_key(|a| (a.key, a.to_ns, a.from_ns));
}

fn each_value(log: &[Admitted], check: impl Fn(&[Admitted]) -> Checked) -> Checked {
    let mut all = Checked::default();
    for of_value in log.chunk_by(|a, b| a.key == b.key) {
        let checked = check(of_value);
        all.spans += checked.spans;
        all.broken = all.broken.or(checked.broken);
    }
    all
}

/// Accounts that end with the box of one admission, and spans that end with it:
/// no others hold more.
fn boxes_hold(log: &[Admitted], box_ns: u64, boxes: u64, most: u64) -> Checked {
    let mut checked = Checked::default();
    let mut account = Held::default();
    let mut span = Held::default();
    let length_ns = (boxes - 1) * box_ns;
    for (last, admitted) in log.iter().enumerate() {
        let first_box = (admitted.to_ns / box_ns + 1).saturating_sub(boxes);
        let wheres = [
            (&mut account, first_box * box_ns, "boxes"),
            (&mut span, admitted.to_ns.saturating_sub(length_ns), "span"),
        ];
        for (held, from_ns, what) in wheres {
            checked.spans += 1;
            held.move_on(log, last, from_ns);
            if held.sum <= most {
                continue;
            }
            // Of those whose time is not known, only those that are surely in.
            let inside = |a: &&Admitted| a.from_ns >= from_ns;
            let those = log[held.first..=last].iter().filter(inside).copied();
            let those: Vec<_> = those.collect();
            let surely: u64 = those.iter().map(|a| u64::from(a.weight)).sum();
            if surely > most {
                let ms = |ns: u64| ns as f64 / MS as f64;
                let span = match what {
                    "boxes" => format!("{boxes} boxes of {} ms", ms(box_ns)),
                    _ => format!("a span of {} ms", ms(length_ns)),
                };
                let text = format!("{surely} were admitted in {span} that holds {most}");
                checked.broken = Some((Broken::new(Bound::Upper, text), those));
                return checked;
            }
        }
    }
    checked
}

/// What a span holds that ends with one admission of a log.
#[derive(Default)]
struct Held {
    first: usize,
    sum: u64,
}

impl Held {
    /// The span now ends with the admission `last`, and begins at `from_ns`.
    fn move_on(&mut self, log: &[Admitted], last: usize, from_ns: u64) {
        self.sum += u64::from(log[last].weight);
        while log[self.first].to_ns < from_ns {
            self.sum -= u64::from(log[self.first].weight);
            self.first += 1;
        }
    }
}

/// The greatest `Σ weight − rate · t` over all spans that begin and end with an
/// admission.
fn bucket_holds(log: &[Admitted], most: u64, milli: u64, interval_ns: u64) -> Checked {
    let mut checked = Checked::default();
    // In units of 1 / (1000 · interval) of a token.
    let token = 1000 * i128::from(interval_ns);
    let most_units = i128::from(most) * token;
    let (mut level, mut before, mut first) = (0_i128, 0_u64, 0);
    for (last, admitted) in log.iter().enumerate() {
        if admitted.from_ns != admitted.to_ns {
            continue;
        }
        let flowed = i128::from(admitted.to_ns - before.min(admitted.to_ns)) * i128::from(milli);
        if level <= flowed {
            (level, first) = (0, last);
        } else {
            level -= flowed;
        }
        before = admitted.to_ns;
        level += i128::from(admitted.weight) * token;
        checked.spans += 1;
        if level > most_units {
            let t_ms = (admitted.to_ns - log[first].to_ns) as f64 / MS as f64;
            let held: u64 = log[first..=last].iter().map(|a| u64::from(a.weight)).sum();
            let text = format!("{held} were admitted in a span of {t_ms} ms, of a burst of {most}");
            let span = log[first..=last].to_vec();
            checked.broken = Some((Broken::new(Bound::Upper, text), span));
            return checked;
        }
    }
    checked
}

fn all_apart(log: &[Admitted], interval_ns: u64, milli: u64) -> Checked {
    let mut checked = Checked::default();
    let known = |a: &&Admitted| a.weight > 0 && a.from_ns == a.to_ns;
    let mut before: Option<&Admitted> = None;
    for admitted in log.iter().filter(known) {
        checked.spans += 1;
        if let Some(before) = before.replace(admitted) {
            let gap = admitted.to_ns - before.to_ns;
            let cost = super::model::cost_ns(admitted.weight.into(), interval_ns, milli);
            if gap < cost {
                let text = format!("two releases are {gap} ns apart that have to be {cost} ns");
                let span = vec![*before, *admitted];
                checked.broken = Some((Broken::new(Bound::Upper, text), span));
                return checked;
            }
        }
    }
    checked
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1000 * MS;

    /// A log of calls at these milliseconds, of weight 1.
    fn at_ms(times: &[u64]) -> Log {
        let admitted = |ms: &u64| Admitted {
            from_ns: ms * MS,
            to_ns: ms * MS,
            weight: 1,
            key: 0,
        };
        let all: Vec<_> = times.iter().map(admitted).collect();
        Log {
            counted: all.clone(),
            released: all,
        }
    }

    /// Of how many calls the span is that breaks a promise; 0 if none does.
    fn broken_by(promise: &Promise, times: &[u64]) -> usize {
        let broken = promise.check(&mut at_ms(times)).broken;
        broken.map_or(0, |(_, span)| span.len())
    }

    #[test]
    fn two_boxes_hold_the_limit_and_three_may_hold_twice_as_many() {
        let promise = Promise::Boxes {
            box_ns: 500 * MS,
            boxes: 2,
            most: 2,
        };
        assert_eq!(broken_by(&promise, &[499, 499, 1000, 1000]), 0);
        assert_eq!(broken_by(&promise, &[0, 499, 999]), 3);
        assert_eq!(broken_by(&promise, &[1000, 0, 0, 500]), 3);
    }

    #[test]
    fn a_call_whose_box_is_not_known_breaks_nothing_if_it_may_be_outside() {
        let promise = Promise::Boxes {
            box_ns: 500 * MS,
            boxes: 2,
            most: 2,
        };
        let mut log = at_ms(&[400, 600, 600]);
        assert!(promise.check(&mut log).broken.is_some());
        log.counted.sort_by_key(|a| a.to_ns);
        log.counted[0].from_ns = 0;
        log.counted[2].to_ns = 1000 * MS;
        assert!(promise.check(&mut log).broken.is_none());
    }

    #[test]
    fn a_bucket_holds_its_burst_and_what_has_flowed_in_to_the_nanosecond() {
        let promise = Promise::Bucket {
            most: 2,
            milli: 10_000,
            interval_ns: SECOND_NS,
        };
        assert_eq!(broken_by(&promise, &[0, 0, 100, 200]), 0);
        assert_eq!(broken_by(&promise, &[0, 0, 99]), 3);
        assert_eq!(broken_by(&promise, &[0, 0, 100, 199]), 4);
        // Idle time is kept up to the burst only.
        assert_eq!(broken_by(&promise, &[0, 900, 900, 900]), 3);
    }

    #[test]
    fn releases_are_the_cost_of_the_later_call_apart() {
        let promise = Promise::Apart {
            interval_ns: SECOND_NS,
            milli: 10_000,
        };
        assert_eq!(broken_by(&promise, &[0, 100, 200]), 0);
        assert_eq!(broken_by(&promise, &[0, 100, 199]), 2);
    }

    #[test]
    fn values_of_an_argument_have_spans_of_their_own() {
        let promise = Promise::Apart {
            interval_ns: SECOND_NS,
            milli: 10_000,
        };
        let mut log = at_ms(&[0, 50, 100, 150]);
        (0..4).for_each(|at| log.released[at].key = at as u32 % 2);
        assert!(promise.check(&mut log).broken.is_none());
    }
}

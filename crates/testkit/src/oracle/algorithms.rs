//! What is put to the test: one entry for each way to limit, with the rules it
//! is drawn from.

use super::case::{Form, Limit, Setup};
use super::random::Random;

/// One way to limit.
pub(crate) struct Algorithm {
    pub(crate) name: &'static str,
    /// Its part of all decisions, in relation to the others.
    pub(crate) share: u64,
    draw: fn(&mut Random) -> Setup,
    /// Whether calls ask to borrow.
    pub(crate) prioritized: bool,
    /// Whether the documents say to the single call how many are admitted, so
    /// that a crowd can be held to that number.
    pub(crate) exact: bool,
}

const fn algorithm(name: &'static str, share: u64, draw: fn(&mut Random) -> Setup) -> Algorithm {
    Algorithm {
        name,
        share,
        draw,
        prioritized: false,
        exact: true,
    }
}

/// All of them, in the order of the report.
pub(crate) const ALGORITHMS: &[Algorithm] = &[
    algorithm("reject", 4, reject),
    algorithm("interval", 3, interval),
    algorithm("limiter", 3, limiter),
    algorithm("strict", 3, strict),
    algorithm("strict-limiter", 2, strict_limiter),
    algorithm("bucket", 3, bucket),
    algorithm("bucket-line", 2, bucket_line),
    algorithm("bucket-limiter", 2, bucket_limiter),
    Algorithm {
        exact: false,
        ..algorithm("warm-up", 1, warm_up)
    },
    algorithm("line", 2, line),
    Algorithm {
        exact: false,
        ..algorithm("warm-up-line", 1, warm_up_line)
    },
    algorithm("at-once", 1, at_once),
    algorithm("isolation", 1, isolation),
    Algorithm {
        prioritized: true,
        ..algorithm("prioritized", 2, reject)
    },
    algorithm("param-tokens", 1, param_tokens),
    algorithm("param-bucket", 1, param_bucket),
    algorithm("param-line", 1, param_line),
    algorithm("param-at-once", 1, param_at_once),
    algorithm("several", 2, several),
];

/// The algorithm of that name.
pub(crate) fn named(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name)
}

impl Algorithm {
    /// Draws rules, and in half of all cases others to load on the way.
    pub(crate) fn draw(&self, random: &mut Random) -> Setup {
        let mut setup = (self.draw)(random);
        if setup.form == Form::Rules && random.once_in(2) {
            for _ in 0..2 {
                let first = setup.sets[0].clone();
                setup
                    .sets
                    .push(first.iter().map(|l| changed(l, random)).collect());
            }
        }
        setup
    }

    /// Draws rules that stay.
    pub(crate) fn draw_fixed(&self, random: &mut Random) -> Setup {
        (self.draw)(random)
    }
}

/// The same limit, raised, lowered or equal.
fn changed(limit: &Limit, random: &mut Random) -> Limit {
    let milli = limit.milli();
    limit.with_milli(match random.below(4) {
        0 => milli,
        1 => (milli / 2 / 1000 * 1000).max(1000),
        2 => milli + 1000,
        _ => 2 * milli,
    })
}

/// A limit that is mostly small, as small ones show what is off by one.
fn small(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => 1,
        1..=4 => random.between(2, 9),
        5 | 6 => random.between(10, 40),
        _ => random.between(100, 1000),
    }
}

/// A count in thousandths, whole or not.
fn count(random: &mut Random) -> u64 {
    let whole = small(random) * 1000;
    match random.below(4) {
        0 => whole + random.between(1, 999),
        _ => whole,
    }
}

fn with_view(mut setup: Setup, random: &mut Random) -> Setup {
    let views = [
        (2, 1000),
        (2, 1000),
        (2, 1000),
        (1, 1000),
        (5, 1000),
        (10, 1000),
        (2, 500),
        (4, 2000),
        (3, 1500),
    ];
    (setup.view_boxes, setup.view_ms) = random.pick(&views);
    setup.borrow_wait_ms = random.pick(&[500, 500, setup.view_ms, 100]);
    setup
}

fn reject(random: &mut Random) -> Setup {
    let milli = count(random);
    with_view(Setup::rules(vec![Limit::Rate { milli }]), random)
}

/// An interval and boxes that divide it into whole milliseconds.
fn boxes(random: &mut Random) -> (u64, u32) {
    let interval_ms: u64 = random.pick(&[100, 250, 600, 1000, 2000, 60_000, 3_600_000]);
    let fits = |boxes: &u32| interval_ms.is_multiple_of(u64::from(*boxes));
    let all: Vec<u32> = [1, 2, 3, 5, 10, 20].into_iter().filter(fits).collect();
    (interval_ms, random.pick(&all))
}

fn interval(random: &mut Random) -> Setup {
    let (interval_ms, boxes) = boxes(random);
    let milli = count(random);
    Setup::rules(vec![Limit::Interval {
        milli,
        interval_ms,
        boxes,
        strict: false,
    }])
}

fn strict(random: &mut Random) -> Setup {
    let (interval_ms, boxes) = random.pick(&[(1000, 50), (1000, 2), (1000, 10), (2000, 100)]);
    let (interval_ms, boxes) = match random.below(3) {
        0 => (interval_ms, boxes),
        _ => self::boxes(random),
    };
    let milli = count(random);
    Setup::rules(vec![Limit::Interval {
        milli,
        interval_ms,
        boxes,
        strict: true,
    }])
}

/// The same limit without an engine: whole calls, and no other to load.
fn alone(setup: Setup) -> Setup {
    let limit = only(setup);
    let whole = limit.milli() / 1000 * 1000;
    let limit = match limit {
        Limit::Bucket { .. } => limit,
        limit => limit.with_milli(whole),
    };
    Setup {
        form: Form::Alone,
        ..Setup::rules(vec![limit])
    }
}

fn strict_limiter(random: &mut Random) -> Setup {
    alone(strict(random))
}

fn a_bucket(random: &mut Random, wait_ms: Option<u64>) -> Setup {
    let milli = match random.below(4) {
        0 => random.between(1, 2000),
        _ => count(random),
    };
    Setup::rules(vec![Limit::Bucket {
        milli,
        interval_ms: random.pick(&[1000, 1000, 1000, 100, 60_000, 3_600_000]),
        burst: small(random),
        wait_ms,
    }])
}

fn bucket(random: &mut Random) -> Setup {
    a_bucket(random, None)
}

fn bucket_line(random: &mut Random) -> Setup {
    let wait_ms = random.pick(&[0, 1, 50, 500, 2000, 10_000]);
    a_bucket(random, Some(wait_ms))
}

fn bucket_limiter(random: &mut Random) -> Setup {
    alone(bucket(random))
}

fn limiter(random: &mut Random) -> Setup {
    alone(interval(random))
}

fn warm_up(random: &mut Random) -> Setup {
    let (milli, cold) = (count(random), random.pick(&[2, 3, 3, 5]));
    let period_s = random.between(1, 20);
    Setup::rules(vec![Limit::WarmUp {
        milli,
        period_s,
        cold,
    }])
}

fn a_line(random: &mut Random) -> Limit {
    let interval_ms = random.pick(&[1000, 1000, 1000, 60_000, 200]);
    Limit::Line {
        milli: count(random),
        interval_ms,
        wait_ms: random.pick(&[0, 1, 50, 500, 500, 2000, 10_000]),
    }
}

fn line(random: &mut Random) -> Setup {
    Setup::rules(vec![a_line(random)])
}

fn warm_up_line(random: &mut Random) -> Setup {
    let (milli, cold) = (count(random), random.pick(&[2, 3, 3, 5]));
    Setup::rules(vec![Limit::WarmUpLine {
        milli,
        period_s: random.between(1, 20),
        cold,
        wait_ms: random.pick(&[0, 500, 2000]),
    }])
}

fn at_once(random: &mut Random) -> Setup {
    let count = small(random);
    Setup::rules(vec![Limit::AtOnce { count }])
}

fn isolation(random: &mut Random) -> Setup {
    let count = small(random);
    Setup::rules(vec![Limit::Permits { count }])
}

fn param_tokens(random: &mut Random) -> Setup {
    Setup::rules(vec![Limit::ParamTokens {
        milli: count(random),
        burst: random.pick(&[0, 0, 1, 5]),
        period_s: random.pick(&[1, 1, 2, 10]),
    }])
}

fn param_bucket(random: &mut Random) -> Setup {
    Setup::rules(vec![Limit::ParamBucket {
        milli: count(random),
        burst: random.pick(&[0, 0, 1, 5]),
        period_s: random.pick(&[1, 1, 2, 10, 3600]),
    }])
}

fn param_line(random: &mut Random) -> Setup {
    Setup::rules(vec![Limit::ParamLine {
        milli: count(random),
        period_s: random.pick(&[1, 1, 2, 10]),
        wait_ms: random.pick(&[0, 50, 500, 2000]),
    }])
}

fn param_at_once(random: &mut Random) -> Setup {
    let count = small(random);
    Setup::rules(vec![Limit::ParamAtOnce { count }])
}

/// Limits of several kinds on the same calls; the later ones refuse what the
/// earlier ones have taken in.
fn several(random: &mut Random) -> Setup {
    let mut limits = Vec::new();
    let tokens = random.once_in(3);
    if tokens {
        limits.push(only(param_tokens(random)));
    }
    // What is left of a bucket when a call that waits is given up after others
    // came is not written anywhere to the single token: no line with tokens.
    match random.below(if tokens { 5 } else { 6 }) {
        0 => limits.push(Limit::Rate {
            milli: count(random),
        }),
        1 => limits.extend([interval(random), interval(random)].map(only)),
        2 => {
            let milli = count(random);
            limits.extend([
                Limit::Rate { milli },
                changed(&Limit::Rate { milli }, random),
            ]);
        }
        3 => limits.extend([only(strict(random)), only(interval(random))]),
        4 => limits.extend([only(bucket(random)), only(reject(random))]),
        _ => limits.extend([only(interval(random)), a_line(random)]),
    }
    limits.push(Limit::Permits {
        count: random.between(1, 12),
    });
    Setup::rules(limits)
}

fn only(mut setup: Setup) -> Limit {
    setup.sets.swap_remove(0).swap_remove(0)
}

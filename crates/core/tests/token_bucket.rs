//! The token bucket against an independent model: the tokens in it, as whole
//! numbers of the smallest part that ever flows in.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use flowgate_core::token_bucket::{Quota, Taken, TooFewTokens};
use flowgate_core::{Timestamp, TokenBucket};
use proptest::prelude::*;

const PATIENT: Duration = Duration::from_secs(1 << 30);

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

/// `num / den` tokens per `period_ns`.
#[derive(Clone, Copy, Debug)]
struct Terms {
    num: i128,
    den: i128,
    period_ns: u64,
    burst: u32,
}

const fn terms(num: i128, den: i128, period_ns: u64, burst: u32) -> Terms {
    Terms {
        num,
        den,
        period_ns,
        burst,
    }
}

const SECOND: u64 = 1_000_000_000;

/// Tokens that take whole nanoseconds and such that do not, more than one to a
/// nanosecond, and rates with decimals.
///
/// The last has so many digits that the latest time charged is rounded up, and
/// somewhat less may be given back.
const TERMS: [Terms; 10] = [
    terms(1, 1, 10, 1),
    terms(1, 1, 10, 5),
    terms(3, 1, 10, 1),
    terms(3, 1, 7, 4),
    terms(29, 100, 10, 2),
    terms(5, 2, 1, 6),
    terms(7, 1, 1, 20),
    terms(700_000_000, 1, SECOND, 3),
    terms(123_456_789, 1_000, SECOND, 9),
    terms(3_333_333_333_333_333, 10_000_000_000_000_000, 1_000_000, 5),
];

impl Terms {
    fn quota(self) -> Quota {
        let count = self.num as f64 / self.den as f64;
        Quota::new(
            count,
            Duration::from_nanos(self.period_ns),
            self.burst.into(),
        )
        .unwrap()
    }

    /// One token, in parts of which `num` flow in per nanosecond.
    fn token(self) -> i128 {
        i128::from(self.period_ns) * self.den
    }

    fn capacity(self) -> i128 {
        i128::from(self.burst) * self.token()
    }

    /// How long one token takes, at least 1 ns.
    fn token_ns(self) -> u64 {
        (self.token() / self.num).max(1) as u64
    }
}

/// The tokens there are, and when that was last worked out. What is owed to
/// calls that wait is negative.
#[derive(Clone, Copy, Debug)]
struct Model {
    terms: Terms,
    parts: i128,
    as_of_ns: i128,
}

impl Model {
    fn new(terms: Terms) -> Self {
        Model {
            terms,
            parts: terms.capacity(),
            as_of_ns: 0,
        }
    }

    /// What there is at a time; an older one than that of the last call finds
    /// less.
    fn parts_at(&self, now_ns: u64) -> i128 {
        let elapsed = i128::from(now_ns) - self.as_of_ns;
        (self.parts + elapsed * self.terms.num).min(self.terms.capacity())
    }

    /// When a call that comes at `now_ns` may go.
    fn release_ns(&self, now_ns: u64, weight: u32) -> Option<u64> {
        if weight > self.terms.burst {
            return None;
        }
        let lacking = i128::from(weight) * self.terms.token() - self.parts_at(now_ns);
        let wait_ns = (lacking.max(0) + self.terms.num - 1) / self.terms.num;
        Some(now_ns + u64::try_from(wait_ns).unwrap())
    }

    /// Charges a call, whether there is room or not.
    fn charge(&mut self, release_ns: u64, weight: u32) {
        let weight = i128::from(weight) * self.terms.token();
        if i128::from(release_ns) > self.as_of_ns {
            self.parts = self.parts_at(release_ns);
            self.as_of_ns = release_ns.into();
        }
        self.parts -= weight;
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A step of time in percent of a token, also back.
    Move(i64),
    Take {
        weight: u32,
        /// In percent of a token.
        wait_max: u64,
    },
    GiveBack(prop::sample::Index),
}

fn takes() -> impl Strategy<Value = Step> {
    let wait_max = prop_oneof![3 => Just(0_u64), 2 => 0_u64..600, 1 => Just(100_000)];
    (0_u32..7, wait_max).prop_map(|(weight, wait_max)| Step::Take { weight, wait_max })
}

fn moves() -> impl Strategy<Value = Step> {
    let percent = prop_oneof![6 => 0_i64..130, 2 => 0_i64..2_000, 1 => -300_i64..0];
    percent.prop_map(Step::Move)
}

fn steps(give_back: u32) -> impl Strategy<Value = Vec<Step>> {
    let back = any::<prop::sample::Index>().prop_map(Step::GiveBack);
    prop::collection::vec(
        prop_oneof![4 => takes(), 3 => moves(), give_back => back],
        1..120,
    )
}

/// A bucket in use, with all that a caller remembers.
struct Run {
    terms: Terms,
    bucket: TokenBucket,
    now_ns: u64,
    /// Release, weight, what was taken.
    charged: Vec<(u64, u32, Taken)>,
}

impl Run {
    fn new(terms: Terms) -> Self {
        Run {
            terms,
            bucket: TokenBucket::new(terms.quota()),
            now_ns: 1_000 * terms.token_ns(),
            charged: Vec::new(),
        }
    }

    fn percent(&self, percent: u64) -> u64 {
        // Fast rates move by whole nanoseconds too.
        (percent * self.terms.token_ns()).div_ceil(100)
    }

    fn shift(&mut self, percent: i64) {
        let by_ns = self.percent(percent.unsigned_abs());
        self.now_ns = match percent < 0 {
            true => self.now_ns - by_ns,
            false => self.now_ns + by_ns,
        };
    }

    /// Asks for a place, as soon as possible or in percent of a token.
    fn take(&mut self, weight: u32, wait_max: u64) -> Result<u64, TooFewTokens> {
        let wait_max = Duration::from_nanos(self.percent(wait_max));
        let granted = self
            .bucket
            .take_or_wait(at(self.now_ns), weight, wait_max)?;
        // As a slot keeps it.
        let taken = Taken::from_words(granted.taken.to_words());
        assert_eq!(taken, granted.taken);
        assert!(granted.release >= at(self.now_ns));
        assert!(granted.release.since(at(self.now_ns)) <= wait_max);
        self.charged
            .push((granted.release.as_nanos(), weight, taken));
        Ok(granted.release.as_nanos())
    }

    fn give_back(&mut self, which: usize) {
        let (_, weight, taken) = self.charged.remove(which);
        self.bucket.give_back(taken, weight, at(self.now_ns));
    }

    /// No closed span holds more than a burst and what flows in within it.
    fn check_all_spans(&self) {
        let mut charged: Vec<_> = self.charged.iter().map(|c| (c.0, c.1)).collect();
        charged.sort_unstable();
        for (first, &(from, _)) in charged.iter().enumerate() {
            let mut taken = 0;
            for &(to, weight) in &charged[first..] {
                taken += i128::from(weight) * self.terms.token();
                let flowed_in = i128::from(to - from) * self.terms.num;
                let most = self.terms.capacity() + flowed_in;
                assert!(taken <= most, "{taken} > {most} in [{from}, {to}]");
            }
        }
    }

    /// How long until it is full again.
    fn full_after_ns(&self) -> u64 {
        let probe = TokenBucket::take(&self.bucket, at(self.now_ns), self.terms.burst);
        match probe {
            Ok(taken) => {
                self.bucket
                    .give_back(taken, self.terms.burst, at(self.now_ns));
                0
            }
            Err(refused) => refused.retry_after.unwrap().as_nanos() as u64,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn it_decides_as_the_model_does(which in 0..TERMS.len(), steps in steps(0)) {
        let mut run = Run::new(TERMS[which]);
        let mut model = Model::new(TERMS[which]);
        for step in steps {
            match step {
                Step::GiveBack(_) => unreachable!("none is made"),
                Step::Move(percent) => run.shift(percent),
                Step::Take { weight, wait_max } => {
                    let expected = model.release_ns(run.now_ns, weight);
                    let left = model.parts_at(run.now_ns).max(0) / run.terms.token();
                    prop_assert_eq!(run.bucket.whole_tokens_at(at(run.now_ns)), left as u64);
                    match run.take(weight, wait_max) {
                        Ok(release_ns) if weight == 0 => {
                            prop_assert_eq!(release_ns, run.now_ns);
                        }
                        Ok(release_ns) => {
                            prop_assert_eq!(Some(release_ns), expected);
                            model.charge(release_ns, weight);
                        }
                        Err(refused) => {
                            let wait = expected.map(|ns| Duration::from_nanos(ns - run.now_ns));
                            prop_assert_eq!(refused.retry_after, wait);
                            prop_assert_eq!(refused.left, left as u64);
                            let most = Duration::from_nanos(run.percent(wait_max));
                            prop_assert!(wait.is_none_or(|wait| wait > most));
                        }
                    }
                }
            }
        }
        run.check_all_spans();
    }

    #[test]
    fn no_span_holds_more_whoever_gives_back(which in 0..TERMS.len(), steps in steps(3)) {
        let mut run = Run::new(TERMS[which]);
        for step in steps {
            match step {
                Step::Move(percent) => run.shift(percent),
                Step::Take { weight, wait_max } => {
                    let _ = run.take(weight, wait_max);
                }
                Step::GiveBack(index) if !run.charged.is_empty() => {
                    run.give_back(index.index(run.charged.len()));
                }
                Step::GiveBack(_) => {}
            }
            run.check_all_spans();
        }
    }

    /// The model has not had the call. The bucket lags behind it by no more
    /// than the time in which others came, and not at all if none did.
    #[test]
    fn what_is_lost_of_tokens_given_back_flowed_in_meanwhile(
        which in 0..TERMS.len() - 1,
        before in steps(0),
        weight in 1_u32..7,
        between in prop::collection::vec((0_i64..150, 1_u32..4, any::<bool>()), 0..6),
        later in 0_i64..300,
    ) {
        let mut run = Run::new(TERMS[which]);
        let mut model = Model::new(TERMS[which]);
        let mut newest = 0;
        for step in before {
            match step {
                Step::Take { weight, .. } if run.take(weight, 0).is_ok() && weight > 0 => {
                    model.charge(run.now_ns, weight);
                    newest = newest.max(run.now_ns);
                }
                Step::Move(percent) => run.shift(percent),
                _ => {}
            }
        }
        // Readings go on from here.
        run.now_ns = run.now_ns.max(newest);
        let weight = weight.min(run.terms.burst);
        while let Err(refused) = run.take(weight, 0) {
            run.now_ns += refused.retry_after.unwrap().as_nanos() as u64;
        }
        let charged_at = run.now_ns;
        let held = run.charged.len() - 1;
        let mut newest = charged_at;
        for (percent, weight, stays) in between {
            run.shift(percent);
            if run.take(weight, 0).is_err() {
                continue;
            }
            newest = run.now_ns;
            match stays {
                true => model.charge(run.now_ns, weight),
                false => run.give_back(run.charged.len() - 1),
            }
        }
        run.shift(later);
        run.give_back(held);
        let full_after_ns = run.full_after_ns();
        let expected = model.release_ns(run.now_ns, run.terms.burst).unwrap() - run.now_ns;
        let lag_max = newest - charged_at;
        prop_assert!((expected..=expected + lag_max).contains(&full_after_ns),
            "{full_after_ns} ns, not from {expected} to {}", expected + lag_max);
    }
}

/// Ten are taken, five flow in and are taken: the first ten have nothing left to
/// give but what was there.
#[test]
fn tokens_given_back_do_not_make_the_bucket_run_over() {
    let (ten, second) = (terms(1, 1, 10, 10), 10);
    let mut run = Run::new(ten);
    run.now_ns = 0;
    run.take(10, 0).unwrap();
    run.now_ns = 5 * second;
    run.take(5, 0).unwrap();
    run.give_back(0);
    assert_eq!(run.bucket.whole_tokens_at(at(run.now_ns)), 5);
    run.check_all_spans();
}

/// The second gives back after the first has: its stretch has moved up.
#[test]
fn who_gives_back_after_others_did_counts_what_they_gave() {
    let ten = terms(1, 1, 10, 10);
    let mut run = Run::new(ten);
    run.now_ns = 0;
    run.take(10, 0).unwrap();
    run.now_ns = 50;
    run.take(5, 0).unwrap();
    run.give_back(0);
    run.now_ns = 90;
    run.take(9, 0).unwrap();
    run.give_back(0);
    while run.take(1, 0).is_ok() {}
    run.check_all_spans();
    assert_eq!(run.charged.iter().map(|c| c.1).sum::<u32>(), 10);
}

#[test]
fn a_call_with_an_earlier_reading_gives_back_all_it_took() {
    let mut run = Run::new(terms(1, 1, 10, 10));
    run.now_ns = 100;
    run.take(1, 0).unwrap();
    run.now_ns = 40;
    run.take(3, 0).unwrap();
    run.give_back(1);
    assert_eq!(run.full_after_ns(), 70);
}

#[test]
fn calls_of_one_instant_give_back_all_they_took_in_any_order() {
    for order in [[0, 0, 0], [2, 1, 0], [1, 0, 0], [1, 1, 0]] {
        let mut run = Run::new(terms(3, 1, 7, 10));
        for weight in [2, 5, 3] {
            run.take(weight, 0).unwrap();
        }
        for which in order {
            run.give_back(which);
        }
        assert_eq!(run.full_after_ns(), 0, "{order:?}");
    }
}

/// Pure pacing: nothing can be given back without two going at once, so a
/// newcomer has the place and its time.
#[test]
fn a_place_in_the_middle_of_the_line_goes_to_one_newcomer() {
    let mut run = Run::new(terms(1, 1, 100, 1));
    run.now_ns = 0;
    for expected in [0, 100, 200, 300] {
        assert_eq!(run.take(1, 1_000), Ok(expected));
    }
    run.give_back(1);
    let newcomers = [(); 2].map(|()| run.take(1, 1_000));
    assert_eq!(newcomers, [Ok(100), Ok(400)]);
    // It gives up too, and the place is there again.
    let hole = run.charged.iter().position(|c| c.0 == 100).unwrap();
    run.give_back(hole);
    assert_eq!(run.take(1, 1_000), Ok(100));
    run.check_all_spans();
}

/// One token a second: the second call may go at 1 s, the third at 2 s.
#[test]
fn a_place_is_free_while_it_is_to_come_for_calls_that_weigh_something() {
    let gives_up_at = |now_ns| {
        let bucket = TokenBucket::new(Quota::new(1.0, Duration::from_secs(1), 1).unwrap());
        let take = |now_ns, weight| bucket.take_or_wait(at(now_ns), weight, PATIENT).unwrap();
        let [_, second, third] = [0; 3].map(|now_ns| take(now_ns, 1));
        assert_eq!(second.release, at(SECOND));
        assert_eq!(third.release, at(2 * SECOND));
        bucket.give_back(second.taken, 1, at(now_ns));
        // Takes nothing, so no place either.
        assert_eq!(take(now_ns, 0).release, at(now_ns));
        take(now_ns, 1).release
    };
    assert_eq!(gives_up_at(SECOND / 2), at(SECOND));
    assert_eq!(gives_up_at(SECOND - 1), at(SECOND));
    assert_eq!(gives_up_at(SECOND), at(3 * SECOND), "it has come");
}

#[test]
fn the_extremes_are_held_exactly() {
    let (day, second) = (Duration::from_secs(86_400), Duration::from_secs(1));
    let year = 365 * day;
    // The last is when the first token of an empty bucket is there.
    let table = [
        (1.0, day, 1_000_000, 86_400_000_000_000),
        (1.0, year, 10, 31_536_000_000_000_000),
        (1e9, second, 1_000_000_000, 1),
        (0.3, second, 1, 3_333_333_334),
        (1.0 / 3.0, second, 1, 3_000_000_001),
    ];
    for (count, period, burst, token_ns) in table {
        for start in [0, 1_700_000_000_000_000_000, u64::MAX - token_ns] {
            let quota = Quota::new(count, period, burst.into()).unwrap();
            let bucket = TokenBucket::new(quota);
            let _taken = bucket.take(at(start), burst).unwrap();
            let refused = bucket.take(at(start), 1).unwrap_err();
            let retry_after = Some(Duration::from_nanos(token_ns));
            assert_eq!(
                refused,
                TooFewTokens {
                    left: 0,
                    retry_after
                }
            );
            assert!(bucket.take(at(start + token_ns - 1), 1).is_err());
            assert!(bucket.take(at(start + token_ns), 1).is_ok(), "{count}");
        }
    }
}

#[test]
fn at_the_end_of_time_nothing_wraps() {
    for (count, period_ns, burst) in [(1.0, SECOND, 3), (7e8, SECOND, 3), (1e9, 1, 1_000_000_000)] {
        let period = Duration::from_nanos(period_ns);
        let bucket = TokenBucket::new(Quota::new(count, period, burst).unwrap());
        let end = at(u64::MAX);
        let burst = burst as u32;
        let taken = bucket.take(end, burst).unwrap();
        let refused = bucket.take_or_wait(end, 1, PATIENT).unwrap_err();
        assert_eq!(
            refused,
            TooFewTokens {
                left: 0,
                retry_after: None
            }
        );
        bucket.give_back(taken, burst, end);
        assert!(bucket.take(end, burst).is_ok());
    }
}

#[test]
fn a_rate_of_zero_gives_its_burst_once() {
    let bucket = TokenBucket::new(Quota::new(0.0, Duration::from_secs(1), 3).unwrap());
    let taken = [(); 3].map(|()| bucket.take(at(0), 1).unwrap());
    let refused = bucket.take_or_wait(at(u64::MAX), 1, PATIENT).unwrap_err();
    assert_eq!(
        refused,
        TooFewTokens {
            left: 0,
            retry_after: None
        }
    );
    bucket.give_back(taken[1], 1, at(5));
    assert_eq!(bucket.tokens_at(at(6)), 1.0);
}

/// A billion tokens at ten sevenths of a nanosecond each: the last is released
/// in the nanosecond that arithmetic says.
#[test]
fn nothing_drifts_over_a_billion_tokens() {
    const WEIGHT: u64 = 1_000;
    const BURST: u64 = 2_000;
    let quota = Quota::new(7e8, Duration::from_secs(1), BURST).unwrap();
    let (waiting, polling) = (TokenBucket::new(quota), TokenBucket::new(quota));
    let start = 1_700_000_000_000_000_000;
    let mut now = at(start);
    for call in 1..=1_000_000 {
        let lacking = (call * WEIGHT).saturating_sub(BURST);
        let expected = at(start + (lacking * 10).div_ceil(7));
        let granted = waiting
            .take_or_wait(at(start), WEIGHT as u32, PATIENT)
            .unwrap();
        assert_eq!(granted.release, expected);
        while let Err(refused) = polling.take(now, WEIGHT as u32) {
            now += refused.retry_after.unwrap();
        }
        assert_eq!(now, expected);
    }
}

/// Threads that take, give back, and let time go on.
#[test]
fn eight_threads_take_no_more_than_flows_in() {
    const CALLS: usize = 20_000;
    let terms = terms(3, 1, 7, 50);
    let bucket = TokenBucket::new(terms.quota());
    let clock = AtomicU64::new(1_000);
    let logs: Vec<Vec<(u64, u32)>> = thread::scope(|scope| {
        let work = |thread: usize| {
            let (bucket, clock) = (&bucket, &clock);
            move || {
                let mut kept = Vec::new();
                for call in 0..CALLS {
                    let now = at(clock.fetch_add(1, Ordering::Relaxed));
                    let weight = 1 + (call % 3) as u32;
                    let Ok(taken) = bucket.take(now, weight) else {
                        continue;
                    };
                    match (call + thread) % 4 {
                        0 => bucket.give_back(taken, weight, now),
                        _ => kept.push((now.as_nanos(), weight)),
                    }
                }
                kept
            }
        };
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(work(thread))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut charged: Vec<_> = logs.into_iter().flatten().collect();
    charged.sort_unstable();
    // All spans at once: the model never owes anything.
    let mut model = Model::new(terms);
    for (release_ns, weight) in charged {
        model.charge(release_ns, weight);
        assert!(model.parts >= 0, "by {release_ns} ns");
    }
}

#[test]
fn of_a_bucket_that_is_not_refilled_eight_threads_get_exactly_the_burst() {
    const BURST: u32 = 100_000;
    let quota = Quota::new(0.0, Duration::from_secs(1), BURST.into()).unwrap();
    let bucket = TokenBucket::new(quota);
    let kept: u64 = thread::scope(|scope| {
        let work = |thread: u64| {
            let bucket = &bucket;
            move || {
                let mut kept = 0;
                for call in thread.. {
                    let weight = 1 + (call % 3) as u32;
                    match bucket.take(at(call), weight) {
                        Ok(taken) if call % 2 == 0 => bucket.give_back(taken, weight, at(call)),
                        Ok(_) => kept += u64::from(weight),
                        Err(_) if weight == 1 => return kept,
                        Err(_) => {}
                    }
                }
                kept
            }
        };
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(work(thread))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    let left = bucket.whole_tokens_at(at(0));
    assert_eq!(kept + left, u64::from(BURST));
}

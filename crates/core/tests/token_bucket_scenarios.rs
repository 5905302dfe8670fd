//! Bugs that other limiters had, as far as a token bucket expresses them. Each
//! test is named after its scenario and links the report; time is set, never
//! waited for.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use flowgate_core::token_bucket::Quota;
use flowgate_core::{Clock, ManualClock, TimeSource, Timestamp, TokenBucket, TokenBucketLimiter};

const DAY: u64 = 86_400;
const NO_WAIT: Duration = Duration::ZERO;
const PATIENT: Duration = Duration::from_secs(3_600);

/// `rate` tokens per `secs` seconds.
fn bucket(rate: f64, secs: u64, burst: u64) -> TokenBucket {
    TokenBucket::new(Quota::new(rate, Duration::from_secs(secs), burst).unwrap())
}

/// The same on a clock that stands at 0.
fn limiter(rate: f64, secs: u64, burst: u64) -> (TokenBucketLimiter, ManualClock) {
    let time = ManualClock::new();
    let clock = Clock::manual(time.clone());
    let limiter = TokenBucketLimiter::with_clock(rate, Duration::from_secs(secs), burst, clock);
    (limiter.unwrap(), time)
}

fn ms(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn secs(secs: u64) -> Timestamp {
    ms(1_000 * secs)
}

/// How many of `offered` single calls pass at `now`.
fn passed(bucket: &TokenBucket, now: Timestamp, offered: usize) -> usize {
    (0..offered).filter(|_| bucket.take(now, 1).is_ok()).count()
}

/// When a call that comes at `now` may go.
fn release_ms(
    bucket: &TokenBucket,
    now: Timestamp,
    weight: u32,
    wait_max: Duration,
) -> Option<u64> {
    let granted = bucket.take_or_wait(now, weight, wait_max).ok()?;
    Some(granted.release.as_millis())
}

// https://github.com/boinkor-net/governor/issues/249
#[test]
fn b001_an_idle_spell_gives_no_token_more_than_the_burst() {
    for (idle_ms, expected) in [(200, 1), (1_000, 5), (2_000, 5), (3_600_000, 5)] {
        let bucket = bucket(5.0, 1, 5);
        assert_eq!(passed(&bucket, ms(0), 6), 5);
        assert_eq!(passed(&bucket, ms(idle_ms), 7), expected, "{idle_ms} ms");
    }
}

// https://github.com/bucket4j/bucket4j/issues/417. What is owed here is owed to
// a call that waits: a weight above the burst never passes.
#[test]
fn b011_what_is_owed_is_never_given_away() {
    let bucket = bucket(50.0, 1, 50);
    assert_eq!(bucket.take(ms(0), 60).unwrap_err().retry_after, None);
    let _taken = bucket.take(ms(0), 50).unwrap();
    assert_eq!(release_ms(&bucket, ms(0), 10, PATIENT), Some(200));
    for (at, left) in [(0, 0), (100, 0), (300, 5)] {
        assert_eq!(bucket.whole_tokens_at(ms(at)), left, "at {at} ms");
        assert_eq!(passed(&bucket, ms(at), 100), left as usize, "at {at} ms");
    }
}

// https://github.com/mailgun/gubernator/issues/77
#[test]
fn b012_the_bucket_is_refilled_while_it_is_in_use() {
    let bucket = bucket(10.0, 30, 10);
    let left = (0..=10).map(|at| {
        let _taken = bucket.take(secs(at), 1).unwrap();
        bucket.whole_tokens_at(secs(at))
    });
    let left: Vec<u64> = left.collect();
    assert_eq!(left, [9, 8, 7, 7, 6, 5, 5, 4, 3, 3, 2]);
}

// https://github.com/boinkor-net/governor/issues/16. The hundred wait in the
// line at once there; here four threads book as fast as they can.
#[test]
fn b017_many_waiters_get_what_there_is_and_no_more() {
    let bucket = bucket(1_200.0, 60, 1_200);
    let until = Duration::from_secs(30);
    let weight = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Ok(granted) = bucket.take_or_wait(ms(0), 10, until) {
                    assert!(granted.release <= ms(0) + until);
                    weight.fetch_add(10, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(weight.into_inner(), 1_200 + 20 * 30);
}

// https://github.com/mailgun/gubernator/issues/118
#[test]
fn b023_a_bucket_is_not_full_again_once_a_period() {
    let bucket = bucket(3.0, 1, 3);
    let mut left = 3.0;
    let passed = (0..100).filter(|call| {
        let now = ms(100 * call);
        let before = bucket.tokens_at(now);
        assert!(before - left <= 1.0, "{left} and then {before}");
        let passes = bucket.take(now, 1).is_ok();
        left = bucket.tokens_at(now);
        passes
    });
    assert_eq!(passed.count(), 32);
}

// https://github.com/firecracker-microvm/firecracker/pull/3370
#[test]
fn b034_part_of_a_token_is_not_lost_when_somebody_looks() {
    let drained = || {
        let bucket = bucket(10.0, 1, 10);
        assert_eq!(passed(&bucket, ms(0), 10), 10);
        bucket
    };
    let often = drained();
    let calls = (0..=333).filter(|call| often.take(ms(30 * call), 1).is_ok());
    assert_eq!(calls.count(), 99);
    let seldom = drained();
    assert!((1..1_000).all(|call| seldom.take(ms(190 * call), 1).is_ok()));
}

// https://github.com/brandur/redis-cell/pull/13
#[test]
fn b038_what_is_due_is_told_to_the_nanosecond() {
    let bucket = bucket(100.0, 1, 11);
    let (mut at, mut passed) = (0, 0);
    while at <= 3_000 {
        let passes = bucket.take(ms(at), 1).is_ok();
        passed += u32::from(passes);
        at += if passes { 1 } else { 100 };
    }
    assert_eq!(passed, 301);

    // Who comes again as soon as he is told to gets all there is.
    let bucket = self::bucket(100.0, 1, 11);
    let mut now = ms(0);
    let mut passed = 0;
    while now <= secs(3) {
        match bucket.take(now, 1) {
            Ok(_) => passed += 1,
            Err(refused) => now += refused.retry_after.unwrap(),
        }
    }
    assert_eq!(passed, 11 + 300);
}

// https://github.com/alibaba/Sentinel/pull/2951,
// https://github.com/jaegertracing/jaeger-client-python/pull/35
#[test]
fn b039_a_rate_below_one_per_second_is_a_rate() {
    for (wait_ms, second) in [(5_000, Some(5_000)), (4_999, None)] {
        let bucket = bucket(0.2, 1, 1);
        let wait = Duration::from_millis(wait_ms);
        let releases = [(); 3].map(|()| release_ms(&bucket, ms(0), 1, wait));
        assert_eq!(releases, [Some(0), second, None]);
    }
    let bucket = bucket(0.5, 1, 1);
    let passed: Vec<u64> = (0..=100)
        .filter(|call| bucket.take(ms(100 * call), 1).is_ok())
        .collect();
    assert_eq!(passed, [0, 20, 40, 60, 80, 100]);
}

// https://github.com/inngest/inngest/pull/1459. Who makes the bucket gives the
// burst: at least one, else what flows in within a period.
#[test]
fn b040_a_burst_of_the_count_is_at_least_one() {
    for count in [5.0, 1.0, 9.0, 10.0, 0.3] {
        let burst = (count as u64).max(1);
        let bucket = bucket(count, DAY, burst);
        assert_eq!(passed(&bucket, ms(0), 20) as u64, burst, "{count} a day");
    }
}

// https://github.com/golang/go/issues/56287
#[test]
fn b044_alternating_readings_credit_no_second_twice() {
    struct Alternating(AtomicU64);
    impl TimeSource for Alternating {
        fn now(&self) -> Timestamp {
            secs(10 - self.0.fetch_add(1, Ordering::Relaxed) % 2)
        }
    }
    let clock = Clock::custom(Alternating(0.into()));
    let limiter = TokenBucketLimiter::with_clock(1.0, Duration::from_secs(1), 1, clock).unwrap();
    let passed: Vec<u32> = (0..200).filter(|_| limiter.try_acquire()).collect();
    assert_eq!(passed, [0]);
}

// https://github.com/udoprog/leaky-bucket/pull/30,
// https://github.com/udoprog/leaky-bucket/pull/32
#[test]
fn b051_an_idle_bucket_does_not_run_over() {
    let hour = secs(3_600);
    let at_once = bucket(10.0, 1, 10);
    assert_eq!(passed(&at_once, ms(0), 1), 1);
    assert_eq!(passed(&at_once, hour, 20), 10);
    let waiting = bucket(10.0, 1, 10);
    assert_eq!(passed(&waiting, ms(0), 1), 1);
    let releases = [(); 2].map(|()| release_ms(&waiting, hour, 10, PATIENT));
    assert_eq!(releases, [Some(3_600_000), Some(3_601_000)]);
}

// https://github.com/uber-go/ratelimit/issues/106,
// https://github.com/uber-go/ratelimit/issues/119,
// https://github.com/uber-go/ratelimit/issues/122. One saved slot is a burst of
// two.
#[test]
fn b052_an_idle_spell_is_credited_once() {
    let table = [
        (2, [30, 30, 31, 32, 33, 34, 35, 36, 37, 38]),
        (1, [30, 31, 32, 33, 34, 35, 36, 37, 38, 39]),
    ];
    for (burst, expected) in table {
        let bucket = bucket(1.0, 1, burst);
        assert_eq!(passed(&bucket, ms(0), 1), 1);
        let releases = [(); 10].map(|()| release_ms(&bucket, secs(30), 1, PATIENT));
        assert_eq!(releases, expected.map(|at| Some(1_000 * at)));
    }
}

// https://github.com/spring-cloud/spring-cloud-gateway/issues/1312
#[test]
fn b057_a_burst_of_zero_lets_nobody_through() {
    let bucket = bucket(1.0, 1, 0);
    assert_eq!(
        (0..100)
            .map(|at| passed(&bucket, secs(at), 1))
            .sum::<usize>(),
        0
    );
    assert_eq!(bucket.take(secs(100), 1).unwrap_err().retry_after, None);
    assert_eq!(bucket.tokens_at(secs(100)), 0.0);
}

// https://github.com/golang/go/issues/56924,
// https://github.com/golang/go/issues/69419
#[test]
fn b100_a_cancelled_wait_gives_back_what_it_took() {
    let bucket = bucket(10.0, 1, 20);
    let _taken = bucket.take(ms(0), 15).unwrap();
    let cancelled = bucket.take_or_wait(ms(100), 10, PATIENT).unwrap();
    assert_eq!(cancelled.release, ms(500));
    bucket.give_back(cancelled.taken, 10, ms(100));
    assert!(bucket.take(ms(100), 6).is_ok());
    assert!(bucket.take(ms(100), 1).is_err());
}

#[test]
fn b100_who_waits_behind_a_cancelled_wait_keeps_its_time() {
    let bucket = bucket(10.0, 1, 20);
    let _taken = bucket.take(ms(0), 15).unwrap();
    let cancelled = bucket.take_or_wait(ms(100), 10, PATIENT).unwrap();
    assert_eq!(release_ms(&bucket, ms(100), 2, PATIENT), Some(700));
    bucket.give_back(cancelled.taken, 10, ms(100));
    // Charged: 15 at 0 and 2 at 700.
    let mut charged = vec![(0, 15), (700, 2)];
    for at in (100..5_000).step_by(50) {
        while bucket.take(ms(at), 1).is_ok() {
            charged.push((at, 1));
        }
    }
    for until in (0..5_000).step_by(50) {
        let taken: u64 = charged.iter().filter(|c| c.0 <= until).map(|c| c.1).sum();
        assert!(taken <= 20 + until / 100, "{taken} by {until} ms");
    }
    // All that has flowed in by the last call is taken, but for the two tokens
    // that flow in between the two releases.
    assert_eq!(charged.iter().map(|c| c.1).sum::<u64>(), 20 + 49 - 2);
}

// https://github.com/bucket4j/bucket4j/issues/88
#[test]
fn b165_a_refusal_tells_the_wait_with_the_part_that_has_flowed_in() {
    for (count, at_ms, weight, wait_ms) in [(1, 200, 1, 800), (1, 999, 1, 1), (3, 500, 3, 2_500)] {
        let bucket = bucket(1.0, 1, count);
        let _taken = bucket.take(ms(0), count as u32).unwrap();
        let wait = bucket.take(ms(at_ms), weight).unwrap_err().retry_after;
        assert_eq!(wait, Some(Duration::from_millis(wait_ms)));
        let then = at_ms + wait_ms;
        assert!(bucket.take(ms(then - 1), weight).is_err());
        assert!(bucket.take(ms(then), weight).is_ok());
    }
}

// https://github.com/boinkor-net/governor/issues/102,
// https://github.com/boinkor-net/governor/issues/157
#[test]
fn b186_what_remains_is_told_as_of_now() {
    let (limiter, time) = limiter(5.0, 60, 5);
    assert!(limiter.try_acquire_n(4));
    assert_eq!(limiter.remaining(), 1);
    assert!(limiter.try_acquire());
    assert_eq!(limiter.remaining(), 0);
    let refused = limiter.acquire_at(time.now(), 1).unwrap_err();
    assert_eq!(refused.left, 0);
    time.set(secs(12));
    assert!(limiter.try_acquire());
    assert_eq!(limiter.remaining(), 0);
    time.set(secs(132));
    assert!(limiter.try_acquire());
    assert_eq!(limiter.remaining(), 4);

    // On the real clock: no second of a day brings a token.
    let limiter = TokenBucketLimiter::new(1.0, Duration::from_secs(DAY), 5).unwrap();
    assert!(limiter.try_acquire_n(4));
    assert_eq!(limiter.remaining(), 1);
    assert_eq!(limiter.quota().burst(), 5);
}

#[test]
fn weight_zero_passes_and_takes_nothing() {
    let bucket = bucket(1.0, 1, 0);
    let granted = bucket.take_or_wait(ms(0), 0, NO_WAIT).unwrap();
    assert_eq!(granted.release, ms(0));
    bucket.give_back(granted.taken, 0, ms(0));
    assert!(bucket.take(ms(0), 1).is_err());
}

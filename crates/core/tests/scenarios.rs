//! Bugs that other limiters had, as far as the stand-alone
//! [`SlidingWindowLimiter`] (or the ring under it) expresses them. Each test is
//! named after its scenario and links the report; time is set, never waited
//! for.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::time::Duration;

use flowgate_core::leap_array::{PassCell, Span};
use flowgate_core::{Clock, LeapArray, ManualClock, SlidingWindowLimiter, TimeSource, Timestamp};

/// A limiter of `threshold` per `secs` seconds on a clock that stands at 0.
fn limiter(threshold: u64, secs: u64, boxes: u32) -> (SlidingWindowLimiter, ManualClock) {
    let time = ManualClock::new();
    let clock = Clock::manual(time.clone());
    let interval = Duration::from_secs(secs);
    let limiter = SlidingWindowLimiter::with_clock(interval, boxes, threshold, clock).unwrap();
    (limiter, time)
}

fn ms(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn secs(secs: u64) -> Timestamp {
    ms(1_000 * secs)
}

/// How many of `offered` single calls pass now.
fn passed(limiter: &SlidingWindowLimiter, offered: u64) -> u64 {
    (0..offered).filter(|_| limiter.try_acquire()).count() as u64
}

#[test]
fn of_120_calls_at_100_a_second_100_pass_and_20_are_refused() {
    for boxes in [1, 2, 10] {
        let (limiter, time) = limiter(100, 1, boxes);
        assert_eq!(passed(&limiter, 120), 100);
        assert_eq!(limiter.current_qps(), 100.0);
        time.advance(Duration::from_secs(1));
        assert_eq!(limiter.current_qps(), 0.0);
        assert_eq!(passed(&limiter, 120), 100);
    }
}

#[test]
fn of_20_calls_at_10_a_second_10_pass_and_10_are_refused() {
    let (limiter, _) = limiter(10, 1, 2);
    assert_eq!(passed(&limiter, 20), 10);
    assert_eq!(passed(&limiter, 20), 0);
}

// https://github.com/Kuadrant/limitador/commit/0c1f02e
#[test]
fn b002_a_weight_above_the_limit_is_refused_on_a_fresh_key_and_on_an_expired_one() {
    for boxes in [1, 6, 60] {
        let (limiter, time) = limiter(10, 60, boxes);
        for start in [0, 61, 200] {
            time.set(secs(start));
            let full = limiter.acquire_at(secs(start), 11).unwrap_err();
            assert_eq!((full.sum, full.retry_after), (0, None));
            assert_eq!(passed(&limiter, 11), 10, "at {start} s, {boxes} boxes");
        }
    }
}

// https://github.com/alisaifee/limits/pull/112. A log of single calls there;
// with boxes of one second the same answers, as 0 and 60.5 are 60 boxes apart.
#[test]
fn b004_mixed_weights_leave_the_window_by_their_weight() {
    let (limiter, time) = limiter(10, 60, 60);
    let steps = [
        (0, 8, true),
        (1_000, 1, true),
        (2_000, 1, true),
        (3_000, 1, false),
        (60_500, 8, true),
        (60_500, 1, false),
    ];
    for (at, weight, passes) in steps {
        time.set(ms(at));
        assert_eq!(limiter.try_acquire_n(weight), passes, "{weight} at {at} ms");
    }
}

// https://github.com/boinkor-net/governor/issues/11
#[test]
fn b006_never_is_told_apart_from_later() {
    let (limiter, _) = limiter(10, 1, 1);
    assert_eq!(
        limiter.acquire_at(secs(0), 11).unwrap_err().retry_after,
        None
    );
    limiter.acquire_at(secs(0), 10).unwrap();
    let full = limiter.acquire_at(secs(0), 10).unwrap_err();
    assert_eq!(
        (full.sum, full.retry_after),
        (10, Some(Duration::from_secs(1)))
    );
    assert_eq!(limiter.threshold(), 10);
}

// https://github.com/envoyproxy/ratelimit/issues/185
#[test]
fn b010_refused_calls_do_not_eat_a_quota_that_is_raised_later() {
    let hour = Duration::from_secs(3_600);
    let ring: LeapArray<PassCell> = LeapArray::new(1, hour).unwrap();
    let span = Span::new(1, 1);
    let passed = |at, offered, limit| {
        (0..offered)
            .filter(|_| ring.reserve(secs(at), 1, span, limit, None).is_ok())
            .count()
    };
    assert_eq!(passed(0, 50, 10), 10);
    assert_eq!(passed(60, 20, 20), 10);
    assert_eq!(ring.passes_in(secs(60), span, None), 20);
}

// https://github.com/alibaba/Sentinel/issues/2859. Two boxes let two full
// quotas through in 0.7 s; the documented bound is the limit in any span of
// interval · (boxes − 1) / boxes.
#[test]
fn b018_ten_boxes_slide_and_two_keep_only_their_bound() {
    for (boxes, expected) in [(10, [5, 0, 5]), (2, [5, 5, 0])] {
        let (limiter, time) = limiter(5, 1, boxes);
        let got = [300, 1_000, 1_300].map(|at| {
            time.set(ms(at));
            passed(&limiter, 5)
        });
        assert_eq!(got, expected, "{boxes} boxes");
    }
}

// https://github.com/salvo-rs/salvo/issues/1324
#[test]
fn b021_a_periodic_caller_recovers_after_a_burst() {
    let table = [(10, 50), (15, 45), (20, 40), (30, 30), (60, 0)];
    for (step, last_refused) in table {
        let (limiter, time) = limiter(10, 60, 6);
        assert_eq!(passed(&limiter, 20), 10);
        let refused: Vec<u64> = (step..=600)
            .step_by(step as usize)
            .filter(|at| {
                time.set(secs(*at));
                !limiter.try_acquire()
            })
            .collect();
        let expected: Vec<u64> = (step..=last_refused).step_by(step as usize).collect();
        assert_eq!(refused, expected, "a call every {step} s");
    }
}

// https://github.com/alisaifee/limits/issues/28
#[test]
fn b024_a_call_does_not_prolong_the_window() {
    for boxes in [1, 2, 6] {
        let (limiter, time) = limiter(2, 6, boxes);
        for call in 0..10 {
            time.set(secs(5 * call));
            assert!(limiter.try_acquire(), "call {call}, {boxes} boxes");
        }
    }
}

// https://github.com/alibaba/Sentinel/pull/838
#[test]
fn b031_the_quota_is_whole_and_no_more_after_eight_days_of_idleness() {
    let (limiter, time) = limiter(20_000, 1, 2);
    assert!(limiter.try_acquire());
    time.advance(Duration::from_secs(691_200));
    assert_eq!(passed(&limiter, 20_001), 20_000);
}

// https://github.com/boinkor-net/governor/issues/203, without the burst: what
// a second admits is the limit.
#[test]
fn b033_rates_above_one_per_nanosecond_are_kept() {
    for threshold in [2_000_000_000, u64::from(u32::MAX)] {
        let (limiter, _) = limiter(threshold, 1, 2);
        assert_eq!(passed(&limiter, 1_000), 1_000);
        assert!(limiter.try_acquire_n(1_000_000));
        let rest = u32::try_from(threshold - 1_001_000).unwrap();
        assert!(limiter.try_acquire_n(rest));
        assert!(!limiter.try_acquire());
    }
}

// https://github.com/alibaba/sentinel-golang/pull/422; the ring itself is tested
// in `leap_array.rs`.
#[test]
fn b042_a_limiter_holds_in_the_year_2200_and_beyond_32_bits_of_windows() {
    let starts = [7_258_118_400_000, 1 << 31, 1 << 32, 3 << 31, 1_000 << 31];
    for start in starts {
        let time = ManualClock::at(ms(start));
        let clock = Clock::manual(time.clone());
        let limiter =
            SlidingWindowLimiter::with_clock(Duration::from_millis(10), 10, 5, clock).unwrap();
        time.set(ms(start - 3));
        assert_eq!(passed(&limiter, 9), 5);
        time.advance(Duration::from_millis(9));
        assert_eq!(passed(&limiter, 9), 0);
        time.advance(Duration::from_millis(1));
        assert_eq!(passed(&limiter, 9), 5);
    }
}

// https://github.com/golang/go/issues/56287
#[test]
fn b044_alternating_readings_credit_no_second_twice() {
    let reading = |n: u64| secs(10 - n % 2);
    let (limiter, _) = limiter(1, 1, 1);
    let passed: Vec<u64> = (0..200)
        .filter(|n| limiter.acquire_at(reading(*n), 1).is_ok())
        .collect();
    assert_eq!(passed, [0]);

    // The same through a clock of the service's own.
    struct Alternating(std::sync::atomic::AtomicU64);
    impl TimeSource for Alternating {
        fn now(&self) -> Timestamp {
            secs(10 - self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 2)
        }
    }
    let clock = Clock::custom(Alternating(0.into()));
    let limiter = SlidingWindowLimiter::with_clock(Duration::from_secs(1), 2, 1, clock).unwrap();
    assert_eq!((0..200).filter(|_| limiter.try_acquire()).count(), 1);
}

// https://github.com/ProfessionalWiki/MediaWiki-MCP-Server/issues/557: a token
// bucket there. Here a clock that goes back stands still, so
// that the rest of the quota is there at 89 and comes back at 110 at the latest.
#[test]
fn b045_a_step_back_takes_nothing_away_and_locks_nobody_out() {
    for boxes in [1, 10] {
        let (limiter, _) = limiter(10, 10, boxes);
        let passed = |at, offered| {
            (0..offered)
                .filter(|_| limiter.acquire_at(secs(at), 1).is_ok())
                .count()
        };
        assert_eq!(passed(100, 3), 3);
        assert_eq!(passed(89, 8), 7);
        let wait = limiter.acquire_at(secs(89), 1).unwrap_err().retry_after;
        assert!(wait <= Some(Duration::from_secs(10)), "{wait:?}");
        assert_eq!(passed(110, 11), 10);
    }
}

// https://github.com/JSONbored/loopover/pull/5855
#[test]
fn b047_a_step_back_does_not_inflate_the_time_to_come_again() {
    for boxes in [1, 2, 60] {
        let (limiter, _) = limiter(1, 60, boxes);
        limiter.acquire_at(secs(1_000), 1).unwrap();
        let wait = limiter.acquire_at(secs(700), 1).unwrap_err().retry_after;
        assert!(wait <= Some(Duration::from_secs(60)), "{wait:?}");
        assert!(wait.is_some());
    }
}

#[test]
fn weight_zero_passes_and_takes_nothing() {
    let (limiter, _) = limiter(0, 1, 2);
    assert!(limiter.try_acquire_n(0));
    assert!(!limiter.try_acquire());
    assert_eq!(limiter.passed_at(secs(0)), 0);
}

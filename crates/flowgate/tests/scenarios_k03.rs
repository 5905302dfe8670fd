//! Reported bugs of peers, kind K03: precision, rounding and overflow.

mod common;

use std::time::Duration;

use common::{KEY, at, document, flow, ms, passed, passed_with, release_ms, release_ns};
use flowgate::{Clock, Engine, ManualClock, Outcome, SlidingWindowLimiter};

fn paced(count: &str, wait_ms_max: u32) -> String {
    format!(
        r#"[{{"resource": "r", "count": {count}, "controlBehavior": 2,
              "maxQueueingTimeMs": {wait_ms_max}}}]"#
    )
}

/// The same pace for each value of the first argument.
fn value_paced(count: &str, wait_ms_max: u32) -> String {
    format!(
        r#"{{"paramFlow": [{{"resource": "r", "paramIdx": 0, "count": {count}, "controlBehavior": 2,
              "maxQueueingTimeMs": {wait_ms_max}}}]}}"#
    )
}

/// Releases of calls that come every `gap_ns`, `calls` of them, in nanoseconds.
fn releases(rule: &str, gap_ns: u64, calls: u64) -> Vec<u64> {
    releases_of(flow(rule), gap_ns, calls)
}

fn releases_of((engine, time): (Engine, ManualClock), gap_ns: u64, calls: u64) -> Vec<u64> {
    let r = engine.resource("r");
    let mut released = Vec::new();
    for n in 0..calls {
        time.set(common::START + Duration::from_nanos(n * gap_ns));
        released.extend(release_ns(r.request().args(&KEY), &time));
    }
    released
}

// https://github.com/alibaba/Sentinel/issues/259
#[test]
fn b027_pacing_above_a_thousand_per_second_is_exact() {
    for (rate, accepted) in [(1_600_u64, 1_616), (2_000, 2_020), (5_000, 5_050)] {
        let released = releases(&paced(&rate.to_string(), 10), 100_000, 10_000);
        let step_ns = 1_000_000_000 / rate;
        let expected: Vec<u64> = (0..accepted).map(|k| k * step_ns).collect();
        assert_eq!(released, expected, "{rate}");
    }
    // 2004 is no divisor of a second: each step is rounded to the nanosecond.
    let released = releases(&paced("2004", 10), 100_000, 10_000);
    let expected: Vec<u64> = (0..2_024).map(|k| k * 499_002).collect();
    assert_eq!(released, expected);
    // 50,000 per second: nobody waits, as calls come only every 0.1 ms.
    let released = releases(&paced("50000", 10), 100_000, 10_000);
    let expected: Vec<u64> = (0..10_000).map(|k| k * 100_000).collect();
    assert_eq!(released, expected);
}

// https://github.com/alibaba/Sentinel/issues/1615, for the line of one value.
#[test]
fn b027_pacing_a_value_above_a_thousand_per_second_is_exact() {
    for (rate, accepted, step_ns) in [
        (1_600_u64, 1_616, 625_000),
        (2_004, 2_024, 499_002),
        (5_000, 5_050, 200_000),
    ] {
        let rule = document(&value_paced(&rate.to_string(), 10));
        let released = releases_of(rule, 100_000, 10_000);
        let expected: Vec<u64> = (0..accepted).map(|k| k * step_ns).collect();
        assert_eq!(released, expected, "{rate}");
    }
}

// https://github.com/alibaba/Sentinel/issues/399
#[test]
fn b029_160_and_170_per_second_differ() {
    let of_160 = releases(&paced("160", 100), 1_000_000, 10_000);
    let of_170 = releases(&paced("170", 100), 1_000_000, 10_000);
    assert_eq!((of_160.len(), of_170.len()), (1_616, 1_717));
    assert_eq!(of_160.last(), Some(&10_093_750_000));
    let last = *of_170.last().unwrap();
    assert!(last.abs_diff(10_094_117_647) < 10_000, "{last}");
}

// https://github.com/alibaba/Sentinel/issues/399, for the line of one value.
#[test]
fn b029_160_and_170_per_second_of_a_value_differ() {
    let of = |rate| releases_of(document(&value_paced(rate, 100)), 1_000_000, 10_000);
    let (of_160, of_170) = (of("160"), of("170"));
    assert_eq!((of_160.len(), of_170.len()), (1_616, 1_717));
    assert_eq!(of_160.last(), Some(&10_093_750_000));
    let last = *of_170.last().unwrap();
    assert!(last.abs_diff(10_094_117_647) < 10_000, "{last}");
}

// https://github.com/alibaba/Sentinel/pull/838
#[test]
fn b031_a_value_that_was_idle_for_eight_days_has_its_quota_and_no_more() {
    let day_ms = 86_400_000;
    let (engine, time) =
        document(r#"{"paramFlow": [{"resource": "r", "paramIdx": 0, "count": 20000}]}"#);
    let r = engine.resource("r");
    assert_eq!(passed_with(&r, &KEY, 1), 1);
    at(&time, 8 * day_ms);
    assert_eq!(passed_with(&r, &KEY, 20_001), 20_000);
    let (engine, time) = document(&value_paced("20000", 0));
    let r = engine.resource("r");
    assert_eq!(passed_with(&r, &KEY, 1), 1);
    at(&time, 8 * day_ms);
    assert_eq!(passed_with(&r, &KEY, 20_001), 1);
}

// https://github.com/alibaba/Sentinel/pull/838, on a whole resource in place of
// one parameter value.
#[test]
fn b031_eight_days_of_idleness_overflow_nothing() {
    let day_ms = 86_400_000;
    let (engine, time) = flow(r#"[{"resource": "r", "count": 20000}]"#);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 1), 1);
    at(&time, 8 * day_ms);
    assert_eq!(passed(&r, 20_001), 20_000);
    let (engine, time) = flow(&paced("20000", 0));
    let r = engine.resource("r");
    assert_eq!(passed(&r, 1), 1);
    at(&time, 8 * day_ms);
    assert_eq!(passed(&r, 20_001), 1);
}

// https://github.com/boinkor-net/governor/issues/203
#[test]
fn b033_rates_above_one_per_nanosecond_refuse_nobody() {
    let (engine, _time) = flow(r#"[{"resource": "r", "count": 2000000000}]"#);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 1_000), 1_000);
    assert!(r.request().weight(1_000_000).try_entry().is_ok());
    engine
        .load_json("flow", r#"[{"resource": "r", "count": 4294967295}]"#)
        .unwrap();
    assert!(r.request().weight(u32::MAX - 1_001_000).try_entry().is_ok());
    assert!(r.try_entry().is_err());
    // As pacing one call costs what rounding gives: 0.5 ns is 1 ns.
    let released = releases(&paced("2000000000", 500), 0, 1_000);
    let expected: Vec<u64> = (0..1_000).collect();
    assert_eq!(released, expected);
    // And less than half a nanosecond nothing.
    assert_eq!(releases(&paced("4294967295", 0), 0, 1_000), [0; 1_000]);
}

// https://github.com/boinkor-net/governor/issues/203, for one value and for all
// inbound calls.
#[test]
fn b033_rates_above_one_per_nanosecond_of_a_value_or_the_whole_refuse_nobody() {
    for count in ["2000000000", "4294967295"] {
        let (engine, _time) = document(&format!(
            r#"{{"paramFlow": [{{"resource": "r", "paramIdx": 0, "count": {count}}}],
                 "system": [{{"qps": {count}}}]}}"#
        ));
        let r = engine.resource("r");
        let ask = |weight| common::seen_by_all(&r).weight(weight).try_entry().is_ok();
        assert_eq!((0..1_000).filter(|_| ask(1)).count(), 1_000);
        assert!(ask(1_000_000), "{count}");
    }
    let released = releases_of(document(&value_paced("2000000000", 500)), 0, 1_000);
    assert_eq!(released, (0..1_000).collect::<Vec<u64>>());
    assert_eq!(
        releases_of(document(&value_paced("4294967295", 0)), 0, 1_000),
        [0; 1_000]
    );
}

// https://github.com/firecracker-microvm/firecracker/pull/3370, the part that a
// line can do: frequent questions cost nobody a part of a place.
#[test]
fn b034_frequent_refused_questions_throw_no_part_of_a_place_away() {
    let (engine, time) = flow(&paced("10", 0));
    let r = engine.resource("r");
    let mut passes = Vec::new();
    for t in 0..10_000 {
        at(&time, t);
        if r.try_entry().is_ok() {
            passes.push(t);
        }
    }
    let expected: Vec<u64> = (0..100).map(|k| k * 100).collect();
    assert_eq!(passes, expected);
    // Calls further apart than the pace are never refused.
    let calls = releases(&paced("10", 0), 190_000_000, 53);
    assert_eq!(calls.len(), 53);
}

// https://github.com/alibaba/Sentinel/pull/2951
#[test]
fn b039_pacing_slower_than_one_per_second() {
    for (wait_ms_max, expected) in [
        (5_000, [Some(0), Some(5_000), None]),
        (4_999, [Some(0), None, None]),
    ] {
        let (engine, time) = flow(&paced("0.2", wait_ms_max));
        let r = engine.resource("r");
        let released = [(); 3].map(|()| release_ms(r.request(), &time));
        assert_eq!(released, expected);
    }
    // One question each 0.1 s at one call per two seconds.
    let (engine, time) = flow(&paced("0.5", 0));
    let r = engine.resource("r");
    let passes: Vec<u64> = (0..=100)
        .filter(|n| {
            at(&time, n * 100);
            r.try_entry().is_ok()
        })
        .collect();
    assert_eq!(passes, [0, 20, 40, 60, 80, 100]);
}

// https://github.com/alibaba/Sentinel/pull/2951, for the line of one value.
#[test]
fn b039_pacing_a_value_slower_than_one_per_second() {
    for (wait_ms_max, expected) in [
        (5_000, [Some(0), Some(5_000), None]),
        (4_999, [Some(0), None, None]),
    ] {
        let (engine, time) = document(&value_paced("0.2", wait_ms_max));
        let r = engine.resource("r");
        let released = [(); 3].map(|()| release_ms(r.request().args(&KEY), &time));
        assert_eq!(released, expected);
    }
}

// https://github.com/inngest/inngest/pull/1459: nothing is derived from a limit
// by dividing it, so a small limit over a long span is what it says.
#[test]
fn b040_a_small_limit_over_a_day_is_that_limit() {
    for limit in [1, 5, 9, 10] {
        let clock = Clock::manual(ManualClock::at(common::START));
        let day = Duration::from_secs(86_400);
        let limiter = SlidingWindowLimiter::with_clock(day, 24, limit, clock).unwrap();
        let passed = (0..limit + 5).filter(|_| limiter.try_acquire()).count();
        assert_eq!(passed as u64, limit);
    }
}

// https://github.com/inngest/inngest/pull/1459, as a rule.
#[test]
fn b040_a_rule_of_few_calls_a_day_lets_them_all_pass_at_once() {
    for limit in [1, 5, 9, 10] {
        let (engine, _time) = flow(&format!(
            r#"[{{"resource": "r", "count": {limit}, "statIntervalMs": 86400000}}]"#
        ));
        assert_eq!(passed(&engine.resource("r"), limit + 5), limit);
        let (engine, _time) = document(&format!(
            r#"{{"paramFlow": [{{"resource": "r", "paramIdx": 0, "count": {limit},
                                 "durationInSec": 86400}}]}}"#
        ));
        let r = engine.resource("r");
        assert_eq!(passed_with(&r, &KEY, limit + 5), limit);
    }
}

// https://github.com/animir/node-rate-limiter-flexible/issues/231, with the
// open time of a breaker: the longest block there is.
#[test]
fn b041_a_block_of_a_thousand_million_seconds_does_not_wrap() {
    const BLOCK: Duration = Duration::from_secs(1_000_000_000);
    let (engine, time) = document(
        r#"{"degrade": [{"resource": "r", "grade": 2, "count": 0, "minRequestAmount": 1,
                         "timeWindow": 1000000000}]}"#,
    );
    let r = engine.resource("r");
    r.entry().unwrap().exit_with(Outcome::Error);
    let hour = Duration::from_secs(3_600);
    for elapsed in [Duration::ZERO, hour, 25 * 24 * hour, 50 * 24 * hour] {
        time.set(common::START + elapsed);
        let block = r.entry().unwrap_err();
        assert_eq!(block.retry_after(), Some(BLOCK - elapsed));
    }
    time.set(common::START + BLOCK);
    assert!(r.entry().is_ok());
}

// https://github.com/animir/node-rate-limiter-flexible/issues/231, with the
// bucket of one value: ten in the longest span.
#[test]
fn b041_a_bucket_for_a_thousand_million_seconds_does_not_wrap() {
    const SPAN: Duration = Duration::from_secs(1_000_000_000);
    let (engine, time) = document(
        r#"{"paramFlow": [{"resource": "r", "paramIdx": 0, "count": 10,
                           "durationInSec": 1000000000}]}"#,
    );
    let r = engine.resource("r");
    let ask = || r.request().args(&KEY).weight(3).try_entry().map(drop);
    let passes: Vec<bool> = (0..4)
        .map(|second| {
            at(&time, second * 1_000);
            ask().is_ok()
        })
        .collect();
    assert_eq!(passes, [true, true, true, false]);
    let hour = Duration::from_secs(3_600);
    for elapsed in [hour, 25 * 24 * hour, 50 * 24 * hour] {
        time.set(common::START + elapsed);
        let block = ask().unwrap_err();
        assert_eq!(block.retry_after(), Some(SPAN + ms(1) - elapsed));
    }
    time.set(common::START + SPAN);
    assert!(ask().is_err());
    time.set(common::START + SPAN + ms(1));
    assert!(ask().is_ok());
}

// https://github.com/animir/node-rate-limiter-flexible/issues/231, with waits.
#[test]
fn b041_waits_and_costs_of_centuries_do_not_wrap() {
    let (engine, time) = flow(&paced("1e-9", u32::MAX));
    let r = engine.resource("r");
    assert!(r.try_entry().is_ok());
    for seconds in [0, 3_600, 50 * 86_400] {
        at(&time, seconds * 1_000);
        let block = r.try_entry().unwrap_err();
        let wait = Duration::from_secs(1_000_000_000 - seconds);
        assert_eq!(block.observed(), wait.as_secs_f64() * 1e3);
        // More than the longest wait and a second: never.
        assert_eq!(block.retry_after(), None);
    }
    // A weight that would cost more than time can hold.
    assert!(r.request().weight(u32::MAX).try_entry().is_err());
    assert_eq!(
        release_ms(r.request().weight(0), &time),
        Some(50 * 86_400_000)
    );
    let (engine, time) = flow(&paced("0.001", u32::MAX));
    let r = engine.resource("r");
    let released = [(); 3].map(|()| release_ms(r.request(), &time));
    assert_eq!(released, [Some(0), Some(1_000_000), Some(2_000_000)]);
}

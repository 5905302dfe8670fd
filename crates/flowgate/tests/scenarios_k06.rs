//! Reported bugs of peers, kind K06: pacing, queueing and warm-up. Those that
//! need no engine (b066, b077) are tested with the rules.

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{KEY, at, built, document, flow, ms, passed, passed_with, refusal, release_ms};
use flowgate::{Engine, ManualClock, Measure, Timestamp};
use flowgate_rules::flow::pacing::Pacer;

/// One value of an argument, at an even pace.
fn value_paced(count: &str, wait_ms_max: u32) -> (Engine, ManualClock) {
    document(&format!(
        r#"{{"paramFlow": [{{"resource": "r", "paramIdx": 0, "count": {count}, "controlBehavior": 2,
              "maxQueueingTimeMs": {wait_ms_max}}}]}}"#
    ))
}

// https://github.com/alibaba/Sentinel/commit/c45d64c61, in the line of one value.
#[test]
fn b066_a_wait_of_exactly_the_maximum_is_allowed_to_a_value() {
    let (engine, time) = value_paced("10", 500);
    let r = engine.resource("r");
    let releases: Vec<_> = (0..7)
        .map(|_| release_ms(r.request().args(&KEY), &time))
        .collect();
    let expected = [0, 100, 200, 300, 400, 500].map(Some);
    assert_eq!(releases, [&expected[..], &[None]].concat());
}

// https://github.com/alibaba/Sentinel/commit/c45d64c61, with permits: one that
// is there at the very end of the longest wait is taken.
#[tokio::test(start_paused = true)]
async fn b066_a_permit_that_comes_after_exactly_the_longest_wait_is_taken() {
    for (held_ms, is_admitted) in [(499, true), (500, true), (501, false)] {
        let engine = common::on_paused_time("[]");
        let rules = r#"[{"resource": "r", "count": 1, "maxQueueingTimeMs": 500}]"#;
        engine.load_json("isolation", rules).unwrap();
        let r = engine.resource("r");
        let inside = r.entry().unwrap();
        let waiter = tokio::spawn({
            let r = r.clone();
            async move { r.acquire().await.map(drop) }
        });
        tokio::time::sleep(ms(held_ms)).await;
        // At 500 ms both timers are over, and the waiter has not looked yet.
        inside.exit();
        assert_eq!(waiter.await.unwrap().is_ok(), is_admitted, "{held_ms}");
    }
}

// https://github.com/alibaba/sentinel-golang/pull/302. As decided here an unused
// line passes its first call whatever it weighs; in use it never has room for
// one that costs more than a second and the longest wait.
#[test]
fn b067_a_weight_above_the_whole_quota_passes_a_line_only_while_it_is_unused() {
    let (engine, time) =
        flow(r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 500}]"#);
    let r = engine.resource("r");
    let ask = |weight| {
        r.request()
            .weight(weight)
            .reserve()
            .map(|p| p.begin().exit())
    };
    assert_eq!(ask(1_000), Ok(()));
    let full = |observed, retry| refusal(Measure::WaitMs, "flow/r#1", 500.0, observed, retry);
    assert_eq!(ask(1_000), Err(full(100_000.0, None)));
    assert_eq!(ask(10), Err(full(1_000.0, Some(ms(500)))));
    assert_eq!(release_ms(r.request(), &time), Some(100));
    // From then on no span holds more than its share and the one that was first.
    at(&time, 600);
    assert_eq!(release_ms(r.request().weight(10), &time), Some(1_100));
}

// https://github.com/alibaba/sentinel-golang/pull/302, in the line of one value.
#[test]
fn b067_a_weight_above_the_quota_of_a_value_passes_only_while_that_is_unused() {
    let (engine, time) = value_paced("10", 500);
    let r = engine.resource("r");
    let ask = |weight| {
        let place = r.request().args(&KEY).weight(weight).reserve();
        place.map(|place| place.begin().exit())
    };
    assert_eq!(ask(1_000), Ok(()));
    let [never, later] = [1_000, 10].map(|weight| ask(weight).unwrap_err());
    assert_eq!((never.limit(), never.retry_after()), (500.0, None));
    assert_eq!((later.limit(), later.retry_after()), (500.0, Some(ms(500))));
    assert_eq!(release_ms(r.request().args(&KEY), &time), Some(100));
    at(&time, 600);
    let ten = r.request().args(&KEY).weight(10);
    assert_eq!(release_ms(ten, &time), Some(1_100));
}

// https://github.com/alibaba/Sentinel/issues/3091
#[test]
fn b069_of_a_thousand_calls_for_one_free_place_exactly_one_passes() {
    let line =
        flow(r#"[{"resource": "r", "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 0}]"#);
    exactly_one_passes_each_round(line);
}

// https://github.com/alibaba/Sentinel/issues/3091, for one value of an argument:
// its line, and its bucket.
#[test]
fn b069_of_a_thousand_calls_for_the_one_free_place_of_a_value_exactly_one_passes() {
    exactly_one_passes_each_round(value_paced("1", 0));
    exactly_one_passes_each_round(document(
        r#"{"paramFlow": [{"resource": "r", "paramIdx": 0, "count": 1}]}"#,
    ));
}

fn exactly_one_passes_each_round((engine, time): (Engine, ManualClock)) {
    const THREADS: usize = 16;
    let r = engine.resource("r");
    let barrier = Barrier::new(THREADS);
    let passes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (r, time, barrier, passes) = (&r, &time, &barrier, &passes);
            scope.spawn(move || {
                for round in 0..100 {
                    barrier.wait();
                    let passed = passed_with(r, &KEY, 1_000 / THREADS);
                    passes.fetch_add(passed as u64, Ordering::Relaxed);
                    if barrier.wait().is_leader() {
                        assert_eq!(passes.swap(0, Ordering::Relaxed), 1, "round {round}");
                        time.advance(ms(1_100));
                    }
                }
            });
        }
    });
}

// https://github.com/alibaba/sentinel-golang/commit/963192c
#[test]
fn b071_a_thread_that_is_late_waits_for_no_time_that_has_passed() {
    const MS: u64 = 1_000_000;
    let pacer = Pacer::default();
    let at = Timestamp::from_millis;
    let request = |millis| {
        pacer
            .request(at(millis), MS, MS)
            .map(|place| place.release_ns)
    };
    assert_eq!(request(1_000), Ok(1_000 * MS));
    // Others went ahead while it held an older reading of the clock.
    assert_eq!(request(1_005), Ok(1_005 * MS));
    let late = request(1_001).unwrap_err();
    assert_eq!(late.wait_ns, 5 * MS);
    assert_eq!(request(1_005), Ok(1_006 * MS));
    // Its place is due before the reading of the next: no wait, no wrap.
    assert_eq!(request(1_010), Ok(1_010 * MS));
}

// https://github.com/alibaba/sentinel-golang/commit/963192c, with threads.
#[test]
fn b071_thirty_two_threads_under_a_moving_clock_wait_no_longer_than_allowed() {
    let (engine, time) =
        flow(r#"[{"resource": "r", "count": 1000, "controlBehavior": 2, "maxQueueingTimeMs": 1}]"#);
    let r = engine.resource("r");
    let stop = AtomicBool::new(false);
    let admitted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    match r.reserve() {
                        Ok(place) => {
                            assert!(place.wait() <= ms(1));
                            place.begin().exit();
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                        // A reading may be as old as the clock has moved since.
                        Err(block) => assert!(block.observed() <= 302.0, "{block}"),
                    }
                    std::thread::yield_now();
                }
            });
        }
        for _ in 0..300 {
            time.advance(ms(1));
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let admitted = admitted.into_inner();
    assert!(admitted <= 302, "{admitted}");
}

// https://github.com/resilience4j/resilience4j/issues/822. Prioritized calls
// wait for a window; those of this engine for up to ten seconds. They borrow if
// they wait less than that, so the calls come a moment after the window began.
#[test]
fn b072_a_period_quota_releases_waiting_calls_when_the_period_is_over() {
    let builder = Engine::builder()
        .second_view(10, ms(10_000))
        .borrow_wait_max(ms(10_000));
    let (engine, time) = built(builder);
    engine
        .load_json("flow", r#"[{"resource": "r", "count": 0.3}]"#)
        .unwrap();
    let r = engine.resource("r");
    at(&time, 1);
    let releases: Vec<_> = (0..7)
        .map(|_| release_ms(r.request().prioritized(), &time))
        .collect();
    let (now, then) = (Some(1), Some(10_000));
    assert_eq!(releases, [now, now, now, then, then, then, None]);
    for second in 0..20 {
        at(&time, second * 1_000 + 500);
        assert_eq!(passed(&r, 1), 0, "at {second}.5 s");
    }
    at(&time, 20_000);
    assert_eq!(passed(&r, 5), 3);
}

// https://github.com/joshrotenberg/tower-resilience/issues/363
#[tokio::test(start_paused = true)]
async fn b074_ten_tasks_that_wait_are_released_one_interval_apart() {
    let line = r#""resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 2000"#;
    for rules in [
        format!(r#"{{"flow": [{{{line}}}]}}"#),
        format!(r#"{{"paramFlow": [{{{line}, "paramIdx": 0}}]}}"#),
    ] {
        let start = tokio::time::Instant::now();
        let engine = common::on_paused_time("[]");
        engine.load_document(&rules).unwrap();
        let r = engine.resource("r");
        let tasks: Vec<_> = (0..10)
            .map(|_| {
                let clone = r.clone();
                tokio::spawn(async move {
                    let entry = clone.request().args(&KEY).acquire().await.unwrap();
                    let released = start.elapsed();
                    entry.exit();
                    released
                })
            })
            .collect();
        let mut released = Vec::new();
        for task in tasks {
            released.push(task.await.unwrap());
        }
        released.sort_unstable();
        let expected: Vec<Duration> = (0..10).map(|k| ms(100 * k)).collect();
        assert_eq!(released, expected);
        assert_eq!(r.node().total_pass, 10);
    }
}

// https://github.com/golang/time/pull/22, in the line of one value.
#[test]
fn b077_refused_callers_do_not_push_the_line_of_a_value_back() {
    let (engine, time) = value_paced("1", 1_000);
    let r = engine.resource("r");
    let next = || release_ms(r.request().args(&KEY), &time);
    assert_eq!([next(), next()], [Some(0), Some(1_000)]);
    assert!((0..1_000).all(|_| next().is_none()));
    at(&time, 1_000);
    assert_eq!(next(), Some(2_000));
}

// https://github.com/alibaba/sentinel-golang/pull/218
#[test]
fn b075_a_warm_up_does_not_underflow_into_cold_for_ever() {
    let (engine, time) =
        flow(r#"[{"resource": "r", "count": 100, "controlBehavior": 1, "warmUpPeriodSec": 10}]"#);
    let r = engine.resource("r");
    let offer = |seconds: std::ops::Range<u64>| -> Vec<usize> {
        seconds
            .map(|second| {
                let calls = (0..200).map(|n| {
                    at(&time, second * 1_000 + n * 5);
                    passed(&r, 1)
                });
                calls.sum()
            })
            .collect()
    };
    for passes in [offer(0..30), offer(60..80)] {
        assert!(passes[0].abs_diff(33) <= 3, "{passes:?}");
        let falls = passes.windows(2).any(|pair| pair[1] + 2 < pair[0]);
        assert!(!falls, "{passes:?}");
        assert!(
            passes[14..].iter().all(|n| (99..=100).contains(n)),
            "{passes:?}"
        );
        assert!(passes.iter().all(|n| *n <= 100), "{passes:?}");
    }
}

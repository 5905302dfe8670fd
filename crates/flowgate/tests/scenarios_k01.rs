//! Reported bugs of peers, kind K01: admission counts and weights. Each test
//! states the right outcome for the report's input, on our own terms.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{
    KEY, Totals, at, document, flow, ms, on_paused_time, passed, passed_with, refusal, release_ms,
    seen_by_all, totals,
};
use flowgate::{Arg, BlockKind, Entry, Pending, Traffic};

/// At most `count` calls per minute, in boxes of 10 s.
fn per_minute(count: u32) -> String {
    format!(
        r#"[{{"resource": "r", "count": {count}, "statIntervalMs": 60000,
              "statSlidingWindowBucketCount": 6}}]"#
    )
}

// https://github.com/boinkor-net/governor/issues/249, with the bucket of one
// parameter value, which is refilled once more than its second has passed.
#[test]
fn b001_an_idle_spell_fills_the_bucket_of_a_value_and_gives_not_one_call_more() {
    let rule = r#"{"paramFlow": [{"resource": "r", "paramIdx": 0, "count": 5}]}"#;
    for (idle_ms, earned) in [(200, 0), (1_000, 0), (1_001, 5), (2_000, 5), (3_600_000, 5)] {
        let (engine, time) = document(rule);
        let r = engine.resource("r");
        assert_eq!(passed_with(&r, &KEY, 6), 5);
        at(&time, idle_ms);
        assert_eq!(passed_with(&r, &KEY, 7), earned, "idle for {idle_ms} ms");
    }
}

// https://github.com/Kuadrant/limitador/commit/0c1f02e
#[test]
fn b002_a_weight_above_the_limit_is_refused_on_a_fresh_key_and_on_an_expired_one() {
    for used in [false, true] {
        let (engine, time) = flow(&per_minute(10));
        let r = engine.resource("r");
        if used {
            assert_eq!(passed(&r, 1), 1);
            at(&time, 61_000);
        }
        let eleven = r.request().weight(11).entry().unwrap_err();
        assert_eq!(eleven.retry_after(), None);
        assert_eq!(passed(&r, 11), 10, "used before: {used}");
    }
}

// https://github.com/Kuadrant/limitador/commit/0c1f02e, for the other limits
// that weigh calls: ten at once, or ten per minute.
#[test]
fn b002_a_weight_above_any_limit_is_refused_and_consumes_nothing() {
    for rules in [
        r#"{"paramFlow": [{"resource": "r", "paramIdx": 0, "count": 10, "durationInSec": 60}]}"#,
        r#"{"isolation": [{"resource": "r", "count": 10}]}"#,
        r#"{"system": [{"qps": 10}]}"#,
        r#"{"flow": [{"resource": "r", "count": 10, "grade": 0}]}"#,
    ] {
        for used in [false, true] {
            let (engine, time) = document(rules);
            let r = engine.resource("r");
            let ask = |weight| seen_by_all(&r).weight(weight).try_entry();
            if used {
                ask(1).unwrap().exit();
                at(&time, 61_000);
            }
            assert_eq!(ask(11).unwrap_err().retry_after(), None, "{rules}");
            let held: Vec<Entry<'_>> = (0..12).map_while(|_| ask(1).ok()).collect();
            assert_eq!(held.len(), 10, "{rules}, used before: {used}");
        }
    }
}

// https://github.com/alisaifee/limits/pull/112. In boxes of half a second, in
// which the weight of 8 is alone in its own.
#[test]
fn b004_mixed_weights_leave_the_window_by_their_weight() {
    let (engine, time) = flow(
        r#"[{"resource": "r", "count": 10, "statIntervalMs": 60000,
             "statSlidingWindowBucketCount": 120}]"#,
    );
    let r = engine.resource("r");
    let calls = [
        (0, 8),
        (1_000, 1),
        (2_000, 1),
        (3_000, 1),
        (60_500, 8),
        (60_500, 1),
    ];
    let passes = calls.map(|(millis, weight)| {
        at(&time, millis);
        r.request().weight(weight).try_entry().is_ok()
    });
    assert_eq!(passes, [true, true, true, false, true, false]);
}

// https://github.com/boinkor-net/governor/issues/11
#[test]
fn b006_a_weight_that_can_never_fit_is_told_apart_from_later() {
    let (engine, _time) = flow(r#"[{"resource": "r", "count": 10}]"#);
    let r = engine.resource("r");
    let ask = |weight| r.request().weight(weight).try_entry().map(drop);
    assert_eq!(
        ask(11),
        Err(refusal(
            flowgate::Measure::Rate,
            "flow/r#1",
            10.0,
            0.0,
            None
        ))
    );
    assert_eq!(ask(10), Ok(()));
    let later = Some(ms(1_000));
    assert_eq!(
        ask(10),
        Err(refusal(
            flowgate::Measure::Rate,
            "flow/r#1",
            10.0,
            10.0,
            later
        ))
    );
}

// https://github.com/boinkor-net/governor/issues/11: the same in a line. Heavy
// calls that have room in a line that is in use are told when.
#[test]
fn b006_a_weight_that_never_fits_a_line_in_use_is_told_apart_from_later() {
    let (engine, _time) =
        flow(r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 500}]"#);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 1), 1);
    let ask = |weight| r.request().weight(weight).reserve().map(drop);
    // 1.6 s each: never, as a second and the longest wait are 1.5 s.
    assert_eq!(
        ask(16),
        Err(refusal(
            flowgate::Measure::WaitMs,
            "flow/r#1",
            500.0,
            1_600.0,
            None
        ))
    );
    let later = Some(ms(1_000));
    assert_eq!(
        ask(15),
        Err(refusal(
            flowgate::Measure::WaitMs,
            "flow/r#1",
            500.0,
            1_500.0,
            later
        ))
    );
}

// https://github.com/boinkor-net/governor/issues/11: of one value, and of all
// calls together.
#[test]
fn b006_a_weight_that_never_fits_a_bucket_or_the_whole_is_told_apart_from_later() {
    for (rules, later_ms) in [
        (
            r#"{"paramFlow": [{"resource": "r", "paramIdx": 0, "count": 10}]}"#,
            1_001,
        ),
        (r#"{"system": [{"qps": 10}]}"#, 1_000),
    ] {
        let (engine, _time) = document(rules);
        let r = engine.resource("r");
        let ask = |weight| seen_by_all(&r).weight(weight).try_entry().map(drop);
        let never = ask(11).unwrap_err();
        assert_eq!((never.limit(), never.retry_after()), (10.0, None));
        assert_eq!(ask(10), Ok(()));
        assert_eq!(ask(10).unwrap_err().retry_after(), Some(ms(later_ms)));
    }
}

// https://github.com/boinkor-net/governor/issues/11: permits that there will
// never be are not waited for.
#[tokio::test(start_paused = true)]
async fn b006_a_weight_above_all_permits_is_refused_at_once_and_a_lesser_one_waits() {
    let engine = on_paused_time("[]");
    let rules = r#"[{"resource": "r", "count": 10, "maxQueueingTimeMs": 1000}]"#;
    engine.load_json("isolation", rules).unwrap();
    let r = engine.resource("r");
    let start = tokio::time::Instant::now();
    let inside = r.request().weight(10).acquire().await.unwrap();
    assert!(r.request().weight(11).acquire().await.is_err());
    assert_eq!(start.elapsed(), ms(0));
    assert!(r.request().weight(10).acquire().await.is_err());
    assert_eq!(start.elapsed(), ms(1_000));
    inside.exit();
    assert!(r.request().weight(10).acquire().await.is_ok());
}

// https://github.com/Kuadrant/limitador/pull/186
#[test]
fn b008_a_call_refused_by_one_limit_is_not_charged_to_the_others() {
    let a = r#"{"resource": "r", "count": 10}"#;
    let b = r#"{"resource": "r", "count": 2, "limitApp": "b"}"#;
    for rules in [format!("[{a},{b}]"), format!("[{b},{a}]")] {
        let (engine, _time) = flow(&rules);
        let r = engine.resource("r");
        let by_b = || r.request().origin("b").try_entry().is_ok();
        assert_eq!([(); 5].map(|()| by_b()), [true, true, false, false, false]);
        assert_eq!((totals(&r).pass, totals(&r).block), (2, 3));
        assert_eq!(engine.origin_node("r", "b").unwrap().total_pass, 2);
        // Of the ten, eight are left.
        assert_eq!(passed(&r, 20), 8, "{rules}");
    }
}

// https://github.com/Kuadrant/limitador/pull/186, with the intervals reported.
#[test]
fn b008_a_call_refused_by_one_limit_is_not_charged_to_one_of_another_interval() {
    let a = r#"{"resource": "r", "count": 10, "statIntervalMs": 60000}"#;
    let queue = r#"{"resource": "r", "count": 10, "statIntervalMs": 60000, "controlBehavior": 2,
                    "maxQueueingTimeMs": 60000}"#;
    let b = r#"{"resource": "r", "count": 2, "statIntervalMs": 30000, "limitApp": "b"}"#;
    for (a, left) in [(a, 8), (queue, 9)] {
        for rules in [format!("[{a},{b}]"), format!("[{b},{a}]")] {
            let (engine, _time) = flow(&rules);
            let r = engine.resource("r");
            let asked: Vec<_> = (0..5).map(|_| r.request().origin("b").reserve()).collect();
            let by_b = asked.iter().filter(|asked| asked.is_ok()).count();
            assert_eq!((by_b, totals(&r).block), (2, 3));
            // Of the line, places at 0 and 6 s are taken, and those up to 60 s
            // are left.
            let rest: Vec<_> = (0..20).filter_map(|_| r.reserve().ok()).collect();
            assert_eq!(rest.len(), left, "{rules}");
        }
    }
}

// https://github.com/Kuadrant/limitador/pull/186: with a line and with places
// in flight in front of the limit that refuses.
#[test]
fn b008_a_call_refused_by_one_limit_leaves_lines_and_places_as_they_were() {
    let (engine, time) = flow(
        r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 1000},
            {"resource": "r", "count": 5, "grade": 0},
            {"resource": "r", "count": 2}]"#,
    );
    let r = engine.resource("r");
    let guards: Vec<_> = (0..5).filter_map(|_| r.reserve().ok()).collect();
    let waits: Vec<Duration> = guards.iter().map(|pending| pending.wait()).collect();
    assert_eq!(waits, [ms(0), ms(100)]);
    assert_eq!(r.in_flight(), 2);
    drop(guards);
    at(&time, 1_000);
    assert_eq!(release_ms(r.request(), &time), Some(1_000));
    assert_eq!(release_ms(r.request(), &time), Some(1_100));
}

// https://github.com/Kuadrant/limitador/pull/186: what stands in front of the
// limit of two that refuses, and what is left of it when that is lifted. Ten
// per minute, or ten at once of which two are taken.
#[test]
fn b008_a_call_refused_by_one_kind_of_rule_is_not_charged_to_the_kinds_before_it() {
    let per_key = r#""resource": "r", "paramIdx": 0, "count": 10, "durationInSec": 60"#;
    let tokens = format!(r#""paramFlow": [{{{per_key}}}]"#);
    // Places each six seconds, of which 0 and 6 s are taken.
    let line = format!(
        r#""paramFlow": [{{{per_key}, "controlBehavior": 2, "maxQueueingTimeMs": 60000}}]"#
    );
    let places = format!(r#""paramFlow": [{{{per_key}, "grade": 0}}]"#);
    let [qps, threads] = [
        r#""system": [{"qps": 10}]"#,
        r#""system": [{"maxThread": 10}]"#,
    ];
    let flow = r#""flow": [{"resource": "r", "count": 2, "statIntervalMs": 60000}]"#;
    let isolation = r#""isolation": [{"resource": "r", "count": 2}]"#;
    let fronts = [
        (tokens.as_str(), 8),
        (line.as_str(), 9),
        (places.as_str(), 8),
        (qps, 8),
        (threads, 8),
    ];
    for (front, left) in fronts {
        for (back, kind) in [(flow, BlockKind::Flow), (isolation, BlockKind::Isolation)] {
            let (engine, _time) = document(&format!("{{{front}, {back}}}"));
            let r = engine.resource("r");
            let asked: Vec<_> = (0..5).map(|_| seen_by_all(&r).reserve()).collect();
            let refused: Vec<_> = asked.iter().filter_map(|a| a.as_ref().err()).collect();
            assert_eq!(refused.len(), 3, "{front} {back}");
            assert!(refused.iter().all(|block| block.kind() == kind));
            engine.load_json(kind.name(), "[]").unwrap();
            let rest: Vec<Pending<'_>> = (0..20)
                .map_while(|_| seen_by_all(&r).reserve().ok())
                .collect();
            assert_eq!(rest.len(), left, "{front} {back}");
        }
    }
}

// https://github.com/envoyproxy/ratelimit/issues/185
#[test]
fn b010_refused_calls_do_not_eat_quota_that_is_raised_later() {
    let (engine, time) = flow(r#"[{"resource": "r", "count": 10}]"#);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 50), 10);
    at(&time, 60);
    engine
        .load_json("flow", r#"[{"resource": "r", "count": 20}]"#)
        .unwrap();
    assert_eq!(passed(&r, 20), 10);
    let expected = Totals {
        pass: 20,
        block: 50,
        success: 20,
        ..Totals::default()
    };
    assert_eq!(totals(&r), expected);
}

// https://github.com/envoyproxy/ratelimit/issues/185, per hour as reported.
#[test]
fn b010_refused_calls_do_not_eat_an_hourly_quota_that_is_raised_later() {
    let hourly = |count: u32| {
        format!(r#"[{{"resource": "r", "count": {count}, "statIntervalMs": 3600000}}]"#)
    };
    let (engine, time) = flow(&hourly(10));
    let r = engine.resource("r");
    assert_eq!(passed(&r, 50), 10);
    at(&time, 50_000);
    engine.load_json("flow", hourly(20)).unwrap();
    assert_eq!(passed(&r, 20), 10);
    assert_eq!((totals(&r).pass, totals(&r).block), (20, 50));
}

// https://github.com/envoyproxy/ratelimit/issues/185, for all inbound calls.
#[test]
fn b010_refused_calls_do_not_eat_the_quota_of_the_whole_that_is_raised_later() {
    let (engine, time) = document(r#"{"system": [{"qps": 10}]}"#);
    let r = engine.resource("r");
    let passed = |calls: usize| {
        let ask = |_: &usize| seen_by_all(&r).try_entry().is_ok();
        (0..calls).filter(ask).count()
    };
    assert_eq!(passed(50), 10);
    at(&time, 60);
    engine.load_json("system", r#"[{"qps": 20}]"#).unwrap();
    assert_eq!(passed(20), 10);
    assert_eq!((totals(&r).pass, totals(&r).block), (20, 50));
}

// https://github.com/alibaba/Sentinel/pull/2455
#[test]
fn b014_a_global_limit_counts_admissions_not_completions() {
    let (engine, time) = document(r#"{"system": [{"qps": 10}]}"#);
    let [a, b] = [engine.resource("a"), engine.resource("b")];
    let running: Vec<Entry<'_>> = (0..50)
        .flat_map(|_| [seen_by_all(&a).entry(), seen_by_all(&b).entry()])
        .flatten()
        .collect();
    assert_eq!(running.len(), 10);
    at(&time, 5_000);
    drop(running);
    at(&time, 6_000);
    let weigh = || a.request().traffic(Traffic::Inbound).weight(4).try_entry();
    assert_eq!([(); 3].map(|()| weigh().is_ok()), [true, true, false]);
}

// https://github.com/Kuadrant/limitador/commit/52d911a
#[test]
fn b016_a_missing_weight_means_one_and_zero_is_a_probe() {
    let (engine, _time) = flow(r#"[{"resource": "r", "count": 1}]"#);
    let r = engine.resource("r");
    let probe = || r.request().weight(0).try_entry().map(drop);
    assert_eq!(probe(), Ok(()));
    assert_eq!(totals(&r).pass, 0);
    assert!(r.request().try_entry().is_ok());
    assert!(r.request().try_entry().is_err());
    assert_eq!(probe(), Ok(()));
    assert_eq!((totals(&r).pass, totals(&r).block), (1, 1));
}

// https://github.com/Kuadrant/limitador/commit/52d911a, one per minute.
#[test]
fn b016_a_missing_weight_means_one_of_a_minute_too() {
    let (engine, time) = flow(&per_minute(1));
    let r = engine.resource("r");
    let probe = || r.request().weight(0).try_entry().is_ok();
    assert!(probe());
    assert_eq!(passed(&r, 2), 1);
    assert!(probe());
    at(&time, 59_999);
    assert_eq!(passed(&r, 1), 0);
    at(&time, 60_000);
    assert_eq!(passed(&r, 2), 1);
}

// https://github.com/Kuadrant/limitador/commit/52d911a, for the other limits
// that weigh calls.
#[test]
fn b016_a_missing_weight_means_one_and_zero_is_a_probe_of_every_kind() {
    for rules in [
        r#"{"paramFlow": [{"resource": "r", "paramIdx": 0, "count": 1, "durationInSec": 60}]}"#,
        r#"{"isolation": [{"resource": "r", "count": 1}]}"#,
        r#"{"system": [{"qps": 1}]}"#,
    ] {
        let (engine, _time) = document(rules);
        let r = engine.resource("r");
        let probe = || seen_by_all(&r).weight(0).try_entry().map(drop);
        assert_eq!(probe(), Ok(()), "{rules}");
        let held = seen_by_all(&r).try_entry().unwrap();
        assert!(seen_by_all(&r).try_entry().is_err(), "{rules}");
        assert_eq!(probe(), Ok(()), "{rules}");
        held.exit();
        assert_eq!((totals(&r).pass, totals(&r).block), (1, 1), "{rules}");
    }
}

// https://github.com/boinkor-net/governor/issues/16, with a line in place of
// the bucket: 20 per second in turns of ten, so one turn each 0.5 s.
#[tokio::test(start_paused = true)]
async fn b017_many_async_waiters_are_admitted_at_the_rate_and_each_is_charged() {
    let _start = tokio::time::Instant::now();
    let engine = common::on_paused_time(
        r#"[{"resource": "r", "count": 20, "controlBehavior": 2,
                 "maxQueueingTimeMs": 60000}]"#,
    );
    let admitted = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let (r, admitted) = (engine.resource("r"), Arc::clone(&admitted));
            tokio::spawn(async move {
                loop {
                    match r.request().weight(10).acquire().await {
                        Ok(entry) => {
                            admitted.fetch_add(10, Ordering::Relaxed);
                            entry.exit();
                        }
                        // The line is as long as may be: come again later.
                        Err(_) => tokio::time::sleep(ms(100)).await,
                    }
                }
            })
        })
        .collect();
    tokio::time::sleep(ms(30_001)).await;
    // One turn passes at once, and 60 in the 30 seconds.
    assert_eq!(admitted.load(Ordering::Relaxed), 610);
    tasks.iter().for_each(|task| task.abort());
    for task in tasks {
        assert!(task.await.unwrap_err().is_cancelled());
    }
    let node = engine.node("r").unwrap();
    assert_eq!((node.in_flight, node.total_pass), (0, 610));
}

// https://github.com/boinkor-net/governor/issues/16, with the bucket.
#[tokio::test(start_paused = true)]
async fn b017_many_async_waiters_of_a_bucket_get_the_burst_and_the_rate() {
    let _start = tokio::time::Instant::now();
    let engine = common::on_paused_time(
        r#"[{"resource": "r", "count": 1200, "statIntervalMs": 60000, "accounting": "tokenBucket",
             "controlBehavior": 2, "maxQueueingTimeMs": 60000}]"#,
    );
    let admitted = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let (r, admitted) = (engine.resource("r"), Arc::clone(&admitted));
            tokio::spawn(async move {
                while let Ok(entry) = r.request().weight(10).acquire().await {
                    admitted.fetch_add(10, Ordering::Relaxed);
                    entry.exit();
                }
            })
        })
        .collect();
    tokio::time::sleep(ms(30_001)).await;
    tasks.iter().for_each(|task| task.abort());
    for task in tasks {
        assert!(task.await.unwrap_err().is_cancelled());
    }
    // 1200 at once, and 20 in each of the 30 seconds.
    assert_eq!(admitted.load(Ordering::Relaxed), 1_800);
    let node = engine.node("r").unwrap();
    assert_eq!((node.in_flight, node.total_pass), (0, 1_800));
    // Places in the middle may be lost, but not for good.
    tokio::time::advance(Duration::from_secs(120)).await;
    assert_eq!(common::passed(&engine.resource("r"), 2_000), 1_200);
}

// https://github.com/rack/rack-attack/pull/144
#[test]
fn b209_two_rules_for_one_caller_do_not_share_a_counter() {
    let pairs = [("login", "search"), ("a:b", "a"), ("x/y{", "x/y{z}")];
    for (one, two) in pairs {
        let rule = |name: &str| {
            format!(
                r#"{{"resource": "{name}", "count": 5, "limitApp": "other",
                     "statIntervalMs": 60000}}"#
            )
        };
        let (engine, _time) = flow(&format!("[{},{}]", rule(one), rule(two)));
        let calls = |name: &str, n: usize| {
            let r = engine.resource(name);
            let ask = |_: &usize| r.request().origin("203.0.113.7").try_entry().is_ok();
            (0..n).filter(ask).count()
        };
        assert_eq!((calls(one, 4), calls(two, 4)), (4, 4));
        assert_eq!((calls(one, 2), calls(two, 2)), (1, 1), "{one} and {two}");
    }
}

// https://github.com/rack/rack-attack/pull/144: both are keyed by the address
// of the client, as a parameter value.
#[test]
fn b209_two_rules_on_one_parameter_value_do_not_share_a_counter() {
    let client = [Arg::Str("203.0.113.7"), Arg::Str("203.0.113.7")];
    let pairs = [("login", "search"), ("a:b", "a"), ("x/y{", "x/y{z}")];
    for (one, two) in pairs {
        let rule = |name: &str| {
            format!(r#"{{"resource": "{name}", "paramIdx": 0, "count": 5, "durationInSec": 60}}"#)
        };
        let list = format!(r#"{{"paramFlow": [{},{}]}}"#, rule(one), rule(two));
        let (engine, _time) = document(&list);
        let calls = |name: &str, n| passed_with(&engine.resource(name), &client, n);
        assert_eq!((calls(one, 4), calls(two, 4)), (4, 4));
        assert_eq!((calls(one, 2), calls(two, 2)), (1, 1), "{one} and {two}");
    }
    // Two rules on one resource, each with its own argument, and one pattern
    // on two resources.
    let (engine, _time) = document(
        r#"{"paramFlow": [{"resource": "r", "paramIdx": 0, "count": 5, "durationInSec": 60},
                          {"resource": "r", "paramIdx": 1, "count": 5, "durationInSec": 60},
                          {"resource": "/p/*", "match": "glob", "paramIdx": 0, "count": 5,
                           "durationInSec": 60}]}"#,
    );
    let [one, two] = [&client[..1], &[Arg::Null, client[1]]];
    let r = engine.resource("r");
    assert_eq!((passed_with(&r, one, 4), passed_with(&r, two, 4)), (4, 4));
    assert_eq!((passed_with(&r, one, 2), passed_with(&r, two, 2)), (1, 1));
    for name in ["/p/a", "/p/b"] {
        assert_eq!(passed_with(&engine.resource(name), one, 6), 5, "{name}");
    }
}

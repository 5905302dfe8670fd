//! Resources that nobody calls are forgotten, and nothing is decided otherwise
//! for it.

mod common;

use common::{at, built, ms, passed};
use flowgate::{Arg, Engine, EngineBuilder, ManualClock, Traffic};

const MINUTE: u64 = 60_000;

/// An engine that forgets what was idle for two minutes.
fn forgetful(rules: &str) -> (Engine, ManualClock) {
    with_rules(Engine::builder(), rules)
}

fn with_rules(builder: EngineBuilder, rules: &str) -> (Engine, ManualClock) {
    let (engine, time) = built(builder.idle_timeout(ms(2 * MINUTE)));
    engine.load_document(rules).expect("the rules are right");
    (engine, time)
}

fn by_pattern(kind: &str, fields: &str) -> String {
    format!(r#"{{"{kind}": [{{"resource": "/.*", "regex": true, {fields}}}]}}"#)
}

/// Sweeps at the ends of two idle times from `from` on; what is left then.
fn swept(engine: &Engine, time: &ManualClock, from: u64) -> Vec<String> {
    for minutes in [2, 4] {
        at(time, from + minutes * MINUTE);
        engine.sweep();
    }
    engine.resources()
}

fn calls(engine: &Engine, name: &str, times: usize) -> usize {
    let ask = |_: &usize| engine.try_entry(name).is_ok();
    (0..times).filter(ask).count()
}

#[test]
fn a_resource_that_nobody_calls_is_forgotten_and_counted() {
    let (engine, time) = forgetful("{}");
    assert_eq!(calls(&engine, "/a", 3), 3);
    engine.resource("/never called");
    at(&time, 2 * MINUTE - 1_000);
    assert_eq!(engine.sweep().looked_at, 0);
    at(&time, 2 * MINUTE);
    assert_eq!(engine.sweep().evicted, 1);
    assert_eq!(engine.resources(), ["/a"]);
    at(&time, 4 * MINUTE);
    assert_eq!(engine.sweep().evicted, 1);
    let stats = engine.stats();
    assert_eq!((stats.resources, stats.evicted_resources), (0, 2));
    assert_eq!(engine.node("/a"), None);
    // It begins anew.
    assert_eq!(calls(&engine, "/a", 1), 1);
    assert_eq!(engine.node("/a").unwrap().total_pass, 1);
    assert_eq!(engine.stats().resources, 1);
}

#[test]
fn one_that_is_called_now_and_then_stays() {
    let (engine, time) = forgetful("{}");
    for minute in 0..20 {
        at(&time, minute * MINUTE);
        calls(&engine, "/a", 1);
        at(&time, minute * MINUTE + 59_000);
        engine.sweep();
    }
    assert_eq!(engine.stats().evicted_resources, 0);
}

#[test]
fn looking_at_a_resource_does_not_keep_it() {
    let (engine, time) = forgetful("{}");
    calls(&engine, "/a", 1);
    for second in 0..245 {
        at(&time, second * 1_000);
        let _figures = (engine.node("/a"), engine.inbound(), engine.resources());
        engine.sweep();
    }
    assert_eq!(engine.node("/a"), None);
}

#[test]
fn one_that_somebody_has_stays() {
    let (engine, time) = forgetful("{}");
    let _handle = engine.resource("handle");
    let _entry = engine.entry("entry").unwrap();
    let _pending = engine.request("pending").reserve().unwrap();
    let _request = engine.request("request");
    let lent = engine.resource("forgotten entry");
    std::mem::forget(lent.entry().unwrap());
    drop(lent);
    engine.entry("nobody").unwrap().exit();
    let left = swept(&engine, &time, 0);
    let kept = ["entry", "forgotten entry", "handle", "pending", "request"];
    assert_eq!(left, kept);
}

#[test]
fn one_that_a_rule_names_stays_and_gives_its_statistics_back() {
    let rules = r#"{"flow": [{"resource": "limited", "count": 5},
        {"resource": "limited", "count": 1, "strategy": 1, "refResource": "related"}]}"#;
    let (engine, time) = forgetful(rules);
    for name in ["limited", "related", "nobody"] {
        let request = engine.request(name).origin("web");
        request.traffic(Traffic::Inbound).entry().unwrap().exit();
    }
    assert_eq!(engine.stats().callers, 3);
    at(&time, 2 * MINUTE);
    assert_eq!(engine.sweep().renewed, 0);
    at(&time, 4 * MINUTE);
    let found = engine.sweep();
    assert_eq!((found.renewed, found.evicted), (1, 1));
    assert_eq!(engine.resources(), ["limited", "related"]);
    assert_eq!(engine.stats().callers, 1);
    assert_eq!(passed(&engine.resource("limited"), 9), 5);
    // What relates to it still finds the node that calls count in.
    at(&time, 4 * MINUTE + 5_000);
    assert_eq!(calls(&engine, "related", 2), 2);
    assert_eq!(calls(&engine, "limited", 1), 0);
}

#[test]
fn a_limit_of_a_day_is_not_forgotten_within_the_day() {
    let rule = r#""count": 5, "statIntervalMs": 86400000"#;
    let (engine, time) = forgetful(&by_pattern("flow", rule));
    assert_eq!(calls(&engine, "/a", 9), 5);
    assert_eq!(swept(&engine, &time, 0), ["/a"]);
    assert_eq!(calls(&engine, "/a", 9), 0);
    // The day is over, and the resource as new, before it is called again.
    assert_eq!(swept(&engine, &time, 48 * 60 * MINUTE), [""; 0]);
    assert_eq!(calls(&engine, "/a", 9), 5);
}

#[test]
fn what_a_rule_remembers_keeps_a_resource_until_it_is_as_new() {
    // Each is used up by two calls; after how long it is as before them.
    let table = [
        (
            "flow",
            r#""count": 2, "accounting": "tokenBucket", "statIntervalMs": 1800000"#,
        ),
        (
            "flow",
            r#""count": 0.001, "controlBehavior": 2, "maxQueueingTimeMs": 1"#,
        ),
        (
            "paramFlow",
            r#""paramIdx": 0, "count": 2, "durationInSec": 1200"#,
        ),
    ];
    for (kind, rule) in table {
        let (engine, time) = forgetful(&by_pattern(kind, rule));
        let calls = |times: usize| {
            let args = [Arg::from(7)];
            let ask = |_: &usize| engine.request("/a").args(&args).try_entry().is_ok();
            (0..times).filter(ask).count()
        };
        let first = calls(3);
        assert!((1..3).contains(&first), "{rule}");
        assert_eq!(swept(&engine, &time, 0), ["/a"], "{rule}");
        assert_eq!(calls(1), 0, "{rule}");
        for minute in (6..=60).step_by(2) {
            at(&time, minute * MINUTE);
            engine.sweep();
        }
        assert_eq!(engine.resources(), [""; 0], "{rule}");
        assert_eq!(calls(3), first, "{rule}");
    }
}

#[test]
fn an_open_breaker_keeps_its_resource_and_a_closed_one_does_not() {
    let rule = r#""grade": 2, "count": 1, "timeWindow": 1, "minRequestAmount": 1"#;
    let (engine, time) = forgetful(&by_pattern("degrade", rule));
    let fail = |name: &str| {
        let entry = engine.entry(name).unwrap();
        entry.exit_with(flowgate::Outcome::Error);
    };
    fail("/closed");
    (0..2).for_each(|_| fail("/open"));
    engine.entry("/forced").unwrap().exit();
    engine.force_breakers("/forced", flowgate::Forced::Open);
    assert_eq!(swept(&engine, &time, 0), ["/forced", "/open"]);
    assert!(engine.entry("/forced").is_err());
    engine.release_breakers("/forced");
    // A probe closes the other.
    engine.entry("/open").unwrap().exit();
    assert_eq!(swept(&engine, &time, 10 * MINUTE), [""; 0]);
    assert!(engine.entry("/open").is_ok());
}

#[test]
fn new_resources_sweep_the_old_ones() {
    let (engine, time) = forgetful("{}");
    let mut most = 0;
    for n in 0..200_000_u64 {
        // A hundred a second, for half an hour.
        at(&time, n * 10);
        engine.resource(&n.to_string());
        most = most.max(engine.stats().resources);
    }
    // Those of two minutes, and of the time that a hand takes to come round.
    assert!(most < 2 * 120 * 100, "{most}");
    assert!(engine.stats().evicted_resources > 170_000);
}

#[test]
fn near_the_limit_a_minute_is_enough() {
    let builder = Engine::builder().resources_max(1_000);
    let (engine, time) = built(builder);
    for n in 0..4_000_u64 {
        // Ten a second; the idle timeout is ten minutes.
        at(&time, n * 100);
        calls(&engine, &n.to_string(), 1);
    }
    let stats = engine.stats();
    assert_eq!(stats.overflowed_resources, 0, "{stats:?}");
    assert!(stats.resources <= 1_000, "{stats:?}");
}

#[test]
fn beyond_the_limit_no_name_gets_more_than_its_limit_by_moving() {
    let builder = Engine::builder().resources_max(4);
    let rule = by_pattern("flow", r#""count": 5, "statIntervalMs": 600000"#);
    let (engine, time) = with_rules(builder, &rule);
    for n in 0..4 {
        calls(&engine, &n.to_string(), 1);
    }
    let handle = engine.resource("/a");
    assert_eq!(calls(&engine, "/a", 3) + passed(&handle, 9), 5);
    // Places become free while the others still count.
    at(&time, 3 * MINUTE);
    assert!(engine.sweep().evicted > 0);
    assert!(engine.stats().resources < 4);
    assert_eq!(calls(&engine, "/a", 9) + passed(&handle, 9), 0);
    assert!(!engine.resources().contains(&"/a".to_owned()));
    // When nothing there counts any more they have places of their own.
    assert_eq!(swept(&engine, &time, 30 * MINUTE), [""; 0]);
    assert_eq!(calls(&engine, "/a", 3) + passed(&handle, 9), 5);
    assert_eq!(calls(&engine, "/b", 9), 5);
    assert_eq!(engine.resources(), ["/a", "/b"]);
}

#[test]
fn where_no_pattern_holds_free_places_are_taken_at_once() {
    let (engine, time) = with_rules(Engine::builder().resources_max(2), "{}");
    for name in ["a", "b", "c"] {
        calls(&engine, name, 1);
    }
    let handle = engine.resource("d");
    assert_eq!(passed(&handle, 1), 1);
    assert_eq!(engine.resources(), ["(other resources)", "a", "b"]);
    // The overflow is still called when places become free.
    at(&time, 2 * MINUTE);
    calls(&engine, "c", 1);
    engine.sweep();
    assert_eq!(calls(&engine, "c", 1), 1);
    at(&time, 4 * MINUTE);
    assert_eq!((calls(&engine, "c", 1), engine.sweep().evicted), (1, 2));
    assert_eq!(passed(&handle, 1), 1);
    assert_eq!(engine.resources(), ["c", "d"]);
}

#[test]
fn many_threads_never_get_more_than_the_limit_of_what_is_being_forgotten() {
    // A limit for good, as it were: nothing that has passed may be forgotten.
    let rule = by_pattern("flow", r#""count": 40, "statIntervalMs": 86400000"#);
    for _ in 0..20 {
        let (engine, time) = forgetful(&rule);
        let admitted: usize = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| (0..200).map(|_| calls(&engine, "/a", 1)).sum::<usize>()))
                .collect();
            let sweeper = scope.spawn(|| {
                for _ in 0..400 {
                    time.advance(ms(MINUTE));
                    engine.sweep();
                }
            });
            sweeper.join().unwrap();
            callers.into_iter().map(|it| it.join().unwrap()).sum()
        });
        // 400 minutes from the start of the clock: within one day.
        assert_eq!(admitted, 40);
        assert_eq!(engine.node("/a").map(|node| node.in_flight), Some(0));
    }
}

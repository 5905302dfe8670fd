//! Reported bugs of peers, kind K14: memory and cardinality. The tables of hot
//! parameters by themselves are tested with the rules; here whole calls are.
//! What needs adapters (b178), an exporter (b182) or a shared store (b184) waits
//! for them.
//!
//! This test binary has a counting allocator, which sees one thread at a time.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use allocation_counter::measure;
use common::{at, built, document, flow, ms, passed};
use flowgate::{Arg, Clock, Engine, ManualClock, ParamFlow, ParamState, SlidingWindowLimiter};

/// The table of the only rule on hot parameters, for `r`.
fn table(engine: &Engine) -> Arc<ParamState> {
    engine.table::<ParamFlow>().entries()[0]
        .state_of("r")
        .unwrap()
}

// https://github.com/boinkor-net/governor/issues/171: a client that calls each
// ten seconds and is allowed six a minute, among a stream of strangers.
#[test]
fn b174_random_keys_fill_no_memory_and_leave_a_loyal_client_alone() {
    let (engine, time) = document(
        r#"{"paramFlow": [{"resource": "r", "paramIdx": 0, "count": 6, "durationInSec": 60,
                           "maxValues": 1000}]}"#,
    );
    let r = engine.resource("r");
    let ask = |arg: Arg<'_>| {
        let args = [arg];
        r.request().args(&args).try_entry().is_ok()
    };
    let mut full = None;
    for n in 0..100_000_u64 {
        // 500 strangers a second.
        time.set(common::START + ms(2 * n));
        assert!(ask(Arg::from(n)), "stranger {n}");
        if n % 5_000 == 0 {
            assert!(ask(Arg::from("loyal")), "refused at {n}");
        }
        if n == 10_000 {
            full = Some(table(&engine).bytes());
        }
    }
    let table = table(&engine);
    assert_eq!((table.values(), table.overflowed()), (1_000, 0));
    assert_eq!(Some(table.bytes()), full);
    assert!(table.bytes() < 1_000 * 2 * 80, "{} bytes", table.bytes());
    assert_eq!(engine.stats().resources, 1);
}

// https://github.com/boinkor-net/governor/issues/171: names of resources, of
// callers and of contexts that nobody has heard of before.
#[test]
fn b174_random_names_fill_no_memory_and_leave_a_loyal_client_alone() {
    let builder = Engine::builder()
        .resources_max(20)
        .origins_max(20)
        .contexts_max(20);
    let (engine, time) = built(builder);
    let list = r#"[{"resource": ".*", "regex": true, "count": 5, "statIntervalMs": 60000,
                    "limitApp": "loyal"}]"#;
    engine.load_json("flow", list).unwrap();
    let ask = |name: &str, origin: &str| {
        let request = engine.request(name).origin(origin).context(origin);
        request.try_entry().is_ok()
    };
    assert!(ask("r", "loyal"));
    let strangers = |from: u64| {
        for n in from..from + 2_000 {
            time.set(common::START + ms(n * 5));
            let name = n.to_string();
            assert!(ask("r", &name) && ask(&name, &name));
            if n % 2_000 == 0 {
                assert!(ask("r", "loyal"), "refused at {n}");
            }
        }
    };
    strangers(2_000);
    let before = engine.stats();
    let grown = measure(|| strangers(4_000));
    assert_eq!(grown.bytes_current, 0, "{grown:?}");
    let after = engine.stats();
    assert_eq!(
        (after.resources, after.callers),
        (before.resources, before.callers)
    );
    assert!(
        after.resources <= 21 && after.callers <= 21 * 40,
        "{after:?}"
    );
    assert_eq!(engine.origin_node("r", "loyal").unwrap().total_pass, 3);
}

// https://github.com/boinkor-net/governor/issues/171: names that come once and
// never again, in a simulated hour. What is idle goes, so no limit is reached, and
// each name has what its rules say for itself.
#[test]
fn b174_an_hour_of_new_names_fills_no_memory_where_idle_ones_are_forgotten() {
    let (engine, time) = built(Engine::builder().idle_timeout(ms(120_000)));
    let rules = r#"{"flow": [{"resource": "/.*", "regex": true, "count": 2},
                             {"resource": "/.*", "regex": true, "count": 6, "statIntervalMs": 60000},
                             {"resource": "loyal", "count": 1, "statIntervalMs": 10000}],
                    "degrade": [{"resource": "/.*", "regex": true, "grade": 2, "count": 9, "timeWindow": 1}]}"#;
    engine.load_document(rules).unwrap();
    let mut kept = Vec::new();
    let minute = |minute: u64| {
        for n in 0..600 {
            time.set(common::START + ms(minute * 60_000 + n * 100));
            let name = format!("/{minute}/{n}");
            let admitted = (0..3).filter(|_| engine.try_entry(&name).is_ok()).count();
            assert_eq!(admitted, 2, "{name}");
            if n % 100 == 0 {
                assert!(engine.try_entry("loyal").is_ok(), "refused at {name}");
            }
        }
        engine.stats().resources
    };
    (0..20).for_each(|n| kept.push(minute(n)));
    let grown = measure(|| (20..60).for_each(|n| kept.push(minute(n))));
    // Twice the idle timeout at ten a second, and what the hands take to come round.
    assert!(kept.iter().all(|kept| *kept < 3_000), "{kept:?}");
    let most = |kept: &[usize]| kept.iter().max().map_or(0, |kept| *kept);
    assert!(most(&kept[20..]) <= most(&kept[..20]) * 21 / 20, "{kept:?}");
    // The resources that there are now and then more or fewer of, of 2,700.
    assert!(grown.bytes_current < 150 * 16_000, "{grown:?}");
    assert_eq!(engine.stats().overflowed_resources, 0);
    assert_eq!(engine.node("loyal").unwrap().total_pass, 6);
}

// https://github.com/levy-street/world-of-claudecraft/issues/147
#[test]
fn b175_those_who_come_to_a_full_table_free_nobody_who_is_limited() {
    let (engine, time) = document(
        r#"{"paramFlow": [{"resource": "r", "paramIdx": 0, "count": 20, "durationInSec": 60,
                           "maxValues": 10000}]}"#,
    );
    let r = engine.resource("r");
    let attacker = [Arg::from("attacker")];
    assert_eq!(common::passed_with(&r, &attacker, 21), 20);
    at(&time, 1);
    for n in 0..10_001 {
        assert_eq!(common::passed_with(&r, &[Arg::from(n)], 1), 1);
    }
    at(&time, 59_999);
    assert_eq!(common::passed_with(&r, &attacker, 1), 0);
    assert_eq!(table(&engine).values(), 10_000);
}

// https://github.com/levy-street/world-of-claudecraft/issues/147, with callers
// and resources: at the limit nobody's counts are thrown away.
#[test]
fn b175_callers_and_resources_beyond_the_limit_free_nobody_who_is_limited() {
    let builder = Engine::builder().origins_max(50).resources_max(50);
    let (engine, _time) = built(builder);
    let list = r#"[{"resource": "r", "count": 20, "limitApp": "other", "statIntervalMs": 60000},
                   {"resource": "/.*", "regex": true, "count": 20, "statIntervalMs": 60000}]"#;
    engine.load_json("flow", list).unwrap();
    let attacks = |name: &str| {
        let ask = |_: &u32| engine.request(name).origin("attacker").try_entry().is_ok();
        (0..21).filter(ask).count()
    };
    assert_eq!((attacks("r"), attacks("/a")), (20, 20));
    for n in 0..500 {
        let name = format!("/{n}");
        drop(engine.request("r").origin(&name).try_entry());
        drop(engine.try_entry(&name));
    }
    assert!(engine.stats().overflowed_origins > 0 && engine.stats().overflowed_resources > 0);
    assert_eq!((attacks("r"), attacks("/a")), (0, 0));
}

// https://github.com/ralksta/immich-folio/pull/56
#[test]
fn b177_a_full_table_serves_a_stranger() {
    for kind in [
        r#""count": 5"#,
        r#""count": 5, "grade": 0"#,
        r#""count": 5, "controlBehavior": 2"#,
    ] {
        let (engine, time) = document(&format!(
            r#"{{"paramFlow": [{{"resource": "r", "paramIdx": 0, {kind}, "maxValues": 10000}}]}}"#
        ));
        let r = engine.resource("r");
        for n in 0..10_000 {
            time.set(common::START + ms(n / 11));
            assert_eq!(common::passed_with(&r, &[Arg::from(n)], 1), 1, "{kind}");
        }
        assert_eq!(table(&engine).values(), 10_000);
        let honest = [Arg::from("honest")];
        assert_eq!(common::passed_with(&r, &honest, 1), 1, "{kind}");
    }
}

// https://github.com/alibaba/Sentinel/issues/1329
#[test]
fn b180_no_resource_beyond_the_limit_goes_without_its_rule() {
    const MAX: usize = 300;
    let names: Vec<String> = (0..MAX + 100).map(|n| format!("r{n}")).collect();
    let by_name: Vec<String> = names
        .iter()
        .map(|name| format!(r#"{{"resource": "{name}", "count": 0}}"#))
        .collect();
    let by_pattern = r#"{"resource": "r.*", "regex": true, "count": 0}"#.to_owned();
    let of_all = r#"{"resource": "*", "count": 0}"#.to_owned();
    for rules in [by_name, vec![by_pattern], vec![of_all]] {
        let (engine, _time) = built(Engine::builder().resources_max(MAX));
        let list = format!("[{}]", rules.join(","));
        // Before they are known, and when they are.
        engine.load_json("flow", &list).unwrap();
        for name in names.iter().chain(&names) {
            assert!(
                engine.try_entry(name).is_err(),
                "{name} under {} rules",
                rules.len()
            );
        }
        let stats = engine.stats();
        // Those that a rule names have their places; the others are seen.
        let beyond = if rules.len() == 1 { 200 } else { 0 };
        assert_eq!(stats.overflowed_resources, beyond);
        let kept = if rules.len() == 1 { MAX } else { names.len() };
        assert_eq!(stats.resources, kept);
    }
}

// https://github.com/alibaba/Sentinel/issues/1329: "idle resources can be
// reclaimed".
#[test]
fn b180_at_the_limit_idle_resources_make_room() {
    const MAX: usize = 300;
    let (engine, time) = built(Engine::builder().resources_max(MAX));
    let list = r#"[{"resource": "r.*", "regex": true, "count": 1}]"#;
    engine.load_json("flow", list).unwrap();
    for n in 0..MAX + 100 {
        let passed = passed(&engine.resource(&format!("r{n}")), 2);
        assert_eq!(passed, usize::from(n <= MAX), "r{n}");
    }
    assert_eq!(engine.stats().resources, MAX);
    // Nobody called them for some minutes: the first who come find their places.
    at(&time, 200_000);
    for n in 0..MAX / 2 {
        assert_eq!(passed(&engine.resource(&format!("rr{n}")), 2), 1, "rr{n}");
    }
    assert!(engine.resources().iter().any(|name| name.starts_with("rr")));
}

// https://github.com/alibaba/Sentinel/issues/390: contexts and callers.
#[test]
fn b180_no_context_or_caller_beyond_the_limit_goes_without_its_rule() {
    const MAX: usize = 50;
    let names: Vec<String> = (0..MAX + 50).map(|n| format!("c{n}")).collect();
    for fields in [
        r#""strategy": 2, "refResource": "NAME""#,
        r#""limitApp": "NAME""#,
    ] {
        let builder = Engine::builder().contexts_max(MAX).origins_max(MAX);
        let (engine, _time) = built(builder);
        let rules: Vec<String> = names
            .iter()
            .map(|name| {
                let fields = fields.replace("NAME", name);
                format!(r#"{{"resource": "r", "count": 0, {fields}}}"#)
            })
            .collect();
        for n in 0..2 * MAX {
            let name = format!("before {n}");
            let request = engine.request("r").origin(&name).context(&name);
            assert!(request.try_entry().is_ok());
        }
        engine
            .load_json("flow", format!("[{}]", rules.join(",")))
            .unwrap();
        for name in &names {
            let request = engine.request("r").origin(name).context(name);
            assert!(request.try_entry().is_err(), "{name}: {fields}");
        }
        let stats = engine.stats();
        let beyond = (stats.overflowed_contexts, stats.overflowed_origins);
        assert!(
            beyond.0 >= MAX as u64 && beyond.1 >= MAX as u64,
            "{beyond:?}"
        );
    }
}

/// Every kind of rule, each of which refuses some of the calls.
const EVERY_KIND: &str = r#"{
    "authority": [{"resource": "r", "limitApp": "bad", "strategy": 1}],
    "system": [{"qps": 60}],
    "paramFlow": [{"resource": "r", "paramIdx": 0, "count": 50},
                  {"resource": "r", "paramIdx": 0, "count": 3, "grade": 0}],
    "flow": [{"resource": "r", "count": 40}, {"resource": "r", "count": 100, "statIntervalMs": 5000}],
    "isolation": [{"resource": "r", "count": 2}],
    "degrade": [{"resource": "r", "grade": 2, "count": 1000000, "timeWindow": 1}]}"#;

// https://github.com/antifuchs/ratelimit_meter/issues/17: of many threads, half
// of whose calls are refused. What one thread frees another may have made, so
// only the sum says something.
#[test]
fn b185_calls_of_many_threads_leave_no_memory_behind() {
    let (engine, time) = document(EVERY_KIND);
    let r = engine.resource("r");
    let calls = |rounds: u64| {
        let mut passes = 0;
        for _ in 0..rounds {
            passes += usize::from(common::seen_by_all(&r).try_entry().is_ok());
            time.advance(ms(1));
        }
        passes
    };
    let (grown, passes) = (AtomicI64::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                calls(1_000);
                let counted = measure(|| {
                    passes.fetch_add(calls(4_000), Ordering::Relaxed);
                });
                grown.fetch_add(counted.bytes_current, Ordering::Relaxed);
            });
        }
    });
    assert!((1..32_000).contains(&passes.into_inner()));
    let grown = grown.into_inner();
    assert!(grown.abs() < 64 * 1_024, "{grown} bytes");
}

// https://github.com/antifuchs/ratelimit_meter/issues/17: made, used and let go
// of, again and again.
#[test]
fn b185_what_is_made_used_and_dropped_leaves_no_memory_behind() {
    let clock = Clock::manual(ManualClock::at(common::START));
    let limiters = || {
        for _ in 0..2_000 {
            let clock = clock.clone();
            let limiter = SlidingWindowLimiter::with_clock(ms(1_000), 10, 2, clock).unwrap();
            assert_eq!((0..5).filter(|_| limiter.try_acquire()).count(), 2);
        }
    };
    let (engine, time) = flow(r#"[{"resource": "r", "count": 2}]"#);
    let handles = || {
        for _ in 0..5_000 {
            time.advance(ms(1_000));
            assert_eq!(passed(&engine.resource("r"), 4), 2);
        }
    };
    let engines = || {
        for _ in 0..20 {
            let (engine, _time) = document(EVERY_KIND);
            let r = engine.resource("r");
            assert!((0..5).all(|_| common::seen_by_all(&r).try_entry().is_ok()));
        }
    };
    let reloads = || {
        for n in 0..300 {
            let list = format!(r#"[{{"resource": "r", "count": {}}}]"#, 2 + n % 2);
            engine.load_json("flow", list).unwrap();
            time.advance(ms(1_000));
            assert_eq!(passed(&engine.resource("r"), 4), 2 + n % 2);
        }
    };
    let work: [(&str, &dyn Fn()); 4] = [
        ("limiters", &limiters),
        ("handles", &handles),
        ("engines", &engines),
        ("reloads", &reloads),
    ];
    for (name, work) in work {
        // Once to warm up: what a thread keeps for itself is made then.
        work();
        let counted = measure(work);
        assert!(
            counted.bytes_current.abs() < 64 * 1_024,
            "{name}: {counted:?}"
        );
    }
}

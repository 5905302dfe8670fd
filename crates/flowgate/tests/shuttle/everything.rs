//! Rules of every kind at once, swapped under way.

use std::sync::Arc;
use std::time::Duration;

use flowgate::{Arg, CircuitState, Entry, Traffic};

use super::world::{OUTCOMES, World, at_once, draw, explore, one_of};

const RESOURCES: [&str; 2] = ["a", "b"];

const DOCUMENTS: [&str; 4] = [
    r#"{"authority": [{"resource": "a", "limitApp": "x", "strategy": 1}],
        "system": [{"maxThread": 3, "qps": 20}],
        "paramFlow": [{"resource": "a", "paramIdx": 0, "count": 2, "grade": 0},
                      {"resource": "b", "paramIdx": 0, "count": 3, "burstCount": 1}],
        "flow": [{"resource": "a", "count": 3}, {"resource": "b", "count": 2, "grade": 0}],
        "isolation": [{"resource": "a", "count": 2}],
        "degrade": [{"resource": "a", "grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1,
                     "probeNum": 2}]}"#,
    r#"{"authority": [{"resource": "*", "limitApp": "x, y"}],
        "system": [{"avgRt": 300}, {"maxThread": 2, "mode": "observe"}],
        "paramFlow": [{"resource": "a", "paramIdx": 0, "count": 5, "controlBehavior": 2,
                       "maxQueueingTimeMs": 400}],
        "flow": [{"resource": "a", "count": 5, "controlBehavior": 2, "maxQueueingTimeMs": 900},
                 {"resource": "b", "count": 2, "statIntervalMs": 3000}],
        "isolation": [{"resource": "b", "count": 2}, {"resource": "a", "count": 2, "mode": "observe"}],
        "degrade": [{"resource": "*", "grade": 1, "count": 0.4, "timeWindow": 1, "minRequestAmount": 1,
                     "statIntervalMs": 2000, "statSlidingWindowBucketCount": 4}]}"#,
    r#"{"authority": [], "system": [],
        "paramFlow": [{"resource": "a", "match": "prefix", "paramIdx": 0, "count": 1, "grade": 0,
                       "mode": "observe"}],
        "flow": [{"resource": "a", "count": 6, "controlBehavior": 1, "warmUpPeriodSec": 3},
                 {"resource": "a", "count": 4, "burstCount": 3, "accounting": "tokenBucket",
                  "controlBehavior": 2, "maxQueueingTimeMs": 400},
                 {"resource": "b", "count": 2, "limitApp": "y", "accounting": "strict"}],
        "isolation": [{"resource": "?", "match": "glob", "count": 3}],
        "degrade": [{"resource": "a", "grade": 0, "count": 100, "slowRatioThreshold": 0.5,
                     "timeWindow": 1, "minRequestAmount": 1, "statWindowCalls": 4},
                    {"resource": "b", "grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1}]}"#,
    r#"{"authority": [], "system": [], "paramFlow": [], "flow": [], "isolation": [], "degrade": []}"#,
];

/// Limits on calls at once: each lets in exactly its number if nothing is held.
const EXACT: &str = r#"{
    "authority": [], "flow": [], "degrade": [],
    "system": [{"maxThread": 3}],
    "paramFlow": [{"resource": "a", "paramIdx": 0, "count": 1, "grade": 0},
                  {"resource": "b", "paramIdx": 0, "count": 2, "grade": 0}],
    "isolation": [{"resource": "a", "count": 2}]}"#;

#[test]
fn nothing_is_left_behind_under_any_rules() {
    explore(12_000, || {
        let world = World::new(one_of(&DOCUMENTS));
        let caller = |_| {
            let world = Arc::clone(&world);
            Box::new(move || calls(&world)) as Box<dyn FnOnce() + Send>
        };
        let mut tasks: Vec<_> = (0..draw(2..4)).map(caller).collect();
        let loading = Arc::clone(&world);
        tasks.push(Box::new(move || {
            for _ in 0..draw(1..3) {
                let loaded = loading.engine.load_document(one_of(&DOCUMENTS));
                loaded.expect("the document is fine");
            }
        }));
        tasks.push(world.timer(50..1_200));
        at_once(tasks);

        RESOURCES
            .iter()
            .for_each(|resource| world.nothing_is_held(resource));
        assert_eq!(world.engine.inbound().in_flight, 0);
        world.advance(3_000);
        world.statistics_agree(&RESOURCES);
        breakers_close(&world);
        limits_are_exact(&world);
    });
}

fn calls(world: &World) {
    let mut open = Vec::new();
    for _ in 0..3 {
        open.extend(call(world));
        if draw(0..2) == 0
            && let Some((entry, weight)) = open.pop()
        {
            world.exit(entry, weight, one_of(&OUTCOMES));
        }
    }
    for (entry, weight) in open {
        world.exit(entry, weight, one_of(&OUTCOMES));
    }
}

fn call(world: &World) -> Option<(Entry<'static>, u32)> {
    let weight = draw(0..3) as u32;
    let args = [Arg::Int(draw(0..2).into())];
    let request = world
        .engine
        .request(one_of(&RESOURCES))
        .weight(weight)
        .origin(one_of(&["", "x", "y"]))
        .traffic(one_of(&[Traffic::Inbound, Traffic::Outbound]))
        .args(&args);
    let entry = match draw(0..6) {
        0 => world.reserve(weight, true, || request.reserve()),
        1 => world.reserve(weight, true, || request.prioritized().reserve()),
        2 => world.reserve(weight, false, || request.prioritized().reserve()),
        3 => world.enter(weight, || request.entry()),
        _ => world.enter(weight, || request.try_entry()),
    };
    entry.map(|entry| (entry, weight))
}

/// No breaker sticks: after its time each lets a call probe, and closes.
fn breakers_close(world: &World) {
    world.time.advance(Duration::from_secs(60));
    for resource in RESOURCES {
        for _ in 0..2 {
            let entry = world.engine.request(resource).origin("y").try_entry();
            entry.expect("nothing limits it now").exit();
            world.advance(5_000);
        }
        for breaker in world.engine.breakers(resource) {
            assert_eq!(
                breaker.state(),
                CircuitState::Closed,
                "{}",
                breaker.rule_id()
            );
        }
    }
}

fn limits_are_exact(world: &World) {
    world
        .engine
        .load_document(EXACT)
        .expect("the document is fine");
    let args = [Arg::Int(0)];
    let at_once = |resource, args: &[Arg<'_>], traffic| {
        let ask = || world.engine.request(resource).traffic(traffic).args(args);
        let entries: Vec<_> = (0..5).map_while(|_| ask().try_entry().ok()).collect();
        entries.len()
    };
    assert_eq!(at_once("a", &args, Traffic::Outbound), 1);
    assert_eq!(at_once("b", &args, Traffic::Outbound), 2);
    assert_eq!(at_once("a", &[], Traffic::Outbound), 2);
    assert_eq!(at_once("b", &[], Traffic::Inbound), 3);
}

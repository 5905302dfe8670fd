//! Accountings that hold for every span of time: strict windows and token buckets.
//!
//! A call is decided at some time between its coming and the time that it is
//! charged at, by the clock. So all that came from one time on and were charged
//! before another were decided between the two.

use std::sync::Arc;
use std::time::Duration;

use super::loads::{Loads, kept};
use super::world::{OUTCOMES, World, at_once, draw, explore, one_of};

fn strict(limit: u64) -> String {
    format!(r#"{{"flow": [{{"resource": "a", "count": {limit}, "accounting": "strict"}}]}}"#)
}

#[test]
fn a_strict_rate_that_is_changed_is_exceeded_in_no_second() {
    explore(10_000, || {
        let loads = Loads::beginning(2, strict);
        let world = loads.world();
        let mut tasks: Vec<_> = (0..draw(2..4)).map(|_| caller(&world)).collect();
        tasks.push(loads.loader(&[1, 2, 3, 4]));
        tasks.push(world.timer(1..600));
        at_once(tasks);
        settled(&world);
        let calls = loads.calls();
        for (first, _) in &calls {
            let mut second = calls.clone();
            second.retain(|(call, _)| {
                let charged = call.charged.since(first.came);
                call.came >= first.came && charged < Duration::from_secs(1)
            });
            kept(&second, |_| true);
        }
    });
}

const RATE: u64 = 4;
const BURST: u64 = 3;

/// The first is the rule; the others say it again, beside a rule that is not for
/// these calls, and let calls wait.
const BUCKETS: [&str; 2] = [
    r#"{"flow": [{"resource": "a", "count": 4, "burstCount": 3, "accounting": "tokenBucket"}]}"#,
    r#"{"flow": [{"resource": "b", "count": 1},
                 {"resource": "a", "count": 4, "burstCount": 3, "accounting": "tokenBucket"}]}"#,
];

#[test]
fn a_bucket_gives_no_more_than_its_burst_and_its_rate() {
    explore(10_000, || {
        let world = World::new(BUCKETS[0]);
        let mut tasks: Vec<_> = (0..draw(2..4)).map(|_| caller(&world)).collect();
        let loading = Arc::clone(&world);
        tasks.push(Box::new(move || {
            for _ in 0..draw(1..3) {
                let loaded = loading.engine.load_document(one_of(&BUCKETS));
                loaded.expect("the document is fine");
            }
        }));
        tasks.push(world.timer(1..600));
        at_once(tasks);
        settled(&world);
        let calls = world.admitted();
        for first in &calls {
            for last in &calls {
                let span = last.charged.since(first.came);
                let inside = calls
                    .iter()
                    .filter(|call| call.came >= first.came && call.charged <= last.charged);
                let taken: u64 = inside.map(|call| call.weight).sum();
                let most = BURST as f64 + RATE as f64 * span.as_secs_f64();
                assert!(taken as f64 <= most, "{taken} in {span:?}: {calls:#?}");
            }
        }
        // What was given back is there: the bucket is full in time, and no more.
        world.advance(10_000);
        let ask = || world.engine.try_entry("a").ok();
        assert_eq!((0..9).map_while(|_| ask()).count() as u64, BURST);
    });
}

fn caller(world: &Arc<World>) -> Box<dyn FnOnce() + Send> {
    let world = Arc::clone(world);
    Box::new(move || {
        for _ in 0..3 {
            let weight = draw(1..3) as u32;
            let request = world.engine.request("a").weight(weight);
            let entry = match draw(0..5) {
                0 => world.reserve(weight, true, || request.prioritized().reserve()),
                1 => world.reserve(weight, true, || request.reserve()),
                2 => world.enter(weight, || request.prioritized().entry()),
                _ => world.enter(weight, || request.try_entry()),
            };
            if let Some(entry) = entry {
                world.exit(entry, weight, one_of(&OUTCOMES));
            }
        }
    })
}

fn settled(world: &World) {
    world.nothing_is_held("a");
    world.advance(3_000);
    world.statistics_agree(&["a"]);
}

//! Limits for each value of a hot parameter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use flowgate::Arg;
use shuttle::thread;

use super::world::{OUTCOMES, World, at_once, draw, explore, one_of};

const AT_ONCE: &str =
    r#"{"paramFlow": [{"resource": "a", "paramIdx": 0, "count": 2, "grade": 0}]}"#;
const PER_SECOND: &str =
    r#"{"paramFlow": [{"resource": "a", "paramIdx": 0, "count": 2, "burstCount": 1}]}"#;
const FEW_VALUES: &str = r#"{"paramFlow": [{"resource": "a", "paramIdx": 0, "count": 2, "grade": 0,
                                            "maxValues": 2}]}"#;

fn value(n: u64) -> [Arg<'static>; 1] {
    [Arg::Int(n.into())]
}

/// How many calls of value `n` enter now and stay.
fn lets_in(world: &World, n: u64) -> u64 {
    let value = value(n);
    let ask = || world.engine.request("a").args(&value).try_entry().ok();
    let entries: Vec<_> = (0..9).map_while(|_| ask()).collect();
    entries.len() as u64
}

/// Two to four tasks call with `values` values; `come` and `go` hear of those
/// that enter.
fn calls(
    world: &Arc<World>,
    values: u64,
    come: impl Fn(u64) + Clone + Send + 'static,
    go: impl Fn(u64) + Clone + Send + 'static,
) {
    let caller = |_| {
        let (world, come, go) = (Arc::clone(world), come.clone(), go.clone());
        let task = move || {
            for _ in 0..3 {
                let n = draw(0..values);
                let value = value(n);
                let request = world.engine.request("a").args(&value);
                let entry = match draw(0..4) {
                    0 => world.reserve(1, true, || request.reserve()),
                    1 => world.reserve(1, false, || request.reserve()),
                    _ => world.enter(1, || request.try_entry()),
                };
                let Some(entry) = entry else { continue };
                come(n);
                thread::yield_now();
                go(n);
                world.exit(entry, 1, one_of(&OUTCOMES));
            }
        };
        Box::new(task) as Box<dyn FnOnce() + Send>
    };
    at_once((0..draw(2..5)).map(caller).collect());
    world.nothing_is_held("a");
    world.statistics_agree(&["a"]);
}

#[test]
fn no_value_has_more_calls_at_once_than_its_limit() {
    explore(6_000, || {
        let world = World::new(AT_ONCE);
        let inside = Arc::new([const { AtomicU64::new(0) }; 2]);
        let leaving = Arc::clone(&inside);
        calls(
            &world,
            2,
            move |n| {
                assert!(
                    inside[n as usize].fetch_add(1, SeqCst) < 2,
                    "too many at once"
                )
            },
            move |n| _ = leaving[n as usize].fetch_sub(1, SeqCst),
        );
        assert_eq!([0, 1].map(|n| lets_in(&world, n)), [2, 2]);
    });
}

#[test]
fn every_value_has_exactly_its_tokens() {
    explore(6_000, || {
        let world = World::new(PER_SECOND);
        let passed = Arc::new([const { AtomicU64::new(0) }; 2]);
        let come = Arc::clone(&passed);
        calls(
            &world,
            2,
            move |n| _ = come[n as usize].fetch_add(1, SeqCst),
            |_| {},
        );
        // What was given up is there again.
        let all = [0, 1].map(|n| passed[n as usize].load(SeqCst) + lets_in(&world, n));
        assert_eq!(all, [3, 3]);
    });
}

#[test]
fn values_that_are_forgotten_leave_nothing_behind() {
    explore(6_000, || {
        let world = World::new(FEW_VALUES);
        calls(&world, 5, |_| {}, |_| {});
        for n in 0..5 {
            assert_eq!(lets_in(&world, n), 2, "of value {n}");
        }
    });
}

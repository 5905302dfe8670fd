//! A rate, while it is raised, lowered, said again and taken away.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use flowgate::Timestamp;

use super::world::{Admitted, OUTCOMES, World, at_once, draw, explore, one_of};

const BOX_NS: u64 = 500_000_000;
const NONE: u64 = u64::MAX;

/// Limits that were in force, each with the moments before it was loaded and
/// after it was in force.
type Loads = Mutex<Vec<(u64, u64, u64)>>;

fn document(limit: u64) -> String {
    match limit {
        NONE => r#"{"flow": []}"#.into(),
        _ => format!(r#"{{"flow": [{{"resource": "a", "count": {limit}}}]}}"#),
    }
}

// Fails if `Passes::reserve` looks first and counts later, if a borrower does
// not confirm, or if a chain is used after its generation.
#[test]
fn a_rate_that_is_changed_is_never_exceeded() {
    explore(30_000, || {
        let world = World::new(&document(2));
        let loads = Arc::new(Loads::new(vec![(2, 0, 0)]));
        let caller = || {
            let world = Arc::clone(&world);
            Box::new(move || call(&world)) as Box<dyn FnOnce() + Send>
        };
        let mut tasks: Vec<_> = (0..draw(2..4)).map(|_| caller()).collect();
        tasks.push(loader(&world, &loads));
        tasks.push(timer(&world));
        at_once(tasks);

        world.nothing_is_held("a");
        kept(
            &world.admitted(),
            &loads.lock().expect("nobody fails in it"),
        );
        // Past the windows that were borrowed from.
        world.advance(3_000);
        world.statistics_agree(&["a"]);
        let node = world.engine.node("a").unwrap_or_default();
        assert_eq!((node.waiting, node.pass_qps), (0, 0.0));
    });
}

fn call(world: &World) {
    for _ in 0..3 {
        let weight = draw(1..3) as u32;
        let request = world.engine.request("a").weight(weight);
        let entry = match draw(0..6) {
            0 | 1 => world.enter(weight, || request.try_entry()),
            2 => world.enter(weight, || request.prioritized().entry()),
            3 => world.reserve(weight, true, || request.prioritized().reserve()),
            4 => world.reserve(weight, true, || request.reserve()),
            _ => world.reserve(weight, false, || request.reserve()),
        };
        if let Some(entry) = entry {
            world.exit(entry, weight, one_of(&OUTCOMES));
        }
    }
}

fn loader(world: &Arc<World>, loads: &Arc<Loads>) -> Box<dyn FnOnce() + Send> {
    let (world, loads) = (Arc::clone(world), Arc::clone(loads));
    Box::new(move || {
        for _ in 0..draw(1..4) {
            let limit = one_of(&[1, 2, 3, 4, NONE]);
            let before = world.moment();
            let loaded = world.engine.load_document(document(limit));
            loaded.expect("the document is fine");
            let load = (limit, before, world.moment());
            loads.lock().expect("nobody fails in it").push(load);
        }
    })
}

fn timer(world: &Arc<World>) -> Box<dyn FnOnce() + Send> {
    let world = Arc::clone(world);
    Box::new(move || (0..draw(0..4)).for_each(|_| world.advance(draw(50..700))))
}

/// Whether every call was within a limit that it may have seen.
///
/// In any set of calls of one accounted second, whichever was decided last has
/// seen all others: together they are within the greatest limit of the set. And
/// each call has seen all those that were decided before it asked.
fn kept(calls: &[Admitted], loads: &[(u64, u64, u64)]) {
    let window = |time: Timestamp| time.as_nanos() / BOX_NS;
    let limit = |call: &Admitted| {
        let ends = loads.iter().skip(1).map(|load| load.2).chain([NONE]);
        let in_force = loads.iter().zip(ends);
        let seen = in_force.filter(|(load, end)| load.1 <= call.got && *end >= call.asked);
        seen.map(|(load, _)| load.0).max().unwrap_or(NONE)
    };
    let calls: Vec<_> = calls.iter().map(|call| (*call, limit(call))).collect();
    let windows: BTreeSet<_> = calls.iter().map(|(call, _)| window(call.charged)).collect();
    for last in windows {
        let second = calls
            .iter()
            .filter(|(call, _)| [last - 1, last].contains(&window(call.charged)));
        for (call, limit) in second.clone() {
            let within = second.clone().filter(|(_, other)| other <= limit);
            let together: u64 = within.map(|(other, _)| other.weight).sum();
            assert!(
                together <= *limit,
                "{together} of {limit}: {calls:#?} {loads:?}"
            );
            if window(call.charged) == last {
                let before = second.clone().filter(|(other, _)| other.got < call.asked);
                let before: u64 = before.map(|(other, _)| other.weight).sum();
                let all = before + call.weight;
                assert!(
                    all <= *limit,
                    "{all} of {limit}: {call:?} in {calls:#?} {loads:?}"
                );
            }
        }
    }
}

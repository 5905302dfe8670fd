//! A rate in Sentinel's windows, while it is raised, lowered, said again and taken
//! away.

use std::sync::Arc;

use flowgate::Timestamp;

use super::loads::{Loads, NONE, kept};
use super::world::{OUTCOMES, World, at_once, draw, explore, one_of};

const BOX_NS: u64 = 500_000_000;

fn document(limit: u64) -> String {
    match limit {
        NONE => r#"{"flow": []}"#.into(),
        _ => format!(r#"{{"flow": [{{"resource": "a", "count": {limit}}}]}}"#),
    }
}

// Fails if a reservation looks first and counts later, if a borrower does not
// confirm, if it counts the present window anew, or if a chain outlives its plan.
#[test]
fn a_rate_that_is_changed_is_never_exceeded() {
    explore(30_000, || {
        let loads = Loads::beginning(2, document);
        let world = loads.world();
        let caller = |_| {
            let world = Arc::clone(&world);
            Box::new(move || call(&world)) as Box<dyn FnOnce() + Send>
        };
        let mut tasks: Vec<_> = (0..draw(2..4)).map(caller).collect();
        tasks.push(loads.loader(&[1, 2, 3, 4, NONE]));
        tasks.push(world.timer(50..700));
        at_once(tasks);

        world.nothing_is_held("a");
        let calls = loads.calls();
        let window = |time: Timestamp| time.as_nanos() / BOX_NS;
        for last in calls.iter().map(|(call, _)| window(call.charged)) {
            let mut second = calls.clone();
            second.retain(|(call, _)| [last - 1, last].contains(&window(call.charged)));
            kept(&second, |call| window(call.charged) == last);
        }
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

//! A breaker that has opened, and those that come when its time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use flowgate::{CircuitState, Outcome};

use super::world::{OUTCOMES, World, at_once, draw, explore, one_of};

const TIME_MS: u64 = 1_000;

fn document(probes: u64) -> String {
    format!(
        r#"{{"degrade": [{{"resource": "a", "grade": 2, "count": 1, "timeWindow": 1,
                          "minRequestAmount": 1, "probeNum": {probes}}}]}}"#
    )
}

/// What became of those that were let in.
#[derive(Default)]
struct Probes {
    in_vain: AtomicU64,
    come: AtomicU64,
    good: AtomicU64,
    bad: AtomicU64,
}

#[test]
fn probes_are_never_too_many_and_none_is_lost() {
    explore(10_000, || {
        let limit = draw(1..3);
        let world = World::new(&document(limit));
        for _ in 0..2 {
            let entry = world.enter(1, || world.engine.try_entry("a"));
            world.exit(entry.expect("it is closed"), 1, Outcome::Error);
        }
        assert!(world.engine.try_entry("a").is_err(), "it has not opened");
        world.saw.blocked.fetch_add(1, SeqCst);
        world.advance(TIME_MS);

        let probes = Arc::new(Probes::default());
        let caller = |_| {
            let (world, probes) = (Arc::clone(&world), Arc::clone(&probes));
            Box::new(move || probe(&world, &probes, limit)) as Box<dyn FnOnce() + Send>
        };
        at_once((0..draw(2..5)).map(caller).collect());
        world.nothing_is_held("a");
        world.statistics_agree(&["a"]);

        let breaker = &world.engine.breakers("a")[0];
        let (good, bad) = (probes.good.load(SeqCst), probes.bad.load(SeqCst));
        match breaker.state() {
            CircuitState::Open => assert!(bad > 0 || good + bad == 0),
            CircuitState::HalfOpen => assert!(good < limit && bad < limit),
            CircuitState::Closed => assert!(good >= limit),
        }
        // It does not stick: good calls close it.
        for _ in 0..limit {
            world.advance(TIME_MS);
            world
                .engine
                .try_entry("a")
                .expect("it lets probes in")
                .exit();
        }
        assert_eq!(breaker.state(), CircuitState::Closed);
    });
}

fn probe(world: &World, probes: &Probes, limit: u64) {
    for _ in 0..2 {
        let gives_up = draw(0..4) == 0;
        let entry = match gives_up {
            true => {
                // It may be counted later than its place is free, never earlier.
                probes.in_vain.fetch_add(1, SeqCst);
                world.reserve(1, true, || world.engine.request("a").reserve())
            }
            false => world.enter(1, || world.engine.try_entry("a")),
        };
        let Some(entry) = entry else { continue };
        let come = probes.come.fetch_add(1, SeqCst) + 1;
        let in_vain = probes.in_vain.load(SeqCst);
        // As long as none has ended well, all are probes.
        if probes.good.load(SeqCst) == 0 {
            assert!(come <= limit + in_vain, "{come} probes");
        }
        let outcome = one_of(&OUTCOMES);
        match outcome {
            Outcome::Success => probes.good.fetch_add(1, SeqCst),
            Outcome::Error => probes.bad.fetch_add(1, SeqCst),
            _ => probes.in_vain.fetch_add(1, SeqCst),
        };
        world.exit(entry, 1, outcome);
    }
}

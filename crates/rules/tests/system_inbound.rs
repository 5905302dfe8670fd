//! The budget of all inbound calls, on its own: nodes stand for the resources
//! of an engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use flowgate_core::node::BoxSums;
use flowgate_core::node::permits::Share;
use flowgate_core::{Node, NodeSettings, Outcome, Timestamp, Traffic};
use flowgate_rules::system::{Held, Inbound, InboundTotals, Limits, Machine, NoRoom};

const START: Timestamp = Timestamp::from_millis(1_000_000);

fn at(millis: u64) -> Timestamp {
    START + ms(millis)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Resources, all called inwards.
struct Resources(Vec<Node>, Timestamp);

impl Resources {
    fn new(number: usize) -> Arc<Self> {
        Self::at(number, START)
    }

    /// As they are looked at `now`.
    fn at(number: usize, now: Timestamp) -> Arc<Self> {
        let settings = Arc::new(NodeSettings::default());
        let node = || {
            let node = Node::new(&settings);
            assert!(node.twin_for(Traffic::Inbound).is_none());
            node
        };
        Arc::new(Resources((0..number).map(|_| node()).collect(), now))
    }
}

impl InboundTotals for Resources {
    fn in_flight(&self) -> Option<u64> {
        Some(self.0.iter().map(Node::inbound_in_flight).sum())
    }

    fn boxes(&self) -> Vec<BoxSums> {
        let boxes = self.0.iter().flat_map(|node| node.inbound_boxes(self.1));
        let mut boxes: Vec<_> = boxes.collect();
        boxes.sort_by_key(|sums| sums.start);
        boxes
    }
}

fn budget(resources: &Arc<Resources>) -> Arc<Inbound> {
    let machine = Machine::default();
    machine.install_totals(Arc::clone(resources) as Arc<dyn InboundTotals>);
    machine.inbound()
}

fn passes(limit: u64) -> Limits {
    Limits {
        passes: limit,
        ..Limits::NONE
    }
}

fn places(limit: u64) -> Limits {
    Limits {
        places: limit,
        ..Limits::NONE
    }
}

/// Takes a place, and is counted by its resource.
fn run(inbound: &Inbound, node: &Node, now: Timestamp, limit: u64) -> Result<Held, NoRoom> {
    let mut held = inbound.enter(now, 1, places(limit))?;
    node.enter(Share::PERMITS, 0).expect("few are in flight");
    inbound.settle(&mut held);
    Ok(held)
}

fn end(inbound: &Inbound, node: &Node, held: Held) {
    inbound.exit(held, START, 1, ms(1), Outcome::Success);
    node.leave(Share::PLACE, 0);
}

fn passed(inbound: &Inbound, now: Timestamp, weight: u32, limit: u64) -> usize {
    let enter = || inbound.enter(now, weight, passes(limit));
    std::iter::from_fn(|| enter().ok()).take(100).count()
}

#[test]
fn passes_go_by_weight_and_come_again_with_the_window() {
    let inbound = budget(&Resources::new(0));
    assert_eq!(passed(&inbound, at(0), 4, 10), 2);
    let full = inbound.enter(at(100), 4, passes(10)).unwrap_err();
    let NoRoom::Passes(full) = full else {
        panic!("{full:?}")
    };
    assert_eq!((full.sum, full.retry_after), (8, Some(ms(900))));
    assert_eq!(passed(&inbound, at(100), 2, 10), 1);
    assert_eq!(passed(&inbound, at(1_000), 1, 10), 10);
    assert_eq!(inbound.in_flight(), 13);
}

#[test]
fn passes_of_before_count_and_leave_when_they_would_have_anyway() {
    let resources = Resources::at(2, at(800));
    let _taken = [
        resources.0[0].pass(at(100), 3),
        resources.0[1].pass(at(700), 4),
    ];
    let inbound = budget(&resources);
    assert_eq!(inbound.passes(at(800)), 7);
    assert_eq!(passed(&inbound, at(800), 1, 10), 3);
    // The window of the first three is over.
    assert_eq!(passed(&inbound, at(1_000), 1, 10), 3);
    assert_eq!(passed(&inbound, at(1_500), 1, 10), 7);
}

#[test]
fn response_times_of_before_count() {
    let resources = Resources::at(1, at(600));
    for rt in [10, 20, 60] {
        resources.0[0].complete(at(300), 1, ms(rt), false, false);
    }
    let throughput = budget(&resources).throughput(at(600));
    assert_eq!(throughput, resources.0[0].throughput(at(600)));
    assert_eq!(throughput.rt_mean, Some(ms(30)));
    assert_eq!(throughput.rt_min, ms(10));
    // Three in a window of half a second, each at least 10 ms.
    assert_eq!(throughput.peak_per_second, 6.0);
    assert!((throughput.capacity() - 0.06).abs() < 1e-9);
}

#[test]
fn calls_that_ran_before_hold_their_places_until_they_leave() {
    let resources = Resources::new(2);
    let [a, b] = [&resources.0[0], &resources.0[1]];
    for node in [a, a, b] {
        node.enter(Share::PERMITS, 0).unwrap();
    }
    let inbound = budget(&resources);
    let first = run(&inbound, a, at(0), 4).unwrap();
    assert_eq!(run(&inbound, b, at(0), 4), Err(NoRoom::Places(4)));
    a.leave(Share::PLACE, 0);
    // At most one look in a millisecond.
    let second = run(&inbound, b, at(1), 4).unwrap();
    assert_eq!(run(&inbound, b, at(2), 4), Err(NoRoom::Places(4)));
    end(&inbound, a, first);
    let third = run(&inbound, a, at(2), 4).unwrap();
    for node in [a, b] {
        node.leave(Share::PLACE, 0);
    }
    let fourth = run(&inbound, a, at(3), 4).unwrap();
    assert_eq!(inbound.in_flight(), 3);
    for (node, held) in [(b, second), (a, third), (a, fourth)] {
        end(&inbound, node, held);
    }
    assert_eq!((inbound.in_flight(), resources.in_flight()), (0, Some(0)));
}

#[test]
fn a_call_that_is_given_up_gives_all_back_settled_or_not() {
    let resources = Resources::new(1);
    let node = &resources.0[0];
    node.enter(Share::PERMITS, 0).unwrap();
    let inbound = budget(&resources);
    let refused = inbound.enter(at(0), 3, Limits::NONE).unwrap();
    inbound.give_back(refused);
    let waiting = run(&inbound, node, at(0), 9).unwrap();
    inbound.give_back(waiting);
    node.leave(Share::PLACE, 0);
    assert_eq!((inbound.passes(at(0)), inbound.in_flight()), (0, 1));
    node.leave(Share::PLACE, 0);
    let held = run(&inbound, node, at(1), 1).unwrap();
    assert_eq!(held.in_flight(), 1);
}

#[test]
fn a_call_that_finds_no_place_takes_no_passes() {
    let inbound = budget(&Resources::new(0));
    let limits = Limits {
        passes: 5,
        places: 1,
    };
    let held = inbound.enter(at(0), 4, limits).unwrap();
    assert_eq!(inbound.enter(at(0), 1, limits), Err(NoRoom::Places(1)));
    assert!(matches!(
        inbound.enter(at(0), 2, limits),
        Err(NoRoom::Passes(_))
    ));
    assert_eq!(inbound.passes(at(0)), 4);
    inbound.give_back(held);
    assert_eq!((inbound.passes(at(0)), inbound.in_flight()), (0, 0));
}

#[test]
fn what_a_call_holds_survives_its_ticket() {
    let inbound = budget(&Resources::new(0));
    let held = inbound.enter(at(0), 7, Limits::NONE).unwrap();
    let back = Held::from_words(held.to_words());
    assert_eq!((back.passes(), back.in_flight()), (7, 1));
    inbound.give_back(back);
    assert_eq!((inbound.passes(at(0)), inbound.in_flight()), (0, 0));
}

/// Old calls leave, new ones come and go, and the base is looked up all the
/// time: never more than the limit at once, however they meet.
#[test]
fn no_more_than_the_limit_run_at_once_while_older_calls_leave() {
    const LIMIT: u64 = 6;
    for _ in 0..10 {
        let resources = Resources::new(3);
        let old: Vec<&Node> = resources.0.iter().chain(&resources.0).collect();
        for node in &old {
            node.enter(Share::PERMITS, 0).unwrap();
        }
        let inbound = budget(&resources);
        let running = AtomicU64::new(old.len() as u64);
        let most = AtomicU64::new(0);
        let (turns, all_gone) = (AtomicU64::new(1), AtomicBool::new(false));
        let newcomer = |mut turn: usize| {
            while !all_gone.load(Ordering::Relaxed) {
                turn += 1;
                let node = &resources.0[turn % 3];
                // A millisecond per call, so that each may look.
                let now = at(turns.fetch_add(1, Ordering::Relaxed));
                let Ok(held) = run(&inbound, node, now, LIMIT) else {
                    continue;
                };
                let together = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(together, Ordering::Relaxed);
                thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                end(&inbound, node, held);
            }
        };
        thread::scope(|scope| {
            for thread in 0..8 {
                let newcomer = &newcomer;
                scope.spawn(move || newcomer(thread));
            }
            for (gone, node) in old.iter().enumerate() {
                // One after the other, while the others come.
                while turns.load(Ordering::Relaxed) < 300 * (gone as u64 + 1) {
                    thread::yield_now();
                }
                running.fetch_sub(1, Ordering::SeqCst);
                node.leave(Share::PLACE, 0);
            }
            all_gone.store(true, Ordering::Relaxed);
        });
        let most = most.into_inner();
        assert!(most <= LIMIT, "{most} ran, of {LIMIT}");
        assert_eq!((resources.in_flight(), running.into_inner()), (Some(0), 0));
        // The last look says that no old call is left.
        assert!(run(&inbound, &resources.0[0], at(1_000_000), 1).is_ok());
    }
}

/// Exactly the limit: all places are taken, and not one more.
#[test]
fn exactly_the_limit_run_at_once_under_many_threads() {
    let inbound = budget(&Resources::new(0));
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..100 {
                    if inbound.enter(at(0), 1, places(37)).is_ok() {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 37);
    assert_eq!(inbound.in_flight(), 37);
}

//! Plans that are swapped while calls run.

use flowgate_core::publish::{Derived, Published};
use loom::sync::Arc;
use loom::thread;

use super::model;

/// What a chain is to a plan. Two fields, to see a mixture if there were one.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Chain(u64, u64);

fn chain(derived: &Derived<Chain>, plan: &Published<u64>) -> Chain {
    derived.with(
        plan,
        |_, _| false,
        |plan| Chain(*plan, *plan),
        |chain| *chain,
    )
}

#[test]
fn a_call_sees_one_plan_and_never_an_older_one_than_before() {
    model(3, || {
        let plan = Arc::new(Published::new(1));
        let derived = Arc::new(Derived::new(Chain(0, 0)));
        let (p, d) = (Arc::clone(&plan), Arc::clone(&derived));
        let publisher = thread::spawn(move || {
            p.publish(2);
            // Published: whoever starts anew sees it.
            assert_eq!(chain(&d, &p), Chain(2, 2));
        });
        let (p, d) = (Arc::clone(&plan), Arc::clone(&derived));
        let caller = thread::spawn(move || {
            let (first, second) = (chain(&d, &p), chain(&d, &p));
            assert_eq!((first.0, second.0), (first.1, second.1));
            assert!(1 <= first.0 && first.0 <= second.0, "{first:?}, {second:?}");
        });
        publisher.join().unwrap();
        // The other caller may still be about to store what it made of plan 1.
        assert_eq!(chain(&derived, &plan), Chain(2, 2));
        caller.join().unwrap();
        assert_eq!(chain(&derived, &plan), Chain(2, 2));
    });
}

/// Fails if `Derived` keeps whatever was finished last: the slow caller then
/// puts its chain of plan 1 over that of plan 2 while the swap is under way.
#[test]
fn a_caller_that_finishes_an_old_chain_late_takes_nobody_back() {
    model(3, || {
        let plan = Arc::new(Published::new(1));
        let derived = Arc::new(Derived::new(Chain(0, 0)));
        let other = Arc::clone(&plan);
        let publisher = thread::spawn(move || other.publish(2));
        let (p, d) = (Arc::clone(&plan), Arc::clone(&derived));
        let slow = thread::spawn(move || chain(&d, &p));
        let (first, second) = (chain(&derived, &plan), chain(&derived, &plan));
        assert!(first.0 <= second.0, "{first:?}, {second:?}");
        assert_eq!(publisher.join().unwrap(), 2);
        let _ = slow.join().unwrap();
        assert_eq!(chain(&derived, &plan), Chain(2, 2));
    });
}

/// Fails if `publish` raises the generation before it stores the value.
#[test]
fn who_sees_a_generation_finds_its_value_or_a_newer_one() {
    model(3, || {
        let plan = Arc::new(Published::new(1));
        let other = Arc::clone(&plan);
        let publisher = thread::spawn(move || {
            other.publish(2);
            other.publish(3);
        });
        let promised = plan.generation();
        let (found, value) = plan.load();
        assert!(found >= promised, "{found} after {promised}");
        assert_eq!(found, *value);
        publisher.join().unwrap();
    });
}

/// Two swaps in a row, one reader: it never goes back.
#[test]
fn a_call_follows_two_swaps_forward_only() {
    model(3, || {
        let plan = Arc::new(Published::new(1));
        let derived = Arc::new(Derived::new(Chain(0, 0)));
        let other = Arc::clone(&plan);
        let publisher = thread::spawn(move || {
            assert_eq!(other.publish(2), 2);
            assert_eq!(other.publish(3), 3);
        });
        let seen = [chain(&derived, &plan), chain(&derived, &plan)];
        assert!(seen[0].0 <= seen[1].0, "{seen:?}");
        assert!(seen.iter().all(|c| c.0 == c.1 && (1..=3).contains(&c.0)));
        publisher.join().unwrap();
        assert_eq!(chain(&derived, &plan), Chain(3, 3));
    });
}

/// Plans of one ten make the same chain, so it stays while they follow each
/// other. Two callers find it right, or make the next, at the same time.
#[test]
fn a_chain_that_stays_right_is_kept_and_no_call_uses_it_when_it_is_not() {
    fn ten(derived: &Derived<Chain>, plan: &Published<u64>) -> u64 {
        let chain = derived.with(
            plan,
            |plan, chain| chain.0 == plan / 10,
            |plan| Chain(plan / 10, *plan),
            |chain| *chain,
        );
        chain.0
    }
    model(3, || {
        let plan = Arc::new(Published::new(11));
        let derived = Arc::new(Derived::new(Chain(0, 0)));
        assert_eq!(ten(&derived, &plan), 1);
        let (p, d) = (Arc::clone(&plan), Arc::clone(&derived));
        let publisher = thread::spawn(move || {
            p.publish(12);
            assert_eq!(ten(&d, &p), 1);
            p.publish(21);
            assert_eq!(ten(&d, &p), 2);
        });
        let seen = [ten(&derived, &plan), ten(&derived, &plan)];
        assert!(seen[0] <= seen[1], "{seen:?}");
        publisher.join().unwrap();
        assert_eq!(ten(&derived, &plan), 2);
    });
}

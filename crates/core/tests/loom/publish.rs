//! Plans that are swapped while calls run.

use flowgate_core::publish::{AtHand, Dated, Derived, Published};
use loom::sync::Arc;
use loom::thread;

use super::model;

/// What a chain is to a plan. Two fields, to see a mixture if there were one.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Chain(u64, u64);

fn chain(derived: &Derived<Chain>, plan: &Published<u64>) -> Chain {
    ***derived.current(plan, |_, _| false, |plan| Chain(*plan, *plan))
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
        let is_right = |plan: &u64, chain: &Chain| chain.0 == plan / 10;
        derived
            .current(plan, is_right, |plan| Chain(plan / 10, *plan))
            .0
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

/// The chain of a caller that keeps it at hand, as an engine's threads do.
fn chain_at_hand(
    at_hand: &AtHand<std::sync::Arc<Dated<Chain>>>,
    derived: &Derived<Chain>,
    plan: &Published<u64>,
) -> Chain {
    let number = derived.number();
    let kept = at_hand.take(number, plan.generation());
    let used = kept.unwrap_or_else(|| {
        let current = derived.current(plan, |_, _| false, |plan| Chain(*plan, *plan));
        at_hand.give_place(number, current.generation());
        std::sync::Arc::clone(&current)
    });
    let chain = **used;
    at_hand.put(number, used.generation(), used);
    chain
}

/// Fails if `AtHand::take` gives a value without looking at its generation.
#[test]
fn a_thread_with_chains_at_hand_follows_a_swap_as_one_without() {
    model(3, || {
        let plan = Arc::new(Published::new(1));
        let derived = Arc::new(Derived::new(Chain(0, 0)));
        let (p, d) = (Arc::clone(&plan), Arc::clone(&derived));
        let publisher = thread::spawn(move || {
            let at_hand = AtHand::new();
            assert!(chain_at_hand(&at_hand, &d, &p).0 >= 1);
            p.publish(2);
            // Published: whoever starts anew sees it, with what it had at hand.
            assert_eq!(chain_at_hand(&at_hand, &d, &p), Chain(2, 2));
        });
        let at_hand = AtHand::new();
        let seen = [0; 3].map(|_| chain_at_hand(&at_hand, &derived, &plan));
        assert!(seen.is_sorted_by_key(|chain| chain.0), "{seen:?}");
        assert!(seen.iter().all(|chain| chain.0 == chain.1));
        publisher.join().unwrap();
        assert_eq!(chain_at_hand(&at_hand, &derived, &plan), Chain(2, 2));
    });
}

//! Views that are made, asked for, and dropped.

use std::time::Duration;

use flowgate_core::Timestamp;
use flowgate_core::node::views::{Interval, Views};
use loom::sync::Arc;
use loom::thread;

use super::model;

fn interval(ms: u64) -> Interval {
    Interval::new(Duration::from_millis(ms), 1).expect("one box of whole milliseconds")
}

/// In the interval of one millisecond, the beginning of a box.
fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn reserves(views: &Views, interval: Interval, now: Timestamp) -> bool {
    views.reserve(interval, &[interval], now, 1, 1).is_ok()
}

/// A call that no rule of these views looks at; it weighs nothing, so that only
/// what rules reserve is counted.
fn count(views: &Views, now: Timestamp) {
    views.count(now, 0, |_, _, count| count());
}

/// Fails if the list is not looked at anew by whoever takes its turn.
#[test]
fn two_rules_that_need_one_view_first_share_it() {
    model(2, || {
        let views = Arc::new(Views::default());
        let other = Arc::clone(&views);
        let rule = thread::spawn(move || reserves(&other, interval(1), at(1)));
        let mine = reserves(&views, interval(1), at(1));
        assert!(mine != rule.join().unwrap(), "one of them passes");
        assert_eq!(views.intervals(), [interval(1)]);
    });
}

/// A rule comes back just when its view is dropped, and its calls are late: one
/// of them has a reading of before. Fails if a call that has reserved does not
/// ask again.
#[test]
fn what_is_reserved_in_a_view_that_is_being_dropped_is_not_lost() {
    model(2, || {
        let views = Arc::new(Views::default());
        views.open(interval(1), &[interval(1)], at(1));
        let other = Arc::clone(&views);
        let rule = thread::spawn(move || {
            let taken = other.reserve(interval(1), &[interval(1)], at(1), 1, 1);
            let [number, _] = taken.expect("nobody else reserves").to_words();
            number
        });
        count(&views, at(3));
        // If the other call was first, the rule's is charged to box 3 too.
        let counts = rule.join().unwrap() == 3;
        assert_eq!(reserves(&views, interval(1), at(3)), !counts);
    });
}

/// Fails if a view is retired whoever has asked in between, or if one that is
/// retired may be asked for.
#[test]
fn of_two_calls_while_their_view_is_being_dropped_exactly_one_passes() {
    model(1, || {
        let views = Arc::new(Views::default());
        views.open(interval(1), &[interval(1)], at(1));
        let rules: Vec<_> = [(); 2]
            .into_iter()
            .map(|()| {
                let views = Arc::clone(&views);
                thread::spawn(move || u64::from(reserves(&views, interval(1), at(3))))
            })
            .collect();
        count(&views, at(3));
        let passed: u64 = rules.into_iter().map(|rule| rule.join().unwrap()).sum();
        assert_eq!(passed, 1);
        assert_eq!(views.passes(interval(1), at(3)), Some(1));
    });
}

/// Fails if rings of one interval, one after the other, have one name.
#[test]
fn what_is_given_back_to_a_dropped_view_is_not_taken_out_of_the_next_one() {
    model(2, || {
        let views = Arc::new(Views::default());
        let only = interval(1);
        let late = views.reserve(only, &[only], at(1), 1, 1).expect("empty");
        count(&views, at(3));
        assert_eq!(views.intervals(), []);
        let other = Arc::clone(&views);
        let giver = thread::spawn(move || other.give_back(late));
        assert!(reserves(&views, only, at(1)));
        giver.join().unwrap();
        assert_eq!(views.passes(only, at(1)), Some(1));
    });
}

/// Three rules make views at once, beyond the bound: the list loses none that is
/// asked for. Fails if the list is changed without taking turns.
#[test]
fn views_made_at_once_are_all_there() {
    model(1, || {
        let views = Arc::new(Views::default());
        let all = [1, 2, 3].map(interval);
        let makers: Vec<_> = [1, 2]
            .into_iter()
            .map(|at_index| {
                let views = Arc::clone(&views);
                thread::spawn(move || {
                    views.open(all[at_index], &all, at(6));
                })
            })
            .collect();
        views.open(all[0], &all, at(6));
        makers.into_iter().for_each(|maker| maker.join().unwrap());
        let mut made = views.intervals();
        made.sort_unstable_by_key(|interval| interval.length());
        assert_eq!(made, all);
    });
}

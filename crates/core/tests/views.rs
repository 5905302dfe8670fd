//! Views of a node that rules ask for: intervals beside the second and the
//! minute.

#![cfg(not(loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flowgate_core::node::views::VIEWS_MAX;
use flowgate_core::{Hold, Holds, Interval, Node, NodeSettings, Nodes, Place, Timestamp};
use flowgate_core::{Traffic, View};
use proptest::prelude::*;

fn node() -> Node {
    Node::new(&Arc::new(NodeSettings::default()))
}

fn interval(ms: u64, boxes: u32) -> Interval {
    Interval::new(Duration::from_millis(ms), boxes).expect("it divides")
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(1_000_000 + ms)
}

/// The view of `interval` for a rule that names no other.
fn own(interval: &Interval) -> View<'_> {
    View::Own {
        interval: *interval,
        among: std::slice::from_ref(interval),
    }
}

/// Lets a call of `weight` through, as a chain without rules does.
fn admit(node: &Node, now: Timestamp, weight: u32) -> Holds {
    let mut holds = Holds::default();
    let nodes = Nodes::new(node, Traffic::Outbound, None, None);
    let admitted = holds.admit(&nodes, now, weight);
    admitted.expect("it can be counted");
    holds
}

#[test]
fn a_view_counts_every_admitted_call_from_its_first_request_on() {
    let (node, minute) = (node(), interval(60_000, 6));
    drop(admit(&node, at(0), 1));
    assert_eq!(node.passes_in(minute, at(0)), None, "looking makes nothing");
    node.open(own(&minute), at(0));
    drop(admit(&node, at(0), 2));
    drop(admit(&node, at(30_000), 3));
    assert_eq!(node.passes_in(minute, at(30_000)), Some(5));
    // 40 s into the first minute box after the epoch: boxes of 10 s are full.
    assert_eq!(node.passes_in(minute, at(60_000)), Some(3));
}

#[test]
fn what_a_call_has_reserved_is_not_counted_again() {
    let (node, minute, hour) = (node(), interval(60_000, 10), interval(3_600_000, 10));
    let nodes = Nodes::new(&node, Traffic::Outbound, None, None);
    node.open(own(&hour), at(0));
    let mut holds = Holds::default();
    let taken = node.reserve_in(own(&minute), at(0), 3, 10).unwrap();
    holds.set_taken_in(Place::Resource, own(&minute), taken);
    assert_eq!(
        holds.pass_in(Place::Resource, own(&minute)),
        Hold::Passed(taken)
    );
    holds.admit(&nodes, at(0), 3).unwrap();
    assert_eq!(node.passes_in(minute, at(0)), Some(3));
    assert_eq!(node.passes_in(hour, at(0)), Some(3));
    assert_eq!(node.passes_in_second(at(0)), 3);
    // Given up while it waits: out of all views.
    holds.release(&nodes, 3);
    let left = [minute, hour].map(|view| node.passes_in(view, at(0)));
    assert_eq!(left, [Some(0), Some(0)]);
    assert_eq!(node.passes_in_second(at(0)), 0);
}

#[test]
fn a_call_that_waits_is_counted_in_views_when_its_wait_ends() {
    let (node, minute) = (node(), interval(60_000, 10));
    let nodes = Nodes::new(&node, Traffic::Outbound, None, None);
    node.open(own(&minute), at(0));
    let mut holds = Holds::default();
    holds.wait_for(0, 0, Duration::from_millis(500));
    holds.admit(&nodes, at(0), 1).unwrap();
    assert_eq!(node.passes_in(minute, at(0)), Some(0));
    holds.go_ahead(&nodes, at(500), 1);
    assert_eq!(node.passes_in(minute, at(500)), Some(1));

    // Unless a rule has reserved on arrival.
    let mut holds = Holds::default();
    let taken = node.reserve_in(own(&minute), at(600), 1, 10).unwrap();
    holds.set_taken_in(Place::Resource, own(&minute), taken);
    holds.wait_for(0, 0, Duration::from_millis(500));
    holds.admit(&nodes, at(600), 1).unwrap();
    assert!(!holds.pass_is_due);
    assert_eq!(node.passes_in_second(at(600)), 2);
    holds.go_ahead(&nodes, at(1_100), 1);
    assert_eq!(node.passes_in(minute, at(1_100)), Some(2));
}

#[test]
fn boxes_begin_at_multiples_of_their_length() {
    let (node, day) = (node(), interval(86_400_000, 1));
    let ms = |ms| Timestamp::from_millis(ms);
    let noon = 86_400_000 * 20_000 + 43_200_000;
    assert!(node.reserve_in(own(&day), ms(noon), 1, 1).is_ok());
    let full = node.reserve_in(own(&day), ms(noon), 1, 1).unwrap_err();
    assert_eq!(full.retry_after, Some(Duration::from_secs(43_200)));
    let last = node.reserve_in(own(&day), ms(noon + 43_199_999), 1, 1);
    assert!(last.is_err());
    assert!(
        node.reserve_in(own(&day), ms(noon + 43_200_000), 1, 1)
            .is_ok()
    );
}

#[test]
fn a_view_nobody_asks_for_lives_as_long_as_its_counts_matter() {
    let (node, second) = (node(), interval(1_000, 10));
    node.open(own(&second), at(0));
    for ms in (0..=1_000).step_by(100) {
        drop(admit(&node, at(ms), 1));
    }
    assert_eq!(node.intervals(), [second]);
    // A rule that comes back in time finds all that has passed.
    assert_eq!(node.passes_in(second, at(1_000)), Some(10));
    drop(admit(&node, at(1_100), 1));
    assert_eq!(node.intervals(), []);
}

#[test]
fn an_idle_node_loses_no_view_that_is_asked_for() {
    let (node, second) = (node(), interval(1_000, 10));
    for hour in 0..3 {
        let now = at(hour * 3_600_000);
        let taken = node.reserve_in(own(&second), now, 1, 10).unwrap();
        let mut holds = Holds::default();
        holds.set_taken_in(Place::Resource, own(&second), taken);
        holds
            .admit(&Nodes::new(&node, Traffic::Outbound, None, None), now, 1)
            .unwrap();
        assert_eq!(node.passes_in(second, now), Some(1));
        assert_eq!(node.intervals(), [second]);
    }
}

#[test]
fn beyond_the_bound_those_go_that_would_be_forgotten_next() {
    let (node, named) = (node(), [interval(5_000, 5), interval(7_000, 7)]);
    let asked = |interval, now| {
        let among = &named;
        node.open(View::Own { interval, among }, now);
    };
    named.iter().for_each(|named| asked(*named, at(0)));
    let day = interval(86_400_000, 1);
    node.open(own(&day), at(0));
    assert!(node.reserve_in(own(&day), at(0), 5, 5).is_ok());
    for more in 1..VIEWS_MAX as u64 + 40 {
        asked(interval(3_600_000 + more, 1), at(more));
        assert!(node.reserve_in(own(&day), at(more), 1, 5).is_err());
        named
            .iter()
            .for_each(|named| assert!(node.intervals().contains(named)));
        assert!(node.intervals().len() <= VIEWS_MAX);
    }
    // More than the bound if the rules name more.
    let many: Vec<_> = (1..=VIEWS_MAX as u64 + 20)
        .map(|n| interval(n * 1_000, 1))
        .collect();
    for interval in &many {
        let view = View::Own {
            interval: *interval,
            among: &many,
        };
        assert!(node.reserve_in(view, at(50), 1, 1).is_ok());
    }
    for interval in &many {
        let view = View::Own {
            interval: *interval,
            among: &many,
        };
        assert!(node.reserve_in(view, at(50), 1, 1).is_err(), "{interval:?}");
    }
}

/// A rule of another resource that relates to this one names its own interval
/// only.
#[test]
fn what_others_ask_for_drops_no_view_that_a_rule_counts_in() {
    let (node, day) = (node(), interval(86_400_000, 1));
    assert!(node.reserve_in(own(&day), at(0), 100, 100).is_ok());
    for other in 0..30 {
        node.open(own(&interval(1_010 + 10 * other, 1)), at(1 + other));
    }
    assert!(node.reserve_in(own(&day), at(40), 1, 100).is_err());
}

#[test]
fn an_interval_that_cannot_be_counted_is_no_interval() {
    let ms = Duration::from_millis;
    for (length, boxes) in [
        (ms(0), 1),
        (ms(1_000), 0),
        (ms(1_000), 1_001),
        (ms(1), 7),
        (Duration::from_micros(1_500), 1),
        (ms(u64::from(u32::MAX) + 1), 1),
    ] {
        let refused = Interval::new(length, boxes);
        assert!(refused.is_err(), "{length:?} in {boxes}");
    }
    let longest = Interval::new(ms(u32::MAX.into()), 15).unwrap();
    assert_eq!(
        (longest.length(), longest.boxes()),
        (ms(u32::MAX.into()), 15)
    );
}

#[test]
fn eight_threads_never_take_more_than_the_limit_in_a_window() {
    let (node, view) = (node(), interval(100, 10));
    let (limit, clock) = (50, AtomicU64::new(0));
    let taken: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            for round in 0..20_000_u64 {
                // Everybody's clock, read late by some.
                let ms = match round % 16 {
                    0 => clock.fetch_add(1, Ordering::Relaxed),
                    _ => clock.load(Ordering::Relaxed),
                };
                let Ok(taken) = node.reserve_in(own(&view), at(ms), 1, limit) else {
                    continue;
                };
                let mut holds = Holds::default();
                holds.set_taken_in(Place::Resource, own(&view), taken);
                let nodes = Nodes::new(&node, Traffic::Outbound, None, None);
                holds.admit(&nodes, at(ms), 1).unwrap();
                // Its box in this view. That it is charged to is the newest of
                // all its views, and another's may just have begun.
                mine.push((taken.to_words()[0], 1));
            }
            mine
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(work)).collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.flatten().collect()
    });
    let mut boxes = std::collections::BTreeMap::<u64, u64>::new();
    for (number, weight) in taken {
        *boxes.entry(number).or_default() += weight;
    }
    let last = *boxes.keys().last().unwrap();
    for end in *boxes.keys().next().unwrap()..=last {
        let in_span: u64 = boxes
            .range(end.saturating_sub(9)..=end)
            .map(|(_, n)| n)
            .sum();
        assert!(
            in_span <= limit,
            "{in_span} in the span that ends with {end}"
        );
    }
}

proptest! {
    /// Against a list of all that has passed, looked through for each call.
    #[test]
    fn a_view_agrees_with_a_naive_window(
        boxes in 1_u32..12,
        box_ms in 1_u64..50,
        limit in 0_u64..20,
        calls in proptest::collection::vec((0_u64..60, 0_u32..5, 0_u8..4), 1..200),
    ) {
        let view = interval(box_ms * u64::from(boxes), boxes);
        let node = node();
        let mut passed: Vec<(u64, u32)> = Vec::new();
        let mut ms = 1_000_000;
        for (step, weight, kind) in calls {
            ms += step;
            let now = Timestamp::from_millis(ms);
            let first = (ms / box_ms + 1).saturating_sub(boxes.into());
            let sum: u64 = passed
                .iter()
                .filter(|(number, _)| *number >= first)
                .map(|(_, weight)| u64::from(*weight))
                .sum();
            let nodes = Nodes::new(&node, Traffic::Outbound, None, None);
            let mut holds = Holds::default();
            // Some are limited by no rule of this interval, only looked at.
            if kind == 0 {
                node.open(own(&view), now);
                holds.admit(&nodes, now, weight).unwrap();
                passed.push((ms / box_ms, weight));
                continue;
            }
            let expected = sum + u64::from(weight) <= limit;
            let probed = node.probe_in(own(&view), now, weight, limit, Hold::Nothing);
            prop_assert_eq!(probed.is_ok(), expected);
            let Ok(taken) = node.reserve_in(own(&view), now, weight, limit) else {
                prop_assert!(!expected);
                continue;
            };
            prop_assert!(expected);
            holds.set_taken_in(Place::Resource, own(&view), taken);
            // Some are refused later on, or given up.
            if kind == 1 {
                holds.release(&nodes, weight);
            } else {
                holds.admit(&nodes, now, weight).unwrap();
                passed.push((ms / box_ms, weight));
            }
            if kind == 2 {
                holds.release(&nodes, weight);
                passed.pop();
            }
        }
    }
}

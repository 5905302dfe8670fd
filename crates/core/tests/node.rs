//! A node through its public face: its views at one moment, and the edges of
//! its settings.

use std::sync::Arc;
use std::time::Duration;

use flowgate_core::node::Passing;
use flowgate_core::node::permits::Share;
use flowgate_core::{
    Hold, Holds, Interval, Node, NodeSettings, NodeSnapshot, Nodes, Place, Timestamp, Traffic, View,
};

fn ms(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

#[test]
fn a_reading_behind_the_newest_shows_the_figures_of_the_newest() {
    let node = Node::new(&Arc::new(NodeSettings::default()));
    let _taken = [node.pass(ms(9_900), 3), node.pass(ms(10_000), 4)];
    let expected = NodeSnapshot {
        pass_qps: 7.0,
        total_pass: 7,
        previous_pass: 3,
        ..NodeSnapshot::default()
    };
    for now in [10_499, 10_000, 9_000, 0] {
        assert_eq!(node.snapshot(ms(now)), expected, "at {now}");
        assert_eq!(node.passes_in_previous_second(ms(now)), 3, "at {now}");
    }
}

#[test]
fn settings_whose_boxes_would_be_too_many_are_refused_and_do_not_overflow() {
    let half = Duration::from_millis(500);
    for nanos in [7, 999_999_937, u64::MAX - 58, u64::MAX] {
        let settings = NodeSettings::new(1, Duration::from_nanos(nanos), half, half);
        let message = settings.unwrap_err().to_string();
        assert!(
            message.contains("too small a common measure"),
            "{nanos}: {message}"
        );
    }
}

#[test]
fn a_node_of_one_window_lends_from_the_next_and_holds_its_limit() {
    let second = Duration::from_secs(1);
    let settings = NodeSettings::new(1, second, second, second).unwrap();
    let node = Node::new(&Arc::new(settings));
    let _taken = node.reserve(ms(300), 5, 5).unwrap();
    let (loan, wait) = node.borrow(ms(300), 4, 5).unwrap();
    assert_eq!((loan.window(), wait), (1, Duration::from_millis(700)));
    let full = node.reserve(ms(1_000), 2, 5).unwrap_err();
    assert_eq!((full.sum, full.retry_after), (4, Some(second)));
    assert_eq!(node.reserve(ms(1_000), 1, 5).unwrap().sum(), 5);
}

#[test]
fn a_borrowed_call_with_an_old_reading_is_charged_when_its_wait_begins() {
    let (second, half) = (Duration::from_secs(1), Duration::from_millis(500));
    let settings = NodeSettings::new(2, second, second, second).unwrap();
    let node = Node::new(&Arc::new(settings));
    let nodes = Nodes::new(&node, Traffic::Outbound, None, None);
    // Others have opened the window of 500 ms since its clock was read.
    let old = ms(300);
    let _taken = [node.pass(ms(300), 3), node.pass(ms(500), 2)];
    let (loan, wait) = node.borrow(old, 1, 5).unwrap();
    assert_eq!((loan.window(), wait), (2, half));
    let mut holds = Holds::default();
    holds.set_pass(Place::Resource, Hold::Loaned(loan));
    holds.wait_for(0, 0, wait);
    holds.admit(&nodes, old, 1).unwrap();
    assert_eq!(holds.charged, ms(500));
    assert_eq!(holds.charged + holds.wait, ms(1_000));
}

#[test]
fn a_call_that_is_refused_or_given_up_counts_as_somebody_who_came() {
    for refused in [true, false] {
        let node = Node::new(&Arc::new(NodeSettings::default()));
        let (now, window) = (ms(100), 1);
        let loan = node.book(now, 1, window);
        node.go_ahead(now, loan);
        let present = ms(600);
        match refused {
            true => node.block(present, 1),
            false => node.cancelled(present, 1),
        }
        // Its window is over, and counted.
        let after = ms(1_000);
        assert_eq!(node.passes_in_second(after), 1);
    }
}

#[test]
fn a_node_that_was_never_used_shows_zeros_and_is_small() {
    assert!(size_of::<Node>() <= 32);
    let node = Node::new(&Arc::new(NodeSettings::default()));
    let now = ms(10_000);
    assert_eq!(node.snapshot(now), NodeSnapshot::default());
    assert_eq!(node.passes_in_second(now), 0);
    assert_eq!(node.passes_in_previous_second(now), 0);
    assert_eq!((node.in_flight(), node.queued()), (0, 0));
    assert_eq!(node.inbound_boxes(now), []);
    assert_eq!(node.throughput(now).rt_mean, None);
    assert_eq!(node.intervals(), []);
    // A reading has made nothing, and held no later call to its clock.
    let _taken = node.pass(ms(5_000), 1);
    assert_eq!(node.passes_in_second(ms(5_000)), 1);
}

#[test]
fn a_node_is_as_new_when_all_that_it_counted_has_left_every_view() {
    let day = Interval::new(Duration::from_secs(86_400), 1).unwrap();
    let settings = Arc::new(NodeSettings::default());
    type Use = fn(&Node, Interval);
    let uses: [(&str, Use, u64); 6] = [
        ("a pass", |node, _| _ = node.pass(ms(1_000), 1), 60_000),
        ("a refusal", |node, _| node.block(ms(1_000), 1), 60_000),
        ("given up", |node, _| node.cancelled(ms(1_000), 1), 60_000),
        (
            "a call that has ended",
            |node, _| node.complete(ms(1_000), 1, Duration::ZERO, false, false),
            60_000,
        ),
        (
            "a weight of nothing",
            |node, _| {
                let arrived = node.arrive(ms(1_000), 0, Share::NOTHING, Passing::Now);
                node.leave_from(arrived.unwrap().seat, 0);
            },
            60_000,
        ),
        (
            "a pass of a day",
            |node, day| {
                let view = View::Own {
                    interval: day,
                    among: &[day],
                };
                assert!(node.reserve_in(view, ms(1_000), 1, 5).is_ok());
            },
            86_400_000,
        ),
    ];
    for (what, count, until) in uses {
        let node = Node::new(&settings);
        assert!(node.is_as_new(ms(1_000)));
        count(&node, day);
        assert!(!node.is_as_new(ms(until - 1)), "{what}");
        assert!(node.is_as_new(ms(until + 1_000)), "{what}");
    }
}

#[test]
fn a_node_whose_calls_are_still_in_flight_is_never_as_new() {
    let node = Node::new(&Arc::new(NodeSettings::default()));
    node.enter(Share::NOTHING, 2).unwrap();
    assert!(!node.is_as_new(ms(1_000_000)));
    node.leave(Share::WHOLE, 2);
    assert!(node.is_as_new(ms(1_000_000)));
    node.queue_up();
    assert!(!node.is_as_new(ms(1_000_000)));
}

#[test]
fn a_marked_node_stays_marked_until_a_call_comes_and_keeps_its_direction() {
    let node = Node::new(&Arc::new(NodeSettings::default()));
    assert!(node.rest(), "never entered");
    assert!(!node.was_used() && node.is_resting());
    assert!(node.twin_for(Traffic::Inbound).is_none());
    assert!(node.was_used() && !node.is_resting());
    for traffic in [Traffic::Inbound, Traffic::Outbound] {
        assert!(!node.rest());
        assert!(node.rest() && node.is_resting());
        let has_twin = node.twin_for(traffic).is_some();
        assert_eq!(has_twin, traffic == Traffic::Outbound);
        assert!(node.was_used() && !node.is_resting());
    }
}

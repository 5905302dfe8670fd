//! What each thread counts by itself, of the present box of a node.

use flowgate_core::leap_array::Span;
use flowgate_core::node::stripes::{look, pass, present, sums};
use flowgate_core::seat::{Seat, Seats};
use flowgate_core::{LeapArray, MetricBucket};
use loom::sync::Arc;
use loom::thread;

use super::{WIDTH, at, model};

type Ring = Arc<LeapArray<MetricBucket>>;

fn ring() -> Ring {
    Arc::new(LeapArray::new(2, WIDTH * 2).expect("windows of 10 ns"))
}

fn seat(number: usize) -> Option<Seat> {
    Seat::numbered(number)
}

fn refuse(ring: &Ring, seat: Option<Seat>, number: u64) {
    present(ring, seat, at(number))
        .expect("it has a stripe")
        .block(1);
}

fn pass_freely(ring: &Ring, seat: Option<Seat>, number: u64) {
    let stripe = present(ring, seat, at(number)).expect("it has a stripe");
    pass(ring, stripe, 1);
}

fn reserves(ring: &Ring, number: u64, limit: u64) -> bool {
    let span = Span::new(1, 2);
    ring.reserve(at(number), 1, span, limit, None).is_ok()
}

/// Fails if the stripe is cleared before it is poured, if readers look at the
/// ring first, or if the number of turns is not odd meanwhile.
#[test]
fn what_is_poured_is_never_missed_and_counted_once_by_a_look_at_rest() {
    model(2, || {
        let ring = ring();
        refuse(&ring, seat(0), 1);
        let other = Arc::clone(&ring);
        let owner = thread::spawn(move || refuse(&other, seat(0), 2));
        match look(&ring, 1..=2) {
            Ok(sums) => assert!((1..=2).contains(&sums.block), "{sums:?}"),
            Err(sums) => assert!((1..=3).contains(&sums.block), "{sums:?}"),
        }
        match look(&ring, 1..=1) {
            Ok(sums) => assert_eq!(sums.block, 1),
            Err(sums) => assert!((1..=3).contains(&sums.block), "{sums:?}"),
        }
        owner.join().unwrap();
        assert_eq!(sums(&ring, 1..=1).block, 1);
        assert_eq!(sums(&ring, 2..=2).block, 1);
    });
}

/// Two stripes, and a head that somebody else moves on. Fails if a stripe goes
/// by its own clock alone.
#[test]
fn reports_of_three_threads_around_a_rollover_are_all_in_the_span() {
    model(1, || {
        let ring = ring();
        refuse(&ring, seat(1), 1);
        refuse(&ring, seat(2), 1);
        let reporters: Vec<_> = [1, 2]
            .into_iter()
            .map(|number| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || refuse(&ring, seat(number), 1))
            })
            .collect();
        ring.current(at(2));
        reporters.into_iter().for_each(|it| it.join().unwrap());
        assert_eq!(sums(&ring, 1..=2).block, 4);
        // By a clock that has gone back.
        refuse(&ring, seat(1), 1);
        assert!(sums(&ring, 2..=2).block >= 1);
    });
}

/// Fails if a seat is given up or taken without ordering.
#[test]
fn of_two_owners_in_succession_the_second_pours_what_the_first_has_counted() {
    model(2, || {
        let (seats, ring) = (Arc::new(Seats::default()), ring());
        let count = |seats: &Seats, ring: &Ring, number| {
            let seat = seats.take().expect("many are free");
            let first = seat.number() == 0;
            if first {
                refuse(ring, Some(seat), number);
            }
            seats.give_up(seat);
            u64::from(first)
        };
        let other = {
            let (seats, ring) = (Arc::clone(&seats), Arc::clone(&ring));
            thread::spawn(move || count(&seats, &ring, 1))
        };
        let mut counted = count(&seats, &ring, 2);
        counted += other.join().unwrap();
        assert_eq!(sums(&ring, 1..=2).block, counted);
    });
}

/// A rule that has come into force sees what has passed freely, whether or not
/// its owner is just pouring it. Fails if sums that decide look at the ring
/// first.
#[test]
fn a_new_limit_counts_what_has_passed_freely_before() {
    model(2, || {
        let (ring, span) = (ring(), Span::new(1, 2));
        pass_freely(&ring, seat(0), 1);
        // Opens and seals, which is no business of this model.
        assert!(reserves(&ring, 1, 2));
        assert!(reserves(&ring, 2, 3));
        let other = Arc::clone(&ring);
        let owner = thread::spawn(move || refuse(&other, seat(0), 2));
        let taken = ring
            .reserve(at(2), 1, span, 9, None)
            .expect("there is room");
        assert!((4..=5).contains(&taken.sum()), "{}", taken.sum());
        owner.join().unwrap();
        assert!(!reserves(&ring, 2, 4));
        assert!(reserves(&ring, 2, 5));
        assert_eq!(sums(&ring, 1..=2).pass, 5);
    });
}

/// Fails if the newest box with free passes is raised after they are counted.
#[test]
fn who_has_heard_of_a_free_pass_counts_it() {
    model(3, || {
        let ring = ring();
        refuse(&ring, seat(0), 1);
        let other = Arc::clone(&ring);
        let owner = thread::spawn(move || pass_freely(&other, seat(0), 1));
        let heard_of = sums(&ring, 1..=1).pass;
        assert!(heard_of == 0 || !reserves(&ring, 1, 1));
        owner.join().unwrap();
        assert!(sums(&ring, 1..=1).pass >= 1);
    });
}

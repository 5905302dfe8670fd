//! Sums that many threads add to, and hardly anybody reads.

use flowgate_core::tally::number_thread;
use flowgate_core::{LeapArray, MetricBucket, Tallies};
use loom::sync::Arc;
use loom::thread;

use super::{WIDTH, at, model};

/// One has numbers of its own at once, and the other when they have met. Fails
/// if the shared number is left out of the sums.
#[test]
fn two_threads_that_meet_at_a_tally_lose_nothing() {
    model(3, || {
        let tallies = Arc::new(Tallies::<1>::default());
        number_thread(1);
        let other = Arc::clone(&tallies);
        let adder = thread::spawn(move || {
            number_thread(2);
            other.add(0, 1);
            other.add(0, 2);
        });
        tallies.add(0, 4);
        tallies.add(0, 8);
        let [sum] = tallies.sums();
        assert!(sum >= 12, "it has heard of its own");
        adder.join().unwrap();
        assert_eq!(tallies.sums(), [15]);
    });
}

/// A thread that has no seat adds to what is shared, whatever others have. Fails
/// if that addition is no atomic step.
#[test]
fn threads_without_a_seat_lose_nothing_either() {
    model(3, || {
        let tallies = Arc::new(Tallies::<1>::default());
        let other = Arc::clone(&tallies);
        let adder = thread::spawn(move || other.add(0, 1));
        tallies.add(0, 2);
        adder.join().unwrap();
        assert_eq!(tallies.sums(), [3]);
    });
}

/// Two add, and a reader looks on. Is to fail if it leaves the stripes out that are
/// made after the first.
#[test]
fn a_reader_of_a_tally_sees_it_grow_and_never_more_than_was_added() {
    model(2, || {
        let tallies = Arc::new(Tallies::<1>::default());
        let adders: Vec<_> = [1, 2]
            .into_iter()
            .map(|number| {
                let tallies = Arc::clone(&tallies);
                thread::spawn(move || {
                    number_thread(number);
                    tallies.add(0, 1);
                    tallies.add(0, 1);
                })
            })
            .collect();
        let [[first], [second]] = [tallies.sums(), tallies.sums()];
        assert!(first <= second && second <= 4, "{first} {second}");
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        assert_eq!(tallies.sums(), [4]);
    });
}

type Ring = Arc<LeapArray<MetricBucket>>;

fn ring() -> Ring {
    Arc::new(LeapArray::new(1, WIDTH).expect("a window of 10 ns"))
}

fn note(ring: &Ring, number: u64, value: u64) {
    let mut window = ring.current(at(number));
    window.note_rt_min(value);
    window.note_concurrency(value);
}

fn noted(ring: &Ring, number: u64) -> (Option<u64>, u64) {
    let window = ring.current(at(number));
    let (bucket, lap) = (window.bucket(), window.lap());
    (bucket.rt_min_ns(lap), bucket.concurrency_max(lap))
}

/// Fails if a renewal may wipe out what was noted.
#[test]
fn what_is_noted_while_a_window_opens_is_not_wiped_out() {
    model(1, || {
        let ring = ring();
        note(&ring, 1, 1);
        let other = Arc::clone(&ring);
        let noter = thread::spawn(move || note(&other, 2, 5));
        note(&ring, 2, 7);
        noter.join().unwrap();
        assert_eq!(noted(&ring, 2), (Some(5), 7));
    });
}

/// Fails if a value is stored without comparing.
#[test]
fn of_three_values_the_least_and_the_greatest_stay() {
    model(2, || {
        let ring = ring();
        ring.current(at(1));
        let noters: Vec<_> = [5, 9]
            .into_iter()
            .map(|value| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || note(&ring, 1, value))
            })
            .collect();
        note(&ring, 1, 7);
        noters.into_iter().for_each(|noter| noter.join().unwrap());
        assert_eq!(noted(&ring, 1), (Some(5), 9));
    });
}

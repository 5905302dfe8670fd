//! Words that one thread alone writes.

use flowgate_core::seat::Seats;
use flowgate_core::striped::{Own, Striped};
use flowgate_core::tally::number_thread;
use loom::sync::Arc;
use loom::thread;

use super::model;

/// Fails if a seat is given up or taken without ordering: then its next holder
/// adds to an old value.
#[test]
fn who_takes_a_seat_goes_on_from_what_its_former_holder_has_stored() {
    model(3, || {
        let (seats, words) = (Arc::new(Seats::default()), Arc::new(Striped::default()));
        let add = |seats: &Seats, words: &Striped<Own>| {
            let seat = seats.take().expect("many are free");
            let first = seat.number() == 0;
            if first {
                let mine = words.mine_or_meet(Some(seat)).expect("of the first seat");
                mine.add(1);
            }
            seats.give_up(seat);
            u64::from(first)
        };
        let other = {
            let (seats, words) = (Arc::clone(&seats), Arc::clone(&words));
            thread::spawn(move || add(&seats, &words))
        };
        let mut added = add(&seats, &words);
        added += other.join().expect("no panic");
        added += add(&seats, &words);
        assert_eq!(words.iter().map(Own::get).sum::<u64>(), added);
    });
}

/// Fails if a stripe is written to before its bit is set, or bits are read
/// without ordering.
#[test]
fn who_has_heard_of_an_addition_finds_it() {
    model(3, || {
        let words: Arc<Striped<Own>> = Arc::new(Striped::default());
        let threads: Vec<_> = (1..=2)
            .map(|number| {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    number_thread(number);
                    let seat = flowgate_core::seat::Seat::mine();
                    let added = words.mine_or_meet(seat).map(|mine| mine.add(1)).is_some();
                    let sum: u64 = words.iter().map(Own::get).sum();
                    assert!(sum >= u64::from(added) && sum <= 2);
                    u64::from(added)
                })
            })
            .collect();
        let added: u64 = threads
            .into_iter()
            .map(|t| t.join().expect("no panic"))
            .sum();
        assert_eq!(words.iter().map(Own::get).sum::<u64>(), added);
        assert_eq!(added, 2, "both have met often enough");
    });
}

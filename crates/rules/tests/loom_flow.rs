//! Models of a line and of a temperature: every interleaving, for two and three
//! threads. See `crates/core/tests/loom.rs` for the rules of the game.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p flowgate-rules --test
//! loom_flow --release`. Where a comment says "fails if", the code was broken
//! in that way and the model was seen to fail.
#![cfg(loom)]
#![allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    reason = "a part of a crate, taken out of it"
)]

#[path = "../src/flow/pacing.rs"]
mod pacing;
#[path = "../src/flow/warm_up.rs"]
mod warm_up;

use std::time::Duration;

use flowgate_core::Timestamp;
use loom::sync::Arc;
use loom::thread;
use pacing::{Pacer, Place};
use warm_up::WarmUp;

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

// A line in which each call takes up 10 ns.

const COST: u64 = 10;
const PATIENT: u64 = 1_000;

fn ask(line: &Pacer, cost: u64, wait_max: u64) -> Option<Place> {
    line.request(Timestamp::EPOCH, cost, wait_max).ok()
}

fn stand(line: &Pacer) -> Place {
    ask(line, COST, PATIENT).expect("there is always room")
}

/// A line with so many in it. The room for holes is there already: loom cannot
/// see how it is published.
fn line<const N: usize>() -> (Arc<Pacer>, [Place; N]) {
    let line = Pacer::default();
    let [first, _last] = [stand(&line), stand(&line)];
    line.give_back(first, Timestamp::EPOCH);
    line.reset();
    let places = [(); N].map(|()| stand(&line));
    (Arc::new(line), places)
}

/// These go 10 ns after one another, from 0 on, with nobody missing and no two
/// at once.
fn are_evenly_spaced(places: impl IntoIterator<Item = Place>) {
    let mut releases: Vec<u64> = places.into_iter().map(|place| place.release_ns).collect();
    releases.sort_unstable();
    let even: Vec<u64> = (0..releases.len() as u64).map(|n| n * COST).collect();
    assert_eq!(releases, even);
}

fn callers_stand_behind_one_another(others: usize, preemptions: usize) {
    model(preemptions, move || {
        let (line, []) = line();
        let threads: Vec<_> = (0..others)
            .map(|_| {
                let line = Arc::clone(&line);
                thread::spawn(move || stand(&line))
            })
            .collect();
        let mine = stand(&line);
        let theirs = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        are_evenly_spaced(theirs.chain([mine]));
    });
}

/// Fails if the end of the line is stored instead of exchanged.
#[test]
fn two_callers_of_an_unused_line_go_one_after_the_other() {
    callers_stand_behind_one_another(1, 5);
}

#[test]
fn three_callers_of_an_unused_line_go_one_after_the_other() {
    callers_stand_behind_one_another(2, 3);
}

/// Fails if a refused call moves the end of the line.
#[test]
fn of_three_callers_with_room_for_two_one_is_refused_and_takes_nothing() {
    model(3, || {
        let (line, []) = line();
        let threads = [(); 2].map(|()| {
            let line = Arc::clone(&line);
            thread::spawn(move || ask(&line, COST, COST))
        });
        let mine = ask(&line, COST, COST);
        let theirs = threads.map(|thread| thread.join().expect("no panic"));
        let places: Vec<_> = theirs.into_iter().chain([mine]).flatten().collect();
        assert_eq!(places.len(), 2);
        are_evenly_spaced(places.into_iter().chain([stand(&line)]));
    });
}

/// Whether it goes to the newcomer, to the next one or is still the last in line:
/// the place is there once.
///
/// Fails if the last in line leaves a hole as well, and if it takes the line
/// back with a store.
#[test]
fn a_place_given_back_while_another_comes_is_there_once() {
    model(5, || {
        let (line, [first, last]) = line();
        let other = Arc::clone(&line);
        let comes = thread::spawn(move || stand(&other));
        line.give_back(last, Timestamp::EPOCH);
        let newcomers = [comes.join().unwrap(), stand(&line), stand(&line)];
        are_evenly_spaced(newcomers.into_iter().chain([first]));
    });
}

/// Fails if a hole is taken with a store instead of an exchange: both newcomers
/// then have it.
#[test]
fn a_hole_for_which_two_newcomers_come_goes_to_one() {
    model(3, || {
        let (line, [first, given_back, last]) = line();
        line.give_back(given_back, Timestamp::EPOCH);
        let threads = [(); 2].map(|()| {
            let line = Arc::clone(&line);
            thread::spawn(move || stand(&line))
        });
        let newcomers = threads.map(|thread| thread.join().expect("no panic"));
        let next = stand(&line);
        are_evenly_spaced(newcomers.into_iter().chain([first, last, next]));
    });
}

#[test]
fn a_place_given_back_while_two_others_come_is_there_once() {
    model(3, || {
        let (line, [first, last]) = line();
        let threads = [(); 2].map(|()| {
            let line = Arc::clone(&line);
            thread::spawn(move || stand(&line))
        });
        line.give_back(last, Timestamp::EPOCH);
        let newcomers = threads.map(|thread| thread.join().expect("no panic"));
        let next = [stand(&line), stand(&line)];
        are_evenly_spaced(newcomers.into_iter().chain(next).chain([first]));
    });
}

/// The last in line and the one before it give up while another comes.
#[test]
fn two_places_given_back_while_another_comes_are_there_once() {
    model(3, || {
        let (line, [first, middle, last]) = line();
        let threads = [middle, last].map(|place| {
            let line = Arc::clone(&line);
            thread::spawn(move || line.give_back(place, Timestamp::EPOCH))
        });
        let newcomer = stand(&line);
        for thread in threads {
            thread.join().expect("no panic");
        }
        let next = [(); 3].map(|()| stand(&line));
        are_evenly_spaced(next.into_iter().chain([first, newcomer]));
    });
}

/// At 25 ns: a hole of 20 ns is over, and that of a call of 10 ns takes its
/// place. The newcomer costs 15 ns.
///
/// Fails if a hole is left, or found, with `Relaxed`: its cost is then that of
/// the hole before it.
#[test]
fn a_hole_is_not_taken_by_a_call_that_costs_more() {
    model(5, || {
        let (line, [_first]) = line();
        let large = ask(&line, 2 * COST, PATIENT).expect("there is room");
        let [small, last] = [stand(&line), stand(&line)];
        line.give_back(large, Timestamp::EPOCH);
        let now = Timestamp::from_nanos(25);
        let other = Arc::clone(&line);
        let leaves = thread::spawn(move || other.give_back(small, now));
        let newcomer = line.request(now, 15, PATIENT).expect("there is room");
        assert_eq!(newcomer.release_ns, last.release_ns + 15);
        leaves.join().unwrap();
    });
}

// A temperature. 100 calls per second, cold to 1,000 tokens: what is allowed
// says how many there are, and each second before had passes of its own.

fn temperature() -> WarmUp {
    WarmUp::new(100.0, Duration::from_secs(1), 10, 3)
}

/// What second 0 has let pass, and second 1.
const PASSED: [u64; 2] = [40, 70];

fn ask_in(warm_up: &WarmUp, second: u64) -> f64 {
    let before = second.checked_sub(1).map_or(0, |s| PASSED[s as usize]);
    warm_up.allowed(Timestamp::from_millis(second * 1_000), || before)
}

/// What is allowed to the last of callers who come in these seconds, one after
/// the other.
fn in_turn(seconds: &[u64]) -> f64 {
    let warm_up = temperature();
    let answers = seconds.iter().map(|second| ask_in(&warm_up, *second));
    answers.fold(f64::NAN, |_, answer| answer)
}

/// Calls come in these seconds at once, after one of second 0. Returns their
/// answers, and what is allowed in second 2 in the end.
fn at_once<const N: usize>(seconds: [u64; N]) -> ([f64; N], f64) {
    let warm_up = temperature();
    ask_in(&warm_up, 0);
    let warm_up = Arc::new(warm_up);
    let threads = seconds.map(|second| {
        let warm_up = Arc::clone(&warm_up);
        move || ask_in(&warm_up, second)
    });
    let mut threads = threads.into_iter();
    let mine = threads.next().expect("somebody comes");
    let theirs: Vec<_> = threads.map(thread::spawn).collect();
    let mut answers = [mine(); N];
    for (answer, thread) in answers[1..].iter_mut().zip(theirs) {
        *answer = thread.join().expect("no panic");
    }
    (answers, ask_in(&warm_up, 2))
}

/// Fails if one that loses the exchange does not compare the second again: it is
/// then drained twice.
#[test]
fn two_callers_of_one_second_bring_it_up_to_date_once() {
    model(5, || {
        let expected = in_turn(&[0, 1]);
        assert_eq!(at_once([1, 1]), ([expected; 2], in_turn(&[0, 1, 2])));
    });
}

#[test]
fn three_callers_of_one_second_bring_it_up_to_date_once() {
    model(3, || {
        let expected = in_turn(&[0, 1]);
        assert_eq!(at_once([1, 1, 1]), ([expected; 3], in_turn(&[0, 1, 2])));
    });
}

/// Fails if the word is stored instead of exchanged, and if one that loses the
/// exchange goes by what it would have put there.
#[test]
fn two_first_callers_find_it_cold_and_one_of_them_makes_it_so() {
    model(5, || {
        let warm_up = Arc::new(temperature());
        let other = Arc::clone(&warm_up);
        let thread = thread::spawn(move || other.allowed(Timestamp::from_millis(0), || 0));
        let mine = warm_up.allowed(Timestamp::from_millis(0), || 5);
        let theirs = thread.join().expect("no panic");
        assert_eq!(mine, theirs);
        assert!((33.3..33.6).contains(&mine), "{mine}");
    });
}

/// Second 2 goes on from second 1, or from second 0 if it comes first; then
/// callers of second 1 are late, and are judged by second 2.
fn across_two_seconds<const N: usize>(preemptions: usize, seconds: [u64; N]) {
    model(preemptions, move || {
        let [in_one, after_one, after_none] = [&[0, 1][..], &[0, 1, 2], &[0, 2]].map(in_turn);
        let (answers, newest) = at_once(seconds);
        assert!(newest == after_one || newest == after_none, "{newest}");
        for (second, answer) in seconds.into_iter().zip(answers) {
            let is_own = second == 1 && newest == after_one && answer == in_one;
            assert!(is_own || answer == newest, "{second}: {answer}, {newest}");
        }
    });
}

/// Fails if the word is stored instead of exchanged, if a late caller of second 1
/// brings the word of second 2 up to date, and if one that loses the exchange goes
/// by what it would have put there.
#[test]
fn two_callers_of_two_seconds_are_judged_by_their_own_or_the_newest() {
    across_two_seconds(5, [1, 2]);
}

#[test]
fn two_callers_of_a_second_and_one_of_the_next_are_judged_by_their_own_or_the_newest() {
    across_two_seconds(3, [1, 1, 2]);
}

#[test]
fn a_caller_of_a_second_and_two_of_the_next_are_judged_by_their_own_or_the_newest() {
    across_two_seconds(3, [1, 2, 2]);
}

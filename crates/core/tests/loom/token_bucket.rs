//! A token bucket: two or three threads that take and give back.
//!
//! One token is 10 ns; readings are given, so that the models are about orders
//! alone. The wide word is loom's, see `core::sync`.

use std::time::Duration;

use flowgate_core::token_bucket::Quota;
use flowgate_core::{Timestamp, TokenBucket};
use loom::sync::Arc;
use loom::thread;

use super::model;

fn bucket(burst: u64) -> Arc<TokenBucket> {
    let quota = Quota::new(1.0, Duration::from_nanos(10), burst);
    Arc::new(TokenBucket::new(quota.expect("10 ns are whole")))
}

/// A time after so many tokens.
fn at(tokens: u64) -> Timestamp {
    Timestamp::from_nanos(10 * tokens)
}

fn passes(bucket: &TokenBucket, now: Timestamp, weight: u32) -> u32 {
    match bucket.take(now, weight) {
        Ok(_) => weight,
        Err(_) => 0,
    }
}

/// Fails if the word is stored, not swapped.
#[test]
fn two_threads_never_take_one_token_both() {
    model(3, || {
        let bucket = bucket(3);
        let other = Arc::clone(&bucket);
        let taker = thread::spawn(move || passes(&other, at(0), 2));
        let taken = passes(&bucket, at(0), 2) + taker.join().unwrap();
        assert_eq!(taken, 2);
        assert_eq!(bucket.whole_tokens_at(at(0)), 1);
    });
}

/// Fails if a failed swap is tried again with what was worked out before.
#[test]
fn what_is_given_back_does_not_make_the_bucket_run_over() {
    model(3, || {
        let bucket = bucket(4);
        let taken = bucket.take(at(0), 4).expect("it is full");
        let other = Arc::clone(&bucket);
        // Two have flowed in by then.
        let taker = thread::spawn(move || passes(&other, at(2), 2));
        bucket.give_back(taken, 4, at(2));
        let stayed = taker.join().unwrap();
        assert_eq!(stayed, 2);
        assert_eq!(bucket.whole_tokens_at(at(2)), 2);
    });
}

/// Fails as the one before.
#[test]
fn two_that_give_back_and_one_that_takes_keep_the_bound() {
    model(2, || {
        let bucket = bucket(10);
        let first = bucket.take(at(0), 10).expect("it is full");
        let second = bucket.take(at(5), 5).expect("five flowed in");
        let (one, two) = (Arc::clone(&bucket), Arc::clone(&bucket));
        let giver = thread::spawn(move || one.give_back(first, 10, at(9)));
        let taker = thread::spawn(move || passes(&two, at(9), 4) + passes(&two, at(9), 5));
        bucket.give_back(second, 5, at(9));
        giver.join().unwrap();
        let mut taken = taker.join().unwrap();
        while bucket.take(at(9), 1).is_ok() {
            taken += 1;
        }
        // Without the two it is full at 9: ten pass, and no more.
        assert!(taken <= 10, "{taken}");
        // The four were there in any order.
        assert!(taken >= 4, "{taken}");
    });
}

#[test]
fn a_call_that_takes_while_others_give_back_gives_back_no_more_than_its_own() {
    model(2, || {
        let bucket = bucket(10);
        let first = bucket.take(at(0), 10).expect("it is full");
        let other = Arc::clone(&bucket);
        let giver = thread::spawn(move || other.give_back(first, 10, at(5)));
        let second = bucket.take(at(5), 5).expect("five flowed in");
        let taken = passes(&bucket, at(9), 4);
        assert_eq!(taken, 4);
        bucket.give_back(second, 5, at(9));
        giver.join().unwrap();
        let mut taken = taken;
        while bucket.take(at(9), 1).is_ok() {
            taken += 1;
        }
        assert!(taken <= 10, "{taken}");
    });
}

#[test]
fn a_place_given_back_in_a_line_goes_to_one_newcomer() {
    model(2, || {
        let bucket = bucket(1);
        let patient = Duration::from_nanos(1_000);
        let line = [(); 3].map(|()| bucket.take_or_wait(at(0), 1, patient).expect("it may wait"));
        let other = Arc::clone(&bucket);
        let release = |bucket: &TokenBucket| {
            let granted = bucket.take_or_wait(at(0), 1, patient).expect("it may wait");
            granted.release
        };
        let newcomer = thread::spawn(move || {
            let granted = other.take_or_wait(at(0), 1, patient).expect("it may wait");
            granted.release
        });
        bucket.give_back(line[1].taken, 1, at(0));
        let mut releases = [release(&bucket), newcomer.join().unwrap()];
        releases.sort_unstable();
        assert_ne!(releases[0], releases[1]);
        assert!(releases[0] == at(1) || releases[0] == at(3));
    });
}

//! Models of the table of hot-parameter values: two and three threads, of which
//! some find a value while others forget it.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p flowgate-rules --test
//! loom_param --release`. The files of the table are taken in as they are; only
//! the first segment is a single slot long.
//!
//! A model that never fails proves little: where a comment says "fails if", the
//! code was broken in that way and the model was seen to fail.
#![cfg(loom)]
#![allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    reason = "a part of a crate, taken out of it"
)]

#[path = "../src/param_flow/table/mod.rs"]
mod table;

use flowgate_core::Timestamp;
use flowgate_core::sync::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;
use table::{Address, Cell, Key, Standing, Table};

const NOW: Timestamp = Timestamp::EPOCH;

/// Places: what is taken is in use until it is given back.
#[derive(Debug)]
struct Taken(AtomicU64);

impl Default for Taken {
    fn default() -> Self {
        Taken(AtomicU64::new(0))
    }
}

impl Taken {
    fn take(&self, limit: u64) -> bool {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
                (taken < limit).then_some(taken + 1)
            })
            .is_ok()
    }
}

impl Cell for Taken {
    type Limit = u64;
    type Align = u64;

    fn reset(&self, _: &u64, _: Timestamp) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn standing(&self, limit: &u64, _: u32, _: Timestamp) -> Standing {
        match self.0.load(Ordering::Acquire) {
            0 => Standing::Idle,
            full if full >= *limit => Standing::Limited,
            _ => Standing::InUse,
        }
    }
}

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

fn table(values_max: usize, limit: u64) -> Arc<Table<Taken>> {
    Arc::new(Table::new(values_max, limit, Vec::new()))
}

fn key(n: u128) -> Key {
    Key { kind: 1, bits: n }
}

/// One place of `n`, as a decision takes it. `None`: it has none left, or there
/// was no room for it.
fn take(table: &Table<Taken>, n: u128) -> Option<Address> {
    let value = match table.find(key(n)) {
        Some(value) => value,
        None => table.insert(key(n), None, NOW),
    };
    let address = value.address();
    if address.id == u32::MAX {
        return None;
    }
    let limit = *table.limit(value.limit());
    let taken = value.cell().take(limit);
    if taken {
        value.passed();
    } else {
        value.refused();
    }
    taken.then_some(address)
}

fn give_back(table: &Table<Taken>, address: Address) {
    let value = table.at(address).expect("a value in use is not forgotten");
    value.cell().0.fetch_sub(1, Ordering::AcqRel);
    value.taken_back();
}

/// Fails if a value is put in without looking for it again under the lock.
#[test]
fn two_threads_that_see_a_value_first_see_one_value() {
    model(3, || {
        let values = table(2, 1);
        let other = {
            let values = Arc::clone(&values);
            thread::spawn(move || take(&values, 7).is_some())
        };
        let mine = take(&values, 7).is_some();
        let theirs = other.join().expect("no panic");
        assert!(mine != theirs, "one place, and {mine} {theirs}");
        assert_eq!(values.figures().values, 1);
    });
}

/// One slot, two values, and either may be forgotten while it is not limited.
/// Fails if a reader does not compare the key under its pin.
#[test]
fn nobody_takes_of_another_value() {
    nobody_takes_of_another(1, 2);
}

/// Their keys differ in the second word only. Is to fail if a reader does not compare
/// that under its pin.
#[test]
fn nobody_takes_of_another_value_with_a_wide_key() {
    nobody_takes_of_another(1 << 64, 2 << 64);
}

fn nobody_takes_of_another(one: u128, two: u128) {
    model(3, move || {
        let values = table(1, 2);
        give_back(&values, take(&values, one).expect("there is room"));
        let other = {
            let values = Arc::clone(&values);
            thread::spawn(move || take(&values, two))
        };
        let mine = take(&values, one);
        let theirs = other.join().expect("no panic");
        for address in [mine, theirs].into_iter().flatten() {
            if let Some(value) = values.at(address) {
                assert_eq!(value.cell().0.load(Ordering::Acquire), 1);
            }
        }
    });
}

/// One slot, two values: whoever is in it goes only with nothing taken. Fails
/// if the sweep does not look again after closing, or if a pin on a closed slot
/// counts.
#[test]
fn a_value_in_use_is_not_forgotten() {
    model(3, || {
        let values = table(1, 1);
        // It is there, and nobody uses it.
        give_back(&values, take(&values, 1).expect("there is room"));
        let other = {
            let values = Arc::clone(&values);
            thread::spawn(move || take(&values, 2))
        };
        let mine = take(&values, 1);
        let theirs = other.join().expect("no panic");
        assert!(mine.is_some() != theirs.is_some(), "{mine:?} {theirs:?}");
        for (n, taken) in [(1, mine), (2, theirs)] {
            if let Some(address) = taken {
                assert!(take(&values, n).is_none(), "{n} has two places");
                give_back(&values, address);
                assert!(take(&values, n).is_some(), "{n} has lost its place");
            }
        }
    });
}

/// A call ends while the sweep has closed its value to look at it again. Fails
/// if a ticket takes a closed slot for one that has another value.
#[test]
fn a_place_given_back_is_not_lost_while_the_sweep_looks_at_it() {
    model(3, || {
        let values = table(1, 1);
        // It is there, and nobody uses it.
        give_back(&values, take(&values, 1).expect("there is room"));
        let other = {
            let values = Arc::clone(&values);
            thread::spawn(move || take(&values, 2).is_some())
        };
        if let Some(address) = take(&values, 1) {
            give_back(&values, address);
        }
        other.join().expect("no panic");
    });
}

/// Fails if the sweep does not pass by values that it cannot close.
#[test]
fn a_newcomer_passes_by_a_value_that_is_held() {
    model(1, || {
        let values = table(2, 2);
        for n in [1, 2] {
            take(&values, n).expect("there is room");
        }
        // The value that is held is the cooler one, and would be the first to go.
        for _ in 0..4 {
            drop(values.find(key(2)));
        }
        let held = values.find(key(1)).expect("it is there");
        assert!(take(&values, 3).is_some());
        drop(held);
    });
}

/// Two values that can be forgotten, and a call takes the one of which the sweep
/// has just thought so. Fails if the sweep gives up then.
#[test]
fn a_newcomer_has_room_as_long_as_one_value_can_go() {
    model(3, || {
        let values = table(2, 2);
        for n in [1, 2] {
            take(&values, n).expect("there is room");
        }
        let other = {
            let values = Arc::clone(&values);
            thread::spawn(move || take(&values, 1))
        };
        assert!(take(&values, 3).is_some());
        other.join().expect("no panic");
    });
}

/// A limited value is found by everybody at all times, while slots are added
/// and chains are split.
#[test]
fn a_limited_value_stays_while_the_table_grows() {
    model(2, || {
        let values = table(3, 1);
        let held = take(&values, 1).expect("there is room");
        let other = {
            let values = Arc::clone(&values);
            thread::spawn(move || {
                take(&values, 2);
                take(&values, 3);
            })
        };
        assert!(take(&values, 1).is_none());
        other.join().expect("no panic");
        assert!(take(&values, 1).is_none());
        give_back(&values, held);
    });
}

/// A ticket opens its own value or nothing.
#[test]
fn a_late_ticket_finds_its_value_or_nothing() {
    model(3, || {
        let values = table(1, 2);
        let address = take(&values, 1).expect("there is room");
        let other = {
            let values = Arc::clone(&values);
            thread::spawn(move || take(&values, 2))
        };
        if let Some(value) = values.at(address) {
            assert_eq!(value.address(), address);
            value.cell().0.fetch_sub(1, Ordering::AcqRel);
            value.taken_back();
        }
        // If the slot was pinned just then, the newcomer found no room.
        if let Some(theirs) = other.join().expect("no panic") {
            // Nobody has taken anything of the newcomer but itself.
            let value = values.at(theirs).expect("it is in use");
            assert_eq!(value.cell().0.load(Ordering::Acquire), 1);
        }
    });
}

// Three threads.

/// Fails if a value is put in without looking for it again under the lock.
#[test]
fn three_threads_that_see_a_value_first_see_one_value() {
    model(2, || {
        let values = table(3, 1);
        let threads = [(); 2].map(|()| {
            let values = Arc::clone(&values);
            thread::spawn(move || take(&values, 7).is_some())
        });
        let mine = take(&values, 7).is_some();
        let theirs = threads.map(|thread| thread.join().expect("no panic"));
        let all = [mine, theirs[0], theirs[1]];
        assert_eq!(all.iter().filter(|taken| **taken).count(), 1, "{all:?}");
        assert_eq!(values.figures().values, 1);
    });
}

/// One slot, in which a value stands that nobody uses. A call of that value, one
/// that only looks at it and a newcomer are there together: the value or the
/// newcomer has the slot in the end. Fails if the sweep does not look again after
/// closing.
#[test]
fn a_value_that_is_used_and_looked_at_is_not_forgotten() {
    model(2, || {
        let values = table(1, 1);
        give_back(&values, take(&values, 1).expect("there is room"));
        let other = {
            let values = Arc::clone(&values);
            thread::spawn(move || take(&values, 2))
        };
        let looks = {
            let values = Arc::clone(&values);
            thread::spawn(move || drop(values.find(key(1))))
        };
        let mine = take(&values, 1);
        looks.join().expect("no panic");
        let theirs = other.join().expect("no panic");
        assert!(mine.is_some() != theirs.is_some(), "{mine:?} {theirs:?}");
        for (n, taken) in [(1, mine), (2, theirs)] {
            if let Some(address) = taken {
                assert!(take(&values, n).is_none(), "{n} has two places");
                give_back(&values, address);
            }
        }
    });
}

//! Permits and the line for them: two callers and one permit.

use std::task::{Wake, Waker};

use flowgate_core::node::permits::{Permits, Share, Turn};
use flowgate_core::seat::Seat;
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Notify};
use loom::thread;

use super::model;

/// Rung by a waker: loom reports a deadlock if nobody rings.
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.notify();
    }
}

fn wait_for(permits: &Permits, turn: &Turn) {
    let bell = std::sync::Arc::new(Bell(Notify::new()));
    let waker = Waker::from(std::sync::Arc::clone(&bell));
    while !permits.has_come(turn, &waker) {
        bell.0.wait();
    }
}

/// One permit, and a thing that only its holder may touch.
struct Guarded {
    permits: Permits,
    thing: UnsafeCell<u32>,
}

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Guarded {
            permits: Permits::new(),
            thing: UnsafeCell::new(0),
        })
    }

    /// The permit is held; loom sees whether somebody else has it too, or has
    /// had it and not shown what it did.
    fn hold_and_leave(&self, share: Share) {
        self.thing.with_mut(|_| ());
        self.permits.leave(share, 1);
    }

    fn wait_and_hold(&self) {
        let turn = self.permits.line_up(1, 1, 9).expect("the line is short");
        wait_for(&self.permits, &turn);
        self.hold_and_leave(Share::PERMITS);
    }

    fn is_empty(&self) -> bool {
        let Guarded { permits, .. } = self;
        (permits.calls(), permits.permits(), permits.waiting()) == (0, 0, 0)
    }
}

/// Fails if the line is served before the bit is set, and if `leave` does not
/// release.
#[test]
fn who_leaves_while_another_steps_into_the_line_wakes_it() {
    model(3, || {
        let guarded = Guarded::new();
        guarded.permits.try_take(Share::WHOLE, 1, 1).expect("free");
        let other = Arc::clone(&guarded);
        let leaver = thread::spawn(move || other.hold_and_leave(Share::WHOLE));
        guarded.wait_and_hold();
        leaver.join().unwrap();
        assert!(guarded.is_empty());
    });
}

#[test]
fn two_callers_that_wait_have_one_permit_one_after_the_other() {
    model(3, || {
        let guarded = Guarded::new();
        let other = Arc::clone(&guarded);
        let caller = thread::spawn(move || other.wait_and_hold());
        guarded.wait_and_hold();
        caller.join().unwrap();
        assert!(guarded.is_empty());
    });
}

/// Fails if `step_out` does not give back what was granted.
#[test]
fn a_permit_granted_to_a_caller_that_gives_up_goes_to_the_next() {
    model(3, || {
        let guarded = Guarded::new();
        let permits = &guarded.permits;
        permits.try_take(Share::WHOLE, 1, 1).expect("free");
        let dropped = permits.line_up(1, 1, 9).expect("the line is short");
        let next = permits.line_up(1, 1, 9).expect("the line is short");
        let other = Arc::clone(&guarded);
        let leaver = thread::spawn(move || other.hold_and_leave(Share::WHOLE));
        let other = Arc::clone(&guarded);
        let giver = thread::spawn(move || other.permits.step_out(dropped));
        wait_for(permits, &next);
        guarded.hold_and_leave(Share::PERMITS);
        leaver.join().unwrap();
        giver.join().unwrap();
        assert!(guarded.is_empty());
    });
}

/// Fails if a newcomer does not look whether somebody waits.
#[test]
fn a_newcomer_does_not_slip_in_between_leaving_and_handing_on() {
    model(3, || {
        let guarded = Guarded::new();
        guarded.permits.try_take(Share::WHOLE, 1, 1).expect("free");
        let turn = guarded.permits.line_up(1, 1, 9).expect("the line is short");
        let other = Arc::clone(&guarded);
        let leaver = thread::spawn(move || other.hold_and_leave(Share::WHOLE));
        let newcomer = guarded.permits.try_take(Share::WHOLE, 1, 1);
        assert!(newcomer.is_err(), "it was first in line");
        wait_for(&guarded.permits, &turn);
        guarded.hold_and_leave(Share::PERMITS);
        leaver.join().unwrap();
        assert!(guarded.is_empty());
    });
}

#[test]
fn a_newcomer_and_a_waiter_never_have_one_permit_both() {
    model(3, || {
        let guarded = Guarded::new();
        let other = Arc::clone(&guarded);
        let newcomer = thread::spawn(move || {
            if other.permits.try_take(Share::WHOLE, 1, 1).is_ok() {
                other.hold_and_leave(Share::WHOLE);
            }
        });
        guarded.wait_and_hold();
        newcomer.join().unwrap();
        assert!(guarded.is_empty());
    });
}

/// A place, for which nobody waits in line. Fails if who takes it does not
/// acquire, or if places are counted before they are compared.
#[test]
fn three_callers_have_one_place_one_after_the_other_or_are_refused() {
    model(2, || {
        let guarded = Guarded::new();
        let call = |guarded: &Guarded| {
            if guarded.permits.try_enter(1, 1).is_ok() {
                guarded.hold_and_leave(Share::PLACE);
                return 1;
            }
            0
        };
        let callers: Vec<_> = [(); 2]
            .into_iter()
            .map(|()| {
                let guarded = Arc::clone(&guarded);
                thread::spawn(move || call(&guarded))
            })
            .collect();
        let mine = call(&guarded);
        let theirs: u32 = callers.into_iter().map(|c| c.join().unwrap()).sum();
        assert!(mine + theirs >= 1, "somebody was first");
        assert!(guarded.is_empty());
    });
}

fn seat(number: usize) -> Seat {
    Seat::numbered(number).expect("a small number")
}

fn enter_from(permits: &Permits, number: usize) {
    let own = permits.enter_from(Some(seat(number)), 1);
    assert!(own.is_some(), "it has a stripe");
}

/// Fails if what has left and what has entered are one word, or if who leaves does
/// it by a load and a store.
#[test]
fn a_call_that_ends_on_another_thread_is_not_lost_among_the_owners_own() {
    model(3, || {
        let permits = Arc::new(Permits::new());
        enter_from(&permits, 0);
        let other = Arc::clone(&permits);
        let stranger = thread::spawn(move || other.leave_from(seat(0), 1));
        enter_from(&permits, 0);
        assert!((1..=2).contains(&permits.calls()));
        permits.leave_from(seat(0), 1);
        stranger.join().unwrap();
        assert_eq!((permits.calls(), permits.permits()), (0, 0));
    });
}

/// Fails if stripes are read without telling them, or if who leaves one looks at
/// the bit first.
#[test]
fn who_leaves_a_stripe_while_another_steps_into_the_line_wakes_it() {
    model(3, || {
        let guarded = Guarded::new();
        enter_from(&guarded.permits, 0);
        let other = Arc::clone(&guarded);
        let leaver = thread::spawn(move || {
            other.thing.with_mut(|_| ());
            other.permits.leave_from(seat(0), 1);
        });
        guarded.wait_and_hold();
        leaver.join().unwrap();
        assert!(guarded.is_empty());
    });
}

/// There is always one in flight. Fails if stripes are added up one by one, or
/// what has entered is read first.
#[test]
fn a_limited_call_never_finds_room_between_one_that_comes_and_one_that_goes() {
    model(3, || {
        let permits = Arc::new(Permits::new());
        // The first has the stripe that is read first.
        enter_from(&permits, 1);
        permits.leave_from(seat(1), 1);
        enter_from(&permits, 2);
        let other = Arc::clone(&permits);
        let caller = thread::spawn(move || {
            enter_from(&other, 1);
            other.leave_from(seat(2), 1);
        });
        assert!(permits.try_enter(1, 1).is_err());
        caller.join().unwrap();
        assert_eq!(permits.calls(), 1);
        assert_eq!(permits.try_enter(1, 2), Ok(2));
    });
}

//! What each thread counts by itself: the present box of a node.
//!
//! A thread that has a [stripe](crate::striped) of a node counts there, with a
//! load and a store each: passes that nothing limits, refusals, completions and
//! their times. A stripe holds one box, mostly the present one. When its owner
//! comes and the ring's head has moved on, or its own clock has, it *turns*:
//!
//! 1. it *pours* the sums into the shared ring, into the box that they are of; a
//!    box that has left the ring is dropped, as nobody counts it any more;
//! 2. it begins the box of the ring's head, raised to its own clock first.
//!
//! So a call is charged to the head, as by the ring itself: time that goes back
//! stands still. When the box begins and ends is kept in nanoseconds, so that
//! only a turn divides.
//!
//! # Readers
//!
//! A reader adds up the stripes whose box it asks for, and the ring. An amount is
//! poured before its stripe is cleared, and readers look at stripes before they
//! look at the ring (`leap_array::beside`): all is release and acquire, so who
//! finds a stripe cleared finds the ring filled, and nothing is missed. The number
//! of turns of a stripe, odd while one is under way, is stored before anything
//! is poured and after all is: who has read a poured or cleared word sees the odd
//! number, and reads anew.
//!
//! **Rules that decide** on a sum do not wait for that. They may count what is
//! just being poured twice and refuse a call that would have fitted, never admit
//! one that does not. Only passes that nothing limits are in stripes, so that is
//! the case for one box after a rule has come into force, at most.
//! Where no stripe has counted a pass in a span, one load says so: an owner raises
//! the newest box with such passes before it counts its first one there.
//!
//! A pass that nothing limits is charged when it counts: a limit that was added
//! up meanwhile takes it as coming after. Poured into the present box of somebody
//! who is about to take passes, it changes the word that is swapped.
//!
//! # Owners
//!
//! A stripe belongs to a [seat](crate::seat). The next thread on it sees all
//! that the one before has stored, and turns the stripe if need be; until then
//! readers count what is in it as long as its box is asked for.
#![cfg_attr(
    not(loom),
    expect(unreachable_pub, reason = "models reach what only nodes use")
)]

use std::ops::RangeInclusive;

use crate::leap_array::{Beside, LeapArray, at_rest};
use crate::metric::MetricBucket;
use crate::seat::Seat;
use crate::striped::{Own, Striped};
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

use super::sums::Sums;

/// The stripes of a node.
#[derive(Debug, Default)]
pub struct Stripes {
    striped: Striped<Stripe>,
    /// The newest box in which a stripe has counted passes, plus one.
    newest_free: AtomicU64,
}

/// One box as one thread counts it.
#[derive(Debug, Default)]
pub struct Stripe {
    /// Twice the number of turns; odd while one is under way.
    turns: Own,
    number: Own,
    begin_ns: Own,
    end_ns: Own,
    pass: Own,
    block: Own,
    success: Own,
    exception: Own,
    cancelled: Own,
    rt_ns: Own,
    /// The complement of the least response time; 0: there was none.
    rt_least: Own,
    /// The most calls in flight at the node, as noted.
    concurrency_max: Own,
    /// The most of this seat since.
    own_max: Own,
}

impl Stripe {
    /// When a call at `now` is charged.
    #[inline]
    pub fn charged(&self, now: Timestamp) -> Timestamp {
        now.max(Timestamp::from_nanos(self.begin_ns.get()))
    }

    /// The box it holds.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number.get()
    }

    /// Takes passes out again that its owner has just counted.
    pub fn take_back(&self, number: u64, weight: u32) {
        if self.number.get() == number {
            self.pass.set(self.pass.get().saturating_sub(weight.into()));
        }
    }

    /// Counts a refusal.
    #[inline]
    pub fn block(&self, weight: u32) {
        self.block.add(weight.into());
    }

    /// Counts a call that was given up.
    #[inline]
    pub fn cancelled(&self, weight: u32) {
        self.cancelled.add(weight.into());
    }

    /// Counts a call that has ended.
    #[inline]
    pub fn complete(&self, weight: u32, rt_ns: u64, failed: bool, is_least: bool) {
        self.success.add(weight.into());
        self.rt_ns.set(self.rt_ns.get().saturating_add(rt_ns));
        if is_least && !rt_ns > self.rt_least.get() {
            self.rt_least.set(!rt_ns);
        }
        if failed {
            self.exception.add(weight.into());
        }
    }

    /// Whether `own` calls in flight from this seat are more than at any time of
    /// the box so far: then those of the whole node are to be noted.
    #[inline]
    pub fn rises_to(&self, own: u64) -> bool {
        own > self.own_max.get()
    }

    /// Notes that, and the calls in flight at the node.
    #[cold]
    pub fn note_rise(&self, own: u64, in_flight: u64) {
        self.own_max.set(own);
        self.note_concurrency(in_flight);
    }

    /// Notes that `in_flight` calls were in flight at the node.
    #[inline]
    pub fn note_concurrency(&self, in_flight: u64) {
        if in_flight > self.concurrency_max.get() {
            self.concurrency_max.set(in_flight);
        }
    }

    fn sums(&self) -> Sums {
        Sums {
            pass: self.pass.get(),
            block: self.block.get(),
            success: self.success.get(),
            exception: self.exception.get(),
            rt_ns: self.rt_ns.get(),
            occupied_pass: 0,
            cancelled: self.cancelled.get(),
            rt_min_ns: Some(!self.rt_least.get()).filter(|least| *least != u64::MAX),
            concurrency_max: self.concurrency_max.get(),
        }
    }

    fn clear(&self) {
        let counted = [
            &self.pass,
            &self.block,
            &self.success,
            &self.exception,
            &self.cancelled,
            &self.rt_ns,
            &self.rt_least,
            &self.concurrency_max,
            &self.own_max,
        ];
        counted
            .into_iter()
            .filter(|word| word.get() != 0)
            .for_each(|word| word.set(0));
    }
}

impl Stripes {
    /// The stripe of `seat`, as it was left.
    pub fn mine(&self, seat: Option<Seat>) -> Option<&Stripe> {
        self.striped.mine(seat)
    }

    /// Says that passes are counted in this box, before they are.
    #[cold]
    fn first_pass(&self, stripe: &Stripe) {
        let newest = stripe.number.get().saturating_add(1);
        self.newest_free.fetch_max(newest, Ordering::AcqRel);
    }
}

impl Beside for Stripes {
    #[inline]
    fn may_hold(&self, first: u64) -> bool {
        self.newest_free.load(Ordering::Acquire) > first
    }

    #[inline]
    fn passes(&self, first: u64, last: u64) -> u64 {
        if !self.may_hold(first) {
            return 0;
        }
        let counted = |stripe: &&Stripe| (first..=last).contains(&stripe.number.get());
        let stripes = self.striped.iter().filter(counted);
        stripes.map(|stripe| stripe.pass.get()).sum()
    }

    fn moves(&self) -> Option<u64> {
        let mut turns = self.striped.iter().map(|stripe| stripe.turns.get());
        turns.try_fold(0, |all: u64, turns| {
            turns.is_multiple_of(2).then(|| all.wrapping_add(turns))
        })
    }
}

type Ring = LeapArray<MetricBucket>;

/// The stripe of `seat`, which must be the calling thread's, with the box that a
/// call at `now` is charged to.
#[inline]
pub fn present(ring: &Ring, seat: Option<Seat>, now: Timestamp) -> Option<&Stripe> {
    let stripe = ring.beside().striped.mine_or_meet(seat)?;
    let is_present = ring.head() == stripe.number.get() && now.as_nanos() < stripe.end_ns.get();
    if !is_present {
        turn(ring, stripe, now);
    }
    Some(stripe)
}

/// Counts passes that nothing limits, in a stripe that is the caller's.
#[inline]
pub fn pass(ring: &Ring, stripe: &Stripe, weight: u32) {
    let before = stripe.pass.get();
    if before == 0 {
        ring.beside().first_pass(stripe);
    }
    stripe.pass.set(before + u64::from(weight));
}

#[cold]
fn turn(ring: &Ring, stripe: &Stripe, now: Timestamp) {
    let number = ring.observe(now);
    stripe.turns.add(1);
    if stripe.number.get() != number {
        pour(ring, stripe);
        stripe.clear();
        stripe.number.set(number);
    }
    let (begin_ns, end_ns) = ring.bounds_ns(number);
    stripe.begin_ns.set(begin_ns);
    stripe.end_ns.set(end_ns);
    stripe.turns.add(1);
}

fn pour(ring: &Ring, stripe: &Stripe) {
    let window = ring.window(stripe.number.get());
    // False if the box has left the ring.
    if ring.prepare(&window) {
        window.bucket().pour(window.lap(), &stripe.sums());
    }
}

/// Sums over the boxes of these numbers, of the ring and all stripes.
pub fn sums(ring: &Ring, boxes: RangeInclusive<u64>) -> Sums {
    at_rest(ring.beside(), || add_up(ring, &boxes))
}

/// One look at them; an error if something was poured meanwhile.
#[cfg(loom)]
#[allow(missing_docs, clippy::missing_errors_doc, reason = "for models")]
pub fn look(ring: &Ring, boxes: RangeInclusive<u64>) -> Result<Sums, Sums> {
    crate::leap_array::look(ring.beside(), || add_up(ring, &boxes))
}

fn add_up(ring: &Ring, boxes: &RangeInclusive<u64>) -> Sums {
    let mut total = Sums::default();
    let stripes = ring.beside().striped.iter();
    for stripe in stripes.filter(|stripe| boxes.contains(&stripe.number.get())) {
        total.add(&stripe.sums());
    }
    for window in boxes.clone().filter_map(|number| ring.existing(number)) {
        total.add(&Sums::of(&window));
    }
    total
}

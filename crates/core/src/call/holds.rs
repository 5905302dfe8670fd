//! What a call has taken so far, and how it goes back.

use std::time::Duration;

use smallvec::SmallVec;

use crate::leap_array::{Loan, Taken};
use crate::node::permits::{Crowded, Share};
use crate::node::{Interval, Node, Passing, View};
use crate::seat::Seat;
use crate::time::Timestamp;

use super::{Nodes, PLACES, Place};

/// What a call has taken of one node's passes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Hold {
    /// Nothing.
    #[default]
    Nothing,
    /// Passes of the present window.
    Passed(Taken),
    /// Passes of a window to come.
    Loaned(Loan),
}

/// A note that a slot leaves for itself, to be able to give back or to report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// Which slot wrote it: [`Call::slot`](super::Call::slot) at the time.
    pub slot: u16,
    /// Which of the slot's rules.
    pub rule: u32,
    /// The slot's own business.
    pub data: [u64; 3],
}

/// How many tickets a call keeps in place; a resource with more pacing rules
/// and breakers than that costs an allocation per call.
pub const TICKETS_INLINE: usize = 4;

/// In how many views that rules asked for a call is counted without an
/// allocation: in a minute, an hour and a day of its resource, say, and in one
/// of its origin.
const VIEWS_INLINE: usize = 4;

/// Passes taken of a view that rules asked for. Every call has room for some of
/// these, so the interval is taken apart: that leaves 32 bytes.
#[derive(Clone, Copy, Debug)]
struct ViewHold {
    taken: Taken,
    interval_ms: u32,
    boxes: u16,
    place: u8,
}

impl ViewHold {
    fn new(place: u8, interval: Interval, taken: Taken) -> Self {
        let (interval_ms, boxes) = interval.parts();
        ViewHold {
            taken,
            interval_ms,
            boxes,
            place,
        }
    }
}

/// From which seat a call is in flight, and at which of its nodes: at the others
/// its share is of the word that all share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seats {
    /// A call arrives on one thread, so it is the same at all nodes.
    seat: Option<Seat>,
    places: u8,
}

impl Seats {
    /// Of a call that is in flight from `seat` at `place`, and at no other node.
    #[inline]
    pub(super) fn of(place: Place, seat: Option<Seat>) -> Self {
        let mut seats = Seats::default();
        seats.note(place as usize, seat);
        seats
    }

    /// Notes where the call is in flight at the node of place `at`.
    #[inline]
    fn note(&mut self, at: usize, seat: Option<Seat>) {
        if seat.is_some() {
            self.seat = seat;
            self.places |= 1 << at;
        }
    }

    /// From which seat it is in flight at the node of place `at`.
    #[inline]
    pub fn at(self, at: usize) -> Option<Seat> {
        self.seat.filter(|_| self.places & (1 << at) != 0)
    }
}

/// All that a call has taken so far.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    pass: [Hold; PLACES],
    views: SmallVec<[ViewHold; VIEWS_INLINE]>,
    in_flight: [Share; PLACES],
    /// Where those are in flight that hold a whole share.
    pub seats: Seats,
    /// Whether the call may be given up after it was admitted, though it need not
    /// wait: then all that it takes can be given back, on whatever thread.
    pub may_give_up: bool,
    /// Notes of slots, in the order of the checks. [`TICKETS_INLINE`] are
    /// kept in place.
    pub tickets: SmallVec<[Ticket; TICKETS_INLINE]>,
    /// The longest wait asked for.
    pub wait: Duration,
    /// Whether the passes are to be counted when the wait has ended.
    pub pass_is_due: bool,
    /// When the call is charged: its clock reading, or the beginning of the
    /// newer window that its passes were counted in.
    pub charged: Timestamp,
    wait_slot: u16,
    wait_rule: u32,
    queued_for: Option<(u16, u32)>,
    excluded: u64,
}

impl Holds {
    /// What was taken at `place`.
    #[inline]
    pub fn pass(&self, place: Place) -> Hold {
        self.pass[place as usize]
    }

    /// What was taken in flight at `place`.
    #[inline]
    pub fn in_flight(&self, place: Place) -> Share {
        self.in_flight[place as usize]
    }

    /// Notes that passes were taken at `place`.
    #[inline]
    pub fn set_pass(&mut self, place: Place, hold: Hold) {
        self.pass[place as usize] = hold;
    }

    /// What was taken of `view` at `place`.
    #[inline]
    pub fn pass_in(&self, place: Place, view: View<'_>) -> Hold {
        let View::Own { interval, .. } = view else {
            return self.pass(place);
        };
        let mut views = self.views.iter();
        let wanted = (place as u8, interval.parts());
        let found = views.find(|held| (held.place, (held.interval_ms, held.boxes)) == wanted);
        found.map_or(Hold::Nothing, |held| Hold::Passed(held.taken))
    }

    /// Notes that passes of `view` were reserved at `place`, which held none.
    #[inline]
    pub fn set_taken_in(&mut self, place: Place, view: View<'_>, taken: Taken) {
        match view {
            View::Second => self.set_pass(place, Hold::Passed(taken)),
            View::Own { interval, .. } => {
                self.views.push(ViewHold::new(place as u8, interval, taken));
            }
        }
    }

    /// Notes that `share` was taken in flight at `place`.
    #[inline]
    pub fn add_in_flight(&mut self, place: Place, share: Share) {
        let held = &mut self.in_flight[place as usize];
        held.place |= share.place;
        held.permits |= share.permits;
    }

    /// Notes that `rule` of slot `slot` asks for a wait; the longest is kept.
    #[inline]
    pub fn wait_for(&mut self, slot: u16, rule: u32, wait: Duration) {
        if wait > self.wait {
            self.wait = wait;
            self.wait_slot = slot;
            self.wait_rule = rule;
        }
    }

    /// The slot, and its rule, that asked for the longest wait.
    pub fn waits_for(&self) -> (u16, u32) {
        (self.wait_slot, self.wait_rule)
    }

    /// What a call holds that has waited for permits of its resource because
    /// `rule` of slot `slot` said so: the permits, and nothing else yet.
    pub fn granted(slot: u16, rule: u32) -> Self {
        let mut holds = Holds {
            queued_for: Some((slot, rule)),
            ..Holds::default()
        };
        holds.add_in_flight(Place::Resource, Share::PERMITS);
        holds.may_give_up = true;
        holds
    }

    /// The slot, and its rule, that had the call wait for permits.
    pub fn queued_for(&self) -> Option<(u16, u32)> {
        self.queued_for
    }

    /// Notes that slot `slot` has failed on this call and is not to hear of it
    /// again. A chain has at most 64 slots.
    pub fn exclude(&mut self, slot: u16) {
        self.excluded |= 1 << (slot % 64);
    }

    /// One bit for each slot that has failed on this call.
    #[inline]
    pub fn excluded(&self) -> u64 {
        self.excluded
    }

    /// Gives back all that a call of this weight has taken on `nodes`.
    pub fn release(&mut self, nodes: &Nodes<'_>, weight: u32) {
        for held in self.views.drain(..) {
            if let Some(node) = nodes.all[usize::from(held.place)] {
                node.give_back(Hold::Passed(held.taken));
            }
        }
        for (at, node) in nodes.iter() {
            node.give_back(std::mem::take(&mut self.pass[at]));
            match std::mem::take(&mut self.in_flight[at]) {
                Share::NOTHING => {}
                Share::WHOLE => node.leave_from(self.seats.at(at), weight),
                share => node.leave(share, weight),
            }
        }
    }

    /// Admits the call: a place in flight and its permits on every node, and the
    /// passes where they belong.
    ///
    /// * Borrowed anywhere: booked on every node, for the latest window.
    /// * Reserved anywhere, or no wait: counted on every node now.
    /// * Otherwise the call waits, and its pass is due when the wait ends: see
    ///   [`Holds::go_ahead`].
    ///
    /// Views that rules asked for count it when the minute does: a borrowed
    /// pass too at once.
    ///
    /// # Errors
    ///
    /// [`Crowded`], if there are more calls in flight than can be counted; what
    /// was taken up to then is held, and to be [released](Holds::release).
    #[inline]
    pub fn admit(&mut self, nodes: &Nodes<'_>, now: Timestamp, weight: u32) -> Result<(), Crowded> {
        let loaned = self.pass.iter().filter_map(|hold| match hold {
            Hold::Loaned(loan) => Some(loan.window()),
            _ => None,
        });
        let loaned = loaned.max();
        let reserved =
            !self.views.is_empty() || self.pass.iter().any(|hold| *hold != Hold::Nothing);
        self.pass_is_due = !reserved && !self.wait.is_zero();
        let counts_now = loaned.is_none() && !self.pass_is_due;
        // Who waits may give up, and so may whoever says when it goes ahead.
        let passing = match self.may_give_up || !self.wait.is_zero() {
            true => Passing::ForNow,
            false => Passing::Now,
        };
        self.charged = now;
        for (at, node) in nodes.iter() {
            let passing = match self.pass[at] {
                Hold::Nothing if counts_now => passing,
                _ => Passing::Not,
            };
            let arrived = node.arrive(now, weight, self.in_flight[at], passing)?;
            self.in_flight[at] = Share::WHOLE;
            self.seats.note(at, arrived.seat);
            match (passing, self.pass[at]) {
                (Passing::Not, Hold::Passed(taken)) => {
                    self.charged = self.charged.max(node.counted_at(taken));
                }
                (Passing::Not, _) => {}
                _ => {
                    self.charged = self.charged.max(arrived.charged);
                    self.pass[at] = arrived.pass;
                }
            }
            if !self.pass_is_due {
                self.count_in_views(at, node, now, weight);
            }
        }
        if let Some(window) = loaned {
            self.book(nodes, now, weight, window);
        }
        Ok(())
    }

    /// The wait has ended, at `now`: counts the passes that are due.
    pub fn go_ahead(&mut self, nodes: &Nodes<'_>, now: Timestamp, weight: u32) {
        for (at, node) in nodes.iter() {
            if let Hold::Loaned(loan) = self.pass[at] {
                node.go_ahead(now, loan);
            }
        }
        if !std::mem::take(&mut self.pass_is_due) {
            return;
        }
        for (at, node) in nodes.iter() {
            if self.pass[at] == Hold::Nothing {
                self.pass[at] = Hold::Passed(node.pass(now, weight));
            }
            self.count_in_views(at, node, now, weight);
        }
    }

    /// Counts the call in those views of `node` that it has reserved nothing of.
    #[inline]
    fn count_in_views(&mut self, at: usize, node: &Node, now: Timestamp, weight: u32) {
        let place = at as u8;
        let views = &mut self.views;
        let latest = node.count_in_views(now, weight, |ring, interval, pass| {
            let is_held = |held: &&ViewHold| held.place == place && held.taken.ring() == ring;
            if let Some(held) = views.iter().find(is_held) {
                return held.taken;
            }
            let taken = pass();
            views.push(ViewHold::new(place, interval, taken));
            taken
        });
        self.charged = self.charged.max(latest);
    }

    #[cold]
    fn book(&mut self, nodes: &Nodes<'_>, now: Timestamp, weight: u32, window: u64) {
        for (at, node) in nodes.iter() {
            // The wait began at the newest reading that the ring had seen.
            let asked = node.begin_of(window) - self.wait;
            self.charged = self.charged.max(asked);
            // Booked anew before the old hold goes: in between the call counts
            // twice, never not at all.
            let booked = node.book(now, weight, window);
            node.give_back(std::mem::replace(&mut self.pass[at], Hold::Loaned(booked)));
        }
    }
}

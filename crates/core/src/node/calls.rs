//! Calls that come, end, or are refused.

use std::time::Duration;

use crate::call::Hold;
use crate::leap_array::Taken;
use crate::metric::MetricEvent;
use crate::seat::Seat;
use crate::sync::Ordering;
use crate::time::Timestamp;

use super::permits::{Crowded, Permits, Share};
use super::stripes::{self, Stripe};
use super::{Counts, Node};

/// How the pass of a call that arrives is to be counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passing {
    /// Not at all: it is counted already, or will be later.
    Not,
    /// Now, for good.
    Now,
    /// Now, and it may be given back later, on whatever thread.
    ForNow,
}

/// A call has arrived.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arrived {
    /// From which seat it is in flight; `None`: its share is of the word that all
    /// share.
    pub seat: Option<Seat>,
    /// Its pass, if it was to be counted.
    pub pass: Hold,
    /// When it is charged: its clock reading, or the beginning of the newer box
    /// that its pass was counted in.
    pub charged: Timestamp,
}

impl Node {
    /// A call arrives that holds `held` in flight by now: it gets the rest of its
    /// share, and its pass is counted as `passing` says.
    ///
    /// # Errors
    ///
    /// [`Crowded`], if there are more in flight than can be counted; then it has
    /// taken nothing.
    #[inline(always)]
    pub fn arrive(
        &self,
        now: Timestamp,
        weight: u32,
        held: Share,
        passing: Passing,
    ) -> Result<Arrived, Crowded> {
        self.settle_early(now);
        let counts = self.counts();
        let mine = Seat::mine();
        let stripe = stripes::present(&counts.ring, mine, now);
        let seat = match stripe {
            Some(stripe) if held == Share::NOTHING => counts.enter_from(mine, weight, stripe),
            _ => None,
        };
        if seat.is_none() {
            counts.enter_shared(now, held, weight, stripe)?;
        }
        let (pass, charged) = match (passing, stripe) {
            (Passing::Not, _) => (Hold::Nothing, now),
            (Passing::Now, Some(stripe)) => {
                stripes::pass(&counts.ring, stripe, weight);
                let taken = Taken::beside(stripe.number(), weight);
                (Hold::Passed(taken), stripe.charged(now))
            }
            _ => {
                let taken = self.pass(now, weight);
                (Hold::Passed(taken), now.max(self.counted_at(taken)))
            }
        };
        Ok(Arrived {
            seat,
            pass,
            charged,
        })
    }

    /// Counts a refusal.
    #[inline]
    pub fn block(&self, now: Timestamp, weight: u32) {
        match self.stripe(now) {
            Some(stripe) => stripe.block(weight),
            None => self.report(now, MetricEvent::Block, weight.into()),
        }
    }

    /// Counts a call that was given up.
    pub fn cancelled(&self, now: Timestamp, weight: u32) {
        match self.stripe(now) {
            Some(stripe) => stripe.cancelled(weight),
            None => self.report(now, MetricEvent::Cancelled, weight.into()),
        }
    }

    /// Counts a call that has ended after `rt`. The least response time is left
    /// to the twin of a call that has one: see [`Node::twin_for`].
    #[inline]
    pub fn complete(&self, now: Timestamp, weight: u32, rt: Duration, failed: bool, twin: bool) {
        let rt_ns = u64::try_from(rt.as_nanos()).unwrap_or(u64::MAX);
        self.complete_ns(now, weight, rt_ns, failed, twin);
    }

    /// The same, with the response time in nanoseconds.
    #[inline]
    pub fn complete_ns(&self, now: Timestamp, weight: u32, rt_ns: u64, failed: bool, twin: bool) {
        if let Some(stripe) = self.stripe(now) {
            stripe.complete(weight, rt_ns, failed, !twin);
            return;
        }
        let mut window = self.ring().current(now);
        window.add(MetricEvent::Success, weight.into());
        window.add(MetricEvent::ResponseTime, rt_ns);
        if !twin {
            window.note_rt_min(rt_ns);
        }
        if failed {
            window.add(MetricEvent::Exception, weight.into());
        }
    }

    /// The calling thread's own stripe, if it has one. Somebody has come at `now`.
    #[inline]
    fn stripe(&self, now: Timestamp) -> Option<&Stripe> {
        self.settle_early(now);
        stripes::present(self.ring(), Seat::mine(), now)
    }

    #[cold]
    fn report(&self, now: Timestamp, event: MetricEvent, n: u64) {
        self.ring().current(now).add(event, n);
    }

    // In flight.

    /// A call comes in that nothing limits, or takes the rest of what it does
    /// not hold yet; returns how many are in flight now.
    ///
    /// # Errors
    ///
    /// [`Crowded`], if there are more than can be counted.
    #[inline]
    pub fn enter(&self, held: Share, weight: u32) -> Result<u64, Crowded> {
        self.permits().enter(held.rest(), weight)
    }

    /// One place in flight, if `weight` places are free under `limit`.
    ///
    /// # Errors
    ///
    /// How many calls are in flight, if there is no room.
    #[inline]
    pub fn try_enter(&self, weight: u32, limit: u64) -> Result<u64, u64> {
        self.permits().try_enter(weight, limit)
    }

    /// What a call holds of the shared word goes back.
    #[inline]
    pub fn leave(&self, held: Share, weight: u32) {
        self.permits().leave(held, weight);
    }

    /// A call that has [arrived](Arrived::seat) from `seat` is no longer in
    /// flight.
    #[inline]
    pub fn leave_from(&self, seat: Option<Seat>, weight: u32) {
        match seat {
            Some(seat) => self.permits().leave_from(seat, weight),
            None => self.leave(Share::WHOLE, weight),
        }
    }

    /// The permits of the calls in flight, and the line of those that wait.
    #[inline]
    pub fn permits(&self) -> &Permits {
        &self.counts().permits
    }

    /// A call of this node steps into the line of its resource.
    pub fn queue_up(&self) {
        // Relaxed: a figure for people.
        self.counts().queued.fetch_add(1, Ordering::Relaxed);
    }

    /// A call of this node is out of that line.
    pub fn queue_off(&self) {
        self.counts().queued.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counts {
    /// A call comes in flight from the stripe of `mine`, if that counts it.
    #[inline]
    fn enter_from(&self, mine: Option<Seat>, weight: u32, stripe: &Stripe) -> Option<Seat> {
        let own = self.permits.enter_from(mine, weight)?;
        if stripe.rises_to(own) {
            stripe.note_rise(own, self.permits.calls());
        }
        mine
    }

    /// A call takes what it does not hold yet of the shared word.
    fn enter_shared(
        &self,
        now: Timestamp,
        held: Share,
        weight: u32,
        stripe: Option<&Stripe>,
    ) -> Result<(), Crowded> {
        let in_flight = match held {
            Share::WHOLE => self.permits.calls(),
            _ => self.permits.enter(held.rest(), weight)?,
        };
        match stripe {
            Some(stripe) => stripe.note_concurrency(in_flight),
            None => self.ring.current(now).note_concurrency(in_flight),
        }
        Ok(())
    }
}

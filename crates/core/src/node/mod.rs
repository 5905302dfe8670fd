//! A node: the statistics of one resource, or of one origin or context of it.
//!
//! All views of a node read one ring of boxes. The *second view* (by default
//! two windows of 500 ms) is what rules compare with; the *minute view* is the
//! last 60 whole seconds. The boxes are as long as the greatest length that
//! divides both a window of the second view and one second, so each event is
//! written once.
//!
//! Rules that count over an interval of their own ask for further [`views`].
//!
//! Counters are shared by all threads as long as these hardly meet; where they
//! do, reports are spread over a ring per processor.
//!
//! A node is small until it is used: what it counts with is made by the first
//! call, and reading it makes nothing.
//!
//! A node outlives the rules: a rule that is raised or lowered in mid-window
//! sees what has already passed.

mod account;
mod counters;
mod figures;
mod idle;
pub mod permits;
mod settings;
pub mod views;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::call::{Hold, Traffic};
use crate::leap_array::{BorrowRefused, Borrowed, Full, LeapArray, Loan, Taken, Window};
use crate::leap_array::{Lease, Leases};
use crate::metric::{MetricBucket, MetricEvent};
use crate::striped::Striped;
use crate::sync::{AtomicU8, AtomicU64, OnceLock, Ordering};
use crate::time::Timestamp;

pub use account::{BoxSums, Throughput};
pub use figures::{NodeSnapshot, RawFigures};
pub use settings::NodeSettings;
pub use views::{Interval, View};

use counters::Counters;
use figures::{Figures, least};
use permits::{Crowded, Permits, Share};
use settings::{MINUTE_SECONDS, SECOND_NS};
use views::Views;

/// The statistics of one resource, origin or context.
#[derive(Debug)]
pub struct Node {
    settings: Arc<NodeSettings>,
    /// The direction of the first call; see [`Node::twin_for`].
    direction: AtomicU8,
    /// Made on first use: most resources of a large registry are idle.
    counts: OnceLock<Box<Counts>>,
}

/// What a node that was used has counted.
#[derive(Debug)]
struct Counts {
    counters: Counters,
    borrowed: Borrowed,
    /// What threads have reserved of the second view in advance.
    leases: Striped<Lease>,
    views: Views,
    permits: Permits,
    /// Calls of this node that stand in the line of their resource.
    queued: AtomicU64,
    twin: OnceLock<Box<Node>>,
}

const UNDECIDED: u8 = 0;
const INBOUND: u8 = 1;
const OUTBOUND: u8 = 2;
/// Beside one of these: no call has come since, see [`idle`].
const RESTING: u8 = 0x80;

impl Node {
    /// A node that has counted nothing.
    pub fn new(settings: &Arc<NodeSettings>) -> Self {
        Node {
            settings: Arc::clone(settings),
            direction: AtomicU8::new(UNDECIDED),
            counts: OnceLock::new(),
        }
    }

    /// What it counts with, made now if it is the first use.
    #[inline]
    fn counts(&self) -> &Counts {
        match self.counts.get() {
            Some(counts) => counts,
            None => self.make_counts(),
        }
    }

    #[cold]
    fn make_counts(&self) -> &Counts {
        (self.counts).get_or_init(|| Box::new(Counts::new(&self.settings)))
    }

    /// The same for those who only read: a node that was never used has counted
    /// nothing, and need not be made for that.
    #[inline]
    fn known(&self) -> Option<&Counts> {
        self.counts.get().map(|counts| &**counts)
    }

    fn twin(&self) -> Option<&Node> {
        self.known()?.twin.get().map(|twin| &**twin)
    }

    /// Where a call of this direction is counted in addition.
    ///
    /// Nearly every resource is called in one direction only, so the inbound
    /// total is a sum over resources whose first call was inbound, and costs
    /// calls nothing. A resource that is called both ways counts the direction
    /// that came second in a twin as well; the total is taken apart by it. Least
    /// values cannot be taken apart, so those of such calls are in the twin alone.
    #[inline]
    pub fn twin_for(&self, traffic: Traffic) -> Option<&Node> {
        let mine = match traffic {
            Traffic::Inbound => INBOUND,
            Traffic::Outbound => OUTBOUND,
        };
        // Relaxed: only its own value matters. Every call looks here: that is how
        // a node knows that calls still come.
        let first = self.direction.load(Ordering::Relaxed);
        if first == mine {
            return None;
        }
        self.settle_direction(mine)
    }

    #[cold]
    fn settle_direction(&self, mine: u8) -> Option<&Node> {
        let settle = |found: u8| match found & !RESTING {
            UNDECIDED => Some(mine),
            first => (found != first).then_some(first),
        };
        let found = self
            .direction
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, settle);
        match found.unwrap_or_else(|found| found) & !RESTING {
            UNDECIDED => None,
            first if first == mine => None,
            _ => {
                let twin = &self.counts().twin;
                Some(twin.get_or_init(|| Box::new(Node::new(&self.settings))))
            }
        }
    }

    /// The direction of the first call.
    fn first_direction(&self) -> u8 {
        // Relaxed: set once, but for the mark, and only its own value matters.
        self.direction.load(Ordering::Relaxed) & !RESTING
    }

    // Admission.

    /// Counts passes that nothing limits.
    #[inline]
    pub fn pass(&self, now: Timestamp, weight: u32) -> Taken {
        self.settle_early(now);
        self.ring().pass(now, weight)
    }

    /// The beginning of the box that passes were counted in.
    #[inline]
    pub fn counted_at(&self, taken: Taken) -> Timestamp {
        Timestamp::from_nanos(taken.number().saturating_mul(self.settings.box_ns))
    }

    /// When window `window` of the second view begins.
    pub(crate) fn begin_of(&self, window: u64) -> Timestamp {
        let window_ns = self.settings.second.group() * self.settings.box_ns;
        Timestamp::from_nanos(window.saturating_mul(window_ns))
    }

    /// Takes `weight` passes of the second view if it then holds no more than
    /// `limit`, in one atomic step. The sum that comes with them is what calls
    /// have passed, and what was taken in advance meanwhile.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room; nothing has changed then.
    #[inline]
    pub fn reserve(&self, now: Timestamp, weight: u32, limit: u64) -> Result<Taken, Full> {
        self.reclaim();
        let (span, borrowed) = (self.settings.second, Some(&self.counts().borrowed));
        self.ring().reserve(now, weight, span, limit, borrowed)
    }

    /// The same for a limit that does not move, where nobody asks how many have
    /// passed: where threads meet, a call may be one for which its thread has
    /// reserved in advance. The sum that comes with it may be the limit.
    ///
    /// # Errors
    ///
    /// As [`Node::reserve`].
    #[inline]
    pub fn take(&self, now: Timestamp, weight: u32, limit: u64) -> Result<Taken, Full> {
        let Counts {
            counters,
            borrowed,
            leases,
            ..
        } = self.counts();
        let span = self.settings.second;
        counters
            .shared()
            .reserve_leased(now, weight, span, limit, borrowed, leases)
    }

    /// Has back what was reserved in advance, and not used; whether there was any.
    #[inline]
    fn reclaim(&self) -> bool {
        let Counts {
            counters, leases, ..
        } = self.counts();
        leases.is_spread() && counters.shared().reclaim(leases, |_| true)
    }

    /// Whether [`Node::reserve`] would find room for a call that holds `own` here
    /// by now: what it has taken, it does not ask for again. Takes nothing, and
    /// says what others have passed.
    ///
    /// # Errors
    ///
    /// [`Full`] as there.
    pub fn probe(&self, now: Timestamp, weight: u32, limit: u64, own: Hold) -> Result<(), Full> {
        let (taken, loan) = match own {
            Hold::Nothing => (0, None),
            Hold::Passed(taken) => (taken.amount(), None),
            Hold::Loaned(loan) => (0, Some(loan)),
        };
        let (span, borrowed) = (self.settings.second, Some(&self.counts().borrowed));
        let more = weight.saturating_sub(taken);
        let probe = || self.ring().probe(now, more, span, limit, borrowed, loan);
        let probed = match probe() {
            Err(_) if self.reclaim() => probe(),
            probed => probed,
        };
        probed.map_err(|full| Full {
            sum: full.sum.saturating_sub(u64::from(taken)),
            ..full
        })
    }

    /// Whether passes of windows to come are on loan.
    #[inline]
    pub fn lends_ahead(&self, now: Timestamp) -> bool {
        self.ring()
            .lends_ahead(now, self.settings.second, &self.counts().borrowed)
    }

    /// Borrows `weight` passes from the first window to come that has room.
    ///
    /// # Errors
    ///
    /// [`BorrowRefused`] if none has, within the time limit for borrowing.
    pub fn borrow(
        &self,
        now: Timestamp,
        weight: u32,
        limit: u64,
    ) -> Result<(Loan, Duration), BorrowRefused> {
        let wait_max = self.settings.borrow_wait_max;
        self.reclaim();
        self.ring().borrow(
            now,
            weight,
            self.settings.second,
            limit,
            wait_max,
            &self.counts().borrowed,
        )
    }

    /// Whether [`Node::borrow`] would find a window; takes nothing.
    pub fn may_borrow(&self, now: Timestamp, weight: u32, limit: u64) -> bool {
        self.reclaim();
        self.ring().may_borrow(
            now,
            weight,
            self.settings.second,
            limit,
            self.settings.borrow_wait_max,
            &self.counts().borrowed,
        )
    }

    /// Books a borrowed pass in `window` of the second view, and in the minute
    /// view at once.
    pub fn book(&self, now: Timestamp, weight: u32, window: u64) -> Loan {
        let mut present = self.present(now);
        present.add(MetricEvent::OccupiedPass, u64::from(weight));
        self.ring()
            .book(&self.counts().borrowed, window, weight)
            .counted_in(present.number())
    }

    /// A borrower goes ahead at `now`, which should not be before its window
    /// begins.
    pub fn go_ahead(&self, now: Timestamp, loan: Loan) {
        if !self
            .ring()
            .until(now, self.settings.second, loan.window())
            .is_zero()
        {
            self.counts().borrowed.go_early(loan);
        }
    }

    /// Gives back what a call held.
    #[inline]
    pub fn give_back(&self, hold: Hold) {
        match hold {
            Hold::Nothing => {}
            Hold::Passed(taken) if taken.ring() == 0 => self.ring().give_back(taken),
            Hold::Passed(taken) => self.give_back_in_view(taken),
            Hold::Loaned(loan) => {
                if let Some((number, amount)) = loan.count() {
                    let counted = self.ring().existing(number);
                    counted
                        .iter()
                        .for_each(|w| w.take_out_occupied(u64::from(amount)));
                }
                self.ring().repay(&self.counts().borrowed, loan);
            }
        }
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
        self.counts().permits.enter(held.rest(), weight)
    }

    /// One place in flight, if `weight` places are free under `limit`.
    ///
    /// # Errors
    ///
    /// How many calls are in flight, if there is no room.
    #[inline]
    pub fn try_enter(&self, weight: u32, limit: u64) -> Result<u64, u64> {
        self.counts().permits.try_enter(weight, limit)
    }

    /// What a call holds in flight goes back.
    #[inline]
    pub fn leave(&self, held: Share, weight: u32) {
        self.counts().permits.leave(held, weight);
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

    // Reports.

    /// Counts a refusal.
    #[inline]
    pub fn block(&self, now: Timestamp, weight: u32) {
        self.settle_early(now);
        self.counts().counters.report(now, |window| {
            window.add(MetricEvent::Block, u64::from(weight))
        });
    }

    /// Counts a call that was given up.
    pub fn cancelled(&self, now: Timestamp, weight: u32) {
        self.settle_early(now);
        self.counts().counters.report(now, |window| {
            window.add(MetricEvent::Cancelled, u64::from(weight))
        });
    }

    /// Counts a call that has ended after `rt`. The least response time is left
    /// to the twin of a call that has one: see [`Node::twin_for`].
    #[inline]
    pub fn complete(&self, now: Timestamp, weight: u32, rt: Duration, failed: bool, twin: bool) {
        let rt_ns = u64::try_from(rt.as_nanos()).unwrap_or(u64::MAX);
        self.settle_early(now);
        self.counts().counters.report(now, |window| {
            let met = window.add(MetricEvent::Success, u64::from(weight));
            window.add(MetricEvent::ResponseTime, rt_ns);
            if !twin {
                window.note_rt_min(rt_ns);
            }
            if failed {
                window.add(MetricEvent::Exception, u64::from(weight));
            }
            met
        });
    }

    /// A call has arrived and is the `in_flight`th at once: counts its passes,
    /// if `weight` is given.
    #[inline]
    pub fn arrive(&self, now: Timestamp, in_flight: u64, weight: Option<u32>) -> Option<Taken> {
        let mut present = self.present(now);
        present.note_concurrency(in_flight);
        let weight = weight?;
        Some(
            present
                .pass(weight)
                .unwrap_or_else(|| self.pass(now, weight)),
        )
    }

    /// The ring that passes are counted in.
    #[inline]
    fn ring(&self) -> &LeapArray<MetricBucket> {
        self.counts().counters.shared()
    }

    /// The present window of that ring.
    #[inline]
    fn present(&self, now: Timestamp) -> Window<'_, MetricBucket> {
        let present = self.ring().current(now);
        if self.counts().borrowed.has_early() {
            self.counts()
                .borrowed
                .settle(self.settings.second.window(present.number()));
        }
        present
    }

    /// Somebody has come at `now`.
    #[inline]
    fn settle_early(&self, now: Timestamp) {
        if self.counts().borrowed.has_early() {
            self.present(now);
        }
    }

    // Reading.

    /// Calls in flight.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.known().map_or(0, |counts| counts.permits.calls())
    }

    /// Calls that wait for permits of their resource.
    pub fn queued(&self) -> u64 {
        (self.known()).map_or(0, |counts| counts.queued.load(Ordering::Relaxed))
    }

    /// Whether any call has ever come here.
    pub fn was_used(&self) -> bool {
        self.first_direction() != UNDECIDED
    }

    /// Passes in the second view.
    pub fn passes_in_second(&self, now: Timestamp) -> u64 {
        let Some(counts) = self.known() else {
            return 0;
        };
        let (span, borrowed) = (self.settings.second, Some(&counts.borrowed));
        let head = self.present(now).number();
        let boxes = span.first(head, 0)..=head;
        let counted = || self.ring().passes_in(now, span, borrowed);
        counts.leases.used(&boxes, counted)
    }

    /// Passes in the calendar second before the one of `now`, those admitted on
    /// loan in it included.
    pub fn passes_in_previous_second(&self, now: Timestamp) -> u64 {
        if self.known().is_none() {
            return 0;
        }
        let now = self.ring().charged(now);
        let Some(previous) = now.as_secs().checked_sub(1) else {
            return 0;
        };
        let figures = self.figures(
            now,
            Seconds {
                first: previous,
                last: previous,
            },
        );
        figures.pass + figures.occupied_pass
    }

    /// All figures at `now`.
    pub fn snapshot(&self, now: Timestamp) -> NodeSnapshot {
        self.raw(now).snapshot(&self.settings)
    }

    /// The inbound calls' part of all figures at `now`, if there were any.
    pub fn inbound(&self, now: Timestamp) -> Option<RawFigures> {
        let twin = self.twin().map(|twin| twin.own_raw(now));
        match (self.first_direction(), twin) {
            (INBOUND, None) => Some(self.own_raw(now)),
            (INBOUND, Some(outbound)) => Some(self.own_raw(now).without(&outbound)),
            (_, twin) => twin,
        }
    }

    fn raw(&self, now: Timestamp) -> RawFigures {
        let mut raw = self.own_raw(now);
        if let Some(twin) = self.twin() {
            // Calls of a twin are in this node's counts already.
            let twin = twin.own_raw(now);
            raw.second.rt_min_ns = least(raw.second.rt_min_ns, twin.second.rt_min_ns);
        }
        raw
    }

    fn own_raw(&self, now: Timestamp) -> RawFigures {
        if self.known().is_none() {
            return RawFigures::default();
        }
        let head = self.present(now).number();
        // All views at one moment, also when the reading is behind the newest.
        let now = self.ring().charged(now);
        let span = self.settings.second;
        let second = self.sum(span.first(head, 0)..=head);
        let secs = now.as_secs();
        let first = (secs + 1).saturating_sub(MINUTE_SECONDS);
        let previous = secs.checked_sub(1).map(|s| Seconds { first: s, last: s });
        RawFigures {
            second,
            borrowed: self.counts().borrowed.begun(span, head),
            minute: self.figures(now, Seconds { first, last: secs }),
            previous: previous.map(|s| self.figures(now, s)).unwrap_or_default(),
            in_flight: self.in_flight(),
            permits: self.counts().permits.permits(),
            queued: self.queued(),
            waiting: self.counts().borrowed.waiting(span, head),
        }
    }

    fn figures(&self, now: Timestamp, seconds: Seconds) -> Figures {
        let head = self.present(now).number();
        let per_second = SECOND_NS / self.settings.box_ns;
        let first = seconds.first * per_second;
        let last = ((seconds.last + 1) * per_second - 1).min(head);
        if first > last {
            Figures::default()
        } else {
            self.sum(first..=last)
        }
    }

    fn sum(&self, boxes: RangeInclusive<u64>) -> Figures {
        let mut total = Figures::default();
        let Some(counts) = self.known() else {
            return total;
        };
        for window in counts.counters.windows(boxes.clone()) {
            total.add(&Figures::of(&window));
        }
        if counts.leases.is_spread() {
            let passes = |window: Window<'_, MetricBucket>| window.get(MetricEvent::Pass);
            let counted = || counts.counters.windows(boxes.clone()).map(passes).sum();
            total.pass = counts.leases.used(&boxes, counted);
        }
        total
    }
}

impl Counts {
    fn new(settings: &NodeSettings) -> Self {
        Counts {
            counters: Counters::new(settings),
            borrowed: Borrowed::new(settings.second.windows()),
            leases: Striped::default(),
            views: Views::default(),
            permits: Permits::new(),
            queued: AtomicU64::new(0),
            twin: OnceLock::new(),
        }
    }
}

struct Seconds {
    first: u64,
    last: u64,
}

//! The leap array: a ring of windows ("time boxes") over one interval.
//!
//! # The algorithm
//!
//! Time is cut into windows of equal length, numbered from the epoch: window
//! `k` covers `[k · length, (k + 1) · length)`. The ring has `n` slots; window
//! `k` lives in slot `k mod n`. Three things make that exact without a lock:
//!
//! 1. **The head** is the number of the newest window that anybody has seen.
//!    It only grows. Whoever comes with an older clock reading works on the
//!    head instead: time that goes back stands still, and what such a caller
//!    writes is charged to the newer window.
//! 2. **The stamp** of a slot is the full number of the window it holds. The
//!    first writer of a window renews every cell of the slot (one
//!    compare-and-swap each, from the value it has seen to "zero, of this lap")
//!    and then raises the stamp. Several threads may do so at once, for one
//!    window or for windows a lap apart. A cell that holds something newer is
//!    left alone: who has loaded a cell asks, before swapping it, whether the
//!    window has its stamp (then the cell may hold counts of it) or the head is
//!    a lap ahead (then it may be of a newer window); either is visible to
//!    whoever sees a cell written because of it, and a cell written after that
//!    look fails the compare-and-swap. Only stamped windows are read, so a slot
//!    that was last used long ago is worth zero without anybody having cleared
//!    it.
//! 3. **The lap** is kept in the upper bits of each cell beside its count
//!    ([`cell`]). A late writer, put to sleep between finding its slot and
//!    writing to it, sees that the slot has been taken over by a newer window
//!    and starts anew; if the take-over happens within its very last
//!    instruction its count lands in the newer window. Either way it is counted
//!    once, and nothing newer is erased.
//!
//! # What it guarantees
//!
//! * Every amount added is in exactly one window: none is lost, none is
//!   counted twice, however threads meet at a rollover.
//! * No operation blocks; a failed compare-and-swap means that another thread
//!   got on. Nothing is allocated after construction.
//! * A clock that stands still or goes back does no harm.
//! * A *reading* of several windows is not one instant: it may or may not see
//!   what is added while it reads. Decisions that must not be off by one
//!   reserve ([`LeapArray::reserve`], see [`passes`]) instead of reading.
//!
//! # What it does not
//!
//! A thread that sleeps inside one addition for exactly 4,095 laps of the ring
//! would not notice; with the statistics' ring that is three days.
//!
//! The last 2⁴⁰ windows before the end of 64 bits of nanoseconds (year 2554)
//! are one window. Only windows of a few nanoseconds get there: 18 minutes
//! early if they are 1 ns long.
//!
//! A window counts while `now − start ≤ interval` as long as nobody has rolled
//! the ring, as in the reference implementation: a window that is exactly one
//! interval old shows in [`LeapArray::windows_unrolled`], and is gone as soon
//! as the present window has been touched.

mod beside;
mod borrow;
pub mod cell;
mod lease;
pub mod passes;
mod sliding;

use std::fmt;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

pub use beside::Beside;
pub(crate) use beside::at_rest;
#[cfg(loom)]
pub(crate) use beside::look;
pub use borrow::{BorrowRefused, Borrowed, Loan};
use cell::{Counter, Lap};
pub use lease::{Lease, Leases};
pub use passes::{Full, PassCell, Passes, Span, Taken};
pub use sliding::SlidingWindow;

/// What one slot of a ring holds: a set of lap-tagged cells.
pub trait Bucket: Default {
    /// What threads count of its windows by themselves; `()`: nothing.
    type Beside: Beside;

    /// Renews every cell for the window of `renewal`.
    fn renew(&self, renewal: &Renewal<'_>);
}

/// A ring of windows over one interval; see the [module](self) for how it works.
pub struct LeapArray<B: Bucket> {
    width_ns: u64,
    /// The limit that passes are reserved in advance under.
    limit: AtomicU64,
    /// Written once per window, read by all: on a cache line of its own.
    head: CachePadded<AtomicU64>,
    slots: Box<[Slot<B>]>,
    beside: B::Beside,
}

#[derive(Default)]
struct Slot<B> {
    /// Number of the window this slot holds, plus one; zero: never used.
    stamp: AtomicU64,
    bucket: B,
}

/// One window of a ring, as found by a reading or made by a writer.
pub struct Window<'a, B: Bucket> {
    array: &'a LeapArray<B>,
    slot: &'a Slot<B>,
    number: u64,
    lap: Lap,
}

/// The permission to renew the cells of one slot, for as long as its window
/// has not been stamped and has not left the ring.
pub struct Renewal<'a> {
    pub(crate) lap: Lap,
    stamp: &'a AtomicU64,
    wanted: u64,
    head: &'a AtomicU64,
    /// The newest head with which the window is still in the ring.
    head_max: u64,
}

/// Windows that cannot be made: none, too many, or ones that do not divide the
/// interval.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sample_count} windows in {interval:?}: {problem}")]
pub struct GeometryError {
    /// The number of windows asked for.
    pub sample_count: u32,
    /// The interval asked for.
    pub interval: Duration,
    pub(crate) problem: &'static str,
}

/// At most this many windows in a ring (a day of seconds).
pub const SAMPLE_COUNT_MAX: u32 = 86_400;

/// The greatest window number. The room above it is for arithmetic on numbers:
/// no span reaches 2⁴⁰ windows ahead.
const NUMBER_MAX: u64 = u64::MAX - (1 << 40);

impl<B: Bucket> LeapArray<B> {
    /// A ring of `sample_count` windows that together cover `interval`.
    ///
    /// # Errors
    ///
    /// If there is no window, or more than [`SAMPLE_COUNT_MAX`], or the
    /// interval is not a multiple of `sample_count` nanoseconds.
    pub fn new(sample_count: u32, interval: Duration) -> Result<Self, GeometryError> {
        let width_ns = window_width_ns(sample_count, interval)?;
        Ok(Self::with_width(width_ns, sample_count as usize))
    }

    /// A ring of `slots` windows of `width_ns` each; both at least 1.
    pub(crate) fn with_width(width_ns: u64, slots: usize) -> Self {
        LeapArray {
            width_ns: width_ns.max(1),
            limit: AtomicU64::new(0),
            head: CachePadded::new(AtomicU64::new(0)),
            slots: (0..slots.max(1)).map(|_| Slot::default()).collect(),
            beside: B::Beside::default(),
        }
    }

    /// Number of windows in the ring.
    pub fn sample_count(&self) -> usize {
        self.slots.len()
    }

    /// Length of one window.
    pub fn window_length(&self) -> Duration {
        Duration::from_nanos(self.width_ns)
    }

    /// The span that all windows together cover.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval_ns())
    }

    /// The present window, made if it is new. Of the four cases (slot empty,
    /// current, expired, or ahead of the reading) the last gives the newest
    /// window instead.
    #[inline]
    pub fn current(&self, now: Timestamp) -> Window<'_, B> {
        loop {
            let window = self.window(self.observe(now));
            if self.prepare(&window) {
                return window;
            }
        }
    }

    /// The window before the present one, if anything touched it. Rolls the
    /// ring to `now`. In a ring of one window that is the present one: it stands
    /// in the slot where the one before would be.
    pub fn previous(&self, now: Timestamp) -> Option<Window<'_, B>> {
        let present = self.current(now);
        if self.slots.len() == 1 {
            return Some(present);
        }
        self.existing(present.number.checked_sub(1)?)
    }

    /// The windows of the interval in order of time, the present one
    /// included. Rolls the ring to `now`.
    pub fn windows(&self, now: Timestamp) -> impl Iterator<Item = Window<'_, B>> {
        let head = self.current(now).number;
        (self.oldest(head)..=head).filter_map(|number| self.existing(number))
    }

    /// The windows that count at `now` in order of time, if nobody rolls the
    /// ring: those with `now − start ≤ interval`.
    pub fn windows_unrolled(&self, now: Timestamp) -> impl Iterator<Item = Window<'_, B>> {
        let head = self.head.load(Ordering::Acquire);
        (self.oldest(head)..=head)
            .filter_map(|number| self.existing(number))
            .filter(move |window| !self.is_deprecated(now, window.start()))
    }

    /// Whether a window that began at `start` no longer counts at `now`:
    /// `now − start > interval`.
    pub fn is_deprecated(&self, now: Timestamp, start: Timestamp) -> bool {
        now.as_nanos().saturating_sub(start.as_nanos()) > self.interval_ns()
    }

    /// The oldest window of the ring at `now`, if it was used and still
    /// counts. Does not roll the ring.
    pub fn valid_head(&self, now: Timestamp) -> Option<Window<'_, B>> {
        let number = (self.number_at(now) + 1).checked_sub(self.slots.len() as u64)?;
        self.existing(number)
    }

    /// The window that holds `at`, if the ring still has it. Does not roll the
    /// ring.
    pub fn window_at(&self, at: Timestamp) -> Option<Window<'_, B>> {
        self.existing(self.number_at(at))
    }

    /// Number of the window that holds `time`.
    #[inline]
    pub(crate) fn number_at(&self, time: Timestamp) -> u64 {
        (time.as_nanos() / self.width_ns).min(NUMBER_MAX)
    }

    fn interval_ns(&self) -> u64 {
        self.width_ns.saturating_mul(self.slots.len() as u64)
    }

    /// Window `number`, whether or not its slot holds it.
    #[inline]
    pub(crate) fn window(&self, number: u64) -> Window<'_, B> {
        let count = self.slots.len() as u64;
        let lap = number / count;
        Window {
            array: self,
            // In range, as it is a remainder; 64 bits throughout, so that a
            // clock far in the future finds its slot on 32-bit machines too.
            slot: &self.slots[(number - lap * count) as usize],
            number,
            lap: Lap::of(lap),
        }
    }

    /// The oldest window that is in the ring together with `number`.
    #[inline]
    pub(crate) fn oldest(&self, number: u64) -> u64 {
        (number + 1).saturating_sub(self.slots.len() as u64)
    }

    /// When `now` is charged: a reading behind the newest window counts as the
    /// beginning of that.
    pub(crate) fn charged(&self, now: Timestamp) -> Timestamp {
        let head = self.head.load(Ordering::Acquire);
        now.max(Timestamp::from_nanos(head.saturating_mul(self.width_ns)))
    }

    /// What is counted beside the ring.
    #[inline]
    pub(crate) fn beside(&self) -> &B::Beside {
        &self.beside
    }

    /// Number of the newest window that anybody has seen.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        // Acquire: see `observe`.
        self.head.load(Ordering::Acquire)
    }

    /// When window `number` begins and ends, in nanoseconds.
    pub(crate) fn bounds_ns(&self, number: u64) -> (u64, u64) {
        let begin = number.saturating_mul(self.width_ns);
        match number {
            NUMBER_MAX => (begin, u64::MAX),
            _ => (begin, begin.saturating_add(self.width_ns)),
        }
    }

    /// The newest window anybody has seen, `now` included: this is where time
    /// that goes back stands still.
    #[inline]
    pub(crate) fn observe(&self, now: Timestamp) -> u64 {
        let number = self.number_at(now);
        // Acquire: whoever sees a newer head also sees what its writer saw.
        let head = self.head.load(Ordering::Acquire);
        if number > head {
            self.head.fetch_max(number, Ordering::AcqRel).max(number)
        } else {
            head
        }
    }

    /// Makes `window` the one its slot holds. False if a newer window has taken
    /// the slot over.
    #[inline]
    pub(crate) fn prepare(&self, window: &Window<'_, B>) -> bool {
        match window.slot.stamp.load(Ordering::Acquire) {
            stamp if stamp == window.number + 1 => true,
            stamp if stamp > window.number + 1 => false,
            _ => self.renew(window),
        }
    }

    #[cold]
    fn renew(&self, window: &Window<'_, B>) -> bool {
        let Window {
            slot, number, lap, ..
        } = *window;
        let renewal = Renewal {
            lap,
            stamp: &slot.stamp,
            wanted: number + 1,
            head: &self.head,
            head_max: number + self.slots.len() as u64 - 1,
        };
        slot.bucket.renew(&renewal);
        if renewal.is_overtaken() {
            // Some cells may have been left to the newer window.
            return false;
        }
        // Release: who sees the stamp sees the renewed cells.
        slot.stamp.fetch_max(renewal.wanted, Ordering::AcqRel) <= renewal.wanted
    }

    pub(crate) fn existing(&self, number: u64) -> Option<Window<'_, B>> {
        let window = self.window(number);
        let stamp = window.slot.stamp.load(Ordering::Acquire);
        (stamp == number + 1).then_some(window)
    }
}

impl Renewal<'_> {
    /// Whether the window still waits for its stamp and is in the ring. To be
    /// asked after a cell was loaded: what somebody added to the renewed cell
    /// is visible only together with the stamp, and that somebody has renewed
    /// it for a newer window only together with the head of that.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        // Acquire, both: the next look at the cell is no older than these.
        self.stamp.load(Ordering::Acquire) < self.wanted && !self.is_overtaken()
    }

    #[inline]
    fn is_overtaken(&self) -> bool {
        self.head.load(Ordering::Acquire) > self.head_max
    }
}

impl<'a, B: Bucket> Window<'a, B> {
    /// When the window begins (inclusive).
    pub fn start(&self) -> Timestamp {
        Timestamp::from_nanos(self.number.saturating_mul(self.array.width_ns))
    }

    /// The cells of the window. Read them with [`Window::lap`].
    #[inline]
    pub fn bucket(&self) -> &'a B {
        &self.slot.bucket
    }

    /// The lap of the ring this window belongs to.
    #[inline]
    pub fn lap(&self) -> Lap {
        self.lap
    }

    /// Number of the window, counted from the epoch.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Adds `n` to one counter of this window, or of the newest one if this
    /// window has been taken over meanwhile.
    #[inline]
    pub fn add_to(&mut self, counter: impl Fn(&B) -> &Counter, n: u64) {
        self.write(|bucket, lap| counter(bucket).add(lap, n));
    }

    /// What one counter of this window holds.
    #[inline]
    pub fn count_of(&self, counter: impl Fn(&B) -> &Counter) -> u64 {
        counter(self.bucket()).get(self.lap())
    }

    /// Does `write` on the cells of this window, or of the newest one if this
    /// window has been taken over meanwhile; `write` says false for that.
    #[inline]
    pub(crate) fn write(&mut self, write: impl Fn(&B, Lap) -> bool) {
        while !write(self.bucket(), self.lap()) {
            self.move_on();
        }
    }

    #[cold]
    pub(crate) fn move_on(&mut self) {
        loop {
            let head = self.array.head.load(Ordering::Acquire);
            *self = self.array.window(head);
            if self.array.prepare(self) {
                return;
            }
        }
    }
}

impl<B: Bucket> fmt::Debug for LeapArray<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeapArray")
            .field("sample_count", &self.sample_count())
            .field("interval", &self.interval())
            .finish_non_exhaustive()
    }
}

/// The length of one of `sample_count` windows of `interval`.
pub(crate) fn window_width_ns(sample_count: u32, interval: Duration) -> Result<u64, GeometryError> {
    let fail = |problem| GeometryError {
        sample_count,
        interval,
        problem,
    };
    if sample_count == 0 {
        return Err(fail("there has to be at least one window"));
    }
    if sample_count > SAMPLE_COUNT_MAX {
        return Err(fail("more than 86400 windows; take fewer, longer ones"));
    }
    let interval_ns = u64::try_from(interval.as_nanos())
        .map_err(|_| fail("the interval does not fit 64 bits of nanoseconds"))?;
    if interval_ns == 0 {
        return Err(fail("the interval is empty"));
    }
    if !interval_ns.is_multiple_of(u64::from(sample_count)) {
        return Err(fail(
            "the windows do not divide the interval into whole nanoseconds",
        ));
    }
    Ok(interval_ns / u64::from(sample_count))
}

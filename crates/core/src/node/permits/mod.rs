//! Calls in flight, the permits they hold, and the line for those.
//!
//! A call in flight takes one *place*, and as many *permits* as it weighs. Flow
//! rules that limit concurrency look at places, isolation rules at permits;
//! both are counted for every call, so that a rule loaded later sees the calls
//! that already run. Places and permits are two fields of one word:
//!
//! ```text
//! bit 63         62 .. 24           23 .. 0
//! [somebody waits][permits in flight][calls in flight]
//! ```
//!
//! A call comes with one addition and goes with one subtraction; a call that is
//! limited compares and adds in one step, so there is never one more than the
//! limit. A call that nothing limits is mostly counted by its thread alone
//! (`striped`). Who is limited loads the word, adds what the stripes hold, and
//! swaps the word from just what it has loaded: no other limited call has come
//! in between, and one that nothing limits comes after.
//!
//! **Bounds.** A weight above [`WEIGHT_MAX`] counts as that. A limit on permits
//! is less ([`LIMIT_MAX`] at most), so nothing is decided otherwise than with
//! the true sum: while such a call runs there is no room under either. The
//! upper half of each field stays empty: a call that would reach into it is
//! refused ([`Crowded`]). Two fields can never run into each other as long as
//! fewer than 16,384 threads are between two instructions of [`Permits::enter`].
//!
//! **The line.** A call that may wait and finds no room steps into a line (behind
//! a mutex that nobody touches while nobody waits). The top bit says that
//! somebody stands there:
//!
//! * who steps in sets the bit first and then looks for room once more; who
//!   leaves subtracts and looks at the bit that was there. All of it is one
//!   word, so one of the two comes later and sees the other: no wake-up is lost;
//! * who leaves a stripe looks at the bit afterwards; who serves the line does so
//!   by a reading of the stripes that those who leave later notice;
//! * who leaves and saw the bit hands the room on, under the lock, by adding the
//!   permits on behalf of the waiter: nobody slips in between;
//! * a newcomer that sees the bit and room asks the line whether it may pass.
//!
//! **Order.** First come, first served; a heavy call at the head is not
//! overtaken by light ones. A waiter keeps the limit that it came with, and
//! holds back only those whose limit is no greater: after a limit was raised, who
//! waits for the lower one does not keep the room above it empty.
//!
//! **Leaving the line.** A waiter that gives up may have been granted its permits
//! at that very moment; [`Permits::withdraw`] says which, and
//! [`Permits::step_out`] passes them on.
//!
//! Wakers are called after the lock was let go.

mod line;
mod share;
mod striped;

use std::task::Waker;

use crossbeam_utils::CachePadded;

use crate::seat::Seat;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, unpoisoned};

use line::Line;
pub use line::Turn;
pub use share::Share;
use striped::InFlight;

/// The heaviest that a call is counted.
pub const WEIGHT_MAX: u64 = 1 << 24;
/// The greatest limit on permits; greater ones count as this.
pub const LIMIT_MAX: u64 = WEIGHT_MAX - 1;
/// The most calls in flight at one node.
pub const CALLS_MAX: u64 = CALLS / 2;

const CALLS: u64 = (1 << PERMITS_SHIFT) - 1;
const PERMITS_SHIFT: u32 = 24;
const WAITED_FOR: u64 = 1 << 63;
/// The top bit of either field.
const CROWDED: u64 = 1 << 62 | 1 << (PERMITS_SHIFT - 1);

/// No further call fits: there are [`CALLS_MAX`], or more permits than any sum
/// that makes sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crowded {
    /// Calls in flight.
    pub calls: u64,
}

/// Why permits are not to be had now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom {
    /// Permits in flight.
    pub permits: u64,
    /// There is room, but somebody waits for it.
    pub behind: bool,
}

/// Calls in flight at one node, their permits, and who waits for some.
#[derive(Debug)]
pub struct Permits {
    word: CachePadded<AtomicU64>,
    striped: InFlight,
    line: Mutex<Line>,
}

impl NoRoom {
    fn seen_in(word: u64, behind: bool) -> Self {
        NoRoom {
            permits: permits(word),
            behind,
        }
    }
}

impl Permits {
    /// Nobody in flight, nobody waiting.
    pub fn new() -> Self {
        Permits {
            word: CachePadded::new(AtomicU64::new(0)),
            striped: InFlight::default(),
            line: Mutex::new(Line::default()),
        }
    }

    // Coming and going.

    /// One more call, or the rest of one; returns how many calls there are now.
    /// Nothing limits it, and it does not stand in line.
    ///
    /// # Errors
    ///
    /// [`Crowded`]; nothing was taken then.
    #[inline]
    pub fn enter(&self, share: Share, weight: u32) -> Result<u64, Crowded> {
        let taken = share.of(weight);
        // Relaxed: who is not limited waits for nobody. The addition keeps what
        // others have released in the word.
        let now = self.word.fetch_add(taken, Ordering::Relaxed) + taken;
        let now = now + self.striped.sum();
        if now & CROWDED != 0 {
            self.sub(taken);
            return Err(Crowded { calls: calls(now) });
        }
        Ok(calls(now))
    }

    /// One more call that nothing limits, and all of its share: counted in the
    /// stripe of `seat`, the calling thread's. Returns how many calls are in
    /// flight from there; `None` if it has to [`enter`](Permits::enter).
    #[inline]
    pub fn enter_from(&self, seat: Option<Seat>, weight: u32) -> Option<u64> {
        self.striped.enter(seat, weight)
    }

    /// A call that entered from `seat` has ended, on whatever thread.
    #[inline]
    pub fn leave_from(&self, seat: Seat, weight: u32) {
        self.striped.leave(seat, weight);
        // Relaxed: who set the bit before it read the stripe without this call's
        // leaving is seen, as that was read after it.
        if self.word.load(Ordering::Relaxed) & WAITED_FOR != 0 {
            self.hand_on();
        }
    }

    /// One place, if `asked` places are free under `limit`; returns how many
    /// calls there are now. For a limit on places, for which nobody waits.
    ///
    /// # Errors
    ///
    /// How many calls are in flight, if there is no room.
    #[inline]
    pub fn try_enter(&self, asked: u32, limit: u64) -> Result<u64, u64> {
        let limit = limit.min(CALLS_MAX);
        let place = Share::PLACE.of(0);
        let fits = |seen: u64| {
            // Weight 0 asks for no free place, and takes one.
            calls(seen).saturating_add(u64::from(asked)) <= limit && (seen + place) & CROWDED == 0
        };
        self.compare_and_add(place, || self.striped.sum(), fits)
            .map(|before| calls(before) + 1)
            .map_err(calls)
    }

    /// The permits of `share`, and its place, if the permits are free under
    /// `limit` and nobody stands in line whom that would overtake. Weight 0
    /// takes no permits and overtakes nobody.
    ///
    /// # Errors
    ///
    /// [`NoRoom`], or none without overtaking; nothing was taken then.
    #[inline]
    pub fn try_take(&self, share: Share, weight: u32, limit: u64) -> Result<(), NoRoom> {
        let found = match self.compare_and_take(share, weight, limit, weight == 0) {
            Ok(()) => return Ok(()),
            Err(found) => found,
        };
        match fits(found, weight, limit) {
            false => Err(NoRoom::seen_in(found, false)),
            true => self.pass_by(share, weight, limit),
        }
    }

    /// A call has ended, or gives up what it holds.
    #[inline]
    pub fn leave(&self, share: Share, weight: u32) {
        self.sub(share.of(weight));
    }

    /// Calls in flight.
    #[inline]
    pub fn calls(&self) -> u64 {
        calls(self.seen())
    }

    /// Permits in flight.
    #[inline]
    pub fn permits(&self) -> u64 {
        permits(self.seen())
    }

    /// All that is in flight, with the fields of the word.
    #[inline]
    fn seen(&self) -> u64 {
        self.word.load(Ordering::Acquire) + self.striped.sum()
    }

    // The line.

    /// Steps into the line for the permits of `weight` under `limit`, unless
    /// `waiting_max` others stand there. They may be granted at once.
    ///
    /// A weight above the limit must not come here: it would wait in vain.
    ///
    /// # Errors
    ///
    /// How many stand there, if they are too many.
    #[cold]
    pub fn line_up(&self, weight: u32, limit: u64, waiting_max: usize) -> Result<Turn, usize> {
        let mut line = self.lock();
        if line.len() >= waiting_max {
            return Err(line.len());
        }
        let turn = line.join(weight, limit.min(LIMIT_MAX));
        // Relaxed: the order of all changes of this one word is enough. Who
        // subtracts after this sees the bit; what was subtracted before is seen
        // when the line is served.
        self.word.fetch_or(WAITED_FOR, Ordering::Relaxed);
        self.serve(line);
        Ok(turn)
    }

    /// Whether the permits of `turn` were granted. If not, `waker` is woken when
    /// they are, in place of the one given before.
    #[cold]
    pub fn has_come(&self, turn: &Turn, waker: &Waker) -> bool {
        let mut line = self.lock();
        let (has_come, replaced) = line.watch(turn, waker);
        drop(line);
        // Dropping a waker may run anything.
        drop(replaced);
        has_come
    }

    /// Leaves the line. True if the permits had been granted by then: they are
    /// the caller's, to use or to [`leave`](Permits::leave).
    #[cold]
    #[must_use = "what was granted must be used or given back"]
    pub fn withdraw(&self, turn: Turn) -> bool {
        let mut line = self.lock();
        let Some(gone) = line.withdraw(&turn) else {
            return true;
        };
        // It may have stood in the way of lighter ones.
        self.serve(line);
        drop(gone);
        false
    }

    /// Leaves the line, and passes on what was granted by then.
    #[cold]
    pub fn step_out(&self, turn: Turn) {
        let weight = turn.weight();
        if self.withdraw(turn) {
            self.leave(Share::PERMITS, weight);
        }
    }

    /// How many stand in line.
    pub fn waiting(&self) -> usize {
        self.lock().len()
    }

    /// Somebody stands in line, and there is room: the newcomer passes those
    /// only who could not use it.
    #[cold]
    fn pass_by(&self, share: Share, weight: u32, limit: u64) -> Result<(), NoRoom> {
        let line = self.lock();
        if line.bars(limit.min(LIMIT_MAX)) {
            return Err(NoRoom::seen_in(self.seen(), true));
        }
        self.compare_and_take(share, weight, limit, true)
            .map_err(|found| NoRoom::seen_in(found, false))
    }

    /// Takes if there is room; unless `passes_by`, only while nobody waits.
    #[inline]
    fn compare_and_take(
        &self,
        share: Share,
        weight: u32,
        limit: u64,
        passes_by: bool,
    ) -> Result<(), u64> {
        self.take_beside(share, weight, limit, passes_by, || self.striped.sum())
    }

    /// The same, beside what is in the stripes.
    #[inline]
    fn take_beside(
        &self,
        share: Share,
        weight: u32,
        limit: u64,
        passes_by: bool,
        striped: impl Fn() -> u64,
    ) -> Result<(), u64> {
        let taken = share.of(weight);
        let is_room = |seen: u64| {
            let is_free = passes_by || seen & WAITED_FOR == 0;
            is_free && fits(seen, weight, limit) && seen.wrapping_add(taken) & CROWDED == 0
        };
        self.compare_and_add(taken, striped, is_room).map(drop)
    }

    /// Adds `taken` to the word, if `is_room` in all that is in flight. Returns
    /// what that was before.
    #[inline]
    fn compare_and_add(
        &self,
        taken: u64,
        striped: impl Fn() -> u64,
        is_room: impl Fn(u64) -> bool,
    ) -> Result<u64, u64> {
        // Acquire: who takes the place or the permits of another sees what that
        // one has done; and the stripes are read after the word.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let seen = word + striped();
            if !is_room(seen) {
                return Err(seen);
            }
            let swapped = self.word.compare_exchange(
                word,
                word + taken,
                Ordering::Acquire,
                Ordering::Acquire,
            );
            match swapped {
                Ok(_) => return Ok(seen),
                Err(found) => word = found,
            }
        }
    }

    #[inline]
    fn sub(&self, taken: u64) {
        // Release: see `compare_and_take`.
        let before = self.word.fetch_sub(taken, Ordering::Release);
        if before & WAITED_FOR != 0 {
            self.hand_on();
        }
    }

    #[cold]
    fn hand_on(&self) {
        self.serve(self.lock());
    }

    /// Grants what there is room for, in order, and wakes those.
    fn serve(&self, mut line: MutexGuard<'_, Line>) {
        let woken = line.serve(|weight, limit| {
            let striped = || self.striped.sum_telling();
            self.take_beside(Share::PERMITS, weight, limit, true, striped)
                .is_ok()
        });
        if line.len() == 0 {
            // Relaxed, as the bit only leads to the lock, and changes under it.
            self.word.fetch_and(!WAITED_FOR, Ordering::Relaxed);
        }
        drop(line);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Nothing is half done where a waker's clone panics.
    fn lock(&self) -> MutexGuard<'_, Line> {
        unpoisoned(self.line.lock())
    }
}

impl Default for Permits {
    fn default() -> Self {
        Permits::new()
    }
}

#[inline]
fn counted(weight: u32) -> u64 {
    u64::from(weight).min(WEIGHT_MAX)
}

#[inline]
fn calls(word: u64) -> u64 {
    word & CALLS
}

#[inline]
fn permits(word: u64) -> u64 {
    (word & !WAITED_FOR) >> PERMITS_SHIFT
}

#[inline]
fn fits(word: u64, weight: u32, limit: u64) -> bool {
    permits(word) + counted(weight) <= limit.min(LIMIT_MAX)
}

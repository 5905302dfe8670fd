//! Places given back from the middle of a line of waiting calls.
//!
//! Each call in the line knows when it may go. One that gives up and is not the
//! last leaves a *hole*: nobody behind it is re-timed, and a newcomer that costs
//! no more may take the hole, and with it its release time. Holes are few and
//! short-lived: [`HOLES_MAX`] are remembered, those whose time has come are
//! forgotten. Forgetting one loses a place and never admits anybody twice.

use crate::sync::{AtomicU64, Ordering};

/// How many places given back from the middle of a line are remembered.
pub const HOLES_MAX: usize = 8;

/// The holes of one line.
#[derive(Debug, Default)]
pub struct Holes {
    count: AtomicU64,
    all: [Slot; HOLES_MAX],
}

/// A place that somebody gave back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// When who takes it may go, in nanoseconds since the epoch.
    pub release_ns: u64,
    /// What it cost, in whatever the line counts in. Whoever takes a hole takes
    /// the whole of it, and has that to give back.
    pub cost: u64,
}

#[derive(Debug, Default)]
struct Slot {
    /// [`EMPTY`], [`BUSY`], or the release time plus two.
    state: AtomicU64,
    cost: AtomicU64,
}

const EMPTY: u64 = 0;
const BUSY: u64 = 1;
const TIME_OFFSET: u64 = 2;

impl Holes {
    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Leaves a hole, if there is room.
    #[cold]
    pub fn leave(&self, hole: Hole, now_ns: u64) {
        for slot in &self.all {
            let state = slot.state.load(Ordering::Acquire);
            let expired = state >= TIME_OFFSET && state - TIME_OFFSET < now_ns;
            if state != EMPTY && !expired {
                continue;
            }
            let claim =
                slot.state
                    .compare_exchange(state, BUSY, Ordering::AcqRel, Ordering::Acquire);
            if claim.is_ok() {
                slot.cost.store(hole.cost, Ordering::Relaxed);
                if state == EMPTY {
                    self.count.fetch_add(1, Ordering::AcqRel);
                }
                // Release: the cost is seen by whoever claims the hole.
                slot.state.store(
                    hole.release_ns.saturating_add(TIME_OFFSET),
                    Ordering::Release,
                );
                return;
            }
        }
    }

    /// Takes a hole for a call that costs `cost` and may wait `wait_ns_max`.
    #[cold]
    pub fn take(&self, now_ns: u64, cost: u64, wait_ns_max: u64) -> Option<Hole> {
        self.all.iter().find_map(|slot| {
            let state = slot.state.load(Ordering::Acquire);
            if state < TIME_OFFSET
                || slot
                    .state
                    .compare_exchange(state, BUSY, Ordering::AcqRel, Ordering::Acquire)
                    .is_err()
            {
                return None;
            }
            let hole = Hole {
                release_ns: state - TIME_OFFSET,
                cost: slot.cost.load(Ordering::Relaxed),
            };
            let expired = hole.release_ns < now_ns;
            let fits = !expired && hole.release_ns - now_ns <= wait_ns_max && cost <= hole.cost;
            if !expired && !fits {
                slot.state.store(state, Ordering::Release);
                return None;
            }
            self.count.fetch_sub(1, Ordering::AcqRel);
            slot.state.store(EMPTY, Ordering::Release);
            fits.then_some(hole)
        })
    }

    /// Forgets all of them. Nobody else uses the line meanwhile.
    pub fn clear(&self) {
        for slot in &self.all {
            slot.state.store(EMPTY, Ordering::Relaxed);
        }
        self.count.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn hole(release_ns: u64) -> Hole {
        Hole {
            release_ns,
            cost: 3,
        }
    }

    #[test]
    fn a_hole_is_taken_once_by_a_call_that_fits_up_to_the_moment_of_its_release() {
        // From the epoch on.
        for release_ns in [0, 50] {
            let holes = Holes::default();
            assert!(holes.is_empty());
            holes.leave(hole(release_ns), 0);
            assert_eq!(holes.take(0, 4, 100), None, "it costs more");
            if release_ns > 0 {
                assert_eq!(holes.take(0, 3, release_ns - 1), None, "it may not wait");
            }
            assert!(!holes.is_empty());
            assert_eq!(holes.take(release_ns, 3, 0), Some(hole(release_ns)));
            assert!(holes.is_empty());
            assert_eq!(holes.take(release_ns, 3, 0), None);
        }
    }

    #[test]
    fn whoever_looks_forgets_a_hole_whose_time_has_come() {
        let holes = Holes::default();
        holes.leave(hole(50), 0);
        holes.leave(hole(60), 0);
        assert_eq!(holes.take(51, 1, 100), Some(hole(60)));
        assert!(holes.is_empty());
    }

    #[test]
    fn as_many_are_remembered_as_there_is_room_for_and_expired_ones_make_room() {
        let holes = Holes::default();
        for n in 1..=HOLES_MAX as u64 {
            holes.leave(hole(n * 10), 0);
        }
        // At 10 the first may still be taken.
        holes.leave(hole(90), 10);
        holes.leave(hole(100), 11);
        let taken = std::iter::from_fn(|| holes.take(11, 1, 100));
        let mut taken: Vec<_> = taken.map(|hole| hole.release_ns).collect();
        taken.sort_unstable();
        assert_eq!(taken, [20, 30, 40, 50, 60, 70, 80, 100]);
        assert!(holes.is_empty());
    }

    #[test]
    fn when_they_are_cleared_none_is_left() {
        let holes = Holes::default();
        holes.leave(hole(50), 0);
        holes.clear();
        assert!(holes.is_empty());
        assert_eq!(holes.take(0, 1, 100), None);
    }
}

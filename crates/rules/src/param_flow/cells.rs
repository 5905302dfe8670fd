//! What else a value may use up: a line of its own, or places in flight.

use flowgate_core::Timestamp;
use flowgate_core::sync::{AtomicU64, Ordering};

use super::limit::Limit;
use super::table::{Cell, HalfLine, Standing};
use crate::flow::pacing::{HOLE_TAKEN, Pacer, Place};

/// The line of one value: calls go at an even pace.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) pacer: Pacer,
}

impl Cell for Line {
    type Limit = Limit;
    type Align = u64;

    fn reset(&self, _: &Limit, _: Timestamp) {
        self.pacer.reset();
    }

    /// Limited as long as a call would have to wait: then forgetting the value
    /// would let one call through too early.
    fn standing(&self, limit: &Limit, weight: u32, now: Timestamp) -> Standing {
        match self.pacer.is_free(now, limit.cost_ns(weight)) {
            true => Standing::Idle,
            false => Standing::Limited,
        }
    }
}

/// Marks a word that holds the cost of a hole. Times end long before this bit.
const COST: u64 = 1 << 63;
const NEVER: u64 = u64::MAX;

/// A place in two words. Its cost is found again from the call's weight, except
/// for a place that was a hole, which has no "before".
pub(super) fn place_to_words(place: Place) -> [u64; 2] {
    let second = match place.before_ns {
        HOLE_TAKEN => COST | (place.cost_ns & !COST).min(!COST - 1),
        before_ns => before_ns,
    };
    [place.release_ns, second]
}

pub(super) fn place_from_words([release_ns, second]: [u64; 2], cost_ns: u64) -> Place {
    let (before_ns, cost_ns) = match second {
        NEVER => (NEVER, cost_ns),
        hole if hole & COST != 0 => (HOLE_TAKEN, hole & !COST),
        before_ns => (before_ns, cost_ns),
    };
    Place {
        release_ns,
        before_ns,
        cost_ns,
    }
}

/// The calls in flight of one value.
#[derive(Debug)]
pub(super) struct Places {
    taken: AtomicU64,
}

impl Default for Places {
    fn default() -> Self {
        Places {
            taken: AtomicU64::new(0),
        }
    }
}

impl Places {
    /// Takes a place; never one more than there are.
    #[inline]
    pub(super) fn enter(&self, limit: &Limit) -> bool {
        // The count stands for itself: relaxed would do.
        let entered = self
            .taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
                (taken < limit.places()).then_some(taken + 1)
            });
        entered.is_ok()
    }

    /// Gives a place back.
    #[inline]
    pub(super) fn leave(&self) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }
}

impl Cell for Places {
    type Limit = Limit;
    type Align = HalfLine;

    fn reset(&self, _: &Limit, _: Timestamp) {
        // Only an empty cell is given to another value: nothing to do.
    }

    fn standing(&self, _: &Limit, _: u32, _: Timestamp) -> Standing {
        match self.in_flight() {
            0 => Standing::Idle,
            _ => Standing::Limited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_limited_while_its_heaviest_call_would_wait_and_idle_when_reset() {
        let (line, limit) = (Line::default(), Limit::new(10.0, 1, 0));
        let standing = |weight, ms| line.standing(&limit, weight, Timestamp::from_millis(ms));
        assert_eq!(standing(1, 50), Standing::Idle);
        let placed = line.pacer.request(Timestamp::from_millis(50), 0, 0);
        assert!(placed.is_ok());
        let stands = [(1, 149), (1, 150), (2, 150)].map(|(weight, ms)| standing(weight, ms));
        let limited = Standing::Limited;
        assert_eq!(stands, [limited, Standing::Idle, limited]);
        line.reset(&limit, Timestamp::EPOCH);
        assert_eq!(standing(2, 0), Standing::Idle);
    }

    #[test]
    fn a_value_has_as_many_places_as_its_limit_and_is_limited_while_one_is_taken() {
        let (places, limit) = (Places::default(), Limit::new(2.9, 1, 5));
        let standing = || places.standing(&limit, 1, Timestamp::EPOCH);
        assert_eq!(standing(), Standing::Idle);
        let entered = [(); 3].map(|()| places.enter(&limit));
        assert_eq!(entered, [true, true, false]);
        assert_eq!((places.in_flight(), standing()), (2, Standing::Limited));
        places.leave();
        assert_eq!((places.in_flight(), standing()), (1, Standing::Limited));
        places.leave();
        assert_eq!((places.in_flight(), standing()), (0, Standing::Idle));
    }

    #[test]
    fn a_place_comes_back_from_its_words_as_it_was() {
        for (before_ns, cost_ns) in [(NEVER, 5), (7, 5), (HOLE_TAKEN, 9)] {
            let place = Place {
                release_ns: 1_700_000_000_000_000_000,
                before_ns,
                cost_ns,
            };
            assert_eq!(place_from_words(place_to_words(place), cost_ns), place);
        }
    }

    #[test]
    fn a_hole_of_endless_cost_comes_back_as_a_hole() {
        let place = Place {
            release_ns: 5,
            before_ns: HOLE_TAKEN,
            cost_ns: u64::MAX,
        };
        let back = place_from_words(place_to_words(place), 1);
        assert_eq!(back.before_ns, HOLE_TAKEN);
        assert!(back.cost_ns > u64::MAX / 4);
    }
}

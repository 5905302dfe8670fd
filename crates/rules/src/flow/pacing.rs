//! Queueing at an even pace (leaky bucket): each call is given the moment at
//! which it may go.
//!
//! The state is one word: the release time of the last call in line. A call of
//! cost `c` (the time it takes up in the line, see [`super::rate`]) that comes
//! at `now`
//!
//! * passes at once if `last + c ≤ now`, and then `last = now`;
//! * else is released at `last + c`, and waits until then, if that is not
//!   longer than the longest wait allowed;
//! * else is refused, and nothing has changed.
//!
//! One compare-and-swap decides, so no two calls get the same place, and one
//! that is refused has changed nothing. The first call of an unused pacer passes
//! at once whatever it costs.
//!
//! **Giving back.** A call that is refused by a later rule, or given up while
//! it waits, returns its place. The last in line takes the word back to where
//! it was. Anybody else leaves a [hole](flowgate_core::holes): nobody else is
//! re-timed, and a newcomer that costs no more may take it, and with it its
//! release time. The room for holes is made when the first one is left, so a
//! line that nobody gives up costs two words.
//!
//! **No place is there twice.** A place that was taken at the end of the line
//! reaches from where the end was before to its own release time, and no two of
//! these overlap. So if the end is where a place is, the place is the last, and
//! one compare-and-swap takes it back together with the end; a hole is left only
//! if that has failed, and then somebody stands behind. Who took a hole never
//! moves the end, only leaves the hole again. A newcomer that comes after the
//! failed swap and before the hole goes behind: the hole is the next one's.
//!
//! **Orderings.** The end of the line stands for itself: acquire and release are
//! more than it needs. What a hole costs is published by the hole's own word, and
//! the room for holes by `OnceBox`.
//!
//! `tests/loom_flow.rs` has the models: two and three that come, are refused,
//! give back and take holes. They cannot see into `OnceBox`, and begin with the
//! room made; assumed is what it promises: all find the one box that was first
//! put in place, and find it whole.

use once_cell::race::OnceBox;

use flowgate_core::Timestamp;
use flowgate_core::holes::{Hole, Holes};
use flowgate_core::sync::{AtomicU64, Ordering};

const NEVER: u64 = u64::MAX;

/// The line of one pacing rule for one resource.
#[derive(Debug)]
pub struct Pacer {
    /// Release time of the last in line, in nanoseconds since the epoch.
    last_ns: AtomicU64,
    holes: OnceBox<Holes>,
}

/// A place in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Place {
    /// When the call may go, in nanoseconds since the epoch.
    pub release_ns: u64,
    /// What the line's end was before.
    pub before_ns: u64,
    /// The time it takes up.
    pub cost_ns: u64,
}

/// No place within the longest wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// How long the call would have had to wait, in nanoseconds.
    pub wait_ns: u64,
}

impl Default for Pacer {
    fn default() -> Self {
        Pacer {
            last_ns: AtomicU64::new(NEVER),
            holes: OnceBox::new(),
        }
    }
}

impl Pacer {
    /// A place for a call that costs `cost_ns` and may wait `wait_ns_max`.
    ///
    /// # Errors
    ///
    /// [`TooLong`] if it would have to wait longer; nothing has changed then.
    #[inline]
    pub fn request(
        &self,
        now: Timestamp,
        cost_ns: u64,
        wait_ns_max: u64,
    ) -> Result<Place, TooLong> {
        let now_ns = now.as_nanos();
        if let Some(holes) = self.holes.get()
            && !holes.is_empty()
            && let Some(hole) = holes.take(now_ns, cost_ns, wait_ns_max)
        {
            return Ok(Place {
                release_ns: hole.release_ns,
                before_ns: HOLE_TAKEN,
                cost_ns: hole.cost,
            });
        }
        let mut last = self.last_ns.load(Ordering::Acquire);
        loop {
            let release_ns = if last == NEVER || last.saturating_add(cost_ns) <= now_ns {
                now_ns
            } else {
                let release_ns = last.saturating_add(cost_ns);
                let wait_ns = release_ns - now_ns;
                // The end of time is no release time.
                if wait_ns > wait_ns_max || release_ns == NEVER {
                    return Err(TooLong { wait_ns });
                }
                release_ns
            };
            match self.last_ns.compare_exchange_weak(
                last,
                release_ns,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(before_ns) => {
                    return Ok(Place {
                        release_ns,
                        before_ns,
                        cost_ns,
                    });
                }
                Err(found) => last = found,
            }
        }
    }

    /// Gives a place back, at `now`.
    pub fn give_back(&self, place: Place, now: Timestamp) {
        let Place {
            release_ns,
            before_ns,
            cost_ns: cost,
        } = place;
        let was_last = before_ns != HOLE_TAKEN
            && self
                .last_ns
                .compare_exchange(release_ns, before_ns, Ordering::AcqRel, Ordering::Acquire)
                .is_ok();
        if !was_last && release_ns >= now.as_nanos() {
            let holes = self.holes.get_or_init(Box::default);
            holes.leave(Hole { release_ns, cost }, now.as_nanos());
        }
    }

    /// Whether a call of `cost_ns` would pass at once.
    pub(crate) fn is_free(&self, now: Timestamp, cost_ns: u64) -> bool {
        let last = self.last_ns.load(Ordering::Acquire);
        last == NEVER || last.saturating_add(cost_ns) <= now.as_nanos()
    }

    /// Makes it an unused line again. Nobody else uses it meanwhile.
    pub(crate) fn reset(&self) {
        self.last_ns.store(NEVER, Ordering::Relaxed);
        if let Some(holes) = self.holes.get() {
            holes.clear();
        }
    }
}

/// Marks a place that was a hole: it cannot move the end of the line.
pub(crate) const HOLE_TAKEN: u64 = u64::MAX - 1;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn releases(places: &[Result<Place, TooLong>]) -> Vec<Option<u64>> {
        places
            .iter()
            .map(|p| p.ok().map(|p| p.release_ns / MS))
            .collect()
    }

    // https://github.com/alibaba/Sentinel/commit/c45d64c61
    #[test]
    fn b066_a_wait_of_exactly_the_maximum_is_allowed() {
        let pacer = Pacer::default();
        let places: Vec<_> = (0..7)
            .map(|_| pacer.request(at(0), 100 * MS, 500 * MS))
            .collect();
        let expected = [
            Some(0),
            Some(100),
            Some(200),
            Some(300),
            Some(400),
            Some(500),
            None,
        ];
        assert_eq!(releases(&places), expected);
    }

    #[test]
    fn the_last_in_line_takes_the_line_back_to_where_it_was() {
        let pacer = Pacer::default();
        let first = pacer.request(at(5), 100 * MS, 0).unwrap();
        pacer.give_back(first, at(5));
        // Unused again: any cost passes at once.
        let heavy = pacer.request(at(6), 10_000 * MS, 0).unwrap();
        assert_eq!(heavy.release_ns, 6 * MS);
    }

    #[test]
    fn the_place_of_the_last_in_line_is_there_once_and_not_as_a_hole_too() {
        let pacer = Pacer::default();
        let request = || pacer.request(at(0), 100 * MS, 1000 * MS);
        let places = [request(), request()];
        assert_eq!(releases(&places), [Some(0), Some(100)]);
        pacer.give_back(places[1].unwrap(), at(0));
        let newcomers = [request(), request()];
        assert_eq!(releases(&newcomers), [Some(100), Some(200)]);
    }

    #[test]
    fn a_place_given_back_in_the_middle_is_taken_by_one_newcomer() {
        let pacer = Pacer::default();
        let places: Vec<_> = (0..4)
            .map(|_| pacer.request(at(0), 100 * MS, 1000 * MS).unwrap())
            .collect();
        pacer.give_back(places[2], at(10));
        let newcomers: Vec<_> = (0..3)
            .map(|_| pacer.request(at(10), 100 * MS, 1000 * MS))
            .collect();
        assert_eq!(releases(&newcomers), [Some(200), Some(400), Some(500)]);
        // The newcomer in the hole gives up too: the hole is there again.
        pacer.give_back(newcomers[0].unwrap(), at(20));
        assert_eq!(
            releases(&[pacer.request(at(20), 100 * MS, 1000 * MS)]),
            [Some(200)]
        );
    }

    #[test]
    fn a_hole_fits_only_calls_that_cost_no_more_and_expires_with_its_time() {
        let pacer = Pacer::default();
        let places: Vec<_> = (0..4)
            .map(|_| pacer.request(at(0), 100 * MS, 1000 * MS).unwrap())
            .collect();
        pacer.give_back(places[1], at(0));
        assert_eq!(
            releases(&[pacer.request(at(0), 200 * MS, 1000 * MS)]),
            [Some(500)]
        );
        assert_eq!(
            releases(&[pacer.request(at(150), 100 * MS, 1000 * MS)]),
            [Some(600)]
        );
        assert!(pacer.holes.get().unwrap().is_empty());
    }

    #[test]
    fn a_hole_stays_for_a_call_that_fits_whoever_has_looked_at_it_before() {
        let pacer = Pacer::default();
        let request = |cost, wait_max| pacer.request(at(0), cost * MS, wait_max * MS);
        let places = [0, 1, 2].map(|_| request(100, 1000).unwrap());
        pacer.give_back(places[1], at(0));
        let newcomers = [request(101, 1000), request(100, 99), request(100, 100)];
        assert_eq!(releases(&newcomers), [Some(301), None, Some(100)]);
    }

    #[test]
    fn a_hole_may_be_taken_up_to_the_very_moment_of_its_release() {
        // At the epoch too.
        for start in [0, 5] {
            let pacer = Pacer::default();
            let request = || pacer.request(at(start), 100 * MS, 1000 * MS);
            let places = [request(), request()];
            pacer.give_back(places[0].unwrap(), at(start));
            let newcomers = [request(), request()];
            let expected = [Some(start), Some(start + 200)];
            assert_eq!(releases(&newcomers), expected);
        }
    }

    #[test]
    fn as_many_holes_are_remembered_as_there_is_room_for_and_expired_ones_make_room() {
        let pacer = Pacer::default();
        let request = |ms| pacer.request(at(ms), 100 * MS, 10_000 * MS);
        let places: Vec<_> = (0..=12).map(|_| request(0).unwrap()).collect();
        for place in &places[1..=flowgate_core::holes::HOLES_MAX] {
            pacer.give_back(*place, at(0));
        }
        // No room is left, and at 100 the first hole may still be taken.
        pacer.give_back(places[9], at(0));
        pacer.give_back(places[10], at(100));
        // By now those of 100 and 200 have expired, and one of them is replaced.
        pacer.give_back(places[11], at(250));
        let newcomers: Vec<_> = (0..8).map(|_| request(250)).collect();
        let expected = [1100, 300, 400, 500, 600, 700, 800, 1300].map(Some);
        assert_eq!(releases(&newcomers), expected);
    }

    #[test]
    fn a_line_is_free_if_a_call_would_pass_at_once_and_unused_when_it_is_reset() {
        let pacer = Pacer::default();
        let cost = 100 * MS;
        assert!(pacer.is_free(at(0), cost));
        let places = [0, 0, 0].map(|ms| pacer.request(at(ms), cost, 1000 * MS));
        assert_eq!(releases(&places), [Some(0), Some(100), Some(200)]);
        assert!(!pacer.is_free(at(299), cost));
        assert!(pacer.is_free(at(300), cost));
        pacer.give_back(places[1].unwrap(), at(0));
        pacer.reset();
        assert!(pacer.is_free(at(0), cost));
        let newcomers = [0, 0].map(|ms| pacer.request(at(ms), cost, 1000 * MS));
        assert_eq!(releases(&newcomers), [Some(0), Some(100)]);
    }

    // https://github.com/golang/time/pull/22
    #[test]
    fn b077_refused_callers_do_not_push_the_queue_back() {
        let pacer = Pacer::default();
        let second = 1000 * MS;
        assert_eq!(releases(&[pacer.request(at(0), second, second)]), [Some(0)]);
        assert_eq!(
            releases(&[pacer.request(at(0), second, second)]),
            [Some(1000)]
        );
        for _ in 0..1000 {
            assert_eq!(
                pacer.request(at(0), second, second),
                Err(TooLong {
                    wait_ns: 2 * second
                })
            );
        }
        assert_eq!(
            releases(&[pacer.request(at(1000), second, second)]),
            [Some(2000)]
        );
    }
}

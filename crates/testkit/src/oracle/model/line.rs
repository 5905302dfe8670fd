//! A line: each call is released its cost after the one before it.

/// A line at an even pace.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    /// The last release; `None` while the line is unused.
    end: Option<u64>,
    /// Places given back from the middle.
    holes: Vec<Hole>,
}

/// A place given back from the middle.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Hole {
    release: u64,
    cost: u64,
    /// Whether it is surely remembered: more were not given back with it than
    /// have to be.
    sure: bool,
}

/// A place in the line, as a call holds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    release: u64,
    cost: u64,
    /// Where the line ended before; `None` if the place was a hole.
    before: Option<Option<u64>>,
}

/// Where a newcomer may be put.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Offer {
    /// At the end, after so long.
    End(u64),
    /// Nowhere: the wait at the end would be too long.
    TooLong,
    /// Into one of the holes, by the waits that they mean.
    Holes(Vec<u64>),
    /// As a hole or the end, whichever the limiter remembers: more places
    /// were given back than it has to.
    Any { holes: Vec<u64>, end: Option<u64> },
}

/// How many places given back are remembered: `docs/guarantees.md`.
const HOLES_MAX: usize = 8;

impl Line {
    /// Where a call of this cost that may wait so long can go.
    pub(super) fn offer(&self, now: u64, cost: u64, wait_max: u64) -> Offer {
        let end = self.at_end(now, cost);
        let end = (end <= wait_max).then_some(end);
        let fits = |hole: &&Hole| {
            hole.release >= now && hole.release - now <= wait_max && cost <= hole.cost
        };
        let fitting = self.holes.iter().filter(fits);
        let surely = fitting.clone().any(|hole| hole.sure);
        let holes: Vec<u64> = fitting.map(|hole| hole.release - now).collect();
        match end {
            _ if surely => Offer::Holes(holes),
            _ if !holes.is_empty() => Offer::Any { holes, end },
            Some(wait) => Offer::End(wait),
            None => Offer::TooLong,
        }
    }

    /// Whether places that were given back may be taken.
    pub(super) fn has_holes(&self, now: u64) -> bool {
        self.holes.iter().any(|hole| hole.release >= now)
    }

    /// The wait at the end of the line.
    pub(super) fn at_end(&self, now: u64, cost: u64) -> u64 {
        self.end.map_or(0, |end| (end + cost).saturating_sub(now))
    }

    /// Puts a call where the offer said.
    pub(super) fn take(&mut self, now: u64, cost: u64, wait: u64) -> Place {
        let release = now + wait;
        self.take_where(now, cost, wait, |hole| {
            hole.release == release && cost <= hole.cost
        })
    }

    /// The same, where what a place cost is not known.
    pub(super) fn take_any(&mut self, now: u64, cost: u64, wait: u64) -> Place {
        let release = now + wait;
        self.take_where(now, cost, wait, |hole| hole.release == release)
    }

    fn take_where(
        &mut self,
        now: u64,
        cost: u64,
        wait: u64,
        is_it: impl Fn(&Hole) -> bool,
    ) -> Place {
        self.holes.retain(|hole| hole.release >= now);
        let release = now + wait;
        if let Some(at) = self.holes.iter().position(is_it) {
            let cost = self.holes.swap_remove(at).cost;
            return Place {
                release,
                cost,
                before: None,
            };
        }
        let before = self.end.replace(release);
        Place {
            release,
            cost,
            before: Some(before),
        }
    }

    /// A call gives its place back.
    pub(super) fn give_back(&mut self, now: u64, place: Place) {
        let Place {
            release,
            cost,
            before,
        } = place;
        match before {
            Some(before) if self.end == Some(release) => self.end = before,
            _ if release >= now => {
                self.holes.retain(|hole| hole.release >= now);
                let sure = self.holes.len() < HOLES_MAX;
                self.holes.push(Hole {
                    release,
                    cost,
                    sure,
                });
                if !sure {
                    self.holes.iter_mut().for_each(|hole| hole.sure = false);
                }
            }
            _ => {}
        }
    }
}

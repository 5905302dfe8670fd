//! A bucket as one would draw it: a level that rises with time and falls with
//! every call.
//!
//! A level is in units of which a token is `1000 · interval in ns` and one
//! nanosecond brings `milli`, so nothing is ever rounded. A call that waits is
//! charged at its release, the first nanosecond at which there are enough.
//!
//! What goes back when a call is given up after others have come depends on
//! what has flowed over meanwhile. So two levels are kept: one as if all went
//! back, one as if nothing did. A limiter may be anywhere between; they are one
//! again as soon as even the lower is full.

/// A bucket between two levels.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    size: Size,
    /// As if nothing went back that need not.
    low: Level,
    /// As if everything went back.
    high: Level,
    /// Calls that took, for telling the last of them.
    taken: u64,
    /// Places of calls that gave up before others behind them: a newcomer of no
    /// more weight may have such a release.
    holes: Vec<Tokens>,
}

/// How fast it is filled and how much it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) milli: u64,
    pub(super) interval_ns: u64,
    pub(super) burst: u64,
}

/// A level at the latest time that was charged; below zero for tokens that
/// calls wait for.
#[derive(Clone, Copy, Debug)]
struct Level {
    at_ns: u64,
    units: i128,
}

/// What a call took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens {
    release_ns: u64,
    weight: u64,
    number: u64,
}

impl Size {
    fn token(&self) -> i128 {
        1000 * i128::from(self.interval_ns)
    }

    fn full(&self) -> i128 {
        i128::from(self.burst) * self.token()
    }

    /// What there is at a time, also before the latest that was charged.
    fn there(&self, level: Level, ns: u64) -> i128 {
        let flowed = (i128::from(ns) - i128::from(level.at_ns)) * i128::from(self.milli);
        (level.units + flowed).min(self.full())
    }

    /// How long a call that comes now has to wait; `None`: for ever.
    fn wait(&self, level: Level, now: u64, weight: u64) -> Option<u64> {
        if weight > self.burst {
            return None;
        }
        let missing = i128::from(weight) * self.token() - self.there(level, now);
        if missing <= 0 {
            return Some(0);
        }
        let milli = i128::from(self.milli);
        (milli > 0).then(|| ((missing + milli - 1) / milli) as u64)
    }

    fn take(&self, level: &mut Level, at_ns: u64, weight: u64) {
        if at_ns > level.at_ns {
            level.units = self.there(*level, at_ns);
            level.at_ns = at_ns;
        }
        // Else it is charged before others: what they left is less by so much.
        level.units -= i128::from(weight) * self.token();
    }
}

impl Bucket {
    /// A full one.
    pub(super) fn new(size: Size) -> Self {
        let full = Level {
            at_ns: 0,
            units: size.full(),
        };
        Bucket {
            size,
            low: full,
            high: full,
            taken: 0,
            holes: Vec::new(),
        }
    }

    /// The least and the most that a call that comes now has to wait.
    pub(super) fn waits(&self, now: u64, weight: u64) -> Option<(u64, u64)> {
        let least = self.size.wait(self.high, now, weight)?;
        let most = self.size.wait(self.low, now, weight)?;
        let fits = |hole: &&Tokens| hole.release_ns >= now && weight <= hole.weight;
        let holes = self.holes.iter().filter(fits);
        let first = holes.map(|hole| hole.release_ns - now).min();
        Some((first.map_or(least, |first| first.min(least)), most))
    }

    /// A call takes its tokens, charged at `at_ns`.
    pub(super) fn take(&mut self, at_ns: u64, weight: u64) -> Tokens {
        self.taken += 1;
        self.size.take(&mut self.low, at_ns, weight);
        self.size.take(&mut self.high, at_ns, weight);
        Tokens {
            release_ns: at_ns,
            weight,
            number: self.taken,
        }
    }

    /// A call gives them back: surely all of them if nobody has come since.
    pub(super) fn give_back(&mut self, tokens: Tokens) {
        let units = i128::from(tokens.weight) * self.size.token();
        self.high.units += units;
        if tokens.number == self.taken {
            self.low.units += units;
            // Whether the one before is the last now is not asked.
            self.taken += 1;
        } else {
            self.holes.push(tokens);
        }
    }

    /// Forgets what is long over.
    pub(super) fn settle(&mut self, now: u64) {
        self.holes.retain(|hole| hole.release_ns >= now);
        if self.size.there(self.low, now) == self.size.full() {
            self.high = self.low;
        }
    }
}

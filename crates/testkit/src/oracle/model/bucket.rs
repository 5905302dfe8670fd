//! A bucket as one would draw it: a level that rises with time and falls with
//! every call.
//!
//! The level is in units of which a token is `1000 · interval in ns` and one
//! nanosecond brings `milli`, so nothing is ever rounded. A call that waits is
//! charged at its release, the first nanosecond at which there are enough.
//!
//! What goes back when a call is given up after others have come depends on
//! what has flowed over meanwhile, and who takes its place in the line on who
//! comes. From then on the level is the least that there may be: a call must not
//! be made to wait longer than by that, and may be let in sooner. That it is not
//! too soon, the spans of the log say. As soon as even the least is a full
//! bucket, all is known again.

/// A bucket, and whether its level is known.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    size: Size,
    /// The latest time that was charged, and the level then; below zero for
    /// tokens that calls wait for.
    at_ns: u64,
    units: i128,
    /// Whether there may be more than that.
    is_least: bool,
    /// Calls that took, for telling the last of them.
    taken: u64,
}

/// How fast it is filled and how much it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) milli: u64,
    pub(super) interval_ns: u64,
    pub(super) burst: u64,
}

/// What a call took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens {
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
}

impl Bucket {
    /// A full one.
    pub(super) fn new(size: Size) -> Self {
        Bucket {
            size,
            at_ns: 0,
            units: size.full(),
            is_least: false,
            taken: 0,
        }
    }

    /// What there is at a time, also before the latest that was charged.
    fn there(&self, ns: u64) -> i128 {
        let flowed = (i128::from(ns) - i128::from(self.at_ns)) * i128::from(self.size.milli);
        (self.units + flowed).min(self.size.full())
    }

    /// The least and the most that a call that comes now has to wait; `None`:
    /// for ever.
    pub(super) fn waits(&self, now: u64, weight: u64) -> Option<(u64, u64)> {
        if weight > self.size.burst {
            return None;
        }
        let missing = i128::from(weight) * self.size.token() - self.there(now);
        let milli = i128::from(self.size.milli);
        let most = match missing {
            ..=0 => 0,
            _ if milli == 0 => return None,
            _ => ((missing + milli - 1) / milli) as u64,
        };
        Some((if self.is_least { 0 } else { most }, most))
    }

    /// A call takes its tokens, charged at `at_ns`.
    pub(super) fn take(&mut self, at_ns: u64, weight: u64) -> Tokens {
        self.taken += 1;
        if at_ns > self.at_ns {
            self.units = self.there(at_ns);
            self.at_ns = at_ns;
        }
        // Else it is charged before others: what they left is less by so much.
        self.units -= i128::from(weight) * self.size.token();
        Tokens {
            weight,
            number: self.taken,
        }
    }

    /// A call gives them back: surely all of them if nobody has come since.
    pub(super) fn give_back(&mut self, tokens: Tokens) {
        if tokens.number == self.taken {
            self.units += i128::from(tokens.weight) * self.size.token();
            // Whether the one before is the last now is not asked.
            self.taken += 1;
        } else {
            self.is_least = true;
        }
    }

    /// Nobody who waits knows better than a full bucket.
    pub(super) fn settle(&mut self, now: u64) {
        self.is_least &= self.there(now) < self.size.full();
    }
}

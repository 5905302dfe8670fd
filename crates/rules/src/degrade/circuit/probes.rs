//! The probes of one half-open state, without a lock.
//!
//! Each half-open state has a table of its own, so that nothing of an earlier
//! one can be taken for something of this. It holds a **tally**, one word of
//! how many probes are out and how many have come back good and bad, and a
//! **slot** for each probe that may be out, one word of when the probe in it is
//! given up and whether there is one.
//!
//! * A probe is *taken* by raising the tally, if there is room, and then moving
//!   into a free slot. There is one: slots are left before the tally is
//!   lowered.
//! * A probe whose time is over is *given up*: if it comes back it is undecided,
//!   and whoever finds no room takes its slot. The slot has another time then,
//!   and a probe is known by its slot and its time, so it is not even found
//!   later. A slot's times only grow, and grow strictly when it is given away.
//! * A probe that *comes back* leaves its slot first, which only one of it and
//!   the one that takes it can do, and then changes the tally.
//!
//! The tally that first reaches enough good or too many bad results, or has
//! nothing out and nothing decided any more, is the **verdict**. It stays:
//! later results are not counted, nobody takes a probe, and whoever finds it
//! moves the breaker on.

use std::time::Duration;

use flowgate_core::Timestamp;
use flowgate_core::sync::{AtomicU64, Ordering};

/// What probing asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probing {
    /// The most probes that are out, 1 to [`PROBES_MAX`].
    pub probes: u32,
    /// How many of that many results have to be good, 1 to `probes`.
    pub needed: u32,
    /// When a probe that has not come back is given up.
    pub timeout: Duration,
}

/// The most probes a breaker can have out.
pub const PROBES_MAX: u32 = 10_000;

/// The probes of one half-open state.
#[derive(Debug)]
pub(super) struct Probes {
    probing: Probing,
    tally: AtomicU64,
    /// The first slot, in place: most breakers have one probe, and then a new
    /// half-open state is one allocation.
    first: AtomicU64,
    others: Box<[AtomicU64]>,
}

/// A probe, by which it is known when it comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Probe {
    pub(super) slot: u32,
    /// When it is given up, in nanoseconds.
    pub(super) until: u64,
}

/// What comes of asking for a probe.
pub(super) enum Taken {
    Probe(Probe),
    /// As many as may be are out; the first of them is given up after this.
    Full(Duration),
    /// There is a verdict.
    Over,
}

/// How a half-open state ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Enough results are good.
    Good,
    /// So many are bad that there cannot be enough good ones.
    Bad,
    /// All probes have come back, and none with a result.
    Undecided,
}

/// `undecided (bit 63) | out (bits 32 to 47) | good (16) | bad (16)`. Counts of
/// good and bad results stop with the verdict, so neither passes 10,000.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    undecided: bool,
    pub(super) out: u64,
    pub(super) good: u64,
    pub(super) bad: u64,
}

impl Tally {
    fn read(word: u64) -> Self {
        Tally {
            undecided: word >> 63 != 0,
            out: word >> 32 & 0xffff,
            good: word >> 16 & 0xffff,
            bad: word & 0xffff,
        }
    }

    fn write(self) -> u64 {
        u64::from(self.undecided) << 63 | self.out << 32 | self.good << 16 | self.bad
    }
}

/// The largest time a slot can hold; a probe with it is never given up.
const UNTIL_MAX: u64 = u64::MAX >> 1;

/// What stands in a slot: a time, and whether a probe is out until then.
fn held(until: u64) -> u64 {
    until << 1 | 1
}

fn free(until: u64) -> u64 {
    until << 1
}

impl Probes {
    /// A table with one probe out, which is taken at `now`.
    pub(super) fn with_one(probing: Probing, now: Timestamp) -> (Self, Probe) {
        let probe = Probe {
            slot: 0,
            until: until(now, probing.timeout),
        };
        let first = Tally {
            out: 1,
            ..Tally::default()
        };
        let others = probing.probes.clamp(1, PROBES_MAX) - 1;
        let probes = Probes {
            probing,
            tally: AtomicU64::new(first.write()),
            first: AtomicU64::new(held(probe.until)),
            others: (0..others).map(|_| AtomicU64::new(0)).collect(),
        };
        (probes, probe)
    }

    fn slots(&self) -> impl Iterator<Item = &AtomicU64> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn slots_len(&self) -> u64 {
        1 + self.others.len() as u64
    }

    /// Asks for a probe at `now`.
    pub(super) fn take(&self, now: Timestamp) -> Taken {
        // Acquire: who finds room also finds the slot that was left for it.
        let raised = self
            .tally
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let mut tally = Tally::read(word);
                let room = tally.out < self.slots_len();
                (room && self.verdict_of(tally).is_none()).then(|| {
                    tally.out += 1;
                    tally.write()
                })
            });
        match raised {
            Ok(_) => Taken::Probe(self.move_in(now)),
            Err(_) if self.verdict().is_some() => Taken::Over,
            Err(_) => self.give_up_one(now),
        }
    }

    /// Moves into a free slot; the tally has been raised for it. A round that
    /// finds none means that others have moved in and out meanwhile.
    fn move_in(&self, now: Timestamp) -> Probe {
        loop {
            for (slot, word) in (0..).zip(self.slots()) {
                let found = word.load(Ordering::Acquire);
                if found & 1 == 0
                    && let Some(until) = self.hold(word, found, now)
                {
                    return Probe { slot, until };
                }
            }
        }
    }

    /// Puts a probe of `now` in the place of what was `found`; returns when it
    /// is given up. A slot's times never go back, whatever `now` is.
    fn hold(&self, slot: &AtomicU64, found: u64, now: Timestamp) -> Option<u64> {
        let given_up = found & 1;
        let until = until(now, self.probing.timeout)
            .max((found >> 1) + given_up)
            .min(UNTIL_MAX);
        // AcqRel: the one before has done with the slot, and the next sees it
        // held.
        slot.compare_exchange(found, held(until), Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
            .then_some(until)
    }

    /// As many probes as may be are out: takes the place of one whose time is
    /// over.
    fn give_up_one(&self, now: Timestamp) -> Taken {
        let mut first = until(now, self.probing.timeout);
        for (slot, word) in (0..).zip(self.slots()) {
            let found = word.load(Ordering::Acquire);
            let (until, is_held) = (found >> 1, found & 1 == 1);
            // One that is free belongs to somebody who comes or goes just now.
            if !is_held {
                continue;
            }
            if !is_over(until, now) {
                first = first.min(until);
            } else if let Some(until) = self.hold(word, found, now) {
                // What has come back meanwhile may have decided.
                return match self.verdict() {
                    None => Taken::Probe(Probe { slot, until }),
                    Some(_) => Taken::Over,
                };
            }
        }
        Taken::Full(Timestamp::from_nanos(first).since(now))
    }

    /// A probe comes back, with a result or undecided. After its time it is
    /// undecided whatever it says. False if its slot had been given away.
    pub(super) fn come_back(&self, probe: Probe, bad: Option<bool>, now: Timestamp) -> bool {
        let bad = bad.filter(|_| !is_over(probe.until, now));
        let Some(slot) = self.slots().nth(probe.slot as usize) else {
            return false;
        };
        // AcqRel: who holds the slot next has all that this probe has done.
        let left = slot.compare_exchange(
            held(probe.until),
            free(probe.until),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if left.is_err() {
            return false;
        }
        // Release: who sees the lower tally sees that the slot is free.
        let _ = self
            .tally
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let mut tally = Tally::read(word);
                tally.out = tally.out.saturating_sub(1);
                if self.verdict_of(tally).is_none() {
                    tally.good += u64::from(bad == Some(false));
                    tally.bad += u64::from(bad == Some(true));
                    tally.undecided = tally.out + tally.good + tally.bad == 0;
                }
                Some(tally.write())
            });
        true
    }

    /// How this half-open state ends, if that is settled.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.verdict_of(Tally::read(self.tally.load(Ordering::Acquire)))
    }

    fn verdict_of(&self, tally: Tally) -> Option<Verdict> {
        let Probing { probes, needed, .. } = self.probing;
        if tally.undecided {
            Some(Verdict::Undecided)
        } else if tally.good >= u64::from(needed) {
            Some(Verdict::Good)
        } else if tally.bad > u64::from(probes.saturating_sub(needed)) {
            Some(Verdict::Bad)
        } else {
            None
        }
    }

    /// What has come back, and how many probes are out that are not over their
    /// time.
    pub(super) fn tally(&self, now: Timestamp) -> Tally {
        let overdue = self.slots().filter(|slot| {
            let word = slot.load(Ordering::Acquire);
            word & 1 == 1 && is_over(word >> 1, now)
        });
        let overdue = overdue.count() as u64;
        let mut tally = Tally::read(self.tally.load(Ordering::Acquire));
        tally.out = tally.out.saturating_sub(overdue);
        tally
    }

    /// How long until a call could probe.
    pub(super) fn wait(&self, now: Timestamp) -> Duration {
        if self.tally(now).out < self.slots_len() {
            return Duration::ZERO;
        }
        let times = self.slots().filter_map(|slot| {
            let word = slot.load(Ordering::Acquire);
            (word & 1 == 1).then_some(word >> 1)
        });
        let first = times.min().unwrap_or_default();
        Timestamp::from_nanos(first).since(now)
    }
}

fn until(now: Timestamp, timeout: Duration) -> u64 {
    (now + timeout).as_nanos().min(UNTIL_MAX)
}

fn is_over(until: u64, now: Timestamp) -> bool {
    until <= now.as_nanos() && until != UNTIL_MAX
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The times of slots end in the year 2262, the clock's in 2554.
    #[test]
    fn a_probe_whose_time_cannot_be_written_down_is_never_given_up() {
        let probing = Probing {
            probes: 1,
            needed: 1,
            timeout: Duration::from_secs(1),
        };
        let late = Timestamp::from_nanos(1 << 63);
        let (probes, probe) = Probes::with_one(probing, late);
        let end = Timestamp::from_nanos(u64::MAX);
        assert!(matches!(probes.take(end), Taken::Full(_)));
        assert_eq!(probes.tally(end).out, 1);
        assert!(probes.come_back(probe, Some(false), end));
        assert_eq!(probes.verdict(), Some(Verdict::Good));
    }
}

//! Limiters that are broken on purpose, each in a way that is seen in the wild:
//! what an oracle does not find in these it would not find anywhere.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::algorithms::{Algorithm, named};
use super::case::{BASE_NS, Call, Limit, MS, Setup};
use super::limiter::{Held, In, Limiter, Refused};

/// A way to break a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sabotage {
    /// It looks whether there is room, and counts in a second step.
    CheckThenCount,
    /// An older reading of the clock opens an older window again.
    WindowRolledBack,
    /// Threads take permits in advance, and keep what they do not use.
    LeaseNotReclaimed,
    /// What a call has taken is not given back when a later limit refuses it.
    RefundLost,
}

impl Sabotage {
    /// What it pretends to be.
    pub(crate) fn algorithm(self) -> Option<&'static Algorithm> {
        named(match self {
            Sabotage::RefundLost => "several",
            _ => "limiter",
        })
    }

    /// The broken limiter for a setup.
    pub(crate) fn limiter(self, setup: &Setup) -> Box<dyn Limiter> {
        match self {
            Sabotage::RefundLost => Box::new(Forgetful::new(setup)),
            _ => Box::new(Naive::new(setup, self)),
        }
    }
}

/// A ring of counters without any of the care that it takes.
struct Naive {
    flaw: Sabotage,
    now: AtomicU64,
    box_ns: u64,
    most: u64,
    /// The box that a counter is of, and what it holds.
    ring: Vec<(AtomicU64, AtomicU64)>,
    /// Permits that threads hold in advance, and for which box.
    leases: Vec<Mutex<(u64, u64)>>,
}

const LEASE: u64 = 8;
const THREADS_MAX: usize = 64;

impl Naive {
    fn new(setup: &Setup, flaw: Sabotage) -> Self {
        let Limit::Interval {
            milli,
            interval_ms,
            boxes,
            ..
        } = setup.sets[0][0]
        else {
            panic!("only windows are broken in this way");
        };
        Naive {
            flaw,
            now: BASE_NS.into(),
            box_ns: interval_ms * MS / u64::from(boxes),
            most: milli / 1000,
            ring: (0..boxes).map(|_| Default::default()).collect(),
            leases: (0..THREADS_MAX).map(|_| Mutex::default()).collect(),
        }
    }

    fn slot(&self, number: u64) -> &(AtomicU64, AtomicU64) {
        &self.ring[(number % self.ring.len() as u64) as usize]
    }

    /// Makes the slot that of this box.
    fn roll(&self, number: u64) -> u64 {
        let newest = self.ring.iter().map(|slot| slot.0.load(Ordering::SeqCst));
        let number = match self.flaw {
            Sabotage::WindowRolledBack => number,
            _ => newest.max().unwrap_or(0).max(number),
        };
        let (stamp, count) = self.slot(number);
        if stamp.swap(number, Ordering::SeqCst) != number {
            count.store(0, Ordering::SeqCst);
        }
        number
    }

    fn held(&self, number: u64) -> u64 {
        let account = (number + 1).saturating_sub(self.ring.len() as u64)..=number;
        let counted = self.ring.iter();
        let counted = counted.filter(|slot| account.contains(&slot.0.load(Ordering::SeqCst)));
        counted.map(|slot| slot.1.load(Ordering::SeqCst)).sum()
    }

    /// Takes `weight` if there is room, one thread at a time.
    fn take(&self, number: u64, weight: u64) -> bool {
        let (_, count) = self.slot(number);
        let mut before = count.load(Ordering::SeqCst);
        loop {
            if self.held(number) + weight > self.most {
                return false;
            }
            let swapped =
                count.compare_exchange(before, before + weight, Ordering::SeqCst, Ordering::SeqCst);
            match swapped {
                Ok(_) => return true,
                Err(found) => before = found,
            }
        }
    }

    fn admits(&self, thread: usize, number: u64, weight: u64) -> bool {
        match self.flaw {
            Sabotage::CheckThenCount => {
                let room = self.held(number) + weight <= self.most;
                std::thread::yield_now();
                if room {
                    self.slot(number).1.fetch_add(weight, Ordering::SeqCst);
                }
                room
            }
            Sabotage::LeaseNotReclaimed => {
                let mut lease = match self.leases[thread % THREADS_MAX].lock() {
                    Ok(lease) => lease,
                    Err(poisoned) => poisoned.into_inner(),
                };
                if lease.0 != number {
                    *lease = (number, 0);
                }
                if lease.1 < weight {
                    let wanted = LEASE.max(weight);
                    if self.take(number, wanted) {
                        lease.1 += wanted;
                    } else if self.take(number, weight) {
                        lease.1 += weight;
                    }
                }
                let admitted = lease.1 >= weight;
                lease.1 -= if admitted { weight } else { 0 };
                admitted
            }
            _ => self.take(number, weight),
        }
    }
}

impl Limiter for Naive {
    fn set_time(&self, ns: u64) {
        self.now.store(ns, Ordering::SeqCst);
    }

    fn advance(&self, ns: u64) {
        self.now.fetch_add(ns, Ordering::SeqCst);
    }

    fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    fn enter(&self, thread: usize, call: &Call) -> Result<In<'_>, Refused> {
        let ns = self.now();
        let weight = u64::from(call.weight);
        let admitted = weight == 0 || {
            let number = self.roll(ns / self.box_ns);
            self.admits(thread, number, weight)
        };
        if !admitted {
            return Err(Refused { by: None });
        }
        Ok(In {
            charged_ns: ns,
            wait_ns: 0,
            held: Held::Nothing,
        })
    }
}

/// The rules of an engine, where a call that is refused by the last of them
/// leaves behind what it has taken of the first.
struct Forgetful {
    rules: Box<dyn Limiter>,
    /// The same without the last rule: what passes it has been counted.
    first: Box<dyn Limiter>,
}

impl Forgetful {
    fn new(setup: &Setup) -> Self {
        let mut first = setup.clone();
        for set in &mut first.sets {
            set.truncate(set.len().saturating_sub(1).max(1));
        }
        Forgetful {
            rules: super::limiter::honest(setup),
            first: super::limiter::honest(&first),
        }
    }
}

impl Limiter for Forgetful {
    fn set_time(&self, ns: u64) {
        self.rules.set_time(ns);
        self.first.set_time(ns);
    }

    fn advance(&self, ns: u64) {
        self.rules.advance(ns);
        self.first.advance(ns);
    }

    fn now(&self) -> u64 {
        self.rules.now()
    }

    fn enter(&self, thread: usize, call: &Call) -> Result<In<'_>, Refused> {
        let counted = self.first.enter(thread, call)?;
        let entered = self.rules.enter(thread, call);
        // Whatever became of it: its passes stay counted.
        counted.held.begin().end(super::case::How::Success);
        entered
    }

    fn load(&self, set: usize) {
        self.rules.load(set);
        self.first.load(set);
    }
}

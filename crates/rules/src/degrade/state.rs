//! The state of one circuit breaker for one resource.
//!
//! ```text
//!            more than the threshold            after the open time
//!  CLOSED ───────────────────────────▶ OPEN ───────────────────────▶ HALF-OPEN
//!     ▲                                 ▲ ▲                            │ │ │
//!     │                                 │ └── a probe fails ───────────┘ │ │
//!     │                                 └──── all undecided: old time ───┘ │
//!     └────────────────── enough probes succeed ───────────────────────────┘
//! ```
//!
//! Every change of state raises the **generation**, which is kept in one word
//! with the state. A call remembers the generation it was admitted in, and its
//! result counts or decides only while that generation lasts: what was admitted
//! before the breaker opened never decides a probe, nor counts after it has
//! closed again.
//!
//! A **probe** is a reservation. Refused by a later slot, or cancelled, it comes
//! back undecided: the breaker is open as before, with the old retry time. One
//! that does not come back in time is given up, and the next call probes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use flowgate_core::leap_array::cell::Counter;
use flowgate_core::leap_array::{Bucket, Renewal};
use flowgate_core::{LeapArray, Outcome, Timestamp};

use super::{BreakerStrategy, DegradeRule};

/// What callers see of a breaker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CircuitState {
    /// Calls pass and are counted.
    Closed,
    /// Calls are refused until the open time is over.
    Open,
    /// A few calls try whether it works again.
    HalfOpen,
}

/// What a call that a breaker let pass has to remember.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admitted {
    generation: u64,
    probe: bool,
}

/// The breaker of one rule for one resource.
#[derive(Debug)]
pub struct BreakerState {
    limits: Limits,
    /// Generation in the upper 62 bits, state in the lower two.
    word: AtomicU64,
    /// When an open breaker may be probed. Only grows, so that a thread that is
    /// late with an older time does not shorten the open time.
    retry_at_ns: AtomicU64,
    /// When the probes of the half-open state are given up. Only grows.
    give_up_at_ns: AtomicU64,
    /// Probes of the half-open state: see [`Probes`].
    probes: AtomicU64,
    counts: ArcSwap<Counts>,
}

#[derive(Clone, Debug)]
struct Limits {
    strategy: BreakerStrategy,
    threshold: f64,
    slow_rt_ms: f64,
    min_requests: u64,
    interval: Duration,
    open_time: Duration,
    half_open_timeout: Duration,
    probe_count: u64,
}

/// Results of calls admitted in one generation.
#[derive(Debug)]
struct Counts {
    generation: u64,
    window: LeapArray<Results>,
}

#[derive(Debug, Default)]
struct Results {
    total: Counter,
    bad: Counter,
}

impl Bucket for Results {
    fn renew(&self, renewal: &Renewal<'_>) {
        self.total.renew(renewal);
        self.bad.renew(renewal);
    }
}

const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const HALF_OPEN: u64 = 2;
const STATE_MASK: u64 = 3;

fn next_word(word: u64, state: u64) -> u64 {
    (((word >> 2) + 1) << 2) | state
}

/// `generation (32 bits, its lower part) | in flight (16) | succeeded (16)`.
struct Probes {
    tag: u64,
    in_flight: u64,
    succeeded: u64,
}

impl Probes {
    fn read(word: u64, generation: u64) -> Self {
        let tag = generation & 0xffff_ffff;
        if word >> 32 != tag {
            return Probes {
                tag,
                in_flight: 0,
                succeeded: 0,
            };
        }
        Probes {
            tag,
            in_flight: (word >> 16) & 0xffff,
            succeeded: word & 0xffff,
        }
    }

    fn write(&self) -> u64 {
        (self.tag << 32) | (self.in_flight << 16) | self.succeeded
    }
}

impl BreakerState {
    /// A closed breaker for `rule`, which has been validated.
    pub fn new(rule: &DegradeRule) -> Self {
        let open_time = Duration::from_secs(u64::from(rule.time_window_sec));
        let limits = Limits {
            strategy: rule.grade,
            threshold: rule.threshold(),
            slow_rt_ms: rule.count,
            min_requests: u64::from(rule.min_request_amount),
            interval: Duration::from_millis(u64::from(rule.stat_interval_ms.max(1))),
            open_time,
            half_open_timeout: rule
                .half_open_timeout_ms
                .map_or(open_time, Duration::from_millis),
            probe_count: u64::from(rule.probe_num.unwrap_or(1).clamp(1, 0xffff)),
        };
        BreakerState {
            word: AtomicU64::new(CLOSED),
            retry_at_ns: AtomicU64::new(0),
            give_up_at_ns: AtomicU64::new(0),
            probes: AtomicU64::new(0),
            counts: ArcSwap::from_pointee(Counts::new(0, limits.interval)),
            limits,
        }
    }

    /// The state now. An open breaker stays open until a call probes it.
    pub fn state(&self) -> CircuitState {
        match self.word.load(Ordering::Acquire) & STATE_MASK {
            CLOSED => CircuitState::Closed,
            OPEN => CircuitState::Open,
            _ => CircuitState::HalfOpen,
        }
    }

    /// Whether a call may pass at `now`.
    ///
    /// # Errors
    ///
    /// How long until a call may probe.
    #[inline]
    pub fn admit(&self, now: Timestamp) -> Result<Admitted, Duration> {
        let word = self.word.load(Ordering::Acquire);
        if word & STATE_MASK == CLOSED {
            return Ok(Admitted {
                generation: word >> 2,
                probe: false,
            });
        }
        self.admit_probe(now)
    }

    #[cold]
    fn admit_probe(&self, now: Timestamp) -> Result<Admitted, Duration> {
        loop {
            let word = self.word.load(Ordering::Acquire);
            let (state, generation) = (word & STATE_MASK, word >> 2);
            let waits_until = match state {
                CLOSED => {
                    return Ok(Admitted {
                        generation,
                        probe: false,
                    });
                }
                OPEN => self.retry_at_ns.load(Ordering::Acquire),
                _ => {
                    if self.take_probe(generation) {
                        self.give_probes_until(now);
                        return Ok(Admitted {
                            generation,
                            probe: true,
                        });
                    }
                    self.give_up_at_ns.load(Ordering::Acquire)
                }
            };
            if now.as_nanos() < waits_until {
                return Err(Duration::from_nanos(waits_until - now.as_nanos()));
            }
            // Open long enough, or the probes have not come back: a new
            // half-open state, whose first probe is this call if it is fast
            // enough to take it in the next round.
            self.give_probes_until(now);
            let _ = self.swap(word, next_word(word, HALF_OPEN));
        }
    }

    /// Probes that start at `now` have the time limit from now on; so have
    /// those before them.
    fn give_probes_until(&self, now: Timestamp) {
        let give_up_at = now + self.limits.half_open_timeout;
        self.give_up_at_ns
            .fetch_max(give_up_at.as_nanos(), Ordering::AcqRel);
    }

    fn take_probe(&self, generation: u64) -> bool {
        self.change_probes(generation, |probes| {
            let free = probes.in_flight < self.limits.probe_count;
            free.then(|| probes.in_flight += 1)
        })
        .is_some()
    }

    /// Takes back an admission whose call was refused later, or given up.
    pub fn undecided(&self, admitted: Admitted) {
        if !admitted.probe {
            return;
        }
        let idle = self.change_probes(admitted.generation, |probes| {
            probes.in_flight = probes.in_flight.saturating_sub(1);
            Some(probes.in_flight == 0 && probes.succeeded == 0)
        });
        let word = (admitted.generation << 2) | HALF_OPEN;
        if idle == Some(true) {
            // If another probe starts just now, it loses its say with the
            // generation, and the call after it probes again.
            let _ = self.swap(word, next_word(word, OPEN));
        }
    }

    /// Reports how a call ended that this breaker had let pass.
    pub fn report(&self, admitted: Admitted, outcome: Outcome, took: Duration, now: Timestamp) {
        if outcome == Outcome::Cancelled {
            return self.undecided(admitted);
        }
        let bad = match self.limits.strategy {
            BreakerStrategy::SlowRatio => took.as_nanos() as f64 / 1e6 > self.limits.slow_rt_ms,
            _ => outcome == Outcome::Error,
        };
        match admitted.probe {
            true => self.decide(admitted.generation, bad, now),
            false => self.count(admitted.generation, bad, now),
        }
    }

    fn decide(&self, generation: u64, bad: bool, now: Timestamp) {
        let word = (generation << 2) | HALF_OPEN;
        if bad {
            return self.open(word, now);
        }
        let succeeded = self.change_probes(generation, |probes| {
            probes.in_flight = probes.in_flight.saturating_sub(1);
            probes.succeeded += 1;
            Some(probes.succeeded)
        });
        if succeeded.is_some_and(|n| n >= self.limits.probe_count) {
            let closed = next_word(word, CLOSED);
            // The counts come first: a call admitted by the closed breaker
            // must find the counts of its generation.
            let counts = Counts::new(closed >> 2, self.limits.interval);
            let counts = Arc::new(counts);
            self.counts.rcu(|old| {
                let newer = if old.generation < counts.generation {
                    &counts
                } else {
                    old
                };
                Arc::clone(newer)
            });
            let _ = self.swap(word, closed);
        }
    }

    fn count(&self, generation: u64, bad: bool, now: Timestamp) {
        let counts = self.counts.load();
        let word = (generation << 2) | CLOSED;
        if counts.generation != generation || self.word.load(Ordering::Acquire) != word {
            return;
        }
        let mut window = counts.window.current(now);
        window.add_to(|results| &results.total, 1);
        if bad {
            window.add_to(|results| &results.bad, 1);
        }
        let total = window.count_of(|results| &results.total);
        let bad = window.count_of(|results| &results.bad);
        if total >= self.limits.min_requests && self.limits.exceeded(bad, total) {
            self.open(word, now);
        }
    }

    fn open(&self, word: u64, now: Timestamp) {
        if self.word.load(Ordering::Acquire) == word {
            let retry_at = now + self.limits.open_time;
            self.retry_at_ns
                .fetch_max(retry_at.as_nanos(), Ordering::AcqRel);
            let _ = self.swap(word, next_word(word, OPEN));
        }
    }

    fn swap(&self, from: u64, to: u64) -> Result<u64, u64> {
        self.word
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Changes the probes of `generation`, if that still lasts.
    fn change_probes<T>(
        &self,
        generation: u64,
        change: impl Fn(&mut Probes) -> Option<T>,
    ) -> Option<T> {
        let mut word = self.probes.load(Ordering::Acquire);
        loop {
            if self.word.load(Ordering::Acquire) != (generation << 2) | HALF_OPEN {
                return None;
            }
            let mut probes = Probes::read(word, generation);
            let result = change(&mut probes)?;
            let swapped = self.probes.compare_exchange(
                word,
                probes.write(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match swapped {
                Ok(_) => return Some(result),
                Err(found) => word = found,
            }
        }
    }
}

impl Limits {
    /// "More than", never "at least", except that a ratio of 1 opens when all
    /// calls are bad.
    fn exceeded(&self, bad: u64, total: u64) -> bool {
        if self.strategy == BreakerStrategy::ErrorCount {
            return bad as f64 > self.threshold;
        }
        let ratio = bad as f64 / total.max(1) as f64;
        ratio > self.threshold || (self.threshold >= 1.0 && ratio >= 1.0)
    }
}

impl Counts {
    fn new(generation: u64, interval: Duration) -> Self {
        let window = LeapArray::new(1, interval)
            .or_else(|_| LeapArray::new(1, Duration::from_secs(1)))
            .expect("one window of a second is a ring");
        Counts { generation, window }
    }
}

impl Admitted {
    /// As plain numbers, for a slot's ticket.
    pub fn to_words(self) -> [u64; 2] {
        [self.generation, u64::from(self.probe)]
    }

    /// From the numbers of [`Admitted::to_words`].
    pub fn from_words([generation, probe]: [u64; 2]) -> Self {
        Admitted {
            generation,
            probe: probe != 0,
        }
    }
}

//! Time: where it comes from, and what it promises.
//!
//! A [`Clock`] is one concrete type with an enum inside, so that reading it
//! costs a branch and no virtual call:
//!
//! | clock | reads | for |
//! |---|---|---|
//! | [`Clock::system`] | the CPU's time-stamp counter (crate `quanta`) | services |
//! | [`Clock::cached`] | a number that a background thread renews | the cheapest reading, a millisecond coarse |
//! | [`Clock::manual`] | what you last set | tests, simulation, replay |
//! | [`Clock::custom`] | a [`TimeSource`] of yours | runtimes with a time of their own |
//!
//! **Promises.** Readings of one clock never fall: a source that goes back is
//! held at the newest reading until it has caught up, so a step back looks like
//! time standing still. The wall clock is read once, when the clock is made;
//! from then on it may step as it likes. A processor clock may drift against
//! the wall by parts per million, and windows drift with it.

mod cached;
mod timestamp;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::sync::{AtomicU64, Ordering};

pub use timestamp::Timestamp;

use cached::CachedTime;

/// A source of time of your own, for [`Clock::custom`].
///
/// ```
/// use std::time::Instant;
/// use flowgate_core::{Clock, TimeSource, Timestamp};
///
/// struct Since(Instant);
///
/// impl TimeSource for Since {
///     fn now(&self) -> Timestamp {
///         Timestamp::from_nanos(self.0.elapsed().as_nanos() as u64)
///     }
/// }
///
/// let clock = Clock::custom(Since(Instant::now()));
/// assert!(clock.now() >= Timestamp::EPOCH);
/// ```
pub trait TimeSource: Send + Sync + 'static {
    /// The time now. Should not fall; if it does, the [`Clock`] around it
    /// stands still until it has caught up.
    fn now(&self) -> Timestamp;

    /// Waits on the calling thread. The default sleeps in real time.
    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// Where an engine reads the time. Cheap to clone; clones agree.
#[derive(Clone)]
pub struct Clock {
    source: Source,
}

#[derive(Clone)]
enum Source {
    System(AnchoredCounter),
    Cached(Arc<CachedTime>),
    Manual(ManualClock),
    Custom(Arc<Monotone>),
}

/// The counter, where it stood when the clock was made, and what the wall
/// clock said at that moment.
#[derive(Clone)]
struct AnchoredCounter {
    counter: quanta::Clock,
    raw: u64,
    unix_ns: u64,
}

struct Monotone {
    source: Box<dyn TimeSource>,
    newest: AtomicU64,
}

impl Clock {
    /// The processor's counter, anchored to the wall clock now.
    pub fn system() -> Self {
        Clock {
            source: Source::System(AnchoredCounter::anchored()),
        }
    }

    /// A clock that a background thread renews every `resolution` (at least
    /// 100 µs): reading it is one load, and lags by about that much. The
    /// thread ends when the last clone of the clock is dropped.
    pub fn cached(resolution: Duration) -> Self {
        Clock {
            source: Source::Cached(CachedTime::start(resolution)),
        }
    }

    /// A clock that stands still until it is moved; see [`ManualClock`].
    pub fn manual(clock: ManualClock) -> Self {
        Clock {
            source: Source::Manual(clock),
        }
    }

    /// A clock of your own making.
    pub fn custom(source: impl TimeSource) -> Self {
        let monotone = Monotone {
            source: Box::new(source),
            newest: AtomicU64::new(0),
        };
        Clock {
            source: Source::Custom(Arc::new(monotone)),
        }
    }

    /// The time now. Never falls.
    #[inline]
    pub fn now(&self) -> Timestamp {
        match &self.source {
            Source::System(system) => system.now(),
            Source::Cached(cached) => cached.now(),
            Source::Manual(manual) => manual.now(),
            Source::Custom(custom) => custom.now(),
        }
    }

    /// Waits on the calling thread for `duration` of this clock's time. A
    /// manual clock is moved forward instead: nobody else may be there to move
    /// it, and a simulation wants to go on.
    pub fn sleep(&self, duration: Duration) {
        match &self.source {
            Source::System(_) | Source::Cached(_) => std::thread::sleep(duration),
            Source::Manual(manual) => manual.advance(duration),
            Source::Custom(custom) => custom.source.sleep(duration),
        }
    }

    /// The manual clock inside, if this is one.
    pub fn as_manual(&self) -> Option<&ManualClock> {
        match &self.source {
            Source::Manual(manual) => Some(manual),
            _ => None,
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.source {
            Source::System(_) => "system",
            Source::Cached(_) => "cached",
            Source::Manual(_) => "manual",
            Source::Custom(_) => "custom",
        };
        write!(f, "Clock({name} at {})", self.now())
    }
}

impl AnchoredCounter {
    fn anchored() -> Self {
        let counter = quanta::Clock::new();
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let raw = counter.raw();
        let unix_ns = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        AnchoredCounter {
            counter,
            raw,
            unix_ns,
        }
    }

    #[inline]
    fn now(&self) -> Timestamp {
        let raw = self.counter.raw();
        // Two cores' counters may differ by a few ticks; before the anchor
        // counts as the anchor.
        let elapsed = self.counter.delta_as_nanos(self.raw, raw.max(self.raw));
        Timestamp::from_nanos(self.unix_ns.saturating_add(elapsed))
    }
}

impl Monotone {
    fn now(&self) -> Timestamp {
        let now = self.source.now().as_nanos();
        // Relaxed: only this one number has to agree with itself.
        Timestamp::from_nanos(self.newest.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

/// A clock that moves only when told to. Clones share the time.
///
/// ```
/// use std::time::Duration;
/// use flowgate_core::{Clock, ManualClock, Timestamp};
///
/// let time = ManualClock::at(Timestamp::from_millis(1_000));
/// let clock = Clock::manual(time.clone());
/// time.advance(Duration::from_millis(500));
/// assert_eq!(clock.now(), Timestamp::from_millis(1_500));
/// time.set(Timestamp::from_millis(7)); // a step back: time stands still
/// assert_eq!(clock.now(), Timestamp::from_millis(1_500));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    now: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that stands at the Unix epoch.
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock that stands at `start`.
    pub fn at(start: Timestamp) -> Self {
        ManualClock {
            now: Arc::new(AtomicU64::new(start.as_nanos())),
        }
    }

    /// Moves the clock to `time`; an earlier time leaves it where it is.
    pub fn set(&self, time: Timestamp) {
        self.now.fetch_max(time.as_nanos(), Ordering::AcqRel);
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let _ = self
            .now
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
                Some(now.saturating_add(by))
            });
    }

    /// The time it stands at.
    #[inline]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_agrees_with_the_wall_and_never_falls() {
        let clock = Clock::system();
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_nanos() as u64;
        let mut last = clock.now();
        assert!(
            last.as_nanos().abs_diff(wall) < 1_000_000_000,
            "{last} against {wall}"
        );
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_custom_clock_that_goes_back_stands_still() {
        struct Alternating(AtomicU64);
        impl TimeSource for Alternating {
            fn now(&self) -> Timestamp {
                let n = self.0.fetch_add(1, Ordering::Relaxed);
                Timestamp::from_millis(10_000 - 1_000 * (n % 2))
            }
        }
        let clock = Clock::custom(Alternating(AtomicU64::new(0)));
        for _ in 0..10 {
            assert_eq!(clock.now(), Timestamp::from_millis(10_000));
        }
    }

    #[test]
    fn arithmetic_on_timestamps_saturates() {
        let early = Timestamp::from_millis(1);
        assert_eq!(early - Duration::from_secs(1), Timestamp::EPOCH);
        assert_eq!(Timestamp::EPOCH.since(early), Duration::ZERO);
        assert_eq!(early + Duration::MAX, Timestamp::from_nanos(u64::MAX));
    }
}

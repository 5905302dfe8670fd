//! A clock that is read by one load: a background thread renews it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{AnchoredCounter, Timestamp};

const RESOLUTION_MIN: Duration = Duration::from_micros(100);

/// The last reading, shared by all clones of one cached clock.
pub(super) struct CachedTime {
    now: AtomicU64,
    /// Set when no thread could be started: readings are then taken directly,
    /// slower and right rather than fast and standing still.
    direct: Option<AnchoredCounter>,
}

impl CachedTime {
    pub(super) fn start(resolution: Duration) -> Arc<Self> {
        let system = AnchoredCounter::anchored();
        let first = system.now().as_nanos();
        let cached = Arc::new(CachedTime {
            now: AtomicU64::new(first),
            direct: None,
        });
        let weak = Arc::downgrade(&cached);
        let source = system.clone();
        let renew = move || renew_until_dropped(&weak, &source, resolution.max(RESOLUTION_MIN));
        match std::thread::Builder::new()
            .name("flowgate-clock".into())
            .spawn(renew)
        {
            Ok(_) => cached,
            Err(_) => Arc::new(CachedTime {
                now: AtomicU64::new(first),
                direct: Some(system),
            }),
        }
    }

    #[inline]
    pub(super) fn now(&self) -> Timestamp {
        match &self.direct {
            None => Timestamp::from_nanos(self.now.load(Ordering::Relaxed)),
            Some(system) => system.now(),
        }
    }
}

fn renew_until_dropped(cached: &Weak<CachedTime>, source: &AnchoredCounter, resolution: Duration) {
    while let Some(cached) = cached.upgrade() {
        // One writer: a plain store would do, the maximum keeps the promise
        // even if two cores' counters disagree.
        cached
            .now
            .fetch_max(source.now().as_nanos(), Ordering::Relaxed);
        drop(cached);
        std::thread::sleep(resolution);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    // https://github.com/sentinel-group/sentinel-rust/commit/7f07817: the
    // background thread updated the time once and ended. Real time is the
    // subject here, so this test sleeps.
    #[test]
    fn b053_a_cached_clock_ticks_and_never_falls() {
        let cached = Clock::cached(Duration::from_millis(1));
        let system = Clock::system();
        let mut last = cached.now();
        let first = last;
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(2));
            let now = cached.now();
            assert!(now >= last);
            last = now;
        }
        assert!(
            last.since(first) >= Duration::from_millis(100),
            "it stood still"
        );
        // How far it lags depends on the machine's load: only a clock that has
        // stopped would lag by seconds.
        assert!(system.now().since(last) < Duration::from_secs(2));
    }
}

//! What a call is made of, each measured alone: readings of a clock, steps on an
//! atomic, and the ways to share what is read often.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;

use crate::contest::{Budget, alone, repeat};
use crate::report::Primitive;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// A side whose calls have a value that nobody looks at.
fn value<T>(mut call: impl FnMut() -> T) -> impl FnMut(u64) -> Duration {
    repeat(move || {
        black_box(call());
    })
}

pub(crate) fn measure(budget: Budget, build: &str) -> Vec<Primitive> {
    let mut all = Vec::new();
    let mut one = |name: &str, call: &mut dyn FnMut(u64) -> Duration| {
        let medians = alone(budget, call);
        all.push(Primitive {
            name: name.to_owned(),
            ns: medians.ours,
            rounds: medians.rounds,
            build: build.to_owned(),
        });
    };
    one("an empty loop", &mut value(|| ()));
    one("Instant::now", &mut value(Instant::now));
    one("SystemTime::now", &mut value(SystemTime::now));
    let clock = quanta::Clock::new();
    one(
        "quanta: the processor's counter",
        &mut value(|| clock.raw()),
    );
    let count = AtomicU64::new(0);
    let count = black_box(&count);
    one(
        "an atomic load",
        &mut value(|| count.load(Ordering::Relaxed)),
    );
    one(
        "an atomic load and store",
        &mut value(|| {
            let next = count.load(Ordering::Relaxed).wrapping_add(1);
            count.store(next, Ordering::Relaxed);
        }),
    );
    one(
        "an atomic addition",
        &mut value(|| count.fetch_add(1, Ordering::Relaxed)),
    );
    one(
        "an atomic compare-and-swap",
        &mut value(|| {
            let now = count.load(Ordering::Relaxed);
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            count.compare_exchange(now, now + 1, success, failure).ok();
        }),
    );
    one(
        "a thread-local addition",
        &mut value(|| {
            COUNT.with(|count| count.set(black_box(count.get() + 1)));
        }),
    );
    let lock = Mutex::new(0_u64);
    one(
        "Mutex: lock and add",
        &mut value(|| {
            if let Ok(mut count) = black_box(&lock).lock() {
                *count += 1;
            }
        }),
    );
    let lock = RwLock::new(0_u64);
    one(
        "RwLock: read",
        &mut value(|| {
            black_box(black_box(&lock).read().map_or(0, |count| *count));
        }),
    );
    let shared = Arc::new(0_u64);
    one(
        "Arc: clone and drop",
        &mut value(|| drop(black_box(Arc::clone(black_box(&shared))))),
    );
    let swap = ArcSwap::from_pointee(0_u64);
    one(
        "ArcSwap: load",
        &mut value(|| {
            black_box(**black_box(&swap).load());
        }),
    );
    let mut cache = arc_swap::Cache::new(&swap);
    one(
        "ArcSwap: load by a cache",
        &mut value(|| {
            black_box(**black_box(&mut cache).load());
        }),
    );
    one(
        "Box: 64 bytes made and freed",
        &mut value(|| drop(black_box(Box::new([0_u8; 64])))),
    );
    all
}

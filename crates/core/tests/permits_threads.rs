//! Permits under threads that meet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};

use flowgate_core::node::permits::{Permits, Share, Turn};

const THREADS: u32 = 8;
const LIMIT: u64 = 10;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait_for(permits: &Permits, turn: &Turn) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    while !permits.has_come(turn, &waker) {
        thread::park();
    }
}

/// Sums up who is inside, by itself.
#[derive(Default)]
struct Watch {
    inside: AtomicU64,
    most: AtomicU64,
}

impl Watch {
    fn during(&self, weight: u32, work: impl FnOnce()) {
        let weight = u64::from(weight);
        let inside = self.inside.fetch_add(weight, Ordering::SeqCst) + weight;
        self.most.fetch_max(inside, Ordering::SeqCst);
        work();
        self.inside.fetch_sub(weight, Ordering::SeqCst);
    }
}

#[test]
fn weights_of_eight_threads_never_sum_up_to_more_than_the_limit() {
    let permits = Permits::new();
    let watch = Watch::default();
    let entered = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (permits, watch, entered) = (&permits, &watch, &entered);
            scope.spawn(move || {
                let weight = 1 + thread % 5;
                while entered.load(Ordering::Relaxed) < 20_000 {
                    if permits.try_take(Share::WHOLE, weight, LIMIT).is_ok() {
                        watch.during(weight, thread::yield_now);
                        permits.leave(Share::WHOLE, weight);
                        entered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let most = watch.most.load(Ordering::SeqCst);
    assert!((1..=LIMIT).contains(&most), "{most}");
    assert_eq!((permits.calls(), permits.permits()), (0, 0));
}

/// Each thread waits for its turn, steps out of every third, and never takes
/// without standing in line; nobody is forgotten, or the test does not end.
#[test]
fn eight_threads_that_wait_all_have_their_turn_and_never_too_many_at_once() {
    const ROUNDS: u32 = 2_000;
    let permits = Permits::new();
    let watch = Watch::default();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (permits, watch) = (&permits, &watch);
            scope.spawn(move || {
                let weight = 1 + thread % 4;
                for round in 0..ROUNDS {
                    let turn = permits.line_up(weight, 4, usize::MAX).unwrap();
                    if (round + thread) % 3 == 0 {
                        permits.step_out(turn);
                        continue;
                    }
                    wait_for(permits, &turn);
                    permits.enter(Share::PLACE, 0).unwrap();
                    watch.during(weight, || {});
                    permits.leave(Share::WHOLE, weight);
                }
            });
        }
    });
    let most = watch.most.load(Ordering::SeqCst);
    assert!((1..=4).contains(&most), "{most}");
    let left = (permits.calls(), permits.permits(), permits.waiting());
    assert_eq!(left, (0, 0, 0));
}

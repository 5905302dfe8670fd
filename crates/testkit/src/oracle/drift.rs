//! One engine for as many calls as one likes: nothing may drift.
//!
//! Threads call one resource under a strict window, a token bucket and limits on
//! calls at once. Whoever finds the bucket empty moves the clock on, so the bucket
//! never runs over and nothing that flows in is lost. In the end all that was
//! admitted has to be what the bucket held and was filled with, to the single
//! token; nobody may be in flight; and just as many as ever may run at once.

use std::time::Duration;

use flowgate::{Clock, Engine, ManualClock, Resource};

/// Tokens per second, in thousandths: no divisor of a second.
const MILLI: u128 = 451_163_457;
/// How far the clock moves when the bucket is empty: some 450 tokens.
const STEP: Duration = Duration::from_nanos(1_000_007);

/// What many calls came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drifted {
    /// Calls that were decided on.
    pub calls: u64,
    /// Tokens that calls were admitted with.
    pub admitted: u64,
    /// Tokens that there were to take.
    pub filled: u64,
    /// Calls in flight in the end.
    pub in_flight: u64,
    /// Calls that could run at once in the end, of `at_once`.
    pub ran_at_once: u64,
    /// How many may.
    pub at_once: u64,
}

impl Drifted {
    /// Whether all is as it was.
    pub fn is_exact(&self) -> bool {
        self.admitted == self.filled && self.in_flight == 0 && self.ran_at_once == self.at_once
    }
}

/// Lets so many calls come, on this many threads.
pub fn drift(calls: u64, threads: usize) -> Drifted {
    let threads = threads.clamp(1, 64) as u64;
    let at_once = 3 * threads;
    let burst = 1000 * threads;
    let time = ManualClock::new();
    let engine = Engine::builder().clock(Clock::manual(time.clone())).build();
    let count = MILLI as f64 / 1000.0;
    let rules = format!(
        r#"{{"flow": [
            {{"resource": "orders", "count": {at_once}, "grade": 0}},
            {{"resource": "orders", "count": 1e9, "accounting": "strict"}},
            {{"resource": "orders", "count": {count}, "accounting": "tokenBucket", "burstCount": {burst}}}],
          "isolation": [{{"resource": "orders", "count": {at_once}}}]}}"#
    );
    engine
        .load_document(&rules)
        .expect("the rules of this file are sound");
    let orders = engine.resource("orders");
    let begun = time.now();
    let each = calls / threads;
    let admitted = std::thread::scope(|scope| {
        let spawn = |seed| {
            scope.spawn({
                let (orders, time) = (&orders, &time);
                move || call_on(orders, time, seed, each)
            })
        };
        let callers: Vec<_> = (0..threads).map(spawn).collect();
        let sums = callers.into_iter().map(|caller| caller.join());
        sums.map(|sum| sum.expect("no caller panics")).sum::<u64>()
    });
    let rest = std::iter::repeat_with(|| orders.try_entry().is_ok());
    let rest = rest.take_while(|passed| *passed).count() as u64;
    let filled = u128::from(burst) + time.now().since(begun).as_nanos() * MILLI / 1_000_000_000_000;
    time.advance(Duration::from_secs(10));
    let running: Vec<_> = std::iter::repeat_with(|| orders.try_entry())
        .map_while(Result::ok)
        .collect();
    let ran_at_once = running.len() as u64;
    drop(running);
    Drifted {
        calls: each * threads,
        admitted: admitted + rest,
        filled: filled as u64,
        in_flight: orders.node().in_flight,
        ran_at_once,
        at_once,
    }
}

/// Tokens of the calls that were admitted.
fn call_on(orders: &Resource, time: &ManualClock, seed: u64, calls: u64) -> u64 {
    let mut admitted = 0;
    for n in seed..seed + calls {
        let weight = 1 + (n % 3) as u32;
        match orders.request().weight(weight).try_entry() {
            Ok(entry) => {
                entry.exit();
                admitted += u64::from(weight);
            }
            Err(_) => time.advance(STEP),
        }
    }
    admitted
}

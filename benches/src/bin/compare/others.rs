//! Lines for information: the floor of the machine, and peers that do part of
//! what a guarded call does.

use std::cell::Cell;
use std::future::Ready;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anyhow::{Result, ensure};
use failsafe::CircuitBreaker;
use tower::{Layer, Service};
use tower_resilience::bulkhead::BulkheadLayer;
use tower_resilience::circuitbreaker::CircuitBreakerLayer;
use tower_resilience::ratelimiter::RateLimiterLayer;

use crate::contest::{Budget, contest, repeat};
use crate::entries::{call, passing};
use crate::line::Figures;
use crate::peers;
use crate::threads;

const BREAKER: &str = r#"{"degrade": [
    {"resource": "orders", "grade": 1, "count": 0.5, "timeWindow": 10}]}"#;
const CONCURRENCY: &str = r#"{"isolation": [{"resource": "orders", "count": 1000000}]}"#;
const ONE_RULE: &str = r#"{"flow": [{"resource": "orders", "count": 1e9}]}"#;
const TOWER_RESILIENCE: &str = "tower-resilience 0.13";

/// What a call cannot do without: it reads the clock on its way in and on its way
/// out, and counts a pass, a call in flight and its end, a success, its response
/// time and the least of those.
pub(crate) fn floor(budget: Budget) -> Result<Figures> {
    let (_engine, orders) = passing("{}")?;
    let clock = quanta::Clock::new();
    let counts: [Cell<u64>; 6] = Default::default();
    let add = |count: &Cell<u64>, more: u64| count.set(count.get().wrapping_add(more));
    let mut ours = repeat(|| call(&orders));
    let mut theirs = repeat(|| {
        let counts = black_box(&counts);
        let entered = clock.raw();
        counts[..2].iter().for_each(|count| add(count, 1));
        let counts = black_box(counts);
        let took = clock.raw().wrapping_sub(entered);
        counts[2..4].iter().for_each(|count| add(count, 1));
        add(&counts[4], took);
        counts[5].set(counts[5].get().min(took));
    });
    let medians = contest(budget, &mut ours, &mut theirs);
    Ok(Figures::against("two readings, six additions", medians))
}

fn against(
    budget: Budget,
    document: &str,
    peer: &'static str,
    their_call: impl FnMut(),
) -> Result<Figures> {
    let (_engine, orders) = passing(document)?;
    let mut ours = repeat(|| call(&orders));
    let medians = contest(budget, &mut ours, &mut repeat(their_call));
    Ok(Figures::against(peer, medians))
}

pub(crate) fn breaker_vs_failsafe(budget: Budget) -> Result<Figures> {
    let breaker = failsafe::Config::new().build();
    against(budget, BREAKER, "failsafe 1.3", || {
        black_box(black_box(&breaker).call(|| Ok::<_, ()>(()))).ok();
    })
}

/// The service that is wrapped: it has its answer at once.
fn at_once() -> impl Service<(), Response = (), Error = String, Future = Ready<Result<(), String>>>
+ Clone
+ Send
+ 'static {
    tower::service_fn(|()| std::future::ready(Ok::<(), String>(())))
}

/// One call of a service that is ready, and answers, at the first poll.
fn answer<S: Service<()>>(service: &mut S) -> Option<Result<S::Response, S::Error>> {
    let mut context = Context::from_waker(Waker::noop());
    if service.poll_ready(&mut context).is_pending() {
        return None;
    }
    let future = pin!(service.call(()));
    match future.poll(&mut context) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// Against a service of tower-resilience, which is polled once per call. Some of
/// its services want to be inside a runtime; none of them waits for it here.
fn against_service<S: Service<()>>(
    budget: Budget,
    document: &str,
    mut service: S,
) -> Result<Figures> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let _inside = runtime.enter();
    let passes = matches!(answer(&mut service), Some(Ok(_)));
    ensure!(passes, "a call passes, and answers at once");
    against(budget, document, TOWER_RESILIENCE, || {
        black_box(answer(black_box(&mut service)).is_some());
    })
}

pub(crate) fn breaker_vs_tower_resilience(budget: Budget) -> Result<Figures> {
    let layer = CircuitBreakerLayer::builder().failure_rate_threshold(0.5);
    against_service(budget, BREAKER, layer.build()?.layer(at_once()))
}

pub(crate) fn concurrency_vs_tower_resilience(budget: Budget) -> Result<Figures> {
    let layer = BulkheadLayer::builder().max_concurrent_calls(1_000_000);
    against_service(budget, CONCURRENCY, layer.build()?.layer(at_once()))
}

pub(crate) fn one_rule_vs_tower_resilience(budget: Budget) -> Result<Figures> {
    let layer = RateLimiterLayer::per_second(1_000_000_000);
    against_service(budget, ONE_RULE, layer.build()?.layer(at_once()))
}

pub(crate) fn one_rule_vs_leaky_bucket(budget: Budget) -> Result<Figures> {
    const PLENTY: usize = 1_000_000_000;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let _inside = runtime.enter();
    let limiter = leaky_bucket::RateLimiter::builder()
        .initial(PLENTY)
        .max(PLENTY)
        .refill(PLENTY)
        .interval(Duration::from_secs(1))
        .build();
    ensure!(limiter.try_acquire(1), "a call passes");
    let figures = against(budget, ONE_RULE, "leaky-bucket 1.1", || {
        black_box(black_box(&limiter).try_acquire(1));
    })?;
    ensure!(limiter.try_acquire(1), "calls passed to the end");
    Ok(figures)
}

pub(crate) fn two_threads_of_governor(budget: Budget) -> Result<Figures> {
    let limiter = peers::governor();
    threads::hot(budget, &|calls| {
        (0..calls).for_each(|_| drop(black_box(black_box(&limiter).check())));
    })
}

//! The peers, set up as their users would.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use sentinel_core::EntryBuilder;
use sentinel_core::config::ConfigEntity;
use sentinel_core::flow;

pub(crate) const GOVERNOR: &str = "governor 0.10";
pub(crate) const GOVERNOR_KEYED: &str = "governor 0.10, keyed";
pub(crate) const SENTINEL: &str = "sentinel-core 0.1.3";

/// Far more than any run takes.
const PLENTY: NonZeroU32 = NonZeroU32::new(1_000_000_000).unwrap();

/// A limiter that lets everything pass.
pub(crate) fn governor() -> DefaultDirectRateLimiter {
    RateLimiter::direct(Quota::per_second(PLENTY))
}

/// A limiter that refuses for the next hour.
pub(crate) fn governor_refusing() -> Result<DefaultDirectRateLimiter> {
    let limiter = RateLimiter::direct(Quota::per_hour(NonZeroU32::MIN));
    limiter.check().ok().context("the first call passes")?;
    let refused = limiter.check().is_err();
    refused
        .then_some(limiter)
        .context("the second call is refused")
}

/// One limit for each number.
pub(crate) fn governor_keyed() -> DefaultKeyedRateLimiter<u64> {
    RateLimiter::keyed(Quota::per_second(PLENTY))
}

thread_local! {
    static SENTINEL_SET_UP: Cell<bool> = const { Cell::new(false) };
}

/// Starts sentinel-core, with its cached clock. Its settings belong to the thread
/// that makes them, so the thread that measures calls this, as often as it likes.
pub(crate) fn sentinel() -> Result<()> {
    if SENTINEL_SET_UP.replace(true) {
        return Ok(());
    }
    let mut config = ConfigEntity::new();
    config.config.use_cache_time = true;
    sentinel_core::init_with_config(config).map_err(|error| anyhow!("{error}"))
}

/// A rule that is far from its limit, or refuses all.
pub(crate) fn sentinel_rule(resource: &str, threshold: f64) -> Arc<flow::Rule> {
    Arc::new(flow::Rule {
        resource: resource.to_owned(),
        threshold,
        ..flow::Rule::default()
    })
}

/// Whether a call passes.
pub(crate) fn sentinel_call(resource: &str) -> bool {
    match EntryBuilder::new(resource.to_owned()).build() {
        Ok(entry) => {
            entry.exit();
            true
        }
        Err(_) => false,
    }
}

/// Puts these flow rules in force instead of all others.
pub(crate) fn sentinel_rules(rules: Vec<Arc<flow::Rule>>) {
    flow::load_rules(rules);
}

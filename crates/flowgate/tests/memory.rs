//! Flow rules that follow the memory in use.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use common::{at, built, ms, passed, refusal, release_ms};
use flowgate::{Engine, ManualClock, Measure, Sample, SystemSampler};

/// Bytes in use, as told to an engine; 0: not known.
#[derive(Default)]
struct Memory {
    bytes: Gauge,
    engine: OnceLock<Engine>,
}

#[derive(Clone, Default)]
struct Gauge(Arc<AtomicU64>);

impl SystemSampler for Gauge {
    fn sample(&mut self) -> Sample {
        let bytes = self.0.load(Ordering::Relaxed);
        Sample {
            memory_used_bytes: Some(bytes).filter(|bytes| *bytes > 0),
            ..Sample::default()
        }
    }
}

impl Memory {
    fn is(&self, bytes: u64) {
        self.bytes.0.store(bytes, Ordering::Relaxed);
        self.engine.get().expect("there is an engine").sample_now();
    }

    fn engine(&self, rules: &str) -> (Engine, ManualClock) {
        let (engine, time) = built(Engine::builder().sampler(self.bytes.clone()));
        self.engine.get_or_init(|| engine.clone());
        engine.load_json("flow", rules).expect("the rules are fine");
        (engine, time)
    }
}

const LIMITS: &str = r#""lowMemUsageThreshold": 100, "highMemUsageThreshold": 10,
    "memLowWaterMarkBytes": 1000, "memHighWaterMarkBytes": 2000"#;

fn rule(more: &str) -> String {
    format!(r#"[{{"resource": "r", {LIMITS} {more}}}]"#)
}

#[test]
fn the_more_memory_is_in_use_the_less_may_pass() {
    let memory = Memory::default();
    let (engine, time) = memory.engine(&rule(""));
    let r = engine.resource("r");
    let table = [
        (0, 100),
        (500, 100),
        (1_000, 100),
        (1_500, 55),
        (1_999, 10),
        (2_000, 10),
        (9_000, 10),
    ];
    for (second, (bytes, limit)) in table.into_iter().enumerate() {
        at(&time, second as u64 * 1_000);
        memory.is(bytes);
        assert_eq!(passed(&r, 200), limit, "{bytes}");
    }
}

#[test]
fn the_limit_falls_and_rises_in_mid_window() {
    let memory = Memory::default();
    let (engine, time) = memory.engine(&rule(""));
    let r = engine.resource("r");
    memory.is(2_000);
    assert_eq!(passed(&r, 200), 10);
    let block = r.entry().unwrap_err();
    let expected = |limit, after| refusal(Measure::Rate, "flow/r#1", limit, 10.0, after);
    assert_eq!(block, expected(10.0, Some(ms(1_000))));
    memory.is(1_500);
    assert_eq!(passed(&r, 200), 45);
    memory.is(2_000);
    assert_eq!(passed(&r, 200), 0);
    at(&time, 999);
    memory.is(1);
    assert_eq!(passed(&r, 200), 45);
}

#[test]
fn a_queue_gets_slower_with_the_memory_in_use() {
    let memory = Memory::default();
    let (engine, time) = memory.engine(&rule(r#", "controlBehavior": "rateLimiter""#));
    let r = engine.resource("r");
    let releases = [1_000, 1_000, 2_000, 2_000, 1_000].map(|bytes| {
        memory.is(bytes);
        release_ms(r.request(), &time)
    });
    let expected = [0, 10, 110, 210, 220].map(Some);
    assert_eq!(releases, expected);
}

#[test]
fn a_limit_that_follows_memory_goes_with_others_and_with_an_interval() {
    let memory = Memory::default();
    let rules = format!(
        r#"[{{"resource": "r", "statIntervalMs": 60000, {LIMITS}}},
            {{"resource": "r", "count": 30, "statIntervalMs": 60000}},
            {{"resource": "r", "count": 20}}]"#
    );
    let (engine, time) = memory.engine(&rules);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 50), 20);
    assert_eq!(r.entry().unwrap_err().rule().as_str(), "flow/r#3");
    at(&time, 1_000);
    memory.is(1_800);
    // 28 now, and 20 have passed.
    assert_eq!(passed(&r, 50), 8);
    assert_eq!(r.entry().unwrap_err().rule().as_str(), "flow/r#1");
    memory.is(0);
    assert_eq!(passed(&r, 50), 2);
    assert_eq!(r.entry().unwrap_err().rule().as_str(), "flow/r#2");
}

#[test]
fn nothing_is_lent_by_a_limit_that_may_fall() {
    let memory = Memory::default();
    let (engine, time) = memory.engine(&rule(""));
    let r = engine.resource("r");
    memory.is(2_000);
    at(&time, 900);
    assert_eq!(passed(&r, 10), 10);
    assert!(r.request().prioritized().reserve().is_err());
}

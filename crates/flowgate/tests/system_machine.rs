//! System rules that look at the machine, and the sampler behind them.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flowgate::{
    Block, BuildError, Engine, EngineBuilder, Entry, HostSampler, Measure, Resource, Sample,
    SystemSampler, Traffic,
};

use common::{at, built, ms};

/// Shows what it was told to.
#[derive(Clone, Default)]
struct Gauge(Arc<Mutex<Sample>>);

impl Gauge {
    fn set(&self, sample: Sample) {
        *self.0.lock().unwrap() = sample;
    }
}

impl SystemSampler for Gauge {
    fn sample(&mut self) -> Sample {
        *self.0.lock().unwrap()
    }
}

fn load(load1: f64) -> Sample {
    Sample {
        load1: Some(load1),
        ..Sample::default()
    }
}

fn cpu(cpu: f64) -> Sample {
    Sample {
        cpu: Some(cpu),
        ..Sample::default()
    }
}

fn enter(resource: &Resource) -> Result<Entry<'_>, Block> {
    resource.request().traffic(Traffic::Inbound).entry()
}

#[test]
fn busy_processors_refuse_all_inbound_calls() {
    let gauge = Gauge::default();
    let (engine, _) = built(Engine::builder().sampler(gauge.clone()));
    let rules = r#"[{"highestCpuUsage": 0.8}]"#;
    engine.load_json("system", rules).unwrap();
    let a = engine.resource("a");
    for (share, passes) in [(0.5, true), (0.8, true), (0.81, false), (0.3, true)] {
        gauge.set(cpu(share));
        assert_eq!(engine.sample_now(), cpu(share));
        assert_eq!(enter(&a).is_ok(), passes, "{share}");
        assert!(a.entry().is_ok(), "an outbound call, at {share}");
    }
    gauge.set(cpu(0.9));
    engine.sample_now();
    let block = enter(&a).unwrap_err();
    let refused = (block.measure(), block.limit(), block.observed());
    assert_eq!(refused, (Measure::Cpu, 0.8, 0.9));
    assert_eq!(engine.inbound().in_flight, 0);
}

#[test]
fn a_loaded_machine_does_not_count_calls_of_before_the_rule_that_have_left() {
    let gauge = Gauge::default();
    let (engine, time) = built(Engine::builder().sampler(gauge.clone()));
    let a = engine.resource("a");
    let older: Vec<_> = (0..50).map(|_| enter(&a).unwrap()).collect();
    engine
        .load_json("system", r#"[{"highestSystemLoad": 2}]"#)
        .unwrap();
    gauge.set(load(3.0));
    engine.sample_now();
    assert!(enter(&a).is_err(), "fifty are more than it gets done");
    drop(older);
    at(&time, 10);
    // A call alone is never too much.
    assert!(enter(&a).is_ok());
    assert!(enter(&a).is_ok());
}

#[test]
fn what_is_not_known_refuses_nothing() {
    let gauge = Gauge::default();
    let (engine, time) = built(Engine::builder().sampler(gauge.clone()));
    let rules = r#"[{"highestCpuUsage": 0, "highestSystemLoad": 0}]"#;
    engine.load_json("system", rules).unwrap();
    let a = engine.resource("a");
    // Never sampled; not known to the sampler; too long ago.
    assert!(enter(&a).is_ok());
    assert_eq!(engine.sample_now(), Sample::default());
    assert!(enter(&a).is_ok());
    gauge.set(cpu(0.1));
    engine.sample_now();
    assert!(enter(&a).is_err());
    at(&time, 5_000);
    assert!(enter(&a).is_err());
    at(&time, 5_001);
    assert!(enter(&a).is_ok());
    assert_eq!(engine.machine(), Sample::default());
}

/// Sentinel's test on the lines of BBR: more in flight than the best rate
/// times the least response time.
#[test]
fn load_refuses_only_what_the_machine_cannot_do() {
    let gauge = Gauge::default();
    let (engine, time) = built(Engine::builder().sampler(gauge.clone()));
    engine
        .load_json("system", r#"[{"highestSystemLoad": 4}]"#)
        .unwrap();
    gauge.set(load(9.0));
    engine.sample_now();
    let a = engine.resource("a");
    // 15 calls end in the window, after 100 ms each: 30 per second, so 3 at once.
    let running: Vec<_> = (0..3).map(|_| enter(&a).unwrap()).collect();
    at(&time, 100);
    drop(running);
    gauge.set(load(3.9));
    engine.sample_now();
    let running: Vec<_> = (0..12).map(|_| enter(&a).unwrap()).collect();
    at(&time, 200);
    drop(running);
    gauge.set(load(4.1));
    engine.sample_now();
    // One more than the capacity: the others are compared, as in Sentinel.
    let running: Vec<_> = std::iter::from_fn(|| enter(&a).ok()).collect();
    assert_eq!(running.len(), 4);
    let block = enter(&a).unwrap_err();
    let refused = (block.measure(), block.limit(), block.observed());
    assert_eq!(refused, (Measure::Load, 4.0, 4.1));
    gauge.set(load(4.0));
    engine.sample_now();
    assert!(enter(&a).is_ok());
}

#[test]
fn bbr_may_decide_on_either_figure_or_on_none() {
    let gauge = Gauge::default();
    gauge.set(Sample {
        load1: Some(9.0),
        ..cpu(0.9)
    });
    let (engine, _) = built(Engine::builder().sampler(gauge));
    engine.sample_now();
    let a = engine.resource("a");
    for (rule, passes) in [
        (r#"{"highestSystemLoad": 4}"#, true),
        (r#"{"highestSystemLoad": 4, "bbr": "off"}"#, false),
        (r#"{"highestCpuUsage": 0.5}"#, false),
        (r#"{"highestCpuUsage": 0.5, "bbr": "cpu"}"#, true),
        (
            r#"{"highestSystemLoad": 4, "highestCpuUsage": 0.5, "bbr": "cpu"}"#,
            false,
        ),
        (
            r#"{"highestSystemLoad": 4, "highestCpuUsage": 0.5, "bbr": "both"}"#,
            true,
        ),
    ] {
        engine.load_json("system", format!("[{rule}]")).unwrap();
        assert_eq!(enter(&a).is_ok(), passes, "{rule}");
    }
}

#[test]
fn flow_rules_that_follow_memory_are_told_by_the_sampler() {
    let gauge = Gauge::default();
    let (engine, time) = built(Engine::builder().sampler(gauge.clone()));
    let rule = r#"[{"resource": "a", "count": 0, "lowMemUsageThreshold": 10, "highMemUsageThreshold": 2,
        "memLowWaterMarkBytes": 1000, "memHighWaterMarkBytes": 2000}]"#;
    engine.load_json("flow", rule).unwrap();
    let a = engine.resource("a");
    let passed = || (0..20).filter(|_| a.entry().is_ok()).count();
    assert_eq!(passed(), 10, "not known yet");
    for (second, used, expected) in [(1, 900, 10), (2, 1_500, 6), (3, 3_000, 2)] {
        at(&time, second * 1_000);
        gauge.set(Sample {
            memory_used_bytes: Some(used),
            ..Sample::default()
        });
        engine.sample_now();
        assert_eq!(passed(), expected, "{used} bytes");
    }
}

#[test]
fn a_call_alone_is_never_too_much_for_the_load() {
    let gauge = Gauge::default();
    let (engine, _) = built(Engine::builder().sampler(gauge.clone()));
    engine
        .load_json("system", r#"[{"highestSystemLoad": 0}]"#)
        .unwrap();
    gauge.set(load(99.0));
    engine.sample_now();
    let a = engine.resource("a");
    for _ in 0..3 {
        let _pair = (enter(&a).unwrap(), enter(&a).unwrap());
    }
}

#[test]
fn checks_of_one_rule_have_sentinels_order() {
    let gauge = Gauge::default();
    let (engine, time) = built(Engine::builder().sampler(gauge.clone()));
    let a = engine.resource("a");
    let slow = enter(&a).unwrap();
    let _running = enter(&a).unwrap();
    at(&time, 100);
    slow.exit();
    gauge.set(cpu(1.0));
    engine.sample_now();
    for (rule, first) in [
        (
            r#"{"qps": 2, "maxThread": 1, "avgRt": 50, "highestCpuUsage": 0.5}"#,
            Measure::Rate,
        ),
        (
            r#"{"qps": 3, "maxThread": 1, "avgRt": 50, "highestCpuUsage": 0.5}"#,
            Measure::Concurrency,
        ),
        (
            r#"{"qps": 3, "maxThread": 2, "avgRt": 50, "highestCpuUsage": 0.5}"#,
            Measure::ResponseTimeMs,
        ),
        (
            r#"{"qps": 3, "maxThread": 2, "avgRt": 100, "highestCpuUsage": 0.5}"#,
            Measure::Cpu,
        ),
    ] {
        engine.load_json("system", format!("[{rule}]")).unwrap();
        assert_eq!(enter(&a).unwrap_err().measure(), first, "{rule}");
    }
}

#[test]
fn a_sampler_that_panics_is_counted_and_asked_again() {
    struct Shaky(usize);

    impl SystemSampler for Shaky {
        fn sample(&mut self) -> Sample {
            self.0 += 1;
            assert!(self.0 > 2, "not yet");
            cpu(0.25)
        }
    }

    let (engine, _) = built(Engine::builder().sampler(Shaky(0)));
    for faults in 1..=2 {
        assert_eq!(engine.sample_now(), Sample::default());
        assert_eq!(engine.stats().sampler_faults, faults);
    }
    assert_eq!(engine.sample_now(), cpu(0.25));
    assert_eq!(engine.stats().sampler_faults, 2);
}

#[test]
fn a_sampler_without_rest_is_no_setting() {
    let refused = Engine::builder().sampling_interval(Duration::ZERO);
    let error = refused.try_build().unwrap_err();
    assert_eq!(error, BuildError::SamplingInterval(Duration::ZERO));
    assert_eq!(
        error.to_string(),
        "sampling interval: 0ns is too short; give 1 ms or more"
    );
}

#[test]
fn the_machine_of_the_tests_can_be_read() {
    let (engine, _) = built(Engine::builder().sampler(HostSampler::new()));
    let sample = engine.sample_now();
    if cfg!(target_os = "linux") {
        assert!(sample.load1.is_some_and(|load| load >= 0.0), "{sample:?}");
        let (used, limit) = (sample.memory_used_bytes, sample.memory_limit_bytes);
        assert!(
            used.zip(limit).is_some_and(|(used, limit)| used <= limit),
            "{sample:?}"
        );
    }
}

#[test]
fn a_sampler_of_ones_own_is_trusted_to_know() {
    let nowhere = HostSampler::below("/nowhere");
    let (engine, _) = built(Engine::builder().sampler(nowhere));
    let report = engine
        .load_json("system", r#"[{"highestSystemLoad": 1}]"#)
        .unwrap();
    assert!(report.warnings.is_empty());
    assert_eq!(engine.sample_now(), Sample::default());
}

// The thread. These wait for it, by the channels that it writes to.

const LONG: Duration = Duration::from_secs(20);

/// Tells of each sample, and of its own end.
struct Reporter {
    samples: Sender<()>,
    ended: Sender<()>,
}

impl SystemSampler for Reporter {
    fn sample(&mut self) -> Sample {
        let _ = self.samples.send(());
        cpu(0.5)
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        let _ = self.ended.send(());
    }
}

fn reporter() -> (Reporter, Receiver<()>, Receiver<()>) {
    let (samples, sampled) = mpsc::channel();
    let (ended, end) = mpsc::channel();
    (Reporter { samples, ended }, sampled, end)
}

fn on_real_time(interval: Duration) -> EngineBuilder {
    Engine::builder().sampling_interval(interval)
}

#[test]
fn the_sampler_runs_while_a_rule_needs_it() {
    let (sampler, sampled, end) = reporter();
    let engine = on_real_time(ms(1)).sampler(sampler).build();
    let load = |rules| engine.load_json("system", rules).unwrap();
    load(r#"[{"qps": 5}, {"highestCpuUsage": 0.9, "mode": "off"}]"#);
    assert!(sampled.try_recv().is_err(), "nobody needs samples");
    load(r#"[{"highestCpuUsage": 0.9}]"#);
    for _ in 0..3 {
        sampled.recv_timeout(LONG).unwrap();
    }
    load("[]");
    // The thread gives up what it holds of the sampler: then the engine is the
    // only one that does, and the sampler ends with it.
    let memory = r#"[{"resource": "a", "count": 0, "lowMemUsageThreshold": 10, "highMemUsageThreshold": 2,
        "memLowWaterMarkBytes": 1000, "memHighWaterMarkBytes": 2000}]"#;
    engine.load_json("flow", memory).unwrap();
    sampled.recv_timeout(LONG).unwrap();
    drop(engine);
    end.recv_timeout(LONG).unwrap();
}

#[test]
fn the_sampler_ends_at_once_with_the_last_clone_of_the_engine() {
    let (sampler, sampled, end) = reporter();
    // It would sleep for an hour.
    let engine = on_real_time(Duration::from_secs(3_600))
        .sampler(sampler)
        .build();
    engine
        .load_json("system", r#"[{"highestSystemLoad": 2}]"#)
        .unwrap();
    sampled.recv_timeout(LONG).unwrap();
    let clone = engine.clone();
    drop(engine);
    assert_eq!(clone.sample_now(), cpu(0.5));
    assert!(end.try_recv().is_err(), "an engine is there");
    drop(clone);
    end.recv_timeout(LONG).unwrap();
}

#[test]
fn a_thread_that_was_told_to_end_and_is_wanted_again_stays_the_only_one() {
    /// Notes when two sample at once.
    struct Alone(Arc<AtomicBool>, Arc<AtomicUsize>);

    impl SystemSampler for Alone {
        fn sample(&mut self) -> Sample {
            assert!(!self.0.swap(true, Ordering::SeqCst), "two at once");
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.store(false, Ordering::SeqCst);
            Sample::default()
        }
    }

    let samples = Arc::new(AtomicUsize::new(0));
    let sampler = Alone(Arc::default(), Arc::clone(&samples));
    let engine = on_real_time(Duration::from_secs(3_600))
        .sampler(sampler)
        .build();
    for _ in 0..50 {
        for rules in [r#"[{"highestSystemLoad": 2}]"#, "[]"] {
            engine.load_json("system", rules).unwrap();
        }
    }
    engine.sample_now();
    assert_eq!(engine.stats().sampler_faults, 0);
    // At most one thread for each time that it was wanted.
    assert!((1..=51).contains(&samples.load(Ordering::SeqCst)));
}

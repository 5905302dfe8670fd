//! Reported bugs of peers, kind K16: deadlock, wake-ups and fairness.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

mod common;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use common::{at, document, flow, ms, on_paused_time, passed, totals};
use flowgate::{Call, Engine, Entry, Outcome, Position, Slot, SlotError, Verdict};
use tokio::time::Instant;

/// Far above what the slowest machine needs; a deadlock needs longer.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Runs `work` on a thread, and fails if that does not come back.
fn watched(work: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let worker = thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    let timed_out = is_done.recv_timeout(WATCHDOG) == Err(mpsc::RecvTimeoutError::Timeout);
    assert!(!timed_out, "nothing moves any more");
    worker.join().unwrap();
}

// https://github.com/udoprog/leaky-bucket/issues/39
#[test]
fn b196_callers_that_do_not_wait_wedge_nothing() {
    let (engine, time) = document(
        r#"{"flow": [{"resource": "r", "count": 10}],
            "isolation": [{"resource": "r", "count": 10, "maxQueueingTimeMs": 1000}]}"#,
    );
    let r = engine.resource("r");
    let (done, tried, entered) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    if r.try_entry().is_ok() {
                        entered.fetch_add(1, Ordering::Relaxed);
                    }
                    tried.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for second in 0..20 {
            at(&time, 1_000 * second);
            let before = tried.load(Ordering::Relaxed);
            while tried.load(Ordering::Relaxed) < before + 200 {
                thread::yield_now();
            }
        }
        done.store(true, Ordering::Release);
    });
    // Ten per second, and the clock is moved from one second to the next.
    assert_eq!(entered.into_inner(), 200);
    at(&time, 21_000);
    let entered: Vec<Entry<'_>> = (0..10).map(|_| r.try_entry().unwrap()).collect();
    drop(entered);
    assert_eq!((totals(&r).in_flight, r.node().permits), (0, 0));
}

/// Six callers come at once and hold the one permit for a second each; the
/// fourth gives up at 1.5 s if told to. When each of them was done.
async fn six_callers(one_gives_up: bool) -> Vec<Option<Duration>> {
    let engine = on_paused_time("[]");
    let rules = r#"[{"resource": "r", "count": 1, "maxQueueingTimeMs": 60000}]"#;
    engine.load_json("isolation", rules).unwrap();
    let start = Instant::now();
    let callers: Vec<_> = (0..6)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let entry = engine.acquire("r").await.unwrap();
                tokio::time::sleep(ms(1_000)).await;
                entry.exit();
                start.elapsed()
            })
        })
        .collect();
    tokio::time::sleep(ms(1_500)).await;
    if one_gives_up {
        callers[3].abort();
    }
    let mut done = Vec::new();
    for caller in callers {
        done.push(caller.await.ok());
    }
    let node = engine.node("r").unwrap();
    assert_eq!((node.in_flight, node.permits, node.queued), (0, 0, 0));
    done
}

// https://github.com/tower-rs/tower/issues/454
#[tokio::test(start_paused = true)]
async fn b197_every_waiter_is_woken() {
    let at = |seconds: u64| Some(Duration::from_secs(seconds));
    let all: Vec<_> = (1..=6).map(at).collect();
    assert_eq!(six_callers(false).await, all);
    let without = [at(1), at(2), at(3), None, at(4), at(5)];
    assert_eq!(six_callers(true).await, without);
}

// https://github.com/tower-rs/tower/issues/454, in a line of one per second.
// Nobody is re-timed by one that leaves: the place is a hole for a newcomer.
#[tokio::test(start_paused = true)]
async fn b197_every_waiter_of_a_pace_goes_in_its_second() {
    let engine = on_paused_time(
        r#"[{"resource": "r", "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 60000}]"#,
    );
    let start = Instant::now();
    let caller = || {
        let engine = engine.clone();
        tokio::spawn(async move { engine.acquire("r").await.map(|_| start.elapsed()) })
    };
    let callers: Vec<_> = (0..6).map(|_| caller()).collect();
    tokio::time::sleep(ms(1_500)).await;
    callers[3].abort();
    tokio::task::yield_now().await;
    let newcomer = caller();
    let mut done = Vec::new();
    for caller in callers.into_iter().chain([newcomer]) {
        done.push(caller.await.ok().map(|waited| waited.unwrap().as_secs()));
    }
    let [gave_up, newcomer] = [None, Some(3)];
    let expected = [
        Some(0),
        Some(1),
        Some(2),
        gave_up,
        Some(4),
        Some(5),
        newcomer,
    ];
    assert_eq!(done, expected);
}

/// A check that uses the engine it stands in.
struct Reentrant(OnceLock<Engine>);

impl Reentrant {
    fn use_engine(&self) {
        let engine = self.0.get().unwrap();
        let _nested = engine.entry("nested");
        let rules = engine.rules().len();
        let list = r#"[{"resource": "outer", "count": 1000},
                       {"resource": "nested", "count": 1000}]"#;
        engine.load_json("flow", list).unwrap();
        assert!(engine.node("outer").is_some() && rules <= 3);
    }
}

struct Check(Arc<Reentrant>);

impl Slot for Check {
    fn name(&self) -> &'static str {
        "reentrant"
    }

    fn check(&self, call: &mut Call<'_>) -> Result<Verdict, SlotError> {
        if call.resource != "outer" {
            return Ok(Verdict::Pass);
        }
        self.0.use_engine();
        Err(SlotError::new("so that the hook is called"))
    }
}

// https://github.com/sentinel-group/sentinel-rust/issues/67
#[test]
fn b199_a_call_back_may_use_the_engine_that_calls_it() {
    watched(|| {
        let reentrant = Arc::new(Reentrant(OnceLock::new()));
        let hooked = Arc::clone(&reentrant);
        let engine = Engine::builder()
            .slot(Position::First, Check(Arc::clone(&reentrant)))
            .on_slot_fault(move |_, _| hooked.use_engine())
            .build();
        engine
            .load_json("isolation", r#"[{"resource": "outer", "count": 4}]"#)
            .unwrap();
        assert!(reentrant.0.set(engine.clone()).is_ok());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        engine.entry("outer").unwrap().exit();
                    }
                });
            }
        });
        for name in ["outer", "nested"] {
            assert_eq!(engine.node(name).unwrap().in_flight, 0, "{name}");
        }
        assert_eq!(engine.stats().slot_faults, 200);
    });
}

// https://github.com/sentinel-group/sentinel-rust/issues/67, in one who is told
// of the changes of a breaker, and looks at that breaker too.
#[test]
fn b199_who_is_told_of_a_breaker_may_use_the_engine_that_tells() {
    watched(|| {
        let cell: Arc<OnceLock<Engine>> = Arc::default();
        let told = Arc::new(AtomicU64::new(0));
        let (its, tells) = (Arc::clone(&cell), Arc::clone(&told));
        let engine = Engine::builder()
            .on_breaker_change(move |change| {
                let engine = its.get().unwrap();
                let _nested = engine.entry("nested").unwrap();
                for breaker in engine.breakers(&change.resource) {
                    assert!(breaker.figures().generation >= change.generation);
                }
                let list = r#"[{"resource": "nested", "count": 1e9}]"#;
                engine.load_json("flow", list).unwrap();
                assert_eq!(engine.rules().len(), 2);
                assert!(engine.node("breaks").is_some());
                tells.fetch_add(1, Ordering::Relaxed);
            })
            .build();
        let rules = r#"{"degrade": [{"resource": "breaks", "grade": 2, "count": 0,
                                     "minRequestAmount": 1, "timeWindowMs": 1}],
                        "flow": [{"resource": "nested", "count": 1e9}]}"#;
        engine.load_document(rules).unwrap();
        assert!(cell.set(engine.clone()).is_ok());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while told.load(Ordering::Relaxed) < 40 {
                        match engine.try_entry("breaks") {
                            Ok(entry) => entry.exit_with(Outcome::Error),
                            Err(_) => thread::yield_now(),
                        }
                    }
                });
            }
        });
        assert_eq!(engine.stats().breaker_observer_panics, 0);
        for name in ["breaks", "nested"] {
            assert_eq!(engine.node(name).unwrap().in_flight, 0, "{name}");
        }
    });
}

const CHILD: &str = "FLOWGATE_TEST_FIRST_USE";

/// What a process of its own does: eight threads, each by another door.
fn first_use() {
    let barrier = Barrier::new(8);
    let rules = r#"[{"resource": "r", "count": 100}]"#;
    let engines = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for n in 0..8 {
            let (barrier, engines) = (&barrier, &engines);
            scope.spawn(move || {
                barrier.wait();
                match n % 4 {
                    0 => drop(flowgate::entry("r").unwrap()),
                    1 => drop(flowgate::engine().load_json("flow", rules).unwrap()),
                    2 => drop(flowgate::engine().node("r")),
                    _ => drop(flowgate::init(Engine::new())),
                }
                let engine: &'static Engine = flowgate::engine();
                engines
                    .lock()
                    .unwrap()
                    .push(std::ptr::from_ref(engine) as usize);
            });
        }
    });
    let engines = engines.into_inner().unwrap();
    assert!(engines.iter().all(|engine| *engine == engines[0]));
    assert_eq!(flowgate::engine().flow_rules().len(), 1);
    assert_eq!(flowgate::engine().node("r").unwrap().total_pass, 2);
}

// https://github.com/alibaba/Sentinel/pull/610
#[test]
fn b200_threads_that_are_the_first_to_use_it_make_one_engine() {
    if std::env::var_os(CHILD).is_some() {
        return first_use();
    }
    watched(|| {
        let test = "b200_threads_that_are_the_first_to_use_it_make_one_engine";
        for process in 0..200 {
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", test, "--test-threads=1"])
                .env(CHILD, "1")
                .stdout(Stdio::null())
                .status();
            assert!(status.unwrap().success(), "process {process}");
        }
    });
}

// https://github.com/resilience4j/resilience4j/pull/981
#[test]
fn b202_changing_a_full_limit_neither_blocks_nor_touches_who_is_inside() {
    for kind in ["flow", "isolation"] {
        let (engine, _time) = flow("[]");
        let load = |count: u32| {
            let grade = if kind == "flow" {
                r#", "grade": 0"#
            } else {
                ""
            };
            let list = format!(r#"[{{"resource": "r", "count": {count}{grade}}}]"#);
            let engine = engine.clone();
            watched(move || drop(engine.load_json(kind, list).unwrap()));
        };
        load(10);
        let r = engine.resource("r");
        let mut inside: Vec<Entry<'_>> = (0..10).map(|_| r.try_entry().unwrap()).collect();
        load(5);
        assert_eq!(r.try_entry().unwrap_err().limit(), 5.0);
        assert_eq!(r.in_flight(), 10);
        inside.truncate(4);
        inside.push(r.try_entry().unwrap());
        assert!(r.try_entry().is_err());
        load(10);
        inside.extend((0..5).map(|_| r.try_entry().unwrap()));
        assert!(r.try_entry().is_err());
        drop(inside);
        assert_eq!(passed(&r, 3), 3);
    }
}

// https://github.com/udoprog/leaky-bucket/issues/20
#[test]
fn b203_who_does_not_wait_does_not_overtake_a_pace() {
    let (engine, time) = flow(
        r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 5000}]"#,
    );
    let r = engine.resource("r");
    r.request().weight(10).entry().unwrap().exit();
    let waiters: Vec<_> = (0..5)
        .map(|_| r.request().weight(10).reserve().unwrap())
        .collect();
    let waits: Vec<_> = waiters
        .iter()
        .map(|waiter| waiter.wait().as_secs())
        .collect();
    assert_eq!(waits, [1, 2, 3, 4, 5]);
    let mut entered = Vec::new();
    for step in 0..1_200 {
        at(&time, 5 * step);
        if r.try_entry().is_ok() {
            entered.push(5 * step);
        }
    }
    // The last of them is due at five seconds.
    let expected: Vec<u64> = (51..60).map(|tenth| 100 * tenth).collect();
    assert_eq!(entered, expected);
    waiters.into_iter().for_each(|waiter| waiter.begin().exit());
}

// https://github.com/udoprog/leaky-bucket/issues/20, with permits.
#[tokio::test(start_paused = true)]
async fn b203_who_does_not_wait_does_not_overtake_a_heavy_caller_in_line() {
    let engine = on_paused_time("[]");
    let rules = r#"[{"resource": "r", "count": 10, "maxQueueingTimeMs": 60000}]"#;
    engine.load_json("isolation", rules).unwrap();
    let r = engine.resource("r");
    let start = Instant::now();
    // Ten calls that leave one after the other, and five heavy ones behind.
    let light: Vec<_> = (1..=10).map(|n| (n, r.request().into_owned())).collect();
    for (n, request) in light {
        let entry = request.entry().unwrap();
        tokio::spawn(async move {
            tokio::time::sleep(ms(100 * n)).await;
            entry.exit();
        });
    }
    let heavy: Vec<_> = (0..5)
        .map(|_| {
            let request = r.request().weight(10).into_owned();
            tokio::spawn(async move {
                let entry = request.acquire().await.unwrap();
                tokio::time::sleep(ms(1_000)).await;
                entry.exit();
                start.elapsed().as_secs()
            })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(r.node().queued, 5);
    let mut overtook = 0;
    while start.elapsed() < ms(5_500) {
        let somebody_waits = r.node().queued > 0;
        if r.try_entry().is_ok() && somebody_waits {
            overtook += 1;
        }
        tokio::time::sleep(ms(5)).await;
    }
    assert_eq!(overtook, 0);
    let mut done = Vec::new();
    for caller in heavy {
        done.push(caller.await.unwrap());
    }
    assert_eq!(done, [2, 3, 4, 5, 6]);
    assert_eq!(passed(&r, 3), 3);
}

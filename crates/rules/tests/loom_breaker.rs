//! Models of the circuit: every interleaving, for two or three threads and one
//! property each. See `crates/core/tests/loom.rs` for the rules of the game.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p flowgate-rules --test
//! loom_breaker --release`. Where a comment says "fails if", the code was broken
//! in that way and the model was seen to fail.
#![cfg(loom)]
#![allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "a part of a crate, taken out of it"
)]

#[path = "../src/degrade/circuit/mod.rs"]
mod circuit;

use std::time::Duration;

use circuit::{
    Admitted, BackOff, Cause, Change, Circuit, CircuitState, Forced, Limits, Probing, Results,
    Span, Threshold,
};
use flowgate_core::Timestamp;
use loom::sync::{Arc, Mutex};
use loom::thread;

const OPEN_TIME: Duration = Duration::from_nanos(100);
const TIMEOUT: Duration = Duration::from_nanos(50);

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// Opens at more than one bad result of `span`.
fn limits(span: Span, probes: u32) -> Limits {
    Limits {
        span,
        threshold: Threshold::Number(1.0),
        results_min: 1,
        back_off: BackOff {
            base: OPEN_TIME,
            multiplier: 1.0,
            max: OPEN_TIME,
            jitter: 0.0,
            seed: 0,
        },
        probing: Probing {
            probes,
            needed: probes,
            timeout: TIMEOUT,
        },
        forced: None,
    }
}

fn admit(circuit: &Circuit, ns: u64) -> Option<Admitted> {
    circuit.admit(at(ns), |_| {}).ok()
}

fn report(circuit: &Circuit, admitted: Admitted, bad: bool, ns: u64) {
    circuit.report(admitted, bad, at(ns), |_| {});
}

/// A circuit of bad results in a row that opened at 0: it may be probed at 100.
fn open(probes: u32) -> Arc<Circuit> {
    let circuit = Circuit::new(limits(Span::InARow, probes));
    for _ in 0..2 {
        let call = admit(&circuit, 0).expect("it is closed");
        report(&circuit, call, true, 0);
    }
    assert_eq!(circuit.state(), CircuitState::Open);
    Arc::new(circuit)
}

/// With two results asked for, so that both sums have to be seen.
fn two_bad_results_open(preemptions: usize, span: Span) {
    model(preemptions, move || {
        let mut limits = limits(span, 1);
        limits.results_min = 2;
        let circuit = Arc::new(Circuit::new(limits));
        let calls = [admit(&circuit, 1), admit(&circuit, 1)].map(|call| call.expect("closed"));
        let other = Arc::clone(&circuit);
        let thread = thread::spawn(move || report(&other, calls[1], true, 1));
        report(&circuit, calls[0], true, 1);
        thread.join().expect("no panic");
        assert_eq!(circuit.state(), CircuitState::Open);
        assert_eq!(admit(&circuit, 1), None);
    });
}

/// Fails if the fence between counting and looking is left out.
#[test]
fn two_bad_results_that_meet_in_an_interval_open_it() {
    let interval = Duration::from_nanos(10);
    two_bad_results_open(2, Span::Time { interval, boxes: 2 });
}

/// Fails if a result is stored over the counts and not exchanged for those that
/// were looked at.
#[test]
fn two_bad_results_that_meet_in_one_box_open_it() {
    let interval = Duration::from_nanos(10);
    two_bad_results_open(3, Span::Time { interval, boxes: 1 });
}

/// One box of 10 ns that opens at more bad results than there are here.
fn one_box() -> Circuit {
    let mut limits = limits(
        Span::Time {
            interval: Duration::from_nanos(10),
            boxes: 1,
        },
        1,
    );
    limits.threshold = Threshold::Number(9.0);
    Circuit::new(limits)
}

/// Both results of the new box are in it, whoever begins it, and none of the old
/// one. Fails if the head is exchanged again before the counts are, or if the counts
/// are renewed on the word of a head that is older than they.
#[test]
fn a_box_that_two_results_begin_together_holds_both_and_nothing_else() {
    model(3, || {
        let circuit = Arc::new(one_box());
        let calls = [1, 2, 3].map(|ns| admit(&circuit, ns).expect("closed"));
        report(&circuit, calls[0], true, 4);
        let other = Arc::clone(&circuit);
        let thread = thread::spawn(move || report(&other, calls[1], true, 11));
        report(&circuit, calls[2], true, 12);
        thread.join().expect("no panic");
        let results = circuit.figures(at(12)).results;
        assert_eq!(results, Results { total: 2, bad: 2 });
    });
}

/// A result that comes when its closed state has just ended, in a box that it would
/// have to begin. Fails if it does so without asking, after looking, whether that
/// state is still its own.
#[test]
fn what_was_admitted_before_a_reset_never_counts_after_it() {
    model(3, || {
        let circuit = Arc::new(one_box());
        let early = admit(&circuit, 1).expect("closed");
        let other = Arc::clone(&circuit);
        let thread = thread::spawn(move || report(&other, early, true, 3));
        assert!(circuit.reset(at(3), |_| {}));
        let late = admit(&circuit, 4).expect("closed");
        report(&circuit, late, false, 4);
        thread.join().expect("no panic");
        let results = circuit.figures(at(5)).results;
        assert_eq!(results, Results { total: 1, bad: 0 });
    });
}

/// Three threads, of which one resets. Fails if a result that finds the counts of
/// an earlier state does not renew them.
#[test]
fn after_a_reset_two_results_that_meet_are_both_counted() {
    model(2, || {
        let circuit = Arc::new(one_box());
        let early = admit(&circuit, 1).expect("closed");
        report(&circuit, early, true, 2);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let circuit = Arc::clone(&circuit);
                thread::spawn(move || {
                    let call = admit(&circuit, 3).expect("closed");
                    report(&circuit, call, false, 4);
                    call
                })
            })
            .collect();
        assert!(circuit.reset(at(3), |_| {}));
        let calls = threads.into_iter().map(|it| it.join().expect("no panic"));
        let first_state = early.to_words()[0];
        let later = calls
            .filter(|call| call.to_words()[0] != first_state)
            .count() as u64;
        let results = circuit.figures(at(5)).results;
        assert_eq!(
            results,
            Results {
                total: later,
                bad: 0
            }
        );
    });
}

#[test]
fn two_bad_results_that_meet_among_the_last_calls_open_it() {
    two_bad_results_open(5, Span::Calls(2));
}

#[test]
fn two_bad_results_in_a_row_that_meet_open_it() {
    two_bad_results_open(5, Span::InARow);
}

/// A good result takes the place of a bad one while a bad one comes in: the sums
/// never show what was not there, and are right in the end.
#[test]
fn the_ring_of_last_calls_ends_with_right_sums() {
    model(5, || {
        let mut limits = limits(Span::Calls(1), 1);
        limits.threshold = Threshold::Number(9.0);
        let circuit = Arc::new(Circuit::new(limits));
        let first = admit(&circuit, 1).expect("closed");
        report(&circuit, first, true, 1);
        let other = Arc::clone(&circuit);
        let thread = thread::spawn(move || report(&other, first, false, 1));
        report(&circuit, first, true, 1);
        thread.join().unwrap();
        let results = circuit.figures(at(1)).results;
        assert_eq!(results.total, 1);
        report(&circuit, first, false, 1);
        let expected = Results { total: 1, bad: 0 };
        assert_eq!(circuit.figures(at(1)).results, expected);
    });
}

#[test]
fn of_two_callers_after_the_open_time_one_probes() {
    model(5, || {
        let circuit = open(1);
        let changes = Arc::new(Mutex::new(Vec::new()));
        let ask = |circuit: &Circuit, changes: &Mutex<Vec<Change>>| {
            let tell = |change| changes.lock().unwrap().push(change);
            circuit.admit(at(100), tell).ok()
        };
        let thread = {
            let (circuit, changes) = (Arc::clone(&circuit), Arc::clone(&changes));
            thread::spawn(move || ask(&circuit, &changes))
        };
        let mine = ask(&circuit, &changes);
        let theirs = thread.join().unwrap();
        assert!(mine.is_some() != theirs.is_some());
        let causes: Vec<Cause> = changes.lock().unwrap().iter().map(|c| c.cause).collect();
        assert_eq!(causes, [Cause::OpenTimeOver]);
        report(&circuit, mine.or(theirs).unwrap(), false, 101);
        assert_eq!(circuit.state(), CircuitState::Closed);
    });
}

/// One probe comes back undecided while two ask for one: at most one gets it,
/// and whoever does closes the circuit.
///
/// Fails if the last probe to come back undecided leaves the table open for
/// others: two probes are then out.
#[test]
fn a_probe_that_comes_back_undecided_makes_room_for_one() {
    model(3, || {
        let circuit = open(1);
        let probe = admit(&circuit, 100).expect("the open time is over");
        let other = Arc::clone(&circuit);
        let asks = thread::spawn(move || admit(&other, 101));
        let other = Arc::clone(&circuit);
        let asks_too = thread::spawn(move || admit(&other, 101));
        circuit.undecided(probe, at(101), |_| {});
        let taken = [asks.join().unwrap(), asks_too.join().unwrap()];
        assert!(taken.iter().flatten().count() <= 1, "{taken:?}");
        let probe = taken.into_iter().flatten().next();
        let probe = probe.or_else(|| admit(&circuit, 102));
        report(&circuit, probe.expect("one is free"), false, 103);
        assert_eq!(circuit.state(), CircuitState::Closed);
    });
}

/// The late probe counts or is given up, never both.
///
/// Fails if a probe that comes back stores into its slot instead of exchanging.
#[test]
fn a_probe_is_given_up_or_comes_back() {
    model(5, || {
        let circuit = open(1);
        let slow = admit(&circuit, 100).expect("the open time is over");
        let other = Arc::clone(&circuit);
        let comes = thread::spawn(move || report(&other, slow, true, 150));
        let taken = admit(&circuit, 150);
        comes.join().unwrap();
        match taken {
            // Its failure is not heard: the second decides.
            Some(probe) if probe.is_probe() => {
                assert_eq!(circuit.state(), CircuitState::HalfOpen);
                assert_eq!(circuit.figures(at(150)).probes_out, 1);
                report(&circuit, probe, false, 151);
                assert_eq!(circuit.state(), CircuitState::Closed);
            }
            Some(_) => panic!("it was not closed"),
            None => assert_eq!(circuit.state(), CircuitState::Open),
        }
    });
}

/// Of two probes one succeeds and one fails: open in the end, told once.
#[test]
fn probes_that_meet_reach_one_verdict() {
    model(5, || {
        let circuit = open(2);
        let probes = [admit(&circuit, 100), admit(&circuit, 100)].map(|probe| probe.expect("two"));
        let told = Arc::new(Mutex::new(Vec::new()));
        let thread = {
            let (circuit, told) = (Arc::clone(&circuit), Arc::clone(&told));
            thread::spawn(move || {
                let tell = |change: Change| told.lock().unwrap().push(change.cause);
                circuit.report(probes[1], true, at(101), tell);
            })
        };
        let tell = |change: Change| told.lock().unwrap().push(change.cause);
        circuit.report(probes[0], false, at(101), tell);
        thread.join().unwrap();
        assert_eq!(*told.lock().unwrap(), [Cause::ProbesFailed]);
        assert_eq!(circuit.state(), CircuitState::Open);
        assert_eq!(admit(&circuit, 102), None);
    });
}

/// A call of the state before opening reports while a probe closes: it neither
/// counts after it nor opens it again.
#[test]
fn a_late_result_of_an_older_state_is_not_heard() {
    model(5, || {
        let mut limits = limits(Span::InARow, 1);
        limits.threshold = Threshold::Number(0.0);
        let circuit = Arc::new(Circuit::new(limits));
        let late = admit(&circuit, 0).expect("closed");
        report(&circuit, late, true, 0);
        let probe = admit(&circuit, 100).expect("the open time is over");
        let other = Arc::clone(&circuit);
        let thread = thread::spawn(move || report(&other, late, true, 101));
        report(&circuit, probe, false, 101);
        thread.join().unwrap();
        assert_eq!(circuit.state(), CircuitState::Closed);
        let figures = circuit.figures(at(102));
        assert_eq!(figures.results, Results::default());
    });
}

/// Fails if the gate is stored instead of raised: a thread that closes late
/// then opens it for good.
#[test]
fn a_force_outlives_the_probe_that_would_close() {
    model(5, || {
        let circuit = open(1);
        let probe = admit(&circuit, 100).expect("the open time is over");
        let other = Arc::clone(&circuit);
        let thread = thread::spawn(move || report(&other, probe, false, 101));
        assert!(circuit.force(Forced::Open, at(101), |_| {}));
        assert_eq!(admit(&circuit, 101), None);
        thread.join().unwrap();
        assert_eq!(circuit.figures(at(102)).forced, Some(Forced::Open));
        assert_eq!(admit(&circuit, 1_000), None);
        assert!(circuit.release(at(1_001), |_| {}));
        assert!(admit(&circuit, 1_001).is_some());
    });
}

// Who is told.

/// A circuit that opened at 0, and what was told of it since.
struct Told {
    circuit: Arc<Circuit>,
    changes: Mutex<Vec<Change>>,
}

impl Told {
    fn new() -> Arc<Self> {
        Arc::new(Told {
            circuit: open(1),
            changes: Mutex::new(Vec::new()),
        })
    }

    fn tell(&self, change: Change) {
        // In force by then.
        assert!(self.circuit.figures(at(100)).generation >= change.generation);
        self.changes.lock().expect("no panic").push(change);
    }

    fn ask(&self) {
        let _ = self.circuit.admit(at(100), |change| self.tell(change));
    }

    fn force(&self) {
        let tell = |change| self.tell(change);
        assert!(self.circuit.force(Forced::Open, at(100), tell));
    }

    /// Each change was told once, and put in order they are the way that the
    /// circuit went.
    fn is_complete(&self) {
        let now = self.circuit.figures(at(100));
        let mut changes = self.changes.lock().expect("no panic").clone();
        changes.sort_by_key(|change| change.generation);
        let generations: Vec<u64> = changes.iter().map(|change| change.generation).collect();
        assert_eq!(generations, Vec::from_iter(3..=now.generation));
        let mut state = CircuitState::Open;
        for change in changes {
            assert_eq!(change.from, state);
            state = change.to;
        }
        assert_eq!((state, now.forced), (now.state, Some(Forced::Open)));
    }
}

/// Fails if a change is told before the phase is exchanged, and if one that
/// loses the exchange tells it too.
#[test]
fn two_threads_that_change_a_circuit_tell_each_change_once() {
    model(5, || {
        let told = Told::new();
        let other = Arc::clone(&told);
        let asks = thread::spawn(move || other.ask());
        told.force();
        asks.join().unwrap();
        told.is_complete();
    });
}

#[test]
fn three_threads_that_change_a_circuit_tell_each_change_once() {
    model(3, || {
        let told = Told::new();
        let [other, another] = [Arc::clone(&told), Arc::clone(&told)];
        let asks = thread::spawn(move || other.ask());
        let asks_too = thread::spawn(move || another.ask());
        told.force();
        asks.join().unwrap();
        asks_too.join().unwrap();
        told.is_complete();
    });
}

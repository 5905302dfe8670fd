//! The oracle finds nothing in Flowgate, and everything in limiters that are
//! broken on purpose.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::path::PathBuf;

use flowgate_testkit::oracle::{self, Bound, Failure, Options, Sabotage};

/// The decisions of a run in these tests.
const DECISIONS: u64 = 100_000;
/// A broken limiter is found within so many.
const SOON: u64 = 200_000;

/// A folder for the traces of one test.
fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("flowgate-oracle-{name}-{}", std::process::id()))
}

/// What is found in a limiter that is broken so, with three seeds.
fn found(sabotage: Sabotage, look: impl Fn(&Failure, &Options)) {
    let traces = folder(&format!("{sabotage:?}"));
    for seed in 1..=3 {
        let options = Options {
            seed,
            sabotage: Some(sabotage),
            traces: traces.clone(),
            ..Options::new(SOON, 1)
        };
        let report = oracle::run(&options).unwrap();
        let failures: Vec<_> = report.failures().collect();
        assert_eq!(failures.len(), 1, "{report}");
        look(failures[0], &options);
        assert!(report.decisions() <= SOON);

        // The trace says what is right: Flowgate does all of it.
        let trace = failures[0].trace.as_ref().unwrap();
        let replayed = flowgate_testkit::replay_file(trace);
        assert_eq!(replayed.map_err(|failure| failure.to_string()), Ok(()));
    }
    std::fs::remove_dir_all(traces).unwrap();
}

/// The case that a failure names fails again.
fn fails_again(failure: &Failure, options: &Options) {
    let again = oracle::replay(&failure.case, options).unwrap();
    let again: Vec<_> = again.failures().collect();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].broken, failure.broken);
    assert_eq!(again[0].steps, failure.steps);
}

#[test]
fn every_way_to_limit_keeps_its_promises() {
    let options = Options {
        traces: folder("honest"),
        ..Options::new(DECISIONS, 2)
    };
    let report = oracle::run(&options).unwrap();
    assert_eq!(report.failures().count(), 0, "{report}");
    assert!(report.decisions() >= DECISIONS, "{report}");
    let names: Vec<_> = report.lines.iter().map(|line| line.name).collect();
    assert_eq!(names, oracle::names());
    for line in &report.lines {
        assert!(line.spans > 0, "no span of {} was looked at", line.name);
        assert!(
            line.least_share.is_none_or(|share| share == 1.0),
            "{report}"
        );
    }
}

#[test]
fn seven_threads_call_once_and_the_eighth_gets_993_of_1000() {
    for (name, got) in oracle::eighth() {
        assert_eq!(got, 993, "{name}");
    }
}

#[test]
fn looking_before_counting_lets_too_many_threads_in() {
    found(Sabotage::CheckThenCount, |failure, _| {
        assert_eq!(failure.broken.bound, Bound::Upper);
        assert!(failure.broken.to_string().contains("threads"));
        // The limit, filled up, and one call more.
        assert!(failure.steps <= 50, "{} steps", failure.steps);
    });
}

#[test]
fn a_window_that_is_opened_again_admits_too_many() {
    found(Sabotage::WindowRolledBack, |failure, options| {
        assert_eq!(failure.broken.bound, Bound::Upper);
        assert!(failure.steps <= 4, "{} steps", failure.steps);
        fails_again(failure, options);
    });
}

#[test]
fn permits_that_threads_keep_in_advance_are_missing_elsewhere() {
    found(Sabotage::LeaseNotReclaimed, |failure, _| {
        assert_eq!(failure.broken.bound, Bound::Lower);
        assert!(
            failure
                .broken
                .to_string()
                .contains("the eighth gets 944 of 993")
        );
    });
}

#[test]
fn what_is_not_given_back_is_missing_for_the_next_call() {
    found(Sabotage::RefundLost, |failure, options| {
        assert_eq!(failure.broken.bound, Bound::Lower);
        assert!(failure.steps <= 8, "{} steps", failure.steps);
        fails_again(failure, options);
    });
}

#[test]
fn the_same_seed_makes_the_same_cases_and_another_seed_others() {
    let decisions = |seed| {
        let options = Options {
            seed,
            only: Some("several".to_owned()),
            ..Options::new(DECISIONS, 1)
        };
        let report = oracle::run(&options).unwrap();
        assert_eq!(report.failures().count(), 0, "{report}");
        report.decisions()
    };
    // Crowds are of a size that is drawn.
    assert_eq!(decisions(5), decisions(5));
    assert_ne!(decisions(5), decisions(6));
}

#[test]
fn names_that_nobody_has_are_refused() {
    let options = Options::new(1, 1);
    let only = Options {
        only: Some("rejct".to_owned()),
        ..options.clone()
    };
    let error = oracle::run(&only).unwrap_err().to_string();
    assert!(error.starts_with("no algorithm rejct; there are reject, interval"));
    for name in [
        "reject-a1",
        "1/reject",
        "1/rejct-a1",
        "x/reject-a1",
        "1/reject-q1",
    ] {
        assert!(oracle::replay(name, &options).is_err(), "{name}");
    }
    assert!(oracle::replay("1/reject-a1", &options).is_ok());
}

#[test]
fn many_calls_to_one_engine_take_all_there_is_and_leave_nothing_behind() {
    let drifted = oracle::drift(60_000, 3);
    assert!(drifted.is_exact(), "{drifted:?}");
    assert!(drifted.admitted > 60_000, "calls weigh two on average");
}

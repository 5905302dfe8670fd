//! What breakers can be told beyond Sentinel's fields: how it is read, what is
//! refused, and what it does.

#![cfg(not(loom))]

use std::time::Duration;

use flowgate_core::{Outcome, Timestamp};
use flowgate_rules::degrade::circuit::Admitted;
use flowgate_rules::{
    BreakerState, CircuitState, Degrade, DegradeRule, Forced, OnInvalid, Results, RuleSet, Settings,
};

/// Faults and warnings of a rule with these members.
fn remarks(members: &str) -> (Vec<String>, Vec<String>) {
    let text = format!(r#"[{{"resource": "a", {members}}}]"#);
    let settings = Settings::default();
    let skip = RuleSet::default().with_list("degrade", &text, &settings, OnInvalid::Skip);
    let (_, report) = skip.expect("a list of rules");
    let short = |text: String| {
        let text = text.trim_start_matches("degrade[0].");
        text.split(" (line").next().unwrap_or(text).to_owned()
    };
    (
        report
            .skipped
            .iter()
            .map(|fault| short(fault.to_string()))
            .collect(),
        report
            .warnings
            .iter()
            .map(|warning| short(warning.to_string()))
            .collect(),
    )
}

fn read(members: &str) -> DegradeRule {
    let text = format!(r#"[{{"resource": "a", {members}}}]"#);
    let (set, _) = RuleSet::default()
        .with_list("degrade", &text, &Settings::default(), OnInvalid::Refuse)
        .unwrap_or_else(|error| panic!("{members}: {error}"));
    set.table::<Degrade>().entries()[0].rule().clone()
}

#[test]
fn what_goes_beyond_sentinel_is_read_as_it_is_written() {
    for (members, rule) in [
        (
            r#""grade": "consecutiveErrors", "count": 5, "timeWindow": 1"#,
            DegradeRule::consecutive_errors("a", 5.0, 1),
        ),
        (
            r#""grade": "consecutive_failures", "count": 5, "timeWindowMs": 250"#,
            DegradeRule::consecutive_errors("a", 5.0, 0).time_window_ms(250),
        ),
        (
            r#""grade": 2, "count": 5, "timeWindow": 1, "statSlidingWindowBucketCount": 4"#,
            DegradeRule::error_count("a", 5.0, 1).buckets(4),
        ),
        (
            r#""grade": 1, "count": 0.5, "timeWindow": 1, "statWindowCalls": 20"#,
            DegradeRule::error_ratio("a", 0.5, 1).last_calls(20),
        ),
        (
            r#""grade": 1, "count": 0.5, "timeWindow": 2, "backoffMultiplier": 1.5,
               "maxTimeWindow": 60, "jitter": 0.2"#,
            DegradeRule::error_ratio("a", 0.5, 2)
                .back_off(1.5, 60)
                .jitter(0.2),
        ),
        (
            r#""grade": 1, "count": 0.5, "timeWindow": 1, "probeNum": 5, "probeSuccessRatio": 0.8,
               "force": "closed""#,
            DegradeRule::error_ratio("a", 0.5, 1)
                .probes(5)
                .probe_success_ratio(0.8)
                .forced(Forced::Closed),
        ),
        (
            r#""grade": 1, "count": 0.5, "timeWindow": 1, "force": "open""#,
            DegradeRule::error_ratio("a", 0.5, 1).forced(Forced::Open),
        ),
    ] {
        assert_eq!(remarks(members), (vec![], vec![]), "{members}");
        assert_eq!(read(members), rule, "{members}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_would_do() {
    let timed = r#""grade": 1, "count": 0.5, "timeWindow": 1"#;
    for (members, fault) in [
        (
            format!(r#"{timed}, "statSlidingWindowBucketCount": 3"#),
            "statSlidingWindowBucketCount: 3 boxes do not divide the 1000 ms of statIntervalMs; \
             give numbers that do",
        ),
        (
            format!(r#"{timed}, "statSlidingWindowBucketCount": 0"#),
            "statSlidingWindowBucketCount: 0 looks at nothing; give a number of boxes from 1 to 1000",
        ),
        (
            format!(r#"{timed}, "statSlidingWindowBucketCount": 2000, "statIntervalMs": 2000"#),
            "statSlidingWindowBucketCount: 2000 is above 1000; give a number of boxes from 1 to 1000",
        ),
        (
            format!(r#"{timed}, "statWindowCalls": 10, "statIntervalMs": 5000"#),
            "statIntervalMs: a span of time beside the last 10 calls of statWindowCalls; \
             leave one of the two out",
        ),
        (
            format!(r#"{timed}, "statWindowCalls": 10, "statSlidingWindowBucketCount": 2"#),
            "statSlidingWindowBucketCount: a span of time beside the last 10 calls of \
             statWindowCalls; leave one of the two out",
        ),
        (
            format!(r#"{timed}, "statWindowCalls": 4"#),
            "minRequestAmount: 5 are never among the last 4 calls of statWindowCalls; \
             give at most 4",
        ),
        (
            r#""grade": 2, "count": 10, "timeWindow": 1, "statWindowCalls": 10"#.to_owned(),
            "count: there are never more than 10 errors among the last 10 calls of \
             statWindowCalls; give less than 10",
        ),
        (
            format!(r#"{timed}, "statWindowCalls": 100001"#),
            "statWindowCalls: 100001 is above 100000; give a number of calls up to 100000",
        ),
        (
            r#""grade": "consecutiveErrors", "count": -1, "timeWindow": 1"#.to_owned(),
            "count: -1 is negative; give a number of errors in a row",
        ),
        (
            r#""grade": 1, "count": 1, "timeWindow": 1, "timeWindowMs": 5"#.to_owned(),
            "timeWindowMs: 5 beside 1 seconds of timeWindow; give one of the two",
        ),
        (
            r#""grade": 1, "count": 1, "timeWindowMs": 0"#.to_owned(),
            "timeWindowMs: 0 would close it at once; give the milliseconds that the breaker stays open, \
             at least 1",
        ),
        (
            format!(r#"{timed}, "backoffMultiplier": 0.5"#),
            "backoffMultiplier: 0.5 would make open times shorter; give a number of at least 1",
        ),
        (
            format!(r#"{timed}, "backoffMultiplier": 2, "maxTimeWindow": 0"#),
            "maxTimeWindow: 0 is less than the first open time; give seconds above it",
        ),
        (
            format!(r#"{timed}, "jitter": 1.5"#),
            "jitter: 1.5 is no ratio; give a number from 0 to 1",
        ),
        (
            format!(r#"{timed}, "probeNum": 10001"#),
            "probeNum: 10001 is above 10000; give a number of probes up to 10000",
        ),
        (
            format!(r#"{timed}, "probeNum": 2, "probeSuccessRatio": 0"#),
            "probeSuccessRatio: 0 is no part of the probes; give a ratio above 0 and up to 1",
        ),
        (
            format!(r#"{timed}, "force": "shut""#),
            "force: \"shut\" is not known; write 0 (open) or 1 (closed)",
        ),
    ] {
        assert_eq!(
            remarks(&members),
            (vec![fault.to_owned()], vec![]),
            "{members}"
        );
    }
}

#[test]
fn what_is_not_used_is_a_warning() {
    let (faults, warnings) = remarks(
        r#""grade": "consecutiveErrors", "count": 2, "timeWindow": 1, "statIntervalMs": 5000"#,
    );
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(
        warnings,
        [
            "statIntervalMs: not used: errors in a row are counted in whatever time; \
          leave it out"
        ]
    );
    let (faults, warnings) =
        remarks(r#""grade": 1, "count": 0.5, "timeWindow": 1, "maxTimeWindow": 9"#);
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

/// A breaker on a clock that is an argument.
struct Bench {
    state: BreakerState,
    now: u64,
}

impl Bench {
    fn new(rule: &DegradeRule) -> Self {
        let settings = Settings {
            jitter_seed: Some(1),
            ..Settings::default()
        };
        Bench {
            state: BreakerState::new(rule, &settings),
            now: 0,
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000_000 + self.now)
    }

    fn at(&mut self, millis: u64) -> &Self {
        self.now = millis;
        self
    }

    fn admit(&self) -> Option<Admitted> {
        self.state.admit(self.now(), drop).ok()
    }

    fn ends(&self, admitted: Admitted, outcome: Outcome) {
        let took = Duration::ZERO;
        self.state.report(admitted, outcome, took, self.now(), drop);
    }

    /// One call from beginning to end; the state after it.
    fn call(&self, outcome: Outcome) -> CircuitState {
        let admitted = self.admit().expect("it is admitted");
        self.ends(admitted, outcome);
        self.state.state()
    }

    fn retry_after_ms(&self) -> Option<u64> {
        let refused = self.state.admit(self.now(), drop).expect_err("it is open");
        Some(refused.retry_after?.as_millis() as u64)
    }
}

use CircuitState::{Closed, HalfOpen, Open};
use Outcome::{Cancelled, Error, Ignored, Success};

#[test]
fn a_sliding_window_sees_what_a_tumbling_one_splits() {
    let rule = DegradeRule::error_count("a", 3.0, 1).min_requests(1);
    let burst = |rule: &DegradeRule| {
        let mut bench = Bench::new(rule);
        for millis in [900, 950, 1_000, 1_050] {
            bench.at(millis).call(Error);
        }
        bench.state.state()
    };
    assert_eq!(burst(&rule), Closed);
    assert_eq!(burst(&rule.clone().buckets(10)), Open);

    let mut bench = Bench::new(&rule.buckets(10));
    for millis in [50, 300, 900] {
        bench.at(millis).call(Error);
    }
    // The box of 0 to 100 has left the window, that of 300 has not.
    bench.at(1_000);
    let results = bench.state.figures(bench.now()).results;
    assert_eq!(results, Results { total: 2, bad: 2 });
    assert_eq!(bench.call(Error), Closed);
    assert_eq!(bench.call(Error), Open);
}

#[test]
fn a_window_of_calls_looks_at_the_last_calls_however_old() {
    let rule = DegradeRule::error_ratio("a", 0.5, 1)
        .last_calls(4)
        .min_requests(4);
    let mut bench = Bench::new(&rule);
    for (n, outcome) in [Error, Success, Error, Success, Error, Success]
        .into_iter()
        .enumerate()
    {
        assert_eq!(bench.at(n as u64 * 3_600_000).call(outcome), Closed, "{n}");
    }
    assert_eq!(bench.call(Error), Closed);
    assert_eq!(bench.call(Error), Open);
}

#[test]
fn errors_in_a_row_open_it_and_a_success_begins_anew() {
    let bench = Bench::new(&DegradeRule::consecutive_errors("a", 2.0, 1));
    for outcome in [Error, Error, Success, Error, Ignored, Cancelled, Error] {
        assert_eq!(bench.call(outcome), Closed, "{outcome:?}");
    }
    assert_eq!(bench.call(Error), Open);
}

#[test]
fn the_open_time_grows_until_it_has_closed() {
    let rule = DegradeRule::consecutive_errors("a", 0.0, 2).back_off(2.0, 10);
    let mut bench = Bench::new(&rule);
    let mut now = 0;
    for open_ms in [2_000, 4_000, 8_000, 10_000, 10_000] {
        assert_eq!(bench.at(now).call(Error), Open);
        assert_eq!(bench.retry_after_ms(), Some(open_ms));
        now += open_ms;
    }
    // A probe without a result is no opening.
    assert_eq!(bench.at(now).call(Ignored), Open);
    assert_eq!(bench.call(Success), Closed);
    assert_eq!(bench.call(Error), Open);
    assert_eq!(bench.retry_after_ms(), Some(2_000));
}

#[test]
fn jitter_moves_the_open_time_within_its_bounds_and_repeats_with_its_seed() {
    let rule = DegradeRule::consecutive_errors("a", 0.0, 10).jitter(0.1);
    let times = || -> Vec<u64> {
        let mut bench = Bench::new(&rule);
        let mut now = 0;
        let opens = (0..50).map(|_| {
            bench.at(now).call(Error);
            let wait = bench.retry_after_ms().expect("it comes back");
            now += wait + 1;
            wait
        });
        opens.collect()
    };
    let first = times();
    assert_eq!(first, times());
    assert!(
        first.iter().all(|time| (9_000..=11_000).contains(time)),
        "{first:?}"
    );
    assert!(first.iter().max() > first.iter().min());
}

#[test]
fn each_probe_is_given_up_by_itself() {
    let rule = DegradeRule::consecutive_errors("a", 0.0, 1)
        .probes(2)
        .half_open_timeout_ms(300);
    let mut bench = Bench::new(&rule);
    bench.call(Error);
    let first = bench.at(1_000).admit().expect("a probe");
    let second = bench.at(1_200).admit().expect("another");
    assert_eq!(bench.at(1_299).retry_after_ms(), Some(1));
    let third = bench.at(1_300).admit().expect("in the place of the first");
    assert_eq!(bench.retry_after_ms(), Some(200));
    bench.ends(first, Error);
    assert_eq!(bench.state.state(), HalfOpen);
    bench.at(1_400).ends(second, Success);
    bench.ends(third, Success);
    assert_eq!(bench.state.state(), Closed);
}

#[test]
fn a_probe_that_comes_back_after_its_time_says_nothing() {
    for outcome in [Success, Error] {
        let rule = DegradeRule::consecutive_errors("a", 0.0, 1).half_open_timeout_ms(300);
        let mut bench = Bench::new(&rule);
        bench.call(Error);
        let probe = bench.at(1_000).admit().expect("a probe");
        bench.at(1_300).ends(probe, outcome);
        assert_eq!(bench.state.state(), Open);
        assert_eq!(bench.call(Success), Closed);
    }
}

#[test]
fn a_clock_that_goes_back_neither_shortens_nor_lengthens_the_open_time() {
    let mut bench = Bench::new(&DegradeRule::consecutive_errors("a", 0.0, 2));
    assert_eq!(bench.at(5_000).call(Error), Open);
    assert_eq!(bench.at(100).retry_after_ms(), Some(2_000));
    assert_eq!(bench.at(6_999).retry_after_ms(), Some(1));
    assert_eq!(bench.at(7_000).call(Success), Closed);
}

#[test]
fn a_forced_breaker_does_as_it_is_told_until_it_is_released() {
    let bench = Bench::new(&DegradeRule::consecutive_errors("a", 0.0, 1));
    let now = bench.now();
    let earlier = bench.admit().expect("closed");
    assert!(bench.state.force(Forced::Closed, now, drop));
    assert!(!bench.state.force(Forced::Closed, now, drop));
    assert_eq!(bench.call(Error), Closed);
    bench.ends(earlier, Error);
    assert_eq!(bench.state.figures(now).results, Results::default());
    assert!(!bench.state.reset(now, drop));

    assert!(bench.state.force(Forced::Open, now, drop));
    assert_eq!(bench.retry_after_ms(), None);
    assert_eq!(bench.state.figures(now).forced, Some(Forced::Open));
    assert!(bench.state.release(now, drop));
    assert!(!bench.state.release(now, drop));
    assert_eq!(bench.call(Success), Closed);
    assert_eq!(bench.call(Error), Open);
    assert!(bench.state.reset(now, drop));
    assert_eq!(bench.call(Success), Closed);
}

#[test]
fn a_breaker_that_its_rule_forces_goes_back_to_that() {
    let rule = DegradeRule::consecutive_errors("a", 0.0, 1).forced(Forced::Open);
    let bench = Bench::new(&rule);
    assert_eq!(bench.retry_after_ms(), None);
    assert!(!bench.state.release(bench.now(), drop));
    assert!(bench.state.force(Forced::Closed, bench.now(), drop));
    assert_eq!(bench.call(Error), Closed);
    assert!(bench.state.release(bench.now(), drop));
    assert_eq!(bench.retry_after_ms(), None);
}

#[test]
fn a_part_of_the_probes_is_rounded_up_to_whole_ones() {
    for (probes, ratio, needed) in [
        (1, 0.01, 1),
        (5, 0.8, 4),
        (10, 0.7, 7),
        (20, 0.55, 11),
        (3, 0.5, 2),
        (3, 1.0, 3),
        (10_000, 0.999_91, 10_000),
    ] {
        let rule = DegradeRule::error_ratio("a", 0.5, 1).probes(probes);
        let rule = rule.probe_success_ratio(ratio);
        assert_eq!(rule.probes_needed(), needed, "{probes} {ratio}");
    }
}

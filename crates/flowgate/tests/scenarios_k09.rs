//! Reported bugs of peers, kind K09: the states of circuit breakers. Thresholds
//! are "more than" here, so where a report opens at the fifth error the rule says
//! 4.

mod common;

use std::sync::Arc;

use common::{at, document, ms};
use flowgate::CircuitState::{Closed, HalfOpen, Open};
use flowgate::Outcome::{Cancelled, Error, Ignored, Success};
use flowgate::{Engine, Entry, ManualClock, Outcome, Resource};
use tokio::sync::Semaphore;

/// An engine with one breaker on `r`: of errors, with what else it says.
fn breaker(members: &str) -> (Engine, ManualClock) {
    document(&format!(
        r#"{{"degrade": [{{"resource": "r", {members}}}]}}"#
    ))
}

/// Opens at the first error, for five seconds.
const AT_ONCE: &str = r#""grade": 2, "count": 0, "minRequestAmount": 1, "timeWindow": 5"#;

fn call(resource: &Resource, outcome: Outcome) -> bool {
    let entry = resource.try_entry();
    entry.map(|entry| entry.exit_with(outcome)).is_ok()
}

fn calls(resource: &Resource, outcomes: &[Outcome]) {
    for outcome in outcomes {
        assert!(call(resource, *outcome));
    }
}

// https://github.com/alibaba/Sentinel/issues/1638,
// https://github.com/alibaba/sentinel-golang/issues/196
#[test]
fn b104_a_probe_that_the_next_breaker_refuses_leaves_the_first_ready_to_probe() {
    let (engine, time) = document(
        r#"{"degrade": [
            {"resource": "r", "grade": 2, "count": 0, "minRequestAmount": 1, "timeWindow": 10},
            {"resource": "r", "grade": 2, "count": 0, "minRequestAmount": 1, "timeWindow": 20}]}"#,
    );
    let r = engine.resource("r");
    calls(&r, &[Error]);
    assert_eq!(engine.breakers("r"), [Open, Open]);
    for millis in [11_000, 12_000] {
        at(&time, millis);
        let block = r.try_entry().unwrap_err();
        assert_eq!(block.rule().as_str(), "degrade/r#2");
        assert_eq!(engine.breakers("r"), [Open, Open], "{millis}");
    }
    at(&time, 21_500);
    calls(&r, &[Success]);
    assert_eq!(engine.breakers("r"), [Closed, Closed]);
}

// The same with a flow rule, which is asked before the breaker, in its place.
#[test]
fn b104_a_flow_rule_that_is_lifted_lets_the_probe_through() {
    let (engine, time) = breaker(AT_ONCE);
    let r = engine.resource("r");
    calls(&r, &[Error]);
    engine
        .load_json("flow", r#"[{"resource": "r", "count": 0}]"#)
        .unwrap();
    for millis in [11_000, 12_000] {
        at(&time, millis);
        assert!(!call(&r, Success));
        assert_eq!(engine.breakers("r"), [Open]);
    }
    engine.load_json("flow", "[]").unwrap();
    at(&time, 21_500);
    calls(&r, &[Success]);
    assert_eq!(engine.breakers("r"), [Closed]);
}

// https://github.com/resilience4j/resilience4j/issues/544
#[test]
fn b106_a_probe_that_ends_in_an_ignored_result_makes_room_for_the_next() {
    let (engine, time) = breaker(AT_ONCE);
    let r = engine.resource("r");
    calls(&r, &[Error]);
    at(&time, 5_000);
    calls(&r, &[Ignored]);
    assert_eq!(engine.breakers("r"), [Open]);
    calls(&r, &[Success]);
    assert_eq!(engine.breakers("r"), [Closed]);
}

// https://github.com/resilience4j/resilience4j/issues/2120: the one that fails
// decides, and the others give their places back.
#[tokio::test]
async fn b108_probes_that_are_cancelled_are_not_lost() {
    let (engine, time) = breaker(&format!(r#"{AT_ONCE}, "probeNum": 3"#));
    let r = engine.resource("r");
    calls(&r, &[Error]);
    at(&time, 5_000);
    let gate: &'static Semaphore = Box::leak(Box::new(Semaphore::new(0)));
    let slow = || {
        let r = r.clone();
        tokio::spawn(async move { r.call_async(async { gate.acquire().await.map(drop) }).await })
    };
    let siblings = [slow(), slow()];
    while r.in_flight() < 2 {
        tokio::task::yield_now().await;
    }
    assert!(
        r.call_async(async { Err::<(), _>("it fails") })
            .await
            .is_err()
    );
    for sibling in siblings {
        sibling.abort();
        assert!(sibling.await.unwrap_err().is_cancelled());
    }
    assert_eq!(engine.breakers("r"), [Open]);
    assert_eq!(r.in_flight(), 0);
    for (millis, state) in [(10_000, HalfOpen), (11_000, HalfOpen), (12_000, Closed)] {
        at(&time, millis);
        calls(&r, &[Success]);
        assert_eq!(engine.breakers("r"), [state], "{millis}");
    }
}

// https://github.com/resilience4j/resilience4j/issues/1681
#[test]
fn b108_probes_that_are_all_cancelled_come_back() {
    let (engine, time) = breaker(&format!(r#"{AT_ONCE}, "probeNum": 3"#));
    let r = engine.resource("r");
    calls(&r, &[Error]);
    at(&time, 5_000);
    let probes: Vec<Entry<'_>> = (0..3).map(|_| r.try_entry().unwrap()).collect();
    assert!(!call(&r, Success));
    for probe in probes {
        probe.exit_with(Cancelled);
    }
    assert_eq!(engine.breakers("r"), [Open]);
    calls(&r, &[Success, Success]);
    assert_eq!(engine.breakers("r"), [HalfOpen]);
    calls(&r, &[Success]);
    assert_eq!(engine.breakers("r"), [Closed]);
}

// https://github.com/joshrotenberg/tower-resilience/pull/407
#[tokio::test]
async fn b110_one_probe_means_one_probe() {
    let (engine, time) = breaker(AT_ONCE);
    let r = engine.resource("r");
    calls(&r, &[Error]);
    at(&time, 5_000);
    let gate = Arc::new(Semaphore::new(0));
    for _ in 0..2 {
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let (r, gate) = (r.clone(), Arc::clone(&gate));
                tokio::spawn(
                    async move { r.call_async(async { gate.acquire().await.map(drop) }).await },
                )
            })
            .collect();
        while tasks.iter().filter(|task| task.is_finished()).count() < 49 {
            tokio::task::yield_now().await;
        }
        assert_eq!(r.in_flight(), 1);
        for task in tasks {
            task.abort();
            match task.await {
                Ok(result) => assert!(result.unwrap_err().block().is_some()),
                Err(error) => assert!(error.is_cancelled()),
            }
        }
        assert_eq!(r.in_flight(), 0);
    }
}

// https://github.com/diegosouzapw/OmniRoute/issues/13836
#[test]
fn b112_a_probe_that_never_comes_back_is_given_up() {
    let (engine, time) =
        breaker(r#""grade": 2, "count": 0, "minRequestAmount": 1, "timeWindow": 30"#);
    let r = engine.resource("r");
    calls(&r, &[Error]);
    at(&time, 30_000);
    let hangs = r.try_entry().unwrap();
    for (millis, left) in [(31_000, 29_000), (59_000, 1_000)] {
        at(&time, millis);
        let block = r.try_entry().unwrap_err();
        assert_eq!(block.retry_after(), Some(ms(left)));
    }
    at(&time, 61_000);
    calls(&r, &[Success]);
    assert_eq!(engine.breakers("r"), [Closed]);
    hangs.exit_with(Error);
    assert_eq!(engine.breakers("r"), [Closed]);
    assert_eq!(engine.breakers("r")[0].figures().results.total, 0);
}

// https://github.com/alibaba/Sentinel/issues/154
#[test]
fn b113_failures_of_before_the_opening_count_no_more() {
    let (engine, time) = breaker(
        r#""grade": 2, "count": 4, "minRequestAmount": 1, "timeWindow": 5,
           "statIntervalMs": 60000"#,
    );
    let r = engine.resource("r");
    at(&time, 1_000);
    calls(&r, &[Error; 5]);
    assert_eq!(engine.breakers("r"), [Open]);
    at(&time, 6_000);
    calls(&r, &[Success]);
    at(&time, 7_000);
    calls(&r, &[Error]);
    assert_eq!(engine.breakers("r"), [Closed]);
    at(&time, 8_000);
    calls(&r, &[Error; 3]);
    assert_eq!(engine.breakers("r"), [Closed]);
    calls(&r, &[Error]);
    assert_eq!(engine.breakers("r"), [Open]);
}

// https://github.com/nodeshift/opossum/issues/276
#[test]
fn b114_a_probe_decides_whatever_number_of_calls_is_asked_for() {
    for window in [
        r#""grade": 1, "count": 0.5, "statIntervalMs": 1000"#,
        r#""grade": 1, "count": 0.5, "statWindowCalls": 10"#,
    ] {
        let (engine, time) = breaker(&format!(
            r#"{window}, "minRequestAmount": 10, "timeWindow": 5"#
        ));
        let r = engine.resource("r");
        calls(&r, &[Error; 10]);
        assert_eq!(engine.breakers("r"), [Open]);
        at(&time, 5_000);
        calls(&r, &[Error]);
        assert_eq!(engine.breakers("r"), [Open]);
        at(&time, 6_000);
        assert!(!call(&r, Success));
        at(&time, 10_100);
        calls(&r, &[Success]);
        assert_eq!(engine.breakers("r"), [Closed]);
    }
}

// https://github.com/alibaba/Sentinel/pull/1779
#[test]
fn b116_a_ratio_of_one_opens_when_all_are_bad() {
    for (ratio, slow, state) in [(1.0, 5, Open), (1.0, 4, Closed), (0.0, 1, Open)] {
        let (engine, time) = breaker(&format!(
            r#""grade": 0, "count": 100, "slowRatioThreshold": {ratio:.1}, "timeWindow": 5,
               "minRequestAmount": 5, "statIntervalMs": 60000"#
        ));
        let r = engine.resource("r");
        for n in 0..5 {
            let entry = r.try_entry().unwrap();
            time.advance(ms(if n < slow { 150 } else { 50 }));
            entry.exit();
        }
        assert_eq!(engine.breakers("r"), [state], "{ratio} {slow}");
    }
    for (errors, state) in [(5, Open), (4, Closed)] {
        let (engine, _time) = breaker(r#""grade": 1, "count": 1.0, "timeWindow": 5"#);
        let r = engine.resource("r");
        for n in 0..5 {
            calls(&r, &[if n < errors { Error } else { Success }]);
        }
        assert_eq!(engine.breakers("r"), [state], "{errors}");
    }
}

// https://github.com/agberohq/agbero/issues/7
#[test]
fn b118_late_failures_neither_prolong_the_open_time_nor_open_it_again() {
    let (engine, time) = breaker(AT_ONCE);
    let r = engine.resource("r");
    let mut late: Vec<Entry<'_>> = (0..14).map(|_| r.try_entry().unwrap()).collect();
    calls(&r, &[Error]);
    for millis in [1_000, 2_000, 3_000, 4_000] {
        at(&time, millis);
        late.pop().unwrap().exit_with(Error);
    }
    at(&time, 5_000);
    calls(&r, &[Success]);
    at(&time, 5_500);
    for entry in late {
        entry.exit_with(Error);
    }
    assert_eq!(engine.breakers("r"), [Closed]);
}

// https://github.com/vdaas/vald/pull/1805: closes with the success that makes the
// ratio certain, and opens with the failure that puts it out of reach.
#[test]
fn b119_the_ratio_of_successes_that_is_asked_for_decides() {
    for (outcomes, state) in [
        (&[Success][..], HalfOpen),
        (&[Success, Success, Success], HalfOpen),
        (&[Success, Success, Success, Success], Closed),
        (&[Success, Success, Success, Error, Success], Closed),
        (&[Success, Error], HalfOpen),
        (&[Success, Error, Error], Open),
    ] {
        let (engine, time) = breaker(&format!(
            r#"{AT_ONCE}, "probeNum": 5, "probeSuccessRatio": 0.8"#
        ));
        let r = engine.resource("r");
        calls(&r, &[Error]);
        at(&time, 5_000);
        calls(&r, outcomes);
        assert_eq!(engine.breakers("r"), [state], "{outcomes:?}");
    }
}

// https://github.com/resilience4j/resilience4j/issues/858
#[test]
fn b120_looking_uses_no_probe_up() {
    let (engine, time) = breaker(&format!(r#"{AT_ONCE}, "probeNum": 2"#));
    let r = engine.resource("r");
    calls(&r, &[Error]);
    at(&time, 5_000);
    let look = || {
        for _ in 0..100 {
            let breaker = &engine.breakers("r")[0];
            let figures = breaker.figures();
            assert_eq!(figures.retry_after, Some(ms(0)));
            assert_eq!(figures.state, breaker.state());
        }
    };
    look();
    let first = r.try_entry().unwrap();
    look();
    let second = r.try_entry().unwrap();
    assert!(!call(&r, Success));
    first.exit();
    second.exit();
    assert_eq!(engine.breakers("r"), [Closed]);
}

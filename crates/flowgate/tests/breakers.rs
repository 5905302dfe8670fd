//! Circuit breakers through the facade: who is told, what people can do by
//! hand, what counts as an error, and breakers that are only observed.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::{at, built, document, ms, totals};
use flowgate::CircuitState::{Closed, HalfOpen, Open};
use flowgate::{
    BreakerTransition, CallError, Cause, Engine, Forced, ManualClock, Outcome, Resource, Results,
};

/// Opens at the first error, for five seconds.
const AT_ONCE: &str =
    r#"[{"resource": "r", "grade": "consecutiveErrors", "count": 0, "timeWindow": 5}]"#;

type Seen = Arc<Mutex<Vec<BreakerTransition>>>;

/// An engine that writes down all changes of its breakers.
fn watched(rules: &str) -> (Engine, ManualClock, Seen) {
    let seen = Seen::default();
    let list = Arc::clone(&seen);
    let observer = move |transition: &BreakerTransition| {
        list.lock().unwrap().push(transition.clone());
    };
    let (engine, time) = built(Engine::builder().on_breaker_change(observer));
    engine.load_json("degrade", rules).unwrap();
    (engine, time, seen)
}

fn causes(seen: &Seen) -> Vec<Cause> {
    let mut seen = seen.lock().unwrap();
    seen.drain(..).map(|transition| transition.cause).collect()
}

fn fail(resource: &Resource) {
    resource.try_entry().unwrap().exit_with(Outcome::Error);
}

#[test]
fn each_change_is_told_once_with_its_cause() {
    let (engine, time, seen) = watched(AT_ONCE);
    let r = engine.resource("r");
    fail(&r);
    at(&time, 5_000);
    fail(&r);
    at(&time, 10_000);
    r.try_entry().unwrap().exit_with(Outcome::Cancelled);
    r.try_entry().unwrap().exit();
    let told = seen.lock().unwrap();
    let first = &told[0];
    assert_eq!(
        (&*first.resource, first.rule.as_str()),
        ("r", "degrade/r#1")
    );
    assert_eq!(
        (first.from, first.to, first.at),
        (Closed, Open, common::START)
    );
    let told: Vec<_> = told
        .iter()
        .map(|t| {
            (
                t.generation,
                t.at.since(common::START),
                t.from,
                t.to,
                t.cause,
            )
        })
        .collect();
    let bad = Results { total: 1, bad: 1 };
    assert_eq!(
        told,
        [
            (2, ms(0), Closed, Open, Cause::Exceeded(bad)),
            (3, ms(5_000), Open, HalfOpen, Cause::OpenTimeOver),
            (4, ms(5_000), HalfOpen, Open, Cause::ProbesFailed),
            (5, ms(10_000), Open, HalfOpen, Cause::OpenTimeOver),
            (6, ms(10_000), HalfOpen, Open, Cause::ProbesUndecided),
            (7, ms(10_000), Open, HalfOpen, Cause::OpenTimeOver),
            (8, ms(10_000), HalfOpen, Closed, Cause::ProbesSucceeded),
        ]
    );
}

#[test]
fn an_observer_that_panics_hurts_nobody_and_is_counted() {
    let heard = Arc::new(AtomicUsize::new(0));
    let after = Arc::clone(&heard);
    let builder = Engine::builder()
        .on_breaker_change(|_| std::panic::resume_unwind(Box::new("an observer's own fault")))
        .on_breaker_change(move |_| {
            after.fetch_add(1, Ordering::Relaxed);
        });
    let (engine, _time) = built(builder);
    engine.load_json("degrade", AT_ONCE).unwrap();
    fail(&engine.resource("r"));
    assert_eq!(engine.breakers("r"), [Open]);
    assert_eq!(heard.load(Ordering::Relaxed), 1);
    assert_eq!(engine.stats().breaker_observer_panics, 1);
}

#[test]
fn an_observer_may_overrule_the_breaker_that_it_hears_of() {
    let place: Arc<Mutex<Option<Engine>>> = Arc::default();
    let engine_of = Arc::clone(&place);
    let builder = Engine::builder().on_breaker_change(move |transition| {
        if let Cause::Exceeded(_) = transition.cause {
            let engine = engine_of.lock().unwrap().clone();
            engine
                .unwrap()
                .force_breakers(&transition.resource, Forced::Closed);
        }
    });
    let (engine, _time) = built(builder);
    engine.load_json("degrade", AT_ONCE).unwrap();
    *place.lock().unwrap() = Some(engine.clone());
    fail(&engine.resource("r"));
    assert_eq!(engine.breakers("r"), [Closed]);
    *place.lock().unwrap() = None;
}

#[test]
fn a_breaker_can_be_forced_released_and_reset_by_hand() {
    let (engine, _time, seen) = watched(AT_ONCE);
    let r = engine.resource("r");
    assert_eq!(engine.force_breakers("r", Forced::Open), 1);
    assert_eq!(engine.force_breakers("r", Forced::Open), 0);
    assert_eq!(r.try_entry().unwrap_err().retry_after(), None);
    assert_eq!(engine.release_breakers("r"), 1);
    assert!(r.try_entry().is_ok());

    let breaker = engine.breaker("r", "degrade/r#1").unwrap();
    assert!(breaker.force(Forced::Closed));
    fail(&r);
    fail(&r);
    let figures = breaker.figures();
    assert_eq!(
        (figures.state, figures.forced),
        (Closed, Some(Forced::Closed))
    );
    assert_eq!(totals(&r).exception, 2);
    assert!(!breaker.reset());
    assert!(breaker.release());
    fail(&r);
    assert_eq!(engine.breakers("r"), [Open]);
    assert_eq!(engine.reset_breakers("r"), 1);
    assert!(r.try_entry().is_ok());
    let bad = Results { total: 1, bad: 1 };
    assert_eq!(
        causes(&seen),
        [
            Cause::Forced(Forced::Open),
            Cause::Released,
            Cause::Forced(Forced::Closed),
            Cause::Released,
            Cause::Exceeded(bad),
            Cause::Reset,
        ]
    );
    assert!(engine.breaker("r", "another").is_none());
    assert!(engine.breakers("nothing").is_empty());
}

#[test]
fn a_force_survives_a_reload_and_is_possible_before_the_first_call() {
    let (engine, _time, _) = watched(AT_ONCE);
    assert_eq!(engine.force_breakers("r", Forced::Open), 1);
    engine.load_json("degrade", AT_ONCE).unwrap();
    assert!(engine.try_entry("r").is_err());
    assert_eq!(engine.resources(), ["r"]);
}

#[test]
fn the_breaker_of_a_resource_beyond_the_limit_is_the_one_that_decides() {
    let (engine, _time) = built(Engine::builder().resources_max(1));
    engine
        .load_json("degrade", AT_ONCE.replace(r#""r""#, r#""*""#))
        .unwrap();
    engine.entry("home").unwrap().exit();
    let beyond = engine.resource("beyond");
    assert_eq!(engine.force_breakers("beyond", Forced::Open), 1);
    assert!(beyond.entry().is_err());
    assert_eq!(engine.release_breakers("beyond"), 1);
    fail(&beyond);
    assert!(beyond.entry().is_err());
    assert_eq!(engine.breakers("beyond"), [Open]);
    assert_eq!(engine.reset_breakers("beyond"), 1);
    assert!(beyond.entry().is_ok());
    // Those that have a place have a breaker of their own.
    assert_eq!(engine.breakers("home"), [Closed]);
    assert!(engine.entry("home").is_ok());
}

#[test]
fn a_breaker_can_be_forced_by_its_rule() {
    let rule = |force| {
        format!(
            r#"[{{"resource": "r", "grade": 2, "count": 0, "timeWindow": 5,
                  "minRequestAmount": 1, "force": "{force}"}}]"#
        )
    };
    let (engine, _time, _) = watched(&rule("open"));
    let block = engine.try_entry("r").unwrap_err();
    assert_eq!(block.retry_after(), None);
    engine.load_json("degrade", rule("closed")).unwrap();
    let r = engine.resource("r");
    (0..3).for_each(|_| fail(&r));
    assert_eq!(engine.breakers("r"), [Closed]);
}

#[test]
fn looking_at_a_breaker_makes_neither_resource_nor_state() {
    let rules = r#"[{"resource": "r.*", "regex": true, "grade": 2, "count": 0, "timeWindow": 5}]"#;
    let (engine, _time, _) = watched(rules);
    assert_eq!(engine.breakers("r1"), [Closed]);
    assert_eq!(engine.breakers("r1")[0].figures().generation, 1);
    assert_eq!(engine.resources(), Vec::<String>::new());
    assert!(engine.degrade_rules().entries()[0].states().is_empty());
}

// https://github.com/alibaba/sentinel-golang/issues/439
#[test]
fn a_classifier_says_which_results_are_errors() {
    let (engine, _time, _) = watched(
        r#"[{"resource": "r", "grade": 2, "count": 1, "timeWindow": 5, "minRequestAmount": 1}]"#,
    );
    let r = engine.resource("r");
    let status = |status: u16| {
        let result = r.call_with(
            || {
                if status < 400 {
                    Ok(status)
                } else {
                    Err(status)
                }
            },
            |result| match result {
                Ok(204) => Outcome::Error,
                Err(404) => Outcome::Ignored,
                Err(status) if *status < 500 => Outcome::Success,
                result => match result {
                    Ok(_) => Outcome::Success,
                    Err(_) => Outcome::Error,
                },
            },
        );
        result.is_ok()
    };
    for _ in 0..5 {
        assert!(!status(404));
        assert!(!status(400));
        assert!(status(200));
    }
    assert_eq!(engine.breakers("r"), [Closed]);
    let results = engine.breakers("r")[0].figures().results;
    assert_eq!(results, Results { total: 10, bad: 0 });
    assert!(status(204));
    assert!(!status(503));
    assert_eq!(engine.breakers("r"), [Open]);
    let counted = totals(&r);
    assert_eq!((counted.success, counted.exception), (17, 2));
}

#[tokio::test]
async fn a_classifier_of_async_work_says_it_too() {
    let (engine, _time, _) = watched(AT_ONCE);
    let r = engine.resource("r");
    for outcome in [Outcome::Ignored, Outcome::Success, Outcome::Cancelled] {
        let work = async { Err::<(), _>("not its fault") };
        let result = r.call_async_with(work, |_| outcome).await;
        assert_eq!(result, Err(CallError::Failed("not its fault")));
    }
    assert_eq!(engine.breakers("r"), [Closed]);
    let result = r
        .call_async_with(async { Ok::<_, ()>(1) }, |_| Outcome::Error)
        .await;
    assert_eq!(result, Ok(1));
    assert_eq!(engine.breakers("r"), [Open]);
}

// https://github.com/resilience4j/resilience4j/issues/935,
// https://github.com/resilience4j/resilience4j/issues/1568
#[test]
fn however_probes_end_it_never_sticks() {
    let rules = r#"[{"resource": "r", "grade": 2, "count": 0, "timeWindow": 5,
                     "minRequestAmount": 1, "probeNum": 2, "halfOpenTimeoutMs": 1000}]"#;
    let (engine, time) = document(&format!(r#"{{"degrade": {rules}}}"#));
    let r = engine.resource("r");
    fail(&r);
    at(&time, 5_000);
    for outcome in [Outcome::Ignored, Outcome::Cancelled] {
        for _ in 0..10 {
            let pair = [r.try_entry().unwrap(), r.try_entry().unwrap()];
            assert!(r.try_entry().is_err());
            pair.into_iter().for_each(|entry| entry.exit_with(outcome));
        }
    }
    // One success, and then only results that say nothing.
    r.try_entry().unwrap().exit();
    (0..10).for_each(|_| r.try_entry().unwrap().exit_with(Outcome::Ignored));
    assert_eq!(engine.breakers("r"), [HalfOpen]);
    let hang = [r.try_entry().unwrap(), r.try_entry().unwrap()];
    assert_eq!(r.try_entry().unwrap_err().retry_after(), Some(ms(1_000)));
    at(&time, 6_000);
    r.try_entry().unwrap().exit();
    assert_eq!(engine.breakers("r"), [Closed]);
    hang.into_iter()
        .for_each(|entry| entry.exit_with(Outcome::Error));
    assert_eq!(engine.breakers("r"), [Closed]);
}

#[test]
fn a_place_that_is_given_up_while_it_waits_gives_the_probe_back() {
    let (engine, time) = document(
        r#"{"flow": [{"resource": "r", "count": 10, "controlBehavior": 2,
                      "maxQueueingTimeMs": 1000}],
            "degrade": [{"resource": "r", "grade": 2, "count": 0, "timeWindow": 5,
                         "minRequestAmount": 1}]}"#,
    );
    let r = engine.resource("r");
    fail(&r);
    at(&time, 5_000);
    let waits = r.request().weight(2).reserve().unwrap();
    assert_eq!(engine.breakers("r"), [HalfOpen]);
    assert!(r.request().reserve().is_err());
    drop(waits);
    assert_eq!(engine.breakers("r"), [Open]);
    r.request().reserve().unwrap().begin().exit();
    assert_eq!(engine.breakers("r"), [Closed]);
}

#[test]
fn an_observed_breaker_goes_through_its_states_and_refuses_nobody() {
    let rules = r#"[{"resource": "r", "grade": 2, "count": 1, "timeWindow": 5,
                     "minRequestAmount": 1, "mode": "observe"}]"#;
    let (engine, time, seen) = watched(rules);
    let r = engine.resource("r");
    for _ in 0..5 {
        fail(&r);
    }
    assert_eq!(engine.breakers("r"), [Open]);
    let hits = engine.degrade_rules().entries()[0].hits().counts();
    assert_eq!((hits.passed, hits.blocked, hits.would_block), (2, 0, 3));
    at(&time, 5_000);
    let probe = r.try_entry().unwrap();
    fail(&r);
    assert_eq!(engine.breakers("r"), [HalfOpen], "it would not have run");
    probe.exit();
    assert_eq!(engine.breakers("r"), [Closed]);
    assert_eq!(causes(&seen).len(), 3);
}

#[test]
fn open_times_with_jitter_repeat_with_the_engines_seed() {
    let rules = r#"[{"resource": "r", "grade": 2, "count": 0, "timeWindow": 10, "jitter": 0.5,
                     "minRequestAmount": 1}]"#;
    let open_time = |builder: flowgate::EngineBuilder| {
        let (engine, _time) = built(builder);
        engine.load_json("degrade", rules).unwrap();
        let r = engine.resource("r");
        fail(&r);
        r.try_entry().unwrap_err().retry_after().unwrap()
    };
    let seeded = |seed| open_time(Engine::builder().jitter_seed(seed));
    assert_eq!(seeded(1), seeded(1));
    assert_ne!(seeded(1), seeded(2));
    let own: Vec<_> = (0..4).map(|_| open_time(Engine::builder())).collect();
    assert!(
        own.iter()
            .all(|time| (ms(5_000)..=ms(15_000)).contains(time))
    );
    assert!(own.iter().any(|time| *time != own[0]), "{own:?}");
}

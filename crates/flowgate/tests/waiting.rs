//! Calls that are told to queue: on the thread, on a timer, or as a value; and
//! calls that give up.

mod common;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use common::{Totals, at, built, flow, ms, passed, refusal, release_ms, totals};
use flowgate::{CallError, Engine, Measure};

/// One call per 100 ms, each waiting for half a second at most.
const PACED: &str =
    r#"[{"resource": "mail", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 500}]"#;

/// Polls a future once, and gives it back if it is not done.
fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn entry_waits_on_the_thread_by_the_engine_s_clock() {
    let (engine, time) = flow(PACED);
    let mail = engine.resource("mail");
    for n in 0..4 {
        let entry = mail.entry().unwrap();
        assert_eq!(time.now(), common::START + ms(100 * n));
        entry.exit();
    }
    assert_eq!(engine.stats().waits_in_runtime, 0);
    // Response time runs from the arrival.
    assert_eq!(mail.node().avg_rt, ms(300) / 4);
}

#[test]
fn a_queued_call_is_in_flight_at_once_and_passes_when_it_begins() {
    let (engine, time) = flow(PACED);
    let mail = engine.resource("mail");
    mail.entry().unwrap().exit();
    let pending = mail.reserve().unwrap();
    assert_eq!(pending.wait(), ms(100));
    let queued = Totals {
        pass: 1,
        success: 1,
        in_flight: 1,
        ..Totals::default()
    };
    assert_eq!(totals(&mail), queued);
    time.advance(ms(100));
    let entry = pending.begin();
    // It arrived before it waited.
    assert_eq!(entry.entered(), Some(common::START));
    assert_eq!(totals(&mail), Totals { pass: 2, ..queued });
    entry.exit();
    let ended = Totals {
        pass: 2,
        success: 2,
        ..Totals::default()
    };
    assert_eq!(totals(&mail), ended);
}

#[test]
fn a_pending_call_that_is_dropped_gives_its_place_back_and_counts_as_cancelled() {
    for cancel in [false, true] {
        let (engine, time) = flow(PACED);
        let mail = engine.resource("mail");
        let places: Vec<_> = (0..3).map(|_| mail.reserve().unwrap()).collect();
        let waits: Vec<_> = places.iter().map(|place| place.wait()).collect();
        assert_eq!(waits, [ms(0), ms(100), ms(200)]);
        for place in places.into_iter().skip(1) {
            match cancel {
                true => place.cancel(),
                false => drop(place),
            }
        }
        let expected = Totals {
            cancelled: 3,
            ..Totals::default()
        };
        // The first one did not have to wait; it was never begun either.
        assert_eq!(totals(&mail), expected);
        // All three places are free again. The one at 100 ms is a hole.
        let releases = [(); 3].map(|()| release_ms(mail.request(), &time));
        assert_eq!(releases, [Some(0), Some(100), Some(200)]);
    }
}

#[test]
fn a_call_that_reserved_a_pass_and_is_given_up_takes_it_back() {
    let (engine, _time) = flow(
        r#"[{"resource": "mail", "count": 10, "controlBehavior": 2},
            {"resource": "mail", "count": 2},
            {"resource": "mail", "count": 1, "grade": 0, "limitApp": "web"}]"#,
    );
    let mail = engine.resource("mail");
    let request = || mail.request().origin("web").context("api");
    drop(request().reserve().unwrap());
    let cancelled = Totals {
        cancelled: 1,
        ..Totals::default()
    };
    assert_eq!(totals(&mail), cancelled);
    let of = |node: Option<flowgate::NodeSnapshot>| Totals::from(node.unwrap());
    assert_eq!(of(engine.origin_node("mail", "web")), cancelled);
    assert_eq!(of(engine.context_node("mail", "api")), cancelled);
    // Place in flight, pass and place in line are all there again.
    let entry = request().reserve().unwrap();
    assert_eq!(entry.wait(), ms(0));
    assert_eq!(
        totals(&mail),
        Totals {
            pass: 1,
            in_flight: 1,
            ..cancelled
        }
    );
}

#[test]
fn try_entry_refuses_a_call_that_would_queue_and_leaves_the_line_as_it_was() {
    let (engine, time) = flow(PACED);
    let mail = engine.resource("mail");
    assert_eq!(passed(&mail, 1), 1);
    for _ in 0..1_000 {
        let block = mail.try_entry().unwrap_err();
        assert_eq!(
            block,
            refusal(Measure::WaitMs, "flow/mail#1", 500.0, 100.0, Some(ms(100)))
        );
    }
    let expected = Totals {
        pass: 1,
        block: 1_000,
        success: 1,
        ..Totals::default()
    };
    assert_eq!(totals(&mail), expected);
    at(&time, 99);
    assert!(mail.try_entry().is_err());
    at(&time, 100);
    assert!(mail.try_entry().is_ok());
}

#[test]
fn a_call_refused_instead_of_waiting_names_the_rule_it_would_have_waited_longest_for() {
    let (engine, _time) = flow(
        r#"[{"id": "slow", "resource": "mail", "count": 2, "controlBehavior": 2},
            {"id": "fast", "resource": "mail", "count": 10, "controlBehavior": 2}]"#,
    );
    let mail = engine.resource("mail");
    assert_eq!(passed(&mail, 1), 1);
    assert_eq!(
        mail.try_entry().unwrap_err(),
        refusal(Measure::WaitMs, "slow", 500.0, 500.0, Some(ms(500)))
    );
}

#[test]
fn a_call_refused_instead_of_borrowing_names_the_rule_that_is_full() {
    let (engine, time) = flow(
        r#"[{"id": "wide", "resource": "pay", "count": 9, "grade": 0},
            {"id": "full", "resource": "pay", "count": 2}]"#,
    );
    let pay = engine.resource("pay");
    assert_eq!(passed(&pay, 2), 2);
    at(&time, 600);
    assert_eq!(
        pay.request().prioritized().try_entry().unwrap_err(),
        refusal(Measure::Rate, "full", 2.0, 2.0, Some(ms(400)))
    );
    let expected = Totals {
        pass: 2,
        block: 1,
        success: 2,
        ..Totals::default()
    };
    assert_eq!(totals(&pay), expected);
}

#[test]
fn a_prioritized_call_borrows_from_the_next_window_and_waits_for_it() {
    let (engine, time) = flow(r#"[{"resource": "pay", "count": 2}]"#);
    let pay = engine.resource("pay");
    assert_eq!(passed(&pay, 2), 2);
    at(&time, 600);
    let pending = pay.request().prioritized().reserve().unwrap();
    assert_eq!(pending.wait(), ms(400));
    let borrowed = Totals {
        pass: 3,
        success: 2,
        in_flight: 1,
        waiting: 1,
        ..Totals::default()
    };
    assert_eq!(totals(&pay), borrowed);
    at(&time, 1_000);
    let entry = pending.begin();
    // One of the two of this second is taken.
    assert_eq!(passed(&pay, 5), 1);
    entry.exit();
    assert_eq!(pay.node().waiting, 0);
}

#[test]
fn a_borrowed_call_that_is_given_up_leaves_the_window_it_borrowed_from() {
    let (engine, time) = flow(r#"[{"resource": "pay", "count": 2}]"#);
    let pay = engine.resource("pay");
    assert_eq!(passed(&pay, 2), 2);
    at(&time, 600);
    drop(pay.request().prioritized().reserve().unwrap());
    let expected = Totals {
        pass: 2,
        success: 2,
        cancelled: 1,
        ..Totals::default()
    };
    assert_eq!(totals(&pay), expected);
    at(&time, 1_000);
    assert_eq!(passed(&pay, 5), 2);
}

#[test]
fn a_prioritized_call_borrows_whether_a_warm_up_rule_stands_before_or_after() {
    let full = r#"{"resource": "pay", "count": 2}"#;
    let warm = r#"{"resource": "pay", "count": 100, "controlBehavior": 1}"#;
    for rules in [format!("[{full}, {warm}]"), format!("[{warm}, {full}]")] {
        let (engine, time) = flow(&rules);
        let pay = engine.resource("pay");
        assert_eq!(passed(&pay, 2), 2);
        at(&time, 600);
        let pending = pay.request().prioritized().reserve();
        assert_eq!(pending.unwrap().wait(), ms(400), "{rules}");
    }
}

#[test]
fn a_queue_waits_once_for_the_longest_of_its_rules() {
    let (engine, time) = flow(
        r#"[{"resource": "mail", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 500},
            {"resource": "mail", "count": 4, "controlBehavior": 2, "maxQueueingTimeMs": 500}]"#,
    );
    let mail = engine.resource("mail");
    let releases = [(); 4].map(|()| release_ms(mail.request(), &time));
    assert_eq!(releases, [Some(0), Some(250), Some(500), None]);
    // The refused one gave its place in the first line back: at 300 ms.
    assert_eq!(totals(&mail).block, 1);
    engine
        .load_json(
            "flow",
            r#"[{"resource": "mail", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 500}]"#,
        )
        .unwrap();
    assert_eq!(release_ms(mail.request(), &time), Some(300));
}

#[test]
fn acquire_waits_on_the_clock_and_a_future_dropped_while_it_waits_is_cancelled() {
    let (engine, time) = flow(PACED);
    let mail = engine.resource("mail");
    {
        let mut first = pin!(mail.acquire());
        let Poll::Ready(Ok(entry)) = poll_once(first.as_mut()) else {
            panic!("the first call of a line does not wait");
        };
        entry.exit();
        let mut second = pin!(mail.acquire());
        assert!(poll_once(second.as_mut()).is_pending());
        assert_eq!(mail.in_flight(), 1);
    }
    let expected = Totals {
        pass: 1,
        success: 1,
        cancelled: 1,
        ..Totals::default()
    };
    assert_eq!(totals(&mail), expected);
    // A manual clock is moved by whoever waits: the place of 100 ms, given
    // back, is there for the next.
    assert_eq!(time.now(), common::START + ms(100));
    assert!(mail.try_entry().is_ok());
    let mut third = pin!(engine.acquire("mail"));
    assert!(poll_once(third.as_mut()).is_pending());
    assert!(poll_once(third.as_mut()).is_ready());
}

#[tokio::test]
async fn call_async_classifies_its_result_and_counts_a_dropped_call_as_cancelled() {
    let (engine, _time) = flow(r#"[{"resource": "mail", "count": 3}]"#);
    let mail = engine.resource("mail");
    assert_eq!(mail.call_async(async { Ok::<_, ()>(1) }).await, Ok(1));
    let failed = mail.call_async(async { Err::<(), _>("no") }).await;
    assert_eq!(failed, Err(CallError::Failed("no")));
    {
        let mut call = pin!(mail.call_async(std::future::pending::<Result<(), ()>>()));
        assert!(poll_once(call.as_mut()).is_pending());
        assert_eq!(mail.in_flight(), 1);
    }
    let refused = mail.call_async(async { Ok::<_, ()>(()) }).await;
    let block = refusal(Measure::Rate, "flow/mail#1", 3.0, 3.0, Some(ms(1_000)));
    assert_eq!(refused, Err(CallError::Blocked(block)));
    let expected = Totals {
        pass: 3,
        block: 1,
        success: 2,
        exception: 1,
        cancelled: 1,
        ..Totals::default()
    };
    assert_eq!(totals(&mail), expected);
}

#[tokio::test]
async fn a_panic_in_an_async_call_counts_as_an_error() {
    let (engine, _time) = flow("[]");
    let mail = engine.resource("mail");
    let task = {
        let mail = mail.clone();
        tokio::spawn(async move {
            let work = async { std::panic::resume_unwind(Box::new("boom")) };
            mail.call_async::<(), (), _>(work).await
        })
    };
    let panic = task.await.unwrap_err().into_panic();
    assert_eq!(*panic.downcast::<&str>().unwrap(), "boom");
    let expected = Totals {
        pass: 1,
        success: 1,
        exception: 1,
        ..Totals::default()
    };
    assert_eq!(totals(&mail), expected);
}

#[tokio::test]
async fn waits_on_a_thread_of_a_runtime_are_counted() {
    let (engine, _time) = flow(PACED);
    let mail = engine.resource("mail");
    for _ in 0..3 {
        mail.entry().unwrap().exit();
    }
    mail.acquire().await.unwrap().exit();
    // The first did not wait; the last waited without holding up a worker.
    assert_eq!(engine.stats().waits_in_runtime, 2);
}

#[tokio::test]
async fn an_entry_crosses_awaits_and_tasks() {
    let (engine, _time) = built(Engine::builder());
    let entry = engine.acquire("mail").await.unwrap();
    let task = tokio::spawn(async move {
        tokio::task::yield_now().await;
        entry.exit_with(flowgate::Outcome::Error);
    });
    task.await.unwrap();
    let node = engine.node("mail").unwrap();
    assert_eq!((node.in_flight, node.total_exception), (0, 1));
}

#[test]
fn a_call_that_waits_while_guarding_is_switched_off_keeps_its_place() {
    let (engine, time) = flow(PACED);
    let mail = engine.resource("mail");
    assert_eq!(passed(&mail, 1), 1);
    let (kept, given_up) = (mail.reserve().unwrap(), mail.reserve().unwrap());
    engine.set_enabled(false);
    let off = mail.reserve().unwrap();
    assert_eq!(off.wait(), ms(0));
    drop(off);
    drop(given_up);
    time.advance(kept.wait());
    kept.begin().exit();
    engine.set_enabled(true);
    let expected = Totals {
        pass: 2,
        success: 2,
        cancelled: 1,
        ..Totals::default()
    };
    assert_eq!(totals(&mail), expected);
    assert_eq!(release_ms(mail.request(), &time), Some(200));
}

#[test]
fn a_call_that_never_waits_is_told_the_whole_wait_by_a_full_line_too() {
    let (engine, time) = flow(PACED);
    let mail = engine.resource("mail");
    let pending: Vec<_> = (0..6).map(|_| mail.reserve().unwrap()).collect();
    // Whoever may wait is let into the line again when it is a place shorter.
    assert_eq!(mail.reserve().err().unwrap().retry_after(), Some(ms(100)));
    assert_eq!(mail.try_entry().unwrap_err().retry_after(), Some(ms(600)));
    at(&time, 599);
    assert_eq!(mail.try_entry().unwrap_err().retry_after(), Some(ms(1)));
    at(&time, 600);
    assert!(mail.try_entry().is_ok());
    drop(pending);
}

#[test]
fn an_entry_tells_how_long_it_waited_and_when_it_is_charged() {
    let (engine, time) = flow(PACED);
    let mail = engine.resource("mail");
    let first = mail.entry().unwrap();
    assert_eq!(
        (first.waited(), first.entered()),
        (ms(0), Some(common::START))
    );
    let second = mail.entry().unwrap();
    assert_eq!(
        (second.waited(), second.entered()),
        (ms(100), Some(common::START))
    );
    assert_eq!(time.now(), common::START + ms(100));
}

#[test]
fn a_request_made_independent_of_its_handle_outlives_it() {
    let (engine, _time) = flow(PACED);
    let mail = engine.resource("mail");
    let entry = mail.request().into_owned().entry().unwrap();
    drop(mail);
    assert_eq!(entry.resource(), Some("mail"));
    assert_eq!(engine.node("mail").unwrap().in_flight, 1);
    drop(entry);
    assert_eq!(engine.node("mail").unwrap().in_flight, 0);
}

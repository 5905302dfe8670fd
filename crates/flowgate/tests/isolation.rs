//! Isolation rules: permits, and standing in line for them.

mod common;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use common::{START, Totals, at, built, document, ms, on_paused_time, passed, totals};
use flowgate::{
    Block, BlockKind, Engine, Entry, HitCounts, Isolation, IsolationRule, ManualClock, Measure,
    Outcome, Resource, RuleId, Traffic,
};

/// Two permits; who comes third waits a second at most, behind one other.
const PATIENT: &str = r#"[{"resource": "pay", "count": 2, "maxQueueingTimeMs": 1000,
                           "maxQueueLength": 2}]"#;

fn isolation(rules: &str) -> (Engine, ManualClock) {
    document(&format!(r#"{{"isolation": {rules}}}"#))
}

fn full(id: &str, limit: f64, observed: f64) -> Block {
    Block::new(BlockKind::Isolation, RuleId::new(id), limit, observed).measured_in(Measure::Permits)
}

fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A call that may be polled by hand, and has been once.
fn asked<'r>(resource: &'r Resource, weight: u32) -> Pin<Box<impl Future<Output = Asked<'r>>>> {
    let mut asked = Box::pin(resource.request().weight(weight).acquire());
    assert!(poll_once(asked.as_mut()).is_pending());
    asked
}

type Asked<'r> = Result<Entry<'r>, Block>;

/// What is held and waited for: calls and permits in flight, calls in line.
fn held(resource: &Resource) -> (u64, u64, u64) {
    let node = resource.node();
    (node.in_flight, node.permits, node.queued)
}

fn hits(engine: &Engine, rule: usize) -> HitCounts {
    engine.rules()[rule].hits
}

#[test]
fn calls_take_as_many_permits_as_they_weigh_and_no_more_than_there_are() {
    let (engine, _time) = isolation(r#"[{"resource": "pay", "count": 5}]"#);
    let pay = engine.resource("pay");
    let heavy = pay.request().weight(3).entry().unwrap();
    let refused = pay.request().weight(3).entry().unwrap_err();
    assert_eq!(refused, full("isolation/pay#1", 5.0, 3.0));
    let light = pay.request().weight(2).entry().unwrap();
    // Weight 0 asks without taking any permits; it is in flight all the same.
    let asking = pay.request().weight(0).entry().unwrap();
    assert_eq!(held(&pay), (3, 5, 0));
    assert_eq!(pay.entry().unwrap_err(), full("isolation/pay#1", 5.0, 5.0));
    for entry in [heavy, light, asking] {
        entry.exit();
    }
    assert_eq!(held(&pay), (0, 0, 0));
    assert_eq!((totals(&pay).pass, totals(&pay).block), (5, 4));
}

#[test]
fn a_weight_above_the_limit_is_refused_at_once_and_stands_in_no_line() {
    let (engine, _time) = isolation(PATIENT);
    let pay = engine.resource("pay");
    let mut heavy = pin!(pay.request().weight(3).acquire());
    let Poll::Ready(refused) = poll_once(heavy.as_mut()) else {
        panic!("it waits in vain");
    };
    assert_eq!(refused.unwrap_err(), full("isolation/pay#1", 2.0, 0.0));
    assert_eq!(held(&pay), (0, 0, 0));
}

#[test]
fn calls_that_must_not_wait_are_refused_and_stand_in_no_line() {
    let (engine, _time) = isolation(PATIENT);
    let pay = engine.resource("pay");
    let inside = [pay.entry().unwrap(), pay.entry().unwrap()];
    let block = full("isolation/pay#1", 2.0, 2.0);
    assert_eq!(pay.try_entry().unwrap_err(), block);
    assert_eq!(pay.reserve().map(drop).unwrap_err(), block);
    assert_eq!(totals(&pay).block, 2);
    assert_eq!(hits(&engine, 0).blocked, 2);
    assert_eq!(held(&pay), (2, 2, 0));
    drop(inside);
    // With a permit there is nothing to wait for.
    pay.reserve().unwrap().begin().exit();
    assert_eq!(held(&pay), (0, 0, 0));
}

#[test]
fn waiters_go_in_the_order_of_their_coming_and_nobody_overtakes() {
    let (engine, time) = isolation(PATIENT);
    let pay = engine.resource("pay");
    let [one, two] = [pay.entry().unwrap(), pay.entry().unwrap()];
    let mut heavy = asked(&pay, 2);
    at(&time, 100);
    let mut light = asked(&pay, 1);
    // They are seen, and are not in flight.
    assert_eq!(held(&pay), (2, 2, 2));
    // The line is full.
    let mut third = pin!(pay.acquire());
    let Poll::Ready(Err(refused)) = poll_once(third.as_mut()) else {
        panic!("a line of two");
    };
    assert_eq!(refused, full("isolation/pay#1", 2.0, 2.0));

    at(&time, 200);
    one.exit();
    // One permit is free, and the heavy one's.
    assert_eq!(
        pay.try_entry().unwrap_err(),
        full("isolation/pay#1", 2.0, 1.0)
    );
    assert!(poll_once(light.as_mut()).is_pending());
    at(&time, 300);
    two.exit();
    assert!(poll_once(light.as_mut()).is_pending());
    let Poll::Ready(Ok(first)) = poll_once(heavy.as_mut()) else {
        panic!("two permits are free");
    };
    assert_eq!((first.waited(), first.entered()), (ms(300), Some(START)));
    at(&time, 400);
    first.exit();
    let Poll::Ready(Ok(second)) = poll_once(light.as_mut()) else {
        panic!("its turn has come");
    };
    assert_eq!(second.waited(), ms(300));
    second.exit();

    assert_eq!(held(&pay), (0, 0, 0));
    let expected = Totals {
        pass: 5,
        block: 2,
        success: 5,
        ..Totals::default()
    };
    assert_eq!(totals(&pay), expected);
    // Response times run from the arrival: 200, 300, 400 and 300 ms.
    assert_eq!(pay.node().avg_rt, ms(1_200) / 5);
    let expected = HitCounts {
        passed: 4,
        blocked: 2,
        waited: 2,
        ..HitCounts::default()
    };
    assert_eq!(hits(&engine, 0), expected);
}

#[tokio::test(start_paused = true)]
async fn who_waits_in_vain_is_refused_once_after_exactly_the_longest_wait() {
    let engine = on_paused_time("[]");
    engine.load_json("isolation", PATIENT).unwrap();
    let pay = engine.resource("pay");
    let inside = pay.acquire().await.unwrap();
    let start = tokio::time::Instant::now();
    let refused = pay.request().weight(2).acquire().await.unwrap_err();
    assert_eq!(start.elapsed(), ms(1_000));
    assert_eq!(refused, full("isolation/pay#1", 2.0, 1.0));
    assert_eq!((totals(&pay).block, held(&pay)), (2, (1, 1, 0)));
    assert_eq!(hits(&engine, 0).blocked, 1);
    inside.exit();
    assert_eq!(held(&pay), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn permits_that_come_with_the_end_of_the_wait_are_taken() {
    let engine = on_paused_time("[]");
    engine.load_json("isolation", PATIENT).unwrap();
    let pay = engine.resource("pay");
    let inside = pay.request().weight(2).entry().unwrap();
    let waiter = tokio::spawn({
        let pay = pay.clone();
        async move { pay.acquire().await.map(|entry| entry.waited()) }
    });
    tokio::time::sleep(ms(1_000)).await;
    // Both timers are over; the waiter has not looked yet.
    inside.exit();
    assert_eq!(waiter.await.unwrap(), Ok(ms(1_000)));
    assert_eq!(held(&pay), (0, 0, 0));
}

#[test]
fn a_future_dropped_in_line_leaves_it_and_one_just_granted_passes_it_on() {
    let (engine, _time) = isolation(PATIENT);
    let pay = engine.resource("pay");
    let inside = pay.request().weight(2).entry().unwrap();
    // Never polled: it has not asked.
    drop(pay.acquire());
    let (dropped, mut next) = (asked(&pay, 2), asked(&pay, 1));
    drop(dropped);
    assert_eq!(held(&pay), (1, 2, 1));
    inside.exit();
    // Granted, and not polled since.
    assert_eq!(held(&pay), (0, 1, 1));
    let last = asked(&pay, 2);
    let Poll::Ready(Ok(entry)) = poll_once(next.as_mut()) else {
        panic!("its turn has come");
    };
    drop(next);
    entry.exit();
    assert_eq!(held(&pay), (0, 2, 1));
    let mut after = asked(&pay, 1);
    assert!(poll_once(after.as_mut()).is_pending());
    // Granted, and given up: the next has it.
    drop(last);
    assert_eq!(held(&pay), (0, 1, 1));
    let Poll::Ready(Ok(entry)) = poll_once(after.as_mut()) else {
        panic!("its turn has come");
    };
    entry.exit();
    assert_eq!(held(&pay), (0, 0, 0));
    let expected = Totals {
        pass: 4,
        success: 4,
        cancelled: 4,
        ..Totals::default()
    };
    assert_eq!(totals(&pay), expected);
}

#[test]
fn a_call_in_line_has_taken_nothing_and_rates_are_asked_when_it_goes() {
    let (engine, time) = document(
        r#"{"flow": [{"resource": "pay", "count": 2},
                     {"resource": "pay", "count": 10, "controlBehavior": 2}],
            "isolation": [{"resource": "pay", "count": 1, "maxQueueingTimeMs": 5000}]}"#,
    );
    let pay = engine.resource("pay");
    let inside = pay.entry().unwrap();
    at(&time, 100);
    let mut waiter = asked(&pay, 1);
    assert_eq!((totals(&pay).pass, totals(&pay).block), (1, 0));
    assert_eq!(pay.node().pass_qps, 1.0);
    at(&time, 3_000);
    inside.exit();
    let Poll::Ready(Ok(entry)) = poll_once(waiter.as_mut()) else {
        panic!("its turn has come");
    };
    // No wait for the pace: it stood in that line only now.
    assert_eq!(entry.waited(), ms(2_900));
    assert_eq!(pay.node().pass_qps, 1.0);
    entry.exit();
    assert_eq!(held(&pay), (0, 0, 0));
}

#[test]
fn a_call_refused_after_its_wait_passes_the_permit_on() {
    let (engine, time) = document(
        r#"{"isolation": [{"resource": "pay", "count": 1, "maxQueueingTimeMs": 5000}],
            "degrade": [{"resource": "pay", "grade": 2, "count": 0, "timeWindow": 10,
                         "minRequestAmount": 1}]}"#,
    );
    let pay = engine.resource("pay");
    let inside = pay.entry().unwrap();
    let mut waiters = [(); 3].map(|()| asked(&pay, 1));
    at(&time, 500);
    // The breaker opens while they wait.
    inside.exit_with(Outcome::Error);
    for waiter in &mut waiters {
        assert_eq!((pay.node().permits, pay.in_flight()), (1, 0));
        let Poll::Ready(Err(refused)) = poll_once(waiter.as_mut()) else {
            panic!("its turn has come");
        };
        assert_eq!(refused.kind(), BlockKind::Degrade);
    }
    assert_eq!(held(&pay), (0, 0, 0));
    assert_eq!((totals(&pay).pass, totals(&pay).block), (1, 3));
    at(&time, 10_500);
    pay.entry().unwrap().exit();
    assert_eq!(passed(&pay, 3), 3);
}

#[test]
fn flow_rules_count_calls_and_isolation_rules_permits() {
    let (engine, _time) = document(
        r#"{"flow": [{"resource": "pay", "count": 4, "grade": 0}],
            "isolation": [{"resource": "pay", "count": 6, "maxQueueingTimeMs": 100}]}"#,
    );
    let pay = engine.resource("pay");
    let heavy = |weight| pay.request().weight(weight).try_entry();
    let [a, b] = [heavy(3).unwrap(), heavy(2).unwrap()];
    assert_eq!(held(&pay), (2, 5, 0));
    // Three free places are not there, though one would be taken.
    assert_eq!(heavy(3).unwrap_err().kind(), BlockKind::Flow);
    assert_eq!(heavy(2).unwrap_err(), full("isolation/pay#1", 6.0, 5.0));
    assert_eq!(held(&pay), (2, 5, 0));
    let c = heavy(1).unwrap();
    // What waits for permits has no place.
    let waiter = asked(&pay, 1);
    assert_eq!(held(&pay), (3, 6, 1));
    drop(waiter);
    for entry in [a, b, c] {
        entry.exit();
    }
    assert_eq!(held(&pay), (0, 0, 0));
}

#[test]
fn several_rules_reserve_once_and_the_first_without_room_decides() {
    let (engine, _time) = isolation(
        r#"[{"resource": "pay", "count": 4, "id": "four"},
            {"resource": "pay", "count": 2, "id": "two", "maxQueueingTimeMs": 100},
            {"resource": "pay", "count": 3, "id": "three"}]"#,
    );
    let pay = engine.resource("pay");
    let inside = [pay.entry().unwrap(), pay.entry().unwrap()];
    assert_eq!(held(&pay), (2, 2, 0));
    assert_eq!(pay.try_entry().unwrap_err(), full("two", 2.0, 2.0));
    let heavy = |weight| pay.request().weight(weight).try_entry().unwrap_err();
    assert_eq!(heavy(5), full("four", 4.0, 2.0));
    // One that never fits is refused by the rule that says so.
    assert_eq!(heavy(3), full("two", 2.0, 2.0));
    // Only the second rule has anybody wait.
    let waiter = asked(&pay, 1);
    drop(inside);
    drop(waiter);
    assert_eq!(heavy(3), full("two", 2.0, 0.0));
    assert_eq!(heavy(4), full("two", 2.0, 0.0));
    assert_eq!(held(&pay), (0, 0, 0));
}

#[test]
fn a_rule_loaded_later_sees_the_calls_that_run() {
    let (engine, _time) = isolation("[]");
    let pay = engine.resource("pay");
    let heavy = pay.request().weight(3).entry().unwrap();
    engine
        .load_rules::<Isolation>(vec![IsolationRule::at_once("pay", 4)])
        .unwrap();
    let light = pay.entry().unwrap();
    assert_eq!(
        pay.try_entry().unwrap_err(),
        full("isolation/pay#1", 4.0, 4.0)
    );
    heavy.exit();
    assert_eq!(held(&pay), (1, 1, 0));
    light.exit();
}

#[test]
fn a_reload_moves_nobody_in_line_and_newcomers_go_by_the_new_limit() {
    let (engine, _time) = isolation(PATIENT);
    let pay = engine.resource("pay");
    let load = |count: u32| {
        let rule = IsolationRule::at_once("pay", count).wait_ms(1_000);
        engine.load_rules::<Isolation>(vec![rule]).unwrap();
    };
    let mut inside = vec![pay.entry().unwrap(), pay.entry().unwrap()];
    let mut old = asked(&pay, 1);
    // Raised: newcomers do not stand behind somebody who cannot go yet.
    load(4);
    assert!(poll_once(old.as_mut()).is_pending());
    inside.extend([pay.entry().unwrap(), pay.entry().unwrap()]);
    let mut new = asked(&pay, 1);
    assert_eq!(held(&pay), (4, 4, 2));
    inside.pop();
    assert!(poll_once(old.as_mut()).is_pending());
    let Poll::Ready(Ok(entry)) = poll_once(new.as_mut()) else {
        panic!("four may run");
    };
    inside.push(entry);
    // Lowered: the one in line still goes by its own limit of two.
    load(1);
    inside.truncate(2);
    assert!(poll_once(old.as_mut()).is_pending());
    inside.truncate(1);
    let Poll::Ready(Ok(entry)) = poll_once(old.as_mut()) else {
        panic!("one of two runs");
    };
    entry.exit();
    assert_eq!(
        pay.try_entry().unwrap_err(),
        full("isolation/pay#1", 1.0, 1.0)
    );
    inside.clear();
    assert_eq!(passed(&pay, 1), 1);
    assert_eq!(held(&pay), (0, 0, 0));
}

#[test]
fn nodes_of_origin_context_and_direction_count_as_the_resource_does() {
    let (engine, _time) = isolation(PATIENT);
    let pay = engine.resource("pay");
    let request = || {
        pay.request()
            .origin("web")
            .context("api")
            .traffic(Traffic::Inbound)
    };
    let outbound = pay.entry().unwrap();
    let inside = request().entry().unwrap();
    let mut waiter = Box::pin(request().weight(2).acquire());
    assert!(poll_once(waiter.as_mut()).is_pending());
    let of = || {
        let figures = [
            engine.origin_node("pay", "web").unwrap(),
            engine.context_node("pay", "api").unwrap(),
            engine.inbound(),
        ];
        figures.map(|node| (node.in_flight, node.permits, node.queued))
    };
    assert_eq!((held(&pay), of()), ((2, 2, 1), [(1, 1, 1); 3]));
    outbound.exit();
    inside.exit();
    // Granted: the permits are on the resource's node, and nowhere else yet.
    assert_eq!((held(&pay), of()[0]), ((0, 2, 1), (0, 0, 1)));
    let Poll::Ready(Ok(entry)) = poll_once(waiter.as_mut()) else {
        panic!("its turn has come");
    };
    assert_eq!((held(&pay), of()), ((1, 2, 0), [(1, 2, 0); 3]));
    entry.exit();
    assert_eq!((held(&pay), of()), ((0, 0, 0), [(0, 0, 0); 3]));

    let inside = request().weight(2).entry().unwrap();
    let mut waiter = Box::pin(request().acquire());
    assert!(poll_once(waiter.as_mut()).is_pending());
    drop(waiter);
    inside.exit();
    assert_eq!((held(&pay), of()), ((0, 0, 0), [(0, 0, 0); 3]));
    assert_eq!(engine.origin_node("pay", "web").unwrap().total_cancelled, 1);
}

#[test]
fn an_engine_switched_off_guards_no_newcomers_and_lets_waiters_have_their_turn() {
    let (engine, _time) = isolation(PATIENT);
    let pay = engine.resource("pay");
    let inside = pay.request().weight(2).entry().unwrap();
    let mut waiter = asked(&pay, 1);
    engine.set_enabled(false);
    assert_eq!(pay.entry().unwrap().entered(), None);
    assert_eq!(held(&pay), (1, 2, 1));
    inside.exit();
    let Poll::Ready(Ok(entry)) = poll_once(waiter.as_mut()) else {
        panic!("its turn has come");
    };
    engine.set_enabled(true);
    assert_eq!(held(&pay), (1, 1, 0));
    entry.exit();
    assert_eq!(held(&pay), (0, 0, 0));
}

#[test]
fn resources_beyond_the_limit_on_resources_share_their_permits() {
    let (engine, _time) = built(Engine::builder().resources_max(1));
    let rules = r#"[{"resource": ".*", "regex": true, "count": 2, "maxQueueingTimeMs": 100}]"#;
    engine.load_json("isolation", rules).unwrap();
    engine.entry("first").unwrap().exit();
    let inside = [engine.entry("a").unwrap(), engine.entry("b").unwrap()];
    assert_eq!(engine.try_entry("c").unwrap_err().limit(), 2.0);
    let mut waiter = Box::pin(engine.acquire("d"));
    assert!(poll_once(waiter.as_mut()).is_pending());
    drop(inside);
    let Poll::Ready(Ok(entry)) = poll_once(waiter.as_mut()) else {
        panic!("two permits are free");
    };
    entry.exit();
    let node = engine.node("(other resources)").unwrap();
    assert_eq!((node.in_flight, node.permits, node.queued), (0, 0, 0));
}

#[test]
fn nested_calls_hold_permits_of_their_own() {
    let (engine, _time) = isolation(
        r#"[{"resource": "outer", "count": 1}, {"resource": "inner", "count": 2,
             "maxQueueingTimeMs": 50}]"#,
    );
    let [outer, inner] = ["outer", "inner"].map(|name| engine.resource(name));
    let result = outer.run(|| {
        assert!(outer.try_entry().is_err());
        let inside = [inner.entry().unwrap(), inner.entry().unwrap()];
        // Nobody can leave but the caller: the wait is bounded.
        let refused = inner.entry().unwrap_err();
        drop(inside);
        refused
    });
    assert_eq!(result.unwrap(), full("isolation/inner#1", 2.0, 2.0));
    assert_eq!((held(&outer), held(&inner)), ((0, 0, 0), (0, 0, 0)));
}

#[test]
fn a_panic_gives_the_permits_to_the_next_in_line() {
    let (engine, _time) = isolation(PATIENT);
    let pay = engine.resource("pay");
    let inside = pay.request().weight(2).entry().unwrap();
    let mut waiter = asked(&pay, 2);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _inside = inside;
        std::panic::resume_unwind(Box::new("the work failed"));
    }));
    assert!(panicked.is_err());
    let Poll::Ready(Ok(entry)) = poll_once(waiter.as_mut()) else {
        panic!("its turn has come");
    };
    entry.exit();
    assert_eq!((held(&pay), totals(&pay).exception), ((0, 0, 0), 2));
}

#[test]
fn an_observed_rule_takes_nothing_and_has_nobody_wait() {
    let (engine, _time) = isolation(
        r#"[{"resource": "pay", "count": 2, "maxQueueingTimeMs": 1000, "mode": "observe"},
            {"resource": "pay", "count": 4}]"#,
    );
    let pay = engine.resource("pay");
    let inside: Vec<_> = (0..4).map(|_| pay.entry().unwrap()).collect();
    assert_eq!(pay.entry().unwrap_err(), full("isolation/pay#2", 4.0, 4.0));
    assert_eq!(held(&pay), (4, 4, 0));
    let expected = HitCounts {
        passed: 2,
        would_block: 2,
        ..HitCounts::default()
    };
    assert_eq!(hits(&engine, 0), expected);
    drop(inside);
    assert_eq!(held(&pay), (0, 0, 0));
}

#[test]
fn a_wait_on_a_manual_clock_ends_when_that_says_so() {
    // On the thread, where nobody else may be there to move it.
    let (engine, time) = isolation(PATIENT);
    let pay = engine.resource("pay");
    let inside = pay.request().weight(2).entry().unwrap();
    assert_eq!(pay.entry().unwrap_err(), full("isolation/pay#1", 2.0, 2.0));
    assert_eq!(time.now(), START + ms(1_000));
    // In a task: whoever polls it looks at the clock.
    let mut waiter = asked(&pay, 1);
    at(&time, 1_999);
    assert!(poll_once(waiter.as_mut()).is_pending());
    at(&time, 2_000);
    assert!(matches!(poll_once(waiter.as_mut()), Poll::Ready(Err(_))));
    inside.exit();
    let expected = Totals {
        pass: 2,
        block: 2,
        success: 2,
        ..Totals::default()
    };
    assert_eq!((totals(&pay), held(&pay)), (expected, (0, 0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_manual_clock_in_a_runtime_is_moved_when_the_wait_is_over() {
    let (engine, time) = isolation(PATIENT);
    let pay = engine.resource("pay");
    let inside = pay.request().weight(2).entry().unwrap();
    assert!(pay.acquire().await.is_err());
    assert_eq!(time.now(), START + ms(1_000));
    inside.exit();
}

#[tokio::test]
async fn a_wait_on_the_thread_of_a_runtime_is_counted() {
    let engine = Engine::new();
    let rule = IsolationRule::at_once("pay", 1).wait_ms(1);
    engine.load_rules::<Isolation>(vec![rule]).unwrap();
    let inside = engine.entry("pay").unwrap();
    assert!(engine.entry("pay").is_err());
    assert_eq!(engine.stats().waits_in_runtime, 1);
    inside.exit();
}

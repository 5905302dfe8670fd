//! New rules under traffic: what lives on, what starts anew, and what becomes
//! of calls that the old rules let in.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

mod common;

use common::{Totals, at, document, flow, ms, passed, refusal, release_ms, totals};
use flowgate::{CircuitState, Engine, Measure, Outcome};

fn load(engine: &Engine, rules: &str) {
    engine.load_json("flow", rules).unwrap();
}

#[test]
fn the_line_of_an_equal_rule_lives_on_and_a_changed_rule_starts_a_new_one() {
    let paced = |wait: u32, extra: &str| {
        format!(
            r#"[{{"resource": "mail", "count": 10, "controlBehavior": 2,
                  "maxQueueingTimeMs": {wait}}}{extra}]"#
        )
    };
    let (engine, time) = flow(&paced(1_000, ""));
    let mail = engine.resource("mail");
    let next = || release_ms(mail.request(), &time);
    assert_eq!([next(), next()], [Some(0), Some(100)]);
    // Equal, in another place of another list, under another id.
    let other = r#"{"resource": "x", "count": 1}"#;
    load(
        &engine,
        &format!("[{other},{}", &paced(1_000, "")[1..]).replace(
            "\"resource\": \"mail\"",
            "\"id\": 7, \"resource\": \"mail\"",
        ),
    );
    assert_eq!(next(), Some(200));
    load(&engine, &paced(1_000, &format!(",{other}")));
    assert_eq!(next(), Some(300));
    // Changed in one field only.
    load(&engine, &paced(999, ""));
    assert_eq!([next(), next()], [Some(0), Some(100)]);
    // Changed back: anew once more, nothing is kept in reserve.
    load(&engine, &paced(1_000, ""));
    assert_eq!(next(), Some(0));
}

#[test]
fn the_temperature_of_an_equal_rule_lives_on_and_a_changed_rule_is_cold() {
    let warm = |period: u32| {
        format!(
            r#"[{{"resource": "orders", "count": 30, "controlBehavior": 1,
                  "warmUpPeriodSec": {period}}}]"#
        )
    };
    let (engine, time) = flow(&warm(3));
    let orders = engine.resource("orders");
    for second in 0..10 {
        at(&time, 1_000 * second);
        passed(&orders, 50);
    }
    at(&time, 10_000);
    assert_eq!(passed(&orders, 50), 30);
    load(&engine, &warm(3));
    at(&time, 11_000);
    assert_eq!(passed(&orders, 50), 30);
    load(&engine, &warm(4));
    // Not right after: it would be warmed by the passes of the second before.
    at(&time, 13_000);
    assert_eq!(passed(&orders, 50), 10);
}

#[test]
fn an_open_breaker_of_an_equal_rule_stays_open_and_a_changed_one_is_closed() {
    let breaker = |count: u32| {
        format!(
            r#"{{"degrade": [{{"resource": "pay", "grade": 2, "count": {count},
                 "timeWindow": 10, "minRequestAmount": 1}}]}}"#
        )
    };
    let (engine, _time) = document(&breaker(0));
    let pay = engine.resource("pay");
    pay.entry().unwrap().exit_with(Outcome::Error);
    assert_eq!(engine.breakers("pay"), [CircuitState::Open]);
    engine.load_document(breaker(0)).unwrap();
    assert_eq!(engine.breakers("pay"), [CircuitState::Open]);
    assert!(pay.entry().is_err());
    engine.load_document(breaker(1)).unwrap();
    assert_eq!(engine.breakers("pay"), [CircuitState::Closed]);
    assert!(pay.entry().is_ok());
}

#[test]
fn a_rule_that_is_raised_or_lowered_in_mid_window_sees_what_has_passed() {
    let (engine, _time) = flow(r#"[{"resource": "orders", "count": 10}]"#);
    let orders = engine.resource("orders");
    assert_eq!(passed(&orders, 6), 6);
    load(&engine, r#"[{"resource": "orders", "count": 5}]"#);
    assert_eq!(
        orders.entry().unwrap_err(),
        refusal(Measure::Rate, "flow/orders#1", 5.0, 6.0, Some(ms(1_000)))
    );
    load(&engine, r#"[{"resource": "orders", "count": 8}]"#);
    assert_eq!(passed(&orders, 6), 2);
    // A rule for a resource that had none.
    let stock = engine.resource("stock");
    assert_eq!(passed(&stock, 4), 4);
    load(&engine, r#"[{"resource": "stock", "count": 5}]"#);
    assert_eq!(passed(&stock, 4), 1);
}

#[test]
fn calls_in_flight_count_for_a_concurrency_rule_that_comes_later() {
    let (engine, _time) = flow("[]");
    let orders = engine.resource("orders");
    let guards = [orders.entry().unwrap(), orders.entry().unwrap()];
    load(
        &engine,
        r#"[{"resource": "orders", "count": 2, "grade": 0}]"#,
    );
    assert_eq!(
        orders.entry().unwrap_err(),
        refusal(Measure::Concurrency, "flow/orders#1", 2.0, 2.0, None)
    );
    let [first, second] = guards;
    first.exit();
    let third = orders.entry().unwrap();
    // The rule goes while its calls run.
    load(&engine, "[]");
    second.exit();
    third.exit();
    assert_eq!(orders.in_flight(), 0);
}

#[test]
fn the_behaviour_of_a_rule_is_switched_while_calls_run_and_wait() {
    let rule = |fields: &str| format!(r#"[{{"resource": "orders", "count": 10, {fields}}}]"#);
    let (engine, time) = flow(&rule(r#""controlBehavior": 2"#));
    let orders = engine.resource("orders");
    let mut line: Vec<_> = (0..4).map(|_| orders.reserve().unwrap()).collect();
    let behaviours = [
        r#""controlBehavior": 0"#,
        r#""controlBehavior": 1"#,
        r#""controlBehavior": 3"#,
        r#""grade": 0"#,
    ];
    let mut running = Vec::new();
    for behaviour in behaviours {
        load(&engine, &rule(behaviour));
        running.push(orders.entry().unwrap());
    }
    // Those that wait keep their places: one is given up, three begin.
    let waits: Vec<_> = line.iter().map(|pending| pending.wait()).collect();
    assert_eq!(waits, [ms(0), ms(100), ms(200), ms(300)]);
    drop(line.pop());
    time.advance(ms(200));
    running.extend(line.into_iter().map(|pending| pending.begin()));
    drop(running);
    let expected = Totals {
        pass: 7,
        success: 7,
        cancelled: 1,
        ..Totals::default()
    };
    assert_eq!(totals(&orders), expected);
}

#[test]
fn a_place_given_back_after_a_reload_goes_to_the_line_it_came_from() {
    let paced =
        |count: u32| format!(r#"[{{"resource": "mail", "count": {count}, "controlBehavior": 2}}]"#);
    let (engine, time) = flow(&paced(10));
    let mail = engine.resource("mail");
    let next = || release_ms(mail.request(), &time);
    assert_eq!(next(), Some(0));
    let queued = mail.reserve().unwrap();
    // The same line under a new generation: the place is free again.
    load(&engine, &paced(10));
    drop(queued);
    assert_eq!(next(), Some(100));
    let queued = mail.reserve().unwrap();
    load(&engine, &paced(5));
    assert_eq!([next(), next()], [Some(0), Some(200)]);
    drop(queued);
    // The new line does not know the old one's place at 200 ms.
    assert_eq!(next(), Some(400));
}

#[test]
fn a_faulty_document_leaves_rules_and_state_as_they_were() {
    let paced = r#"{"resource": "mail", "count": 10, "controlBehavior": 2}"#;
    let (engine, time) = flow(&format!("[{paced}]"));
    let mail = engine.resource("mail");
    assert_eq!(release_ms(mail.request(), &time), Some(0));
    let generation = engine.stats().generation;
    engine
        .load_json(
            "flow",
            format!(r#"[{paced}, {{"resource": "x", "count": -1}}]"#),
        )
        .unwrap_err();
    assert_eq!(engine.stats().generation, generation);
    assert_eq!(engine.flow_rules().len(), 1);
    assert_eq!(release_ms(mail.request(), &time), Some(100));
}

//! Rules that meet on one resource, and on what they look at together.

mod common;

use common::{at, flow, passed};

#[test]
fn a_rule_that_relates_to_its_own_resource_does_not_count_the_asking_call_twice() {
    let (engine, _) = flow(
        r#"[{"resource": "r", "count": 10},
            {"resource": "r", "count": 3, "strategy": 1, "refResource": "r"}]"#,
    );
    let r = engine.resource("r");
    assert_eq!(passed(&r, 5), 3);
    let block = r.try_entry().unwrap_err();
    assert_eq!((block.limit(), block.observed()), (3.0, 3.0));
    assert_eq!(block.rule().as_str(), "flow/r#2");
}

#[test]
fn a_concurrency_rule_that_relates_to_its_own_resource_does_not_count_the_asking_call_twice() {
    let (engine, _) = flow(
        r#"[{"resource": "r", "grade": 0, "count": 10},
            {"resource": "r", "grade": 0, "count": 2, "strategy": 1, "refResource": "r"}]"#,
    );
    let r = engine.resource("r");
    let entries: Vec<_> = (0..5).filter_map(|_| r.try_entry().ok()).collect();
    assert_eq!(entries.len(), 2);
    assert_eq!(r.try_entry().unwrap_err().observed(), 2.0);
}

#[test]
fn a_call_that_could_borrow_from_one_rule_is_refused_by_the_one_that_does_not_lend() {
    let (engine, time) = flow(
        r#"[{"resource": "r", "count": 4},
            {"resource": "r", "count": 3},
            {"resource": "r", "count": 2}]"#,
    );
    let r = engine.resource("r");
    assert_eq!(passed(&r, 1), 1);
    // The next window has room for 4, 3 and 2, this one for 3, 2 and 1.
    at(&time, 600);
    let refusing = |weight| {
        let request = r.request().prioritized().weight(weight);
        let block = request.reserve().err().unwrap();
        (block.rule().as_str().to_owned(), block.retry_after())
    };
    assert_eq!(refusing(5).0, "flow/r#1");
    assert_eq!(refusing(4), ("flow/r#2".to_owned(), None));
    assert_eq!(refusing(3), ("flow/r#3".to_owned(), None));
    // Who waits waits for the first rule that has no room.
    let block = r.request().prioritized().weight(2).try_entry().unwrap_err();
    assert_eq!(block.rule().as_str(), "flow/r#3");
    assert_eq!((block.limit(), block.observed()), (2.0, 1.0));
    assert!(r.request().prioritized().weight(2).reserve().is_ok());
}

#[test]
fn a_warm_up_rule_counts_what_was_borrowed_before_it_leaves_a_refusal_to_a_later_rule() {
    // Cold, the first allows 9.3 per second.
    let (engine, time) = flow(
        r#"[{"resource": "r", "count": 28, "controlBehavior": 1},
            {"resource": "r", "count": 8}]"#,
    );
    let r = engine.resource("r");
    assert_eq!(passed(&r, 3), 3);
    at(&time, 600);
    assert_eq!(passed(&r, 4), 4);
    let loan = || r.request().prioritized().weight(2).reserve().unwrap();
    let _loans = [loan(), loan()];
    // 7 and 2 fit now; the 4 of this window, the 4 on loan and 2 do not.
    let block = r.request().weight(2).try_entry().unwrap_err();
    assert_eq!(block.rule().as_str(), "flow/r#1");
    assert_eq!(block.observed(), 8.0);
}

#[test]
fn rules_hold_on_handles_that_outlive_their_engine() {
    let (engine, _) =
        flow(r#"[{"resource": "write", "count": 2, "strategy": 1, "refResource": "read"}]"#);
    let (read, write) = (engine.resource("read"), engine.resource("write"));
    drop(engine);
    assert_eq!(passed(&read, 2), 2);
    assert_eq!(passed(&write, 1), 0);
}

#[test]
fn what_a_call_has_borrowed_is_not_counted_against_it_by_a_later_rule() {
    for later in [
        r#"{"resource": "r", "count": 6, "strategy": 1, "refResource": "r"}"#,
        // Cold, it allows 6.3 per second.
        r#"{"resource": "r", "count": 19, "controlBehavior": 1}"#,
    ] {
        let (engine, time) = flow(&format!(r#"[{{"resource": "r", "count": 5}}, {later}]"#));
        let r = engine.resource("r");
        assert_eq!(passed(&r, 1), 1);
        at(&time, 600);
        assert_eq!(passed(&r, 3), 3);
        // 4 and 2 are 6; in the next window 3 and 2 are 5.
        let pending = r.request().prioritized().weight(2).reserve();
        assert!(pending.is_ok(), "{:?}", pending.err());
    }
}

#[test]
fn a_warm_up_rule_counts_what_was_borrowed_before_it_came() {
    let (engine, time) = flow(r#"[{"resource": "r", "count": 8}]"#);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 6), 6);
    at(&time, 600);
    let loan = |weight| r.request().prioritized().weight(weight).reserve().unwrap();
    let _loans = [loan(3), loan(4)];
    // Cold, it allows 7.3 per second: the 7 on loan fill the next window.
    engine
        .load_json(
            "flow",
            r#"[{"resource": "r", "count": 8},
                {"resource": "r", "count": 22, "controlBehavior": 1}]"#,
        )
        .unwrap();
    let block = r.try_entry().unwrap_err();
    assert_eq!(block.rule().as_str(), "flow/r#2");
}

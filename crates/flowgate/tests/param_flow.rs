//! Hot parameters on whole calls.

mod common;

use common::{document, ms};
use flowgate::{Accounting, Arg, BlockKind, Engine, HitCounts, Measure, ParamFlow, Resource};

fn rules(list: &str) -> (Engine, flowgate::ManualClock) {
    document(&format!(r#"{{"paramFlow": {list}}}"#))
}

fn passes(orders: &Resource, args: &[Arg<'_>]) -> bool {
    match orders.request().args(args).try_entry() {
        Ok(entry) => {
            entry.exit();
            true
        }
        Err(block) => {
            assert_eq!(block.kind(), BlockKind::ParamFlow, "{block}");
            false
        }
    }
}

// https://github.com/alibaba/Sentinel/pull/642
#[test]
fn b063_a_negative_index_is_counted_from_the_end_of_each_call() {
    let (engine, _) = rules(r#"[{"resource": "a", "paramIdx": -1, "count": 1}]"#);
    let a = engine.resource("a");
    let text = |text| Arg::Str(text);
    assert!(passes(&a, &[]));
    assert!(passes(&a, &[text("a")]));
    assert!(passes(&a, &[text("a"), text("b")]));
    assert!(!passes(&a, &[text("a"), text("b")]));
    assert!(!passes(&a, &[text("x"), text("y"), text("b")]));
    assert!(passes(&a, &[Arg::Null]));
    let table = engine.table::<ParamFlow>();
    assert_eq!(table.entries()[0].rule().param, flowgate::Param::Index(-1));
    let (engine, _) = rules(r#"[{"resource": "a", "paramIdx": -5, "count": 0}]"#);
    assert!(passes(&engine.resource("a"), &[text("a"), text("b")]));
}

#[test]
fn an_attachment_is_found_by_its_name() {
    let (engine, _) = rules(r#"[{"resource": "a", "paramKey": "user", "count": 1}]"#);
    let a = engine.resource("a");
    let passes = |attachments: &[(&str, Arg<'_>)]| {
        let entry = a
            .request()
            .args(&[Arg::from(1)])
            .attachments(attachments)
            .entry();
        entry.is_ok()
    };
    assert!(passes(&[]) && passes(&[]));
    assert!(passes(&[
        ("tenant", Arg::from(7)),
        ("user", Arg::from("alice"))
    ]));
    assert!(!passes(&[("user", Arg::from("alice"))]));
    assert!(passes(&[("user", Arg::from("bob"))]));
    assert!(passes(&[("user", Arg::Null)]));
}

#[test]
fn a_value_of_ones_own_is_counted_by_its_hash() {
    #[derive(Hash)]
    struct User {
        tenant: u32,
        name: &'static str,
    }
    let (engine, _) = rules(r#"[{"resource": "a", "paramIdx": 0, "count": 1}]"#);
    let a = engine.resource("a");
    let user = |tenant, name| [Arg::hashed(&User { tenant, name })];
    assert!(passes(&a, &user(1, "x")));
    assert!(!passes(&a, &user(1, "x")));
    assert!(passes(&a, &user(2, "x")));
    assert!(passes(&a, &user(1, "y")));
}

#[test]
fn a_token_comes_back_when_a_later_rule_refuses() {
    let (engine, time) = rules(
        r#"[{"resource": "a", "paramIdx": 0, "count": 10, "durationInSec": 60},
            {"resource": "a", "paramIdx": 1, "count": 2, "durationInSec": 60}]"#,
    );
    let a = engine.resource("a");
    let args = |n: i32| [Arg::from("x"), Arg::from(n)];
    assert_eq!((0..5).filter(|_| passes(&a, &args(0))).count(), 2);
    // Eight of the ten are left.
    assert_eq!((1..20).filter(|n| passes(&a, &args(*n))).count(), 8);
    time.advance(ms(60_001));
    assert_eq!((1..20).filter(|n| passes(&a, &args(*n))).count(), 10);
}

#[test]
fn a_place_in_the_line_of_a_value_comes_back_when_its_caller_gives_up() {
    let (engine, _) = rules(
        r#"[{"resource": "a", "paramIdx": 0, "count": 2, "controlBehavior": 2, "maxQueueingTimeMs": 1000}]"#,
    );
    let a = engine.resource("a");
    let key = [Arg::from("key")];
    let wait = || {
        let pending = a.request().args(&key).reserve();
        pending.map(|pending| (pending.wait(), pending))
    };
    let (first, pending) = wait().expect("it is the first");
    assert_eq!(first, ms(0));
    pending.begin().exit();
    let (second, pending) = wait().expect("there is room");
    assert_eq!(second, ms(500));
    pending.cancel();
    let (again, pending) = wait().expect("there is room again");
    assert_eq!(again, ms(500));
    // Nobody who must not wait takes a place.
    let block = a.request().args(&key).try_entry();
    let block = block.expect_err("it would have to wait");
    assert_eq!(block.measure(), Measure::WaitMs);
    assert_eq!(block.retry_after(), Some(ms(1_000)));
    drop(pending);
    assert_eq!(wait().expect("both gave theirs back").0, ms(500));
}

#[test]
fn a_call_that_does_not_wait_may_come_again_when_the_line_of_its_value_is_free() {
    let (engine, time) = rules(
        r#"[{"resource": "a", "paramIdx": 0, "count": 1, "controlBehavior": 2,
             "maxQueueingTimeMs": 500}]"#,
    );
    let a = engine.resource("a");
    let one = [Arg::from(1)];
    let ask = || a.request().args(&one);
    assert!(passes(&a, &one));
    let refused = |after: u64| {
        let block = ask().try_entry().unwrap_err();
        assert_eq!(block.retry_after(), Some(ms(after)));
    };
    // Further away than the longest wait, and nearer.
    refused(1_000);
    time.advance(ms(700));
    refused(300);
    time.advance(ms(300));
    assert!(passes(&a, &one));
    // Who waits may come as soon as the wait is short enough.
    let block = ask().reserve().map(drop).unwrap_err();
    assert_eq!(block.retry_after(), Some(ms(500)));
}

#[test]
fn an_observed_rule_counts_what_it_would_refuse() {
    let (engine, _) = rules(r#"[{"resource": "a", "paramIdx": 0, "count": 2, "mode": "observe"}]"#);
    let a = engine.resource("a");
    assert!((0..5).all(|_| passes(&a, &[Arg::from(1)])));
    assert!(passes(&a, &[]));
    let table = engine.table::<ParamFlow>();
    let counts = table.entries()[0].hits().counts();
    let expected = HitCounts {
        passed: 2,
        would_block: 3,
        ..HitCounts::default()
    };
    assert_eq!(counts, expected);
}

#[test]
fn an_observed_queue_would_refuse_a_call_that_does_not_wait() {
    let (engine, _) = rules(
        r#"[{"resource": "a", "paramIdx": 0, "count": 1, "controlBehavior": 2,
             "maxQueueingTimeMs": 5000, "mode": "observe"}]"#,
    );
    let a = engine.resource("a");
    let one = [Arg::from(1)];
    let hits = || engine.table::<ParamFlow>().entries()[0].hits().counts();
    assert!((0..3).all(|_| passes(&a, &one)));
    let mut expected = HitCounts {
        passed: 1,
        would_block: 2,
        ..HitCounts::default()
    };
    assert_eq!(hits(), expected);
    // They have left no place in the line: one that waits is the next in it.
    for _ in 0..2 {
        a.request().args(&one).entry().unwrap().exit();
    }
    expected.passed = 3;
    expected.waited = 2;
    assert_eq!(hits(), expected);
    for _ in 0..4 {
        a.request().args(&one).reserve().unwrap().begin().exit();
    }
    // Five seconds are the longest wait, and six have been asked for.
    assert_eq!((hits().passed, hits().would_block), (6, 3));
}

#[test]
fn the_hottest_values_of_a_resource_can_be_read() {
    let (engine, _) = rules(r#"[{"resource": "a", "paramIdx": 0, "count": 2}]"#);
    let a = engine.resource("a");
    for user in ["x", "y", "x", "x", "z", "y", "x"] {
        passes(&a, &[Arg::from(user)]);
    }
    let table = engine.table::<ParamFlow>();
    let state = table.entries()[0].state_of("a").expect("it was called");
    let top = state.top(2).into_iter();
    let top: Vec<_> = top
        .map(|hot| (hot.value.to_string(), hot.passed, hot.refused))
        .collect();
    assert_eq!(top, [("x".to_owned(), 2, 2), ("y".to_owned(), 2, 0)]);
}

#[test]
fn a_refusal_reads_as_a_sentence() {
    let (engine, _) = rules(r#"[{"resource": "a", "id": "per-user", "paramIdx": 0, "count": 1}]"#);
    let a = engine.resource("a");
    assert!(passes(&a, &[Arg::from(1)]));
    let block = a.request().args(&[Arg::from(1)]).try_entry();
    assert_eq!(
        block.expect_err("its token is taken").to_string(),
        "refused by paramFlow rule per-user: 1 of 1 calls per second, retry after 1001 ms"
    );
}

#[test]
fn a_bucket_of_a_value_fills_evenly_and_says_so() {
    let (engine, time) = rules(
        r#"[{"resource": "a", "paramIdx": 0, "count": 2, "burstCount": 1, "accounting": "tokenBucket"}]"#,
    );
    let a = engine.resource("a");
    let alice = [Arg::from("alice")];
    assert!((0..3).all(|_| passes(&a, &alice)));
    let refused = a.request().args(&alice).try_entry().err().unwrap();
    assert_eq!(refused.measure(), Measure::Tokens);
    assert_eq!(refused.accounting(), Some(Accounting::TokenBucket));
    assert_eq!((refused.limit(), refused.observed()), (3.0, 3.0));
    assert_eq!(refused.retry_after(), Some(ms(500)));
    assert!(passes(&a, &[Arg::from("bob")]));
    time.advance(ms(499));
    assert!(!passes(&a, &alice));
    time.advance(ms(1));
    assert!(passes(&a, &alice));
    assert!(!passes(&a, &alice));
}

#[test]
fn a_call_that_another_rule_refuses_gives_a_value_its_token_back() {
    let (engine, time) = document(
        r#"{"paramFlow": [{"resource": "a", "paramIdx": 0, "count": 2, "accounting": "tokenBucket"}],
            "flow": [{"resource": "a", "count": 1}]}"#,
    );
    let a = engine.resource("a");
    let alice = [Arg::from("alice")];
    assert!(passes(&a, &alice));
    for _ in 0..9 {
        let refused = a.request().args(&alice).try_entry().err().unwrap();
        assert_eq!(refused.kind(), BlockKind::Flow);
    }
    time.advance(ms(1_000));
    assert!(passes(&a, &alice));
    let refused = a.request().args(&alice).try_entry().err().unwrap();
    assert_eq!(refused.kind(), BlockKind::Flow, "one of two is left");
}

//! Observed flow rules, and the counters of all.

mod common;

use common::{at, counts, flow, hits, ms, passed, release_ms, totals};

#[test]
fn the_rule_that_refuses_counts_it_and_those_that_applied_count_who_passed() {
    let (engine, _time) = flow(
        r#"[{"resource": "r", "count": 5},
            {"resource": "r", "count": 3},
            {"resource": "r", "count": 9, "limitApp": "web"},
            {"resource": "r", "count": 100, "grade": 0},
            {"resource": "r", "count": 0, "mode": "off"}]"#,
    );
    let r = engine.resource("r");
    assert_eq!(passed(&r, 7), 3);
    assert!(r.request().origin("web").try_entry().is_err());
    let expected = [
        counts(3, 0, 0, 0),
        counts(3, 5, 0, 0),
        counts(0, 0, 0, 0),
        counts(3, 0, 0, 0),
        counts(0, 0, 0, 0),
    ];
    assert_eq!(hits(&engine), expected);
}

#[test]
fn the_rule_whose_wait_a_call_gets_counts_it() {
    let (engine, time) = flow(
        r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 200},
            {"resource": "r", "count": 20, "controlBehavior": 2, "maxQueueingTimeMs": 200}]"#,
    );
    let r = engine.resource("r");
    let releases: Vec<_> = (0..4).map(|_| release_ms(r.request(), &time)).collect();
    assert_eq!(releases, [Some(0), Some(100), Some(200), None]);
    // One that does not wait is refused by the rule it would wait for.
    at(&time, 150);
    assert!(r.try_entry().is_err());
    assert_eq!(hits(&engine), [counts(3, 2, 0, 2), counts(3, 0, 0, 0)]);
}

#[test]
fn an_observed_rate_counts_what_it_would_refuse_and_refuses_nobody() {
    for interval in ["", r#", "statIntervalMs": 60000"#] {
        let (engine, time) = flow(&format!(
            r#"[{{"resource": "r", "count": 5, "mode": "observe" {interval}}}]"#
        ));
        let r = engine.resource("r");
        assert_eq!(passed(&r, 8), 8);
        let mut expected = counts(5, 0, 3, 0);
        assert_eq!(hits(&engine), [expected], "{interval}");
        // It goes by the calls really admitted: all of them are in its window.
        at(&time, 999);
        assert!(r.try_entry().is_ok());
        expected.would_block += 1;
        assert_eq!(hits(&engine), [expected]);
        at(&time, 60_000 + 7_000);
        assert_eq!(passed(&r, 6), 6);
        let again = counts(expected.passed + 5, 0, expected.would_block + 1, 0);
        assert_eq!(hits(&engine), [again]);
    }
}

#[test]
fn an_observed_rule_decides_as_the_same_rule_enforced_as_long_as_that_refuses_nobody() {
    let rules = |mode: &str| {
        format!(
            r#"[{{"resource": "r", "count": 600, "statIntervalMs": 60000, "mode": "{mode}"}},
                {{"resource": "r", "count": 50, "controlBehavior": 1, "mode": "{mode}"}},
                {{"resource": "r", "count": 40, "controlBehavior": 2, "mode": "{mode}"}},
                {{"resource": "r", "count": 9, "grade": 0, "mode": "{mode}"}},
                {{"resource": "r", "count": 30, "strategy": 1, "refResource": "r",
                  "mode": "{mode}"}}]"#
        )
    };
    let run = |mode: &str| {
        let (engine, time) = flow(&rules(mode));
        let r = engine.resource("r");
        for step in 0..100 {
            at(&time, step * 170);
            let guards: Vec<_> = (0..2).filter_map(|_| r.reserve().ok()).collect();
            assert_eq!(guards.len(), 2);
            guards
                .into_iter()
                .for_each(|pending| pending.begin().exit());
        }
        hits(&engine)
    };
    let (enforced, observed) = (run("enforce"), run("observe"));
    assert_eq!(enforced, observed);
    assert!(enforced[2].waited > 0);
}

#[test]
fn observed_rules_take_nothing_from_enforced_ones() {
    let (engine, time) = flow(
        r#"[{"resource": "r", "count": 5},
            {"resource": "r", "count": 2, "mode": "observe"},
            {"resource": "r", "count": 3, "limitApp": "web", "mode": "observe"},
            {"resource": "r", "count": 4, "limitApp": "other"},
            {"resource": "r", "count": 1, "grade": 0, "mode": "observe"},
            {"resource": "r", "count": 1, "controlBehavior": 2, "mode": "observe"},
            {"resource": "r", "count": 1, "statIntervalMs": 60000, "mode": "observe"}]"#,
    );
    let r = engine.resource("r");
    let web = || r.request().origin("web").try_entry();
    // A name that only an observed rule gives is an `other` one all the same.
    let guards: Vec<_> = (0..9).filter_map(|_| web().ok()).collect();
    assert_eq!(guards.len(), 4);
    assert_eq!((totals(&r).pass, r.in_flight()), (4, 4));
    assert_eq!(passed(&r, 5), 1);
    drop(guards);
    let would_block: Vec<_> = hits(&engine).iter().map(|hits| hits.would_block).collect();
    assert_eq!(would_block, [0, 3, 1, 0, 4, 4, 4]);
    at(&time, 1_000);
    assert_eq!(passed(&r, 9), 5);
}

#[test]
fn an_observed_line_moves_and_its_places_come_back_with_cancelled_calls() {
    let (engine, time) = flow(
        r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 300,
             "mode": "observe"}]"#,
    );
    let r = engine.resource("r");
    let pending: Vec<_> = (0..5).map(|_| r.reserve().unwrap()).collect();
    assert!(pending.iter().all(|pending| pending.wait() == ms(0)));
    assert_eq!(hits(&engine), [counts(4, 0, 1, 3)]);
    // Each is then the last in line.
    pending.into_iter().rev().for_each(drop);
    at(&time, 10);
    let pending: Vec<_> = (0..4).map(|_| r.reserve().unwrap()).collect();
    // At 10, 110, 210, 310 ms again.
    assert_eq!(hits(&engine), [counts(8, 0, 1, 6)]);
    pending
        .into_iter()
        .for_each(|pending| pending.begin().exit());
    // One that would not have waited would have been refused.
    assert_eq!(passed(&r, 1), 1);
    assert_eq!(hits(&engine), [counts(8, 0, 2, 6)]);
    at(&time, 410);
    assert_eq!(passed(&r, 1), 1);
    assert_eq!(hits(&engine), [counts(9, 0, 2, 6)]);
}

#[test]
fn an_observed_rule_leaves_a_cancelled_wait_of_an_enforced_one_as_if_it_had_not_been() {
    let (engine, time) = flow(
        r#"[{"resource": "r", "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 5000},
            {"resource": "r", "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 5000,
             "mode": "observe"}]"#,
    );
    let r = engine.resource("r");
    for _ in 0..3 {
        let pending: Vec<_> = (0..4).map(|_| r.reserve().unwrap()).collect();
        assert_eq!(pending[3].wait(), ms(3_000));
        // Each is then the last in line.
        pending.into_iter().rev().for_each(drop);
    }
    let expected = [counts(12, 0, 0, 9), counts(12, 0, 0, 9)];
    assert_eq!(hits(&engine), expected);
    at(&time, 1);
    assert_eq!(release_ms(r.request(), &time), Some(1));
}

#[test]
fn a_rule_that_is_no_longer_observed_starts_anew_on_the_counts_that_are_there() {
    let rule = |mode: &str| {
        format!(r#"[{{"resource": "r", "count": 5, "statIntervalMs": 60000, "mode": "{mode}"}}]"#)
    };
    let (engine, _time) = flow(&rule("observe"));
    let r = engine.resource("r");
    assert_eq!(passed(&r, 3), 3);
    engine.load_json("flow", rule("enforce")).unwrap();
    assert_eq!(passed(&r, 9), 2);
    assert_eq!(hits(&engine), [counts(2, 7, 0, 0)]);
}

#[test]
fn a_prioritized_call_that_would_borrow_would_wait() {
    let (engine, time) = flow(r#"[{"resource": "r", "count": 2, "mode": "observe"}]"#);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 2), 2);
    at(&time, 900);
    r.request().prioritized().entry().unwrap().exit();
    assert_eq!(hits(&engine), [counts(3, 0, 0, 1)]);
}

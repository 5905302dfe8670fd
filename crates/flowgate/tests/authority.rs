//! Lists of callers, through the engine.

mod common;

use flowgate::{Authority, AuthorityRule, BlockKind, Engine, Measure, Resource};

use common::document;

fn lets_in(resource: &Resource, origin: &str) -> bool {
    resource.request().origin(origin).entry().is_ok()
}

#[test]
fn a_caller_that_is_not_let_in_is_told_by_which_rule() {
    let (engine, _) = document(
        r#"{"authority": [
            {"resource": "a", "limitApp": " web , batch"},
            {"id": "no-crawlers", "resource": "a", "limitApp": "batch", "strategy": 1}
        ]}"#,
    );
    let a = engine.resource("a");
    let refused = |origin: &str| a.request().origin(origin).entry().unwrap_err();
    for (origin, rule) in [
        ("mobile", "authority/a#1"),
        ("batch", "no-crawlers"),
        ("web,batch", "authority/a#1"),
    ] {
        let block = refused(origin);
        assert_eq!(block.kind(), BlockKind::Authority, "{origin}");
        assert_eq!(block.measure(), Measure::Origin, "{origin}");
        assert_eq!(block.rule().as_str(), rule, "{origin}");
        assert_eq!(block.retry_after(), None, "{origin}");
    }
    assert_eq!(
        refused("mobile").to_string(),
        "refused by authority rule authority/a#1: its caller is not let in"
    );
    assert!(lets_in(&a, "web") && lets_in(&a, ""));
    assert!(lets_in(&engine.resource("b"), "mobile"));
}

#[test]
fn a_list_before_a_flow_rule_uses_none_of_its_passes() {
    let (engine, _) = document(
        r#"{"authority": [{"resource": "a", "limitApp": "bad", "strategy": "black"}],
            "flow": [{"resource": "a", "count": 2}]}"#,
    );
    let a = engine.resource("a");
    for _ in 0..5 {
        assert!(!lets_in(&a, "bad"));
    }
    assert_eq!((0..5).filter(|_| lets_in(&a, "good")).count(), 2);
}

#[test]
fn an_observed_list_refuses_nobody_and_counts_whom_it_would() {
    let (engine, _) = document(
        r#"{"authority": [{"resource": "/api/**", "match": "glob", "limitApp": "web", "mode": "observe"}]}"#,
    );
    let a = engine.resource("/api/orders/7");
    assert!(lets_in(&a, "web") && lets_in(&a, "mobile") && lets_in(&a, ""));
    let hits = engine.table::<Authority>().entries()[0].hits().counts();
    assert_eq!((hits.passed, hits.would_block, hits.blocked), (2, 1, 0));
}

#[test]
fn lists_built_in_code_are_checked_as_those_of_a_document() {
    let engine = Engine::new();
    let nobody: [&str; 0] = [];
    let error = engine
        .load_rules::<Authority>(vec![
            AuthorityRule::white("a", nobody),
            AuthorityRule::black("a", [" , "]),
        ])
        .unwrap_err();
    let advice = "names nobody; give names of callers, for example \"web, batch\"";
    assert_eq!(
        error.to_string(),
        format!("authority[0].limitApp: {advice}\nauthority[1].limitApp: {advice}")
    );
}

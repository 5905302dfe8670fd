//! Which resources a rule is for: a name, a prefix, a glob, a regular
//! expression, or all that no other rule names; for every kind alike.

mod common;

use flowgate::{Engine, FlowRule, Matching, Outcome, RuleMode};

use common::built;

fn passes(engine: &Engine, resource: &str, calls: u32) -> usize {
    (0..calls)
        .filter(|_| engine.try_entry(resource).is_ok())
        .count()
}

#[test]
fn each_resource_that_a_pattern_matches_is_limited_by_itself() {
    for (pattern, matching, inside, outside) in [
        ("/orders/", "prefix", ["/orders/1", "/orders/2"], "/orders"),
        ("/*/items", "glob", ["/a/items", "/b/items"], "/a/b/items"),
        ("/**/items", "glob", ["/a/items", "/a/b/items"], "/items"),
        ("job-[ab]", "regex", ["job-a", "job-b"], "job-c"),
    ] {
        let engine = built(Engine::builder()).0;
        let rules = format!(r#"[{{"resource": "{pattern}", "match": "{matching}", "count": 2}}]"#);
        engine.load_json("flow", rules).unwrap();
        for name in inside {
            assert_eq!(passes(&engine, name, 5), 2, "{pattern} {name}");
        }
        assert_eq!(passes(&engine, outside, 5), 5, "{pattern} {outside}");
    }
}

#[test]
fn a_default_rule_is_for_resources_that_no_other_rule_of_its_kind_names() {
    let engine = built(Engine::builder()).0;
    engine
        .load_flow(vec![
            FlowRule::qps("*", 1.0),
            FlowRule::qps("orders", 3.0),
            FlowRule::qps("pay/", 2.0).matching(Matching::Prefix),
            FlowRule::qps("health", 0.0).mode(RuleMode::Off),
        ])
        .unwrap();
    assert_eq!(passes(&engine, "orders", 5), 3);
    assert_eq!(passes(&engine, "pay/card", 5), 2);
    assert_eq!(passes(&engine, "search", 5), 1);
    assert_eq!(passes(&engine, "mail", 5), 1, "each by itself");
    assert_eq!(
        passes(&engine, "health", 5),
        5,
        "named by a rule that is off"
    );
}

#[test]
fn the_default_breaker_is_for_resources_without_their_own() {
    let engine = built(Engine::builder()).0;
    engine
        .load_json(
            "degrade",
            r#"[{"resource": "*", "grade": 2, "count": 0, "timeWindow": 5, "minRequestAmount": 1},
                {"resource": "pay", "grade": 2, "count": 9, "timeWindow": 5, "minRequestAmount": 1}]"#,
        )
        .unwrap();
    for name in ["pay", "mail", "search"] {
        engine.entry(name).unwrap().exit_with(Outcome::Error);
    }
    assert!(engine.try_entry("pay").is_ok());
    assert!(engine.try_entry("mail").is_err());
    assert!(engine.try_entry("search").is_err());
    assert!(engine.try_entry("new").is_ok());
}

#[test]
fn what_a_pattern_remembers_of_each_resource_lives_through_a_reload() {
    let engine = built(Engine::builder()).0;
    let queue = r#"{"resource": "/m/", "match": "prefix", "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 0}"#;
    engine.load_json("flow", format!("[{queue}]")).unwrap();
    assert_eq!(passes(&engine, "/m/a", 3), 1);
    let more = format!(r#"[{{"resource": "x", "count": 1}}, {queue}]"#);
    engine.load_json("flow", more).unwrap();
    assert_eq!(passes(&engine, "/m/a", 3), 0, "its line is as it was");
    assert_eq!(passes(&engine, "/m/b", 3), 1);
}

#[test]
fn a_rule_that_is_off_does_nothing_and_is_listed() {
    let engine = built(Engine::builder()).0;
    let report = engine
        .load_json(
            "flow",
            r#"[{"resource": "a", "count": 0, "mode": "off"},
                {"resource": "b", "count": 0, "enabled": false},
                {"resource": "c", "count": 0, "enabled": true}]"#,
        )
        .unwrap();
    assert_eq!(report.kinds[0].active, 3);
    assert_eq!(passes(&engine, "a", 3), 3);
    assert_eq!(passes(&engine, "b", 3), 3);
    assert_eq!(passes(&engine, "c", 3), 0);
    let modes: Vec<&str> = engine.rules().iter().map(|rule| rule.mode).collect();
    assert_eq!(modes, ["off", "off", "enforce"]);
}

#[test]
fn patterns_that_cannot_be_are_refused_when_they_are_loaded() {
    let engine = Engine::new();
    let told = |rule: &str| {
        let refused = engine.load_json("flow", format!("[{rule}]"));
        refused.unwrap_err().to_string()
    };
    assert_eq!(
        told(r#"{"resource": "(", "regex": true, "count": 1}"#),
        "flow[0].resource: ( is no regular expression (unclosed group); correct it, or leave out \
         regex to take it as a plain name (line 1, column 15)"
    );
    assert_eq!(
        told(r#"{"resource": "*", "regex": true, "count": 1}"#),
        "flow[0].resource: * is no regular expression (repetition operator missing expression); \
         leave out regex to take it as the default rule (line 1, column 15)"
    );
    assert_eq!(
        told(r#"{"resource": "a", "regex": true, "match": "glob", "count": 1}"#),
        "flow[0].match: regex is true and match says otherwise; keep one of them (line 1, column 44)"
    );
    assert_eq!(
        told(r#"{"resource": "a", "match": "suffix", "count": 1}"#),
        "flow[0].match: \"suffix\" is not known; write 0 (exact), 1 (prefix), 2 (glob) or 3 (regex) \
         (line 1, column 29)"
    );
    let bomb = format!(
        r#"{{"resource": "{}", "match": "glob", "count": 1}}"#,
        "*".repeat(200_000)
    );
    assert!(told(&bomb).contains("a glob too large"));
}

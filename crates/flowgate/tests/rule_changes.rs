//! Changing some rules of a kind: of one resource, one more, one less.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use flowgate::Engine;

use common::built;

fn ids(engine: &Engine) -> Vec<String> {
    engine.rules().into_iter().map(|rule| rule.id).collect()
}

fn engine() -> Engine {
    let engine = built(Engine::builder()).0;
    engine
        .load_json(
            "flow",
            r#"[{"resource": "a", "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 0},
                {"resource": "b", "count": 2},
                {"resource": "a", "count": 3}]"#,
        )
        .unwrap();
    engine
}

#[test]
fn the_rules_of_one_resource_are_replaced_and_the_others_stay() {
    let engine = engine();
    let report = engine
        .load_json_of(
            "flow",
            "b",
            r#"[{"resource": "b", "count": 7}, {"resource": "b", "count": 8}]"#,
        )
        .unwrap();
    assert_eq!(
        report.to_string(),
        "flow: 4 in force, 1 added, 1 changed, 2 kept, 0 removed"
    );
    assert_eq!(
        ids(&engine),
        ["flow/a#1", "flow/b#1", "flow/b#2", "flow/a#2"]
    );

    engine.load_json_of("flow", "a", "[]").unwrap();
    assert_eq!(ids(&engine), ["flow/b#1", "flow/b#2"]);
    engine
        .load_json_of("flow", "c", r#"[{"resource": "c", "count": 1}]"#)
        .unwrap();
    assert_eq!(ids(&engine), ["flow/b#1", "flow/b#2", "flow/c#1"]);
}

#[test]
fn a_list_for_one_resource_may_not_have_rules_for_another() {
    let engine = engine();
    let refused = engine.load_json_of("flow", "b", r#"[{"resource": "a", "count": 7}]"#);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "flow[0].resource: this list is for b; put rules for others into a list of their own \
         (line 1, column 15)"
    );
    assert_eq!(ids(&engine).len(), 3);
}

#[test]
fn a_rule_is_added_behind_the_others_whose_state_lives_on() {
    let engine = engine();
    assert!(engine.try_entry("a").is_ok());
    engine
        .append_json("flow", r#"[{"resource": "c", "count": 0, "id": "mine"}]"#)
        .unwrap();
    assert!(engine.try_entry("a").is_err(), "its line is as it was");
    assert!(engine.try_entry("c").is_err());

    let twice = engine.append_json("flow", r#"[{"resource": "d", "count": 0, "id": "mine"}]"#);
    assert!(twice.unwrap_err().to_string().contains("mine is the id of"));
    assert!(engine.try_entry("d").is_ok());
    let same = engine.append_json("flow", r#"[{"resource": "b", "count": 2}]"#);
    assert_eq!(same.unwrap().duplicates.len(), 1);
    assert_eq!(ids(&engine), ["flow/a#1", "flow/b#1", "flow/a#2", "mine"]);
}

#[test]
fn a_rule_is_removed_by_its_id() {
    let engine = engine();
    let report = engine.remove_rule("flow", "flow/b#1").unwrap();
    assert_eq!(report.kinds[0].removed.len(), 1);
    assert_eq!(ids(&engine), ["flow/a#1", "flow/a#2"]);
    let none = engine.remove_rule("flow", "flow/b#1").unwrap();
    assert_eq!(none.kinds[0].removed.len(), 0);
    let unknown = engine.remove_rule("floww", "x").unwrap_err();
    assert!(unknown.to_string().contains("did you mean `flow`?"));
}

#[test]
fn a_kind_without_resources_has_no_rules_of_one() {
    let refused = engine().load_json_of("system", "a", r#"[{"qps": 5}]"#);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "system: rules of this kind are for no resource; load the whole list"
    );
}

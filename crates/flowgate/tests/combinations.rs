//! Rules that meet on one resource, and on what they look at together.

mod common;

use common::{flow, passed};

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

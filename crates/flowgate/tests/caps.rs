//! Bounds on what an engine remembers: reaching one is counted, and the rules
//! still hold.

mod common;

use common::{Totals, built, flow, ms, passed, refusal, totals};
use flowgate::{Engine, Measure};

const THREE: &str = r#"[{"resource": "ruled", "count": 1},
    {"resource": "path/.*", "regex": true, "count": 2},
    {"resource": "path/.*", "regex": true, "count": 1, "grade": 0, "limitApp": "web"}]"#;

#[test]
fn resources_beyond_the_limit_are_counted_together_and_still_guarded() {
    let (engine, _time) = built(Engine::builder().resources_max(2));
    engine.load_json("flow", THREE).unwrap();
    engine.entry("a").unwrap().exit();
    engine.entry("b").unwrap().exit();
    assert_eq!(engine.stats().resources, 2);
    // A resource that a rule names by its whole name is always there.
    assert_eq!(passed(&engine.resource("ruled"), 3), 1);
    assert_eq!(engine.stats().resources, 3);
    assert_eq!(engine.stats().overflowed_resources, 0);
    // Two more share their counts, and the pattern's limit with them.
    assert_eq!(passed(&engine.resource("path/1"), 3), 2);
    assert_eq!(
        engine.entry("path/2").unwrap_err(),
        refusal(Measure::Rate, "flow/path/.*#1", 2.0, 2.0, Some(ms(1_000)))
    );
    engine.entry("c").unwrap().exit();
    let stats = engine.stats();
    assert_eq!((stats.resources, stats.overflowed_resources), (3, 3));
    let overflow = engine.node("(other resources)").unwrap();
    let expected = Totals {
        pass: 3,
        block: 2,
        success: 3,
        ..Totals::default()
    };
    assert_eq!(Totals::from(overflow), expected);
    assert_eq!(engine.node("c"), None);
    assert_eq!(engine.resources(), ["(other resources)", "a", "b", "ruled"]);
}

#[test]
fn concurrency_rules_hold_on_resources_beyond_the_limit() {
    let (engine, _time) = built(Engine::builder().resources_max(1));
    engine.load_json("flow", THREE).unwrap();
    engine.entry("a").unwrap().exit();
    let path = engine.resource("path/1");
    let guard = path.request().origin("web").entry().unwrap();
    assert_eq!(
        path.request().origin("web").entry().unwrap_err(),
        refusal(Measure::Concurrency, "flow/path/.*#2", 1.0, 1.0, None)
    );
    guard.exit();
    assert!(path.request().origin("web").entry().is_ok());
    assert_eq!(path.in_flight(), 0);
}

#[test]
fn rules_on_callers_hold_on_resources_beyond_the_limit_and_count_them_once() {
    for rules in [
        r#"[{"resource": "path/.*", "regex": true, "count": 2, "limitApp": "web"}]"#,
        r#"[{"resource": "path/.*", "regex": true, "count": 2, "limitApp": "other"}]"#,
        r#"[{"resource": "path/.*", "regex": true, "count": 2, "strategy": 2, "refResource": "web"}]"#,
    ] {
        let (engine, _time) = built(Engine::builder().resources_max(1).callers_max(50));
        engine.load_json("flow", rules).unwrap();
        let ask = |name: &str| engine.request(name).origin("web").context("web").entry();
        ask("a").unwrap().exit();
        let passed = (0..100).filter(|n| ask(&format!("path/{n}")).is_ok());
        assert_eq!(passed.count(), 2, "{rules}");
        // Once for `a`, once for all beyond the limit.
        let stats = engine.stats();
        assert_eq!((stats.callers, stats.overflowed_origins), (4, 0));
    }
}

#[test]
fn a_handle_taken_beyond_the_limit_obeys_rules_that_are_loaded_later() {
    for rule in [
        r#"[{"resource": "b", "count": 0}]"#,
        r#"[{"resource": "b|c", "count": 0, "regex": true}]"#,
    ] {
        let (engine, _time) = built(Engine::builder().resources_max(1));
        engine.entry("a").unwrap().exit();
        let b = engine.resource("b");
        b.entry().unwrap().exit();
        engine.load_json("flow", rule).unwrap();
        assert!(b.entry().is_err(), "{rule}");
        assert!(engine.entry("b").is_err(), "{rule}");
        assert!(engine.entry("d").is_ok(), "{rule}");
    }
}

#[test]
fn a_handle_taken_beyond_the_limit_shares_its_limit_with_calls_by_name() {
    let (engine, _time) = built(Engine::builder().resources_max(1));
    engine.entry("a").unwrap().exit();
    let b = engine.resource("b");
    assert_eq!(b.name(), "b");
    engine
        .load_json("flow", r#"[{"resource": "b", "count": 3}]"#)
        .unwrap();
    let guards = [b.entry().unwrap(), engine.entry("b").unwrap()];
    assert_eq!(b.in_flight(), 2);
    drop(guards);
    assert_eq!(passed(&b, 5) + passed(&engine.resource("b"), 5), 1);
    assert_eq!(b.node(), engine.node("b").unwrap());
}

#[test]
fn origins_and_contexts_beyond_the_limit_are_counted_together() {
    let builder = Engine::builder().origins_max(2).contexts_max(1);
    let (engine, _time) = built(builder);
    let rules = r#"[{"resource": "orders", "count": 1, "limitApp": "other"}]"#;
    engine.load_json("flow", rules).unwrap();
    let orders = engine.resource("orders");
    let results: Vec<bool> = ["one", "two", "three", "four", "one"]
        .iter()
        .map(|origin| {
            let request = orders.request().origin(origin).context(origin);
            request.entry().is_ok()
        })
        .collect();
    // The third and the fourth share one limit.
    assert_eq!(results, [true, true, true, false, false]);
    let stats = engine.stats();
    assert_eq!(
        (stats.overflowed_origins, stats.overflowed_contexts),
        (2, 3)
    );
    assert_eq!(engine.origin_node("orders", "three"), None);
    assert_eq!(engine.context_node("orders", "two"), None);
    assert_eq!(totals(&orders).in_flight, 0);
}

#[test]
fn origins_that_a_rule_names_are_limited_by_themselves_whoever_came_before() {
    let (engine, _time) = built(Engine::builder().origins_max(1));
    let rules = r#"[{"resource": "orders", "count": 2, "limitApp": "vip"}]"#;
    engine.load_json("flow", rules).unwrap();
    let orders = engine.resource("orders");
    let calls = |origin: &str| {
        let ask = || orders.request().origin(origin).try_entry().is_ok();
        (0..5).filter(|_| ask()).count()
    };
    assert_eq!(["first", "second", "vip", "third"].map(calls), [5, 5, 2, 5]);
    assert_eq!(engine.stats().overflowed_origins, 10);
    assert_eq!(engine.origin_node("orders", "vip").unwrap().total_pass, 2);
}

#[test]
fn many_threads_that_come_with_one_new_name_share_one_resource() {
    for _ in 0..50 {
        let (engine, _time) = built(Engine::builder().resources_max(1));
        let barrier = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    barrier.wait();
                    engine.entry("new").unwrap().exit();
                });
            }
        });
        let stats = engine.stats();
        assert_eq!((stats.resources, stats.overflowed_resources), (1, 0));
        assert_eq!(engine.node("new").unwrap().total_pass, 4);
    }
}

#[test]
fn settings_that_cannot_be_are_refused_by_name() {
    let table = [
        (
            Engine::builder().resources_max(0),
            "resources_max: 0 would leave nothing to count with; give 1 or more",
        ),
        (
            Engine::builder().origins_max(0),
            "origins_max: 0 would leave nothing to count with; give 1 or more",
        ),
        (
            Engine::builder().contexts_max(0),
            "contexts_max: 0 would leave nothing to count with; give 1 or more",
        ),
        (
            Engine::builder().cold_factor(1),
            "cold factor: 1 would not warm up; give 2 or more",
        ),
    ];
    for (builder, message) in table {
        assert_eq!(builder.try_build().unwrap_err().to_string(), message);
    }
    assert!(
        Engine::builder()
            .second_view(0, ms(1_000))
            .try_build()
            .is_err()
    );
    assert!(
        Engine::builder()
            .second_view(3, ms(1_000))
            .try_build()
            .is_err()
    );
}

#[test]
fn an_engine_without_limits_reached_counts_no_overflow() {
    let (engine, _time) = flow("[]");
    for n in 0..1_000 {
        engine.entry(&format!("resource {n}")).unwrap().exit();
    }
    let stats = engine.stats();
    assert_eq!((stats.resources, stats.overflowed_resources), (1_000, 0));
}

#[test]
fn a_resource_that_a_rule_relates_to_is_counted_apart_beyond_the_limit() {
    let (engine, _time) = built(Engine::builder().resources_max(1));
    engine.entry("a").unwrap().exit();
    let read = engine.resource("read");
    let rules = r#"[{"resource": "write", "count": 2, "strategy": 1, "refResource": "read"}]"#;
    engine.load_json("flow", rules).unwrap();
    assert_eq!(passed(&engine.resource("write"), 5), 5);
    // By a handle from before the rule, and by name.
    read.entry().unwrap().exit();
    engine.entry("read").unwrap().exit();
    assert_eq!(passed(&engine.resource("write"), 5), 0);
    assert_eq!(engine.node("read").unwrap().total_pass, 2);
}

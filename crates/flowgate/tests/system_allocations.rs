//! The way of a call allocates nothing under system and authority rules.
//!
//! This test binary has a counting allocator, which sees one thread at a time.

mod common;

use allocation_counter::measure;
use common::{document, ms};
use flowgate::{Sample, SystemSampler, Traffic};

#[test]
fn an_entry_allocates_nothing_under_system_and_authority_rules() {
    for rules in [
        r#"{"system": [{"qps": 1e9, "maxThread": 1000, "avgRt": 1000}]}"#,
        r#"{"system": [{"qps": 3}, {"maxThread": 1}]}"#,
        r#"{"system": [{"maxThread": 0}]}"#,
        r#"{"system": [{"qps": 3, "mode": "observe"}]}"#,
        r#"{"authority": [{"resource": "*", "limitApp": "web, batch"}]}"#,
        r#"{"authority": [{"resource": "a", "limitApp": "other, another"}]}"#,
    ] {
        let (engine, time) = document(rules);
        let a = engine.resource("a");
        let call = || {
            let request = a.request().traffic(Traffic::Inbound).origin("web");
            drop(request.entry());
            time.advance(ms(90));
        };
        (0..50).for_each(|_| call());
        let counted = measure(|| (0..1_000).for_each(|_| call()));
        assert_eq!(counted.count_total, 0, "{rules}");
    }
}

#[test]
fn an_entry_allocates_nothing_while_the_machine_is_busy() {
    struct Busy;

    impl SystemSampler for Busy {
        fn sample(&mut self) -> Sample {
            Sample {
                cpu: Some(1.0),
                load1: Some(99.0),
                ..Sample::default()
            }
        }
    }

    let (engine, _) = common::built(flowgate::Engine::builder().sampler(Busy));
    let rules = r#"[{"highestSystemLoad": 1, "highestCpuUsage": 0.9}]"#;
    engine.load_json("system", rules).unwrap();
    engine.sample_now();
    let a = engine.resource("a");
    let call = || drop(a.request().traffic(Traffic::Inbound).entry());
    (0..50).for_each(|_| call());
    let counted = measure(|| (0..1_000).for_each(|_| call()));
    assert_eq!(counted.count_total, 0);
}

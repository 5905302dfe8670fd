//! Reported bugs of peers, kind K15: statistics. What needs a metric log (b189),
//! an exporter (b190, b192 in part) or an adaptive limit (b191) waits for it.

mod common;

use std::time::Duration;

use common::{Totals, at, flow, ms, totals};
use flowgate::{CallError, Engine, Outcome};

// https://github.com/alibaba/Sentinel/commit/820160d54
#[test]
fn b187_the_least_response_time_is_what_was_measured_or_none() {
    let (engine, time) = flow("[]");
    let r = engine.resource("r");
    let call = |rt_ms| {
        let entry = r.entry().unwrap();
        time.advance(ms(rt_ms));
        entry.exit();
    };
    assert_eq!(r.node().min_rt, None);
    for rt_ms in [30, 10, 20] {
        call(rt_ms);
    }
    assert_eq!(r.node().min_rt, Some(ms(10)));
    assert_eq!(engine.inbound().min_rt, None);
    at(&time, 2_000);
    assert_eq!(r.node().min_rt, None);
    // Neither a refusal nor a call that is given up has a response time.
    engine
        .load_json("flow", r#"[{"resource": "r", "count": 0}]"#)
        .unwrap();
    assert!(r.entry().is_err());
    engine.load_json("flow", "[]").unwrap();
    r.entry().unwrap().exit_with(Outcome::Cancelled);
    assert_eq!(r.node().min_rt, None);
    for rt_ms in [5_000, 60_000, 0] {
        time.advance(ms(2_000));
        call(rt_ms);
        assert_eq!(r.node().min_rt, Some(ms(rt_ms)));
    }
}

// https://github.com/alibaba/Sentinel/commit/820160d54, by eight threads.
#[test]
fn b187_the_least_response_time_of_many_threads_is_none_of_a_sum() {
    let (engine, time) = flow("[]");
    let r = engine.resource("r");
    for (least_ms, span_ms) in [(10, 1_000), (5_000, 10_000)] {
        time.advance(ms(span_ms));
        let entries: Vec<_> = (0..8)
            .map(|_| r.request().into_owned().entry().unwrap())
            .collect();
        time.advance(ms(least_ms));
        std::thread::scope(|scope| {
            for (n, entry) in entries.into_iter().enumerate() {
                let time = &time;
                scope.spawn(move || {
                    if n > 0 {
                        time.advance(ms(1));
                    }
                    entry.exit();
                });
            }
        });
        let least = r.node().min_rt.unwrap();
        assert!(
            (ms(least_ms)..=ms(least_ms + 7)).contains(&least),
            "{least:?}"
        );
    }
    at(&time, 60_000);
    assert_eq!(r.node().min_rt, None);
}

// https://github.com/alibaba/Sentinel/pull/2992, what there is of it without an
// exporter: such a name is a name like any other, also in the JSON of its rule.
#[test]
fn b190_a_name_of_any_characters_counts_and_is_limited_as_any_other() {
    let long = "/".repeat(10 << 10);
    let names = [
        r#"GET:/a/*?x="1""#,
        r"back\slash",
        "line\nfeed",
        "pipe|and,comma",
        "\u{0}\u{7}\u{1b}[31m",
        "héllo 世界 🚦",
        &long,
    ];
    let (engine, _time) = flow("[]");
    engine.entry("").unwrap().exit();
    engine.entry("plain").unwrap().exit();
    let rules: Vec<flowgate::FlowRule> = names
        .iter()
        .map(|name| flowgate::FlowRule::qps(*name, 1.0))
        .collect();
    for name in names {
        engine.entry(name).unwrap().exit();
    }
    engine.load_flow(rules).unwrap();
    // What is shown of the rules loads as the same rules.
    let shown: Vec<_> = engine.rules().into_iter().map(|info| info.rule).collect();
    let text = serde_json::to_string(&shown).unwrap();
    let report = engine.load_json("flow", text).unwrap();
    assert!(report.is_unchanged(), "{report}");
    for name in names {
        let refused = engine.try_entry(name).unwrap_err();
        assert_eq!(refused.limit(), 1.0, "{name:?}");
        let node = engine.node(name).unwrap();
        assert_eq!((node.total_pass, node.total_block), (1, 1), "{name:?}");
    }
    for name in ["", "plain"] {
        engine.entry(name).unwrap().exit();
        assert_eq!(engine.node(name).unwrap().total_pass, 2, "{name:?}");
    }
    let mut expected: Vec<&str> = names.into_iter().chain(["", "plain"]).collect();
    expected.sort_unstable();
    assert_eq!(engine.resources(), expected);
}

// https://github.com/envoyproxy/ratelimit/issues/274, what an engine itself can
// say: which rules are in force, by their number. A load that fails is told to
// whoever loads, with all that is wrong; counting it is for the source.
#[test]
fn b192_a_load_that_failed_is_an_error_and_changes_no_generation() {
    let (engine, _time) = common::built(Engine::builder());
    let before = engine.stats().generation;
    let good = |count: u32| format!(r#"[{{"resource": "r", "count": {count}}}]"#);
    let loads = [
        (good(1), true),
        ("[".to_owned(), false),
        (r#"[{"resource": "r", "count": -1}]"#.to_owned(), false),
        (good(2), true),
    ];
    let generations = loads.map(|(text, is_good)| {
        assert_eq!(engine.load_json("flow", text).is_ok(), is_good);
        engine.stats().generation - before
    });
    assert_eq!(generations, [1, 1, 1, 2]);
}

// https://github.com/alibaba/Sentinel/issues/1419. An error is said once, as a
// guard is used up by its exit.
#[test]
fn b194_one_failure_is_one_error_on_each_resource_that_it_passes_through() {
    let (engine, time) = flow(r#"[{"resource": "full", "count": 0}]"#);
    let [outer, inner] = [engine.resource("outer"), engine.resource("inner")];
    let result = outer.call(|| {
        time.advance(ms(1_500));
        inner.call(|| Err::<(), _>("it fails"))
    });
    assert_eq!(
        result,
        Err(CallError::Failed(CallError::Failed("it fails")))
    );
    let one_of = |pass, exception| Totals {
        pass,
        success: pass,
        exception,
        ..Totals::default()
    };
    assert_eq!(
        (totals(&outer), totals(&inner)),
        (one_of(1, 1), one_of(1, 1))
    );
    // In the window in which the call ended, and in no other.
    let node = outer.node();
    assert_eq!((node.success_qps, node.exception_qps), (1.0, 1.0));

    let full = engine.resource("full");
    let refused = outer.call_with(|| full.call(|| Ok::<_, &str>(())), |_| Outcome::Ignored);
    assert!(refused.is_err());
    assert_eq!((totals(&full).block, totals(&full).exception), (1, 0));
    assert_eq!(totals(&outer), one_of(2, 1));
    // A panic is one error too.
    for _ in 0..2 {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            outer.call(|| -> Result<(), ()> {
                let _entry = inner.entry();
                std::panic::resume_unwind(Box::new(()))
            })
        }));
        assert!(panic.is_err());
    }
    assert_eq!(
        (totals(&outer), totals(&inner)),
        (one_of(4, 3), one_of(3, 3))
    );
    time.advance(Duration::from_secs(1));
    let node = outer.node();
    assert!(node.exception_qps <= node.success_qps);
}

//! Properties of reading: no text panics, and what is written is read back.

use flowgate_core::Accounting;
use flowgate_rules::flow::MemoryLimits;
use flowgate_rules::{
    BreakerStrategy, ControlBehavior, Degrade, DegradeRule, Dialect, Flow, FlowRule, Forced, Grade,
    Head, LimitApp, OnInvalid, RuleKind, RuleSet, Settings, Strategy as Reference,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

fn flow_rule() -> impl Strategy<Value = FlowRule> {
    let who = (
        ".{0,9}[a-z\"\\\\]",
        select(vec!["default", "other", "web", "ä"]),
        select(vec![Grade::Concurrency, Grade::Qps]),
        select(vec![Reference::Direct, Reference::Relate, Reference::Chain]),
        "[a-zé]{1,5}",
    );
    let what = (
        0.0..1e9_f64,
        select(vec![
            ControlBehavior::Reject,
            ControlBehavior::WarmUp,
            ControlBehavior::RateLimiter,
            ControlBehavior::WarmUpRateLimiter,
        ]),
        1..u32::MAX,
        option::of(2..9_u32),
        any::<u32>(),
        option::of("[a-z0-9]{1,4}"),
    );
    let over = (
        option::of(any::<u32>()),
        option::of(select(vec![0, 1, 2, 10, 1_000])),
        option::of(
            (1..u64::MAX / 2, 1..9_u64).prop_map(|(mark, more)| MemoryLimits {
                low_usage: more as f64,
                high_usage: 0.5,
                low_mark_bytes: mark,
                high_mark_bytes: mark + more,
            }),
        ),
    );
    let accounted = (
        select(vec![
            Accounting::Window,
            Accounting::Strict,
            Accounting::TokenBucket,
        ]),
        option::of(1..1_000_u64),
    );
    (who, what, over, accounted).prop_map(
        |((resource, app, grade, strategy, reference), what, over, accounted)| {
            let (count, behavior, period, factor, wait, id) = what;
            let (stat_interval_ms, boxes, memory) = over;
            let follows_memory = grade == Grade::Qps && !behavior.warms_up();
            let memory = memory.filter(|_| follows_memory);
            let (accounting, burst_count) = accounted;
            let is_sound = match accounting {
                Accounting::Window => true,
                Accounting::Strict => !behavior.paces(),
                Accounting::TokenBucket => {
                    !behavior.warms_up() && memory.is_none() && strategy != Reference::Relate
                }
            };
            FlowRule {
                stat_interval_ms,
                boxes,
                memory,
                accounting: if is_sound {
                    accounting
                } else {
                    Accounting::Window
                },
                burst_count,
                head: Head {
                    id,
                    ..Head::of(resource)
                },
                limit_app: LimitApp::from(app),
                grade,
                count,
                strategy,
                ref_resource: (strategy != Reference::Direct).then_some(reference),
                behavior,
                warm_up_period_sec: period,
                warm_up_cold_factor: factor,
                max_queueing_time_ms: wait,
            }
        },
    )
}

fn degrade_rule() -> impl Strategy<Value = DegradeRule> {
    let modes = vec![
        BreakerStrategy::SlowRatio,
        BreakerStrategy::ErrorRatio,
        BreakerStrategy::ErrorCount,
        BreakerStrategy::ConsecutiveErrors,
    ];
    let limits = (select(modes), 0.0..=1.0_f64, 0.0..=1.0_f64);
    let window = prop_oneof![
        (1..u32::MAX, 1..1_000_u32, 1..4_000_000_u32).prop_map(|(min, boxes, width)| (
            min,
            boxes,
            boxes * width,
            None
        )),
        (2..1_000_u32).prop_map(|calls| (calls, 1, 1_000, Some(calls))),
    ];
    let open = prop_oneof![
        (1..u32::MAX).prop_map(|seconds| (seconds, None)),
        (1..u64::MAX).prop_map(|millis| (0, Some(millis))),
    ];
    let growth = (1.0..9.0_f64, 0.0..=1.0_f64);
    let probes = (
        option::of(1..u64::MAX),
        option::of(1..10_000_u32),
        option::of(0.01..=1.0_f64),
        option::of(select(vec![Forced::Open, Forced::Closed])),
    );
    let all = ("[a-z]{1,9}", limits, window, open, growth, probes);
    all.prop_map(
        |(resource, limits, window, open, growth, probes)| DegradeRule {
            head: Head::of(resource),
            grade: limits.0,
            count: limits.1,
            slow_ratio_threshold: limits.2,
            time_window_sec: open.0,
            time_window_ms: open.1,
            backoff_multiplier: growth.0,
            max_time_window_sec: open.1.is_none().then_some(u32::MAX),
            jitter: growth.1,
            min_request_amount: window.0,
            stat_interval_ms: window.2,
            stat_buckets: window.1,
            stat_window_calls: window.3,
            half_open_timeout_ms: probes.0,
            probe_num: probes.1,
            probe_success_ratio: probes.2,
            force: probes.3,
        },
    )
}

/// JSON-like text: right and wrong field names and values, torn at times.
fn nearly_rules() -> impl Strategy<Value = String> {
    let key = select(vec![
        "resource",
        "count",
        "grade",
        "controlBehavior",
        "maxQueueingTimeMs",
        "regex",
        "id",
        "limitApp",
        "strategy",
        "refResource",
        "clusterMode",
        "statIntervalMs",
        "statSlidingWindowBucketCount",
        "lowMemUsageThreshold",
        "memHighWaterMarkBytes",
        "gmtCreate",
        "threshold",
        "tokenCalculateStrategy",
        "retryTimeoutMs",
        "statIntervalInMs",
        "x\\n",
    ]);
    let value = select(vec![
        "1",
        "-1",
        "1e400",
        "1.5",
        "null",
        "true",
        "\"a\"",
        "\"(\"",
        "\"\\ud800\"",
        "[]",
        "{}",
        "NaN",
        "\"other\"",
        "99999999999999999999999999999999999999999999",
        "-0",
        "\"ä,ö\"",
        "",
    ]);
    let member = (key, value).prop_map(|(key, value)| format!("\"{key}\":{value}"));
    let rule = vec(member, 0..6).prop_map(|members| format!("{{{}}}", members.join(",")));
    (vec(rule, 0..4), 0..300_usize).prop_map(|(rules, cut)| {
        let text = format!("[{}]", rules.join(",\n"));
        match text.char_indices().nth(cut) {
            Some((end, _)) if cut % 4 == 0 => text[..end].to_owned(),
            _ => text,
        }
    })
}

fn load_everywhere(bytes: &[u8]) {
    let settings = Settings::default();
    for on_invalid in [OnInvalid::Refuse, OnInvalid::Skip] {
        let set = RuleSet::default();
        let loads = [
            set.with_list("flow", bytes, &settings, on_invalid),
            set.with_list("degrade", bytes, &settings, on_invalid),
            set.with_document(bytes, &settings, on_invalid),
        ];
        for load in loads {
            match load {
                Ok((_, report)) => drop(report.to_string()),
                Err(error) => {
                    assert!(!error.faults.is_empty());
                    drop(error.to_string());
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_reading_panic(text in any::<String>()) {
        load_everywhere(text.as_bytes());
    }

    #[test]
    fn no_bytes_make_reading_panic(bytes in vec(any::<u8>(), 0..200)) {
        load_everywhere(&bytes);
    }

    #[test]
    fn nearly_right_rules_never_panic_and_their_places_lie_in_the_text(text in nearly_rules()) {
        load_everywhere(text.as_bytes());
        load_everywhere(format!("{{\"flow\": {text}, \"degrade\": {text}}}").as_bytes());
        let load = RuleSet::default().with_list("flow", &text, &Settings::default(), OnInvalid::Refuse);
        for fault in load.err().into_iter().flat_map(|error| error.faults) {
            if let Some(place) = fault.place {
                prop_assert!(text.get(..place.offset).is_some(), "{fault}");
                prop_assert!(place.line >= 1 && place.column >= 1, "{fault}");
            }
        }
    }

    #[test]
    fn flow_rules_are_read_back_as_they_are_written(rules in vec(flow_rule(), 0..5)) {
        let text = serde_json::to_string(&rules).unwrap();
        let (read, _) = RuleSet::default()
            .with_list("flow", &text, &Settings::default(), OnInvalid::Skip)
            .unwrap();
        let (built, _) = RuleSet::default()
            .with_rules::<Flow>(rules, &Settings::default(), OnInvalid::Skip)
            .unwrap();
        let plain = |set: &RuleSet| -> Vec<(FlowRule, Option<String>, String)> {
            let table = set.table::<Flow>();
            let entries = table.entries().iter();
            entries.map(|e| (e.rule().clone(), e.rule().head.id.clone(), e.id().to_string())).collect()
        };
        prop_assert_eq!(plain(&read), plain(&built));
    }

    /// In sentinel-golang's dialect too, as far as that has words for them.
    #[test]
    fn rules_written_as_golang_does_mean_the_same(
        flow in vec(flow_rule(), 0..5),
        breaker in degrade_rule(),
    ) {
        let settings = Settings::default();
        let (flow, _) = RuleSet::default()
            .with_rules::<Flow>(flow, &settings, OnInvalid::Skip)
            .unwrap();
        let written = flow.write_list("flow", Dialect::Golang);
        let (read, _) = RuleSet::default()
            .with_list("flow", &written.text, &settings, Dialect::Golang)
            .unwrap();
        let meanings = |set: &RuleSet, sayable: bool| -> Vec<FlowRule> {
            let table = set.table::<Flow>();
            let rules = table.entries().iter().map(|entry| Flow::normalized(entry.rule()));
            rules.filter(|rule| {
                let cannot = rule.grade == Grade::Concurrency
                    || rule.limit_app != LimitApp::Default
                    || rule.strategy == Reference::Chain
                    || !matches!(rule.accounted(), None | Some(Accounting::Window));
                !sayable || !cannot
            }).collect()
        };
        prop_assert_eq!(meanings(&read, false), meanings(&flow, true));
        let (breaker, _) = RuleSet::default()
            .with_rules::<Degrade>(vec![breaker], &settings, OnInvalid::Refuse)
            .unwrap();
        let written = breaker.write_list("degrade", Dialect::Golang);
        let (read, _) = RuleSet::default()
            .with_list("degrade", &written.text, &settings, Dialect::Golang)
            .unwrap();
        let meaning = |set: &RuleSet| -> Vec<DegradeRule> {
            let table = set.table::<Degrade>();
            table.entries().iter().map(|entry| Degrade::normalized(entry.rule())).collect()
        };
        if written.left_out.is_empty() && written.lost.is_empty() {
            prop_assert_eq!(meaning(&read), meaning(&breaker));
        }
    }

    #[test]
    fn breakers_are_read_back_as_they_are_written(rule in degrade_rule()) {
        let text = serde_json::to_string(&[&rule]).unwrap();
        let (read, _) = RuleSet::default()
            .with_list("degrade", &text, &Settings::default(), OnInvalid::Refuse)
            .unwrap();
        let table = read.table::<Degrade>();
        prop_assert_eq!(table.entries()[0].rule(), &rule);
    }
}

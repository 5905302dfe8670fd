//! Flow rules with an interval of their own: per minute, hour and day.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{START, at, built, flow, ms, passed, refusal, release_ms, totals};
use flowgate::{Engine, FlowRule, Measure, Timestamp};
use proptest::prelude::*;

const MINUTE: Measure = Measure::RatePer(Duration::from_secs(60));

/// An engine with these rules on a clock that only moves when told to.
fn with(rules: Vec<FlowRule>) -> (Engine, flowgate::ManualClock) {
    let (engine, time) = built(Engine::builder());
    engine.load_flow(rules).expect("the rules are fine");
    (engine, time)
}

fn per_minute(count: f64) -> FlowRule {
    FlowRule::qps("r", count).per_ms(60_000).boxes(6)
}

#[test]
fn a_rule_per_minute_and_one_per_hour_each_hold() {
    let hour = FlowRule::qps("r", 25.0).per_ms(3_600_000);
    let (engine, time) = with(vec![per_minute(10.0), hour]);
    let r = engine.resource("r");
    let by_minute: Vec<_> = (0..4)
        .map(|minute| {
            at(&time, minute * 60_000);
            passed(&r, 30)
        })
        .collect();
    assert_eq!(by_minute, [10, 10, 5, 0]);
    let block = r.entry().unwrap_err();
    let hour = Measure::RatePer(ms(3_600_000));
    // The box of six minutes that the first twenty are in ends 80 s after the
    // start, and leaves the hour nine boxes later; this is 180 s after it.
    let then = ms(80_000 + 9 * 360_000 - 180_000);
    assert_eq!(block, refusal(hour, "flow/r#2", 25.0, 25.0, Some(then)));
    time.advance(then - ms(1));
    assert_eq!(passed(&r, 30), 0);
    time.advance(ms(1));
    assert_eq!(passed(&r, 30), 10);
}

#[test]
fn a_refusal_says_of_what_interval_and_when_to_come_again() {
    let (engine, time) = with(vec![per_minute(10.0)]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 4), 4);
    at(&time, 12_000);
    assert_eq!(passed(&r, 6), 6);
    at(&time, 13_000);
    let refused = |weight| r.request().weight(weight).entry().unwrap_err();
    let expected = |after| refusal(MINUTE, "flow/r#1", 10.0, 10.0, after);
    assert_eq!(refused(1), expected(Some(ms(47_000))));
    assert_eq!(refused(4), expected(Some(ms(47_000))));
    assert_eq!(refused(5), expected(Some(ms(57_000))));
    assert_eq!(refused(11), expected(None));
    let text = refused(1).to_string();
    assert_eq!(
        text,
        "refused by flow rule flow/r#1: 10 of 10 calls per 60s, retry after 47000 ms"
    );
    at(&time, 60_000);
    assert_eq!(passed(&r, 10), 4);
}

#[test]
fn one_box_of_a_day_is_a_day_of_utc() {
    let day = FlowRule::qps("r", 3.0).per_ms(86_400_000).boxes(1);
    let (engine, time) = with(vec![day]);
    let r = engine.resource("r");
    let noon = Timestamp::from_millis(86_400_000 * 20_000 + 43_200_000);
    time.set(noon);
    assert_eq!(passed(&r, 5), 3);
    let block = r.entry().unwrap_err();
    assert_eq!(block.retry_after(), Some(Duration::from_secs(43_200)));
    time.set(noon + Duration::from_secs(43_199));
    assert_eq!(passed(&r, 5), 0);
    time.set(noon + Duration::from_secs(43_200));
    assert_eq!(passed(&r, 5), 3);
}

#[test]
fn a_call_refused_by_another_rule_is_charged_to_no_interval() {
    let second = FlowRule::qps("r", 2.0);
    for rules in [
        vec![per_minute(10.0), second.clone()],
        vec![second, per_minute(10.0)],
    ] {
        let (engine, time) = with(rules);
        let r = engine.resource("r");
        let by_second: Vec<_> = (0..7)
            .map(|second| {
                at(&time, second * 1_000);
                passed(&r, 5)
            })
            .collect();
        assert_eq!(by_second, [2, 2, 2, 2, 2, 0, 0]);
        assert_eq!((totals(&r).pass, totals(&r).block), (10, 25));
    }
}

#[test]
fn rules_of_one_interval_share_its_window_and_the_least_limit_holds() {
    let (engine, _time) = with(vec![
        per_minute(10.0),
        per_minute(6.0).limit_app("default"),
        per_minute(8.0),
    ]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 20), 6);
    let block = r.entry().unwrap_err();
    assert_eq!(block.rule().as_str(), "flow/r#2");
    // A weight that several refuse is refused by the first of them.
    let heavy = r.request().weight(5).entry().unwrap_err();
    assert_eq!(heavy.rule().as_str(), "flow/r#1");
}

#[test]
fn a_limit_raised_or_lowered_in_mid_window_sees_what_has_passed() {
    let (engine, time) = with(vec![per_minute(10.0)]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 20), 10);
    for (ms, count, left) in [(100, 15.0, 5), (200, 12.0, 0), (300, 20.0, 5)] {
        at(&time, ms);
        engine.load_flow(vec![per_minute(count)]).unwrap();
        assert_eq!(passed(&r, 20), left, "{count}");
    }
}

#[test]
fn a_rule_that_comes_back_within_its_interval_finds_all_that_has_passed() {
    let (engine, time) = with(vec![per_minute(100.0)]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 10), 10);
    engine.load_flow(vec![]).unwrap();
    at(&time, 30_000);
    assert_eq!(passed(&r, 60), 60);
    engine.load_flow(vec![per_minute(100.0)]).unwrap();
    assert_eq!(passed(&r, 60), 30);
}

#[test]
fn each_origin_and_context_has_its_own_window() {
    let (engine, _time) = with(vec![
        per_minute(2.0).limit_app("web"),
        per_minute(3.0).limit_app("other"),
        per_minute(4.0).chain("batch"),
        per_minute(9.0),
    ]);
    let r = engine.resource("r");
    let by = |origin: &str| {
        let passes = |_: &usize| r.request().origin(origin).try_entry().is_ok();
        (0..9).filter(passes).count()
    };
    assert_eq!([by("web"), by("app"), by("cron")], [2, 3, 3]);
    // One place is left for all of them together.
    let batch = || r.request().context("batch").try_entry().map(drop);
    assert_eq!(batch(), Ok(()));
    assert_eq!(batch().unwrap_err().rule().as_str(), "flow/r#4");
}

#[test]
fn each_resource_of_a_pattern_and_of_the_default_rule_has_its_own_window() {
    let (engine, _time) = flow(
        r#"[{"resource": "/a/*", "match": "glob", "count": 2, "statIntervalMs": 60000},
            {"resource": "*", "count": 3, "statIntervalMs": 60000}]"#,
    );
    for (name, limit) in [("/a/1", 2), ("/a/2", 2), ("b", 3), ("c", 3)] {
        assert_eq!(passed(&engine.resource(name), 9), limit, "{name}");
    }
}

#[test]
fn patterns_and_defaults_warm_up_queue_and_relate_over_an_interval() {
    let (engine, time) = flow(
        r#"[{"resource": "w.*", "match": "glob", "count": 600, "statIntervalMs": 60000,
             "controlBehavior": 1},
            {"resource": "q", "match": "prefix", "count": 60, "statIntervalMs": 60000,
             "controlBehavior": 2, "maxQueueingTimeMs": 5000},
            {"resource": "*", "count": 5, "statIntervalMs": 60000, "strategy": 1,
             "refResource": "w.1"}]"#,
    );
    for name in ["w.1", "w.2"] {
        assert_eq!(passed(&engine.resource(name), 300), 200, "{name} is cold");
    }
    for name in ["q1", "q2"] {
        let r = engine.resource(name);
        let releases: Vec<_> = (0..3).map(|_| release_ms(r.request(), &time)).collect();
        assert_eq!(releases, [Some(0), Some(1_000), Some(2_000)]);
    }
    // The default rule looks at the window that the first rule counts in.
    assert_eq!(passed(&engine.resource("elsewhere"), 3), 0);
    at(&time, 60_000);
    assert_eq!(passed(&engine.resource("elsewhere"), 3), 3);
}

#[test]
fn a_queue_over_an_hour_spaces_calls_by_a_minute() {
    let queue = FlowRule::qps("r", 60.0)
        .per_ms(3_600_000)
        .rate_limiter(120_000);
    let (engine, time) = with(vec![queue]);
    let r = engine.resource("r");
    let releases: Vec<_> = (0..4).map(|_| release_ms(r.request(), &time)).collect();
    assert_eq!(releases, [Some(0), Some(60_000), Some(120_000), None]);
    let refused = r.reserve().map(drop).unwrap_err();
    assert_eq!(refused.retry_after(), Some(ms(60_000)));
}

#[test]
fn a_call_that_queues_is_charged_on_arrival_and_gives_it_back_when_given_up() {
    let queue = FlowRule::qps("r", 1.0).rate_limiter(10_000);
    let (engine, time) = with(vec![queue, per_minute(3.0)]);
    let r = engine.resource("r");
    let waiting: Vec<_> = (0..3).map(|_| r.reserve().unwrap()).collect();
    assert_eq!(totals(&r).pass, 3, "reserved on arrival, on all nodes");
    assert!(r.reserve().is_err());
    drop(waiting);
    let expected = common::Totals {
        block: 1,
        cancelled: 3,
        ..Default::default()
    };
    assert_eq!(totals(&r), expected);
    at(&time, 10_000);
    let waiting: Vec<_> = (0..5).filter_map(|_| r.reserve().ok()).collect();
    assert_eq!(waiting.len(), 3);
}

#[test]
fn a_call_that_only_queues_is_charged_when_its_wait_ends() {
    let queue = FlowRule::qps("r", 1.0).rate_limiter(60_000);
    let (engine, time) = with(vec![queue, per_minute(10.0).limit_app("web")]);
    let r = engine.resource("r");
    let web = || r.request().origin("web").reserve();
    let plain: Vec<_> = (0..3).map(|_| r.reserve().unwrap()).collect();
    assert_eq!(totals(&r).pass, 1);
    let by_web = web().unwrap();
    assert_eq!(totals(&r).pass, 2, "its minute was reserved on arrival");
    at(&time, 3_000);
    plain.into_iter().for_each(|pending| pending.begin().exit());
    by_web.begin().exit();
    assert_eq!(totals(&r).pass, 4);
}

#[test]
fn a_prioritized_call_refused_over_an_interval_is_refused() {
    let (engine, time) = with(vec![per_minute(2.0)]);
    let r = engine.resource("r");
    at(&time, 900);
    assert_eq!(passed(&r, 5), 2);
    let block = r.request().prioritized().reserve().map(drop).unwrap_err();
    let after = Some(ms(59_100));
    assert_eq!(block, refusal(MINUTE, "flow/r#1", 2.0, 2.0, after));
}

#[test]
fn a_call_that_borrows_a_second_is_charged_to_its_minute_at_once() {
    for rules in [
        vec![FlowRule::qps("r", 2.0), per_minute(3.0)],
        vec![per_minute(3.0), FlowRule::qps("r", 2.0)],
    ] {
        let (engine, time) = with(rules);
        let r = engine.resource("r");
        assert_eq!(passed(&r, 2), 2);
        at(&time, 900);
        let borrows = || r.request().prioritized().reserve();
        let borrowed = borrows().unwrap();
        assert_eq!(borrowed.wait(), ms(100));
        assert_eq!(borrows().map(drop).unwrap_err().measure(), MINUTE);
        drop(borrowed);
        let borrowed = borrows().unwrap();
        at(&time, 1_000);
        borrowed.begin().exit();
        assert_eq!(passed(&r, 2), 0);
        at(&time, 60_000);
        assert_eq!(passed(&r, 3), 2);
    }
}

#[test]
fn a_related_window_counts_from_the_first_look_on() {
    let rule = FlowRule::qps("read", 3.0)
        .per_ms(60_000)
        .boxes(6)
        .relate("write");
    let (engine, time) = with(vec![rule]);
    let (read, write) = (engine.resource("read"), engine.resource("write"));
    assert_eq!(passed(&read, 5), 5, "never entered: passes");
    assert_eq!(passed(&write, 10), 10);
    assert_eq!(passed(&read, 5), 5, "nobody has counted before");
    at(&time, 10_000);
    assert_eq!(passed(&write, 3), 3);
    let block = read.entry().unwrap_err();
    let after = Some(ms(60_000));
    assert_eq!(block, refusal(MINUTE, "flow/read#1", 3.0, 3.0, after));
    at(&time, 69_999);
    assert_eq!(passed(&read, 1), 0);
    at(&time, 70_000);
    assert_eq!(passed(&read, 5), 5);
}

#[test]
fn a_resource_related_to_itself_does_not_count_the_asking_call() {
    let (engine, _time) = with(vec![per_minute(10.0), per_minute(3.0).relate("r")]);
    let r = engine.resource("r");
    // The first call finds that it was never entered.
    assert_eq!(passed(&r, 9), 3);
}

#[test]
fn a_clock_that_steps_back_stands_still() {
    let (engine, time) = with(vec![per_minute(5.0)]);
    let r = engine.resource("r");
    at(&time, 65_000);
    assert_eq!(passed(&r, 3), 3);
    at(&time, 5_000);
    assert_eq!(passed(&r, 3), 2);
    at(&time, 65_000);
    assert_eq!(passed(&r, 3), 0);
}

#[test]
fn eight_threads_pass_never_more_than_a_window_holds_and_no_fewer() {
    let windows = [(100, 10, 40), (1_000, 10, 150)];
    let rules = windows.map(|(length, boxes, count): (u32, u32, u32)| {
        FlowRule::qps("r", count.into()).per_ms(length).boxes(boxes)
    });
    let (engine, time) = with(rules.to_vec());
    let r = engine.resource("r");
    let rounds = AtomicU64::new(0);
    let entered: Vec<u64> = std::thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            while rounds.load(Ordering::Relaxed) < 3_000 {
                for _ in 0..20 {
                    // Some are given up: their passes go back.
                    if let Ok(pending) = r.reserve()
                        && !mine.len().is_multiple_of(7)
                    {
                        let entry = pending.begin();
                        mine.push(entry.entered().unwrap().since(START).as_millis() as u64);
                    } else if let Ok(entry) = r.try_entry() {
                        mine.push(entry.entered().unwrap().since(START).as_millis() as u64);
                    }
                }
                if rounds.fetch_add(1, Ordering::Relaxed).is_multiple_of(4) {
                    time.advance(ms(1));
                }
                std::thread::yield_now();
            }
            mine
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(work)).collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.flatten().collect()
    });
    for (length, boxes, count) in windows.map(|(l, b, c)| (u64::from(l), u64::from(b), c)) {
        let width = length / boxes;
        let mut by_box = BTreeMap::<u64, u32>::new();
        for ms in &entered {
            *by_box.entry(ms / width).or_default() += 1;
        }
        let last = *by_box.keys().last().unwrap();
        for end in 0..=last {
            let span = by_box.range((end + 1).saturating_sub(boxes)..=end);
            let sum: u32 = span.map(|(_, n)| n).sum();
            assert!(sum <= count, "{sum} in {length} ms that end with box {end}");
        }
    }
    assert_eq!(r.in_flight(), 0);
    // Everything that was taken and not used has come back.
    time.advance(ms(2_000));
    assert_eq!(passed(&r, 100), 40);
}

/// One rule of the property below.
#[derive(Clone, Debug)]
struct Window {
    /// Length of a box in milliseconds, and how many.
    shape: Option<(u64, u64)>,
    count: u64,
    origin: Option<&'static str>,
}

impl Window {
    fn rule(&self) -> FlowRule {
        let rule = FlowRule::qps("r", self.count as f64);
        let rule = match self.shape {
            None => rule,
            Some((width, boxes)) => rule.per_ms((width * boxes) as u32).boxes(boxes as u32),
        };
        rule.limit_app(self.origin.unwrap_or("default"))
    }

    /// Whether a call has room, looking through all that has passed.
    fn admits(&self, passes: &[(u64, u32, &str)], ms: u64, weight: u32, origin: &str) -> bool {
        if self.origin.is_some_and(|only| only != origin) {
            return true;
        }
        let (width, boxes) = self.shape.unwrap_or((500, 2));
        let first = (ms / width + 1).saturating_sub(boxes);
        let counted = passes.iter().filter(|(at, _, by)| {
            at / width >= first && self.origin.is_none_or(|only| only == *by)
        });
        let sum: u64 = counted.map(|(_, weight, _)| u64::from(*weight)).sum();
        sum + u64::from(weight) <= self.count
    }
}

fn windows() -> impl Strategy<Value = Vec<Window>> {
    let shape = proptest::option::weighted(0.8, (1_u64..400, 1_u64..8));
    let origin = proptest::option::of(proptest::sample::select(vec!["web", "app"]));
    let window = (shape, 1_u64..12, origin).prop_map(|(shape, count, origin)| Window {
        shape,
        count,
        origin,
    });
    proptest::collection::vec(window, 1..5)
}

proptest! {
    /// Any mixture of intervals, the second view among them, against a list of
    /// all that has passed.
    #[test]
    fn rules_of_any_intervals_agree_with_a_naive_window(
        windows in windows(),
        calls in proptest::collection::vec((0_u64..400, 0_u32..4, 0_usize..3, 0_u8..5), 1..150),
    ) {
        let (engine, time) = with(windows.iter().map(Window::rule).collect());
        let r = engine.resource("r");
        let mut passes: Vec<(u64, u32, &str)> = Vec::new();
        for (step, weight, who, fate) in calls {
            time.advance(ms(step));
            let now = time.now().as_nanos() / 1_000_000;
            let origin = ["", "web", "app"][who];
            let expected = windows.iter().all(|window| window.admits(&passes, now, weight, origin));
            let asked = r.request().origin(origin).weight(weight).reserve();
            prop_assert_eq!(asked.is_ok(), expected, "{:?} at {}", windows, now);
            // Some are given up before they go ahead.
            if let Ok(pending) = asked && fate > 0 {
                pending.begin().exit();
                passes.push((now, weight, origin));
            }
        }
        prop_assert_eq!(r.in_flight(), 0);
    }

    /// Who comes when the refusal says is admitted, and not a moment before.
    #[test]
    fn the_time_to_come_again_is_exact(
        windows in windows(),
        calls in proptest::collection::vec((0_u64..400, 1_u32..4), 1..40),
        weight in 1_u32..6,
    ) {
        let plain = windows.into_iter().map(|window| Window { origin: None, ..window });
        let window: Vec<_> = plain.take(1).collect();
        let (engine, time) = with(window.iter().map(Window::rule).collect());
        let r = engine.resource("r");
        for (step, weight) in calls {
            time.advance(ms(step));
            let _ = r.request().weight(weight).try_entry();
        }
        let Err(block) = r.request().weight(weight).try_entry() else {
            return Ok(());
        };
        let Some(after) = block.retry_after() else {
            prop_assert!(u64::from(weight) > window[0].count);
            return Ok(());
        };
        time.advance(after - Duration::from_nanos(1));
        prop_assert!(r.request().weight(weight).try_entry().is_err());
        time.advance(Duration::from_nanos(1));
        prop_assert!(r.request().weight(weight).try_entry().is_ok());
    }
}

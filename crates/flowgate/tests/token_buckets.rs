//! Flow rules that take tokens out of a bucket.

mod common;

use std::time::Duration;

use common::{START, at, built, counts, flow, hits, ms, passed, refusal, release_ms, totals};
use flowgate::{Accounting, Block, Engine, FlowRule, ManualClock, Measure};
use proptest::collection::vec;
use proptest::prelude::*;

/// An engine with these rules on a clock that only moves when told to.
fn with(rules: Vec<FlowRule>) -> (Engine, ManualClock) {
    let (engine, time) = built(Engine::builder());
    engine.load_flow(rules).expect("the rules are fine");
    (engine, time)
}

fn bucket(count: f64, burst: u64) -> FlowRule {
    FlowRule::qps("r", count).token_bucket(burst)
}

fn refused(id: &str, burst: f64, taken: f64, after: Option<Duration>) -> Block {
    refusal(Measure::Tokens, id, burst, taken, after).accounted_in(Accounting::TokenBucket)
}

#[test]
fn the_burst_passes_at_once_and_then_the_rate() {
    let (engine, time) = with(vec![bucket(4.0, 10)]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 30), 10);
    for step in 1..9 {
        at(&time, step * 250 - 1);
        assert_eq!(passed(&r, 3), 0);
        at(&time, step * 250);
        assert_eq!(passed(&r, 3), 1);
    }
    // It holds no more than the burst, however long nobody comes.
    time.advance(Duration::from_secs(86_400));
    assert_eq!(passed(&r, 30), 10);
}

#[test]
fn a_refusal_says_what_is_taken_and_when_to_come_again() {
    let (engine, time) = with(vec![bucket(4.0, 10)]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 10), 10);
    at(&time, 125);
    let block = r.entry().unwrap_err();
    assert_eq!(block, refused("flow/r#1", 10.0, 9.5, Some(ms(125))));
    assert_eq!(
        block.to_string(),
        "refused by flow rule flow/r#1: 9.5 of 10 tokens are taken, retry after 125 ms"
    );
    let heavy = |weight| r.request().weight(weight).entry().unwrap_err();
    assert_eq!(heavy(10).retry_after(), Some(ms(2_375)));
    assert_eq!(heavy(11).retry_after(), None);
    assert!(r.request().weight(0).entry().is_ok());
}

#[test]
fn calls_that_may_wait_are_spaced_behind_the_burst() {
    let (engine, time) = with(vec![bucket(10.0, 3).rate_limiter(200)]);
    let r = engine.resource("r");
    let releases: Vec<_> = (0..7).map(|_| release_ms(r.request(), &time)).collect();
    let expected = [0, 0, 0, 100, 200].map(Some);
    assert_eq!(releases, [&expected[..], &[None, None]].concat());
    // Who waits is refused until a wait of 200 ms would do, who does not until
    // there is a token.
    assert_eq!(
        r.entry().unwrap_err(),
        refused("flow/r#1", 3.0, 3.0, Some(ms(100)))
    );
    assert_eq!(
        r.try_entry().unwrap_err(),
        refused("flow/r#1", 3.0, 3.0, Some(ms(300)))
    );
    assert_eq!(hits(&engine), [counts(5, 4, 0, 2)]);
    at(&time, 299);
    assert!(r.try_entry().is_err());
    at(&time, 300);
    assert!(r.try_entry().is_ok());
}

#[test]
fn no_call_passes_at_a_count_of_zero() {
    for rule in [bucket(0.0, 5), bucket(0.0, 5).rate_limiter(500)] {
        let (engine, time) = with(vec![rule]);
        let r = engine.resource("r");
        assert_eq!(r.entry().unwrap_err().retry_after(), None);
        at(&time, 1_000_000);
        assert!(r.entry().is_err());
        assert!(r.request().weight(0).entry().is_ok());
    }
}

#[test]
fn a_call_that_a_later_rule_refuses_gives_its_tokens_back() {
    let (engine, time) = with(vec![
        bucket(1.0, 5),
        bucket(1.0, 9).rate_limiter(2_000),
        FlowRule::qps("r", 2.0),
    ]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 20), 2);
    assert_eq!(hits(&engine)[2], counts(2, 18, 0, 0));
    at(&time, 1_000);
    // Four: three of five were left, and one has flowed in.
    engine
        .load_flow(vec![bucket(1.0, 5), bucket(1.0, 9).rate_limiter(2_000)])
        .unwrap();
    assert_eq!(passed(&r, 20), 4);
    assert_eq!(totals(&r).pass, 6);
}

#[test]
fn of_several_buckets_each_holds() {
    let (engine, time) = with(vec![
        bucket(1.0, 4).id("small"),
        bucket(60.0, 10).per_ms(60_000).id("large"),
    ]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 9), 4);
    assert_eq!(
        r.entry().unwrap_err(),
        refused("small", 4.0, 4.0, Some(ms(1_000)))
    );
    // Both take one per second; the large one has six more, and no more.
    let heavy = |weight| r.request().weight(weight).entry().is_ok();
    at(&time, 4_000);
    assert!(heavy(4) && !heavy(1));
    at(&time, 5_000);
    assert!(heavy(1));
}

#[test]
fn who_waits_longest_decides_among_several_that_wait() {
    let (engine, time) = with(vec![
        bucket(10.0, 1).rate_limiter(500),
        FlowRule::qps("r", 5.0).rate_limiter(500),
    ]);
    let r = engine.resource("r");
    let releases: Vec<_> = (0..4).map(|_| release_ms(r.request(), &time)).collect();
    assert_eq!(releases, [Some(0), Some(200), Some(400), None]);
    assert_eq!(hits(&engine), [counts(3, 0, 0, 0), counts(3, 1, 0, 2)]);
    // The one that the line refused has given its tokens back.
    at(&time, 300);
    let block = r.try_entry().unwrap_err();
    assert_eq!(block.measure(), Measure::WaitMs);
}

#[test]
fn a_wait_that_is_given_up_gives_its_tokens_back() {
    let (engine, time) = with(vec![bucket(10.0, 2).rate_limiter(1_000)]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 2), 2);
    let first = r.reserve().expect("100 ms are no long wait");
    let second = r.reserve().expect("200 ms are no long wait");
    assert_eq!((first.wait(), second.wait()), (ms(100), ms(200)));
    drop(second);
    assert_eq!(r.reserve().map(|pending| pending.wait()), Ok(ms(200)));
    drop(first);
    assert_eq!(totals(&r).cancelled, 3);
    at(&time, 100);
    assert_eq!(passed(&r, 3), 1);
}

#[test]
fn an_equal_rule_keeps_its_tokens_and_a_changed_one_starts_full() {
    let (engine, _time) = with(vec![bucket(1.0, 5)]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 9), 5);
    engine
        .load_flow(vec![
            FlowRule::qps("s", 1.0),
            bucket(1.0, 5).id("another name"),
        ])
        .unwrap();
    assert_eq!(passed(&r, 9), 0);
    engine.load_flow(vec![bucket(1.0, 6)]).unwrap();
    assert_eq!(passed(&r, 9), 6);
    engine.load_flow(vec![bucket(2.0, 6)]).unwrap();
    assert_eq!(passed(&r, 9), 6);
}

#[test]
fn a_call_that_waits_through_a_reload_keeps_its_place() {
    let (engine, time) = with(vec![bucket(10.0, 1).rate_limiter(1_000)]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 1), 1);
    let waits = r.reserve().expect("100 ms are no long wait");
    engine.load_flow(vec![bucket(10.0, 2)]).unwrap();
    // The new bucket knows nothing of who waits in the old one.
    assert_eq!(passed(&r, 5), 2);
    at(&time, 100);
    waits.begin().exit();
    assert_eq!(passed(&r, 5), 1);
}

#[test]
fn an_observed_bucket_counts_what_it_would_refuse_over_the_calls_admitted() {
    let (engine, time) = flow(
        r#"[{"resource": "r", "count": 1, "accounting": "tokenBucket", "burstCount": 3,
             "mode": "observe"},
            {"resource": "r", "count": 4}]"#,
    );
    let r = engine.resource("r");
    assert_eq!(passed(&r, 9), 4);
    assert_eq!(hits(&engine), [counts(3, 0, 1, 0), counts(4, 5, 0, 0)]);
    at(&time, 2_000);
    assert_eq!(passed(&r, 3), 3);
    assert_eq!(hits(&engine)[0], counts(5, 0, 2, 0));

    let (engine, time) = flow(
        r#"[{"resource": "r", "count": 10, "accounting": "tokenBucket", "burstCount": 1,
             "controlBehavior": 2, "maxQueueingTimeMs": 100, "mode": "observe"}]"#,
    );
    let r = engine.resource("r");
    // Of those that may wait one would; of those that do not, none.
    let releases: Vec<_> = (0..3).map(|_| release_ms(r.request(), &time)).collect();
    assert_eq!(releases, [Some(0); 3]);
    assert!(r.try_entry().is_ok());
    assert_eq!(hits(&engine), [counts(2, 0, 2, 1)]);
}

#[test]
fn a_prioritized_call_borrows_no_tokens() {
    let (engine, _time) = with(vec![bucket(10.0, 2)]);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 2), 2);
    let block = r.request().prioritized().entry().unwrap_err();
    assert_eq!(block.retry_after(), Some(ms(100)));
}

#[test]
fn a_bucket_is_for_the_origins_and_contexts_that_its_rule_is_for() {
    let (engine, _time) = flow(
        r#"[{"resource": "r", "count": 1, "accounting": 2, "burstCount": 2, "limitApp": "web"},
            {"resource": "r", "count": 1, "accounting": 2, "burstCount": 3, "limitApp": "other"},
            {"resource": "r", "count": 1, "accounting": 2, "burstCount": 1, "strategy": 2,
             "refResource": "c"}]"#,
    );
    let r = engine.resource("r");
    let passed_of = |origin: &str, calls: usize| {
        let ask = |_: &usize| r.request().origin(origin).entry().is_ok();
        (0..calls).filter(ask).count()
    };
    assert_eq!(passed_of("web", 9), 2);
    // One bucket for all of them, as one line is.
    assert_eq!((passed_of("a", 2), passed_of("b", 9)), (2, 1));
    assert_eq!(passed_of("", 9), 9);
    let inside = || engine.request("r").context("c").entry();
    assert!(inside().is_ok() && inside().is_err());
}

// https://github.com/boinkor-net/governor/issues/249
#[test]
fn b001_an_idle_spell_gives_no_token_more_than_the_burst() {
    let (engine, time) = flow(r#"[{"resource": "r", "count": 5, "accounting": "tokenBucket"}]"#);
    let r = engine.resource("r");
    assert_eq!(passed(&r, 6), 5);
    for (idle_ms, expected) in [(2_000, 5), (200, 1), (1_000, 5), (3_600_000, 5)] {
        time.advance(ms(idle_ms));
        assert_eq!(passed(&r, 7), expected, "{idle_ms}");
    }
}

// https://github.com/jaegertracing/jaeger-client-python/pull/35
#[test]
fn b039_half_a_token_per_second_is_one_each_two_seconds() {
    let (engine, time) = flow(r#"[{"resource": "r", "count": 0.5, "accounting": "tokenBucket"}]"#);
    let r = engine.resource("r");
    let passes = (0..=100_u64).filter(|tenth| {
        at(&time, tenth * 100);
        r.try_entry().is_ok()
    });
    assert_eq!(passes.collect::<Vec<_>>(), [0, 20, 40, 60, 80, 100]);
}

// https://github.com/inngest/inngest/pull/1459
#[test]
fn b040_without_a_burst_the_bucket_holds_the_count_of_its_interval() {
    for count in [1, 5, 9, 10] {
        let (engine, _time) = flow(&format!(
            r#"[{{"resource": "r", "count": {count}, "accounting": "tokenBucket",
                 "statIntervalMs": 86400000}}]"#
        ));
        assert_eq!(passed(&engine.resource("r"), 12), count);
    }
}

// https://github.com/spring-cloud/spring-cloud-gateway/issues/1312
#[test]
fn b057_a_burst_of_zero_is_refused_at_load() {
    let (engine, _time) = built(Engine::builder());
    let error = engine
        .load_json(
            "flow",
            r#"[{"resource": "r", "count": 1, "accounting": "tokenBucket", "burstCount": 0}]"#,
        )
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "flow[0].burstCount: 0 tokens let no call pass, ever; give at least 1 token, \
         or leave it out for as many as count (line 1, column 75)"
    );
}

// https://github.com/golang/go/issues/56924
#[test]
fn b100_a_wait_that_is_given_up_gives_back_as_many_tokens_as_it_took() {
    for another_waits in [false, true] {
        let (engine, time) = with(vec![bucket(10.0, 20).rate_limiter(1_000)]);
        let r = engine.resource("r");
        let ask = |weight| r.request().weight(weight);
        ask(15).try_entry().unwrap().exit();
        at(&time, 100);
        let given_up = ask(10).reserve().unwrap();
        assert_eq!(given_up.wait(), ms(400));
        let other = another_waits.then(|| ask(2).reserve().unwrap());
        drop(given_up);
        match other {
            None => {
                assert!(ask(6).try_entry().is_ok());
                assert!(ask(1).try_entry().is_err());
            }
            Some(other) => {
                assert!(START + ms(100) + other.wait() <= START + ms(700));
                let more = (0..30).filter(|_| r.try_entry().is_ok()).count();
                assert!(15 + 2 + more <= 21, "{more}");
                other.begin().exit();
            }
        }
    }
}

// https://github.com/resilience4j/resilience4j/issues/2489
#[test]
fn b125_a_bucket_whose_limit_was_lowered_fills_up_again() {
    let (engine, time) = with(vec![bucket(5.0, 5).per_ms(100)]);
    let r = engine.resource("r");
    engine.load_flow(vec![bucket(2.0, 2).per_ms(100)]).unwrap();
    at(&time, 1_000);
    assert_eq!(passed(&r, 3), 2);
    engine.load_flow(vec![bucket(4.0, 4).per_ms(100)]).unwrap();
    at(&time, 1_100);
    assert_eq!(passed(&r, 5), 4);
    at(&time, 1_200);
    assert_eq!(passed(&r, 5), 4);
}

#[derive(Clone, Debug)]
struct Ask {
    gap_ms: u64,
    weight: u32,
    waits: bool,
    given_up: bool,
}

fn ask() -> impl Strategy<Value = Ask> {
    let all = (0..300_u64, 1..5_u32, any::<bool>(), any::<bool>());
    all.prop_map(|(gap_ms, weight, waits, given_up)| Ask {
        gap_ms,
        weight,
        waits,
        given_up,
    })
}

proptest! {
    /// Calls count when they may go, and those that are given up do not.
    #[test]
    fn no_span_has_more_than_the_burst_and_what_flows_in(
        calls in vec(ask(), 1..100),
        rate in 1..40_u64,
        burst in 1..9_u64,
        refuses in any::<bool>(),
    ) {
        let mut rules = vec![bucket(rate as f64, burst).rate_limiter(700)];
        if refuses {
            rules.push(FlowRule::qps("r", 6.0));
        }
        let (engine, time) = with(rules);
        let r = engine.resource("r");
        let mut went: Vec<(u64, u64)> = Vec::new();
        for ask in calls {
            time.advance(ms(ask.gap_ms));
            let request = r.request().weight(ask.weight);
            if !ask.waits {
                if request.try_entry().is_ok() {
                    went.push((time.now().as_nanos(), ask.weight.into()));
                }
            } else if let Ok(pending) = request.reserve()
                && !ask.given_up
            {
                let release = time.now() + pending.wait();
                pending.begin().exit();
                went.push((release.as_nanos(), ask.weight.into()));
            }
        }
        went.sort_unstable();
        for (index, (first, _)) in went.iter().enumerate() {
            let mut sum = 0;
            for (then, weight) in &went[index..] {
                sum += weight;
                let flowed_in = u128::from(then - first) * u128::from(rate);
                let most = u128::from(burst) * 1_000_000_000 + flowed_in;
                prop_assert!(u128::from(sum) * 1_000_000_000 <= most, "{:?}", went);
            }
        }
    }

    /// If nobody else comes a call passes after just the time that its refusal
    /// says, and not a nanosecond before.
    #[test]
    fn a_refusal_says_when_to_come_again_to_the_nanosecond(
        calls in vec(ask(), 1..40),
        rate in 1..40_u64,
        burst in 1..9_u64,
        last in (1..9_u32, any::<bool>()),
    ) {
        let (engine, time) = with(vec![bucket(rate as f64, burst).rate_limiter(200)]);
        let r = engine.resource("r");
        for ask in calls {
            time.advance(ms(ask.gap_ms));
            if let Ok(pending) = r.request().weight(ask.weight).reserve() {
                pending.begin().exit();
            }
        }
        let (weight, waits) = last;
        let again = || {
            let request = r.request().weight(weight);
            match waits {
                true => request.reserve().map(drop),
                false => request.try_entry().map(drop),
            }
        };
        if let Err(block) = again() {
            prop_assert_eq!(block.retry_after().is_none(), u64::from(weight) > burst);
            if let Some(after) = block.retry_after() {
                time.advance(after - Duration::from_nanos(1));
                prop_assert!(again().is_err());
                time.advance(Duration::from_nanos(1));
                prop_assert!(again().is_ok());
            }
        }
    }
}

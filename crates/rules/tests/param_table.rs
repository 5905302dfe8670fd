//! How many values a hot-parameter rule remembers, whom it forgets, and what
//! can be read of it.

use flowgate_core::{Arg, Timestamp};
use flowgate_rules::param_flow::{HotValue, ParamFlowRule, ParamState, ParamValue, Share, Shares};

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + ms)
}

fn passes(state: &ParamState, value: impl Into<Arg<'static>>, ms: u64) -> bool {
    take(state, value, ms).is_some()
}

fn take(state: &ParamState, value: impl Into<Arg<'static>>, ms: u64) -> Option<Shares> {
    let mut shares = Shares::new();
    let taken = state.take(value.into(), at(ms), 1, &mut shares);
    taken.is_ok().then_some(shares)
}

fn only(shares: &Shares) -> Share {
    assert_eq!(shares.len(), 1);
    shares[0]
}

/// A source of numbers that nobody has seen before.
fn random(seed: u64) -> impl FnMut() -> i64 {
    let mut state = seed;
    move || {
        // SplitMix64, public domain.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as i64
    }
}

#[test]
fn a_heavy_hitter_stays_limited_while_a_million_random_values_pass_by() {
    let rules = [
        ParamFlowRule::qps("a", 0, 20.0).duration_in_sec(3_600),
        ParamFlowRule::qps("a", 0, 20.0)
            .duration_in_sec(3_600)
            .token_bucket(),
        ParamFlowRule::concurrency("a", 0, 20.0),
        ParamFlowRule::qps("a", 0, 1.0)
            .duration_in_sec(3_600)
            .rate_limiter(20 * 3_600_000),
    ];
    for rule in rules {
        let state = ParamState::new(&rule.max_values(1_000));
        while passes(&state, "heavy", 0) {}
        let mut next = random(1);
        let mut passed = 0;
        for n in 0..1_000_000 {
            if let Some(shares) = take(&state, next(), n / 1_000) {
                passed += 1;
                state.leave(only(&shares));
            }
            if n % 10_000 == 0 {
                assert!(!passes(&state, "heavy", n / 1_000), "freed after {n}");
            }
        }
        assert!(!passes(&state, "heavy", 1_000));
        assert_eq!(state.values(), 1_000);
        if state.overflowed() == 0 {
            assert_eq!(passed, 1_000_000);
            assert_eq!(state.evicted(), 1_000_000 - 999);
        }
        assert!(state.bytes() < 200 * 1_024, "{} bytes", state.bytes());
    }
}

#[test]
fn a_value_whose_large_calls_are_refused_stays_limited() {
    // Two of weight 3 pass, and the two tokens left are of no use to a third.
    let tokens = ParamFlowRule::qps("a", 0, 8.0).duration_in_sec(3_600);
    // One of weight 3 each 3 s.
    let line = ParamFlowRule::qps("a", 0, 1.0).rate_limiter(0);
    for (rule, passed) in [(tokens, 2), (line, 1)] {
        let state = ParamState::new(&rule.max_values(100));
        let passes_heavy = |ms| {
            let mut shares = Shares::new();
            let taken = state.take("heavy".into(), at(ms), 3, &mut shares);
            taken.is_ok()
        };
        assert_eq!((0..9).filter(|_| passes_heavy(0)).count(), passed);
        for n in 0..20_000 {
            passes(&state, n, n as u64 / 10);
        }
        assert!(!passes_heavy(2_000));
    }
}

// https://github.com/levy-street/world-of-claudecraft/issues/147
#[test]
fn b175_a_full_table_does_not_free_those_being_limited() {
    let rule = ParamFlowRule::qps("a", 0, 20.0)
        .duration_in_sec(60)
        .max_values(10_000);
    let state = ParamState::new(&rule);
    assert!((0..20).all(|_| passes(&state, "attacker", 0)));
    assert!(!passes(&state, "attacker", 0));
    assert!((0..10_001).all(|other| passes(&state, other, 1)));
    assert!(!passes(&state, "attacker", 2));
}

// https://github.com/ralksta/immich-folio/pull/56
#[test]
fn b177_a_full_table_still_serves_strangers() {
    for count in [1.0, 5.0] {
        let rule = ParamFlowRule::qps("a", 0, count).max_values(10_000);
        let state = ParamState::new(&rule);
        assert!((0..10_000).all(|one_off| passes(&state, one_off, one_off as u64 / 11)));
        assert!(passes(&state, "honest", 1_000));
    }
}

// https://github.com/boinkor-net/governor/issues/171
#[test]
fn b174_random_keys_do_not_fill_memory_nor_touch_a_loyal_client() {
    let rule = ParamFlowRule::qps("a", 0, 5.0)
        .burst(5)
        .duration_in_sec(60)
        .max_values(100_000);
    let state = ParamState::new(&rule);
    let mut next = random(7);
    let mut full = 0;
    for n in 0..3_000_000_u64 {
        let ms = n / 50;
        assert!(passes(&state, next(), ms));
        if n % 500_000 == 0 {
            assert!(passes(&state, "loyal", ms), "refused at {ms} ms");
        }
        if n == 500_000 {
            full = state.bytes();
        }
    }
    assert_eq!(state.bytes(), full);
    assert_eq!(state.values(), 100_000);
    assert_eq!(state.overflowed(), 0);
    assert!(full < 100_000 * 2 * 80, "{full} bytes");
}

#[test]
fn as_many_values_are_remembered_as_there_is_room_for() {
    // Recorded of Sentinel: 4000 values, each with its only token taken.
    let state = ParamState::new(&ParamFlowRule::qps("a", 0, 1.0));
    assert!((0..4_000).all(|value| passes(&state, value, 0)));
    assert!(!(0..4_000).any(|value| passes(&state, value, 21)));
    assert_eq!((state.values(), state.evicted()), (4_000, 0));
}

#[test]
fn newcomers_share_one_counter_when_all_others_are_limited() {
    let rule = ParamFlowRule::qps("a", 0, 3.0)
        .duration_in_sec(60)
        .max_values(10);
    let state = ParamState::new(&rule);
    for value in 0..10 {
        while passes(&state, value, 0) {}
    }
    let passed = (100..200).filter(|value| passes(&state, *value, 1)).count();
    assert_eq!(passed, 3);
    assert_eq!(state.overflowed(), 100);
    assert_eq!(state.evicted(), 0);
    // When the ten are free again, newcomers are values of their own.
    assert!((200..300).all(|value| passes(&state, value, 60_001)));
    assert_eq!((state.overflowed(), state.evicted()), (100, 100));
}

#[test]
fn what_the_overflow_gave_comes_back() {
    let state = ParamState::new(&ParamFlowRule::concurrency("a", 0, 1.0).max_values(1));
    let first = take(&state, 1, 0).unwrap();
    let second = take(&state, 2, 0).unwrap();
    assert!(!passes(&state, 3, 0), "the overflow has one place too");
    state.leave(only(&second));
    let third = take(&state, 3, 0).unwrap();
    state.give_back(only(&third), at(0), 1);
    state.leave(only(&first));
    assert!(passes(&state, 4, 0));
    assert_eq!(state.evicted(), 1);
}

#[test]
fn a_value_with_calls_in_flight_is_never_forgotten() {
    let state = ParamState::new(&ParamFlowRule::concurrency("a", 0, 2.0).max_values(2));
    let held = take(&state, "held", 0).unwrap();
    for value in 0..1_000 {
        let shares = take(&state, value, 0).unwrap();
        state.leave(only(&shares));
    }
    let again = take(&state, "held", 0).unwrap();
    assert!(!passes(&state, "held", 0));
    state.leave(only(&held));
    state.leave(only(&again));
    assert!(passes(&state, "held", 0));
}

#[test]
fn the_least_used_is_forgotten_first() {
    let rule = ParamFlowRule::qps("a", 0, 1_000.0).max_values(64);
    let state = ParamState::new(&rule);
    let mut next = random(3);
    for round in 0..200 {
        for favourite in 0..8 {
            for _ in 0..4 {
                assert!(passes(&state, favourite, round / 50));
            }
        }
        assert!(passes(&state, next(), round / 50));
    }
    let top = state.top(8);
    assert!(top.iter().all(|hot| hot.passed == 800), "{top:?}");
}

#[test]
fn a_value_with_a_limit_of_its_own_is_always_remembered() {
    let rule = ParamFlowRule::qps("a", 0, 1.0)
        .duration_in_sec(60)
        .max_values(4)
        .item("vip", 3.0)
        .item("banned", 0.0)
        .item("a text that is longer than fifteen bytes", 2.0);
    let state = ParamState::new(&rule);
    assert!((0..100).filter(|value| passes(&state, *value, 0)).count() >= 4);
    let calls = |value: &'static str| (0..9).filter(|_| passes(&state, value, 0)).count();
    assert_eq!(calls("vip"), 3);
    assert_eq!(calls("banned"), 0);
    assert_eq!(calls("a text that is longer than fifteen bytes"), 2);
    assert!(!passes(&state, 500, 0));
    assert_eq!(calls("vip"), 0);
}

/// Sentinel's bucket would begin anew, and give three more.
#[test]
fn a_value_whose_bucket_fills_evenly_is_forgotten_only_when_it_is_full() {
    let rule = ParamFlowRule::qps("a", 0, 3.0).token_bucket().max_values(2);
    let state = ParamState::new(&rule);
    assert!(passes(&state, "first", 0));
    assert!(passes(&state, "second", 0));
    // No room: they share three tokens.
    let others = (0..9).filter(|other| passes(&state, *other, 10));
    assert_eq!(others.count(), 3);
    assert_eq!((state.overflowed(), state.evicted()), (9, 0));
    let calls = |value: &'static str, ms| (0..9).filter(|_| passes(&state, value, ms)).count();
    assert_eq!(calls("first", 300), 2);
    // After a third of a second for each token they are full again.
    assert!(passes(&state, 100, 334));
    assert_eq!((state.overflowed(), state.evicted()), (9, 1));
    assert_eq!(calls("first", 334), 1);
}

/// By a thread whose clock is behind that of the one that forgot it.
#[test]
fn a_value_that_comes_back_too_early_finds_no_more_than_it_left() {
    let rule = ParamFlowRule::qps("a", 0, 10.0)
        .token_bucket()
        .max_values(2);
    let state = ParamState::new(&rule);
    let calls = |ms| (0..99).filter(|_| passes(&state, "it", ms)).count();
    assert_eq!(calls(0), 10);
    let idle = take(&state, "idle", 0).unwrap();
    state.give_back(only(&idle), at(0), 1);
    // It is full again, and the first that is looked at.
    assert!(passes(&state, "other", 1_000));
    assert_eq!(state.evicted(), 1);
    assert_eq!(calls(900), 9);
    assert_eq!((state.evicted(), state.overflowed()), (2, 0));
}

#[test]
fn a_ticket_of_a_forgotten_value_gives_nothing_to_its_successor() {
    let rule = ParamFlowRule::qps("a", 0, 2.0)
        .duration_in_sec(60)
        .max_values(1);
    let state = ParamState::new(&rule);
    let old = take(&state, "old", 0).unwrap();
    assert!(passes(&state, "new", 0), "the old one had a token left");
    assert!(passes(&state, "new", 0));
    state.give_back(only(&old), at(0), 1);
    assert!(!passes(&state, "new", 0));
}

#[test]
fn a_call_that_is_given_back_leaves_no_trace_in_the_counts() {
    let state = ParamState::new(&ParamFlowRule::qps("a", 0, 2.0));
    let taken = take(&state, 7, 0).unwrap();
    state.give_back(only(&taken), at(0), 1);
    assert_eq!(state.top(5), []);
}

#[test]
fn the_hottest_values_are_exact_and_in_order() {
    let state = ParamState::new(&ParamFlowRule::qps("a", 0, 10.0));
    for (value, calls) in [("sixteen bytes!!!", 30), ("short", 20), ("rare", 2)] {
        for _ in 0..calls {
            passes(&state, value, 0);
        }
    }
    for value in 0..3_000 {
        passes(&state, value, 0);
    }
    let hot = |value: &str, passed, refused| HotValue {
        value: ParamValue::from(value),
        passed,
        refused,
    };
    assert_eq!(
        state.top(3),
        [
            hot("sixteen bytes!!!", 10, 20),
            hot("short", 10, 10),
            hot("rare", 2, 0)
        ]
    );
    assert_eq!(state.top(0), []);
    assert_eq!(state.top(usize::MAX).len(), 3_003);
}

/// Half a cache line and 8 bytes of index per value, of which a segment may be
/// unused; more where more is counted, or values are longer than a word.
#[test]
fn a_value_takes_no_more_room_than_it_needs() {
    const VALUES: usize = 200_000;
    let fill = |rule: ParamFlowRule, value: &dyn Fn(i128) -> Arg<'static>| {
        let state = ParamState::new(&rule.max_values(VALUES as u32));
        assert!((0..VALUES as i128).all(|n| passes(&state, value(n), 0)));
        state.bytes() / VALUES
    };
    let int = |n| Arg::Int(n - 1_000);
    let rule = || ParamFlowRule::qps("a", 0, 5.0);
    let expected = |bytes| bytes..bytes * 5 / 4;
    assert!(expected(40).contains(&fill(rule(), &int)));
    assert!(expected(40).contains(&fill(ParamFlowRule::concurrency("a", 0, 5.0), &int)));
    assert!(expected(48).contains(&fill(rule().rate_limiter(0), &int)));
    assert!(expected(56).contains(&fill(rule().token_bucket(), &int)));
    let wide = |n| Arg::Int(n << 64);
    assert!(expected(48).contains(&fill(rule(), &wide)));
}

/// A rule by a pattern has a table for every resource.
#[test]
fn a_table_begins_small() {
    for max in [4_000, 1_000_000] {
        let state = ParamState::new(&ParamFlowRule::qps("a", 0, 5.0).max_values(max));
        assert!(state.bytes() < 512, "{} bytes", state.bytes());
        assert!(passes(&state, 1, 0));
        assert!(state.bytes() < 4_096, "{} bytes", state.bytes());
    }
}

/// Keys of one word and of two in the same slots, one after another.
#[test]
fn values_of_all_lengths_follow_one_another_in_a_slot() {
    let rule = ParamFlowRule::qps("a", 0, 2.0).duration_in_sec(60);
    let state = ParamState::new(&rule.max_values(2));
    let wide = 7_i128 << 64;
    for round in 0..50 {
        for value in [
            Arg::Int(7),
            Arg::Int(wide),
            Arg::Int(wide + 7),
            Arg::Int(-7),
            Arg::Str("seven b"),
            Arg::Str("eight by"),
            Arg::Str("longer than fifteen bytes"),
        ] {
            assert!(passes(&state, value, round), "{value:?} in round {round}");
            let last = match value {
                Arg::Str(text) => ParamValue::from(text),
                Arg::Int(number) => ParamValue::from(number),
                _ => continue,
            };
            let top = state.top(2);
            assert!(top.iter().any(|hot| hot.value == last && hot.passed == 1));
        }
    }
    assert_eq!((state.values(), state.overflowed()), (2, 0));
}

#[test]
fn a_value_that_can_never_pass_takes_no_room() {
    for rule in [
        ParamFlowRule::qps("a", 0, 0.0).burst(5),
        ParamFlowRule::qps("a", 0, 0.0).burst(5).token_bucket(),
        ParamFlowRule::qps("a", 0, 0.9).token_bucket(),
        ParamFlowRule::qps("a", 0, 0.0).rate_limiter(500),
        ParamFlowRule::concurrency("a", 0, 0.9),
        ParamFlowRule::qps("a", 0, 0.9),
    ] {
        let state = ParamState::new(&rule);
        assert!(!(0..100).any(|value| passes(&state, value, 0)));
        assert_eq!(state.values(), 0);
    }
}

#[test]
fn a_line_is_paced_at_its_own_limit_and_a_place_given_up_is_taken_again() {
    let rule = ParamFlowRule::qps("a", 0, 2.0)
        .rate_limiter(1_000)
        .item("banned", 0.0);
    let state = ParamState::new(&rule);
    let mut shares = Shares::new();
    let mut wait = |value: &'static str| {
        let wait = state.take(Arg::Str(value), at(0), 1, &mut shares);
        wait.map(|wait| wait.as_millis()).ok()
    };
    assert_eq!(
        [wait("x"), wait("x"), wait("x"), wait("x")],
        [Some(0), Some(500), Some(1_000), None]
    );
    assert_eq!(wait("y"), Some(0));
    assert_eq!(wait("banned"), None);
    // The second of x gives up: a hole that the next newcomer takes.
    state.give_back(shares[1], at(100), 1);
    let mut shares = Shares::new();
    let again = state.take(Arg::Str("x"), at(100), 1, &mut shares).unwrap();
    assert_eq!(again.as_millis(), 400);
    state.give_back(shares[0], at(100), 1);
    let again = state.take(Arg::Str("x"), at(100), 1, &mut shares).unwrap();
    assert_eq!(again.as_millis(), 400);
}

#[test]
fn a_refusal_says_what_it_counts_and_when_to_come_again() {
    let refusal = |rule: ParamFlowRule, weight: u32| {
        let state = ParamState::new(&rule);
        let mut shares = Shares::new();
        loop {
            if let Err(refusal) = state.take(Arg::Int(1), at(0), weight, &mut shares) {
                let after = refusal.retry_after.map(|after| after.as_millis());
                return (refusal.limit, refusal.observed, after);
            }
        }
    };
    let qps = |count| ParamFlowRule::qps("a", 0, count);
    assert_eq!(refusal(qps(5.0), 1), (5.0, 5.0, Some(1_001)));
    assert_eq!(
        refusal(qps(7.0).duration_in_sec(10), 7),
        (0.7, 0.7, Some(10_001))
    );
    assert_eq!(refusal(qps(5.0), 6), (5.0, 0.0, None));
    // Tokens: what the bucket holds, and what is taken of it.
    let bucket = || qps(7.0).duration_in_sec(10).burst(2).token_bucket();
    assert_eq!(refusal(bucket(), 4), (9.0, 8.0, Some(4_285)));
    assert_eq!(refusal(bucket(), 10), (9.0, 0.0, None));
    assert_eq!(
        refusal(qps(2.0).rate_limiter(600), 1),
        (600.0, 1_000.0, Some(400))
    );
    assert_eq!(
        refusal(ParamFlowRule::concurrency("a", 0, 2.0), 1),
        (2.0, 2.0, None)
    );
}

//! Many threads on the values of one rule: never one call more than the limit,
//! and nothing lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use flowgate_core::{Arg, Timestamp};
use flowgate_rules::param_flow::{ParamFlowRule, ParamState, Shares};

const THREADS: u64 = 8;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + ms)
}

fn take(state: &ParamState, value: Arg<'_>, weight: u32) -> Option<Shares> {
    let mut shares = Shares::new();
    let taken = state.take(value, at(0), weight, &mut shares);
    taken.is_ok().then_some(shares)
}

fn on_all_threads(work: impl Fn(u64) + Sync) {
    thread::scope(|scope| {
        for number in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(number));
        }
    });
}

#[test]
fn no_value_gets_one_call_more_when_all_threads_see_it_first() {
    let tokens = ParamFlowRule::qps("a", 0, 100.0).duration_in_sec(60);
    for rule in [tokens.clone(), tokens.token_bucket()]
        .iter()
        .cycle()
        .take(60)
    {
        let state = ParamState::new(rule);
        let passed: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        on_all_threads(|_| {
            for n in 0..64 * 20 {
                let value = n % 64;
                if take(&state, Arg::Int(value), 1).is_some() {
                    passed[value as usize].fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let passed: Vec<u64> = passed.into_iter().map(AtomicU64::into_inner).collect();
        assert_eq!(passed, [100; 64]);
        let counted: u64 = state.top(64).iter().map(|hot| hot.passed).sum();
        assert_eq!(counted, 6_400);
    }
}

// https://github.com/alibaba/Sentinel/issues/3058
#[test]
fn b080_no_place_is_lost_or_made_up_while_values_come_and_go() {
    const KEYS: usize = 4;
    const LIMIT: u64 = 3;
    let rule = ParamFlowRule::concurrency("a", 0, LIMIT as f64).max_values(40);
    let state = ParamState::new(&rule);
    let inside: [AtomicU64; KEYS] = Default::default();
    on_all_threads(|number| {
        for n in 0..20_000_u64 {
            let key = ((n + number) % KEYS as u64) as usize;
            let value = Arg::Int(key as i128);
            // A newcomer each time, which drives others out.
            let flood = take(&state, Arg::Int(i128::from(number << 32 | n) + 1_000), 1);
            if let Some(shares) = take(&state, value, 1) {
                let now_inside = inside[key].fetch_add(1, Ordering::SeqCst);
                assert!(now_inside < LIMIT, "{now_inside} were inside");
                inside[key].fetch_sub(1, Ordering::SeqCst);
                shares.iter().for_each(|share| state.leave(*share));
            }
            flood.iter().flatten().for_each(|share| state.leave(*share));
        }
    });
    // At most 16 calls are in flight, so there is always somebody to forget.
    assert!(state.evicted() > 100_000, "{}", state.evicted());
    assert_eq!(state.overflowed(), 0);
    for key in 0..KEYS as i128 {
        let places: Vec<_> = (0..=LIMIT)
            .map(|_| take(&state, Arg::Int(key), 1))
            .collect();
        assert_eq!(places.iter().flatten().count() as u64, LIMIT, "{key}");
        let shares = places.iter().flatten().flatten();
        shares.for_each(|share| state.leave(*share));
    }
}

#[test]
fn a_limited_value_stays_limited_whatever_threads_flood_the_table() {
    let rule = ParamFlowRule::qps("a", 0, 5.0)
        .duration_in_sec(60)
        .max_values(32);
    let state = ParamState::new(&rule);
    while take(&state, Arg::Str("heavy"), 1).is_some() {}
    on_all_threads(|number| {
        for n in 0..30_000_u64 {
            take(&state, Arg::Int(i128::from(number << 32 | n)), 1);
            assert_eq!(take(&state, Arg::Str("heavy"), 1), None);
        }
    });
    // Each newcomer drove another out: of 32 values, one is limited and at most
    // seven are held by other threads.
    assert_eq!(state.overflowed(), 0);
    assert_eq!(state.evicted(), THREADS * 30_000 - 31);
}

#[test]
fn what_threads_give_back_is_there_again_to_the_last_token() {
    let rule = ParamFlowRule::qps("a", 0, 1_000.0).duration_in_sec(60);
    for rule in [rule.clone(), rule.token_bucket()] {
        give_back_on_all_threads(&rule);
    }
}

fn give_back_on_all_threads(rule: &ParamFlowRule) {
    let state = ParamState::new(rule);
    let kept = AtomicU64::new(0);
    on_all_threads(|number| {
        for n in 0..2_000 {
            let list = [Arg::Str("x"), Arg::Str("y"), Arg::Str("x")];
            let Some(shares) = take(&state, Arg::List(&list), 2) else {
                continue;
            };
            if (n + number) % 100 == 0 {
                kept.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            for share in shares.into_iter().rev() {
                state.give_back(share, at(0), 2);
            }
        }
    });
    let kept = kept.into_inner();
    let left = |value| {
        (0..)
            .take_while(|_| take(&state, Arg::Str(value), 1).is_some())
            .count() as u64
    };
    assert_eq!((left("x"), left("y")), (1_000 - 4 * kept, 1_000 - 2 * kept));
}

#[test]
fn a_line_gives_no_place_twice() {
    let rule = ParamFlowRule::qps("a", 0, 1_000.0).rate_limiter(3_600_000);
    let state = ParamState::new(&rule);
    let waits = std::sync::Mutex::new(Vec::new());
    on_all_threads(|number| {
        for n in 0..500 {
            let mut shares = Shares::new();
            let wait = state.take(Arg::Int(1), at(0), 1, &mut shares).unwrap();
            if (n + number) % 3 == 0 {
                state.give_back(shares[0], at(0), 1);
            } else {
                waits.lock().unwrap().push(wait);
            }
        }
    });
    let mut waits = waits.into_inner().unwrap();
    let taken = waits.len();
    waits.sort_unstable();
    waits.dedup();
    assert_eq!(waits.len(), taken);
}

//! Permits of one node, and the line for them, one step at a time.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use flowgate_core::node::permits::{
    CALLS_MAX, Crowded, LIMIT_MAX, NoRoom, Permits, Share, Turn, WEIGHT_MAX,
};
use proptest::prelude::*;

const WHOLE: Share = Share::WHOLE;

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn full(permits: u64) -> Result<(), NoRoom> {
    let behind = false;
    Err(NoRoom { permits, behind })
}

fn behind(permits: u64) -> Result<(), NoRoom> {
    let behind = true;
    Err(NoRoom { permits, behind })
}

fn has_come(permits: &Permits, turn: &Turn) -> bool {
    permits.has_come(turn, Waker::noop())
}

/// Takes a turn that has come into flight.
fn go_in(permits: &Permits, turn: &Turn) {
    assert!(has_come(permits, turn));
    permits.enter(Share::PERMITS.rest(), turn.weight()).unwrap();
}

#[test]
fn a_call_takes_one_place_and_as_many_permits_as_it_weighs() {
    let permits = Permits::new();
    assert_eq!(permits.try_take(WHOLE, 3, 5), Ok(()));
    assert_eq!((permits.calls(), permits.permits()), (1, 3));
    assert_eq!(permits.try_take(WHOLE, 3, 5), full(3));
    assert_eq!(permits.try_take(WHOLE, 2, 5), Ok(()));
    assert_eq!((permits.calls(), permits.permits()), (2, 5));
    // Weight 0 takes a place like any call.
    assert_eq!(permits.try_take(WHOLE, 0, 5), Ok(()));
    assert_eq!(permits.try_take(WHOLE, 1, 5), full(5));
    for weight in [3, 2, 0] {
        permits.leave(WHOLE, weight);
    }
    assert_eq!((permits.calls(), permits.permits()), (0, 0));
}

#[test]
fn places_and_permits_are_taken_apart_or_together() {
    let permits = Permits::new();
    assert_eq!(permits.try_enter(2, 2), Ok(1));
    assert_eq!(permits.try_enter(2, 2), Err(1));
    assert_eq!(permits.try_take(Share::PERMITS, 4, 4), Ok(()));
    assert_eq!((permits.calls(), permits.permits()), (1, 4));
    assert_eq!(permits.enter(WHOLE, 7), Ok(2));
    assert_eq!((permits.calls(), permits.permits()), (2, 11));
    permits.leave(Share::PLACE, 4);
    permits.leave(Share::PERMITS, 4);
    permits.leave(WHOLE, 7);
    assert_eq!((permits.calls(), permits.permits()), (0, 0));
}

#[test]
fn a_lowered_limit_counts_on_and_refuses_until_enough_have_left() {
    let permits = Permits::new();
    for _ in 0..10 {
        assert_eq!(permits.try_take(WHOLE, 1, 10), Ok(()));
    }
    for inside in (5..=10).rev() {
        assert_eq!(permits.try_take(WHOLE, 1, 5), full(inside));
        permits.leave(WHOLE, 1);
    }
    assert_eq!(permits.try_take(WHOLE, 1, 5), Ok(()));
    assert_eq!(permits.permits(), 5);
}

#[test]
fn the_heaviest_calls_are_refused_or_leave_no_room_and_go_as_they_came() {
    let permits = Permits::new();
    // Above every limit that there is.
    assert_eq!(permits.try_take(WHOLE, u32::MAX, u64::MAX), full(0));
    assert_eq!(permits.enter(WHOLE, u32::MAX), Ok(1));
    assert_eq!(permits.permits(), WEIGHT_MAX);
    assert_eq!(permits.try_take(WHOLE, 1, u64::MAX), full(WEIGHT_MAX));
    assert_eq!(permits.enter(WHOLE, 1), Ok(2));
    permits.leave(WHOLE, u32::MAX);
    assert_eq!((permits.calls(), permits.permits()), (1, 1));
    let all_but_one = LIMIT_MAX as u32 - 1;
    assert_eq!(permits.try_take(WHOLE, all_but_one + 1, u64::MAX), full(1));
    assert_eq!(permits.try_take(WHOLE, all_but_one, u64::MAX), Ok(()));
}

#[test]
fn more_than_can_be_counted_is_refused_and_changes_nothing() {
    let permits = Permits::new();
    // Each call makes room for the next but keeps its permits.
    let heavy = 1 << 14;
    for _ in 1..heavy {
        permits.enter(WHOLE, u32::MAX).unwrap();
    }
    let calls = heavy - 1;
    let crowded = Err(Crowded { calls: heavy });
    assert_eq!(permits.enter(WHOLE, u32::MAX), crowded);
    assert_eq!(permits.enter(WHOLE, u32::MAX), crowded);
    assert_eq!(permits.calls(), calls);
    assert_eq!(permits.permits(), calls * WEIGHT_MAX);
    for _ in 0..calls {
        permits.leave(WHOLE, u32::MAX);
    }
    assert_eq!((permits.calls(), permits.permits()), (0, 0));

    for _ in 0..CALLS_MAX {
        permits.enter(WHOLE, 0).unwrap();
    }
    let calls = CALLS_MAX + 1;
    assert_eq!(permits.enter(WHOLE, 0), Err(Crowded { calls }));
    assert_eq!(permits.try_enter(0, u64::MAX), Err(CALLS_MAX));
    assert_eq!(permits.try_take(WHOLE, 0, 1), full(0));
    assert_eq!((permits.calls(), permits.permits()), (CALLS_MAX, 0));
}

#[test]
fn who_waits_is_served_in_the_order_of_coming() {
    let permits = Permits::new();
    permits.try_take(WHOLE, 1, 1).unwrap();
    let turns: Vec<Turn> = (0..5).map(|_| permits.line_up(1, 1, 5).unwrap()).collect();
    assert_eq!(permits.line_up(1, 1, 5).unwrap_err(), 5);
    for (n, turn) in turns.iter().enumerate() {
        assert!(!has_come(&permits, turn));
        permits.leave(WHOLE, 1);
        let come: Vec<bool> = turns.iter().map(|turn| has_come(&permits, turn)).collect();
        let expected: Vec<bool> = (0..5).map(|other| other <= n).collect();
        assert_eq!(come, expected);
        // The permit is its own before it has moved.
        assert_eq!((permits.calls(), permits.permits()), (0, 1));
        go_in(&permits, turn);
    }
    permits.leave(WHOLE, 1);
    assert_eq!((permits.calls(), permits.permits()), (0, 0));
}

#[test]
fn a_turn_comes_at_once_if_room_came_in_between() {
    let permits = Permits::new();
    let turn = permits.line_up(2, 3, 1).unwrap();
    assert!(has_come(&permits, &turn));
    assert_eq!((permits.permits(), permits.waiting()), (2, 0));
    permits.leave(Share::PERMITS, 2);
}

#[test]
fn newcomers_do_not_overtake_and_a_heavy_call_at_the_head_is_not_starved() {
    let permits = Permits::new();
    for _ in 0..4 {
        permits.try_take(WHOLE, 1, 4).unwrap();
    }
    let heavy = permits.line_up(3, 4, 9).unwrap();
    let light = permits.line_up(1, 4, 9).unwrap();
    for inside in [3, 2] {
        permits.leave(WHOLE, 1);
        assert_eq!(permits.try_take(WHOLE, 1, 4), behind(inside));
        // Weight 0 takes nothing that anybody waits for.
        assert_eq!(permits.try_take(WHOLE, 0, 4), Ok(()));
        permits.leave(WHOLE, 0);
        assert!(!has_come(&permits, &heavy) && !has_come(&permits, &light));
    }
    permits.leave(WHOLE, 1);
    assert!(has_come(&permits, &heavy) && !has_come(&permits, &light));
    assert_eq!(permits.try_take(WHOLE, 1, 4), full(4));
    permits.leave(WHOLE, 1);
    assert!(has_come(&permits, &light));
    permits.leave(Share::PERMITS, 3);
    permits.leave(Share::PERMITS, 1);
    assert_eq!((permits.calls(), permits.permits()), (0, 0));
}

#[test]
fn a_waiter_that_gives_up_lets_those_behind_it_use_the_room() {
    let permits = Permits::new();
    permits.try_take(WHOLE, 2, 3).unwrap();
    let heavy = permits.line_up(3, 3, 9).unwrap();
    let light = permits.line_up(1, 3, 9).unwrap();
    let last = permits.line_up(1, 3, 9).unwrap();
    assert!(!has_come(&permits, &light));
    assert!(!permits.withdraw(heavy));
    assert!(has_come(&permits, &light) && !has_come(&permits, &last));
    // Granted, and given up: the next one has it.
    permits.step_out(light);
    assert!(has_come(&permits, &last));
    assert!(permits.withdraw(last));
    permits.leave(Share::PERMITS, 1);
    permits.leave(WHOLE, 2);
    assert_eq!((permits.calls(), permits.permits()), (0, 0));
    assert_eq!(permits.try_take(WHOLE, 3, 3), Ok(()));
}

#[test]
fn a_waiter_holds_back_nobody_whose_limit_is_above_its_own() {
    let permits = Permits::new();
    for _ in 0..5 {
        permits.try_take(WHOLE, 1, 5).unwrap();
    }
    let old = permits.line_up(1, 5, 9).unwrap();
    // Raised to 7: newcomers pass, until they have to wait themselves.
    assert_eq!(permits.try_take(WHOLE, 1, 5), full(5));
    assert_eq!(permits.try_take(WHOLE, 1, 7), Ok(()));
    assert_eq!(permits.try_take(WHOLE, 1, 7), Ok(()));
    let new = permits.line_up(1, 7, 9).unwrap();
    permits.leave(WHOLE, 1);
    assert!(has_come(&permits, &new) && !has_come(&permits, &old));
    // Six inside, one of them granted: there is room for one under 7.
    permits.leave(WHOLE, 1);
    assert!(!has_come(&permits, &old));
    assert_eq!(permits.try_take(WHOLE, 1, 7), Ok(()));
    for _ in 0..3 {
        permits.leave(WHOLE, 1);
    }
    assert!(has_come(&permits, &old));
    assert_eq!(permits.permits(), 5);
}

#[test]
fn a_waiter_under_a_lowered_limit_stands_behind_those_of_the_higher_one() {
    let permits = Permits::new();
    for _ in 0..3 {
        permits.try_take(WHOLE, 1, 3).unwrap();
    }
    let old = permits.line_up(3, 3, 9).unwrap();
    let new = permits.line_up(1, 2, 9).unwrap();
    permits.leave(WHOLE, 1);
    permits.leave(WHOLE, 1);
    assert!(!has_come(&permits, &old) && !has_come(&permits, &new));
    permits.leave(WHOLE, 1);
    assert!(has_come(&permits, &old) && !has_come(&permits, &new));
    permits.leave(Share::PERMITS, 3);
    assert!(has_come(&permits, &new));
}

#[test]
fn only_whose_turn_has_come_is_woken_and_by_the_newest_waker() {
    let permits = Permits::new();
    let bells: [Arc<Bell>; 3] = Default::default();
    let wakers: Vec<Waker> = bells
        .iter()
        .map(|bell| Waker::from(Arc::clone(bell)))
        .collect();
    let rung = || bells.each_ref().map(|bell| bell.0.load(Ordering::Relaxed));
    permits.try_take(WHOLE, 2, 2).unwrap();
    let first = permits.line_up(1, 2, 9).unwrap();
    let second = permits.line_up(1, 2, 9).unwrap();
    let third = permits.line_up(1, 2, 9).unwrap();
    for (turn, waker) in [(&first, 0), (&first, 0), (&first, 1), (&third, 2)] {
        assert!(!permits.has_come(turn, &wakers[waker]));
    }
    permits.leave(WHOLE, 2);
    assert_eq!(rung(), [0, 1, 0]);
    permits.step_out(second);
    assert_eq!(rung(), [0, 1, 1]);
    permits.step_out(first);
    permits.step_out(third);
    assert_eq!(rung(), [0, 1, 1]);
    // Wakers of those who are gone are let go.
    drop(wakers);
    assert!(bells.iter().all(|bell| Arc::strong_count(bell) == 1));
}

/// What may happen, with numbers that choose among those there are.
#[derive(Clone, Copy, Debug)]
enum Step {
    Take { weight: u32, limit: u64 },
    ComeIn { weight: u32 },
    LineUp { weight: u32, limit: u64 },
    Leave { which: usize },
    GiveUp { which: usize },
    GoIn { which: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let weight = || prop_oneof![8 => 0_u32..4, 1 => Just(u32::MAX)];
    let limit = || 1_u64..6;
    let which = || 0_usize..8;
    prop_oneof![
        3 => (weight(), limit()).prop_map(|(weight, limit)| Step::Take { weight, limit }),
        1 => weight().prop_map(|weight| Step::ComeIn { weight }),
        4 => (1_u32..4, limit()).prop_map(|(weight, limit)| Step::LineUp { weight, limit }),
        4 => which().prop_map(|which| Step::Leave { which }),
        2 => which().prop_map(|which| Step::GiveUp { which }),
        2 => which().prop_map(|which| Step::GoIn { which }),
    ]
}

/// The same in plain words: a sum, and a list that is gone through anew after
/// each step.
#[derive(Default)]
struct Plain {
    permits: u64,
    waiting: Vec<(usize, u32, u64)>,
    granted: Vec<usize>,
}

impl Plain {
    fn fits(&self, weight: u32, limit: u64) -> bool {
        self.permits + u64::from(weight) <= limit
    }

    fn serve(&mut self) {
        let mut barred = 0;
        for (id, weight, limit) in std::mem::take(&mut self.waiting) {
            if limit > barred && self.fits(weight, limit) {
                self.permits += u64::from(weight);
                self.granted.push(id);
            } else {
                barred = barred.max(limit);
                self.waiting.push((id, weight, limit));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_steps_do_what_the_plain_words_say_and_end_with_nothing(
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let permits = Permits::new();
        let mut plain = Plain::default();
        let mut inside: Vec<u32> = Vec::new();
        let mut turns: Vec<(usize, Turn)> = Vec::new();
        let counted = |weight: u32| u64::from(weight).min(WEIGHT_MAX);
        for (id, step) in steps.into_iter().enumerate() {
            match step {
                Step::Take { weight, limit } => {
                    let barred = plain.waiting.iter().any(|(_, _, theirs)| *theirs >= limit);
                    let expected = match plain.fits(weight, limit) {
                        false => full(plain.permits),
                        true if barred && weight > 0 => behind(plain.permits),
                        true => Ok(()),
                    };
                    prop_assert_eq!(permits.try_take(WHOLE, weight, limit), expected);
                    if expected.is_ok() {
                        plain.permits += u64::from(weight);
                        inside.push(weight);
                    }
                }
                Step::ComeIn { weight } => {
                    permits.enter(WHOLE, weight).unwrap();
                    plain.permits += counted(weight);
                    inside.push(weight);
                }
                Step::LineUp { weight, limit } => {
                    turns.push((id, permits.line_up(weight, limit, 100).unwrap()));
                    plain.waiting.push((id, weight, limit));
                }
                Step::Leave { which } if which < inside.len() => {
                    let weight = inside.swap_remove(which);
                    permits.leave(WHOLE, weight);
                    plain.permits -= counted(weight);
                }
                Step::GiveUp { which } if which < turns.len() => {
                    let (id, turn) = turns.swap_remove(which);
                    let weight = turn.weight();
                    permits.step_out(turn);
                    plain.waiting.retain(|(other, ..)| *other != id);
                    if plain.granted.contains(&id) {
                        plain.permits -= u64::from(weight);
                    }
                }
                Step::GoIn { which } if which < turns.len() => {
                    if has_come(&permits, &turns[which].1) {
                        let (_, turn) = turns.swap_remove(which);
                        go_in(&permits, &turn);
                        inside.push(turn.weight());
                    }
                }
                Step::Leave { .. } | Step::GiveUp { .. } | Step::GoIn { .. } => {}
            }
            plain.serve();
            prop_assert_eq!(permits.permits(), plain.permits);
            prop_assert_eq!(permits.calls(), inside.len() as u64);
            prop_assert_eq!(permits.waiting(), plain.waiting.len());
            for (id, turn) in &turns {
                prop_assert_eq!(has_come(&permits, turn), plain.granted.contains(id));
            }
        }
        for (_, turn) in turns {
            permits.step_out(turn);
        }
        for weight in inside {
            permits.leave(WHOLE, weight);
        }
        prop_assert_eq!((permits.calls(), permits.permits(), permits.waiting()), (0, 0, 0));
    }
}

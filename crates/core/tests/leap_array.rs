//! The leap array through its public face: which window a time finds, what
//! still counts, and what happens at the edges of time.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::time::Duration;

use flowgate_core::leap_array::cell::{Counter, VALUE_MAX};
use flowgate_core::leap_array::passes::PASSES_MAX;
use flowgate_core::leap_array::{
    Borrowed, Bucket, PassCell, Renewal, SAMPLE_COUNT_MAX, Span, Window,
};
use flowgate_core::{LeapArray, MetricBucket, MetricEvent, Timestamp};

const RING_SIZES: [u32; 5] = [1, 2, 10, 60, 120];

fn ms(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A ring of `slots` windows of 100 ms.
fn ring(slots: u32) -> LeapArray<Counter> {
    LeapArray::new(slots, Duration::from_millis(100) * slots).unwrap()
}

fn passes(slots: u32) -> LeapArray<PassCell> {
    LeapArray::new(slots, Duration::from_millis(100) * slots).unwrap()
}

/// The call has to pass, and its place is kept.
#[track_caller]
fn kept<T>(result: Result<T, impl std::fmt::Debug>) {
    result.unwrap();
}

/// Starts and counts of the windows that `windows` yields.
fn shown<'a>(windows: impl Iterator<Item = Window<'a, Counter>>) -> Vec<(u64, u64)> {
    windows
        .map(|window| (window.start().as_millis(), window.get()))
        .collect()
}

// The four cases of the present window.

#[test]
fn an_empty_slot_becomes_the_window_of_the_time_that_asks() {
    for slots in RING_SIZES {
        let ring = ring(slots);
        let window = ring.current(ms(1_234));
        assert_eq!(window.start(), ms(1_200));
        assert_eq!(window.number(), 12);
        assert_eq!(window.get(), 0);
    }
}

#[test]
fn times_of_one_window_find_the_same_counts() {
    for slots in RING_SIZES {
        let ring = ring(slots);
        ring.current(ms(1_200)).add(1);
        ring.current(ms(1_299)).add(2);
        assert_eq!(shown(ring.windows(ms(1_250))), [(1_200, 3)]);
    }
}

#[test]
fn an_expired_slot_starts_from_zero() {
    for slots in RING_SIZES {
        let ring = ring(slots);
        ring.current(ms(1_200)).add(7);
        let later = ms(1_200 + 100 * u64::from(slots));
        assert_eq!(ring.current(later).get(), 0);
        assert_eq!(shown(ring.windows(later)), [(later.as_millis(), 0)]);
    }
}

#[test]
fn a_time_behind_the_newest_is_charged_to_the_newest() {
    for slots in RING_SIZES {
        let ring = ring(slots);
        ring.current(ms(1_200)).add(1);
        ring.current(ms(700)).add(1);
        ring.current(Timestamp::EPOCH).add(1);
        assert_eq!(shown(ring.windows(ms(700))), [(1_200, 3)]);
    }
}

// Which windows count.

#[test]
fn the_previous_window_is_the_one_just_before_and_only_if_it_was_touched() {
    let ring = ring(10);
    assert!(ring.previous(ms(50)).is_none(), "before the first window");
    ring.current(ms(150)).add(4);
    let previous = ring.previous(ms(200)).unwrap();
    assert_eq!((previous.start(), previous.get()), (ms(100), 4));
    assert!(ring.previous(ms(400)).is_none(), "nobody came at 300");
}

#[test]
fn in_a_ring_of_one_window_the_present_one_stands_where_the_previous_would() {
    let ring = ring(1);
    ring.current(ms(150)).add(4);
    let previous = ring.previous(ms(160)).unwrap();
    assert_eq!((previous.start(), previous.get()), (ms(100), 4));
}

#[test]
fn windows_are_in_order_of_time_and_leave_out_what_nobody_touched() {
    let ring = ring(10);
    for (time, n) in [(0, 1), (250, 2), (950, 3)] {
        ring.current(ms(time)).add(n);
    }
    assert_eq!(shown(ring.windows(ms(999))), [(0, 1), (200, 2), (900, 3)]);
    assert_eq!(
        shown(ring.windows(ms(1_000))),
        [(200, 2), (900, 3), (1_000, 0)]
    );
}

/// Closed at the interval itself, as long as nobody has rolled the ring.
#[test]
fn unrolled_a_window_counts_until_it_is_older_than_the_interval() {
    let ring = ring(2);
    ring.current(ms(100)).add(5);
    let table = [
        (100, true),
        (299, true),
        (300, true), // exactly one interval old
        (301, false),
        (9_999, false),
    ];
    for (now, counts) in table {
        assert_eq!(ring.is_deprecated(ms(now), ms(100)), !counts, "at {now}");
        let expected: &[(u64, u64)] = if counts { &[(100, 5)] } else { &[] };
        assert_eq!(shown(ring.windows_unrolled(ms(now))), expected, "at {now}");
    }
    // Looking has not rolled it; touching the present window does.
    assert_eq!(shown(ring.windows_unrolled(ms(300))), [(100, 5)]);
    ring.current(ms(300));
    assert_eq!(shown(ring.windows_unrolled(ms(300))), [(300, 0)]);
}

#[test]
fn a_window_ahead_of_the_time_is_not_deprecated() {
    let ring = ring(2);
    assert!(!ring.is_deprecated(ms(0), ms(5_000)));
}

#[test]
fn the_valid_head_is_the_oldest_window_of_the_ring_at_that_time() {
    let ring = ring(10);
    ring.current(ms(0)).add(1);
    ring.current(ms(100)).add(2);
    let head = |now| ring.valid_head(ms(now)).map(|w| (w.start(), w.get()));
    assert_eq!(head(899), None, "the ring reaches back before the epoch");
    assert_eq!(head(900), Some((ms(0), 1)));
    assert_eq!(head(1_000), Some((ms(100), 2)));
    assert_eq!(head(1_100), None, "nobody came at 200");
}

#[test]
fn a_window_is_found_by_any_time_in_it_while_the_ring_has_it() {
    let ring = ring(2);
    ring.current(ms(100)).add(3);
    let at = |time| ring.window_at(ms(time)).map(|w| w.get());
    assert_eq!(
        [at(99), at(100), at(199), at(200)],
        [None, Some(3), Some(3), None]
    );
    ring.current(ms(300));
    assert_eq!(at(150), None, "its slot was taken over");
}

#[test]
fn after_an_idle_gap_of_any_length_nothing_old_is_left() {
    for slots in RING_SIZES {
        // 4,095 laps: the tag that tells laps apart comes round again.
        for laps in [1, 2, 4_094, 4_095, 4_096, 8_190] {
            let ring = ring(slots);
            for number in 0..u64::from(slots) {
                ring.current(ms(100 * number)).add(9);
            }
            let gap = 100 * u64::from(slots) * laps;
            for number in 0..u64::from(slots) {
                let now = ms(gap + 100 * number);
                assert_eq!(ring.current(now).get(), 0, "{slots} slots, {laps} laps");
            }
            let last = ms(gap + 100 * u64::from(slots - 1));
            let total: u64 = ring.windows(last).map(|w| w.get()).sum();
            assert_eq!(total, 0, "{slots} slots, {laps} laps");
        }
    }
}

#[test]
fn a_writer_that_holds_a_window_while_it_expires_counts_in_the_newest() {
    for slots in RING_SIZES {
        let ring = ring(slots);
        let mut held = ring.current(ms(100));
        let later = ms(100 + 100 * u64::from(slots));
        ring.current(later).add(1);
        held.add(1);
        assert_eq!(shown(ring.windows(later)), [(later.as_millis(), 2)]);
    }
}

/// A bucket of two counters.
#[derive(Default)]
struct Results {
    good: Counter,
    bad: Counter,
}

impl Bucket for Results {
    type Beside = ();

    fn renew(&self, renewal: &Renewal<'_>) {
        self.good.renew(renewal);
        self.bad.renew(renewal);
    }
}

#[test]
fn counters_of_one_bucket_are_told_apart_and_move_on_to_the_newest_window() {
    for slots in RING_SIZES {
        let interval = Duration::from_millis(100) * slots;
        let ring: LeapArray<Results> = LeapArray::new(slots, interval).unwrap();
        let mut held = ring.current(ms(100));
        held.add_to(|results| &results.good, 3);
        held.add_to(|results| &results.bad, 1);
        let counts = |window: &Window<'_, Results>| {
            let bad = window.count_of(|results| &results.bad);
            (window.count_of(|results| &results.good), bad)
        };
        assert_eq!(counts(&held), (3, 1));
        ring.current(ms(100) + interval);
        assert_eq!(counts(&held), (0, 0), "its slot was taken over");
        held.add_to(|results| &results.bad, 2);
        assert_eq!(held.start(), ms(100) + interval);
        assert_eq!(counts(&held), (0, 2));
    }
}

// The edges of time and of counts.

// https://github.com/alibaba/sentinel-golang/pull/422: the number of a window
// was cut to the machine's word before the modulo.
#[test]
fn b042_what_is_recorded_far_in_the_future_is_read_back() {
    let year_2200 = 7_258_118_400_000;
    let numbers = [1, 2, 3, 1_000].map(|k| k << 31);
    let starts = [year_2200, 1 << 32].into_iter().chain(numbers);
    for start in starts {
        let ring: LeapArray<Counter> = LeapArray::new(10, Duration::from_millis(10)).unwrap();
        for time in start - 12..start + 12 {
            ring.current(ms(time)).add(time % 7 + 1);
            assert_eq!(ring.window_at(ms(time)).unwrap().get(), time % 7 + 1);
        }
        let expected: Vec<_> = (start + 2..start + 12).map(|t| (t, t % 7 + 1)).collect();
        assert_eq!(shown(ring.windows(ms(start + 11))), expected);
    }
}

#[test]
fn the_end_of_time_is_a_time_like_any_other() {
    let end = Timestamp::from_nanos(u64::MAX);
    for (slots, interval_ns) in [(1, 1), (2, 2), (3, 30), (1, u64::MAX), (60, 60_000_000_000)] {
        let interval = Duration::from_nanos(interval_ns);
        let ring: LeapArray<Counter> = LeapArray::new(slots, interval).unwrap();
        ring.current(end).add(1);
        ring.current(end).add(1);
        ring.current(ms(1)).add(1);
        assert_eq!(ring.windows(end).map(|w| w.get()).sum::<u64>(), 3);
        let _ = (ring.previous(end), ring.valid_head(end));
        assert!(ring.windows_unrolled(end).count() <= 1);
        assert!(ring.window_at(end).is_some());

        let ring: LeapArray<PassCell> = LeapArray::new(slots, interval).unwrap();
        let (span, borrowed) = (Span::new(1, u64::from(slots)), Borrowed::new(120));
        let taken = ring.reserve(end, 1, span, 1, Some(&borrowed)).unwrap();
        assert_eq!(taken.sum(), 1);
        let full = ring.reserve(end, 1, span, 1, Some(&borrowed)).unwrap_err();
        assert_eq!(full.sum, 1);
        let _ = ring.borrow(end, 1, span, 2, Duration::MAX, &borrowed);
        ring.give_back(taken);
    }
}

#[test]
fn a_sum_stops_at_the_largest_count_and_does_not_touch_the_window() {
    let ring = ring(1);
    let mut window = ring.current(ms(0));
    window.add(u64::MAX);
    window.add(5);
    assert_eq!(window.get(), VALUE_MAX);
    assert_eq!(ring.current(ms(100)).get(), 0);
}

#[test]
fn an_endless_response_time_leaves_the_other_figures_alone() {
    let ring: LeapArray<MetricBucket> = LeapArray::new(1, Duration::from_secs(1)).unwrap();
    let mut window = ring.current(ms(0));
    window.add_rt(u64::MAX);
    window.add_rt(30);
    window.add(MetricEvent::Success, 2);
    window.note_concurrency(3);
    assert_eq!(window.get(MetricEvent::ResponseTime), VALUE_MAX);
    assert_eq!(window.get(MetricEvent::Success), 2);
    assert_eq!(window.bucket().rt_min_ns(window.lap()), Some(30));
    assert_eq!(window.bucket().concurrency_max(window.lap()), 3);
}

#[test]
fn a_ring_that_cannot_be_is_refused_with_the_reason() {
    let table = [
        (
            0,
            1_000,
            "0 windows in 1µs: there has to be at least one window",
        ),
        (
            3,
            1_000,
            "3 windows in 1µs: the windows do not divide the interval into whole nanoseconds",
        ),
        (1, 0, "1 windows in 0ns: the interval is empty"),
        (
            SAMPLE_COUNT_MAX + 1,
            1_000,
            "86401 windows in 1µs: more than 86400 windows; take fewer, longer ones",
        ),
    ];
    for (slots, nanos, message) in table {
        let error = LeapArray::<Counter>::new(slots, Duration::from_nanos(nanos)).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn a_ring_says_how_many_windows_it_has_and_how_long_they_are() {
    for slots in RING_SIZES {
        let ring = ring(slots);
        assert_eq!(ring.sample_count(), slots as usize);
        assert_eq!(ring.window_length(), Duration::from_millis(100));
        assert_eq!(ring.interval(), Duration::from_millis(100) * slots);
    }
}

// Spans.

#[test]
fn a_span_longer_than_the_ring_means_the_whole_ring() {
    let ring = passes(2);
    let span = Span::new(u64::MAX, u64::MAX);
    for time in [0, 100] {
        kept(ring.reserve(ms(time), 1, span, 2, None));
    }
    assert_eq!(ring.reserve(ms(150), 1, span, 2, None).unwrap_err().sum, 2);
    kept(ring.reserve(ms(200), 1, span, 2, None));
    assert_eq!(ring.passes_in(ms(200), span, None), 2);
}

#[test]
fn a_span_of_groups_covers_whole_groups_of_boxes() {
    let ring = passes(8);
    // Two windows of 300 ms each.
    let span = Span::new(3, 2);
    let reserve = |time| ring.reserve(ms(time), 1, span, 1, None);
    kept(reserve(200));
    assert_eq!(reserve(599).unwrap_err().sum, 1);
    assert_eq!(
        reserve(599).unwrap_err().retry_after,
        Some(Duration::from_millis(1))
    );
    kept(reserve(600));
}

#[test]
fn passes_that_nothing_limits_count_against_those_that_are_limited() {
    let ring = passes(2);
    let span = Span::new(1, 2);
    let taken = ring.pass(ms(0), 3);
    assert_eq!(taken.amount(), 3);
    assert_eq!(ring.reserve(ms(100), 1, span, 3, None).unwrap_err().sum, 3);
    ring.give_back(taken);
    kept(ring.reserve(ms(100), 3, span, 3, None));
}

/// Whatever the limit, and whether or not there is one.
#[test]
fn a_window_stops_at_the_most_passes_that_fit_it() {
    let ring = passes(1);
    let span = Span::new(1, 1);
    let reserve = |n| ring.reserve(ms(0), n, span, u64::MAX, None);
    let sum = |time| ring.passes_in(ms(time), span, None);
    let all = [0; 5].map(|_| ring.pass(ms(0), u32::MAX));
    assert_eq!(sum(0), PASSES_MAX);
    assert_eq!(reserve(1).unwrap_err().sum, PASSES_MAX);
    ring.give_back(all[0]);
    assert_eq!(reserve(u32::MAX).unwrap().sum(), PASSES_MAX);
    assert_eq!(reserve(1).unwrap_err().sum, PASSES_MAX);
    kept(reserve(0));
    for taken in all {
        ring.give_back(taken);
    }
    assert_eq!(sum(0), 0, "more was given back than was counted");
    assert_eq!(sum(100), 0);
    kept(ring.reserve(ms(100), u32::MAX, span, u64::MAX, None));
    assert_eq!(sum(100), u64::from(u32::MAX));
}

#[test]
fn what_is_given_back_after_its_window_has_left_changes_nothing() {
    let ring = passes(2);
    let span = Span::new(1, 2);
    let taken = ring.reserve(ms(0), 2, span, 2, None).unwrap();
    kept(ring.reserve(ms(200), 2, span, 2, None));
    ring.give_back(taken);
    assert_eq!(ring.passes_in(ms(200), span, None), 2);
}

/// The search for the time to come again looks at each window once.
#[test]
fn a_refusal_by_a_ring_of_a_day_of_seconds_is_found_in_one_pass() {
    let interval = Duration::from_secs(u64::from(SAMPLE_COUNT_MAX));
    let ring: LeapArray<PassCell> = LeapArray::new(SAMPLE_COUNT_MAX, interval).unwrap();
    let span = Span::new(1, u64::from(SAMPLE_COUNT_MAX));
    kept(ring.reserve(ms(0), 1, span, 1, None));
    let full = ring.reserve(ms(1_000), 1, span, 1, None).unwrap_err();
    assert_eq!(full.retry_after, Some(interval - Duration::from_secs(1)));
}

#[test]
fn asking_takes_nothing_and_answers_as_reserving_would() {
    let ring = passes(2);
    let (span, borrowed) = (Span::new(1, 2), Borrowed::new(2));
    let ask = |time, n| ring.probe(ms(time), n, span, 4, Some(&borrowed), None);
    kept(ask(50, 4));
    assert_eq!(ring.passes_in(ms(50), span, Some(&borrowed)), 0);
    let (_, wait) = ring
        .borrow(ms(50), 3, span, 4, Duration::from_secs(1), &borrowed)
        .unwrap();
    assert_eq!(wait, Duration::from_millis(50));
    // There is room now, but not in the window that was borrowed from.
    let refused = ask(50, 2).unwrap_err();
    let same = ring.reserve(ms(50), 2, span, 4, Some(&borrowed));
    assert_eq!(same.unwrap_err(), refused);
    assert_eq!(refused.sum, 3);
    assert_eq!(refused.retry_after, Some(Duration::from_millis(250)));
    kept(ask(50, 1));
}

// Borrowing.

#[test]
fn a_loan_counts_when_its_window_begins_and_no_sooner() {
    let ring = passes(2);
    let (span, borrowed) = (Span::new(1, 2), Borrowed::new(2));
    let sum = |time| ring.passes_in(ms(time), span, Some(&borrowed));
    kept(ring.reserve(ms(0), 2, span, 2, Some(&borrowed)));
    let (loan, wait) = ring
        .borrow(ms(130), 1, span, 2, Duration::from_millis(100), &borrowed)
        .unwrap();
    assert_eq!((loan.window(), wait), (2, Duration::from_millis(70)));
    assert_eq!(borrowed.waiting(span, 1), 1);
    assert_eq!([sum(150), sum(200), sum(399), sum(400)], [2, 1, 1, 0]);
    assert_eq!(borrowed.waiting(span, 4), 0);
}

#[test]
fn borrowing_stops_at_the_limit_at_the_longest_wait_and_is_given_back() {
    let ring = passes(2);
    let (span, borrowed) = (Span::new(1, 2), Borrowed::new(2));
    let borrow = |time, n, wait| {
        let wait = Duration::from_millis(wait);
        ring.borrow(ms(time), n, span, 2, wait, &borrowed)
    };
    kept(ring.reserve(ms(100), 2, span, 2, Some(&borrowed)));
    // The next window is still full of the present one's passes.
    assert!(borrow(150, 1, 150).is_err(), "150 ms is not less than 150");
    let (loan, wait) = borrow(150, 2, 151).unwrap();
    assert_eq!((loan.window(), wait), (3, Duration::from_millis(150)));
    assert!(borrow(150, 1, 1_000).is_err(), "all is lent");
    ring.repay(&borrowed, loan);
    assert!(borrow(150, 3, 1_000).is_err(), "more than the limit");
    assert!(borrow(150, 1, 1_000).is_ok());
}

/// An ordinary call would have had room in its own window.
#[test]
fn an_ordinary_call_does_not_take_what_was_lent_from_the_next_window() {
    let ring = passes(2);
    let (span, borrowed) = (Span::new(1, 2), Borrowed::new(2));
    let reserve = |time| ring.reserve(ms(time), 1, span, 2, Some(&borrowed));
    kept(reserve(0));
    kept(reserve(0));
    let patient = Duration::from_secs(1);
    for _ in 0..2 {
        kept(ring.borrow(ms(150), 1, span, 2, patient, &borrowed));
    }
    for time in [150, 200, 399] {
        assert_eq!(reserve(time).unwrap_err().sum, 2, "at {time}");
    }
    kept(reserve(400));
}

/// A reading behind the newest window would make the wait too long.
#[test]
fn a_borrower_whose_clock_went_back_waits_from_the_newest_window_on() {
    let ring = passes(2);
    let (span, borrowed) = (Span::new(1, 2), Borrowed::new(2));
    kept(ring.reserve(ms(900), 1, span, 1, Some(&borrowed)));
    let (loan, wait) = ring
        .borrow(ms(10), 1, span, 1, Duration::from_millis(201), &borrowed)
        .unwrap();
    assert_eq!((loan.window(), wait), (11, Duration::from_millis(200)));
}

/// The word of a window to come holds 32 bits of borrowed passes.
#[test]
fn no_more_is_lent_than_can_be_written_down() {
    let ring = passes(2);
    let (span, borrowed) = (Span::new(1, 2), Borrowed::new(2));
    let borrow = |n| ring.borrow(ms(0), n, span, u64::MAX, Duration::MAX, &borrowed);
    let (first, _) = borrow(u32::MAX - 1).unwrap();
    assert!(borrow(2).is_err());
    let (second, _) = borrow(1).unwrap();
    assert!(borrow(1).is_err());
    assert_eq!(borrowed.waiting(span, 0), u64::from(u32::MAX));
    // Booked unchecked, it stops there too, and the next window is not touched.
    let _ = ring.book(&borrowed, first.window(), 7);
    assert_eq!(borrowed.waiting(span, 0), u64::from(u32::MAX));
    ring.repay(&borrowed, first);
    ring.repay(&borrowed, second);
    assert_eq!(borrowed.waiting(span, 0), 0);
}

/// A window far ahead can be booked; borrowing then refuses, and ends.
#[test]
fn a_booking_far_ahead_does_not_make_a_borrower_turn_in_circles() {
    let ring = passes(2);
    let (span, borrowed) = (Span::new(1, 2), Borrowed::new(2));
    let loan = ring.book(&borrowed, u64::MAX, 1);
    assert_eq!(loan.window(), u64::MAX);
    let patient = Duration::from_secs(1);
    assert!(ring.borrow(ms(0), 1, span, 2, patient, &borrowed).is_err());
    kept(ring.reserve(ms(0), 2, span, 2, Some(&borrowed)));
}

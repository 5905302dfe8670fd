//! The kept sum of sealed windows: never too small while calls meet, and never
//! too large for who comes after a giving back.

use flowgate_core::leap_array::SlidingWindow;
use loom::sync::Arc;
use loom::thread;

use super::{WIDTH, at, model};

fn window(boxes: u32) -> Arc<SlidingWindow> {
    Arc::new(SlidingWindow::new(boxes, WIDTH * boxes).expect("boxes of 10 ns"))
}

fn passes(window: &SlidingWindow, number: u64, limit: u64) -> bool {
    window.reserve(at(number), 1, limit).is_ok()
}

/// All is quiet: what the window says is what there is room for.
fn is_exact(window: &SlidingWindow, number: u64, passed: u64, limit: u64) {
    assert_eq!(window.passes(at(number)), passed);
    assert_eq!(passes(window, number, limit), passed < limit);
}

/// One adds up and keeps what the other takes, in any order. Fails if a sum is
/// kept before all windows are sealed: the call that is late for window 1 then
/// passes there unseen.
#[test]
fn a_kept_sum_has_what_passed_before_its_window_was_sealed() {
    model(3, || {
        let window = window(2);
        // Opened before, as this is not about that.
        window.give_back(window.reserve(at(1), 1, 1).expect("empty"));
        let late = Arc::clone(&window);
        let late = thread::spawn(move || u64::from(passes(&late, 1, 2)));
        let mine = u64::from(passes(&window, 2, 2));
        assert_eq!(late.join().unwrap() + mine, 2);
        is_exact(&window, 2, 2, 2);
    });
}

#[test]
fn three_calls_of_which_one_keeps_the_sum_take_exactly_the_limit() {
    model(1, || {
        let window = window(2);
        assert!(passes(&window, 1, 9));
        let calls: Vec<_> = [2, 2]
            .into_iter()
            .map(|number| {
                let window = Arc::clone(&window);
                thread::spawn(move || u64::from(passes(&window, number, 3)))
            })
            .collect();
        let mine = u64::from(passes(&window, 1, 3));
        let theirs: u64 = calls.into_iter().map(|call| call.join().unwrap()).sum();
        assert_eq!(mine + theirs, 2);
        is_exact(&window, 2, 3, 3);
    });
}

/// Fails if a giving back does not forget, or if a sum is kept whatever has been
/// given back since its word was seen.
#[test]
fn a_sum_from_before_a_giving_back_is_not_kept() {
    model(3, || {
        let window = window(2);
        let taken = window.reserve(at(1), 1, 1).expect("empty");
        let other = Arc::clone(&window);
        let call = thread::spawn(move || u64::from(passes(&other, 2, 1)));
        window.give_back(taken);
        let passed = call.join().unwrap();
        is_exact(&window, 2, passed, 1);
    });
}

/// The window that something is taken back from was sealed before, so whoever
/// adds up in a newer one only reads it. Fails if the head is loaded instead of
/// looked up by a read-modify-write: the sum before window 2 is then forgotten,
/// and that before window 3 kept.
#[test]
fn a_giving_back_finds_the_newest_window() {
    model(3, || {
        let window = window(3);
        let taken = window.reserve(at(1), 1, 1).expect("empty");
        assert!(!passes(&window, 2, 1));
        let other = Arc::clone(&window);
        let call = thread::spawn(move || u64::from(passes(&other, 3, 1)));
        window.give_back(taken);
        let passed = call.join().unwrap();
        is_exact(&window, 3, passed, 1);
    });
}

/// Fails if the newest window is not stamped before its sum is forgotten: a slow
/// renewal then sets back the count by which a stale sum is known.
#[test]
fn two_that_open_a_window_and_one_that_gives_back_leave_no_stale_sum() {
    model(1, || {
        let window = window(3);
        let taken = window.reserve(at(1), 1, 1).expect("empty");
        assert!(!passes(&window, 2, 1));
        let calls: Vec<_> = [3, 3]
            .into_iter()
            .map(|number| {
                let window = Arc::clone(&window);
                thread::spawn(move || u64::from(passes(&window, number, 1)))
            })
            .collect();
        window.give_back(taken);
        let passed = calls.into_iter().map(|call| call.join().unwrap()).sum();
        is_exact(&window, 3, passed, 1);
    });
}

/// Two give back and one adds up. Fails if the count of givings back does not
/// go up.
#[test]
fn two_givings_back_and_a_call_leave_no_stale_sum() {
    model(2, || {
        let window = window(2);
        let taken = [1, 1].map(|n| window.reserve(at(1), n, 2).expect("empty"));
        let back: Vec<_> = taken
            .into_iter()
            .map(|taken| {
                let window = Arc::clone(&window);
                thread::spawn(move || window.give_back(taken))
            })
            .collect();
        let passed = u64::from(passes(&window, 2, 2));
        back.into_iter().for_each(|back| back.join().unwrap());
        is_exact(&window, 2, passed, 1);
    });
}

/// The slot of the sum is taken over while it is kept. Fails if a sum is kept
/// without a look at the lap.
#[test]
fn a_sum_kept_late_is_not_that_of_a_newer_window() {
    model(2, || {
        let window = window(2);
        assert!(passes(&window, 1, 1));
        let other = Arc::clone(&window);
        let newer = thread::spawn(move || passes(&other, 4, 1));
        let late = passes(&window, 2, 1);
        // The late one may be charged to window 4, and then be first.
        assert!(newer.join().unwrap() != late);
        is_exact(&window, 4, 1, 1);
    });
}

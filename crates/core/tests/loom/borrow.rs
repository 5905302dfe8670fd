//! Borrowing against ordinary calls.

use std::time::Duration;

use flowgate_core::leap_array::{Borrowed, Full, Span, Taken};
use loom::sync::Arc;
use loom::thread;

use super::{WIDTH, at, model, open, passes};

/// Long enough for a borrower to wait for any window.
const PATIENT: Duration = Duration::from_secs(1);

/// The window borrowed from still holds the present one, so at limit one there
/// is room for one of them. Fails if a borrower does not confirm.
#[test]
fn of_a_borrower_and_an_ordinary_call_exactly_one_gets_the_last_place() {
    model(3, || {
        let ring = passes(2);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        open(&ring, span);
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let ordinary = thread::spawn(move || r.reserve(at(1), 1, span, 1, Some(&b)).is_ok());
        let loan = ring.borrow(at(1), 1, span, 1, WIDTH, &borrowed).is_ok();
        let ordinary = ordinary.join().unwrap();
        assert!(loan != ordinary, "loan {loan}, ordinary {ordinary}");
        assert_eq!(ring.passes_in(at(2), span, Some(&borrowed)), 1);
    });
}

/// The ordinary call arrives in the window that is being borrowed from.
#[test]
fn a_borrower_and_a_call_of_the_window_it_borrows_from_hold_the_limit() {
    model(2, || {
        let ring = passes(2);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        open(&ring, span);
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let ordinary = thread::spawn(move || r.reserve(at(2), 1, span, 1, Some(&b)).is_ok());
        let _ = ring.borrow(at(1), 1, span, 1, PATIENT, &borrowed);
        let _ = ordinary.join().unwrap();
        assert!(ring.passes_in(at(2), span, Some(&borrowed)) <= 1);
        assert!(ring.passes_in(at(3), span, Some(&borrowed)) <= 1);
    });
}

/// Of two borrowers at limit one, one waits in vain: never both, never none.
#[test]
fn of_two_borrowers_exactly_one_gets_the_last_place() {
    model(3, || {
        let ring = passes(2);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        open(&ring, span);
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let other = thread::spawn(move || r.borrow(at(1), 1, span, 1, PATIENT, &b).is_ok());
        let mine = ring.borrow(at(1), 1, span, 1, PATIENT, &borrowed).is_ok();
        let other = other.join().unwrap();
        assert!(!(mine && other));
        assert_eq!(
            borrowed.waiting(span, 1),
            u64::from(mine) + u64::from(other)
        );
    });
}

/// One pass is given back and taken again while somebody borrows: the word of the
/// window is then as it was, though in between there was room. Fails if a
/// borrower, or an ordinary caller that looks ahead, counts the present window
/// anew instead of by the word that it will swap.
#[test]
fn a_borrower_does_not_lend_what_was_free_for_a_moment_only() {
    model(3, || {
        let ring = passes(2);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        open(&ring, span);
        let held = ring.reserve(at(1), 1, span, 1, None).expect("all is free");
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let ordinary = thread::spawn(move || {
            r.give_back(held);
            r.reserve(at(1), 1, span, 1, Some(&b)).is_ok()
        });
        let loan = ring.borrow(at(1), 1, span, 1, WIDTH, &borrowed).is_ok();
        let ordinary = ordinary.join().unwrap();
        assert!(!(loan && ordinary), "both have it");
        assert!(ring.passes_in(at(2), span, Some(&borrowed)) <= 1);
    });
}

/// A borrower goes ahead early, by its clock, while another call is in the
/// window borrowed from. Fails if a caller does not look for unsettled amounts
/// after it has added up.
#[test]
fn a_borrower_that_goes_ahead_early_is_never_out_of_the_count() {
    model(3, || {
        let ring = passes(2);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        let (loan, _) = ring
            .borrow(at(1), 1, span, 1, WIDTH, &borrowed)
            .expect("all is free");
        ring.current(at(2));
        let b = Arc::clone(&borrowed);
        let early = thread::spawn(move || b.go_early(loan));
        let refused = ring.reserve(at(2), 1, span, 1, Some(&borrowed));
        assert!(refused.is_err());
        early.join().unwrap();
        assert_eq!(ring.passes_in(at(2), span, Some(&borrowed)), 1);
    });
}

/// Fails if amounts are taken from the early ones before they are added to the
/// firm ones.
#[test]
fn two_callers_that_settle_one_early_loan_count_it_once() {
    model(2, || {
        let ring = passes(2);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        let (loan, _) = ring
            .borrow(at(1), 1, span, 1, WIDTH, &borrowed)
            .expect("all is free");
        borrowed.go_early(loan);
        // Opened before, as this is not about that; it settles nothing.
        ring.current(at(2));
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let other = thread::spawn(move || r.reserve(at(2), 1, span, 1, Some(&b)).is_ok());
        assert!(ring.reserve(at(2), 1, span, 1, Some(&borrowed)).is_err());
        assert!(!other.join().unwrap());
        assert_eq!(borrowed.amount(2), 1);
    });
}

/// A node's ring is longer than its span, so the borrower's own window is not
/// always among those that a later call seals. Fails if a borrower does not
/// look at the head again after it has shown its amount.
#[test]
fn a_borrower_overtaken_by_the_window_it_borrows_from_does_not_exceed_it() {
    model(3, || {
        let ring = passes(4);
        let borrowed = Arc::new(Borrowed::new(1));
        let span = Span::new(1, 1);
        open(&ring, span);
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let ordinary = thread::spawn(move || r.reserve(at(2), 1, span, 1, Some(&b)).is_ok());
        let _ = ring.borrow(at(1), 1, span, 1, PATIENT, &borrowed);
        let _ = ordinary.join().unwrap();
        assert!(ring.passes_in(at(2), span, Some(&borrowed)) <= 1);
        assert!(ring.passes_in(at(3), span, Some(&borrowed)) <= 1);
    });
}

/// Fails if a late borrower may overwrite the amount of a newer window.
#[test]
fn a_borrower_that_is_laps_late_does_not_erase_a_newer_loan() {
    model(3, || {
        let ring = passes(4);
        let borrowed = Arc::new(Borrowed::new(1));
        let span = Span::new(1, 1);
        // Windows 2 and 5 share a word of `Borrowed`: it has three.
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let late = thread::spawn(move || {
            let _ = r.borrow(at(1), 1, span, 1, WIDTH, &b);
        });
        let newer = ring.borrow(at(4), 1, span, 1, WIDTH, &borrowed);
        late.join().unwrap();
        assert_eq!(borrowed.amount(5), u64::from(newer.is_ok()));
    });
}

/// The place that a call asks for is on loan, and the loan is forgotten while the
/// call sleeps: a newer one has taken its word. Nobody has sealed the call's window
/// by then. Fails if it does not look for a newer head after it has added up.
#[test]
fn a_call_that_sleeps_until_a_loan_of_its_window_is_forgotten_does_not_take_it() {
    model(2, || {
        let ring = passes(4);
        let borrowed = Arc::new(Borrowed::new(1));
        let span = Span::new(1, 1);
        let lent = ring.borrow(at(1), 1, span, 1, PATIENT, &borrowed);
        assert_eq!(lent.expect("all is free").0.window(), 2);
        ring.current(at(2));
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let late = thread::spawn(move || window_of(r.reserve(at(2), 1, span, 1, Some(&b))));
        // Windows 2 and 5 share a word of `Borrowed`: it has three.
        let newer = ring.borrow(at(4), 1, span, 1, PATIENT, &borrowed);
        assert!(newer.is_ok_and(|(loan, _)| loan.window() == 5));
        assert_ne!(late.join().unwrap(), Some(2));
    });
}

/// The same of a loan in the window after the call's own, which its pass would
/// exceed. Fails if the head is looked at before these sums.
#[test]
fn a_call_that_sleeps_until_a_loan_ahead_of_it_is_forgotten_does_not_exceed_it() {
    model(2, || {
        let ring = passes(8);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        ring.current(at(2));
        let lent = ring.borrow(at(2), 1, span, 1, PATIENT, &borrowed);
        assert_eq!(lent.expect("all is free").0.window(), 3);
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let late = thread::spawn(move || window_of(r.reserve(at(2), 1, span, 1, Some(&b))));
        // Windows 3 and 8 share a word of `Borrowed`: it has five.
        let _ = ring.borrow(at(7), 1, span, 1, PATIENT, &borrowed);
        assert_ne!(late.join().unwrap(), Some(2));
    });
}

fn window_of(taken: Result<Taken, Full>) -> Option<u64> {
    let [number, _] = taken.ok()?.to_words();
    Some(number)
}

/// Two borrow and one passes, at limit two: all of the window to come is taken,
/// and no more. Fails if a borrower does not confirm.
#[test]
fn of_two_borrowers_and_an_ordinary_call_two_get_the_last_two_places() {
    model(1, || {
        let ring = passes(2);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        open(&ring, span);
        let borrowers: Vec<_> = [(); 2]
            .into_iter()
            .map(|()| {
                let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
                thread::spawn(move || r.borrow(at(1), 1, span, 2, WIDTH, &b).is_ok())
            })
            .collect();
        let ordinary = ring.reserve(at(1), 1, span, 2, Some(&borrowed)).is_ok();
        let lent = borrowers.into_iter().map(|b| b.join().unwrap());
        let taken = lent.filter(|lent| *lent).count() as u64 + u64::from(ordinary);
        // A borrower that is about to take its amount out again may refuse one.
        assert!((1..=2).contains(&taken), "{taken}");
        assert_eq!(ring.passes_in(at(2), span, Some(&borrowed)), taken);
    });
}

/// A borrower goes ahead early while two others come. Fails if the early amount
/// is taken out before it is added to the firm ones.
#[test]
fn two_calls_and_a_borrower_that_goes_ahead_count_its_loan_once() {
    model(1, || {
        let ring = passes(2);
        let borrowed = Arc::new(Borrowed::new(2));
        let span = Span::new(1, 2);
        let (loan, _) = ring
            .borrow(at(1), 1, span, 2, WIDTH, &borrowed)
            .expect("all is free");
        ring.current(at(2));
        let b = Arc::clone(&borrowed);
        let early = thread::spawn(move || b.go_early(loan));
        let (r, b) = (Arc::clone(&ring), Arc::clone(&borrowed));
        let other = thread::spawn(move || r.reserve(at(2), 1, span, 2, Some(&b)).is_ok());
        let mine = ring.reserve(at(2), 1, span, 2, Some(&borrowed)).is_ok();
        early.join().unwrap();
        let passed = u64::from(mine) + u64::from(other.join().unwrap());
        assert!(passed <= 1, "the loan leaves room for one");
        assert_eq!(ring.passes_in(at(2), span, Some(&borrowed)), passed + 1);
    });
}

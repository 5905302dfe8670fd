//! Borrowing against ordinary calls.

use std::time::Duration;

use flowgate_core::leap_array::{Borrowed, LeapArray, Loan, PassCell, Span, Taken};
use loom::sync::Arc;
use loom::thread;

use super::{WIDTH, at, model, open, passes};

/// Long enough for a borrower to wait for any window.
const PATIENT: Duration = Duration::from_secs(1);

/// A ring, and what is borrowed from its windows to come.
struct Lending {
    ring: Arc<LeapArray<PassCell>>,
    borrowed: Borrowed,
    span: Span,
}

impl Lending {
    /// A ring of so many windows, of which a span has some.
    fn new(ring: u32, span: u64) -> Arc<Self> {
        Arc::new(Lending {
            ring: passes(ring),
            borrowed: Borrowed::new(span),
            span: Span::new(1, span),
        })
    }

    /// The same with window 1 open.
    fn opened(ring: u32, span: u64) -> Arc<Self> {
        let lending = Self::new(ring, span);
        open(&lending.ring, lending.span);
        lending
    }

    /// An ordinary call in `window`.
    fn takes(&self, window: u64, limit: u64) -> Option<Taken> {
        let borrowed = Some(&self.borrowed);
        let taken = self.ring.reserve(at(window), 1, self.span, limit, borrowed);
        taken.ok()
    }

    /// A borrower that comes in `window`.
    fn borrows(&self, window: u64, limit: u64, wait_max: Duration) -> Option<Loan> {
        let (span, borrowed) = (self.span, &self.borrowed);
        let lent = self
            .ring
            .borrow(at(window), 1, span, limit, wait_max, borrowed);
        lent.ok().map(|(loan, _)| loan)
    }

    fn passes(&self, window: u64) -> u64 {
        let borrowed = Some(&self.borrowed);
        self.ring.passes_in(at(window), self.span, borrowed)
    }
}

/// The window that passes were taken of.
fn number(taken: Taken) -> u64 {
    taken.to_words()[0]
}

/// The window borrowed from still holds the present one, so at limit one there
/// is room for one of them. Fails if a borrower does not confirm.
#[test]
fn of_a_borrower_and_an_ordinary_call_exactly_one_gets_the_last_place() {
    model(3, || {
        let lending = Lending::opened(2, 2);
        let shared = Arc::clone(&lending);
        let ordinary = thread::spawn(move || shared.takes(1, 1).is_some());
        let loan = lending.borrows(1, 1, WIDTH).is_some();
        let ordinary = ordinary.join().unwrap();
        assert!(loan != ordinary, "loan {loan}, ordinary {ordinary}");
        assert_eq!(lending.passes(2), 1);
    });
}

/// The ordinary call arrives in the window that is being borrowed from.
#[test]
fn a_borrower_and_a_call_of_the_window_it_borrows_from_hold_the_limit() {
    model(2, || {
        let lending = Lending::opened(2, 2);
        let shared = Arc::clone(&lending);
        let ordinary = thread::spawn(move || shared.takes(2, 1).is_some());
        let _ = lending.borrows(1, 1, PATIENT);
        let _ = ordinary.join().unwrap();
        assert!(lending.passes(2) <= 1);
        assert!(lending.passes(3) <= 1);
    });
}

/// Of two borrowers at limit one, one waits in vain: never both, never none.
#[test]
fn of_two_borrowers_exactly_one_gets_the_last_place() {
    model(3, || {
        let lending = Lending::opened(2, 2);
        let shared = Arc::clone(&lending);
        let other = thread::spawn(move || shared.borrows(1, 1, PATIENT).is_some());
        let mine = lending.borrows(1, 1, PATIENT).is_some();
        let other = other.join().unwrap();
        assert!(!(mine && other));
        assert_eq!(
            lending.borrowed.waiting(lending.span, 1),
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
        let lending = Lending::opened(2, 2);
        let held = lending.takes(1, 1).expect("all is free");
        let shared = Arc::clone(&lending);
        let ordinary = thread::spawn(move || {
            shared.ring.give_back(held);
            shared.takes(1, 1).is_some()
        });
        let loan = lending.borrows(1, 1, WIDTH).is_some();
        let ordinary = ordinary.join().unwrap();
        assert!(!(loan && ordinary), "both have it");
        assert!(lending.passes(2) <= 1);
    });
}

/// A borrower goes ahead early, by its clock, while another call is in the
/// window borrowed from. Fails if a caller does not look for unsettled amounts
/// after it has added up.
#[test]
fn a_borrower_that_goes_ahead_early_is_never_out_of_the_count() {
    model(3, || {
        let lending = Lending::new(2, 2);
        let loan = lending.borrows(1, 1, WIDTH).expect("all is free");
        lending.ring.current(at(2));
        let shared = Arc::clone(&lending);
        let early = thread::spawn(move || shared.borrowed.go_early(loan));
        assert!(lending.takes(2, 1).is_none());
        early.join().unwrap();
        assert_eq!(lending.passes(2), 1);
    });
}

/// Fails if amounts are taken from the early ones before they are added to the
/// firm ones.
#[test]
fn two_callers_that_settle_one_early_loan_count_it_once() {
    model(2, || {
        let lending = Lending::new(2, 2);
        let loan = lending.borrows(1, 1, WIDTH).expect("all is free");
        lending.borrowed.go_early(loan);
        // Opened before, as this is not about that; it settles nothing.
        lending.ring.current(at(2));
        let shared = Arc::clone(&lending);
        let other = thread::spawn(move || shared.takes(2, 1).is_some());
        assert!(lending.takes(2, 1).is_none());
        assert!(!other.join().unwrap());
        assert_eq!(lending.borrowed.amount(2), 1);
    });
}

/// A node's ring is longer than its span, so the borrower's own window is not
/// always among those that a later call seals. Fails if a borrower does not
/// look at the head again after it has shown its amount.
#[test]
fn a_borrower_overtaken_by_the_window_it_borrows_from_does_not_exceed_it() {
    model(3, || {
        let lending = Lending::opened(4, 1);
        let shared = Arc::clone(&lending);
        let ordinary = thread::spawn(move || shared.takes(2, 1).is_some());
        let _ = lending.borrows(1, 1, PATIENT);
        let _ = ordinary.join().unwrap();
        assert!(lending.passes(2) <= 1);
        assert!(lending.passes(3) <= 1);
    });
}

/// Fails if a late borrower may overwrite the amount of a newer window.
#[test]
fn a_borrower_that_is_laps_late_does_not_erase_a_newer_loan() {
    model(3, || {
        let lending = Lending::new(4, 1);
        // Windows 2 and 5 share a word of `Borrowed`: it has three.
        let shared = Arc::clone(&lending);
        let late = thread::spawn(move || {
            let _ = shared.borrows(1, 1, WIDTH);
        });
        let newer = lending.borrows(4, 1, WIDTH);
        late.join().unwrap();
        assert_eq!(lending.borrowed.amount(5), u64::from(newer.is_some()));
    });
}

/// The place that a call asks for is on loan, and the loan is forgotten while the
/// call sleeps: a newer one has taken its word. Nobody has sealed the call's window
/// by then. Fails if it does not look for a newer head after it has added up.
#[test]
fn a_call_that_sleeps_until_a_loan_of_its_window_is_forgotten_does_not_take_it() {
    model(2, || {
        let lending = Lending::new(4, 1);
        let lent = lending.borrows(1, 1, PATIENT);
        assert_eq!(lent.expect("all is free").window(), 2);
        lending.ring.current(at(2));
        let shared = Arc::clone(&lending);
        let late = thread::spawn(move || shared.takes(2, 1).map(number));
        // Windows 2 and 5 share a word of `Borrowed`: it has three.
        let newer = lending.borrows(4, 1, PATIENT);
        assert!(newer.is_some_and(|loan| loan.window() == 5));
        assert_ne!(late.join().unwrap(), Some(2));
    });
}

/// The same of a loan in the window after the call's own, which its pass would
/// exceed. Fails if the head is looked at before these sums.
#[test]
fn a_call_that_sleeps_until_a_loan_ahead_of_it_is_forgotten_does_not_exceed_it() {
    model(2, || {
        let lending = Lending::new(8, 2);
        lending.ring.current(at(2));
        let lent = lending.borrows(2, 1, PATIENT);
        assert_eq!(lent.expect("all is free").window(), 3);
        let shared = Arc::clone(&lending);
        let late = thread::spawn(move || shared.takes(2, 1).map(number));
        // Windows 3 and 8 share a word of `Borrowed`: it has five.
        let _ = lending.borrows(7, 1, PATIENT);
        assert_ne!(late.join().unwrap(), Some(2));
    });
}

/// Two borrow and one passes, at limit two: all of the window to come is taken,
/// and no more. Fails if a borrower does not confirm.
#[test]
fn of_two_borrowers_and_an_ordinary_call_two_get_the_last_two_places() {
    model(1, || {
        let lending = Lending::opened(2, 2);
        let borrowers: Vec<_> = [(); 2]
            .into_iter()
            .map(|()| {
                let shared = Arc::clone(&lending);
                thread::spawn(move || shared.borrows(1, 2, WIDTH).is_some())
            })
            .collect();
        let ordinary = lending.takes(1, 2).is_some();
        let lent = borrowers.into_iter().map(|b| b.join().unwrap());
        let taken = lent.filter(|lent| *lent).count() as u64 + u64::from(ordinary);
        // A borrower that is about to take its amount out again may refuse one.
        assert!((1..=2).contains(&taken), "{taken}");
        assert_eq!(lending.passes(2), taken);
    });
}

/// A borrower goes ahead early while two others come. Fails if the early amount
/// is taken out before it is added to the firm ones.
#[test]
fn two_calls_and_a_borrower_that_goes_ahead_count_its_loan_once() {
    model(1, || {
        let lending = Lending::new(2, 2);
        let loan = lending.borrows(1, 2, WIDTH).expect("all is free");
        lending.ring.current(at(2));
        let shared = Arc::clone(&lending);
        let early = thread::spawn(move || shared.borrowed.go_early(loan));
        let shared = Arc::clone(&lending);
        let other = thread::spawn(move || shared.takes(2, 2).is_some());
        let mine = lending.takes(2, 2).is_some();
        early.join().unwrap();
        let passed = u64::from(mine) + u64::from(other.join().unwrap());
        assert!(passed <= 1, "the loan leaves room for one");
        assert_eq!(lending.passes(2), passed + 1);
    });
}

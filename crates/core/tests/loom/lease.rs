//! Passes reserved in advance: each token is used once, none is overlooked, and the
//! limit holds whoever holds them.

use std::time::Duration;

use flowgate_core::leap_array::{Borrowed, LeapArray, Lease, Leases, PassCell, Span, Taken};
use loom::sync::Arc;
use loom::thread;

use super::{at, model, passes};

/// A ring whose threads have met, and a lease for two of them.
struct Shop {
    ring: Arc<LeapArray<PassCell>>,
    leases: [Lease; 2],
    borrowed: Borrowed,
}

/// The leases, as one of the threads sees them.
struct Seen<'a>(&'a Shop, usize);

impl Leases for Seen<'_> {
    fn mine(&self) -> Option<&Lease> {
        self.0.leases.get(self.1)
    }

    fn come(&self) -> Option<&Lease> {
        self.mine()
    }

    fn meet(&self) {}

    fn is_spread(&self) -> bool {
        true
    }

    fn all(&self) -> impl Iterator<Item = &Lease> {
        self.0.leases.iter()
    }
}

fn span() -> Span {
    Span::new(1, 2)
}

impl Shop {
    fn new() -> Arc<Self> {
        Arc::new(Shop {
            ring: passes(3),
            leases: Default::default(),
            borrowed: Borrowed::new(2),
        })
    }

    /// `weight` passes for a call of `thread` in a window.
    fn takes(&self, thread: usize, window: u64, weight: u32, limit: u64) -> Option<Taken> {
        let (leases, borrowed) = (Seen(self, thread), &self.borrowed);
        let now = at(window);
        let taken = (self.ring).reserve_leased(now, weight, span(), limit, borrowed, &leases);
        taken.ok()
    }

    fn passes(&self, thread: usize, window: u64, limit: u64) -> bool {
        self.takes(thread, window, 1, limit).is_some()
    }

    /// How many of `calls` calls of a thread pass.
    fn admits(&self, thread: usize, window: u64, limit: u64, calls: usize) -> u64 {
        let calls = (0..calls).filter(|_| self.passes(thread, window, limit));
        calls.count() as u64
    }

    /// Passes that calls have had, in the span of a window.
    fn used(&self, window: u64) -> u64 {
        let counted = || {
            self.ring
                .passes_in(at(window), span(), Some(&self.borrowed))
        };
        Seen(self, 0).used(&(window.saturating_sub(1)..=window), counted)
    }

    /// All is quiet: `passed` of `limit` were had, and the rest is there for one
    /// thread.
    fn is_exact(&self, thread: usize, window: u64, passed: u64, limit: u64) {
        assert_eq!(self.used(window), passed);
        let rest = limit - passed;
        assert_eq!(self.admits(thread, window, limit, rest as usize + 1), rest);
    }
}

/// Window 1 at limit 4: three have passed, and the last place is a token of thread
/// 0. Thread 1 knows the window too.
fn with_one_token() -> Arc<Shop> {
    with_one_token_and_a_pass().0
}

/// The same, with the pass of thread 1.
fn with_one_token_and_a_pass() -> (Arc<Shop>, Taken) {
    let shop = Shop::new();
    // Of the room for two more that the second call leaves, a half.
    assert_eq!(shop.admits(0, 1, 4, 2), 2);
    let taken = shop.takes(1, 1, 1, 4).expect("one is free");
    assert_eq!(shop.used(1), 3);
    assert_eq!(shop.ring.passes_in(at(1), span(), None), 4);
    (shop, taken)
}

/// Is to fail if a token is taken or claimed by a load and a store.
#[test]
fn the_last_token_is_had_by_its_owner_or_by_another_thread_and_never_by_both() {
    model(3, || {
        let shop = with_one_token();
        let other = Arc::clone(&shop);
        let claims = thread::spawn(move || other.passes(1, 1, 4));
        let takes = shop.passes(0, 1, 4);
        assert!(takes != claims.join().unwrap());
        shop.is_exact(2, 1, 4, 4);
    });
}

/// A call of weight 2 needs a token and the place that was given back: it reclaims.
/// Is to fail if tokens are given back before the lease is empty.
#[test]
fn a_token_is_used_or_given_back_and_never_both() {
    model(3, || {
        let (shop, held) = with_one_token_and_a_pass();
        let other = Arc::clone(&shop);
        let reclaims = thread::spawn(move || {
            other.ring.give_back(held);
            u64::from(other.takes(1, 1, 2, 4).is_some())
        });
        let takes = u64::from(shop.passes(0, 1, 4));
        let passed = 2 + takes + 2 * reclaims.join().unwrap();
        assert!(passed <= 4);
        shop.is_exact(2, 1, passed, 4);
    });
}

/// One reserves in advance while the other takes what is left. Is to fail if a lease is
/// filled that was called off, or if it is not announced before the pass word is
/// swapped: the other thread then repeats a refusal for ever.
#[test]
fn a_lease_that_is_being_filled_is_not_overlooked() {
    model(2, || {
        let shop = Shop::new();
        assert_eq!(shop.admits(0, 1, 5, 1), 1);
        assert_eq!(shop.admits(1, 1, 5, 1), 1);
        let other = Arc::clone(&shop);
        let fills = thread::spawn(move || other.admits(0, 1, 5, 1));
        let takes = shop.admits(1, 1, 5, 2);
        let passed = 2 + takes + fills.join().unwrap();
        assert!(passed <= 5);
        shop.is_exact(1, 1, passed, 5);
    });
}

/// Both windows are in one span. Is to fail if a newcomer to a window does not reclaim
/// what is left of the one before.
#[test]
fn what_is_left_when_a_window_is_sealed_is_there_in_the_next_one() {
    model(2, || {
        let shop = Shop::new();
        assert_eq!(shop.admits(0, 1, 5, 1), 1);
        let other = Arc::clone(&shop);
        let early = thread::spawn(move || other.admits(0, 1, 5, 2));
        let late = shop.admits(1, 2, 5, 1);
        let passed = 1 + late + early.join().unwrap();
        assert_eq!(passed, 4);
        shop.is_exact(2, 2, passed, 5);
    });
}

/// The owner takes while its window is sealed. Is to fail if tokens of a window are given
/// back to another one.
#[test]
fn a_token_that_is_used_while_its_window_is_sealed_counts_there() {
    model(2, || {
        let shop = with_one_token();
        let other = Arc::clone(&shop);
        let early = thread::spawn(move || u64::from(other.passes(0, 1, 4)));
        let late = u64::from(shop.passes(1, 2, 4));
        let passed = 3 + late + early.join().unwrap();
        assert!(passed <= 4);
        shop.is_exact(2, 2, passed, 4);
    });
}

/// Is to fail if a lease says nothing of the limit that it was reserved under.
#[test]
fn a_token_does_not_serve_a_call_of_a_lower_limit() {
    model(3, || {
        let shop = with_one_token();
        let other = Arc::clone(&shop);
        let lower = thread::spawn(move || [other.passes(1, 1, 3), other.passes(1, 1, 3)]);
        let takes = u64::from(shop.passes(0, 1, 4));
        assert_eq!(lower.join().unwrap(), [false; 2]);
        assert!(!shop.passes(0, 1, 3));
        shop.is_exact(0, 1, 3 + takes, 4);
    });
}

/// The loan takes the last place of the next window, or the call does. Is to fail if a
/// lease is filled while a loan counts.
#[test]
fn a_borrower_and_a_call_that_has_reserved_in_advance_hold_the_limit() {
    model(2, || {
        let shop = with_one_token();
        let other = Arc::clone(&shop);
        let takes = thread::spawn(move || u64::from(other.passes(0, 1, 4)));
        shop.ring.reclaim(&Seen(&shop, 1), |_| true);
        let patient = Duration::from_secs(1);
        let (borrowed, limit) = (&shop.borrowed, 4);
        let lent = shop.ring.borrow(at(1), 1, span(), limit, patient, borrowed);
        let passed = 3 + takes.join().unwrap();
        let in_next = lent.is_ok_and(|(loan, _)| loan.window() == 2);
        assert!(passed + u64::from(in_next) <= 4);
        assert!(shop.used(2) <= 4);
        assert_eq!(shop.admits(2, 2, 4, 2), 4 - shop.used(2).min(4));
    });
}

/// Is to fail if what was given back of the window before leaves a refusal as it was.
#[test]
fn a_refusal_is_not_repeated_after_a_giving_back() {
    for of_window_before in [false, true] {
        model(3, move || {
            let shop = Shop::new();
            let first = shop.takes(1, 1, 1, 2).expect("all is free");
            let second = shop.takes(1, 2, 1, 2).expect("the limit is two");
            assert!(!shop.passes(0, 2, 2));
            let other = Arc::clone(&shop);
            let back = match of_window_before {
                true => first,
                false => second,
            };
            let gives_back = thread::spawn(move || other.ring.give_back(back));
            let passed = u64::from(shop.passes(0, 2, 2));
            gives_back.join().unwrap();
            shop.is_exact(0, 2, 1 + passed, 2);
        });
    }
}

/// Is to fail if a reader takes what is left in a lease for passes, or what was used for
/// left.
#[test]
fn a_reader_sees_the_passes_that_calls_have_had() {
    model(2, || {
        let shop = with_one_token();
        let other = Arc::clone(&shop);
        let takes = thread::spawn(move || other.passes(0, 1, 4));
        let seen = shop.used(1);
        assert!((3..=4).contains(&seen), "{seen}");
        assert!(takes.join().unwrap());
        assert_eq!(shop.used(1), 4);
    });
}

/// What a call has had out of a lease goes back like any pass.
#[test]
fn a_pass_out_of_a_lease_that_is_given_back_is_there_for_another_thread() {
    model(3, || {
        let shop = with_one_token();
        let other = Arc::clone(&shop);
        let calls = thread::spawn(move || u64::from(other.passes(1, 1, 4)));
        if let Some(taken) = shop.takes(0, 1, 1, 4) {
            shop.ring.give_back(taken);
        }
        let passed = 3 + calls.join().unwrap();
        shop.is_exact(2, 1, passed, 4);
    });
}

/// Two tokens of one owner, and three calls: two of them pass.
#[test]
fn three_threads_share_two_tokens() {
    model(1, || {
        let shop = Shop::new();
        assert_eq!(shop.admits(0, 1, 7, 2), 2);
        assert_eq!(shop.admits(1, 1, 7, 2), 2);
        let left = 7 - shop.used(1);
        let full = shop.admits(2, 1, 7, left as usize - 2);
        assert_eq!(shop.used(1), 4 + full);
        let calls: Vec<_> = [0, 1]
            .into_iter()
            .map(|thread| {
                let shop = Arc::clone(&shop);
                thread::spawn(move || u64::from(shop.passes(thread, 1, 7)))
            })
            .collect();
        let mine = u64::from(shop.passes(2, 1, 7));
        let theirs: u64 = calls.into_iter().map(|call| call.join().unwrap()).sum();
        let passed = 4 + full + mine + theirs;
        assert!(passed <= 7);
        shop.is_exact(2, 1, passed, 7);
    });
}

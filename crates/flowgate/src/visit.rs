//! The chain of a call, and how its thread comes by it.
//!
//! A resource has one chain, made by its first call under new rules
//! (`core::publish::Derived`), which stays, the same object, as long as it would
//! be made just so again: `ChainPlan::still_acts` says when that is. What a call takes along is a [`Visit`]
//! of it: the chain, and room for what its slots want to remember until the
//! call ends. Threads keep visits [at hand](AtHand): a call takes one out, and
//! puts it back when it is in or refused; a call that reports back has it along
//! until its end, as long as that takes, and leaves it to the thread it ends on.
//! So a call writes to no count that other threads write to, and allocates
//! nothing unless its thread has more calls under way that report back than ever
//! before, or they end elsewhere.
//!
//! A call that finds none goes the long way, and a thread that is being torn down
//! always does.
//!
//! **What is kept alive** by a visit is its chain: slots, rules and what they
//! remember, but no resource, no engine, and none of an engine's threads. A chain
//! finds other resources by a `Weak`. When an engine ends, the thread that it ends
//! on lets go of all it has at hand ([`let_go`]), and other threads do when they
//! next come the long way: there are few engines, and they end seldom.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flowgate_core::call::{Holds, TICKETS_INLINE};
use flowgate_core::publish::{AtHand, Dated, Lent};
use flowgate_core::sync::thread_local;
use flowgate_core::{Departure, Ticket};
use flowgate_rules::Acting;
use flowgate_slots::{ChainPlan, NamedCallers, SlotChain};
use smallvec::SmallVec;

thread_local! {
    static AT_HAND: AtHand<Visit> = const { AtHand::new() };
    /// How many engines had ended when the thread last looked.
    static SEEN_ENDED: Cell<u64> = const { Cell::new(0) };
}

/// How many engines have ended. Of `std` also under `--cfg shuttle`: it decides
/// nothing about calls.
static ENDED: AtomicU64 = AtomicU64::new(0);

/// An engine has ended: what threads have at hand of it is of no use any more.
#[cold]
pub(crate) fn let_go() {
    // Relaxed, as where it is read: who learns of it late lets go late.
    ENDED.fetch_add(1, Ordering::Relaxed);
    let _ = AT_HAND.try_with(AtHand::clear);
}

/// The chain of one resource under one generation of rules.
pub(crate) type Chain = Arc<Dated<Compiled>>;

/// What a chain is made to.
#[derive(Default)]
pub(crate) struct Compiled {
    pub(crate) slots: SlotChain,
    /// Which rules it is made of; `None`: it was not made yet.
    made_of: Option<Acting>,
    /// Whether there is nobody to ask, and one node to count on: for calls that
    /// say nothing of themselves.
    pub(crate) is_plain: bool,
    /// Whether calls that name no context are counted apart.
    pub(crate) default_context: bool,
    pub(crate) named: NamedCallers,
}

impl Compiled {
    /// The chain of `resource`, whose state has the name `state`.
    pub(crate) fn of(plan: &ChainPlan, resource: &str, state: &str, default_context: bool) -> Self {
        let slots = plan.chain_of(resource, state);
        let named = plan.named(resource);
        let default_context = default_context || named.default_context;
        Compiled {
            is_plain: slots.is_empty() && !default_context,
            slots,
            made_of: Some(plan.acting_on(resource)),
            default_context,
            named,
        }
    }

    /// Whether it would be made just so under `plan`.
    pub(crate) fn is_right(&self, plan: &ChainPlan, resource: &str) -> bool {
        self.made_of
            .is_some_and(|acting| plan.still_acts(acting, resource))
    }
}

/// A chain that one call goes through.
pub(crate) struct Visit {
    chain: Chain,
    /// Made for the first call that reports back, and used again.
    notes: Option<Box<Notes>>,
}

/// What the slots of a chain have noted of a call until its end.
#[derive(Default)]
struct Notes {
    tickets: SmallVec<[Ticket; TICKETS_INLINE]>,
    excluded: u64,
}

impl Visit {
    /// The visit that the thread has at hand for `number`, of the generation
    /// `wanted` or a later one.
    #[inline]
    pub(crate) fn take(number: u64, wanted: u64) -> Option<Self> {
        AT_HAND
            .try_with(|at_hand| at_hand.take(number, wanted))
            .ok()
            .flatten()
    }

    /// One for a call that found none, if the thread is to have some at hand.
    #[cold]
    pub(crate) fn begin(number: u64, current: impl FnOnce() -> Chain) -> Option<Self> {
        let ended = ENDED.load(Ordering::Relaxed);
        if SEEN_ENDED.try_with(|seen| seen.replace(ended)) != Ok(ended) {
            let _ = AT_HAND.try_with(AtHand::clear);
        }
        let welcome = AT_HAND.try_with(|at_hand| at_hand.welcomes(number));
        if !welcome.unwrap_or(false) {
            return None;
        }
        let chain = current();
        let _ = AT_HAND.try_with(|at_hand| at_hand.give_place(number, chain.generation()));
        Some(Visit { chain, notes: None })
    }

    /// What a call reports to that has come through `chain` some time ago.
    #[cold]
    pub(crate) fn reporting(number: u64, chain: &Chain, holds: &Holds) -> Self {
        let visit = match Visit::take(number, chain.generation()) {
            Some(visit) if Arc::ptr_eq(&visit.chain, chain) => visit,
            other => {
                if let Some(newer) = other {
                    newer.put_back(number);
                }
                Visit {
                    chain: Arc::clone(chain),
                    notes: None,
                }
            }
        };
        visit.note(holds)
    }

    /// Notes what the slots want to remember of the call that holds `holds`.
    #[inline]
    fn note(mut self, holds: &Holds) -> Self {
        let notes = self.notes.get_or_insert_default();
        notes.tickets.clear();
        notes.tickets.extend_from_slice(&holds.tickets);
        notes.excluded = holds.excluded();
        self
    }

    /// The notes of the call's slots.
    #[inline]
    pub(crate) fn tickets(&self) -> &[Ticket] {
        self.notes.as_ref().map_or(&[], |notes| &notes.tickets)
    }

    /// Tells the slots how the call has ended.
    #[inline]
    pub(crate) fn report(&self, departure: &mut Departure<'_>) {
        let excluded = self.notes.as_ref().map_or(0, |notes| notes.excluded);
        self.chain.slots.leave(departure, excluded);
    }

    /// The call needs it no more.
    #[inline]
    pub(crate) fn put_back(self, number: u64) {
        let generation = self.chain.generation();
        // On a thread that is being torn down it is dropped.
        let _ = AT_HAND.try_with(|at_hand| at_hand.put(number, generation, self));
    }
}

/// A chain in the hands of a call that is on its way in.
pub(crate) trait Guide {
    fn chain(&self) -> &Chain;

    /// The call is in, and will report.
    fn noting(self, holds: &Holds) -> Visit;

    /// It is in or refused, and will not come back.
    fn done(self, number: u64);
}

impl Guide for Visit {
    #[inline]
    fn chain(&self) -> &Chain {
        &self.chain
    }

    #[inline]
    fn noting(self, holds: &Holds) -> Visit {
        self.note(holds)
    }

    #[inline]
    fn done(self, number: u64) {
        self.put_back(number);
    }
}

/// The long way.
impl Guide for Lent<Dated<Compiled>> {
    fn chain(&self) -> &Chain {
        self
    }

    fn noting(self, holds: &Holds) -> Visit {
        let visit = Visit {
            chain: Arc::clone(&self),
            notes: None,
        };
        visit.note(holds)
    }

    fn done(self, _: u64) {}
}

//! Many threads on one limiter.
//!
//! Two ways, as one alone sees too little:
//!
//! * [`together`]: the clock stands while all call, moves while nobody does.
//!   What a crowd of equal calls is admitted then does not depend on who comes
//!   first, so the model says to the single call how many it must be: upper and
//!   lower bound at once.
//! * [`free`]: every thread moves the clock whenever it likes, there are more
//!   threads than processors, and some are put to sleep between their reading of
//!   the clock and the first rule. Nobody can say then who is admitted; every
//!   span of the merged log is held against the promise.

mod free;
mod together;

use super::case::{BASE_NS, Call, Case, Op, Setup, What};
use super::limiter::Limiter;
use super::log::{Admitted, Broken};
use super::model::{Model, Verdict};
use super::random::Random;
use super::shrink::Make;

pub(crate) use free::free;
pub(crate) use together::together;

/// What came of a run of many threads.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    pub(crate) decisions: u64,
    pub(crate) spans: u64,
    /// The least part of the limit that was admitted where calls were refused.
    pub(crate) least_share: Option<f64>,
    pub(crate) failure: Option<Failed>,
}

/// How it failed, and what happened in the span that shows it, one after
/// another.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) broken: Broken,
    pub(crate) history: Case,
}

/// A run of many threads.
#[derive(Clone, Copy)]
pub(crate) struct Run<'r> {
    pub(crate) setup: &'r Setup,
    pub(crate) prioritized: bool,
    /// Roughly how many calls are made.
    pub(crate) calls: u64,
}

/// How many threads take part: mostly more than there are processors.
fn crowd(random: &mut Random) -> usize {
    random.pick(&[2, 3, 4, 8, 8, 16, 32])
}

fn plain_call(id: u32, key: u32, setup: &Setup, prioritized: bool) -> Call {
    Call {
        id,
        weight: 1,
        key,
        prioritized,
        may_wait: prioritized || setup.queues(),
    }
}

/// The admissions of a span as calls that come one after another.
fn history(setup: &Setup, span: &[Admitted]) -> Case {
    let mut span = span.to_vec();
    span.sort_by_key(|admitted| admitted.to_ns);
    let call = |(id, admitted): (usize, &Admitted)| Op {
        at_ns: admitted.to_ns,
        what: What::Call(Call {
            id: id as u32,
            weight: admitted.weight,
            key: admitted.key,
            prioritized: false,
            may_wait: false,
        }),
    };
    Case {
        setup: setup.clone(),
        ops: span.iter().enumerate().map(call).collect(),
    }
}

/// Seven threads call once, and an eighth asks for all that is left: how much
/// it is given, and how much it has to be.
pub(crate) fn leftovers(setup: &Setup, make: Make<'_>) -> (u64, u64) {
    let limiter = make(setup);
    let limiter = &*limiter;
    let ask = |thread: usize, calls: u32| -> u64 {
        let call = |id| limiter.enter(thread, &plain_call(id, 0, setup, false));
        let entered: Vec<_> = (0..calls).map_while(|id| call(id).ok()).collect();
        // Those at once are in at once.
        entered.len() as u64
    };
    let held = Keep(limiter);
    let got = std::thread::scope(|scope| {
        let once = (0..7).map(|thread| scope.spawn(move || held.enter(thread, setup)));
        let seven: Vec<_> = once.collect();
        let seven: Vec<_> = seven.into_iter().map(|thread| thread.join()).collect();
        let got = ask(7, ASKED);
        drop(seven);
        got
    });
    let mut model = Model::new(setup);
    model.set_time(limiter.now());
    let mut admitted = |id| {
        let call = plain_call(id, 0, setup, false);
        let said = model.foretell(&call);
        model.commit(&call, said);
        matches!(said, Verdict::Admitted { .. })
    };
    let all = (0..7 + ASKED).filter(|&id| admitted(id)).count() as u64;
    (got, all.saturating_sub(7))
}

const ASKED: u32 = 1000;

/// The same, one call after another.
pub(crate) fn leftovers_history(setup: &Setup) -> Case {
    let call = |id| Op {
        at_ns: BASE_NS,
        what: What::Call(plain_call(id, 0, setup, false)),
    };
    Case {
        setup: setup.clone(),
        ops: (0..7 + ASKED).map(call).collect(),
    }
}

/// Lets a thread enter and hand back what it holds.
#[derive(Clone, Copy)]
struct Keep<'l>(&'l dyn Limiter);

impl<'l> Keep<'l> {
    fn enter(self, thread: usize, setup: &Setup) -> Option<super::limiter::In<'l>> {
        self.0.enter(thread, &plain_call(0, 0, setup, false)).ok()
    }
}

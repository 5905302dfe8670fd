//! Who waits for permits, in the order of their coming.
//!
//! A waiter stands here until it is granted its permits or withdraws; there is
//! no third way out, so *not here any more* means *granted*.

use std::collections::VecDeque;
use std::task::Waker;

/// A place in the line for permits. It says nothing by itself: ask the
/// [`Permits`](super::Permits) that gave it.
#[derive(Debug)]
#[must_use = "a turn that is neither taken nor stepped out of holds up the line"]
pub struct Turn {
    number: u64,
    weight: u32,
}

impl Turn {
    /// The weight that it waits with.
    pub fn weight(&self) -> u32 {
        self.weight
    }
}

/// The line. Numbers rise from front to back.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiters: VecDeque<Waiter>,
    next: u64,
    /// No limit in the line is greater; the greatest since it was last empty.
    limit_max: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    weight: u32,
    limit: u64,
    waker: Option<Waker>,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn join(&mut self, weight: u32, limit: u64) -> Turn {
        let number = self.next;
        self.next += 1;
        self.limit_max = self.limit_max.max(limit);
        self.waiters.push_back(Waiter {
            number,
            weight,
            limit,
            waker: None,
        });
        Turn { number, weight }
    }

    /// Whether a newcomer under `limit` has to stand behind somebody. Mostly the
    /// first says so; all have to be asked only after a limit was raised.
    pub(super) fn bars(&self, limit: u64) -> bool {
        self.waiters.iter().any(|waiter| waiter.limit >= limit)
    }

    /// Goes through the line: `grant` says whether there was room for a weight
    /// under a limit. A waiter without room bars those behind it whose limit is
    /// no greater. Returns whom to wake.
    pub(super) fn serve(&mut self, mut grant: impl FnMut(u32, u64) -> bool) -> Vec<Waker> {
        let mut woken = Vec::new();
        let mut barred = None;
        let mut position = 0;
        while let Some(waiter) = self.waiters.get(position) {
            if barred < Some(waiter.limit) && grant(waiter.weight, waiter.limit) {
                let granted = self.waiters.remove(position);
                woken.extend(granted.and_then(|waiter| waiter.waker));
                continue;
            }
            barred = barred.max(Some(waiter.limit));
            if barred >= Some(self.limit_max) {
                break;
            }
            position += 1;
        }
        self.forget_if_empty();
        woken
    }

    /// Whether `turn` was granted, and the waker that `waker` replaces if not.
    pub(super) fn watch(&mut self, turn: &Turn, waker: &Waker) -> (bool, Option<Waker>) {
        let Some(waiter) = self
            .position(turn)
            .and_then(|position| self.waiters.get_mut(position))
        else {
            return (true, None);
        };
        match &waiter.waker {
            Some(known) if known.will_wake(waker) => (false, None),
            _ => (false, waiter.waker.replace(waker.clone())),
        }
    }

    /// Takes the waiter of `turn` out; `None` if it was granted. What comes back
    /// is to be dropped without the lock.
    pub(super) fn withdraw(&mut self, turn: &Turn) -> Option<Gone> {
        let position = self.position(turn)?;
        let gone = self.waiters.remove(position)?;
        self.forget_if_empty();
        Some(Gone { _waker: gone.waker })
    }

    fn position(&self, turn: &Turn) -> Option<usize> {
        self.waiters
            .binary_search_by_key(&turn.number, |waiter| waiter.number)
            .ok()
    }

    fn forget_if_empty(&mut self) {
        if self.waiters.is_empty() {
            self.limit_max = 0;
        }
    }
}

/// What is left of a waiter that withdrew.
pub(super) struct Gone {
    _waker: Option<Waker>,
}

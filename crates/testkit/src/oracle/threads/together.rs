//! A crowd at one instant: exactly as many are admitted as the model says.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};

use super::super::case::{BASE_NS, Call, Case, How, Op, What};
use super::super::limiter::{Held, Limiter};
use super::super::log::{Bound, Broken};
use super::super::model::{Model, Verdict};
use super::super::random::Random;
use super::super::traffic::Scale;
use super::{Crowd, Failed, Run, crowd, plain_call};

/// Calls of one round at least, as it costs three meetings of all threads …
const CALLS_MIN: u64 = 256;
/// … and of each thread at most.
const EACH_MAX: u64 = 128;

/// Runs a crowd in rounds, the clock standing in each.
pub(crate) fn together(run: Run<'_>, limiter: &dyn Limiter, random: &mut Random) -> Crowd {
    let scale = Scale::of(run.setup, 0);
    let threads = crowd(random);
    // Enough to ask for more than there is, mostly.
    let wanted = CALLS_MIN + random.below(3 * scale.most.min(2000));
    let each = (wanted / threads as u64).clamp(1, EACH_MAX);
    let single = run.setup.sets[0].len() == 1;
    let keys = match run.setup.has_keys() && single {
        true => random.between(1, 4) as u32,
        false => 1,
    };
    let meeting = Meeting {
        run,
        limiter,
        barrier: Barrier::new(threads + 1),
        said: Mutex::default(),
        each: each as u32,
        keys,
        sweeps: !single,
        leaves: AtomicBool::new(false),
        over: AtomicBool::new(false),
    };
    let rounds = (run.calls / (each * threads as u64)).clamp(1, 4096);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let meeting = &meeting;
            scope.spawn(move || meeting.take_part(thread));
        }
        let mut chair = Chair {
            meeting: &meeting,
            threads,
            scale,
            model: Model::new(run.setup),
            now: BASE_NS + random.below(4 * scale.interval_ns),
            open: Vec::new(),
            held: Vec::new(),
            next_id: 0,
            offered: Vec::new(),
            crowd: Crowd::default(),
        };
        for _ in 0..rounds {
            if chair.crowd.failure.is_none() {
                chair.round(random);
            }
        }
        chair.close();
        chair.crowd
    })
}

/// What all threads share.
struct Meeting<'a> {
    run: Run<'a>,
    limiter: &'a dyn Limiter,
    barrier: Barrier,
    /// Key and wait of each admission of a round.
    said: Mutex<Vec<(u32, u64)>>,
    each: u32,
    keys: u32,
    /// Whether what is left after a round is asked for by one thread.
    sweeps: bool,
    /// Whether calls end before the next round.
    leaves: AtomicBool,
    over: AtomicBool,
}

/// The thread that moves the clock and knows what is right.
struct Chair<'m, 'a> {
    meeting: &'m Meeting<'a>,
    threads: usize,
    scale: Scale,
    model: Model,
    now: u64,
    /// Calls of the model in flight.
    open: Vec<u32>,
    held: Vec<Held<'a>>,
    next_id: u32,
    /// What was offered when, for the history of a failure.
    offered: Vec<Offered>,
    crowd: Crowd,
}

/// One round.
#[derive(Clone, Copy)]
struct Offered {
    at_ns: u64,
    calls: u64,
    /// Whether calls end after it.
    leaves: bool,
}

impl<'a> Meeting<'a> {
    /// A round has three parts: calls end, the clock moves, calls come.
    fn take_part(&self, thread: usize) {
        let mut held: Vec<Held<'_>> = Vec::new();
        let mut said = Vec::new();
        loop {
            if self.leaves.load(Ordering::SeqCst) {
                held.drain(..).for_each(|held| held.end(How::Success));
            }
            self.barrier.wait();
            // The clock is moved.
            self.barrier.wait();
            if self.over.load(Ordering::SeqCst) {
                held.drain(..).for_each(|held| held.end(How::Success));
                return;
            }
            for number in 0..self.each {
                if let Some((wait, call)) = self.call(thread, number % self.keys) {
                    said.push((number % self.keys, wait));
                    held.push(call);
                }
            }
            self.said().append(&mut said);
            self.barrier.wait();
            if self.sweeps {
                self.barrier.wait();
            }
        }
    }

    fn call(&self, thread: usize, key: u32) -> Option<(u64, Held<'a>)> {
        let call = plain_call(0, key, self.run.setup, self.run.prioritized);
        let entered = self.limiter.enter(thread, &call).ok()?;
        // Who waits in a line goes ahead at once: the line has its release
        // time. A loan stays one.
        let held = match self.run.prioritized {
            true => entered.held,
            false => entered.held.begin(),
        };
        Some((entered.wait_ns, held))
    }

    fn said(&self) -> std::sync::MutexGuard<'_, Vec<(u32, u64)>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Chair<'_, '_> {
    fn round(&mut self, random: &mut Random) {
        let meeting = self.meeting;
        meeting.barrier.wait();
        self.move_clock(random);
        meeting.limiter.set_time(self.now);
        self.model.set_time(self.now);
        // Loans are always given back: who waits for one does not stand still.
        let leaves = meeting.run.prioritized || random.once_in(2);
        meeting.leaves.store(leaves, Ordering::SeqCst);
        meeting.barrier.wait();
        meeting.barrier.wait();
        let mut offered = u64::from(meeting.each) * self.threads as u64;
        self.crowd.decisions += offered;
        if meeting.sweeps {
            offered += self.sweep();
            meeting.barrier.wait();
        }
        self.offered.push(Offered {
            at_ns: self.now,
            calls: offered,
            leaves,
        });
        self.compare(offered);
        if leaves {
            self.held.drain(..).for_each(|held| held.end(How::Success));
            let open = self.open.drain(..);
            open.for_each(|id| self.model.end(id, How::Success));
        }
    }

    fn move_clock(&mut self, random: &mut Random) {
        let Scale {
            grain_ns,
            interval_ns,
            ..
        } = self.scale;
        self.now = match random.below(6) {
            0 => self.now,
            1 | 2 => self.now + random.below(2 * grain_ns),
            3 => (self.now / grain_ns + 1) * grain_ns - random.below(2),
            4 => self.now + random.below(2 * interval_ns),
            _ => self.now + interval_ns - 1 + random.below(3),
        };
    }

    /// A call that is going to be refused by a later rule may have kept others
    /// from what it held for the moment: what is left now nobody holds.
    fn sweep(&mut self) -> u64 {
        let mut asked = 0;
        loop {
            asked += 1;
            let Some((wait, held)) = self.meeting.call(self.threads, 0) else {
                return asked;
            };
            self.meeting.said().push((0, wait));
            self.held.push(held);
        }
    }

    fn compare(&mut self, offered: u64) {
        let meeting = self.meeting;
        let mut said = std::mem::take(&mut *meeting.said());
        let mut right = Vec::with_capacity(said.len());
        for number in 0..offered {
            let key = (number % u64::from(meeting.each)) as u32 % meeting.keys;
            let call = Call {
                id: self.next_id,
                ..plain_call(0, key, meeting.run.setup, meeting.run.prioritized)
            };
            self.next_id += 1;
            let verdict = self.model.foretell(&call);
            self.model.commit(&call, verdict);
            if let Verdict::Admitted { wait } = verdict {
                right.push((key, wait));
                self.open.push(call.id);
                if !meeting.run.prioritized {
                    self.model.begin(call.id);
                }
            }
        }
        said.sort_unstable();
        right.sort_unstable();
        self.crowd.spans += 1;
        if !right.is_empty() {
            let share = said.len() as f64 / right.len() as f64;
            let least = self.crowd.least_share.get_or_insert(share);
            *least = least.min(share);
        }
        let broken = match said.len().cmp(&right.len()) {
            std::cmp::Ordering::Greater => Bound::Upper,
            std::cmp::Ordering::Less => Bound::Lower,
            std::cmp::Ordering::Equal if said == right => return,
            std::cmp::Ordering::Equal if said < right => Bound::Upper,
            std::cmp::Ordering::Equal => Bound::Lower,
        };
        let text = format!(
            "of {offered} calls of {} threads at one instant {} were admitted, {} have to be",
            self.threads,
            said.len(),
            right.len()
        );
        self.crowd.failure = Some(Failed {
            broken: Broken::new(broken, text),
            history: self.history(right.len()),
        });
    }

    /// All that was offered, without what does not matter for the last round.
    fn history(&self, admitted: usize) -> Case {
        let mut rounds = &self.offered[..];
        while rounds.len() > 1 && self.case_of(&rounds[1..]).1 == admitted {
            rounds = &rounds[1..];
        }
        self.case_of(rounds).0
    }

    /// Rounds as calls one after another: those that the model admits, and the
    /// first of the last round that it refuses. And how many it admits in that.
    fn case_of(&self, rounds: &[Offered]) -> (Case, usize) {
        let Meeting {
            run, each, keys, ..
        } = *self.meeting;
        let mut model = Model::new(run.setup);
        let mut ops = Vec::new();
        let (mut open, mut id, mut admitted) = (Vec::new(), 0, 0);
        for (number, round) in rounds.iter().enumerate() {
            let is_last = number + 1 == rounds.len();
            let op = |what| Op {
                at_ns: round.at_ns,
                what,
            };
            model.set_time(round.at_ns);
            let mut refused = None;
            for number in 0..round.calls {
                let key = (number % u64::from(each)) as u32 % keys;
                let call = Call {
                    id,
                    ..plain_call(0, key, run.setup, run.prioritized)
                };
                let said = model.foretell(&call);
                if let Verdict::Admitted { .. } = said {
                    model.commit(&call, said);
                    ops.push(op(What::Call(call)));
                    open.push(id);
                    id += 1;
                    admitted += usize::from(is_last);
                } else {
                    refused.get_or_insert(call);
                }
            }
            if let Some(call) = refused.filter(|_| is_last) {
                ops.push(op(What::Call(call)));
            }
            if round.leaves && !is_last {
                for id in open.drain(..) {
                    model.end(id, How::Success);
                    let how = How::Success;
                    ops.push(op(What::End { id, how }));
                }
            }
        }
        let setup = run.setup.clone();
        (Case { setup, ops }, admitted)
    }

    fn close(&mut self) {
        let meeting = self.meeting;
        self.held.drain(..).for_each(|held| held.end(How::Success));
        meeting.barrier.wait();
        meeting.over.store(true, Ordering::SeqCst);
        meeting.barrier.wait();
    }
}

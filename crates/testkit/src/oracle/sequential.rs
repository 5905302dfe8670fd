//! One case on one thread: every decision against the model, and then every
//! span of the log.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::case::{Call, Case, Form, How, Op, What};
use super::limiter::{Held, Limiter};
use super::log::{Admitted, Bound, Broken, Log};
use super::model::{Model, Verdict};
use super::spans::Promise;

/// What came of a case.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) decisions: u64,
    pub(crate) spans: u64,
    /// The operation that it failed at, and how.
    pub(crate) failure: Option<(usize, Broken)>,
}

/// What was done and said, with what should have been said where that
/// differs: the steps of a trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) at_ns: u64,
    pub(crate) did: Did,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Did {
    Call(Call, Verdict),
    Begin(u32),
    Cancel(u32),
    Exit(u32, How),
    Load(usize),
    Look(Vec<(&'static str, u64)>),
}

/// Runs a case against a limiter.
pub(crate) fn run(case: &Case, limiter: &dyn Limiter) -> Ran {
    let mut driver = Driver::new(case, limiter);
    let failure = driver.go();
    let mut ran = Ran {
        decisions: driver.decisions,
        spans: 0,
        failure,
    };
    if ran.failure.is_none() {
        for promise in Promise::all_of(&case.setup) {
            let checked = promise.check(&mut driver.log);
            ran.spans += checked.spans;
            if let Some((broken, _)) = checked.broken {
                ran.failure = Some((case.ops.len().saturating_sub(1), broken));
            }
        }
    }
    ran
}

/// The steps that a case comes to by the model alone.
pub(crate) fn steps_of(case: &Case, limiter: &dyn Limiter) -> Vec<Step> {
    let mut driver = Driver::new(case, limiter);
    driver.steps = Some(Vec::new());
    let _ = driver.go();
    driver.steps.unwrap_or_default()
}

struct Driver<'a> {
    case: &'a Case,
    limiter: &'a dyn Limiter,
    model: Model,
    held: Vec<Option<Held<'a>>>,
    /// Calls that wait, by when they may go.
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
    log: Log,
    /// Where in the log a call is.
    logged: Vec<usize>,
    decisions: u64,
    steps: Option<Vec<Step>>,
}

impl<'a> Driver<'a> {
    fn new(case: &'a Case, limiter: &'a dyn Limiter) -> Self {
        Driver {
            case,
            limiter,
            model: Model::new(&case.setup),
            held: Vec::new(),
            waiting: BinaryHeap::new(),
            log: Log::default(),
            logged: Vec::new(),
            decisions: 0,
            steps: None,
        }
    }

    fn go(&mut self) -> Option<(usize, Broken)> {
        for (index, op) in self.case.ops.iter().enumerate() {
            if let Err(broken) = self.step(op) {
                return Some((index, broken));
            }
        }
        let last = self.case.ops.len().checked_sub(1)?;
        self.leave_all().err().map(|broken| (last, broken))
    }

    fn step(&mut self, op: &Op) -> Result<(), Broken> {
        self.wake_until(op.at_ns);
        self.limiter.set_time(op.at_ns);
        let now = self.model.set_time(self.reading(op));
        match &op.what {
            What::Call(call) => self.call(op.at_ns, now, call),
            What::End { id, how } => {
                self.end(op.at_ns, *id, *how);
                Ok(())
            }
            What::Load { set } => {
                self.note(op.at_ns, Did::Load(*set));
                self.limiter.load(*set);
                self.model.load(*set);
                Ok(())
            }
            What::Look => self.look(op.at_ns),
        }
    }

    /// What the limiter gets to know of the time. One on its own is told it
    /// with calls only, and takes no notice of those that weigh nothing.
    fn reading(&self, op: &Op) -> u64 {
        match (self.case.setup.form, &op.what) {
            (Form::Rules, _) => op.at_ns,
            (Form::Alone, What::Call(call)) if call.weight > 0 => op.at_ns,
            (Form::Alone, _) => 0,
        }
    }

    /// Whoever waits goes ahead at the instant he may.
    fn wake_until(&mut self, ns: u64) {
        while let Some(&Reverse((due, id))) = self.waiting.peek() {
            if due > ns {
                break;
            }
            self.waiting.pop();
            if let Some(held) = self.held.get_mut(id as usize).and_then(Option::take) {
                self.limiter.set_time(due);
                self.model.set_time(due);
                self.note(due, Did::Begin(id));
                self.held[id as usize] = Some(held.begin());
                self.model.begin(id);
            }
        }
    }

    fn call(&mut self, at_ns: u64, now: u64, call: &Call) -> Result<(), Broken> {
        self.decisions += 1;
        let entered = self.limiter.enter(0, call);
        let said = match &entered {
            Ok(entered) => Verdict::Admitted {
                wait: entered.wait_ns,
            },
            Err(refused) => Verdict::Refused { by: refused.by },
        };
        if self.steps.is_some() {
            // What the documents say, if they allow nothing of what was said.
            let right = self.model.judge(call, said).is_ok();
            let said = if right {
                said
            } else {
                self.model.foretell(call)
            };
            self.note(at_ns, Did::Call(*call, said));
            if !right {
                return Err(Broken::new(Bound::Upper, "told before"));
            }
        } else {
            self.model.judge(call, said)?;
        }
        let Ok(entered) = entered else {
            return Ok(());
        };
        if self.case.setup.form == Form::Rules && entered.charged_ns != now {
            return Err(Broken::new(
                Bound::Upper,
                format!("a call at {now} ns is charged at {} ns", entered.charged_ns),
            ));
        }
        let id = call.id as usize;
        if entered.wait_ns > 0 {
            self.waiting.push(Reverse((now + entered.wait_ns, call.id)));
        }
        if self.held.len() <= id {
            self.held.resize_with(id + 1, || None);
            self.logged.resize(id + 1, usize::MAX);
        }
        self.held[id] = Some(entered.held);
        self.logged[id] = self.log.counted.len();
        let due = now + entered.wait_ns;
        let admitted = |ns: u64| Admitted {
            from_ns: ns,
            to_ns: ns,
            weight: call.weight,
            key: call.key,
        };
        let lent = !self.case.setup.queues();
        self.log
            .counted
            .push(admitted(if lent { due } else { now }));
        self.log.released.push(admitted(due));
        Ok(())
    }

    fn end(&mut self, at_ns: u64, id: u32, how: How) {
        let Some(held) = self.held.get_mut(id as usize).and_then(Option::take) else {
            return;
        };
        let given_up = matches!(held, Held::Waiting(_));
        let did = if given_up {
            Did::Cancel(id)
        } else {
            Did::Exit(id, how)
        };
        // Of a limiter on its own nothing is held, so nothing ends.
        if !matches!(held, Held::Nothing) {
            self.note(at_ns, did);
        }
        if given_up {
            // It was never released.
            let at = self.logged[id as usize];
            self.log.counted[at].weight = 0;
            self.log.released[at].weight = 0;
        }
        held.end(how);
        self.model.end(id, how);
    }

    fn look(&mut self, at_ns: u64) -> Result<(), Broken> {
        if self.steps.is_some() && self.limiter.figures().is_some() {
            self.note(at_ns, Did::Look(self.model.expected()));
        }
        match self.limiter.figures() {
            Some(node) => self.model.compare(&node),
            None => Ok(()),
        }
    }

    /// At the end nobody is in flight.
    fn leave_all(&mut self) -> Result<(), Broken> {
        let last = self.case.ops.last().map_or(0, |op| op.at_ns);
        for id in 0..self.held.len() as u32 {
            self.end(last, id, How::Success);
        }
        let node = self.limiter.figures();
        let (calls, permits) = node.map_or((0, 0), |node| (node.in_flight, node.permits));
        match calls + permits {
            0 => self.look(last),
            _ => Err(Broken::in_flight(
                "in flight at the end",
                0,
                calls.max(permits),
            )),
        }
    }

    fn note(&mut self, at_ns: u64, did: Did) {
        if let Some(steps) = &mut self.steps {
            steps.push(Step { at_ns, did });
        }
    }
}

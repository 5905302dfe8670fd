//! What `docs/guarantees.md` says about every call, computed the slow way.
//!
//! A model is written from the documents and shares no code with what it is
//! compared to. It keeps lists of what was admitted and adds them up; it needs
//! no atomics, no rings, and nothing like undo: a call is judged by all limits
//! first, and only then counted by all.
//!
//! Where the documents leave something open (how warm a rule is, which of
//! several holes in a line a newcomer takes) a model says what is allowed, and
//! goes on from what the limiter did.

mod answer;
mod bucket;
mod figures;
mod line;
mod rule;
mod window;

use super::case::{Call, Form, How, Limit, MS, Setup};
use super::log::Broken;

pub(crate) use answer::Verdict;
use answer::{Answer, combine};
use figures::Figures;
pub(crate) use rule::cost_ns;
use rule::{Asked, Rule, Share};
use window::Window;

/// All limits of one resource, as the documents have them.
pub(crate) struct Model {
    setup: Setup,
    set: usize,
    /// The newest reading of the clock.
    now: u64,
    rules: Vec<Rule>,
    /// The counts that rates look at: the resource's, not the rules'.
    windows: Vec<Window>,
    running: u64,
    permits: u64,
    calls: Vec<Option<Stay>>,
    figures: Figures,
    /// Whether a rule reserves passes on arrival, so that calls which wait for
    /// another rule count then.
    reserves: bool,
}

/// A call in flight.
struct Stay {
    call: Call,
    arrived: u64,
    /// When its wait ends; it waits until it has begun.
    due: Option<u64>,
    shares: Vec<(usize, u32, Share)>,
    lent: bool,
}

impl Model {
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut windows = Vec::new();
        let rules = setup.sets[0].iter();
        let rules: Vec<Rule> = rules
            .map(|limit| Rule::new(limit, setup, &mut windows))
            .collect();
        Model {
            set: 0,
            now: 0,
            reserves: rules.iter().any(Rule::reserves),
            rules,
            windows,
            running: 0,
            permits: 0,
            calls: Vec::new(),
            figures: Figures::new(setup),
            setup: setup.clone(),
        }
    }

    /// The clock reads `ns`; the newest reading counts. A bucket on its own
    /// charges each call at its own reading.
    pub(crate) fn set_time(&mut self, ns: u64) -> u64 {
        let is_bucket = matches!(self.setup.sets[0][0], Limit::Bucket { .. });
        self.now = match self.setup.form {
            Form::Alone if is_bucket => ns,
            _ => self.now.max(ns),
        };
        self.now
    }

    /// Judges what a limiter said to a call, and goes on from there.
    pub(crate) fn judge(&mut self, call: &Call, said: Verdict) -> Result<(), Broken> {
        let answer = self.answer(call);
        answer.judge(said)?;
        self.commit(call, said);
        Ok(())
    }

    /// What the documents would have the limiter say, where they leave it open
    /// one of the answers they allow.
    pub(crate) fn foretell(&self, call: &Call) -> Verdict {
        self.answer(call).preferred()
    }

    fn answer(&self, call: &Call) -> Answer {
        let asked = |rule: &Rule| {
            let asked = Asked {
                now: self.now,
                call,
                windows: &self.windows,
                running: self.running,
                permits: self.permits,
                borrow_wait_ns: self.setup.borrow_wait_ms.min(self.setup.view_ms) * MS,
            };
            (rule.kind(), rule.ask(&asked))
        };
        // In the order of the chain.
        let kinds = ["param_flow", "flow", "isolation"];
        let in_order = kinds.iter().flat_map(|kind| {
            let of_kind = self.rules.iter().filter(move |rule| rule.kind() == *kind);
            of_kind.map(asked)
        });
        let all = combine(in_order);
        if call.may_wait {
            all
        } else {
            all.without_waiting()
        }
    }

    /// Counts a call as the limiter has decided.
    pub(crate) fn commit(&mut self, call: &Call, said: Verdict) {
        let weight = u64::from(call.weight);
        let Verdict::Admitted { wait } = said else {
            self.figures.blocked(self.now, weight);
            return;
        };
        let due = self.now + wait;
        let lent = wait > 0 && !self.setup.queues();
        let mut shares = Vec::new();
        for (index, rule) in self.rules.iter_mut().enumerate() {
            if let Some(share) = rule.commit(self.now, call, wait) {
                shares.push((index, rule.epoch(), share));
            }
        }
        for window in &mut self.windows {
            // A loan is counted in the second view when it is due, and in an
            // interval of a rule's own at once.
            let lends = window.box_ns == self.setup.view_box_ns();
            let at = if lent && lends { due } else { self.now };
            window.count(call.id, at, weight);
        }
        self.running += 1;
        self.permits += weight;
        if wait == 0 || lent || self.reserves {
            let shown = if lent { due } else { self.now };
            self.figures.passed(call.id, self.now, shown, weight);
        }
        let stay = Stay {
            call: *call,
            arrived: self.now,
            due: (wait > 0).then_some(due),
            shares,
            lent,
        };
        let id = call.id as usize;
        if self.calls.len() <= id {
            self.calls.resize_with(id + 1, || None);
        }
        self.calls[id] = Some(stay);
    }

    /// The wait of a call is over.
    pub(crate) fn begin(&mut self, id: u32) {
        let Some(Some(stay)) = self.calls.get_mut(id as usize) else {
            return;
        };
        let waited = stay.due.take().is_some();
        if waited && !stay.lent && !self.reserves {
            let weight = u64::from(stay.call.weight);
            self.figures.passed(id, self.now, self.now, weight);
        }
    }

    /// A call ends, or is given up if it waits.
    pub(crate) fn end(&mut self, id: u32, how: How) {
        let Some(stay) = self.calls.get_mut(id as usize).and_then(Option::take) else {
            return;
        };
        let weight = u64::from(stay.call.weight);
        self.running -= 1;
        self.permits -= weight;
        for rule in &mut self.rules {
            rule.leave(&stay.call);
        }
        if stay.due.is_none() {
            self.figures.ended(self.now, stay.arrived, weight, how);
            return;
        }
        for (index, epoch, share) in stay.shares {
            self.rules[index].give_back(self.now, stay.call.key, epoch, share);
        }
        for window in &mut self.windows {
            window.take_back(id);
        }
        self.figures.given_up(self.now, id, weight);
    }

    /// Another set of limits is in force. What has passed stays, and so does
    /// what an equal rule remembers.
    pub(crate) fn load(&mut self, set: usize) {
        self.set = set;
        let limits: &[Limit] = &self.setup.sets[set];
        for (rule, limit) in self.rules.iter_mut().zip(limits) {
            rule.reload(limit);
        }
    }

    /// What a node has to show now, under the names of traces.
    pub(crate) fn expected(&self) -> Vec<(&'static str, u64)> {
        let mut all = vec![("concurrency", self.running), ("permits", self.permits)];
        all.extend(self.figures.expected(self.now));
        all
    }

    /// Compares the figures of a node with the log.
    pub(crate) fn compare(&self, node: &flowgate::NodeSnapshot) -> Result<(), Broken> {
        let in_flight = [
            ("in flight", self.running, node.in_flight),
            ("permits", self.permits, node.permits),
        ];
        for (name, expected, found) in in_flight {
            if expected != found {
                return Err(Broken::in_flight(name, expected, found));
            }
        }
        self.figures.compare(self.now, node)
    }
}

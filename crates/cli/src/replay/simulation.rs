//! Calls of a log on a manual clock.
//!
//! Three things happen to a call, each at its time: it arrives; it goes ahead,
//! after its wait if it was queued; it ends, the service time later. Arrivals
//! come in the order of time. What is to happen to the calls under way is
//! kept in a heap, and happens before the next arrival if its time is not
//! later. At one and the same time calls end first, then waiting calls go
//! ahead, then calls arrive: what is given back at a moment can be used at it.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

use flowgate::{Engine, Entry, LimitApp, ManualClock, Pending, Resource, Timestamp, Traffic};

use super::tally::Tally;
use crate::access_log::{AccessLog, Request};

/// How many calls pass between two reports of progress.
const PROGRESS_EVERY: u64 = 10_000;

pub(super) struct Simulation<'l> {
    engine: &'l Engine,
    clock: &'l ManualClock,
    log: &'l AccessLog,
    service_time: Duration,
    /// Of which resources the engine is told who calls. Each client of such a
    /// one has statistics of its own, so it is told only where a rule asks.
    tells_origins: Vec<bool>,
    tallies: Tallies,
}

/// What became of all calls, and of those of each resource of the log.
pub(super) struct Tallies {
    pub(super) total: Tally,
    pub(super) resources: Vec<Tally>,
}

/// What is to happen to a call under way.
struct Due<'r> {
    at: Timestamp,
    /// Of events at one time the first made is the first to happen.
    number: u64,
    event: Event<'r>,
}

enum Event<'r> {
    End(Box<Entry<'r>>),
    Begin(Box<Pending<'r>>, u32),
}

impl<'l> Simulation<'l> {
    pub(super) fn new(
        engine: &'l Engine,
        clock: &'l ManualClock,
        log: &'l AccessLog,
        service_time: Duration,
        tells_origins: Vec<bool>,
    ) -> Self {
        Simulation {
            engine,
            clock,
            log,
            service_time,
            tells_origins,
            tallies: Tallies {
                total: Tally::default(),
                resources: vec![Tally::default(); log.resources.len()],
            },
        }
    }

    /// The handles that calls go through, in the order of the log's names.
    pub(super) fn handles(&self) -> Vec<Resource> {
        let names = self.log.resources.iter();
        names.map(|name| self.engine.resource(name)).collect()
    }

    /// Lets all calls arrive, go ahead and end.
    pub(super) fn run(
        mut self,
        handles: &[Resource],
        arrivals: impl Iterator<Item = (Timestamp, Request)>,
        mut progress: impl FnMut(u64),
    ) -> Tallies {
        let mut under_way = UnderWay::default();
        let mut done = 0;
        for (at, request) in arrivals {
            while let Some(due) = under_way.next_until(at) {
                self.happen(due, &mut under_way);
            }
            self.clock.set(at);
            self.arrive(at, request, handles, &mut under_way);
            done += 1;
            if done % PROGRESS_EVERY == 0 {
                progress(PROGRESS_EVERY);
            }
        }
        while let Some(due) = under_way.next_until(Timestamp::from_nanos(u64::MAX)) {
            self.happen(due, &mut under_way);
        }
        self.tallies
    }

    fn arrive<'r>(
        &mut self,
        at: Timestamp,
        request: Request,
        handles: &'r [Resource],
        under_way: &mut UnderWay<'r>,
    ) {
        let number = request.resource;
        self.tallies.of(number, |tally| tally.offer(at));
        let mut call = handles[number as usize].request().traffic(Traffic::Inbound);
        if self.tells_origins[number as usize] {
            call = call.origin(&self.log.clients[request.client]);
        }
        match call.reserve() {
            Err(_) => self.tallies.of(number, Tally::block),
            Ok(pending) if pending.wait() == Duration::ZERO => {
                self.begin(at, pending, number, under_way);
            }
            Ok(pending) => {
                let wait = pending.wait();
                self.tallies.of(number, |tally| tally.queue(wait));
                under_way.add(at + wait, Event::Begin(Box::new(pending), number));
            }
        }
    }

    fn begin<'r>(
        &mut self,
        at: Timestamp,
        pending: Pending<'r>,
        number: u32,
        under_way: &mut UnderWay<'r>,
    ) {
        self.tallies.of(number, |tally| tally.pass(at));
        under_way.add(
            at + self.service_time,
            Event::End(Box::new(pending.begin())),
        );
    }

    fn happen<'r>(&mut self, due: Due<'r>, under_way: &mut UnderWay<'r>) {
        self.clock.set(due.at);
        match due.event {
            Event::End(entry) => entry.exit(),
            Event::Begin(pending, number) => self.begin(due.at, *pending, number, under_way),
        }
    }
}

/// For each resource of the log, whether one of the engine's rules asks who
/// calls.
pub(super) fn tells_origins(engine: &Engine, log: &AccessLog) -> Vec<bool> {
    let rules = engine.flow_rules();
    let tells = |name| {
        let rules = rules.matching(name);
        let mut rules = rules.iter().map(|entry| entry.rule());
        rules.any(|rule| rule.limit_app != LimitApp::Default)
    };
    log.resources.iter().map(tells).collect()
}

/// The most clients that one of these resources may have statistics for, so
/// that all together have no more than `total`.
pub(super) fn origins_max(tells_origins: &[bool], log: &AccessLog, total: usize) -> usize {
    let requests = log.requests.iter();
    let telling = requests.filter(|it| tells_origins[it.resource as usize]);
    let mut pairs: Vec<(u32, u32)> = telling.map(|it| (it.resource, it.client)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let clients: Vec<usize> = pairs.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).collect();
    let together = |max: usize| {
        clients
            .iter()
            .map(|clients| max.min(*clients))
            .sum::<usize>()
    };
    let candidates: Vec<usize> = (1..=log.clients.len()).collect();
    candidates
        .partition_point(|max| together(*max) <= total)
        .max(1)
}

impl Tallies {
    fn of(&mut self, number: u32, mut count: impl FnMut(&mut Tally)) {
        count(&mut self.total);
        count(&mut self.resources[number as usize]);
    }
}

/// The calls under way, by the time of what is to happen to them.
#[derive(Default)]
struct UnderWay<'r> {
    due: BinaryHeap<Due<'r>>,
    added: u64,
}

impl<'r> UnderWay<'r> {
    fn add(&mut self, at: Timestamp, event: Event<'r>) {
        let number = self.added;
        self.added += 1;
        self.due.push(Due { at, number, event });
    }

    fn next_until(&mut self, at: Timestamp) -> Option<Due<'r>> {
        self.due.peek().filter(|due| due.at <= at)?;
        self.due.pop()
    }
}

impl Due<'_> {
    fn order(&self) -> (Timestamp, bool, u64) {
        let begins = matches!(self.event, Event::Begin(..));
        (self.at, begins, self.number)
    }
}

// A heap gives the greatest first: the earliest is to be the greatest.
impl Ord for Due<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.order().cmp(&self.order())
    }
}

impl PartialOrd for Due<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Due<'_> {}

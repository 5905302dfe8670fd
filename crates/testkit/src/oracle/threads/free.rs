//! A crowd that moves the clock as it goes: every span of the merged log.

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::case::{BASE_NS, Call, How, Limit, MS, Setup};
use super::super::limiter::{Held, Limiter};
use super::super::log::{Admitted, Bound, Broken, Log};
use super::super::random::Random;
use super::super::spans::Promise;
use super::super::traffic::Scale;
use super::{Crowd, Failed, Run, crowd, history};

/// Values of the argument at most.
const KEYS_MAX: usize = 6;
/// In less than this everything is still in the minute view.
const MINUTE_NS: u64 = 58_000 * MS;

/// Runs a crowd that nobody leads.
pub(crate) fn free(run: Run<'_>, limiter: &dyn Limiter, random: &mut Random) -> Crowd {
    let threads = crowd(random);
    let traffic = Traffic::draw(run, threads, random);
    limiter.set_time(BASE_NS + random.below(4 * traffic.scale.interval_ns));
    let inside = Gauge::of(run.setup);
    let notes: Vec<Notes> = std::thread::scope(|scope| {
        let threads = (0..threads).map(|thread| {
            let seed = random.next();
            let (traffic, inside) = (&traffic, &inside);
            scope.spawn(move || {
                let mut caller = Caller {
                    thread,
                    limiter,
                    traffic,
                    inside,
                    random: Random::stream(seed, thread as u64),
                    held: Vec::new(),
                    notes: Notes::default(),
                };
                caller.go();
                caller.notes
            })
        });
        let threads: Vec<_> = threads.collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|notes| notes.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut all = Notes::default();
    notes.into_iter().for_each(|notes| all.add(notes));
    judge(run, limiter, all)
}

/// How threads call.
struct Traffic<'r> {
    run: Run<'r>,
    scale: Scale,
    calls_each: u64,
    /// The clock is moved once in so many calls …
    moves_once_in: u64,
    /// … by up to this.
    step_max_ns: u64,
    weights: bool,
    keys: u64,
    held_max: usize,
    cancels: bool,
    /// Whether the second view is the only count that calls are in.
    one_count: bool,
}

impl<'r> Traffic<'r> {
    fn draw(run: Run<'r>, threads: usize, random: &mut Random) -> Self {
        let scale = Scale::of(run.setup, 0);
        // How many calls come for one that fits.
        let tenths = random.pick(&[5, 15, 30, 100]);
        let mean_ns = match run.setup.queues() {
            true => scale.grain_ns * 10 / tenths,
            false => scale.interval_ns * 10 / (scale.most * tenths),
        };
        let moves_once_in = random.pick(&[1, 4, 16, 64]);
        let has_gauge = Gauge::of(run.setup).most.is_some();
        Traffic {
            run,
            scale,
            calls_each: run.calls / threads as u64 + 1,
            moves_once_in,
            step_max_ns: 2 * mean_ns * moves_once_in + 1,
            weights: random.once_in(3),
            keys: match run.setup.has_keys() {
                true => random.between(1, KEYS_MAX as u64),
                false => 1,
            },
            held_max: match has_gauge {
                true => random.below(1 + 2 * scale.most / threads as u64) as usize + 1,
                false => random.pick(&[0, 2]),
            },
            cancels: random.once_in(2),
            one_count: !run.setup.sets[0].iter().any(Limit::is_interval),
        }
    }
}

/// How many are inside, seen from outside: never more than there are.
struct Gauge {
    most: Option<u64>,
    weighs: bool,
    inside: [AtomicU64; KEYS_MAX],
}

impl Gauge {
    fn of(setup: &Setup) -> Self {
        let limits = setup.sets[0].iter();
        let gauged = limits.filter_map(|limit| match *limit {
            Limit::AtOnce { count } | Limit::ParamAtOnce { count } => Some((count, false)),
            Limit::Permits { count } => Some((count, true)),
            _ => None,
        });
        let least = gauged.min_by_key(|(count, _)| *count);
        Gauge {
            most: least.map(|(count, _)| count),
            weighs: least.is_some_and(|(_, weighs)| weighs),
            inside: Default::default(),
        }
    }

    fn of_call(&self, call: &Call) -> (&AtomicU64, u64) {
        let taken = if self.weighs { call.weight.into() } else { 1 };
        (&self.inside[call.key as usize % KEYS_MAX], taken)
    }

    /// A call is in; how many too many that makes.
    fn enter(&self, call: &Call) -> u64 {
        let Some(most) = self.most else { return 0 };
        let (inside, taken) = self.of_call(call);
        let now = inside.fetch_add(taken, Ordering::SeqCst) + taken;
        now.saturating_sub(most)
    }

    fn leave(&self, call: &Call) {
        let (inside, taken) = self.of_call(call);
        if self.most.is_some() {
            inside.fetch_sub(taken, Ordering::SeqCst);
        }
    }
}

/// What one thread writes down.
#[derive(Default)]
struct Notes {
    log: Log,
    /// When calls of weight 1 were refused, as far as that is known, without
    /// those that follow one of the same box.
    refused: Vec<u64>,
    decisions: u64,
    passed: u64,
    blocked: u64,
    ended: u64,
    cancelled: u64,
    /// The most there were too many inside.
    too_many: Option<Admitted>,
    any_undone: bool,
}

impl Notes {
    fn add(&mut self, mut other: Notes) {
        self.log.counted.append(&mut other.log.counted);
        self.log.released.append(&mut other.log.released);
        self.refused.append(&mut other.refused);
        self.decisions += other.decisions;
        self.passed += other.passed;
        self.blocked += other.blocked;
        self.ended += other.ended;
        self.cancelled += other.cancelled;
        self.too_many = self.too_many.or(other.too_many);
        self.any_undone |= other.any_undone;
    }
}

struct Caller<'t> {
    thread: usize,
    limiter: &'t dyn Limiter,
    traffic: &'t Traffic<'t>,
    inside: &'t Gauge,
    random: Random,
    held: Vec<(Call, Held<'t>)>,
    notes: Notes,
}

impl Caller<'_> {
    fn go(&mut self) {
        for id in 0..self.traffic.calls_each {
            if self.random.once_in(self.traffic.moves_once_in) {
                let by = self.random.below(self.traffic.step_max_ns);
                self.limiter.advance(by);
            }
            let call = self.call_of(id as u32);
            self.call(&call);
            while self.held.len() > self.traffic.held_max {
                let at = self.random.below(self.held.len() as u64) as usize;
                let (call, held) = self.held.swap_remove(at);
                self.end(&call, held);
            }
        }
        while let Some((call, held)) = self.held.pop() {
            self.end(&call, held);
        }
    }

    fn call_of(&mut self, id: u32) -> Call {
        let run = self.traffic.run;
        let weight = match self.random.below(8) {
            0 if self.traffic.weights => self.random.between(2, 4) as u32,
            _ => 1,
        };
        let queues = run.setup.queues() || run.prioritized;
        Call {
            id,
            weight,
            key: self.random.below(self.traffic.keys) as u32,
            prioritized: run.prioritized && self.random.once_in(2),
            may_wait: queues && !self.random.once_in(8),
        }
    }

    fn call(&mut self, call: &Call) {
        let before = self.limiter.now();
        let entered = self.limiter.enter(self.thread, call);
        let after = self.limiter.now();
        let weight = u64::from(call.weight);
        self.notes.decisions += 1;
        let Ok(entered) = entered else {
            self.notes.blocked += weight;
            if call.weight == 1 {
                self.refused(before, after);
            }
            return;
        };
        let (wait, reading) = (entered.wait_ns, entered.charged_ns);
        let waits = matches!(entered.held, Held::Waiting(_));
        if waits && self.traffic.cancels && self.random.once_in(4) {
            entered.held.end(How::Cancelled);
            self.notes.cancelled += weight;
            self.notes.any_undone = true;
            return;
        }
        let lent = waits && !self.traffic.run.setup.queues();
        if lent {
            // No sooner than its window begins, whatever it has read.
            self.limiter.set_time(after + wait);
        }
        let held = entered.held.begin();
        let admitted = |from_ns, to_ns| Admitted {
            from_ns,
            to_ns,
            weight: call.weight,
            key: call.key,
        };
        let one_count = self.traffic.one_count;
        let counted = match &held {
            // The window that it borrowed from begins a wait after it is charged.
            Held::Running(entry) if lent => {
                let charged = entry.entered().map_or(0, flowgate::Timestamp::as_nanos);
                admitted(charged + wait, charged + wait)
            }
            Held::Running(entry) => {
                // Exact for the second view. A count of an interval's own may
                // have it in an older box, if the call has slept between the two.
                let charged = entry.entered().map_or(0, flowgate::Timestamp::as_nanos);
                admitted(if one_count { charged } else { before }, charged)
            }
            _ => admitted(before, after),
        };
        if self.inside.enter(call) > 0 {
            self.notes.too_many = Some(counted);
        }
        self.notes.log.counted.push(counted);
        // A limiter on its own says which reading it was handed.
        let released = match &held {
            Held::Nothing => admitted(reading, reading),
            _ => admitted(before + wait, after + wait),
        };
        self.notes.log.released.push(released);
        self.notes.passed += weight;
        self.held.push((*call, held));
    }

    fn refused(&mut self, before: u64, after: u64) {
        let grain_ns = self.traffic.scale.grain_ns;
        let same = |a: u64, b: u64| a / grain_ns == b / grain_ns;
        let last = self.notes.refused.last();
        if same(before, after) && last.is_none_or(|&last| !same(last, after)) {
            self.notes.refused.push(after);
        }
    }

    fn end(&mut self, call: &Call, held: Held<'_>) {
        self.inside.leave(call);
        self.notes.ended += u64::from(call.weight);
        held.end(How::Success);
    }
}

/// Every span, the figures, and that nothing is held any more.
fn judge(run: Run<'_>, limiter: &dyn Limiter, mut notes: Notes) -> Crowd {
    let setup = run.setup;
    let mut result = Crowd {
        decisions: notes.decisions,
        ..Crowd::default()
    };
    let fail = |broken: Broken, span: &[Admitted]| {
        Some(Failed {
            broken,
            history: history(setup, span),
        })
    };
    for promise in Promise::all_of(setup) {
        let checked = promise.check(&mut notes.log);
        result.spans += checked.spans;
        if let Some((broken, span)) = checked.broken {
            result.failure = fail(broken, &span);
            return result;
        }
    }
    if let (Some(admitted), Some(most)) = (notes.too_many, Gauge::of(setup).most) {
        let text = format!("more than {most} were inside at once");
        let one = Admitted {
            weight: 1,
            ..admitted
        };
        let span = vec![one; most as usize + 1];
        result.failure = fail(Broken::new(Bound::Upper, text), &span);
        return result;
    }
    if let Some(shares) = Shares::of(run, &mut notes) {
        result.spans += shares.spans;
        result.least_share = Some(shares.least);
        if shares.least < 1.0 {
            let percent = shares.least * 100.0;
            let text = format!("a call was refused where {percent:.2} % of the limit had passed");
            result.failure = fail(Broken::new(Bound::Lower, text), &shares.span);
            return result;
        }
    }
    if let Err(broken) = figures(limiter, &notes) {
        result.failure = fail(broken, &[]);
    }
    result
}

/// Where nothing is ever given back, what a window holds only grows, so a call
/// of weight 1 that was refused in it says that the limit was used up: whoever
/// was refused, and however little was offered.
struct Shares {
    least: f64,
    spans: u64,
    /// What had passed where it is least, and the call that was refused.
    span: Vec<Admitted>,
}

impl Shares {
    fn of(run: Run<'_>, notes: &mut Notes) -> Option<Shares> {
        let promises = Promise::all_of(run.setup);
        let [
            Promise::Boxes {
                box_ns,
                boxes,
                most,
            },
        ] = promises[..]
        else {
            return None;
        };
        let warms = matches!(run.setup.sets[0][0], Limit::WarmUp { .. });
        if warms || run.setup.sets[0].len() > 1 || run.prioritized || notes.any_undone {
            return None;
        }
        // Those whose box is not known count in all that it may be.
        let (mut begun, mut gone) = (notes.log.counted.clone(), notes.log.counted.clone());
        begun.sort_unstable_by_key(|a| a.from_ns);
        gone.sort_unstable_by_key(|a| a.to_ns);
        notes.refused.sort_unstable();
        let (mut begun_to, mut gone_to, mut held) = (0, 0, 0_u64);
        let mut shares: Option<Shares> = None;
        let mut spans = 0;
        for refused in notes.refused.chunk_by(|a, b| a / box_ns == b / box_ns) {
            let number = refused[0] / box_ns;
            while begun
                .get(begun_to)
                .is_some_and(|a| a.from_ns / box_ns <= number)
            {
                held += u64::from(begun[begun_to].weight);
                begun_to += 1;
            }
            let left = |a: &Admitted| a.to_ns / box_ns + boxes <= number;
            while gone.get(gone_to).is_some_and(left) {
                held -= u64::from(gone[gone_to].weight);
                gone_to += 1;
            }
            spans += 1;
            let share = held as f64 / most as f64;
            if shares.as_ref().is_none_or(|shares| share < shares.least) {
                let in_account = |a: &&Admitted| a.from_ns / box_ns <= number && !left(a);
                let mut span: Vec<_> = match share < 1.0 {
                    true => begun.iter().filter(in_account).copied().collect(),
                    false => Vec::new(),
                };
                span.push(Admitted {
                    from_ns: refused[0],
                    to_ns: (number + 1) * box_ns - 1,
                    weight: 1,
                    key: 0,
                });
                shares = Some(Shares {
                    least: share,
                    spans,
                    span,
                });
            }
        }
        if let Some(shares) = &mut shares {
            shares.spans = spans;
        }
        shares
    }
}

/// In flight nobody, and all that was written down.
fn figures(limiter: &dyn Limiter, notes: &Notes) -> Result<(), Broken> {
    let Some(node) = limiter.figures() else {
        return Ok(());
    };
    let held = [
        ("in flight at the end", node.in_flight),
        ("permits at the end", node.permits),
        ("waiting at the end", node.waiting),
        ("queued at the end", node.queued),
    ];
    for (name, found) in held {
        if found != 0 {
            return Err(Broken::in_flight(name, 0, found));
        }
    }
    let now = limiter.now();
    if now - BASE_NS > MINUTE_NS {
        return Ok(());
    }
    let totals = [
        ("total_pass", notes.passed, node.total_pass),
        ("total_block", notes.blocked, node.total_block),
        ("total_success", notes.ended, node.total_success),
        ("total_cancelled", notes.cancelled, node.total_cancelled),
    ];
    for (name, expected, found) in totals {
        if expected != found {
            return Err(Broken::statistics(name, expected, found));
        }
    }
    Ok(())
}

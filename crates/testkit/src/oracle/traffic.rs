//! Traffic that is meant to hurt: bursts, calls at the edges of boxes and one
//! nanosecond beside them, idle spells, clocks that stand or go back, weights
//! of nothing and of too much, reloads, and calls that are given up.

use super::case::{BASE_NS, Call, How, Limit, MS, Op, Setup, What};
use super::random::Random;

/// The scale of a limit: what is worth hitting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// A box, or the cost of a call.
    pub(crate) grain_ns: u64,
    /// The interval of the limit.
    pub(crate) interval_ns: u64,
    /// The limit, in calls.
    pub(crate) most: u64,
}

impl Scale {
    /// That of one of the limits.
    pub(crate) fn of(setup: &Setup, place: usize) -> Scale {
        let limit = &setup.sets[0][place];
        let (grain_ns, interval_ns, most) = match *limit {
            Limit::Rate { milli } | Limit::WarmUp { milli, .. } => (
                setup.view_box_ns(),
                setup.view_ms * MS,
                milli * setup.view_ms / 1_000_000,
            ),
            Limit::Bucket {
                milli,
                interval_ms,
                burst,
                wait_ms,
            } => {
                let (cost, interval_ns, waiting) =
                    spaced(milli, interval_ms * MS, wait_ms.unwrap_or(0));
                (cost, interval_ns, burst + waiting)
            }
            Limit::Interval {
                milli,
                interval_ms,
                boxes,
                ..
            } => (
                interval_ms * MS / u64::from(boxes),
                interval_ms * MS,
                milli / 1000,
            ),
            Limit::Line {
                milli,
                interval_ms,
                wait_ms,
            } => spaced(milli, interval_ms * MS, wait_ms),
            Limit::WarmUpLine { milli, wait_ms, .. } => spaced(milli, 1000 * MS, wait_ms),
            Limit::ParamLine {
                milli,
                period_s,
                wait_ms,
            } => spaced(milli, period_s * 1000 * MS, wait_ms),
            Limit::ParamTokens {
                milli,
                burst,
                period_s,
            } => (MS, period_s * 1000 * MS, milli / 1000 + burst),
            Limit::ParamBucket {
                milli,
                burst,
                period_s,
            } => {
                let (cost, interval_ns, _) = spaced(milli, period_s * 1000 * MS, 0);
                (cost, interval_ns, milli / 1000 + burst)
            }
            Limit::AtOnce { count } | Limit::Permits { count } | Limit::ParamAtOnce { count } => {
                (MS, 100 * MS, count)
            }
        };
        Scale {
            grain_ns,
            interval_ns,
            most: most.max(1),
        }
    }
}

/// A line has room for as many calls as can wait in it.
fn spaced(milli: u64, interval_ns: u64, wait_ms: u64) -> (u64, u64, u64) {
    let cost = super::model::cost_ns(1, interval_ns, milli).max(1);
    (cost, interval_ns, 1 + wait_ms * MS / cost)
}

/// Draws what happens, with `calls` calls in it.
pub(crate) fn draw(random: &mut Random, setup: &Setup, prioritized: bool, calls: u32) -> Vec<Op> {
    let place = random.below(setup.sets[0].len() as u64) as usize;
    let scale = Scale::of(setup, place);
    let open_max = match random.below(4) {
        0 => 0,
        1 => 3,
        _ => scale.most.min(400) * 2,
    };
    let mut traffic = Traffic {
        now: BASE_NS + random.below(4 * scale.interval_ns),
        styles: Styles {
            weights: random.once_in(2),
            prioritized,
            queues: setup.queues() || prioritized,
            keys: if setup.has_keys() {
                random.between(1, 6)
            } else {
                1
            },
            open_max,
        },
        scale,
        sets: setup.sets.len() as u64,
        next_id: 0,
        calls,
        open: Vec::new(),
        recent: Vec::new(),
        ops: Vec::new(),
        random,
    };
    while traffic.next_id < calls {
        traffic.segment();
    }
    traffic.ops
}

struct Traffic<'r> {
    random: &'r mut Random,
    scale: Scale,
    styles: Styles,
    sets: u64,
    now: u64,
    next_id: u32,
    calls: u32,
    /// Calls that may be in flight.
    open: Vec<u32>,
    /// When calls were made.
    recent: Vec<u64>,
    ops: Vec<Op>,
}

struct Styles {
    weights: bool,
    prioritized: bool,
    queues: bool,
    keys: u64,
    open_max: u64,
}

impl Traffic<'_> {
    fn segment(&mut self) {
        let Scale {
            grain_ns,
            interval_ns,
            most,
        } = self.scale;
        match self.random.below(16) {
            0..=4 => {
                let burst = self.random.between(1, (2 * most + 1).min(100));
                self.calls(burst, 0);
            }
            5..=7 => {
                let calls = self.random.between(1, 20);
                self.calls(calls, 2 * interval_ns / (most + 1));
            }
            8 | 9 => {
                let edge = (self.now / grain_ns + 1) * grain_ns;
                self.now = self.beside(edge);
                let calls = self.random.between(1, 3);
                self.calls(calls, 1);
            }
            10 | 11 => {
                if let Some(&then) = self.recent.last() {
                    let pick = self.random.below(self.recent.len() as u64) as usize;
                    let then = self.recent.get(pick).copied().unwrap_or(then);
                    let edge = self.beside(then + interval_ns);
                    self.now = self.now.max(edge);
                }
                let calls = self.random.between(1, 3);
                self.calls(calls, 0);
            }
            12 => self.now += self.random.below(3 * interval_ns),
            13 => {
                let back = self.random.below(2 * interval_ns);
                let (now, then) = (self.now, self.now.saturating_sub(back));
                self.now = then.max(BASE_NS);
                let calls = self.random.between(1, 4);
                self.calls(calls, 1);
                self.now = now.max(self.now);
            }
            14 => {
                let ends = self.random.below(1 + self.open.len() as u64);
                for _ in 0..ends {
                    self.end_one();
                }
            }
            _ if self.random.once_in(4) => self.push(What::Look),
            _ if self.sets > 1 && self.random.once_in(2) => {
                let set = self.random.below(self.sets) as usize;
                self.push(What::Load { set });
            }
            _ => self.now += self.random.below(grain_ns),
        }
    }

    /// An instant, or one nanosecond beside it.
    fn beside(&mut self, edge: u64) -> u64 {
        edge - 1 + self.random.below(3)
    }

    fn calls(&mut self, calls: u64, step_max: u64) {
        for _ in 0..calls {
            if self.next_id == self.calls {
                return;
            }
            self.call();
            if step_max > 0 {
                self.now += self.random.below(step_max + 1);
            }
        }
    }

    fn call(&mut self) {
        let most = self.scale.most.min(1 << 20) as u32;
        let weight = match self.random.below(16) {
            _ if !self.styles.weights => 1,
            0 => 0,
            1 => most,
            2 => most + 1,
            3..=6 => self.random.between(2, 5) as u32,
            _ => 1,
        };
        let call = Call {
            id: self.next_id,
            weight,
            key: self.random.below(self.styles.keys) as u32,
            prioritized: self.styles.prioritized && weight > 0 && self.random.once_in(2),
            may_wait: self.styles.queues && !self.random.once_in(4),
        };
        self.next_id += 1;
        self.push(What::Call(call));
        self.open.push(call.id);
        if self.recent.len() == 16 {
            self.recent.remove(0);
        }
        self.recent.push(self.now);
        while self.open.len() as u64 > self.styles.open_max {
            self.end_one();
        }
    }

    fn end_one(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let at = match self.random.below(4) {
            0 => self.open.len() - 1,
            1 => 0,
            _ => self.random.below(self.open.len() as u64) as usize,
        };
        let id = self.open.swap_remove(at);
        let how = match self.random.below(8) {
            0 => How::Error,
            1 => How::Cancelled,
            _ => How::Success,
        };
        self.push(What::End { id, how });
    }

    fn push(&mut self, what: What) {
        self.ops.push(Op {
            at_ns: self.now,
            what,
        });
    }
}

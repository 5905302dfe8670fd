//! One limit, as `docs/guarantees.md` describes it.

use std::collections::{HashMap, HashSet};

use super::super::case::{Call, Limit, MS, Setup};
use super::answer::{Answer, Waits};
use super::bucket::{Bucket, Size, Tokens};
use super::line::{Line, Offer, Place};
use super::window::Window;

const SECOND_NS: u64 = 1000 * MS;

/// One limit and what it remembers itself.
pub(super) struct Rule {
    limit: Limit,
    view_ms: u64,
    /// Which of the resource's counts it looks at.
    window: Option<usize>,
    line: Line,
    bucket: Option<Bucket>,
    lines: HashMap<u32, Line>,
    values: HashMap<u32, Filled>,
    buckets: HashMap<u32, Bucket>,
    /// Calls of each value in flight.
    at_once: HashMap<u32, HashSet<u32>>,
    /// Grows when the rule starts anew.
    epoch: u32,
}

/// Tokens of one value, as Sentinel fills them up.
#[derive(Clone, Copy, Debug)]
struct Filled {
    tokens: u64,
    filled_ms: u64,
}

/// What a call holds of what a rule remembers itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum Share {
    Place(Place),
    Tokens(Tokens),
}

/// What a rule is asked.
pub(super) struct Asked<'a> {
    pub(super) now: u64,
    pub(super) call: &'a Call,
    pub(super) windows: &'a [Window],
    pub(super) running: u64,
    pub(super) permits: u64,
    pub(super) borrow_wait_ns: u64,
}

/// `weight · T / count`, rounded half up.
pub(crate) fn cost_ns(weight: u64, interval_ns: u64, milli: u64) -> u64 {
    let [weight, interval, milli] = [weight, interval_ns, milli].map(u128::from);
    let doubled = 2 * weight * interval * 1000 + milli;
    (doubled / (2 * milli)) as u64
}

impl Rule {
    pub(super) fn new(limit: &Limit, setup: &Setup, windows: &mut Vec<Window>) -> Self {
        let key = match *limit {
            Limit::Rate { .. } | Limit::WarmUp { .. } => {
                Some((setup.view_box_ns(), u64::from(setup.view_boxes)))
            }
            Limit::Interval {
                interval_ms,
                boxes,
                strict,
                ..
            } => Some(Setup::boxes_of(interval_ms, boxes, strict)),
            _ => None,
        };
        let window = key.map(|(box_ns, boxes)| {
            let same = |w: &Window| (w.box_ns, w.boxes) == (box_ns, boxes);
            windows.iter().position(same).unwrap_or_else(|| {
                windows.push(Window::new(box_ns, boxes));
                windows.len() - 1
            })
        });
        Rule {
            limit: limit.clone(),
            view_ms: setup.view_ms,
            window,
            line: Line::default(),
            bucket: bucket_of(limit),
            lines: HashMap::new(),
            values: HashMap::new(),
            buckets: HashMap::new(),
            at_once: HashMap::new(),
            epoch: 0,
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        self.limit.kind()
    }

    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether it reserves passes of the node on arrival.
    pub(super) fn reserves(&self) -> bool {
        self.window.is_some()
    }

    /// An equal rule goes on, a changed one starts anew.
    pub(super) fn reload(&mut self, limit: &Limit) {
        if self.limit == *limit {
            return;
        }
        self.limit = limit.clone();
        self.line = Line::default();
        self.bucket = bucket_of(limit);
        self.lines.clear();
        self.values.clear();
        self.buckets.clear();
        self.at_once.clear();
        self.epoch += 1;
    }

    /// The most passes its boxes may hold.
    fn most(&self) -> u64 {
        match self.limit {
            Limit::Rate { milli } | Limit::WarmUp { milli, .. } => milli * self.view_ms / 1_000_000,
            _ => self.limit.milli() / 1000,
        }
    }

    /// What it says to a call by itself.
    pub(super) fn ask(&self, asked: &Asked<'_>) -> Answer {
        let Asked { now, call, .. } = *asked;
        let weight = u64::from(call.weight);
        let fits = |held: u64, most: u64| match held + weight <= most {
            true => Answer::admit(0),
            false => Answer::refuse(),
        };
        match self.limit {
            Limit::Rate { .. } | Limit::Interval { .. } => {
                let Some(window) = self.window.map(|window| &asked.windows[window]) else {
                    return Answer::refuse();
                };
                let lends = matches!(self.limit, Limit::Rate { .. }) && call.prioritized;
                let found = window.found(now);
                if found + weight <= self.most() {
                    Answer::admit(0)
                } else if lends {
                    let loan = window.loan(now, weight, self.most(), asked.borrow_wait_ns);
                    loan.map_or_else(Answer::refuse, Answer::admit)
                } else {
                    Answer::refuse()
                }
            }
            Limit::WarmUp { cold, .. } => {
                let Some(window) = self.window.map(|window| &asked.windows[window]) else {
                    return Answer::refuse();
                };
                let held = window.found(now) + weight;
                // Cold, it allows about that part of its count: Sentinel's
                // doubles may come out a little below a whole number. And one
                // per second at least.
                let cold = self.limit.milli() / u64::from(cold);
                let least = (cold * self.view_ms).div_ceil(1_000_000).saturating_sub(1);
                let least = least.max(self.view_ms / 1000);
                Answer {
                    refusal: (held > least).then_some(None),
                    waits: match held <= self.most() {
                        true => Waits::One(0),
                        false => Waits::None,
                    },
                }
            }
            Limit::Line {
                milli,
                interval_ms,
                wait_ms,
            } => offer(&self.line, now, weight, interval_ms * MS, milli, wait_ms),
            Limit::ParamLine {
                milli,
                period_s,
                wait_ms,
            } => {
                let unused = Line::default();
                let line = self.lines.get(&call.key).unwrap_or(&unused);
                offer(line, now, weight, period_s * SECOND_NS, milli, wait_ms)
            }
            Limit::WarmUpLine {
                milli,
                cold,
                wait_ms,
                ..
            } => self.offer_warm(now, weight, milli, cold, wait_ms),
            Limit::AtOnce { count } => fits(asked.running, count),
            Limit::Permits { count } => fits(asked.permits, count),
            Limit::ParamAtOnce { count } => {
                // One place each, whatever the call weighs.
                let running = self.at_once.get(&call.key).map_or(0, HashSet::len);
                match (running as u64) < count {
                    true => Answer::admit(0),
                    false => Answer::refuse(),
                }
            }
            Limit::Bucket { wait_ms, .. } => {
                offer_tokens(self.bucket.as_ref(), now, weight, wait_ms.unwrap_or(0))
            }
            Limit::ParamBucket { .. } => {
                let unused = bucket_of(&self.limit);
                let bucket = self.buckets.get(&call.key).or(unused.as_ref());
                offer_tokens(bucket, now, weight, 0)
            }
            Limit::ParamTokens { .. } => {
                let bucket = self.filled(call.key, now);
                match weight <= bucket.tokens {
                    true => Answer::admit(0),
                    false => Answer::refuse(),
                }
            }
        }
    }

    /// A line whose cost is known within bounds only: from that of the count to
    /// that of a cold rule.
    fn offer_warm(&self, now: u64, weight: u64, milli: u64, cold: u32, wait_ms: u64) -> Answer {
        if weight == 0 {
            return Answer::admit(0);
        }
        let warm_ns = cost_ns(weight, SECOND_NS, milli);
        let slowest = (milli / u64::from(cold)).max(1000.min(milli));
        let cold_ns = cost_ns(weight, SECOND_NS, slowest) + 1;
        let longest = wait_ms * MS;
        let most = self.line.at_end(now, cold_ns);
        // What a place cost that was given back is not known either.
        let least = match self.line.has_holes(now) {
            true => 0,
            false => self.line.at_end(now, warm_ns),
        };
        Answer {
            refusal: (most > longest).then_some(None),
            waits: match least <= longest {
                true => Waits::Between(least, most.min(longest)),
                false => Waits::None,
            },
        }
    }

    /// The bucket of a value, refilled if it is time.
    fn filled(&self, key: u32, now: u64) -> Filled {
        let Limit::ParamTokens {
            milli,
            burst,
            period_s,
        } = self.limit
        else {
            return Filled {
                tokens: 0,
                filled_ms: 0,
            };
        };
        let now_ms = now / MS;
        let period_ms = period_s * 1000;
        let full = (milli + burst * 1000) / 1000;
        let Some(bucket) = self.values.get(&key) else {
            return Filled {
                tokens: full,
                filled_ms: now_ms,
            };
        };
        let elapsed_ms = now_ms - bucket.filled_ms;
        if elapsed_ms <= period_ms {
            return *bucket;
        }
        let gained = u128::from(elapsed_ms) * u128::from(milli) / (u128::from(period_ms) * 1000);
        let tokens = (u128::from(bucket.tokens) + gained).min(full.into()) as u64;
        Filled {
            tokens,
            filled_ms: now_ms,
        }
    }

    /// Counts an admitted call in what the rule remembers itself.
    pub(super) fn commit(&mut self, now: u64, call: &Call, wait: u64) -> Option<Share> {
        let weight = u64::from(call.weight);
        match self.limit {
            Limit::Line {
                milli,
                interval_ms,
                wait_ms,
            } if weight > 0 => {
                let cost = cost_ns(weight, interval_ms * MS, milli);
                Some(Share::Place(place(
                    &mut self.line,
                    now,
                    cost,
                    wait_ms * MS,
                    wait,
                )))
            }
            Limit::ParamLine {
                milli,
                period_s,
                wait_ms,
            } if weight > 0 => {
                let cost = cost_ns(weight, period_s * SECOND_NS, milli);
                let line = self.lines.entry(call.key).or_default();
                Some(Share::Place(place(line, now, cost, wait_ms * MS, wait)))
            }
            Limit::WarmUpLine { milli, .. } if weight > 0 => {
                let cost = cost_ns(weight, SECOND_NS, milli);
                Some(Share::Place(self.line.take_any(now, cost, wait)))
            }
            Limit::Bucket { wait_ms, .. } if weight > 0 => {
                let bucket = self.bucket.as_mut()?;
                bucket.settle(now);
                // Another rule may have made it wait.
                let own = match bucket.waits(now, weight) {
                    Some((least, most)) if least == most => least,
                    _ if wait_ms.is_none() => 0,
                    _ => wait,
                };
                Some(Share::Tokens(bucket.take(now + own, weight)))
            }
            Limit::ParamBucket { .. } if weight > 0 => {
                let unused = bucket_of(&self.limit)?;
                let bucket = self.buckets.entry(call.key).or_insert(unused);
                bucket.settle(now);
                Some(Share::Tokens(bucket.take(now, weight)))
            }
            Limit::ParamTokens { .. } if weight > 0 => {
                let mut bucket = self.filled(call.key, now);
                bucket.tokens = bucket.tokens.saturating_sub(weight);
                self.values.insert(call.key, bucket);
                None
            }
            Limit::ParamAtOnce { .. } => {
                self.at_once.entry(call.key).or_default().insert(call.id);
                None
            }
            _ => None,
        }
    }

    /// A call gives back what it holds.
    pub(super) fn give_back(&mut self, now: u64, key: u32, epoch: u32, share: Share) {
        if epoch != self.epoch {
            return;
        }
        match (share, &self.limit) {
            (Share::Tokens(tokens), _) => {
                let of_value = self.buckets.get_mut(&key);
                if let Some(bucket) = of_value.or(self.bucket.as_mut()) {
                    bucket.give_back(tokens);
                }
            }
            (Share::Place(place), Limit::ParamLine { .. }) => {
                self.lines.entry(key).or_default().give_back(now, place);
            }
            (Share::Place(place), _) => self.line.give_back(now, place),
        }
    }

    /// A call ends.
    pub(super) fn leave(&mut self, call: &Call) {
        if let Some(running) = self.at_once.get_mut(&call.key) {
            running.remove(&call.id);
        }
    }
}

/// A full bucket, of the resource or of a value.
fn bucket_of(limit: &Limit) -> Option<Bucket> {
    let size = match *limit {
        Limit::Bucket {
            milli,
            interval_ms,
            burst,
            ..
        } => Size {
            milli,
            interval_ns: interval_ms * MS,
            burst,
        },
        Limit::ParamBucket {
            milli,
            burst,
            period_s,
        } => Size {
            milli,
            interval_ns: period_s * SECOND_NS,
            burst: milli / 1000 + burst,
        },
        _ => return None,
    };
    Some(Bucket::new(size))
}

/// Tokens now, or as soon as they have flowed in.
fn offer_tokens(bucket: Option<&Bucket>, now: u64, weight: u64, wait_ms: u64) -> Answer {
    let Some(bucket) = bucket.filter(|_| weight > 0) else {
        return Answer::admit(0);
    };
    let Some((least, most)) = bucket.waits(now, weight) else {
        return Answer::refuse();
    };
    let longest = wait_ms * MS;
    Answer {
        refusal: (most > longest).then_some(None),
        waits: match least <= longest {
            true if least == most => Waits::One(least),
            true => Waits::Between(least, most.min(longest)),
            false => Waits::None,
        },
    }
}

/// What a line says to a call.
fn offer(line: &Line, now: u64, weight: u64, interval_ns: u64, milli: u64, wait_ms: u64) -> Answer {
    if weight == 0 {
        return Answer::admit(0);
    }
    let cost = cost_ns(weight, interval_ns, milli);
    match line.offer(now, cost, wait_ms * MS) {
        Offer::End(wait) => Answer::admit(wait),
        Offer::TooLong => Answer::refuse(),
        Offer::Holes(holes) => Answer {
            refusal: None,
            waits: Waits::Among(holes),
        },
        Offer::Any { mut holes, end } => {
            holes.extend(end);
            Answer {
                refusal: end.is_none().then_some(None),
                waits: Waits::Among(holes),
            }
        }
    }
}

/// The place that a call took which waits `wait` in all: in this line that
/// may have been less, if another one made it wait.
fn place(line: &mut Line, now: u64, cost: u64, wait_max: u64, wait: u64) -> Place {
    let own = match line.offer(now, cost, wait_max) {
        Offer::End(own) => own,
        _ => wait,
    };
    line.take(now, cost, own)
}

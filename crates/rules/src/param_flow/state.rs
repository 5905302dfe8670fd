//! What one hot-parameter rule remembers of one resource, and its decision.

use std::time::Duration;

use flowgate_core::token_bucket::{Level, Quota, TooFewTokens};
use flowgate_core::{Accounting, Arg, Measure, Timestamp};
use smallvec::SmallVec;

use super::ParamFlowRule;
use super::bucket::{Bucket, Short, Taken};
use super::cells::{Line, Places, place_from_words, place_to_words};
use super::limit::Limit;
use super::table::{Address, Cell, Key, Pinned, Special, Table};
use crate::Grade;
use crate::flow::pacing::TooLong;

/// The live state of one hot-parameter rule for one resource: the values seen,
/// and what each has used up.
///
/// Deciding takes no lock and allocates nothing for values that are known and
/// for lists of up to four elements. A value seen for the first time takes a
/// lock that only newcomers share.
#[derive(Debug)]
pub struct ParamState {
    pub(super) values: Values,
    wait_ns_max: u64,
}

/// One table, of whatever the rule counts.
#[derive(Debug)]
pub(super) enum Values {
    Tokens(Table<Bucket>),
    Levels(Table<Level>),
    Lines(Table<Line>),
    Places(Table<Places>),
}

/// What a call took of one value: three words for a ticket.
pub type Share = [u64; 3];

/// What a call took of all its values.
pub type Shares = SmallVec<[Share; 4]>;

/// A call that was refused for one of its values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Refusal {
    /// What the limit counts.
    pub measure: Measure,
    /// The limit of the value: calls per second, tokens, calls in flight, or the
    /// longest wait in milliseconds.
    pub limit: f64,
    /// What was seen, in the unit of the limit.
    pub observed: f64,
    /// After what time the call would pass if nobody else came. `None`: never,
    /// or not foreseeable.
    pub retry_after: Option<Duration>,
}

impl ParamState {
    /// The state of a rule that has not seen a call.
    #[must_use]
    pub fn new(rule: &ParamFlowRule) -> Self {
        let limit = |count| Limit::new(count, rule.duration_in_sec, rule.burst_count);
        let values = match (rule.grade, rule.accounted()) {
            (Grade::Concurrency, _) => Values::Places(table(rule, limit)),
            (Grade::Qps, None) => Values::Lines(table(rule, limit)),
            (Grade::Qps, Some(Accounting::TokenBucket)) => {
                // What cannot be held was refused at load.
                let quota = |count| rule.quota(count).unwrap_or(Quota::NOTHING);
                Values::Levels(table(rule, quota))
            }
            (Grade::Qps, Some(_)) => Values::Tokens(table(rule, limit)),
        };
        ParamState {
            values,
            wait_ns_max: u64::from(rule.max_queueing_time_ms) * 1_000_000,
        }
    }

    /// Takes what a call of `weight` needs of each of its values, in one go: all
    /// of them or none. Adds what it took to `shares`, and says how long the
    /// call has to wait.
    ///
    /// A list is charged element by element, as often as an element occurs; nulls
    /// are no values. Weight 0 takes a place in flight but no tokens and no time.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if a value has too little left; nothing is taken then.
    #[inline]
    pub fn take(
        &self,
        arg: Arg<'_>,
        now: Timestamp,
        weight: u32,
        shares: &mut Shares,
    ) -> Result<Duration, Refusal> {
        if let Arg::List(elements) = arg {
            let from = shares.len();
            let wait_ns = self
                .take_all(elements, now, weight, shares)
                .inspect_err(|_| self.give_back_from(from, now, weight, shares))?;
            return Ok(Duration::from_nanos(wait_ns));
        }
        let taken = self.take_one(arg, now, weight)?;
        shares.extend(taken.map(|(share, _)| share));
        Ok(taken.map_or(Duration::ZERO, |(_, wait)| wait))
    }

    /// The same of a value that is no list. `None`: nothing had to be taken.
    #[inline]
    pub(super) fn take_one(
        &self,
        value: Arg<'_>,
        now: Timestamp,
        weight: u32,
    ) -> Result<Option<(Share, Duration)>, Refusal> {
        match Key::of(value) {
            Some((key, text)) => self.take_of(key, text, now, weight),
            None => Ok(None),
        }
    }

    /// Gives back what a call of `weight` took of one value.
    pub fn give_back(&self, share: Share, now: Timestamp, weight: u32) {
        let [address, first, second] = share;
        let address = Address::from_word(address);
        match &self.values {
            Values::Tokens(table) => {
                let Some(value) = table.at(address) else {
                    return;
                };
                let taken = Taken {
                    before: first,
                    after: second,
                };
                let limit = table.limit(value.limit());
                value.cell().give_back(limit, taken, weight.into());
                value.taken_back();
            }
            Values::Levels(table) => {
                let Some(value) = table.at(address) else {
                    return;
                };
                let quota = table.limit(value.limit());
                let since = Timestamp::from_nanos(first);
                value.cell().give_back(quota, since, weight);
                value.taken_back();
            }
            Values::Lines(table) => {
                let Some(value) = table.at(address) else {
                    return;
                };
                let cost_ns = table.limit(value.limit()).cost_ns(weight);
                let place = place_from_words([first, second], cost_ns);
                value.cell().pacer.give_back(place, now);
                value.taken_back();
            }
            Values::Places(table) => {
                let Some(value) = table.at(address) else {
                    return;
                };
                value.cell().leave();
                value.taken_back();
            }
        }
    }

    /// A call that was admitted has ended: its place in flight is free again.
    #[inline]
    pub fn leave(&self, share: Share) {
        if let Values::Places(table) = &self.values
            && let Some(value) = table.at(Address::from_word(share[0]))
        {
            value.cell().leave();
        }
    }

    fn take_all(
        &self,
        elements: &[Arg<'_>],
        now: Timestamp,
        weight: u32,
        shares: &mut Shares,
    ) -> Result<u64, Refusal> {
        let mut longest_ns = 0;
        for element in elements {
            let wait_ns = match element {
                Arg::List(inner) => self.take_all(inner, now, weight, shares)?,
                value => match self.take_one(*value, now, weight)? {
                    Some((share, wait)) => {
                        shares.push(share);
                        wait.as_nanos() as u64
                    }
                    None => 0,
                },
            };
            longest_ns = longest_ns.max(wait_ns);
        }
        Ok(longest_ns)
    }

    #[cold]
    fn give_back_from(&self, from: usize, now: Timestamp, weight: u32, shares: &mut Shares) {
        for share in shares.drain(from..).rev() {
            self.give_back(share, now, weight);
        }
    }

    #[inline]
    fn take_of(
        &self,
        key: Key,
        text: Option<&str>,
        now: Timestamp,
        weight: u32,
    ) -> Result<Option<(Share, Duration)>, Refusal> {
        let at_once = |share| Ok(Some((share, Duration::ZERO)));
        match &self.values {
            Values::Tokens(table) => {
                if weight == 0 {
                    return Ok(None);
                }
                let never = |limit: &Limit| u64::from(weight) > limit.capacity();
                let Some(value) = seen(table, key, text, now, never) else {
                    let left = table.limit(0).capacity();
                    let after_ns = None;
                    return Err(out_of_tokens(table.limit(0), Short { left, after_ns }));
                };
                let limit = table.limit(value.limit());
                match value.cell().take(limit, now, weight.into()) {
                    Ok(Taken { before, after }) => {
                        let share = [value.address().word(), before, after];
                        value.passed();
                        at_once(share)
                    }
                    Err(short) => {
                        // A call that never fits says nothing of now.
                        if u64::from(weight) <= limit.capacity() {
                            value.weigh(weight);
                        }
                        value.refused();
                        Err(out_of_tokens(limit, short))
                    }
                }
            }
            Values::Levels(table) => {
                if weight == 0 {
                    return Ok(None);
                }
                let never = |quota: &Quota| u64::from(weight) > quota.burst();
                let Some(value) = seen(table, key, text, now, never) else {
                    let (left, retry_after) = (table.limit(0).burst(), None);
                    return Err(too_few(table.limit(0), TooFewTokens { left, retry_after }));
                };
                let quota = table.limit(value.limit());
                match value.cell().take(quota, now, weight, Duration::ZERO) {
                    Ok(charge) => {
                        let since_ns = charge.newest.as_nanos();
                        let share = [value.address().word(), since_ns, 0];
                        value.passed();
                        at_once(share)
                    }
                    Err(too_few_tokens) => {
                        value.refused();
                        Err(too_few(quota, too_few_tokens))
                    }
                }
            }
            Values::Lines(table) => {
                if weight == 0 {
                    return Ok(None);
                }
                let Some(value) = seen(table, key, text, now, Limit::is_zero) else {
                    return Err(self.line_closed());
                };
                let limit = table.limit(value.limit());
                if limit.is_zero() {
                    value.refused();
                    return Err(self.line_closed());
                }
                let cost_ns = limit.cost_ns(weight);
                // The next one like it has to keep its distance.
                value.weigh(weight);
                match value.cell().pacer.request(now, cost_ns, self.wait_ns_max) {
                    Ok(place) => {
                        let [first, second] = place_to_words(place);
                        let share = [value.address().word(), first, second];
                        value.passed();
                        let wait_ns = place.release_ns.saturating_sub(now.as_nanos());
                        Ok(Some((share, Duration::from_nanos(wait_ns))))
                    }
                    Err(too_long) => {
                        value.refused();
                        Err(self.line_too_long(limit, cost_ns, too_long))
                    }
                }
            }
            Values::Places(table) => {
                let never = |limit: &Limit| limit.places() == 0;
                let Some(value) = seen(table, key, text, now, never) else {
                    return Err(no_place(table.limit(0), 0));
                };
                let limit = table.limit(value.limit());
                if value.cell().enter(limit) {
                    let share = [value.address().word(), 0, 0];
                    value.passed();
                    at_once(share)
                } else {
                    let observed = value.cell().in_flight();
                    value.refused();
                    Err(no_place(limit, observed))
                }
            }
        }
    }

    #[cold]
    fn line_too_long(&self, limit: &Limit, cost_ns: u64, TooLong { wait_ns }: TooLong) -> Refusal {
        let longest_ns = self.wait_ns_max;
        // A call that takes up more of the line than the whole span and the
        // longest wait never has room in a line that is in use.
        let ever = cost_ns <= longest_ns.saturating_add(limit.duration_ms() * 1_000_000);
        Refusal {
            measure: Measure::WaitMs,
            limit: longest_ns as f64 / 1e6,
            observed: wait_ns as f64 / 1e6,
            retry_after: ever.then(|| Duration::from_nanos(wait_ns.saturating_sub(longest_ns))),
        }
    }

    #[cold]
    fn line_closed(&self) -> Refusal {
        Refusal {
            measure: Measure::WaitMs,
            limit: self.wait_ns_max as f64 / 1e6,
            observed: f64::MAX,
            retry_after: None,
        }
    }
}

fn table<C: Cell>(rule: &ParamFlowRule, limit: impl Fn(f64) -> C::Limit) -> Table<C> {
    // Of values given twice the last counts, as in Sentinel.
    let special = rule.items.iter().rev().map(|item| Special {
        key: item.value.key(),
        text: item.value.long_text().map(Into::into),
        limit: limit(item.count),
    });
    let values_max = rule.max_values_or_default() as usize;
    Table::new(values_max, limit(rule.count), special.collect())
}

/// The value in its table, where it is put if it is new. `None`: a new value of
/// which a call could `never` have what it needs. It is not remembered.
#[inline]
fn seen<'t, C: Cell>(
    table: &'t Table<C>,
    key: Key,
    text: Option<&str>,
    now: Timestamp,
    never: impl FnOnce(&C::Limit) -> bool,
) -> Option<Pinned<'t, C>> {
    if let Some(value) = table.find(key) {
        return Some(value);
    }
    (!never(table.limit(0))).then(|| table.insert(key, text, now))
}

#[cold]
fn out_of_tokens(limit: &Limit, short: Short) -> Refusal {
    let used = limit.capacity() - short.left;
    Refusal {
        measure: Measure::Rate,
        limit: limit.per_second(),
        observed: limit.as_per_second(used),
        retry_after: short.after_ns.map(Duration::from_nanos),
    }
}

#[cold]
fn too_few(quota: &Quota, too_few: TooFewTokens) -> Refusal {
    let taken = quota.burst() - too_few.left;
    Refusal {
        measure: Measure::Tokens,
        limit: quota.burst() as f64,
        observed: taken as f64,
        retry_after: too_few.retry_after,
    }
}

#[cold]
fn no_place(limit: &Limit, in_flight: u64) -> Refusal {
    Refusal {
        measure: Measure::Concurrency,
        limit: limit.places() as f64,
        observed: in_flight as f64,
        retry_after: None,
    }
}

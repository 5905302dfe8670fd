//! The slot of a kind whose rules decide one by one.

use std::time::Duration;

use flowgate_core::{Block, Call, Departure, Queue, Ticket, Verdict};
use flowgate_rules::{Decide, Decision, InForce};

use crate::guarded::SlotError;
use crate::slot::Slot;

/// All rules of one kind for one resource, in the order of the document.
///
/// Enforced rules are asked when a call comes; the first that refuses ends it,
/// and those before give back. Observed rules are asked about calls that were
/// admitted, and decide for their own figures alone.
pub struct RuleSlot<K: Decide> {
    /// A rule's place here is its `index`.
    rules: Box<[InForce<K>]>,
    /// How many of them are enforced: those come first.
    enforced: usize,
}

impl<K: Decide> RuleSlot<K> {
    /// A slot of these rules, whose `index` and `least` are set here.
    pub fn new(mut rules: Vec<InForce<K>>) -> Self {
        rules.sort_by_key(InForce::is_observed);
        for (index, rule) in rules.iter_mut().enumerate() {
            rule.index = index as u32;
        }
        let enforced = rules.iter().filter(|rule| !rule.is_observed()).count();
        let mut least = [u64::MAX; 2];
        for rule in rules.iter_mut().take(enforced).rev() {
            for (least, own) in least.iter_mut().zip(K::shared_limits(rule)) {
                *least = own.min(*least);
            }
            rule.least = least;
        }
        rules.iter_mut().for_each(|rule| rule.least_of_all = least);
        RuleSlot {
            enforced,
            rules: rules.into(),
        }
    }

    #[inline]
    fn enforced(&self) -> &[InForce<K>] {
        self.rules.get(..self.enforced).unwrap_or_default()
    }

    #[inline]
    fn observed(&self) -> &[InForce<K>] {
        self.rules.get(self.enforced..).unwrap_or_default()
    }

    fn rule_of(&self, ticket: &Ticket) -> Option<&InForce<K>> {
        self.rules.get(ticket.rule as usize)
    }

    /// Gives back what the call has taken here since it held `held` tickets. No
    /// ticket is given back twice, also if a rule panics over one.
    fn undo_from(&self, held: usize, call: &mut Call<'_>) {
        while call.holds.tickets.len() > held
            && let Some(ticket) = call.holds.tickets.pop()
        {
            if let Some(rule) = self.rule_of(&ticket) {
                K::undo(rule, ticket.data, call);
            }
        }
    }

    /// Asks an observed rule about a call that was admitted.
    #[cold]
    fn observe(&self, rule: &InForce<K>, call: &mut Call<'_>) {
        let hits = rule.entry.hits();
        let held = call.holds.tickets.len();
        let may_wait = match K::observe(rule, call) {
            Decision::Pass => return hits.pass(),
            Decision::Block(_) => return hits.would_block(),
            Decision::Wait(_) => call.may_wait,
            // Who has stood in line already might have done so for this rule.
            Decision::Queue(_) => call.may_queue || call.holds.queued_for().is_some(),
        };
        if may_wait {
            hits.pass();
            hits.wait();
        } else {
            // It would have been refused, as it does not wait.
            self.undo_from(held, call);
            hits.would_block();
        }
    }
}

/// Whether a call that waits, or has stood in line, does so because of `rule`.
#[cold]
fn is_waited_for<K: Decide>(rule: &InForce<K>, call: &Call<'_>) -> bool {
    let this = (call.slot, rule.index);
    let waits = !call.holds.wait.is_zero();
    call.holds.queued_for() == Some(this) || waits && call.holds.waits_for() == this
}

impl<K: Decide> Slot for RuleSlot<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn check(&self, call: &mut Call<'_>) -> Result<Verdict, SlotError> {
        let held = call.holds.tickets.len();
        let mut longest = (0, Duration::ZERO);
        for rule in self.enforced() {
            if !K::applies(rule, call) {
                continue;
            }
            let refusal = match K::decide(rule, call) {
                Decision::Pass => continue,
                Decision::Wait(wait) => {
                    if wait > longest.1 {
                        longest = (rule.index, wait);
                    }
                    continue;
                }
                Decision::Queue(queue) => Verdict::Queue(queue),
                Decision::Block(block) => {
                    rule.entry.hits().block();
                    Verdict::Block(block)
                }
            };
            self.undo_from(held, call);
            return Ok(refusal);
        }
        let (rule, wait) = longest;
        if wait.is_zero() {
            return Ok(Verdict::Pass);
        }
        call.holds.wait_for(call.slot, rule, wait);
        Ok(Verdict::Wait(wait))
    }

    fn undo(&self, call: &Call<'_>) {
        for ticket in call.tickets().rev() {
            if let Some(rule) = self.rule_of(ticket) {
                K::undo(rule, ticket.data, call);
            }
        }
    }

    fn passed(&self, call: &mut Call<'_>) {
        if K::HEARS_PASSES {
            let slot = call.slot;
            let tickets = call.holds.tickets.iter_mut();
            for ticket in tickets.filter(|ticket| ticket.slot == slot) {
                if let Some(rule) = self.rule_of(ticket) {
                    K::passed(rule, &mut ticket.data);
                }
            }
        }
        let waits = !call.holds.wait.is_zero() || call.holds.queued_for().is_some();
        for rule in self.enforced() {
            if K::applies(rule, call) {
                rule.entry.hits().pass();
                if waits && is_waited_for(rule, call) {
                    rule.entry.hits().wait();
                }
            }
        }
        for rule in self.observed() {
            if K::applies(rule, call) {
                self.observe(rule, call);
            }
        }
    }

    fn exited(&self, departure: &Departure<'_>) {
        for ticket in departure.tickets().rev() {
            if let Some(rule) = self.rule_of(ticket) {
                K::exited(rule, ticket.data, departure);
            }
        }
    }

    fn hears_exits(&self) -> bool {
        K::HEARS_EXITS
    }

    fn too_early(&self, call: &Call<'_>, wait: Duration) -> Block {
        let (_, index) = call.holds.waits_for();
        let index = (index as usize).min(self.rules.len().saturating_sub(1));
        match self.rules.get(index) {
            Some(rule) => {
                rule.entry.hits().block();
                K::too_early(rule, call, wait)
            }
            // A slot without rules asks nobody to wait.
            None => crate::StatisticSlot.too_early(call, wait),
        }
    }

    fn in_vain(&self, _: &Call<'_>, queue: Queue) -> Block {
        if let Some(rule) = self.rules.get(queue.rule as usize) {
            rule.entry.hits().block();
        }
        queue.block
    }
}

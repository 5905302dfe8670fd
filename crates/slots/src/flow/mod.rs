//! The flow slot: all flow rules of one resource.
//!
//! Rules are asked in order: those for a named origin first, then as they stand
//! in the document. Each looks at one count of one node of the call, its
//! *meter*: which node, `limitApp` and `strategy` say; whether its second view
//! or one of an interval of the rule's own, the rule says. It does not apply
//! where there is no such node.
//!
//! **Several limits on one meter** are one reservation. The first rule that
//! limits a meter reserves with the least of all static limits on it, so no
//! call ever holds passes that a later rule on the same meter must refuse:
//! nobody is refused because of somebody who is about to be. If that least
//! limit is exceeded, and a prioritized call cannot borrow within it either,
//! the call is *doomed*: it goes on without reservation until it comes to the
//! first rule that refuses it taken by itself.
//!
//! **The commonest slot** has static limits on the rate of its resource, for all
//! who call, and nothing else. Its plain calls are one reservation with the least of
//! them; which rule refuses is asked when one does.
//!
//! **Buckets** are the rules' own, as lines are: what a call took of them is noted
//! in a ticket, and goes back if a later rule refuses.
//!
//! **Observed rules** are asked about calls that were admitted, after the
//! others: their lines, buckets and temperatures move, what all rules share (passes,
//! calls in flight) they only read. They see to it that a view of their own
//! interval counts.
//!
//! ```text
//! known     what can be said of a rule when the slot is made
//! target    which meter a rule looks at
//! rate      rates that reject: reservations, borrowing, doom
//! tokens    buckets
//! line      queues, related resources, calls at once
//! observe   what observed rules make of an admitted call
//! refusal   what a refusal says
//! ```

mod known;
mod line;
mod observe;
mod rate;
mod refusal;
mod target;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use flowgate_core::sync::OnceLock;
use flowgate_core::token_bucket::Taken;
use flowgate_core::{Block, Call, Interval, Node, Verdict};
use flowgate_rules::flow::pacing::Place as LinePlace;
use flowgate_rules::flow::{Flow, FlowRule, FlowState, Grade, LimitApp, Queue};
use flowgate_rules::{Hits, InForce};

use crate::build::{ChainPlan, Registry};
use crate::guarded::SlotError;
use crate::kinds::in_force;
use crate::slot::Slot;
use known::Known;
use rate::Dooms;
use target::Target;

/// All flow rules of one resource.
pub struct FlowSlot {
    /// Enforced rules first.
    checks: Box<[FlowCheck]>,
    /// How many of them are enforced.
    enforced: usize,
    /// What the rules say in `limitApp`, in their order, `default` and `other`
    /// included: an origin of none of these names is an `other` one.
    named: Box<[String]>,
    /// The intervals of the rules that have one of their own.
    intervals: Box<[Interval]>,
    /// The least limit, if all enforced rules are static ones on the second view
    /// of the resource.
    plain: Option<u64>,
    registry: Arc<dyn Registry>,
}

/// One rule, as it applies to one resource.
struct FlowCheck {
    rule: InForce<Flow>,
    known: Known,
    /// The node of the resource a RELATE rule looks at, once it exists.
    related: OnceLock<Arc<Node>>,
}

impl FlowSlot {
    /// The slot of `resource`, which keeps its state under the name `state`.
    pub(crate) fn make(plan: &ChainPlan, resource: &str, state: &str) -> Option<Arc<dyn Slot>> {
        let rules = in_force::<Flow>(plan, resource, state);
        let registry = Arc::clone(&plan.registry);
        (!rules.is_empty()).then(|| -> Arc<dyn Slot> { Arc::new(FlowSlot::new(rules, registry)) })
    }

    /// A slot of these rules, in the order of the document.
    pub fn new(mut rules: Vec<InForce<Flow>>, registry: Arc<dyn Registry>) -> Self {
        rules.sort_by_key(|rule| {
            let is_for_all = rule.rule().limit_app == LimitApp::Default;
            (rule.is_observed(), is_for_all)
        });
        let enforced = rules.iter().filter(|rule| !rule.is_observed()).count();
        let names = rules.iter().map(|rule| rule.rule().limit_app.as_str());
        let named = names.map(str::to_owned).collect();
        let intervals = rules.iter().filter_map(|rule| rule.state.interval());
        let intervals = intervals.collect();
        let known = Known::all(&rules[..enforced]);
        let checks = rules
            .into_iter()
            .enumerate()
            .map(|(index, rule)| FlowCheck {
                known: known.get(index).copied().unwrap_or(Known::of(&rule)),
                rule,
                related: OnceLock::new(),
            });
        FlowSlot {
            checks: checks.collect(),
            enforced,
            named,
            intervals,
            plain: known::plain(&known),
            registry,
        }
    }

    /// The enforced rules from `from` on, with their places.
    fn enforced_from(&self, from: usize) -> impl Iterator<Item = (usize, &FlowCheck)> {
        let enforced = self.checks.iter().enumerate().take(self.enforced);
        enforced.skip(from)
    }

    /// Asks the enforced rules one by one; the refusal of the first that refuses.
    fn check_all(&self, call: &mut Call<'_>) -> Option<Block> {
        let mut dooms = Dooms::new();
        for (index, check) in self.enforced_from(0) {
            let Some(target) = self.target(index, call) else {
                continue;
            };
            let refusal = match (check.rule().grade, target) {
                (Grade::Concurrency, target) => self.take_place(index, &target, call),
                (Grade::Qps, target) if check.state().paces() => {
                    line::line_up(index, check, target.node(), call)
                }
                (Grade::Qps, _) if check.state().takes_tokens() => tokens::take(index, check, call),
                (Grade::Qps, Target::Foreign(node)) => self.look(check, node, call),
                (Grade::Qps, Target::Own(meter)) => {
                    self.take_passes(index, meter, &mut dooms, call)
                }
            };
            if let Some(block) = refusal {
                check.hits().block();
                self.undo(call);
                return Some(block);
            }
        }
        None
    }

    /// The observed rules, with their places.
    fn observed(&self) -> impl Iterator<Item = (usize, &FlowCheck)> {
        self.checks.iter().enumerate().skip(self.enforced)
    }
}

impl Slot for FlowSlot {
    fn name(&self) -> &'static str {
        "flow"
    }

    #[inline]
    fn check(&self, call: &mut Call<'_>) -> Result<Verdict, SlotError> {
        let refusal = match self.plain {
            Some(limit) if !call.prioritized => self.take_plain(limit, call),
            _ => self.check_all(call),
        };
        if let Some(block) = refusal {
            return Ok(Verdict::Block(block));
        }
        if self.enforced < self.checks.len() {
            self.open_observed_views(call);
        }
        Ok(match call.holds.wait {
            Duration::ZERO => Verdict::Pass,
            wait => Verdict::Wait(wait),
        })
    }
    fn undo(&self, call: &Call<'_>) {
        for ticket in call.tickets().rev() {
            if let Some(check) = self.checks.get(ticket.rule as usize) {
                check.give_back(ticket.data, call);
            }
        }
    }

    fn passed(&self, call: &mut Call<'_>) {
        let waits = !call.holds.wait.is_zero();
        let waits_for = call.holds.waits_for();
        for (index, check) in self.enforced_from(0) {
            if !check.known.on_resource && self.target(index, call).is_none() {
                continue;
            }
            check.hits().pass();
            if waits && waits_for == (call.slot, index as u32) {
                check.hits().wait();
            }
        }
        for (index, check) in self.observed() {
            self.observe(index, check, call);
        }
    }

    fn hears_exits(&self) -> bool {
        false
    }

    fn too_early(&self, call: &Call<'_>, wait: Duration) -> Block {
        let (_, rule) = call.holds.waits_for();
        let index = (rule as usize).min(self.checks.len() - 1);
        let check = &self.checks[index];
        check.hits().block();
        if check.state().paces() {
            return check.refuse_queue(Queue {
                wait,
                retry_after: Some(wait),
            });
        }
        // It would have borrowed: its rate is used up.
        let node = self.target(index, call);
        let passes = node.map_or(0, |target| target.node().passes_in_second(call.now));
        check.refuse_early(passes, wait)
    }
}

impl FlowCheck {
    fn rule(&self) -> &FlowRule {
        self.rule.rule()
    }

    fn state(&self) -> &FlowState {
        &self.rule.state
    }

    fn hits(&self) -> &Hits {
        self.rule.entry.hits()
    }

    /// Gives back what a ticket of this rule stands for.
    fn give_back(&self, ticket: [u64; 3], call: &Call<'_>) {
        if self.state().takes_tokens() {
            let taken = Taken::from_words(ticket);
            return self.state().put_back(taken, call.weight, call.now);
        }
        let [release_ns, before_ns, cost_ns] = ticket;
        let place = LinePlace {
            release_ns,
            before_ns,
            cost_ns,
        };
        self.state().step_out(place, call.now);
    }
}

//! The flow slot: all flow rules of one resource.
//!
//! Rules are asked in order: those for a named origin first, then as they stand
//! in the document. Each looks at one node of the call, chosen by `limitApp`
//! and `strategy`; it does not apply where there is no such node.
//!
//! **Several limits on one node** are one reservation. The first rule that
//! limits a node reserves with the least of all static limits on it, so no call
//! ever holds passes that a later rule on the same node must refuse: nobody is
//! refused because of somebody who is about to be. If that least limit is
//! exceeded, and a prioritized call cannot borrow within it either, the call is
//! *doomed*: it goes on without reservation until it comes to the first rule
//! that refuses it taken by itself.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flowgate_core::call::Hold;
use flowgate_core::leap_array::Full;
use flowgate_core::node::permits::Share;
use flowgate_core::{Block, BlockKind, Call, Measure, Node, Place, Verdict};
use flowgate_rules::InForce;
use flowgate_rules::flow::{
    ControlBehavior, Flow, FlowRule, FlowState, Grade, LimitApp, Queue, Strategy,
    pacing::Place as LinePlace,
};

use crate::build::{ChainPlan, Registry};
use crate::guarded::SlotError;
use crate::kinds::in_force;
use crate::slot::Slot;

/// All flow rules of one resource.
pub struct FlowSlot {
    checks: Box<[FlowCheck]>,
    /// What the rules of this resource say in `limitApp`, `default` and `other`
    /// included: an origin of none of these names is an `other` one.
    named: Box<[String]>,
    registry: Arc<dyn Registry>,
}

/// One rule, as it applies to one resource.
struct FlowCheck {
    rule: InForce<Flow>,
    /// The node of the resource a RELATE rule looks at, once it exists.
    related: OnceLock<Arc<Node>>,
}

/// Which node a rule looks at.
enum Target<'a> {
    /// One of the call's own: it reserves there.
    Own(Place, &'a Node),
    /// Another resource's: it only looks.
    Foreign(&'a Node),
}

/// A call that a later rule is going to refuse.
#[derive(Clone, Copy)]
struct Doom {
    culprit: usize,
    full: Full,
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
        rules.sort_by_key(|rule| rule.rule().limit_app == LimitApp::Default);
        let named = rules
            .iter()
            .map(|rule| rule.rule().limit_app.as_str().to_owned())
            .collect();
        let checks = rules.into_iter().map(|rule| FlowCheck {
            rule,
            related: OnceLock::new(),
        });
        FlowSlot {
            checks: checks.collect(),
            named,
            registry,
        }
    }

    /// The node that rule `check` looks at for this call.
    fn target<'c>(&'c self, check: &'c FlowCheck, call: &Call<'c>) -> Option<Target<'c>> {
        let rule = check.rule();
        let applies = match &rule.limit_app {
            LimitApp::Default => true,
            LimitApp::Other => {
                !call.origin.is_empty() && self.named.iter().all(|name| name != call.origin)
            }
            LimitApp::Named(origin) => origin == call.origin,
        };
        if !applies {
            return None;
        }
        let reference = rule.ref_resource.as_deref().unwrap_or_default();
        let place = match rule.strategy {
            Strategy::Direct if rule.limit_app == LimitApp::Default => Place::Resource,
            Strategy::Direct => Place::Origin,
            Strategy::Relate => return Some(Target::Foreign(self.related(check, reference)?)),
            Strategy::Chain if crate::build::is_context(call.context, reference) => Place::Context,
            Strategy::Chain => return None,
        };
        Some(Target::Own(place, call.nodes.at(place)?))
    }

    fn related<'c>(&self, check: &'c FlowCheck, name: &str) -> Option<&'c Node> {
        if let Some(node) = check.related.get() {
            return Some(node);
        }
        let node = self.registry.node(name)?;
        Some(check.related.get_or_init(|| node))
    }

    /// The least static limit on the node at `place` among the rules from
    /// `from` on.
    fn least(&self, from: usize, place: Place, grade: Grade, call: &Call<'_>) -> u64 {
        let limit = |check: &FlowCheck| match grade {
            Grade::Qps => check.state().limit(),
            Grade::Concurrency => check.state().places(),
        };
        self.checks[from..]
            .iter()
            .filter(|check| self.limits(check, place, grade, call))
            .map(limit)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// The first rule from `from` on that refuses the call by its static limit
    /// on `place`, taken by itself, and what it sees. `full` is what all of them
    /// together refused.
    #[cold]
    fn doom(
        &self,
        from: usize,
        place: Place,
        node: &Node,
        full: &Full,
        call: &Call<'_>,
    ) -> Option<Doom> {
        let refuses = |(culprit, check): (usize, &FlowCheck)| {
            let limit = check.state().limit();
            let full = match full.exceeds(call.weight, limit) {
                true => *full,
                false => node
                    .probe(call.now, call.weight, limit, Hold::Nothing)
                    .err()?,
            };
            let lends = call.prioritized
                && check.may_borrow()
                && node.may_borrow(call.now, call.weight, limit);
            (!lends).then_some(Doom { culprit, full })
        };
        let limiting = self.checks.iter().enumerate().skip(from);
        let found = limiting
            .filter(|(_, check)| self.limits(check, place, Grade::Qps, call))
            .find_map(refuses);
        // Each may have room by now; together they had none.
        found.or_else(|| {
            let culprit = self.exceeded(from, place, full, call)?;
            Some(Doom {
                culprit,
                full: *full,
            })
        })
    }

    /// The first rule from `from` on whose static limit on `place` `full`
    /// exceeds.
    fn exceeded(&self, from: usize, place: Place, full: &Full, call: &Call<'_>) -> Option<usize> {
        let exceeded = |check: &FlowCheck| {
            full.exceeds(call.weight, check.state().limit())
                && self.limits(check, place, Grade::Qps, call)
        };
        let found = self.checks[from..].iter().position(exceeded);
        found.map(|offset| from + offset)
    }

    /// Whether a rule has a static limit on the node at `place`.
    fn limits(&self, check: &FlowCheck, place: Place, grade: Grade, call: &Call<'_>) -> bool {
        check.rule().grade == grade
            && !check.state().paces()
            && !check.state().warms_up()
            && matches!(self.target(check, call), Some(Target::Own(at, _)) if at == place)
    }
}

impl Slot for FlowSlot {
    fn name(&self) -> &'static str {
        "flow"
    }

    fn check(&self, call: &mut Call<'_>) -> Result<Verdict, SlotError> {
        let mut doomed: [Option<Doom>; 4] = [None; 4];
        for (index, check) in self.checks.iter().enumerate() {
            let Some(target) = self.target(check, call) else {
                continue;
            };
            let refusal = match (check.rule().grade, target) {
                (Grade::Concurrency, target) => self.take_place(index, &target, call),
                (Grade::Qps, target) if check.state().paces() => {
                    line_up(index, check, target.node(), call)
                }
                (Grade::Qps, Target::Foreign(node)) => look(check, node, call),
                (Grade::Qps, Target::Own(place, node)) => {
                    let doom = &mut doomed[place as usize];
                    self.take_passes(index, place, node, doom, call)
                }
            };
            if let Some(block) = refusal {
                self.undo(call);
                return Ok(Verdict::Block(block));
            }
        }
        Ok(match call.holds.wait {
            Duration::ZERO => Verdict::Pass,
            wait => Verdict::Wait(wait),
        })
    }

    fn undo(&self, call: &Call<'_>) {
        for ticket in call.tickets().rev() {
            if let Some(check) = self.checks.get(ticket.rule as usize) {
                let [release_ns, before_ns, cost_ns] = ticket.data;
                let place = LinePlace {
                    release_ns,
                    before_ns,
                    cost_ns,
                };
                check.state().step_out(place, call.now);
            }
        }
    }

    fn hears_exits(&self) -> bool {
        false
    }

    fn too_early(&self, call: &Call<'_>, wait: Duration) -> Block {
        let (_, rule) = call.holds.waits_for();
        let check = &self.checks[(rule as usize).min(self.checks.len() - 1)];
        if check.state().paces() {
            return check.refuse_queue(Queue {
                wait,
                retry_after: Some(wait),
            });
        }
        // It would have borrowed: its rate is used up.
        let node = self.target(check, call);
        let passes = node.map_or(0, |target| target.node().passes_in_second(call.now));
        let count = check.rule().count;
        check.block(
            Measure::Rate,
            count,
            check.state().per_second(passes),
            Some(wait),
        )
    }
}

impl FlowSlot {
    /// A concurrency rule: takes one place in flight if `weight` are free.
    fn take_place(&self, index: usize, target: &Target<'_>, call: &mut Call<'_>) -> Option<Block> {
        let check = &self.checks[index];
        let weight = call.weight;
        let own = check.state().places();
        match target {
            Target::Foreign(node) => {
                let own_place = u64::from(
                    is_own_resource(node, call) && call.holds.in_flight(Place::Resource).place,
                );
                let in_flight = node.in_flight().saturating_sub(own_place);
                let fits = in_flight.saturating_add(u64::from(weight)) <= own;
                (!fits).then(|| check.refuse_concurrency(in_flight))
            }
            Target::Own(place, _) if call.holds.in_flight(*place).place => None,
            Target::Own(place, node) => {
                let limit = match self.checks.len() {
                    1 => own,
                    _ => own.min(self.least(index, *place, Grade::Concurrency, call)),
                };
                match node.try_enter(weight, limit) {
                    Ok(_) => {
                        call.holds.add_in_flight(*place, Share::PLACE);
                        None
                    }
                    // A later rule's limit: that rule asks again and refuses.
                    Err(in_flight) if in_flight.saturating_add(u64::from(weight)) <= own => None,
                    Err(in_flight) => Some(check.refuse_concurrency(in_flight)),
                }
            }
        }
    }

    /// A rate that rejects, warming up or not: takes passes of one node.
    fn take_passes(
        &self,
        index: usize,
        place: Place,
        node: &Node,
        doom: &mut Option<Doom>,
        call: &mut Call<'_>,
    ) -> Option<Block> {
        let check = &self.checks[index];
        let weight = call.weight;
        let allowed = check.state().allowed(call.now, node);
        let own = check.state().limit_at(allowed);
        match (call.holds.pass(place), &doom) {
            (Hold::Passed(taken), _) => {
                // Taken with the least static limit; only a limit that moves
                // can still be exceeded.
                let probe = || node.probe(call.now, weight, own, Hold::Passed(taken));
                let full = match taken.sum() <= own {
                    true if !node.lends_ahead(call.now) => return None,
                    true => probe().err()?,
                    // Even if others have left since.
                    false => Full {
                        sum: taken.sum() - u64::from(weight),
                        retry_after: probe().err().and_then(|full| full.retry_after),
                    },
                };
                return Some(check.refuse_rate(allowed, own, weight, full));
            }
            (Hold::Loaned(_), _) if !check.state().warms_up() => return None,
            (hold @ Hold::Loaned(_), _) => {
                let full = node.probe(call.now, weight, own, hold).err()?;
                return Some(check.refuse_rate(allowed, own, weight, full));
            }
            (Hold::Nothing, Some(Doom { culprit, full })) => {
                if *culprit == index {
                    return Some(check.refuse_rate(allowed, own, weight, *full));
                }
                let cold = check.refuses_cold(node, own, full, call)?;
                return Some(check.refuse_rate(allowed, own, weight, cold));
            }
            (Hold::Nothing, None) => {}
        }
        let limit = self.limit_from(index, place, own, call);
        let full = match node.reserve(call.now, weight, limit) {
            Ok(taken) => {
                call.holds.set_pass(place, Hold::Passed(taken));
                return None;
            }
            Err(full) => full,
        };
        if let Some(cold) = check.refuses_cold(node, own, &full, call) {
            return Some(check.refuse_rate(allowed, own, weight, cold));
        }
        if self.borrow(index, place, node, &full, call) {
            return None;
        }
        // Nobody: a window holds no more passes, though the rules would.
        let found = self.doom(index, place, node, &full, call)?;
        if found.culprit == index {
            return Some(check.refuse_rate(allowed, own, weight, found.full));
        }
        *doom = Some(found);
        None
    }

    /// The least of `own` and the static limits on `place` of the rules from
    /// `index` on.
    fn limit_from(&self, index: usize, place: Place, own: u64, call: &Call<'_>) -> u64 {
        match self.checks.len() {
            1 => own,
            _ => own.min(self.least(index, place, Grade::Qps, call)),
        }
    }

    /// Lets a prioritized call that found no room borrow from a window to come,
    /// within all static limits on the node. It waits for the first rule that
    /// has no room.
    fn borrow(
        &self,
        index: usize,
        place: Place,
        node: &Node,
        full: &Full,
        call: &mut Call<'_>,
    ) -> bool {
        if !call.prioritized {
            return false;
        }
        let Some(rule) = self.exceeded(index, place, full, call) else {
            return false;
        };
        let limit = self.least(index, place, Grade::Qps, call);
        let Ok((loan, wait)) = node.borrow(call.now, call.weight, limit) else {
            return false;
        };
        call.holds.set_pass(place, Hold::Loaned(loan));
        call.holds.wait_for(call.slot, rule as u32, wait);
        true
    }
}

/// A rule that paces: takes a place in its line.
fn line_up(index: usize, check: &FlowCheck, node: &Node, call: &mut Call<'_>) -> Option<Block> {
    if call.weight == 0 {
        return None;
    }
    let allowed = check.state().allowed(call.now, node);
    match check.state().line_up(call.now, call.weight, allowed) {
        Ok(LinePlace {
            release_ns,
            before_ns,
            cost_ns,
        }) => {
            call.leave_ticket(index as u32, [release_ns, before_ns, cost_ns]);
            let wait_ns = release_ns.saturating_sub(call.now.as_nanos());
            call.holds
                .wait_for(call.slot, index as u32, Duration::from_nanos(wait_ns));
            None
        }
        Err(mut queue) => {
            if !call.may_wait {
                // Its place would have to be due at once.
                queue.retry_after = queue.retry_after.map(|_| queue.wait);
            }
            Some(check.refuse_queue(queue))
        }
    }
}

/// A rate measured on another resource: looks, and reserves nothing.
fn look(check: &FlowCheck, node: &Node, call: &Call<'_>) -> Option<Block> {
    let allowed = check.state().allowed(call.now, node);
    let limit = check.state().limit_at(allowed);
    let own = match is_own_resource(node, call) {
        true => call.holds.pass(Place::Resource),
        false => Hold::Nothing,
    };
    let full = node.probe(call.now, call.weight, limit, own).err()?;
    Some(check.refuse_rate(allowed, limit, call.weight, full))
}

/// Whether a related node is that of the call's own resource: what the call
/// has taken there by now is no other call's.
fn is_own_resource(node: &Node, call: &Call<'_>) -> bool {
    call.nodes
        .at(Place::Resource)
        .is_some_and(|own| std::ptr::eq(own, node))
}

impl<'a> Target<'a> {
    fn node(&self) -> &'a Node {
        match self {
            Target::Own(_, node) | Target::Foreign(node) => node,
        }
    }
}

impl FlowCheck {
    fn rule(&self) -> &FlowRule {
        self.rule.rule()
    }

    fn state(&self) -> &FlowState {
        &self.rule.state
    }

    /// Only a plain reject rule lends passes of windows to come.
    fn may_borrow(&self) -> bool {
        self.rule().behavior == ControlBehavior::Reject
    }

    /// Whether a limit `own` that moves with the temperature refuses a call that
    /// found no room within a lower one, and what it sees.
    #[cold]
    fn refuses_cold(&self, node: &Node, own: u64, full: &Full, call: &Call<'_>) -> Option<Full> {
        match self.state().warms_up() {
            true if full.exceeds(call.weight, own) => Some(*full),
            true => node.probe(call.now, call.weight, own, Hold::Nothing).err(),
            false => None,
        }
    }

    fn block(
        &self,
        measure: Measure,
        limit: f64,
        observed: f64,
        retry_after: Option<Duration>,
    ) -> Block {
        Block::new(BlockKind::Flow, self.rule.id.clone(), limit, observed)
            .measured_in(measure)
            .retry_after_at(retry_after)
    }

    /// Refused at `allowed` calls per second, which is `limit` in the interval.
    #[cold]
    fn refuse_rate(&self, allowed: f64, limit: u64, weight: u32, full: Full) -> Block {
        let never = u64::from(weight) > limit && !self.state().warms_up();
        let retry_after = if never { None } else { full.retry_after };
        self.block(
            Measure::Rate,
            allowed,
            self.state().per_second(full.sum),
            retry_after,
        )
    }

    #[cold]
    fn refuse_concurrency(&self, in_flight: u64) -> Block {
        self.block(
            Measure::Concurrency,
            self.rule().count,
            in_flight as f64,
            None,
        )
    }

    /// Refused by a line: limit and observed value are waits in milliseconds.
    #[cold]
    fn refuse_queue(&self, queue: Queue) -> Block {
        let limit_ms = self.state().wait_max().as_secs_f64() * 1e3;
        self.block(
            Measure::WaitMs,
            limit_ms,
            queue.wait.as_secs_f64() * 1e3,
            queue.retry_after,
        )
    }
}

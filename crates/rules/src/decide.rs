//! How the rules of a kind decide on a call, one by one.

use std::sync::Arc;
use std::time::Duration;

use flowgate_core::{Block, BlockKind, Call, Departure, Measure, Queue, RuleId};

use crate::Settings;
use crate::head::RuleMode;
use crate::kind::RuleKind;
use crate::table::RuleEntry;

/// A kind whose rules decide one by one. What is around that is written once:
/// the order of rules, giving back when a later rule refuses, observed rules,
/// and the counters of each rule.
///
/// Nothing here may block, sleep or do I/O, and it should not allocate: it runs
/// on the caller's thread, inside the call.
pub trait Decide: RuleKind {
    /// What its refusals are called.
    const BLOCK: BlockKind;

    /// Whether its rules want to hear how calls end.
    const HEARS_EXITS: bool;

    /// Whether its rules want to hear that a call was admitted.
    const HEARS_PASSES: bool = false;

    /// Whether the rule is for this call at all. Asked before
    /// [`decide`](Self::decide), and again when the call is counted as one that
    /// the rule let pass.
    fn applies(rule: &InForce<Self>, call: &Call<'_>) -> bool {
        let _ = (rule, call);
        true
    }

    /// Limits on one or two counts that the enforced rules of one resource have
    /// in common, so that the first takes what all of them allow: see
    /// [`InForce::least`]. Default: none.
    fn shared_limits(rule: &InForce<Self>) -> [u64; 2] {
        let _ = rule;
        [u64::MAX; 2]
    }

    /// Takes what the call needs in one atomic step, or refuses and keeps
    /// nothing. What it took and is to be given back, or wants to hear of at
    /// the exit, it notes with [`InForce::leave_ticket`].
    fn decide(rule: &InForce<Self>, call: &mut Call<'_>) -> Decision;

    /// The same for a rule that is only observed. It is asked when the call is
    /// admitted, and so counted: it keeps its own state as if it were enforced,
    /// and only reads what it shares with others.
    fn observe(rule: &InForce<Self>, call: &mut Call<'_>) -> Decision {
        Self::decide(rule, call)
    }

    /// The call that left this ticket was admitted: its nodes count it from now
    /// on. What the ticket says may be changed. Asked only if
    /// [`HEARS_PASSES`](Self::HEARS_PASSES), and only of enforced rules: an
    /// observed one learns it from [`observe`](Self::observe).
    fn passed(rule: &InForce<Self>, ticket: &mut [u64; 3]) {
        let _ = (rule, ticket);
    }

    /// Gives back what a ticket stands for: a later rule or slot refused, or
    /// the caller gave up while it waited. In the second case the call's origin,
    /// context and arguments are empty.
    fn undo(rule: &InForce<Self>, ticket: [u64; 3], call: &Call<'_>) {
        let _ = (rule, ticket, call);
    }

    /// The call that left this ticket has ended.
    fn exited(rule: &InForce<Self>, ticket: [u64; 3], departure: &Departure<'_>) {
        let _ = (rule, ticket, departure);
    }

    /// The refusal of a call that would have to wait `wait` because of this
    /// rule, and must not.
    fn too_early(rule: &InForce<Self>, call: &Call<'_>, wait: Duration) -> Block {
        let _ = call;
        rule.block(Measure::WaitMs, 0.0, wait.as_secs_f64() * 1e3)
            .retry_after_at(Some(wait))
    }
}

/// What one rule says of one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It may pass as far as this rule is concerned.
    Pass,
    /// It may pass when this much time has gone by; its place is reserved.
    Wait(Duration),
    /// It may pass when permits of its resource are free, and may wait for them.
    /// The call keeps nothing meanwhile, and is asked about anew with them.
    Queue(Queue),
    /// It may not pass.
    Block(Block),
}

/// One rule, as it is in force for one resource.
pub struct InForce<K: RuleKind> {
    /// What it remembers of the resource. It is let go of before the rule, so
    /// that who still holds the rule then drops both.
    pub state: Arc<K::State>,
    /// The rule and its counters.
    pub entry: Arc<RuleEntry<K>>,
    /// Its id, ready to be put into a refusal.
    pub id: RuleId,
    /// Which of its slot's rules it is.
    pub index: u32,
    /// The least [`Decide::shared_limits`] of this rule and of the enforced ones
    /// that are asked after it.
    pub least: [u64; 2],
    /// The least of all enforced ones, those asked before it included.
    pub least_of_all: [u64; 2],
}

impl<K: RuleKind> InForce<K> {
    /// `entry` for the resource that has its state under the name `state`.
    pub fn new(entry: Arc<RuleEntry<K>>, state: &str, settings: &Settings, index: u32) -> Self {
        Self {
            state: entry.state_for(state, settings),
            id: RuleId::new(entry.id()),
            entry,
            index,
            least: [u64::MAX; 2],
            least_of_all: [u64::MAX; 2],
        }
    }

    /// What the rule says.
    #[inline]
    pub fn rule(&self) -> &K::Rule {
        self.entry.rule()
    }

    /// Whether it is only observed.
    pub fn is_observed(&self) -> bool {
        K::head(self.rule()).mode == RuleMode::Observe
    }

    /// Notes what the call has taken of this rule.
    #[inline]
    pub fn leave_ticket(&self, call: &mut Call<'_>, data: [u64; 3]) {
        call.leave_ticket(self.index, data);
    }
}

impl<K: Decide> InForce<K> {
    /// A refusal by this rule, whose limit is `limit` and which saw `observed`.
    #[cold]
    pub fn block(&self, measure: Measure, limit: f64, observed: f64) -> Block {
        Block::new(K::BLOCK, self.id.clone(), limit, observed).measured_in(measure)
    }
}

//! Circuit breakers as people see and handle them.

use std::fmt;
use std::sync::Arc;

use flowgate_core::RuleId;
use flowgate_rules::{
    BreakerState, CircuitFigures, CircuitState, Degrade, DegradeRule, Forced, RuleEntry,
};

use crate::engine::Engine;

/// The breaker of one rule for one resource: to look at, and to overrule.
///
/// Got from [`Engine::breakers`]. It stays the breaker of that rule also when a
/// document is loaded that says the same; of a rule that has changed or is gone
/// it is the breaker as it was, which decides nothing any more.
///
/// ```
/// use flowgate::{CircuitState, Engine, Forced};
///
/// let engine = Engine::new();
/// engine.load_json("degrade", r#"[{"resource": "pay", "grade": 1, "count": 0.5, "timeWindow": 5}]"#)?;
///
/// let breaker = engine.breaker("pay", "degrade/pay#1").expect("it was loaded");
/// assert_eq!(breaker.state(), CircuitState::Closed);
/// breaker.force(Forced::Open);
/// let block = engine.entry("pay").unwrap_err();
/// assert_eq!(block.retry_after(), None); // not by itself
/// breaker.release();
/// assert!(engine.entry("pay").is_ok());
/// # Ok::<(), flowgate::RuleError>(())
/// ```
#[derive(Clone)]
pub struct Breaker {
    engine: Engine,
    entry: Arc<RuleEntry<Degrade>>,
    resource: Arc<str>,
}

impl Breaker {
    /// The id of its rule, given or made up.
    pub fn rule_id(&self) -> &str {
        self.entry.id()
    }

    /// What its rule says.
    pub fn rule(&self) -> &DegradeRule {
        self.entry.rule()
    }

    /// The resource that it guards.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Its state now. An open breaker stays open until a call probes it.
    pub fn state(&self) -> CircuitState {
        self.look(BreakerState::state)
    }

    /// All that can be seen of it: state, how long until a call may probe, what
    /// it has counted, its probes, whether it is forced. Looking changes
    /// nothing and uses no probe up.
    pub fn figures(&self) -> CircuitFigures {
        let now = self.engine.clock().now();
        self.look(|state| state.figures(now))
    }

    /// Forces it open (every call is refused, `retry_after` is `None`) or closed
    /// (every call passes, and none is counted by it), until it is
    /// [released](Self::release) or its rule changes. The statistics of the
    /// resource go on. False if it is forced so already.
    pub fn force(&self, forced: Forced) -> bool {
        self.act(|state, now, told| state.force(forced, now, told))
    }

    /// Ends a force: the breaker is as its rule makes a new one, closed unless
    /// that has a `force` of its own. False if there is nothing to end.
    pub fn release(&self) -> bool {
        self.act(|state, now, told| state.release(now, told))
    }

    /// Closes it and forgets what it has counted, and how often it has opened.
    /// Calls that are out count no more. False if it is forced: that stays.
    pub fn reset(&self) -> bool {
        self.act(|state, now, told| state.reset(now, told))
    }

    /// Under what name the rule keeps the breaker that decides on calls of the
    /// resource: beyond the limit on resources they have one in common.
    fn state_name(&self) -> &str {
        self.engine.registry.state_name(&self.resource)
    }

    /// Of a resource that was never asked for there is no state yet; looking
    /// makes none.
    fn look<T>(&self, look: impl FnOnce(&BreakerState) -> T) -> T {
        match self.entry.state_of(self.state_name()) {
            Some(state) => look(&state),
            None => look(&BreakerState::new(
                self.rule(),
                &self.engine.shared.settings,
            )),
        }
    }

    fn act(
        &self,
        act: impl FnOnce(
            &BreakerState,
            flowgate_core::Timestamp,
            &mut dyn FnMut(flowgate_rules::Change),
        ) -> bool,
    ) -> bool {
        // Nobody forgets the state that is acted on.
        let _kept = self.engine.registry.find(self.state_name());
        let state = self
            .entry
            .state_for(self.state_name(), &self.engine.shared.settings);
        let rule = RuleId::new(self.entry.id());
        let mut told = |change| state.observers().tell(&self.resource, &rule, change);
        act(&state, self.engine.clock().now(), &mut told)
    }
}

/// A breaker is compared with a state by its own.
impl PartialEq<CircuitState> for Breaker {
    fn eq(&self, other: &CircuitState) -> bool {
        self.state() == *other
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("resource", &self.resource)
            .field("rule", &self.rule_id())
            .field("figures", &self.figures())
            .finish()
    }
}

impl Engine {
    /// The breakers of `resource`, in the order of the rules.
    pub fn breakers(&self, resource: &str) -> Vec<Breaker> {
        let resource: Arc<str> = resource.into();
        let entries = self.degrade_rules().matching(&resource).into_iter();
        entries
            .map(|entry| Breaker {
                engine: self.clone(),
                entry,
                resource: Arc::clone(&resource),
            })
            .collect()
    }

    /// The breaker of the rule with this id for `resource`.
    pub fn breaker(&self, resource: &str, rule_id: &str) -> Option<Breaker> {
        let mut breakers = self.breakers(resource).into_iter();
        breakers.find(|breaker| breaker.rule_id() == rule_id)
    }

    /// Forces all breakers of `resource` open or closed; returns how many were
    /// not so before. See [`Breaker::force`].
    pub fn force_breakers(&self, resource: &str, forced: Forced) -> usize {
        self.each_breaker(resource, |breaker| breaker.force(forced))
    }

    /// Ends the force of all breakers of `resource`; returns how many there
    /// were. See [`Breaker::release`].
    pub fn release_breakers(&self, resource: &str) -> usize {
        self.each_breaker(resource, Breaker::release)
    }

    /// Closes all breakers of `resource` that are not forced, and has them
    /// forget; returns how many. See [`Breaker::reset`].
    pub fn reset_breakers(&self, resource: &str) -> usize {
        self.each_breaker(resource, Breaker::reset)
    }

    fn each_breaker(&self, resource: &str, act: impl Fn(&Breaker) -> bool) -> usize {
        let breakers = self.breakers(resource);
        breakers.iter().filter(|breaker| act(breaker)).count()
    }
}

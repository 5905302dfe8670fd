//! What the tests of the facade share.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use std::time::Duration;

use flowgate::{
    Accounting, Arg, Block, BlockKind, Clock, Engine, EngineBuilder, HitCounts, ManualClock,
    Measure, NodeSnapshot, Request, Resource, RuleId, TimeSource, Timestamp, Traffic,
};

/// Where the clocks of the tests start: at a whole second, 1,000 s after the
/// epoch.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_000_000);

/// An engine on a clock that only moves when told to, with these flow rules.
pub(crate) fn flow(rules: &str) -> (Engine, ManualClock) {
    let (engine, time) = built(Engine::builder());
    engine.load_json("flow", rules).unwrap();
    (engine, time)
}

/// The same with a whole document of rules.
pub(crate) fn document(text: &str) -> (Engine, ManualClock) {
    let (engine, time) = built(Engine::builder());
    engine.load_document(text).unwrap();
    (engine, time)
}

/// An engine of these settings on a clock that only moves when told to.
pub(crate) fn built(builder: EngineBuilder) -> (Engine, ManualClock) {
    let time = ManualClock::at(START);
    let engine = builder.clock(Clock::manual(time.clone())).build();
    (engine, time)
}

/// An engine on the paused clock of a tokio runtime, with these flow rules.
pub(crate) fn on_paused_time(rules: &str) -> Engine {
    struct Paused(tokio::time::Instant);

    impl TimeSource for Paused {
        fn now(&self) -> Timestamp {
            START + self.0.elapsed()
        }
    }

    let clock = Clock::custom(Paused(tokio::time::Instant::now()));
    let engine = Engine::builder().clock(clock).build();
    engine.load_json("flow", rules).unwrap();
    engine
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Sets the clock to `millis` after the start.
pub(crate) fn at(time: &ManualClock, millis: u64) {
    time.set(START + ms(millis));
}

/// What each rule did, in the order of the rules.
pub(crate) fn hits(engine: &Engine) -> Vec<HitCounts> {
    engine.rules().into_iter().map(|rule| rule.hits).collect()
}

pub(crate) fn counts(passed: u64, blocked: u64, would_block: u64, waited: u64) -> HitCounts {
    HitCounts {
        passed,
        blocked,
        would_block,
        waited,
    }
}

/// What one node has counted in the last minute, and holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) pass: u64,
    pub(crate) block: u64,
    pub(crate) success: u64,
    pub(crate) exception: u64,
    pub(crate) cancelled: u64,
    pub(crate) in_flight: u64,
    pub(crate) waiting: u64,
}

impl From<NodeSnapshot> for Totals {
    fn from(node: NodeSnapshot) -> Self {
        Totals {
            pass: node.total_pass,
            block: node.total_block,
            success: node.total_success,
            exception: node.total_exception,
            cancelled: node.total_cancelled,
            in_flight: node.in_flight,
            waiting: node.waiting,
        }
    }
}

/// The totals of a resource that has been asked for.
pub(crate) fn totals(resource: &Resource) -> Totals {
    resource.node().into()
}

/// How many of `calls` calls at once pass; their guards leave at once.
pub(crate) fn passed(resource: &Resource, calls: usize) -> usize {
    (0..calls).filter(|_| resource.try_entry().is_ok()).count()
}

/// The argument that calls bring for rules on hot parameters.
pub(crate) const KEY: [Arg<'static>; 1] = [Arg::Str("key")];

/// A call that every kind of rule looks at: inbound, with an argument and an
/// origin.
pub(crate) fn seen_by_all(resource: &Resource) -> Request<'_, 'static> {
    let request = resource.request().traffic(Traffic::Inbound);
    request.args(&KEY).origin("web")
}

/// How many of `calls` calls at once with these arguments pass; their guards
/// leave at once.
pub(crate) fn passed_with(resource: &Resource, args: &[Arg<'_>], calls: usize) -> usize {
    let ask = |_: &usize| resource.request().args(args).try_entry().is_ok();
    (0..calls).filter(ask).count()
}

/// When a call that comes now may go, in nanoseconds after the start; `None`:
/// refused. The call keeps its place in line, and has ended.
pub(crate) fn release_ns(request: Request<'_, '_>, time: &ManualClock) -> Option<u64> {
    let pending = request.reserve().ok()?;
    let release = time.now().since(START) + pending.wait();
    pending.begin().exit();
    Some(release.as_nanos() as u64)
}

/// The same in milliseconds.
pub(crate) fn release_ms(request: Request<'_, '_>, time: &ManualClock) -> Option<u64> {
    Some(release_ns(request, time)? / 1_000_000)
}

/// The refusal of flow rule `id` that saw `observed` of `limit`; of a rate: in
/// windows.
pub(crate) fn refusal(
    measure: Measure,
    id: &str,
    limit: f64,
    observed: f64,
    retry_after: Option<Duration>,
) -> Block {
    let block = Block::new(BlockKind::Flow, RuleId::new(id), limit, observed)
        .measured_in(measure)
        .retry_after_at(retry_after);
    match measure {
        Measure::Rate | Measure::RatePer(_) => block.accounted_in(Accounting::Window),
        _ => block,
    }
}

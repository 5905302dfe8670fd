//! Properties of whole histories, against naive references.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

mod common;

use std::collections::HashMap;

use common::{START, Totals, built, flow, ms, release_ns};
use flowgate::{Block, Engine, Entry, Outcome, Pending, Timestamp, Traffic};
use proptest::prelude::*;

// ---------------------------------------------------------------------------
// Whatever happens, everything that was taken is given back, and counted once.

/// Rules of every behaviour, strategy and kind. Both resources are in all.
const DOCUMENTS: [&str; 9] = [
    r#"{"flow": [], "degrade": []}"#,
    r#"{"flow": [{"resource": "a", "count": 4}, {"resource": "b", "count": 2}]}"#,
    r#"{"flow": [{"resource": "a|b", "regex": true, "count": 6, "controlBehavior": 1},
                 {"resource": "a", "count": 3}]}"#,
    r#"{"flow": [{"resource": "a", "count": 10, "controlBehavior": 2},
                 {"resource": "a", "count": 5, "controlBehavior": 2, "limitApp": "x"},
                 {"resource": "b", "count": 8, "controlBehavior": 3, "warmUpPeriodSec": 2}]}"#,
    r#"{"flow": [{"resource": "a", "count": 3, "grade": 0}, {"resource": "a", "count": 5},
                 {"resource": "b", "count": 2, "grade": 0, "limitApp": "other"}]}"#,
    r#"{"flow": [{"resource": "a", "count": 3, "strategy": 1, "refResource": "b"},
                 {"resource": "b", "count": 2, "strategy": 2, "refResource": "q"},
                 {"resource": "b", "count": 20, "controlBehavior": 2, "strategy": 2,
                  "refResource": "p"}]}"#,
    r#"{"flow": [{"resource": "a", "count": 3, "limitApp": "x"},
                 {"resource": "a", "count": 2, "limitApp": "other"},
                 {"resource": "a", "count": 20, "controlBehavior": 2},
                 {"resource": "a", "count": 4}]}"#,
    r#"{"degrade": [{"resource": "a", "grade": 2, "count": 1, "timeWindow": 1,
                     "minRequestAmount": 1},
                    {"resource": "b", "grade": 0, "count": 100, "timeWindow": 1,
                     "slowRatioThreshold": 0.5, "minRequestAmount": 1}]}"#,
    r#"{"flow": [{"resource": "a", "count": 0}, {"resource": "b", "count": 0,
                  "controlBehavior": 2}], "degrade": []}"#,
];

const RESOURCES: [&str; 2] = ["a", "b"];
const ORIGINS: [&str; 3] = ["", "x", "y"];
const CONTEXTS: [&str; 3] = ["", "p", "q"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Call(Ask, How),
    /// Goes on with one of the calls that wait.
    Begin(usize),
    GiveUp(usize),
    /// One of the running calls ends; `None`: its guard is dropped.
    Leave(usize, Option<Outcome>),
    Advance(u64),
    Load(usize),
    Switch(bool),
}

#[derive(Clone, Copy, Debug)]
struct Ask {
    resource: usize,
    origin: usize,
    context: usize,
    weight: u32,
    prioritized: bool,
    inbound: bool,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Entry,
    TryEntry,
    Reserve,
}

fn asks() -> impl Strategy<Value = Ask> {
    let names = (0..RESOURCES.len(), 0..ORIGINS.len(), 0..CONTEXTS.len());
    (names, 0_u32..4, any::<bool>(), any::<bool>()).prop_map(
        |((resource, origin, context), weight, prioritized, inbound)| Ask {
            resource,
            origin,
            context,
            weight,
            prioritized,
            inbound,
        },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    let how = prop_oneof![Just(How::Entry), Just(How::TryEntry), Just(How::Reserve)];
    let outcome = prop_oneof![
        Just(None),
        Just(Some(Outcome::Success)),
        Just(Some(Outcome::Error)),
        Just(Some(Outcome::Cancelled))
    ];
    prop_oneof![
        8 => (asks(), how).prop_map(|(ask, how)| Step::Call(ask, how)),
        2 => any::<usize>().prop_map(Step::Begin),
        2 => any::<usize>().prop_map(Step::GiveUp),
        3 => (any::<usize>(), outcome).prop_map(|(n, outcome)| Step::Leave(n, outcome)),
        3 => (0_u64..400).prop_map(Step::Advance),
        1 => (0..DOCUMENTS.len()).prop_map(Step::Load),
        1 => prop::bool::weighted(0.8).prop_map(Step::Switch),
    ]
}

/// What counts a call: the resource, its origin, its context, or the inbound
/// total.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Counter {
    Resource(usize),
    Origin(usize, usize),
    Context(usize, usize),
    Inbound,
}

/// The books kept beside the engine.
#[derive(Default)]
struct Books(HashMap<Counter, Totals>);

impl Books {
    fn note(&mut self, ask: Ask, change: impl Fn(&mut Totals, u64)) {
        let Ask {
            resource,
            origin,
            context,
            ..
        } = ask;
        let counters = [
            Some(Counter::Resource(resource)),
            (origin > 0).then_some(Counter::Origin(resource, origin)),
            (context > 0).then_some(Counter::Context(resource, context)),
            ask.inbound.then_some(Counter::Inbound),
        ];
        for counter in counters.into_iter().flatten() {
            change(self.0.entry(counter).or_default(), u64::from(ask.weight));
        }
    }
}

struct World {
    engine: Engine,
    time: flowgate::ManualClock,
    books: Books,
    waiting: Vec<(Ask, Pending<'static>)>,
    running: Vec<(Ask, Entry<'static>)>,
    on: bool,
}

impl World {
    fn take(&mut self, step: Step) {
        match step {
            Step::Call(ask, how) => self.call(ask, how),
            Step::Begin(n) if !self.waiting.is_empty() => {
                let (ask, pending) = self.waiting.remove(n % self.waiting.len());
                self.runs(ask, pending.begin());
            }
            Step::GiveUp(n) if !self.waiting.is_empty() => {
                let (ask, pending) = self.waiting.remove(n % self.waiting.len());
                pending.cancel();
                self.books.note(ask, |node, weight| {
                    node.cancelled += weight;
                    node.in_flight -= 1;
                });
            }
            Step::Leave(n, outcome) if !self.running.is_empty() => {
                let (ask, entry) = self.running.remove(n % self.running.len());
                match outcome {
                    Some(outcome) => entry.exit_with(outcome),
                    None => drop(entry),
                }
                self.books.note(ask, |node, weight| {
                    match outcome {
                        Some(Outcome::Cancelled) => node.cancelled += weight,
                        Some(Outcome::Error) => {
                            node.success += weight;
                            node.exception += weight;
                        }
                        _ => node.success += weight,
                    }
                    node.in_flight -= 1;
                });
            }
            Step::Advance(by_ms) => self.time.advance(ms(by_ms)),
            Step::Load(document) => {
                self.engine.load_document(DOCUMENTS[document]).unwrap();
            }
            Step::Switch(on) => {
                self.engine.set_enabled(on);
                self.on = on;
            }
            Step::Begin(_) | Step::GiveUp(_) | Step::Leave(..) => {}
        }
    }

    fn call(&mut self, ask: Ask, how: How) {
        let mut request = self
            .engine
            .request(RESOURCES[ask.resource])
            .origin(ORIGINS[ask.origin])
            .context(CONTEXTS[ask.context])
            .weight(ask.weight);
        if ask.inbound {
            request = request.traffic(Traffic::Inbound);
        }
        if ask.prioritized {
            request = request.prioritized();
        }
        if !self.on {
            // Neither checked nor counted, however it is asked.
            return drop(request.entry().unwrap());
        }
        let refused = |_: Block| {};
        let got = match how {
            How::Entry => request.entry().map(Ok).map_err(refused),
            How::TryEntry => request.try_entry().map(Ok).map_err(refused),
            How::Reserve => request.reserve().map(Err).map_err(refused),
        };
        match got {
            Err(()) => self.books.note(ask, |node, weight| node.block += weight),
            Ok(admitted) => {
                self.books.note(ask, |node, _| node.in_flight += 1);
                match admitted {
                    Ok(entry) => self.runs(ask, entry),
                    Err(pending) => self.waiting.push((ask, pending)),
                }
            }
        }
    }

    fn runs(&mut self, ask: Ask, entry: Entry<'static>) {
        self.books.note(ask, |node, weight| node.pass += weight);
        self.running.push((ask, entry));
    }

    fn read(&self, counter: Counter) -> Totals {
        let of = |node: Option<flowgate::NodeSnapshot>| node.unwrap().into();
        match counter {
            Counter::Resource(r) => of(self.engine.node(RESOURCES[r])),
            Counter::Origin(r, o) => of(self.engine.origin_node(RESOURCES[r], ORIGINS[o])),
            Counter::Context(r, c) => of(self.engine.context_node(RESOURCES[r], CONTEXTS[c])),
            Counter::Inbound => self.engine.inbound().into(),
        }
    }

    fn in_flight_agrees(&self) {
        for (counter, expected) in &self.books.0 {
            let found = self.read(*counter).in_flight;
            assert_eq!(found, expected.in_flight, "{counter:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn whatever_happens_everything_is_given_back_and_counted_once(
        document in 0..DOCUMENTS.len(),
        steps in prop::collection::vec(steps(), 1..80),
    ) {
        let (engine, time) = built(Engine::builder());
        engine.load_document(DOCUMENTS[document]).unwrap();
        let mut world = World {
            engine,
            time,
            books: Books::default(),
            waiting: Vec::new(),
            running: Vec::new(),
            on: true,
        };
        for step in steps {
            world.take(step);
            world.in_flight_agrees();
        }
        for n in [0; 100] {
            world.take(Step::GiveUp(n));
            world.take(Step::Leave(n, None));
        }
        world.time.advance(ms(2_000));
        prop_assert!(world.time.now().since(START) < ms(60_000), "the minute view forgets");
        for (counter, expected) in &world.books.0 {
            prop_assert_eq!((counter, world.read(*counter)), (counter, *expected));
        }
    }
}

// ---------------------------------------------------------------------------
// Pacing, against a clock of big integers.

/// A line at `numerator / denominator` calls per second.
struct Line {
    numerator: u128,
    denominator: u128,
    wait_ns_max: u128,
    last_ns: Option<u128>,
}

impl Line {
    /// `weight · 1 s / count`, rounded half up.
    fn cost_ns(&self, weight: u32) -> u128 {
        let twice = 2 * u128::from(weight) * 1_000_000_000 * self.denominator;
        (twice + self.numerator) / (2 * self.numerator)
    }

    fn release_ns(&mut self, now_ns: u128, weight: u32) -> Option<u128> {
        if weight == 0 {
            return Some(now_ns);
        }
        let due = self.last_ns.map_or(0, |last| last + self.cost_ns(weight));
        let release = due.max(now_ns);
        if release - now_ns > self.wait_ns_max {
            return None;
        }
        self.last_ns = Some(release);
        Some(release)
    }
}

/// Times between calls, of all magnitudes, in nanoseconds; with weights.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let gap = prop_oneof![
        Just(0),
        0_u64..1_000,
        0_u64..1_000_000,
        0_u64..1_000_000_000,
        0_u64..100_000_000_000
    ];
    let weight = prop_oneof![6 => Just(1_u32), 3 => 0_u32..20, 1 => any::<u32>()];
    prop::collection::vec((gap, weight), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_line_releases_calls_when_exact_arithmetic_says(
        digits in prop_oneof![1_u64..1_000, 1_u64..10_000_000, 1_u64..4_000_000_000_000],
        decimals in 0_u32..4,
        wait_ms_max in prop_oneof![Just(0_u32), 0_u32..2_000, any::<u32>()],
        arrivals in arrivals(),
    ) {
        let denominator = 10_u64.pow(decimals);
        let count = format!("{}.{:03}", digits / denominator,
            digits % denominator * (1_000 / denominator));
        let (engine, time) = flow(&format!(
            r#"[{{"resource": "mail", "count": {count}, "controlBehavior": 2,
                  "maxQueueingTimeMs": {wait_ms_max}}}]"#
        ));
        let mail = engine.resource("mail");
        let mut line = Line {
            numerator: digits.into(),
            denominator: denominator.into(),
            wait_ns_max: u128::from(wait_ms_max) * 1_000_000,
            last_ns: None,
        };
        for (gap_ns, weight) in arrivals {
            time.set(time.now() + std::time::Duration::from_nanos(gap_ns));
            let now_ns = time.now().since(START).as_nanos();
            let expected = line.release_ns(now_ns, weight).map(|ns| ns as u64);
            let released = release_ns(mail.request().weight(weight), &time);
            prop_assert_eq!(released, expected, "{} per s, weight {}, at {} ns", count, weight, now_ns);
        }
    }

    #[test]
    fn a_line_that_warms_up_is_never_above_its_rate(
        count in 1_u32..5_000,
        period_sec in 1_u32..20,
        cold_factor in 2_u32..6,
        arrivals in arrivals(),
    ) {
        let (engine, time) = flow(&format!(
            r#"[{{"resource": "mail", "count": {count}, "controlBehavior": 3,
                  "warmUpPeriodSec": {period_sec}, "warmUpColdFactor": {cold_factor},
                  "maxQueueingTimeMs": 3000}}]"#
        ));
        let mail = engine.resource("mail");
        let line = Line {
            numerator: count.into(),
            denominator: 1,
            wait_ns_max: 0,
            last_ns: None,
        };
        let mut last_ns = None;
        for (gap_ns, weight) in arrivals {
            time.set(time.now() + std::time::Duration::from_nanos(gap_ns));
            let weight = weight.max(1);
            if let Some(released) = release_ns(mail.request().weight(weight), &time) {
                let earliest = last_ns.map_or(0, |last| last + line.cost_ns(weight));
                prop_assert!(u128::from(released) >= earliest, "{} after {:?}", released, last_ns);
                last_ns = Some(u128::from(released));
            }
        }
    }

    #[test]
    fn a_warm_up_rule_never_lets_more_than_its_count_through_a_window(
        count in 1_u32..60,
        period_sec in 1_u32..10,
        gaps_ms in prop::collection::vec(0_u64..300, 1..200),
    ) {
        let (engine, time) = flow(&format!(
            r#"[{{"resource": "orders", "count": {count}, "controlBehavior": 1,
                  "warmUpPeriodSec": {period_sec}}}]"#
        ));
        let orders = engine.resource("orders");
        for gap_ms in gaps_ms {
            time.advance(ms(gap_ms));
            common::passed(&orders, 7);
            prop_assert!(orders.node().pass_qps <= f64::from(count));
        }
    }

    #[test]
    fn a_rate_admits_what_a_log_of_windows_admits(
        count in 1_u64..12,
        calls in prop::collection::vec((0_u64..400, 0_u32..4), 1..150),
    ) {
        let (engine, time) = flow(&format!(r#"[{{"resource": "orders", "count": {count}}}]"#));
        let orders = engine.resource("orders");
        // Window of 500 ms, weight: those of the present and the last one count.
        let mut log: Vec<(u64, u64)> = Vec::new();
        for (gap_ms, weight) in calls {
            time.advance(ms(gap_ms));
            let window = (time.now().since(Timestamp::EPOCH).as_millis() / 500) as u64;
            log.retain(|(of, _)| of + 1 >= window);
            let used: u64 = log.iter().map(|(_, weight)| weight).sum();
            let fits = used + u64::from(weight) <= count;
            let passes = orders.request().weight(weight).try_entry().is_ok();
            prop_assert_eq!(passes, fits, "{} used, {} more", used, weight);
            if fits {
                log.push((window, weight.into()));
            }
        }
    }
}

// ---------------------------------------------------------------------------
// What a refusal says about the time to come back.

/// One rule each, so that nothing else decides.
const SINGLE_RULES: [&str; 7] = [
    r#"[{"resource": "r", "count": 4}]"#,
    r#"[{"resource": "r", "count": 7}]"#,
    r#"[{"resource": "r", "count": 4, "limitApp": "x"}]"#,
    r#"[{"resource": "r", "count": 4, "strategy": 2, "refResource": "p"}]"#,
    r#"[{"resource": "r", "count": 4, "strategy": 1, "refResource": "r"}]"#,
    r#"[{"resource": "r", "count": 7, "controlBehavior": 2, "maxQueueingTimeMs": 300}]"#,
    r#"[{"resource": "r", "count": 3, "controlBehavior": 2, "maxQueueingTimeMs": 0}]"#,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_refused_call_passes_when_it_was_told_to_come_back_and_not_before(
        rules in prop::sample::select(&SINGLE_RULES[..]),
        boxes in prop::sample::select(&[1_u32, 2, 5, 10][..]),
        calls in prop::collection::vec((0_u64..500, 0_u32..9, any::<[bool; 3]>()), 1..80),
    ) {
        let builder = Engine::builder().second_view(boxes, ms(1_000)).borrow_wait_max(ms(700));
        let (engine, time) = built(builder);
        engine.load_json("flow", rules).unwrap();
        let r = engine.resource("r");
        let borrowers = std::cell::RefCell::new(Vec::new());
        // Whether it passes: to wait in a line, or at once.
        let ask = |weight: u32, waits: bool, prioritized: bool| {
            let mut request = r.request().origin("x").context("p").weight(weight);
            if prioritized {
                request = request.prioritized();
            }
            if prioritized {
                // It does not go ahead before its window begins.
                let pending = request.reserve()?;
                borrowers.borrow_mut().push((time.now() + pending.wait(), pending));
                Ok(())
            } else if waits {
                request.reserve().map(Pending::begin).map(drop)
            } else {
                request.try_entry().map(drop)
            }
        };
        for (gap_ms, weight, [waits, prioritized, gives_up]) in calls {
            time.advance(ms(gap_ms));
            let now = time.now();
            borrowers.borrow_mut().extract_if(.., |(due, _)| *due <= now).for_each(|(_, p)| drop(p.begin()));
            if gives_up {
                drop(r.request().origin("x").context("p").weight(weight).reserve());
            }
            // A line says when the wait will be short enough, not when there
            // will be none.
            let queues = rules.contains("maxQueueingTimeMs");
            let waits = waits || queues;
            let Err(block) = ask(weight, waits, prioritized) else {
                continue;
            };
            let refused_at = time.now();
            let Some(after) = block.retry_after() else {
                // Never, and not later either; but a line that nobody uses for
                // long enough takes any weight.
                time.advance(ms(20));
                let passes = !queues && ask(weight, waits, false).is_ok();
                prop_assert!(!passes, "{block}, weight {weight}");
                continue;
            };
            prop_assert!(after > ms(0), "{block}");
            time.set(refused_at + (after - std::time::Duration::from_nanos(1)));
            prop_assert!(ask(weight, waits, false).is_err(), "{block}, weight {weight}: before");
            time.set(refused_at + after);
            let passes = ask(weight, waits, false);
            prop_assert_eq!(passes, Ok(()), "{}, weight {}: then", block, weight);
        }
    }
}

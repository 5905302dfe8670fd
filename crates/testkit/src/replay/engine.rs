//! Traces of whole calls: entries, exits, figures, reloads.

use std::collections::HashMap;
use std::time::Duration;

use flowgate::{
    Arg, Block, BlockKind, CircuitState, Clock, Engine, Entry, LoadReport, ManualClock,
    NodeSnapshot, OnInvalid, Outcome, Pending, Resource, RuleId, Timestamp, Traffic,
};
use serde_json::{Map, Value};

use super::args::Args;
use super::{Compared, differs, expectation, expected_wait_ns, moment, paced_in_whole_ms, whole};
use crate::trace::{LoadExpect, Settings, Step, Trace};

pub(super) struct World<'t> {
    settings: &'t Settings,
    engine: Engine,
    clock: ManualClock,
    open: HashMap<u64, Open>,
    whole_ms: bool,
    has_ns: bool,
}

struct Open {
    call: Admitted,
    context: String,
    origin: String,
}

/// A call that is in.
#[expect(
    clippy::large_enum_variant,
    reason = "a trace has few of them, and they are short-lived"
)]
enum Admitted {
    Waiting(Pending<'static>),
    Running(Entry<'static>),
}

/// How an attempt ended: admitted after a wait, or refused.
type Attempt = Result<(Duration, Admitted), Block>;

impl<'t> World<'t> {
    pub(super) fn new(trace: &'t Trace, rules: &Map<String, Value>) -> Result<Self, String> {
        let settings = &trace.settings;
        let ms = Duration::from_millis;
        let clock = ManualClock::at(Timestamp::EPOCH);
        let engine = Engine::builder()
            .clock(Clock::manual(clock.clone()))
            .second_view(
                settings.second_sample_count,
                ms(settings.second_interval_ms),
            )
            .borrow_wait_max(ms(settings.occupy_timeout_ms))
            .rt_max(ms(settings.statistic_max_rt))
            .cold_factor(settings.cold_factor)
            .default_context_statistics(true)
            .try_build()
            .map_err(|error| error.to_string())?;
        let world = World {
            settings,
            engine,
            clock,
            open: HashMap::new(),
            whole_ms: paced_in_whole_ms(trace),
            has_ns: trace.steps.iter().any(|step| step.ns != 0),
        };
        world.load(rules, trace.rules_expect.as_ref())?;
        Ok(world)
    }

    pub(super) fn step(&mut self, step: &Step) -> Compared {
        self.clock.set(moment(step, self.settings, self.whole_ms));
        match step.op.as_str() {
            "entry" => self.entry(step),
            "exit" => self.exit(step),
            "begin" => self.begin(step),
            "cancel" => self.cancel(step),
            "burst" => self.burst(step),
            "stat" => self.stat(step),
            "figures" => self.figures(step),
            "breaker" => self.breaker(step),
            "load" => {
                let expect = step.expect.clone().map(Value::Object);
                let expect = expect.map(serde_json::from_value::<LoadExpect>).transpose();
                let expect = expect.map_err(|error| error.to_string())?;
                self.load(step.rules.as_ref().ok_or("no rules")?, expect.as_ref())
            }
            other => Err(format!("cannot interpret op {other}")),
        }
    }

    fn load(&self, rules: &Map<String, Value>, expect: Option<&LoadExpect>) -> Compared {
        for (kind, list) in rules {
            let text = list.to_string();
            let name = if kind == "param_flow" {
                "paramFlow"
            } else {
                kind
            };
            let report: LoadReport = self
                .engine
                .load_json_with(name, text, OnInvalid::Skip)
                .map_err(|error| error.to_string())?;
            if let Some(active) = expect.and_then(|expect| expect.active.get(kind)) {
                let (expected, found) = (whole(active)?, report.active(name) as u64);
                if expected != found {
                    return Err(differs(&format!("active {kind} rules"), expected, found));
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, step: &Step) -> Compared {
        let id = step.id.ok_or("no id")?;
        let (context, origin) = match step.parent {
            Some(parent) => {
                let parent = self.open.get(&parent).ok_or("its parent is not open")?;
                (parent.context.clone(), parent.origin.clone())
            }
            None => (
                step.context.clone().unwrap_or_default(),
                step.origin.clone().unwrap_or_default(),
            ),
        };
        let args = Args::read(step.args.as_ref())?;
        let attempt = args.lend(|args| self.attempt(step, &context, &origin, args))??;
        self.compare(step, &attempt)?;
        if let Ok((_, call)) = attempt {
            self.open.insert(
                id,
                Open {
                    call,
                    context,
                    origin,
                },
            );
        }
        Ok(())
    }

    fn attempt(
        &self,
        step: &Step,
        context: &str,
        origin: &str,
        args: &[Arg<'_>],
    ) -> Result<Attempt, String> {
        let traffic = match step.traffic.as_deref() {
            Some("IN") => Traffic::Inbound,
            Some("OUT") | None => Traffic::Outbound,
            Some(other) => return Err(format!("cannot interpret traffic {other}")),
        };
        let mut request = self
            .engine
            .request(&step.resource)
            .context(context)
            .origin(origin)
            .weight(step.count.unwrap_or(1))
            .traffic(traffic)
            .args(args);
        if step.prioritized {
            request = request.prioritized();
        }
        if step.no_wait {
            let entered = request.try_entry();
            return Ok(entered.map(|entry| (entry.waited(), Admitted::Running(entry))));
        }
        Ok(request.reserve().map(|pending| {
            let wait = pending.wait();
            if step.pending {
                return (wait, Admitted::Waiting(pending));
            }
            if self.settings.sleep_advances_clock {
                self.clock.advance(wait);
            }
            (wait, Admitted::Running(pending.begin()))
        }))
    }

    fn compare(&self, step: &Step, attempt: &Attempt) -> Compared {
        let expect = expectation(step)?;
        let mut seen = Map::new();
        let (result, wait) = match attempt {
            Ok((wait, _)) => ("pass", *wait),
            Err(_) => ("block", Duration::ZERO),
        };
        seen.insert("result".into(), result.into());
        if expect.get("result") != seen.get("result") {
            let why = attempt.as_ref().err().map(|block| format!(" ({block})"));
            let expected = expect.get("result");
            return Err(differs("result", expected, result) + &why.unwrap_or_default());
        }
        let expected_ns = expected_wait_ns(expect)?;
        if u128::from(expected_ns) != wait.as_nanos() {
            return Err(differs("wait in ns", expected_ns, wait.as_nanos()));
        }
        for (key, expected) in expect {
            let found: Value = match (key.as_str(), attempt) {
                ("result" | "wait_ms" | "wait_ns", _) => continue,
                ("by", Err(block)) => by(block.kind()).into(),
                ("rule", Err(block)) => self.position(block.kind(), block.rule()).into(),
                _ => return Err(format!("cannot interpret {key}")),
            };
            if *expected != found {
                return Err(differs(key, expected, found));
            }
        }
        Ok(())
    }

    /// Where in its list the rule stands.
    fn position(&self, kind: BlockKind, id: &RuleId) -> Option<usize> {
        let rules = self.engine.rules();
        let found = rules
            .iter()
            .find(|rule| rule.kind == kind.name() && rule.id == id.as_str());
        found.map(|rule| rule.position)
    }

    /// A call goes ahead that was left pending.
    fn begin(&mut self, step: &Step) -> Compared {
        let id = step.id.ok_or("no id")?;
        let open = self.open.remove(&id).ok_or("this entry is not open")?;
        let Admitted::Waiting(pending) = open.call else {
            return Err("this entry does not wait".into());
        };
        let call = Admitted::Running(pending.begin());
        self.open.insert(id, Open { call, ..open });
        Ok(())
    }

    /// A call is given up that was left pending.
    fn cancel(&mut self, step: &Step) -> Compared {
        let id = step.id.ok_or("no id")?;
        match self.open.remove(&id).map(|open| open.call) {
            Some(Admitted::Waiting(pending)) => {
                pending.cancel();
                Ok(())
            }
            _ => Err("this entry does not wait".into()),
        }
    }

    fn exit(&mut self, step: &Step) -> Compared {
        let id = step.id.ok_or("no id")?;
        let open = self.open.remove(&id).ok_or("this entry is not open")?;
        let Admitted::Running(entry) = open.call else {
            return Err("this entry still waits".into());
        };
        entry.exit_with(match (step.error, step.cancelled) {
            (false, false) => Outcome::Success,
            (true, false) => Outcome::Error,
            (false, true) => Outcome::Cancelled,
            (true, true) => return Err("both error and cancelled".into()),
        });
        Ok(())
    }

    fn burst(&self, step: &Step) -> Compared {
        let expect = expectation(step)?;
        let context = step.context.as_deref().unwrap_or_default();
        let origin = step.origin.as_deref().unwrap_or_default();
        let mut runs: Vec<(bool, u64)> = Vec::new();
        for number in (0..).take(step.n.ok_or("no n")? as usize) {
            let args = match step.args_from {
                Some(from) => Args::number(from + number),
                None => Args::read(step.args.as_ref())?,
            };
            let attempt = args.lend(|args| self.attempt(step, context, origin, args))??;
            let passed = match attempt {
                Ok((wait, call)) => {
                    drop(call);
                    if !wait.is_zero() {
                        return Err(format!("an attempt waits {wait:?}"));
                    }
                    true
                }
                Err(_) => false,
            };
            match runs.last_mut() {
                Some((last, n)) if *last == passed => *n += 1,
                _ => runs.push((passed, 1)),
            }
        }
        let total = |want: bool| {
            runs.iter()
                .filter(|(passed, _)| *passed == want)
                .map(|(_, n)| n)
                .sum()
        };
        let (passes, blocks): (u64, u64) = (total(true), total(false));
        let shown: Vec<String> = runs
            .iter()
            .map(|(passed, n)| format!("{}{n}", if *passed { "p" } else { "b" }))
            .collect();
        for (key, expected) in expect {
            let found: Value = match key.as_str() {
                "pass" => passes.into(),
                "block" => blocks.into(),
                "runs" => shown.clone().into(),
                other => return Err(format!("cannot interpret {other}")),
            };
            if *expected != found {
                return Err(differs(key, expected, found) + &format!(" ({shown:?})"));
            }
        }
        let in_order = runs.len() <= 1 || (runs.len() == 2 && runs[0].0);
        match expect.contains_key("runs") || in_order {
            true => Ok(()),
            false => Err(format!("not all passes come first: {shown:?}")),
        }
    }

    fn stat(&self, step: &Step) -> Compared {
        let expect = expectation(step)?;
        let name = &step.resource;
        let found = match (&step.origin, &step.context, step.inbound) {
            (None, None, false) => self.engine.node(name),
            (Some(origin), None, false) => self.engine.origin_node(name, origin),
            (None, Some(context), false) => self.engine.context_node(name, context),
            (None, None, true) => Some(self.engine.inbound()),
            _ => return Err("cannot interpret which node".into()),
        };
        match (expect.get("exists").and_then(Value::as_bool), found) {
            (Some(false), None) => Ok(()),
            (Some(false), Some(_)) => Err("the node exists".into()),
            (_, None) => Err("the node does not exist".into()),
            (_, Some(node)) => self.compare_figures(expect, &node),
        }
    }

    /// Compares the figures that are named, and no others.
    fn figures(&self, step: &Step) -> Compared {
        let node = self.engine.node(&step.resource);
        let node = node.ok_or("the node does not exist")?;
        let view_s = self.settings.second_interval_ms as f64 / 1e3;
        for (name, expected) in expectation(step)? {
            let found = match name.as_str() {
                "total_pass" => node.total_pass,
                "total_block" => node.total_block,
                "total_success" => node.total_success,
                "total_exception" => node.total_exception,
                "total_cancelled" => node.total_cancelled,
                "passes_in_view" => (node.pass_qps * view_s).round() as u64,
                "concurrency" => node.in_flight,
                "permits" => node.permits,
                other => return Err(format!("cannot interpret {other}")),
            };
            let expected = whole(expected)?;
            if expected != found {
                return Err(differs(name, expected, found));
            }
        }
        Ok(())
    }

    fn compare_figures(&self, expect: &Map<String, Value>, node: &NodeSnapshot) -> Compared {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let rt_max = self.settings.statistic_max_rt as f64;
        // Exits carry no nanoseconds in the recorded files, entries may.
        let rt_slack = if self.has_ns { 2.0 } else { 1e-6 };
        let figures: [(&str, f64, f64); 16] = [
            ("pass_qps", node.pass_qps, 0.0),
            ("block_qps", node.block_qps, 0.0),
            ("success_qps", node.success_qps, 0.0),
            ("exception_qps", node.exception_qps, 0.0),
            ("avg_rt", ms(node.avg_rt), rt_slack),
            (
                "min_rt",
                // Sentinel shows 1 ms at least, and the most for nothing.
                node.min_rt.map_or(rt_max, |rt| {
                    (rt.as_millis() as f64).clamp(1.0, rt_max.max(1.0))
                }),
                if self.has_ns { 2.0 } else { 0.0 },
            ),
            // The reference counts these in its minute view alone.
            ("occupied_pass_qps", 0.0, 0.0),
            ("waiting", node.waiting as f64, 0.0),
            ("total_pass", node.total_pass as f64, 0.0),
            ("total_block", node.total_block as f64, 0.0),
            ("total_success", node.total_success as f64, 0.0),
            ("total_exception", node.total_exception as f64, 0.0),
            ("total_request", node.total_request() as f64, 0.0),
            ("previous_pass_qps", node.previous_pass as f64, 0.0),
            ("previous_block_qps", node.previous_block as f64, 0.0),
            ("concurrency", node.in_flight as f64, 0.0),
        ];
        let known = |key: &String| figures.iter().any(|(name, ..)| name == key) || key == "exists";
        if let Some(unknown) = expect.keys().find(|key| !known(key)) {
            return Err(format!("cannot interpret {unknown}"));
        }
        for (name, found, slack) in figures {
            let left_out = if name == "min_rt" { rt_max } else { 0.0 };
            let expected = expect.get(name).map_or(Some(left_out), Value::as_f64);
            let expected = expected.ok_or_else(|| format!("{name} is not a number"))?;
            if (expected - found).abs() > slack {
                return Err(differs(name, expected, found));
            }
        }
        Ok(())
    }

    fn breaker(&self, step: &Step) -> Compared {
        let states = self
            .engine
            .breakers(&step.resource)
            .into_iter()
            .map(|breaker| match breaker.state() {
                CircuitState::Closed => "CLOSED",
                CircuitState::Open => "OPEN",
                CircuitState::HalfOpen => "HALF_OPEN",
            });
        let found = Value::from(states.collect::<Vec<_>>());
        super::only(expectation(step)?, "states", &found)
    }
}

fn by(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::ParamFlow => "param_flow",
        kind => kind.name(),
    }
}

/// Entries of a trace are open across steps, so they hold their resource.
const _: fn(&Resource) = |_| {};

//! Traces of the leap array alone.

use std::time::Duration;

use flowgate_core::leap_array::{Borrowed, Span, Window};
use flowgate_core::{LeapArray, MetricBucket, MetricEvent, Timestamp};
use serde_json::{Map, Value, json};

use super::{Compared, expectation, moment, only};
use crate::trace::{ArrayKind, ArraySpec, Settings, Step};

/// What the reference shows while no response time was measured, in ms.
const RT_MAX_MS: u64 = 5000;

const EVENTS: [(&str, MetricEvent); 6] = [
    ("pass", MetricEvent::Pass),
    ("block", MetricEvent::Block),
    ("exception", MetricEvent::Exception),
    ("success", MetricEvent::Success),
    ("rt", MetricEvent::ResponseTime),
    ("occupied_pass", MetricEvent::OccupiedPass),
];

pub(super) struct World {
    array: LeapArray<MetricBucket>,
    borrowed: Option<Borrowed>,
    span: Span,
}

impl World {
    pub(super) fn new(spec: &ArraySpec) -> Result<Self, String> {
        let interval = Duration::from_millis(spec.interval_ms);
        let array = LeapArray::new(spec.sample_count, interval).map_err(|e| e.to_string())?;
        let windows = u64::from(spec.sample_count);
        let borrowed = (spec.kind == ArrayKind::Occupiable).then(|| Borrowed::new(windows));
        Ok(World {
            array,
            borrowed,
            span: Span::new(1, windows),
        })
    }

    pub(super) fn step(&mut self, step: &Step, settings: &Settings) -> Compared {
        let now = moment(step, settings, false);
        let relative =
            |ms: i64| Timestamp::from_millis((settings.epoch_ms as i64 + ms).max(0) as u64);
        let at = || step.at.map(relative).ok_or("no `at`");
        let show = |window: Option<Window<'_, MetricBucket>>| {
            window.map_or(Value::Null, |window| self.show(&window, settings))
        };
        let rolls = !matches!(
            step.op.as_str(),
            "add_waiting"
                | "waiting"
                | "window_pass"
                | "window_at"
                | "window_value"
                | "valid_head"
                | "deprecated"
        ) && step.roll != Some(false);
        if let (true, Some(borrowed)) = (rolls, &self.borrowed) {
            borrowed.settle(self.array.current(now).number());
        }
        let found = match step.op.as_str() {
            "add" => return self.add(now, step),
            "add_rt" => {
                let rt_ms = step.rt.ok_or("no `rt`")?;
                self.array.current(now).add_rt(rt_ms * 1_000_000);
                return nothing_expected(step);
            }
            "add_waiting" => {
                let borrowed = self.borrowed.as_ref().ok_or("not an occupiable array")?;
                let window = at()?.as_nanos() / self.array.window_length().as_nanos() as u64;
                let loan = self
                    .array
                    .book(borrowed, window, step.count.ok_or("no `count`")?);
                // Nobody is there who would wait.
                borrowed.go_early(loan);
                return nothing_expected(step);
            }
            "sum" => json!({ "value": self.sum(now, event(step)?) }),
            "waiting" => json!({ "value": self.waiting(now) }),
            "min_rt" => json!({ "value": self.rt_min_ms(now) }),
            "max_success" => json!({ "value": self.success_max(now) }),
            "window_pass" => {
                let window = self.array.window_at(at()?);
                json!({ "value": window.map_or(0, |window| self.passes(&window)) })
            }
            "values" => {
                let windows: Vec<_> = match step.roll.unwrap_or(true) {
                    true => self.array.windows(now).collect(),
                    false => self.array.windows_unrolled(now).collect(),
                };
                let shown = windows.iter().map(|w| self.show(w, settings));
                json!({ "windows": shown.collect::<Vec<_>>() })
            }
            "current" => json!({ "window": show(Some(self.array.current(now))) }),
            "previous" => json!({ "window": show(self.array.previous(now)) }),
            "valid_head" => json!({ "window": show(self.array.valid_head(now)) }),
            "window_value" => {
                let window = self.array.window_at(at()?);
                let mut shown = window.map_or(Value::Null, |w| self.show(&w, settings));
                // The value alone, without its window's start.
                shown.as_object_mut().map(|fields| fields.remove("start"));
                json!({ "window": shown })
            }
            "window_at" => json!({ "window": show(self.array.window_at(at()?)) }),
            "deprecated" => {
                let start = relative(step.start.ok_or("no `start`")?);
                json!({ "deprecated": self.array.is_deprecated(now, start) })
            }
            other => return Err(format!("cannot interpret op {other}")),
        };
        let (key, value) = found
            .as_object()
            .and_then(|o| o.iter().next())
            .ok_or("no result")?;
        only(expectation(step)?, key, value)
    }

    fn add(&self, now: Timestamp, step: &Step) -> Compared {
        let count = step.count.ok_or("no `count`")?;
        match event(step)? {
            MetricEvent::Pass => {
                let _ = self.array.pass(now, count);
            }
            event => {
                self.array.current(now).add(event, u64::from(count));
            }
        }
        nothing_expected(step)
    }

    fn sum(&self, now: Timestamp, event: MetricEvent) -> u64 {
        match event {
            MetricEvent::Pass => self.array.passes_in(now, self.span, self.borrowed.as_ref()),
            event => self
                .array
                .windows(now)
                .map(|window| shown(&window, event))
                .sum(),
        }
    }

    fn waiting(&self, now: Timestamp) -> u64 {
        // Asking for borrowed amounts does not touch the present window.
        let number = now.as_nanos() / self.array.window_length().as_nanos() as u64;
        self.borrowed
            .as_ref()
            .map_or(0, |borrowed| borrowed.waiting(self.span, number))
    }

    fn rt_min_ms(&self, now: Timestamp) -> u64 {
        let least = self
            .array
            .windows(now)
            .filter_map(|w| w.bucket().rt_min_ns(w.lap()))
            .min();
        least
            .map_or(RT_MAX_MS, |ns| ns / 1_000_000)
            .clamp(1, RT_MAX_MS)
    }

    /// The reference shows at least 1.
    fn success_max(&self, now: Timestamp) -> u64 {
        let most = self
            .array
            .windows(now)
            .map(|w| w.get(MetricEvent::Success))
            .max();
        most.unwrap_or(0).max(1)
    }

    fn passes(&self, window: &Window<'_, MetricBucket>) -> u64 {
        let borrowed = self
            .borrowed
            .as_ref()
            .map_or(0, |b| b.amount(window.number()));
        window.get(MetricEvent::Pass) + borrowed
    }

    fn show(&self, window: &Window<'_, MetricBucket>, settings: &Settings) -> Value {
        let start = window.start().as_millis() as i64 - settings.epoch_ms as i64;
        let mut fields = Map::new();
        fields.insert("start".into(), json!(start));
        for (name, event) in EVENTS {
            let count = match event {
                MetricEvent::Pass => self.passes(window),
                event => shown(window, event),
            };
            if count != 0 {
                fields.insert(name.into(), json!(count));
            }
        }
        let least = window
            .bucket()
            .rt_min_ns(window.lap())
            .map(|ns| ns / 1_000_000);
        if let Some(least) = least.filter(|ms| *ms < RT_MAX_MS) {
            fields.insert("min_rt".into(), json!(least));
        }
        Value::Object(fields)
    }
}

/// Response times are shown in milliseconds.
fn shown(window: &Window<'_, MetricBucket>, event: MetricEvent) -> u64 {
    let count = window.get(event);
    if event == MetricEvent::ResponseTime {
        count / 1_000_000
    } else {
        count
    }
}

fn event(step: &Step) -> Result<MetricEvent, String> {
    let name = step.event.as_deref().ok_or("no `event`")?;
    let found = EVENTS.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, event)| *event)
        .ok_or_else(|| format!("cannot interpret event {name}"))
}

fn nothing_expected(step: &Step) -> Compared {
    match &step.expect {
        None => Ok(()),
        Some(expect) => Err(format!("cannot interpret {expect:?}")),
    }
}

//! Writes a case down as a trace, with what the documents say in every step:
//! the format of `testdata/traces`, as `conformance` replays it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::case::{BASE_MS, BASE_NS, Form, How, Limit, MS, RESOURCE, Setup};
use super::model::Verdict;
use super::sequential::{Did, Step};

/// Writes the trace `name` into `folder`, which is made if need be.
///
/// # Errors
///
/// If that cannot be written.
pub(crate) fn write(
    folder: &Path,
    name: &str,
    about: &str,
    setup: &Setup,
    steps: &[Step],
) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!("{name}.json"));
    std::fs::write(&path, text(name, about, setup, steps))?;
    Ok(path)
}

/// The text of a trace: a line for each step.
pub(crate) fn text(name: &str, about: &str, setup: &Setup, steps: &[Step]) -> String {
    let mut text = format!(
        "{{\n \"case\": {},\n \"about\": {},\n \"reference\": \"docs/guarantees.md\",\n",
        json!(name),
        json!(about)
    );
    for (key, value) in head(setup) {
        text += &format!(" {}: {value},\n", json!(key));
    }
    let lines: Vec<String> = steps
        .iter()
        .map(|step| format!("  {}", of_step(setup, step)))
        .collect();
    text += &format!(" \"steps\": [\n{}\n ]\n}}\n", lines.join(",\n"));
    text
}

fn head(setup: &Setup) -> Map<String, Value> {
    let mut head = Map::new();
    match (setup.form, &setup.sets[0][0]) {
        (
            Form::Alone,
            Limit::Interval {
                milli,
                interval_ms,
                boxes,
                strict,
            },
        ) => {
            let kind = if *strict {
                "strict_window"
            } else {
                "sliding_window"
            };
            let limiter = json!({"type": kind, "interval_ms": interval_ms, "boxes": boxes,
                "threshold": milli / 1000});
            head.insert("limiter".into(), limiter);
        }
        (
            Form::Alone,
            Limit::Bucket {
                milli,
                interval_ms,
                burst,
                ..
            },
        ) => {
            let limiter = json!({"type": "token_bucket", "interval_ms": interval_ms,
                "count": *milli as f64 / 1e3, "burst": burst});
            head.insert("limiter".into(), limiter);
        }
        _ => {
            let settings = json!({"second_sample_count": setup.view_boxes,
                "second_interval_ms": setup.view_ms, "occupy_timeout_ms": setup.borrow_wait_ms,
                "epoch_ms": BASE_MS});
            head.insert("settings".into(), settings);
            head.insert("rules".into(), setup.document(0).into());
        }
    }
    head
}

fn of_step(setup: &Setup, step: &Step) -> Value {
    let since = step.at_ns.saturating_sub(BASE_NS);
    let mut line = Map::new();
    line.insert("t".into(), (since / MS).into());
    if !since.is_multiple_of(MS) {
        line.insert("ns".into(), (since % MS).into());
    }
    let mut add = |more: Value| {
        if let Value::Object(more) = more {
            line.extend(more);
        }
    };
    match &step.did {
        Did::Call(call, verdict) if setup.form == Form::Alone => {
            let result = if matches!(verdict, Verdict::Admitted { .. }) {
                "pass"
            } else {
                "block"
            };
            add(json!({"op": "acquire", "count": call.weight, "expect": {"result": result}}));
        }
        Did::Call(call, verdict) => {
            add(json!({"op": "entry", "id": call.id, "resource": RESOURCE}));
            if call.weight != 1 {
                add(json!({"count": call.weight}));
            }
            if call.prioritized {
                add(json!({"prioritized": true}));
            }
            if setup.has_keys() {
                add(json!({"args": [call.key]}));
            }
            if !call.may_wait {
                add(json!({"no_wait": true}));
            }
            add(match verdict {
                Verdict::Admitted { wait: 0 } => json!({"expect": {"result": "pass"}}),
                Verdict::Admitted { wait } => {
                    json!({"pending": true, "expect": {"result": "pass", "wait_ns": wait}})
                }
                Verdict::Refused { by: Some(by) } => {
                    json!({"expect": {"result": "block", "by": by}})
                }
                Verdict::Refused { by: None } => json!({"expect": {"result": "block"}}),
            });
        }
        Did::Begin(id) => add(json!({"op": "begin", "id": id})),
        Did::Cancel(id) => add(json!({"op": "cancel", "id": id})),
        Did::Exit(id, how) => {
            add(json!({"op": "exit", "id": id}));
            match how {
                How::Success => {}
                How::Error => add(json!({"error": true})),
                How::Cancelled => add(json!({"cancelled": true})),
            }
        }
        Did::Load(set) => add(json!({"op": "load", "rules": setup.document(*set)})),
        Did::Look(figures) => {
            let expect: Map<_, _> = figures
                .iter()
                .map(|&(name, figure)| (name.to_owned(), Value::from(figure)))
                .collect();
            add(json!({"op": "figures", "resource": RESOURCE, "expect": expect}));
        }
    }
    Value::Object(line)
}

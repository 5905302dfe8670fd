//! What the node of the resource has to show: a list of all that happened.

use flowgate::NodeSnapshot;

use super::super::case::{How, MS, Setup};
use super::super::log::Broken;

const SECOND_NS: u64 = 1000 * MS;
/// The seconds of the minute view, the present one included.
const MINUTE: u64 = 60;

/// All that happened, in weights.
pub(super) struct Figures {
    box_ns: u64,
    boxes: u64,
    interval_s: f64,
    passes: Vec<Pass>,
    blocks: Vec<Event>,
    ends: Vec<Event>,
    errors: Vec<Event>,
    given_up: Vec<Event>,
}

/// A pass, where the minute has it and where the second view has it.
struct Pass {
    id: u32,
    minute_ns: u64,
    second_ns: u64,
    weight: u64,
}

struct Event {
    at_ns: u64,
    weight: u64,
}

fn note(list: &mut Vec<Event>, at_ns: u64, weight: u64) {
    list.push(Event { at_ns, weight });
}

impl Figures {
    pub(super) fn new(setup: &Setup) -> Self {
        Figures {
            box_ns: setup.view_box_ns(),
            boxes: u64::from(setup.view_boxes),
            interval_s: setup.view_ms as f64 / 1e3,
            passes: Vec::new(),
            blocks: Vec::new(),
            ends: Vec::new(),
            errors: Vec::new(),
            given_up: Vec::new(),
        }
    }

    pub(super) fn passed(&mut self, id: u32, minute_ns: u64, second_ns: u64, weight: u64) {
        self.passes.push(Pass {
            id,
            minute_ns,
            second_ns,
            weight,
        });
    }

    pub(super) fn blocked(&mut self, at_ns: u64, weight: u64) {
        note(&mut self.blocks, at_ns, weight);
    }

    pub(super) fn ended(&mut self, at_ns: u64, _arrived_ns: u64, weight: u64, how: How) {
        match how {
            How::Cancelled => note(&mut self.given_up, at_ns, weight),
            How::Success => note(&mut self.ends, at_ns, weight),
            How::Error => {
                note(&mut self.ends, at_ns, weight);
                note(&mut self.errors, at_ns, weight);
            }
        }
    }

    pub(super) fn given_up(&mut self, at_ns: u64, id: u32, weight: u64) {
        note(&mut self.given_up, at_ns, weight);
        // From the end: it was among the last.
        if let Some(at) = self.passes.iter().rposition(|pass| pass.id == id) {
            self.passes.remove(at);
        }
    }

    /// What the node has to show at `now`, under the names of traces.
    pub(super) fn expected(&self, now: u64) -> [(&'static str, u64); 6] {
        let in_minute = |at_ns: u64| at_ns / SECOND_NS + MINUTE > now / SECOND_NS;
        let total = |list: &[Event]| -> u64 {
            let counted = list.iter().filter(|event| in_minute(event.at_ns));
            counted.map(|event| event.weight).sum()
        };
        let present = now / self.box_ns;
        let in_view = |at_ns: u64| {
            let number = at_ns / self.box_ns;
            number <= present && number + self.boxes > present
        };
        let passes = |counted: &dyn Fn(&Pass) -> bool| -> u64 {
            let passes = self.passes.iter().filter(|pass| counted(pass));
            passes.map(|pass| pass.weight).sum()
        };
        [
            ("total_pass", passes(&|pass| in_minute(pass.minute_ns))),
            ("total_block", total(&self.blocks)),
            ("total_success", total(&self.ends)),
            ("total_exception", total(&self.errors)),
            ("total_cancelled", total(&self.given_up)),
            ("passes_in_view", passes(&|pass| in_view(pass.second_ns))),
        ]
    }

    /// Compares that with what it shows.
    pub(super) fn compare(&self, now: u64, node: &NodeSnapshot) -> Result<(), Broken> {
        let in_view = (node.pass_qps * self.interval_s).round() as u64;
        let found = [
            node.total_pass,
            node.total_block,
            node.total_success,
            node.total_exception,
            node.total_cancelled,
            in_view,
        ];
        for ((name, expected), found) in self.expected(now).into_iter().zip(found) {
            if expected != found {
                return Err(Broken::statistics(name, expected, found));
            }
        }
        Ok(())
    }
}

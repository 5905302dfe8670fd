//! What can be said of a rule when the slot is made, whoever will call.

use flowgate_core::Interval;
use flowgate_rules::InForce;
use flowgate_rules::flow::{Flow, Grade, LimitApp, Strategy};

/// What is known of one rule. Only enforced rules know of each other.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// It is for all calls, and counts on the resource as a whole. Whatever else
    /// counts there is of the same kind.
    pub(super) on_resource: bool,
    /// It limits a rate on a view, by passes.
    by_passes: bool,
    /// Its limit does not move.
    is_static: bool,
    interval: Option<Interval>,
    /// The least static limit of it and those after it, if they are on the
    /// resource: on passes of its view, and on calls in flight.
    pub(super) least: u64,
    pub(super) least_places: u64,
    /// A limit on the second view moves: how many have passed has to be known.
    pub(super) counts_exactly: bool,
}

impl Known {
    /// What one rule by itself says.
    pub(super) fn of(in_force: &InForce<Flow>) -> Self {
        let (rule, state) = (in_force.rule(), &in_force.state);
        let by_passes = rule.grade == Grade::Qps && !state.paces() && !state.takes_tokens();
        let is_static = !state.moves();
        Known {
            on_resource: rule.limit_app == LimitApp::Default && rule.strategy == Strategy::Direct,
            by_passes,
            is_static,
            interval: state.interval(),
            least: match by_passes && is_static {
                true => state.limit(),
                false => u64::MAX,
            },
            least_places: match rule.grade {
                Grade::Concurrency => state.places(),
                Grade::Qps => u64::MAX,
            },
            counts_exactly: by_passes && !is_static,
        }
    }

    /// What is known of these rules together.
    pub(super) fn all(enforced: &[InForce<Flow>]) -> Vec<Self> {
        let alone: Vec<_> = enforced.iter().map(Known::of).collect();
        let counts_exactly = alone.iter().any(|known| known.counts_exactly);
        let together = |(from, known): (usize, &Known)| {
            let later = || alone[from..].iter().filter(|later| later.on_resource);
            let same_view = |later: &&Known| later.interval == known.interval;
            let least = later().filter(same_view).map(|later| later.least).min();
            let least_places = later().map(|later| later.least_places).min();
            Known {
                least: least.unwrap_or(u64::MAX),
                least_places: least_places.unwrap_or(u64::MAX),
                counts_exactly,
                ..*known
            }
        };
        alone.iter().enumerate().map(together).collect()
    }
}

/// The least limit, if all rules are static ones on the second view of the
/// resource, and there are any.
pub(super) fn plain(rules: &[Known]) -> Option<u64> {
    let is_plain = |known: &Known| {
        let Known {
            on_resource,
            by_passes,
            is_static,
            ..
        } = *known;
        on_resource && by_passes && is_static && known.interval.is_none()
    };
    let first = rules.first()?;
    rules.iter().all(is_plain).then_some(first.least)
}

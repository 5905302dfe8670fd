//! Which meter a rule looks at.

use std::sync::Arc;

use flowgate_core::call::Hold;
use flowgate_core::leap_array::{Full, Taken};
use flowgate_core::{Call, Interval, Node, Place, View};
use flowgate_rules::flow::{Grade, LimitApp, Strategy};

use super::{FlowCheck, FlowSlot};

/// What a rule looks at.
pub(super) enum Target<'a> {
    /// A count of one of the call's own nodes: it reserves there.
    Own(Meter<'a>),
    /// Another resource's node: it only looks.
    Foreign(&'a Node),
}

/// One count of passes of one of the call's nodes.
#[derive(Clone, Copy)]
pub(super) struct Meter<'a> {
    pub(super) place: Place,
    pub(super) node: &'a Node,
    pub(super) view: View<'a>,
}

impl<'a> Target<'a> {
    pub(super) fn node(&self) -> &'a Node {
        match self {
            Target::Own(meter) => meter.node,
            Target::Foreign(node) => node,
        }
    }
}

impl Meter<'_> {
    /// The interval of its view; `None`: the second view.
    pub(super) fn interval(&self) -> Option<Interval> {
        match self.view {
            View::Second => None,
            View::Own { interval, .. } => Some(interval),
        }
    }

    /// Takes the passes of the call. `exactly`: how many have passed has to be
    /// known, for a limit that moves.
    #[inline]
    pub(super) fn reserve(
        &self,
        call: &Call<'_>,
        limit: u64,
        exactly: bool,
    ) -> Result<Taken, Full> {
        match self.view {
            View::Second if !exactly => self.node.take(call.now, call.weight, limit),
            view => self.node.reserve_in(view, call.now, call.weight, limit),
        }
    }

    pub(super) fn probe(&self, call: &Call<'_>, limit: u64, own: Hold) -> Result<(), Full> {
        self.node
            .probe_in(self.view, call.now, call.weight, limit, own)
    }

    /// What the call has taken here.
    pub(super) fn hold(&self, call: &Call<'_>) -> Hold {
        call.holds.pass_in(self.place, self.view)
    }

    /// Whether passes of windows to come are on loan: those of the second view
    /// alone are lent.
    pub(super) fn lends_ahead(&self, call: &Call<'_>) -> bool {
        self.view == View::Second && self.node.lends_ahead(call.now)
    }

    pub(super) fn may_borrow(&self, call: &Call<'_>, weight: u32, limit: u64) -> bool {
        self.view == View::Second && self.node.may_borrow(call.now, weight, limit)
    }
}

impl FlowSlot {
    /// What rule `index` looks at for this call; `None`: it does not apply.
    #[inline]
    pub(super) fn target<'c>(&'c self, index: usize, call: &Call<'c>) -> Option<Target<'c>> {
        let check = &self.checks[index];
        if check.known.on_resource {
            let place = Place::Resource;
            let (node, view) = (call.nodes.at(place)?, self.view(check));
            return Some(Target::Own(Meter { place, node, view }));
        }
        self.target_by_caller(check, index, call)
    }

    fn target_by_caller<'c>(
        &'c self,
        check: &'c FlowCheck,
        index: usize,
        call: &Call<'c>,
    ) -> Option<Target<'c>> {
        let rule = check.rule();
        let applies = match &rule.limit_app {
            LimitApp::Default => true,
            LimitApp::Other => !call.origin.is_empty() && !self.names(index, call.origin),
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
        Some(Target::Own(Meter {
            place,
            node: call.nodes.at(place)?,
            view: self.view(check),
        }))
    }

    /// The view that a rule counts in.
    pub(super) fn view(&self, check: &FlowCheck) -> View<'_> {
        match check.state().interval() {
            None => View::Second,
            Some(interval) => View::Own {
                interval,
                among: &self.intervals,
            },
        }
    }

    /// Whether a rule names `origin`, as far as rule `index` is concerned:
    /// enforced rules know nothing of observed ones.
    fn names(&self, index: usize, origin: &str) -> bool {
        let known = match index < self.enforced {
            true => self.enforced,
            false => self.named.len(),
        };
        self.named.iter().take(known).any(|name| name == origin)
    }

    fn related<'c>(&self, check: &'c FlowCheck, name: &str) -> Option<&'c Node> {
        if let Some(node) = check.related.get() {
            return Some(node);
        }
        let node: Arc<Node> = self.registry.node(name)?;
        Some(check.related.get_or_init(|| node))
    }

    /// The least limit on calls in flight at `place` among the enforced rules
    /// from `from` on.
    pub(super) fn least_places(&self, from: usize, place: Place, call: &Call<'_>) -> u64 {
        let known = &self.checks[from].known;
        if known.on_resource && place == Place::Resource {
            return known.least_places;
        }
        let counts_there = |index| matches!(self.target(index, call), Some(Target::Own(own)) if own.place == place);
        self.enforced_from(from)
            .filter(|(_, check)| check.rule().grade == Grade::Concurrency)
            .filter(|(index, _)| counts_there(*index))
            .map(|(_, check)| check.state().places())
            .min()
            .unwrap_or(u64::MAX)
    }

    /// The enforced rules from `from` on that have a static limit on `meter`.
    pub(super) fn limiting<'s>(
        &'s self,
        from: usize,
        meter: &'s Meter<'_>,
        call: &'s Call<'_>,
    ) -> impl Iterator<Item = (usize, &'s FlowCheck)> {
        let limits = |index: usize, check: &FlowCheck| {
            check.rule().grade == Grade::Qps
                && !check.state().paces()
                && !check.state().takes_tokens()
                && !check.state().moves()
                && check.state().interval() == meter.interval()
                && matches!(self.target(index, call), Some(Target::Own(own)) if own.place == meter.place)
        };
        self.enforced_from(from)
            .filter(move |(index, check)| limits(*index, check))
    }

    /// The least static limit on `meter` among the rules from `from` on.
    pub(super) fn least(&self, from: usize, meter: &Meter<'_>, call: &Call<'_>) -> u64 {
        let known = &self.checks[from].known;
        if known.on_resource {
            return known.least;
        }
        let limits = self.limiting(from, meter, call);
        let least = limits.map(|(_, check)| check.state().limit()).min();
        least.unwrap_or(u64::MAX)
    }
}

//! Rates that reject: reservations, borrowing, and calls that are doomed.

use flowgate_core::call::Hold;
use flowgate_core::leap_array::Full;
use flowgate_core::{Block, Call, Interval, Node, Place, View};
use flowgate_rules::flow::ControlBehavior;
use smallvec::SmallVec;

use super::target::Meter;
use super::{FlowCheck, FlowSlot};

/// On what meters a call is doomed: there, a later rule is going to refuse it.
pub(super) struct Dooms(SmallVec<[Doom; 4]>);

#[derive(Clone, Copy)]
struct Doom {
    place: Place,
    interval: Option<Interval>,
    culprit: usize,
    full: Full,
}

impl Dooms {
    pub(super) fn new() -> Self {
        Dooms(SmallVec::new())
    }

    fn at(&self, meter: &Meter<'_>) -> Option<&Doom> {
        let mut dooms = self.0.iter();
        dooms.find(|doom| doom.place == meter.place && doom.interval == meter.interval())
    }
}

impl FlowSlot {
    /// A rate that rejects, whether or not its limit moves: takes passes of one
    /// meter.
    pub(super) fn take_passes(
        &self,
        index: usize,
        meter: Meter<'_>,
        dooms: &mut Dooms,
        call: &mut Call<'_>,
    ) -> Option<Block> {
        let check = &self.checks[index];
        let weight = call.weight;
        let allowed = check.state().allowed(call.now, meter.node);
        let own = check.state().limit_at(allowed);
        match (meter.hold(call), dooms.at(&meter)) {
            // Taken within the least static limit.
            (Hold::Passed(_) | Hold::Loaned(_), _) if !check.state().moves() => return None,
            (hold @ Hold::Passed(taken), _) => {
                let probe = || meter.probe(call, own, hold);
                let full = match taken.sum() <= own {
                    true if !meter.lends_ahead(call) => return None,
                    true => probe().err()?,
                    // Even if others have left since.
                    false => Full {
                        sum: taken.sum() - u64::from(weight),
                        retry_after: probe().err().and_then(|full| full.retry_after),
                    },
                };
                return Some(check.refuse_rate(allowed, own, weight, full));
            }
            (hold @ Hold::Loaned(_), _) => {
                let full = meter.probe(call, own, hold).err()?;
                return Some(check.refuse_rate(allowed, own, weight, full));
            }
            (Hold::Nothing, Some(Doom { culprit, full, .. })) => {
                if *culprit == index {
                    return Some(check.refuse_rate(allowed, own, weight, *full));
                }
                let moved = check.refuses_moved(&meter, own, full, call)?;
                return Some(check.refuse_rate(allowed, own, weight, moved));
            }
            (Hold::Nothing, None) => {}
        }
        let limit = match self.enforced {
            1 => own,
            _ => own.min(self.least(index, &meter, call)),
        };
        let full = match meter.reserve(call, limit, check.known.counts_exactly) {
            Ok(taken) => {
                call.holds.set_taken_in(meter.place, meter.view, taken);
                return None;
            }
            Err(full) => full,
        };
        if let Some(moved) = check.refuses_moved(&meter, own, &full, call) {
            return Some(check.refuse_rate(allowed, own, weight, moved));
        }
        if self.borrow(index, &meter, &full, call) {
            return None;
        }
        // Nobody: a window holds no more passes, though the rules would.
        let found = self.doom(index, &meter, &full, call)?;
        if found.culprit == index {
            return Some(check.refuse_rate(allowed, own, weight, found.full));
        }
        dooms.0.push(found);
        None
    }

    /// A plain call where all rules are static ones on the second view of the
    /// resource, the least of which is `limit`: see [`FlowSlot`].
    #[inline]
    pub(super) fn take_plain(&self, limit: u64, call: &mut Call<'_>) -> Option<Block> {
        let node = call.nodes.at(Place::Resource)?;
        match node.take(call.now, call.weight, limit) {
            Ok(taken) => {
                call.holds.set_pass(Place::Resource, Hold::Passed(taken));
                None
            }
            Err(full) => self.refuse_plain(node, full, call),
        }
    }

    /// The refusal of the first of those rules that refuses, taken by itself.
    fn refuse_plain(&self, node: &Node, full: Full, call: &Call<'_>) -> Option<Block> {
        let (culprit, full) = match &self.checks[..self.enforced] {
            [check] if full.exceeds(call.weight, check.state().limit()) => (check, full),
            _ => {
                let (place, view) = (Place::Resource, View::Second);
                let meter = Meter { place, node, view };
                let doom = self.doom(0, &meter, &full, call)?;
                (&self.checks[doom.culprit], doom.full)
            }
        };
        culprit.hits().block();
        let limit = culprit.state().limit();
        let allowed = culprit.state().allowed(call.now, node);
        Some(culprit.refuse_rate(allowed, limit, call.weight, full))
    }

    /// Lets a prioritized call that found no room borrow from a window to come,
    /// within all static limits on the meter. It waits for the first rule that
    /// has no room. Only the second view lends.
    fn borrow(&self, index: usize, meter: &Meter<'_>, full: &Full, call: &mut Call<'_>) -> bool {
        if !call.prioritized || meter.interval().is_some() {
            return false;
        }
        let Some(rule) = self.exceeded(index, meter, full, call) else {
            return false;
        };
        let limit = self.least(index, meter, call);
        let Ok((loan, wait)) = meter.node.borrow(call.now, call.weight, limit) else {
            return false;
        };
        call.holds.set_pass(meter.place, Hold::Loaned(loan));
        call.holds.wait_for(call.slot, rule as u32, wait);
        true
    }

    /// The first rule from `from` on that refuses the call by its static limit
    /// on `meter`, taken by itself, and what it sees. `full` is what all of them
    /// together refused.
    #[cold]
    fn doom(&self, from: usize, meter: &Meter<'_>, full: &Full, call: &Call<'_>) -> Option<Doom> {
        let doom = |culprit, full| Doom {
            place: meter.place,
            interval: meter.interval(),
            culprit,
            full,
        };
        let refuses = |(culprit, check): (usize, &FlowCheck)| {
            let limit = check.state().limit();
            let full = match full.exceeds(call.weight, limit) {
                true => *full,
                false => meter.probe(call, limit, Hold::Nothing).err()?,
            };
            let lends =
                call.prioritized && check.may_lend() && meter.may_borrow(call, call.weight, limit);
            (!lends).then_some(doom(culprit, full))
        };
        let found = self.limiting(from, meter, call).find_map(refuses);
        // Each may have room by now; together they had none.
        found.or_else(|| Some(doom(self.exceeded(from, meter, full, call)?, *full)))
    }

    /// The first rule from `from` on whose static limit on `meter` `full`
    /// exceeds.
    fn exceeded(
        &self,
        from: usize,
        meter: &Meter<'_>,
        full: &Full,
        call: &Call<'_>,
    ) -> Option<usize> {
        let exceeds = |check: &FlowCheck| full.exceeds(call.weight, check.state().limit());
        let mut limiting = self.limiting(from, meter, call);
        limiting
            .find(|(_, check)| exceeds(check))
            .map(|(index, _)| index)
    }
}

impl FlowCheck {
    /// Only a plain reject rule lends passes of windows to come.
    pub(super) fn may_lend(&self) -> bool {
        self.rule().behavior == ControlBehavior::Reject
    }

    /// Whether a limit `own` that moves refuses a call that found no room within
    /// a lower one, and what it sees.
    #[cold]
    fn refuses_moved(
        &self,
        meter: &Meter<'_>,
        own: u64,
        full: &Full,
        call: &Call<'_>,
    ) -> Option<Full> {
        match self.state().moves() {
            true if full.exceeds(call.weight, own) => Some(*full),
            true => meter.probe(call, own, Hold::Nothing).err(),
            false => None,
        }
    }
}

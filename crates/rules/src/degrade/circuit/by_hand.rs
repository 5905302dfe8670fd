//! What somebody decides in a circuit's place.

use std::sync::Arc;

use flowgate_core::Timestamp;

use super::Circuit;
use super::change::{Cause, Change, Forced};
use super::phase::{Phase, Stage};
use super::window::Window;

impl Circuit {
    /// Forces the circuit open or closed from `now` on, until it is released.
    /// False if it is forced so already.
    pub fn force(&self, forced: Forced, now: Timestamp, told: impl FnMut(Change)) -> bool {
        self.change_until_done(now, told, |phase| {
            let differs = phase.forced() != Some(forced);
            differs.then_some((Stage::Forced(forced), Cause::Forced(forced)))
        })
    }

    /// Ends a force: the circuit is as if new. False if it is not forced, or
    /// forced as it is from the start.
    pub fn release(&self, now: Timestamp, told: impl FnMut(Change)) -> bool {
        self.change_until_done(now, told, |phase| {
            let differs = phase.forced() != self.limits.forced && phase.forced().is_some();
            differs.then(|| (Stage::initial(&self.limits), Cause::Released))
        })
    }

    /// Closes the circuit and forgets all results and openings. False if it is
    /// forced: that stays until it is released.
    pub fn reset(&self, now: Timestamp, told: impl FnMut(Change)) -> bool {
        self.change_until_done(now, told, |phase| {
            let fresh = || Stage::Closed(Window::new(&self.limits.span));
            phase.forced().is_none().then(|| (fresh(), Cause::Reset))
        })
    }

    fn change_until_done(
        &self,
        now: Timestamp,
        mut told: impl FnMut(Change),
        next: impl Fn(&Phase) -> Option<(Stage, Cause)>,
    ) -> bool {
        loop {
            let phase = self.phase.load();
            let phase: &Arc<Phase> = &phase;
            let Some((stage, cause)) = next(phase) else {
                return false;
            };
            if self.change(phase, stage, cause, now.max(phase.since), &mut told) {
                return true;
            }
        }
    }
}

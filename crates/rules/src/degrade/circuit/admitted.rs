//! What a circuit says of a call.

use std::time::Duration;

use super::probes::Probe;

/// What a call that was let pass has to remember.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admitted {
    pub(super) generation: u64,
    pub(super) probe: Option<Probe>,
}

/// A call is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// How long until a call may probe, if nothing happens; `None`: never by
    /// itself, it is forced open.
    pub retry_after: Option<Duration>,
}

impl Admitted {
    #[inline]
    pub(super) fn plainly(generation: u64) -> Self {
        Admitted {
            generation,
            probe: None,
        }
    }

    pub(super) fn probing(generation: u64, probe: Probe) -> Self {
        Admitted {
            generation,
            probe: Some(probe),
        }
    }

    /// Whether the call is a probe.
    pub fn is_probe(&self) -> bool {
        self.probe.is_some()
    }

    /// As plain numbers, for a slot's ticket.
    pub fn to_words(self) -> [u64; 3] {
        let (slot, until) = self
            .probe
            .map_or((0, 0), |probe| (u64::from(probe.slot) + 1, probe.until));
        [self.generation, slot, until]
    }

    /// From the numbers of [`Admitted::to_words`].
    pub fn from_words([generation, slot, until]: [u64; 3]) -> Self {
        let slot = slot
            .checked_sub(1)
            .and_then(|slot| u32::try_from(slot).ok());
        Admitted {
            generation,
            probe: slot.map(|slot| Probe { slot, until }),
        }
    }
}

//! What became of the calls of one resource.

use std::time::Duration;

use flowgate::Timestamp;

/// Counts of calls, and their busiest second.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Calls that asked: those that passed and those that were blocked.
    pub(super) offered: u64,
    /// Calls that went ahead, at once or after a wait.
    pub(super) passed: u64,
    /// Calls that were refused.
    pub(super) blocked: u64,
    /// Calls that went ahead after a wait; counted in `passed` as well.
    pub(super) queued: u64,
    pub(super) wait_max: Duration,
    busiest: Second,
    current: Second,
}

/// One second of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Second {
    /// Whole seconds since the Unix epoch.
    pub(super) begin: u64,
    /// Calls that asked in it.
    pub(super) offered: u64,
    /// Calls that went ahead in it, also those that had asked before.
    pub(super) passed: u64,
}

// Calls come in the order of time.
impl Tally {
    pub(super) fn offer(&mut self, at: Timestamp) {
        self.offered += 1;
        self.second(at).offered += 1;
    }

    pub(super) fn block(&mut self) {
        self.blocked += 1;
    }

    pub(super) fn queue(&mut self, wait: Duration) {
        self.queued += 1;
        self.wait_max = self.wait_max.max(wait);
    }

    pub(super) fn pass(&mut self, at: Timestamp) {
        self.passed += 1;
        self.second(at).passed += 1;
    }

    /// The second with the most calls that asked; the first of several.
    pub(super) fn busiest(&self) -> Second {
        busier(self.busiest, self.current)
    }

    fn second(&mut self, at: Timestamp) -> &mut Second {
        let begin = at.as_secs();
        if begin != self.current.begin {
            self.busiest = busier(self.busiest, self.current);
            self.current = Second {
                begin,
                ..Second::default()
            };
        }
        &mut self.current
    }
}

fn busier(earlier: Second, later: Second) -> Second {
    if later.offered > earlier.offered {
        later
    } else {
        earlier
    }
}

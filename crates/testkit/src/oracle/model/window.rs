//! Boxes: a list of what was admitted, added up for every question.

use std::collections::VecDeque;

/// What was admitted, by the box it is counted in.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) box_ns: u64,
    /// How many consecutive boxes a limit holds for.
    pub(super) boxes: u64,
    admitted: VecDeque<Admitted>,
}

#[derive(Clone, Copy, Debug)]
struct Admitted {
    id: u32,
    number: u64,
    weight: u64,
}

impl Window {
    pub(super) fn new(box_ns: u64, boxes: u64) -> Self {
        Window {
            box_ns,
            boxes,
            admitted: VecDeque::new(),
        }
    }

    fn number(&self, ns: u64) -> u64 {
        ns / self.box_ns
    }

    /// What the boxes that end with `last` hold, loans from them included.
    fn sum(&self, last: u64) -> u64 {
        let account = (last + 1).saturating_sub(self.boxes)..=last;
        let counted = self.admitted.iter().filter(|a| account.contains(&a.number));
        counted.map(|a| a.weight).sum()
    }

    /// What a call that comes now finds: the most that any account holds which
    /// it would be in, up to the last box lent.
    pub(super) fn found(&self, now: u64) -> u64 {
        let present = self.number(now);
        let lent = self.admitted.iter().map(|a| a.number).max();
        let last = lent.unwrap_or(0).min(present + self.boxes - 1);
        let accounts = present..=last.max(present);
        accounts.map(|last| self.sum(last)).max().unwrap_or(0)
    }

    /// How long a call has to wait for passes of a window to come: the first
    /// that begins in less than `wait_max_ns` and has room. All loans count
    /// against each window to come, as in Sentinel.
    pub(super) fn loan(&self, now: u64, weight: u64, limit: u64, wait_max_ns: u64) -> Option<u64> {
        let present = self.number(now);
        let lent = self.admitted.iter().filter(|a| a.number > present);
        let lent: u64 = lent.map(|a| a.weight).sum();
        let has_room = |number: u64| {
            let account = (number + 1).saturating_sub(self.boxes)..=present;
            let counted = self.admitted.iter().filter(|a| account.contains(&a.number));
            let left: u64 = counted.map(|a| a.weight).sum();
            left + lent + weight <= limit
        };
        let wait = |number: u64| number * self.box_ns - now;
        let mut in_time = (present + 1..).take_while(|number| wait(*number) < wait_max_ns);
        in_time.find(|number| has_room(*number)).map(wait)
    }

    /// Counts a call at a time, now or lent.
    pub(super) fn count(&mut self, id: u32, at_ns: u64, weight: u64) {
        let number = self.number(at_ns);
        while let Some(oldest) = self.admitted.front() {
            if oldest.number + 2 * self.boxes > number {
                break;
            }
            self.admitted.pop_front();
        }
        if weight > 0 {
            self.admitted.push_back(Admitted { id, number, weight });
        }
    }

    /// The call was given up.
    pub(super) fn take_back(&mut self, id: u32) {
        self.admitted.retain(|admitted| admitted.id != id);
    }
}

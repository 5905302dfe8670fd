//! The few lines of `/proc` that are needed, from their text. What makes no
//! sense is `None`.

/// Time that processors were busy and that there was, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    pub(super) busy: u64,
    pub(super) all: u64,
}

impl Ticks {
    /// Share of the time since `before` that was busy, from 0 to 1.
    pub(super) fn share_since(self, before: Ticks) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        let busy = self.busy.saturating_sub(before.busy);
        Some((busy as f64 / all as f64).min(1.0))
    }
}

/// `/proc/stat`: the line of all processors together. Guests' time is in that
/// of their hosts already; waiting for a disk is idle.
pub(super) fn ticks(stat: &str) -> Option<Ticks> {
    const IDLE: [usize; 2] = [3, 4];
    const GUESTS_FROM: usize = 8;
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let (mut busy, mut idle) = (0_u64, None);
    for (at, time) in line.split_whitespace().take(GUESTS_FROM).enumerate() {
        let time: u64 = time.parse().ok()?;
        if IDLE.contains(&at) {
            idle = Some(idle.unwrap_or(0_u64).checked_add(time)?);
        } else {
            busy = busy.checked_add(time)?;
        }
    }
    // Without a figure of idle time there is no share.
    let all = busy.checked_add(idle?)?;
    Some(Ticks { busy, all })
}

/// `/proc/loadavg`: the mean of one minute.
pub(super) fn load1(loadavg: &str) -> Option<f64> {
    let load: f64 = loadavg.split_whitespace().next()?.parse().ok()?;
    (load.is_finite() && load >= 0.0).then_some(load)
}

/// A pressure file: share of the last ten seconds in which some task waited,
/// from 0 to 1.
pub(super) fn pressure(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let avg10 = some.split_whitespace();
    let percent = avg10
        .filter_map(|field| field.strip_prefix("avg10="))
        .next()?;
    let percent: f64 = percent.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// The number behind `key` in lines like `usage_usec 123` or `MemTotal: 5 kB`.
pub(super) fn value_of(text: &str, key: &str) -> Option<u64> {
    let fields = text.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        (fields.next() == Some(key)).then_some(fields)
    });
    fields?.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_processors_together_are_read_without_guests() {
        let stat = "cpu  10 20 30 400 40 5 6 7 10 20\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 5\n";
        let ticks = ticks(stat).unwrap();
        assert_eq!((ticks.busy, ticks.all), (78, 518));
        // Kernels before 2.6 and some sandboxes have four columns.
        assert_eq!(
            super::ticks("cpu 1 2 3 4").map(|t| (t.busy, t.all)),
            Some((6, 10))
        );
    }

    #[test]
    fn what_makes_no_sense_is_not_known() {
        for text in [
            "",
            "cpu",
            "cpu ",
            "cpu 1 2 3",
            "cpu a b c d",
            "cpu -1 2 3 4",
            "cpu0 1 2 3 4",
        ] {
            assert_eq!(ticks(text), None, "{text:?}");
        }
        let huge = format!("cpu {0} {0} {0} {0}", u64::MAX);
        assert_eq!(ticks(&huge), None);
        for text in ["", "NaN 0 0", "inf", "-1 0 0", "x"] {
            assert_eq!(load1(text), None, "{text:?}");
        }
        for text in [
            "",
            "some",
            "some ",
            "full avg10=1.00",
            "some avg10=x",
            "some avg10=101",
        ] {
            assert_eq!(pressure(text), None, "{text:?}");
        }
        for text in ["", "key", "key x", "keys 5"] {
            assert_eq!(value_of(text, "key"), None, "{text:?}");
        }
    }

    #[test]
    fn a_share_needs_time_to_have_gone_by_forwards() {
        let at = |busy, all| Ticks { busy, all };
        assert_eq!(at(60, 200).share_since(at(10, 100)), Some(0.5));
        assert_eq!(at(10, 100).share_since(at(10, 100)), None);
        assert_eq!(at(10, 50).share_since(at(10, 100)), None);
        // Idle time may be corrected downwards by the kernel.
        assert_eq!(at(300, 200).share_since(at(10, 100)), Some(1.0));
    }
}

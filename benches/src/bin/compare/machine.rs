//! What the machine says: processors, waits on a run queue, memory.
//!
//! The figures are read from `/proc`, so all of this is Linux only; elsewhere a
//! thread is never pinned, never known to wait, and takes no memory.

use std::fs;
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps the calling thread on one processor until it is dropped.
pub(crate) struct Pinned(Option<CpuSet>);

/// Pins the calling thread to the processor `index` of those it may use, round
/// and round.
pub(crate) fn pin(index: usize) -> Pinned {
    let Ok(allowed) = sched_getaffinity(None) else {
        return Pinned(None);
    };
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&n| allowed.is_set(n))
        .collect();
    if processors.is_empty() {
        return Pinned(None);
    }
    let mut one = CpuSet::new();
    one.set(processors[index % processors.len()]);
    match sched_setaffinity(None, &one) {
        Ok(()) => Pinned(Some(allowed)),
        Err(_) => Pinned(None),
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(allowed) = &self.0 {
            // What was allowed before is allowed still.
            sched_setaffinity(None, allowed).ok();
        }
    }
}

/// How many processors this process may use.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// For how long the calling thread has waited for a processor since it began,
/// in nanoseconds: the second figure of `schedstat`.
pub(crate) fn waited_ns() -> u64 {
    let figures = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = figures.split_whitespace().nth(1);
    waited.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Memory of this process that is resident now, in bytes: the second figure of
/// `statm`, in pages.
pub(crate) fn resident_bytes() -> u64 {
    let figures = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = figures.split_whitespace().nth(1);
    let pages: u64 = pages.and_then(|word| word.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// The processor's name, and how many of them there are.
pub(crate) fn describe() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .and_then(|rest| rest.split_once(':'))
        .map_or("unknown processor", |(_, name)| name.trim());
    let system = std::env::consts::OS;
    let count = processors();
    format!("{count} processors, {name}, {system}")
}

//! The sampler that an engine has by itself: Linux's `/proc`, and the control
//! group that the process runs in.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::cgroup::Groups;
use super::proc::{self, Ticks};
use super::{Sample, SystemSampler};

/// Reads load, processors and memory of the machine, and of the control group
/// that this process runs in, if that is limited.
///
/// | figure | of the machine | in a control group (version 1 and 2) |
/// |---|---|---|
/// | `load1` | `/proc/loadavg` | – |
/// | `cpu` | busy by all time in `/proc/stat`, since the last sample | use by quota, since the last sample; the higher one counts |
/// | `cpu_pressure` | `/proc/pressure/cpu` | `cpu.pressure`, where there is one |
/// | `throttled` | – | throttled by all periods, since the last sample |
/// | memory | `MemTotal − MemAvailable` of `MemTotal` | in use, without files not used lately, of the limit |
///
/// A limit of any group around the process's own counts; the tightest is taken.
/// What a system does not have is unknown, and on systems other than Linux that
/// is everything. Shares since the last sample are unknown in the first one.
#[derive(Debug)]
pub struct HostSampler {
    root: PathBuf,
    started: Instant,
    ticks: Option<Ticks>,
    /// The text that the groups were found by: a process may be moved.
    found_by: [String; 2],
    groups: Groups,
    /// The processor figure that was last told.
    cpu: Option<f64>,
}

impl HostSampler {
    /// A sampler of this machine.
    pub fn new() -> Self {
        Self::below("/")
    }

    /// A sampler of the machine whose `/proc` and `/sys` are to be found below
    /// `root`.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        HostSampler {
            root: root.into(),
            started: Instant::now(),
            ticks: None,
            found_by: Default::default(),
            groups: Groups::default(),
            cpu: None,
        }
    }

    /// Whether this system tells its load and how busy its processors are.
    pub(crate) fn has_load_and_cpu(&self) -> bool {
        self.root.join("proc/stat").is_file() && self.root.join("proc/loadavg").is_file()
    }

    /// The figures at `at`, which grows from sample to sample.
    fn sample_at(&mut self, at: Duration) -> Sample {
        self.find_groups();
        let group = self.groups.cpu(at);
        let ticks = self.read("proc/stat").and_then(|text| proc::ticks(&text));
        let before = std::mem::replace(&mut self.ticks, ticks);
        let machine = ticks.zip(before);
        let machine = machine.and_then(|(now, before)| now.share_since(before));
        let cpu = [machine, group.used].into_iter().flatten();
        self.cpu = match cpu.reduce(f64::max) {
            // Two samples without time between them show the same.
            None if ticks.is_some() && ticks == before => self.cpu,
            known => known,
        };
        let pressure = || proc::pressure(&self.read("proc/pressure/cpu")?);
        let memory = self.memory();
        Sample {
            load1: self
                .read("proc/loadavg")
                .and_then(|text| proc::load1(&text)),
            cpu: self.cpu,
            cpu_pressure: group.pressure.or_else(pressure),
            throttled: group.throttled,
            memory_used_bytes: memory.map(|(used, _)| used),
            memory_limit_bytes: memory.map(|(_, limit)| limit),
        }
    }

    fn find_groups(&mut self) {
        let files = ["proc/self/cgroup", "proc/self/mountinfo"];
        let texts = files.map(|file| self.read(file).unwrap_or_default());
        if texts != self.found_by {
            self.groups = Groups::find(&self.root, &texts[0], &texts[1]);
            self.found_by = texts;
        }
    }

    /// Bytes in use and bytes that may be used.
    fn memory(&self) -> Option<(u64, u64)> {
        let info = self.read("proc/meminfo").unwrap_or_default();
        let bytes = |key| proc::value_of(&info, key).map(|kib| kib.saturating_mul(1024));
        let total = bytes("MemTotal:");
        let group = self.groups.memory(total);
        let group = group.map(|figures| (figures.used_bytes, figures.limit_bytes));
        group.or_else(|| {
            let used = total?.saturating_sub(bytes("MemAvailable:")?);
            Some((used, total?))
        })
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.root.join(file)).ok()
    }
}

impl SystemSampler for HostSampler {
    fn sample(&mut self) -> Sample {
        self.sample_at(self.started.elapsed())
    }
}

impl Default for HostSampler {
    fn default() -> Self {
        HostSampler::new()
    }
}

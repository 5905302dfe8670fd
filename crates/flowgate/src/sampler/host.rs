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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A machine of `testdata/cgroup`, in a folder of its own.
    struct Machine {
        name: &'static str,
        root: PathBuf,
        sampler: HostSampler,
    }

    impl Machine {
        fn new(name: &'static str) -> Self {
            static MADE: AtomicUsize = AtomicUsize::new(0);
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let folder = format!("flowgate-{}-{number}-{name}", std::process::id());
            let root = std::env::temp_dir().join(folder);
            let machine = Machine {
                name,
                sampler: HostSampler::below(&root),
                root,
            };
            machine.lay("first");
            machine
        }

        fn lay(&self, when: &str) {
            let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cgroup");
            copy(&data.join(self.name).join(when), &self.root);
        }

        /// The first sample, and the one of ten seconds later.
        fn samples(&mut self) -> [Sample; 2] {
            let first = self.sampler.sample_at(Duration::ZERO);
            self.lay("then");
            [first, self.sampler.sample_at(Duration::from_secs(10))]
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.root);
        }
    }

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let to = to.join(entry.file_name());
            match entry.path().is_dir() {
                true => copy(&entry.path(), &to),
                false => drop(fs::copy(entry.path(), to).unwrap()),
            }
        }
    }

    /// Compares the second sample, with shares rounded to a millionth.
    fn assert_sample(found: Sample, expected: Sample) {
        let round = |share: Option<f64>| share.map(|share| (share * 1e6).round() / 1e6);
        let rounded = Sample {
            load1: round(found.load1),
            cpu: round(found.cpu),
            cpu_pressure: round(found.cpu_pressure),
            throttled: round(found.throttled),
            ..found
        };
        assert_eq!(rounded, expected);
    }

    #[test]
    fn version_2_is_read_with_quota_throttling_pressure_and_memory() {
        let [first, then] = Machine::new("v2").samples();
        let unchanging = Sample {
            load1: Some(1.25),
            cpu_pressure: Some(0.125),
            memory_used_bytes: Some(512 * MIB),
            memory_limit_bytes: Some(1024 * MIB),
            ..Sample::default()
        };
        // Shares need two samples.
        assert_sample(first, unchanging);
        let expected = Sample {
            // 18 of 2 × 10 seconds; the machine as a whole is a quarter busy.
            cpu: Some(0.9),
            throttled: Some(0.5),
            ..unchanging
        };
        assert_sample(then, expected);
    }

    #[test]
    fn limits_of_groups_around_the_own_one_count() {
        let [_, then] = Machine::new("v2-nested").samples();
        let expected = Sample {
            load1: Some(1.25),
            // The pod has used 4.5 of 0.5 × 10 seconds, its neighbours included.
            cpu: Some(0.9),
            throttled: Some(0.25),
            cpu_pressure: Some(0.03),
            memory_used_bytes: Some(300 * MIB),
            memory_limit_bytes: Some(500 * MIB),
        };
        assert_sample(then, expected);
    }

    #[test]
    fn version_1_is_read_where_only_the_own_part_is_mounted() {
        let [_, then] = Machine::new("v1").samples();
        let expected = Sample {
            load1: Some(1.25),
            // 6 of 1.5 × 10 seconds.
            cpu: Some(0.4),
            throttled: Some(0.2),
            cpu_pressure: None,
            memory_used_bytes: Some(320 * MIB),
            memory_limit_bytes: Some(512 * MIB),
        };
        assert_sample(then, expected);
    }

    #[test]
    fn without_limits_the_machine_as_a_whole_counts() {
        let mut machine = Machine::new("no-limit");
        let [_, then] = machine.samples();
        let expected = Sample {
            load1: Some(1.25),
            cpu: Some(0.5),
            throttled: None,
            cpu_pressure: Some(0.03),
            memory_used_bytes: Some(8_192_000 * 1024),
            memory_limit_bytes: Some(16_384_000 * 1024),
        };
        assert_sample(then, expected);
        // No time has gone by: the same as before.
        assert_sample(machine.sampler.sample_at(Duration::from_secs(10)), expected);
        // Nothing is told any more: that is not what it was.
        fs::remove_file(machine.root.join("proc/stat")).unwrap();
        let gone = machine.sampler.sample_at(Duration::from_secs(20));
        assert_sample(
            gone,
            Sample {
                cpu: None,
                ..expected
            },
        );
    }

    #[test]
    fn what_makes_no_sense_is_not_known() {
        let mut machine = Machine::new("garbage");
        let expected = Sample {
            load1: Some(0.5),
            ..Sample::default()
        };
        for secs in [0, 10] {
            let sample = machine.sampler.sample_at(Duration::from_secs(secs));
            assert_sample(sample, expected);
        }
    }

    #[test]
    fn a_machine_without_proc_is_not_known() {
        let mut sampler = HostSampler::below("/nowhere/at/all");
        assert!(!sampler.has_load_and_cpu());
        assert_eq!(sampler.sample(), Sample::default());
        let machine = Machine::new("v2");
        assert!(machine.sampler.has_load_and_cpu());
    }
}

//! Which control group this process is in, and what that may use.
//!
//! `/proc/self/cgroup` names the group, one line per hierarchy of version 1 and
//! one (`0::`) for version 2; `/proc/self/mountinfo` says where a hierarchy, or
//! the part of it that this container sees, is mounted. A limit may be set on
//! the group itself or on any group around it, so all of them up to the mount are
//! *levels*, each with its own use and its own limit, and the tightest counts.
//!
//! | | version 1 | version 2 |
//! |---|---|---|
//! | quota | `cpu.cfs_quota_us`, `cpu.cfs_period_us` | `cpu.max` |
//! | use | `cpuacct.usage` | `usage_usec` of `cpu.stat` |
//! | throttling | `cpu.stat` | `cpu.stat` |
//! | pressure | – | `cpu.pressure` |
//! | memory | `memory.usage_in_bytes`, `memory.limit_in_bytes` | `memory.current`, `memory.max` |
//! | of that, files not used lately | `total_inactive_file` of `memory.stat` | `inactive_file` of it |

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::proc::{pressure, value_of};

/// The groups that limit this process.
#[derive(Debug, Default)]
pub(super) struct Groups {
    cpu: Vec<CpuLevel>,
    memory: Vec<MemoryLevel>,
    /// The group itself, in version 2.
    own: Option<PathBuf>,
}

#[derive(Debug)]
struct CpuLevel {
    files: CpuFiles,
    before: Option<CpuUse>,
}

#[derive(Debug)]
enum CpuFiles {
    V1 { cpu: PathBuf, cpuacct: PathBuf },
    V2(PathBuf),
}

/// What a level has used by `at`.
#[derive(Clone, Copy, Debug)]
struct CpuUse {
    at: Duration,
    used: Option<Duration>,
    periods: Option<u64>,
    throttled: Option<u64>,
}

#[derive(Debug)]
enum MemoryLevel {
    V1(PathBuf),
    V2(PathBuf),
}

/// Processor figures of the tightest level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CpuFigures {
    /// Use by quota, from 0 to 1.
    pub(super) used: Option<f64>,
    /// Share of periods that were throttled.
    pub(super) throttled: Option<f64>,
    pub(super) pressure: Option<f64>,
}

/// Memory of one level, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryFigures {
    pub(super) used_bytes: u64,
    pub(super) limit_bytes: u64,
}

impl Groups {
    /// The groups of the process whose `/proc/self/cgroup` and `mountinfo` say
    /// this; `root` is put before all paths.
    pub(super) fn find(root: &Path, cgroup: &str, mountinfo: &str) -> Self {
        let mounts: Vec<Mount> = mountinfo.lines().filter_map(Mount::parse).collect();
        let levels = |controller: Option<&str>| {
            let path = group_of(cgroup, controller)?;
            let mount = mounts.iter().find(|mount| mount.holds(controller))?;
            let levels = mount.levels(root, path);
            (!levels.is_empty()).then_some(levels)
        };
        let unified = levels(None).unwrap_or_default();
        let v2 = |file: &str| {
            let has = |level: &&PathBuf| level.join(file).is_file();
            unified.iter().filter(has).cloned().collect::<Vec<_>>()
        };
        // A controller of version 1 is no controller of version 2 at the same time.
        let cpu = match (levels(Some("cpu")), levels(Some("cpuacct"))) {
            // From the outermost on: the two may be mounted at different depths.
            (Some(cpu), Some(cpuacct)) => cpu
                .into_iter()
                .rev()
                .zip(cpuacct.into_iter().rev())
                .map(|(cpu, cpuacct)| CpuFiles::V1 { cpu, cpuacct })
                .collect(),
            _ => v2("cpu.max")
                .into_iter()
                .map(CpuFiles::V2)
                .collect::<Vec<_>>(),
        };
        let memory = match levels(Some("memory")) {
            Some(levels) => levels.into_iter().map(MemoryLevel::V1).collect(),
            None => v2("memory.max").into_iter().map(MemoryLevel::V2).collect(),
        };
        let level = |files| CpuLevel {
            files,
            before: None,
        };
        Groups {
            cpu: cpu.into_iter().map(level).collect(),
            memory,
            own: unified.into_iter().next(),
        }
    }

    /// Processor figures since the last time they were asked for; `at` grows
    /// from one to the next.
    pub(super) fn cpu(&mut self, at: Duration) -> CpuFigures {
        let mut figures = CpuFigures {
            pressure: self
                .own
                .as_ref()
                .and_then(|own| pressure(&read(own, "cpu.pressure")?)),
            ..CpuFigures::default()
        };
        for level in &mut self.cpu {
            let now = level.files.used(at);
            let before = level.before.replace(now);
            let Some((cores, before)) = level.files.cores().zip(before) else {
                continue;
            };
            figures.used = most(figures.used, now.share_of(cores, before));
            figures.throttled = most(figures.throttled, now.throttled_since(before));
        }
        figures
    }

    /// Memory of the level that is nearest to its limit, if one has a limit
    /// below `machine_bytes`.
    pub(super) fn memory(&self, machine_bytes: Option<u64>) -> Option<MemoryFigures> {
        let limited = self.memory.iter().filter_map(MemoryLevel::figures);
        let limited =
            limited.filter(|figures| figures.limit_bytes <= machine_bytes.unwrap_or(u64::MAX));
        limited.max_by(|a, b| a.share().total_cmp(&b.share()))
    }
}

impl CpuFiles {
    /// The quota, in processors.
    fn cores(&self) -> Option<f64> {
        let (quota, period) = match self {
            CpuFiles::V1 { cpu, .. } => (
                read(cpu, "cpu.cfs_quota_us")?,
                read(cpu, "cpu.cfs_period_us")?,
            ),
            CpuFiles::V2(group) => {
                let text = read(group, "cpu.max")?;
                let (quota, period) = text.trim().split_once(' ')?;
                (quota.to_owned(), period.to_owned())
            }
        };
        // No quota is -1 in version 1 and "max" in version 2: neither is a number here.
        let quota: u64 = quota.trim().parse().ok()?;
        let period: u64 = period.trim().parse().ok()?;
        (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
    }

    fn used(&self, at: Duration) -> CpuUse {
        let (stat, used) = match self {
            CpuFiles::V1 { cpu, cpuacct } => {
                let usage = read(cpuacct, "cpuacct.usage");
                let ns = usage.and_then(|text| text.trim().parse().ok());
                (read(cpu, "cpu.stat"), ns.map(Duration::from_nanos))
            }
            CpuFiles::V2(group) => {
                let stat = read(group, "cpu.stat");
                let us = stat.as_ref().and_then(|stat| value_of(stat, "usage_usec"));
                (stat, us.map(Duration::from_micros))
            }
        };
        let stat = stat.unwrap_or_default();
        CpuUse {
            at,
            used,
            periods: value_of(&stat, "nr_periods"),
            throttled: value_of(&stat, "nr_throttled"),
        }
    }
}

impl CpuUse {
    /// Use since `before` by what `cores` processors could have done.
    fn share_of(&self, cores: f64, before: CpuUse) -> Option<f64> {
        let span = self
            .at
            .checked_sub(before.at)
            .filter(|span| !span.is_zero())?;
        let used = self.used?.checked_sub(before.used?)?;
        Some((used.as_secs_f64() / (span.as_secs_f64() * cores)).min(1.0))
    }

    fn throttled_since(&self, before: CpuUse) -> Option<f64> {
        let periods = self.periods?.checked_sub(before.periods?)?;
        let throttled = self.throttled?.checked_sub(before.throttled?)?;
        match periods {
            // Nobody ran: nobody was held up.
            0 => Some(0.0),
            _ => Some((throttled as f64 / periods as f64).min(1.0)),
        }
    }
}

impl MemoryLevel {
    fn figures(&self) -> Option<MemoryFigures> {
        let (group, used, limit, inactive) = match self {
            MemoryLevel::V1(group) => (
                group,
                "memory.usage_in_bytes",
                "memory.limit_in_bytes",
                "total_inactive_file",
            ),
            MemoryLevel::V2(group) => (group, "memory.current", "memory.max", "inactive_file"),
        };
        let number = |file| read(group, file)?.trim().parse::<u64>().ok();
        let limit_bytes = number(limit).filter(|limit| *limit > 0)?;
        let inactive = read(group, "memory.stat").and_then(|stat| value_of(&stat, inactive));
        Some(MemoryFigures {
            used_bytes: number(used)?.saturating_sub(inactive.unwrap_or_default()),
            limit_bytes,
        })
    }
}

impl MemoryFigures {
    fn share(&self) -> f64 {
        self.used_bytes as f64 / self.limit_bytes as f64
    }
}

/// One line of mountinfo that mounts a hierarchy.
struct Mount {
    /// The group that is mounted.
    root: PathBuf,
    /// Where.
    point: PathBuf,
    /// Controllers of version 1; `None`: version 2.
    controllers: Option<Vec<String>>,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        let mut system = system.split(' ');
        let controllers = match system.next()? {
            "cgroup" => Some(system.nth(1)?.split(',').map(str::to_owned).collect()),
            "cgroup2" => None,
            _ => return None,
        };
        Some(Mount {
            root: unescaped(root),
            point: unescaped(point),
            controllers,
        })
    }

    fn holds(&self, controller: Option<&str>) -> bool {
        match (&self.controllers, controller) {
            (None, None) => true,
            (Some(held), Some(wanted)) => held.iter().any(|name| name == wanted),
            _ => false,
        }
    }

    /// The folders from the group `path` out to the mount, as far as they can be
    /// seen from here.
    fn levels(&self, root: &Path, path: &str) -> Vec<PathBuf> {
        let inner = Path::new(path)
            .strip_prefix(&self.root)
            .unwrap_or(Path::new(""));
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        let inner = match inner.components().all(is_plain) {
            true => inner,
            // A group outside of the container's own name space.
            false => Path::new(""),
        };
        let point = root.join(self.point.strip_prefix("/").unwrap_or(&self.point));
        let levels = inner.ancestors().map(|level| point.join(level));
        levels.filter(|level| level.is_dir()).collect()
    }
}

/// The group that `/proc/self/cgroup` names for a controller of version 1, or
/// for version 2.
fn group_of<'t>(cgroup: &'t str, controller: Option<&str>) -> Option<&'t str> {
    cgroup.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let is_it = match controller {
            Some(wanted) => controllers.split(',').any(|name| name == wanted),
            None => controllers.is_empty() && line.starts_with("0:"),
        };
        is_it.then_some(path)
    })
}

/// Mountinfo writes blanks and the like as `\040`.
fn unescaped(text: &str) -> PathBuf {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part
            .get(..3)
            .and_then(|code| u8::from_str_radix(code, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(part.get(3..).unwrap_or_default());
            }
            None => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    PathBuf::from(plain)
}

fn read(group: &Path, file: &str) -> Option<String> {
    fs::read_to_string(group.join(file)).ok()
}

fn most(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    [a, b].into_iter().flatten().reduce(f64::max)
}

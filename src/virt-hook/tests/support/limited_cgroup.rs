//! A cgroup with limits, below that of this process: version 1 or 2, whichever the machine has.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use tokio::process::Command;

const CGROUP_ROOT: &str = "/sys/fs/cgroup";
const CPU_PERIOD: u64 = 100_000;

/// A cgroup that is removed on drop; its processes must have ended.
pub struct LimitedCgroup {
    memory: PathBuf,
    /// The same directory as `memory` with version 2.
    cpu: PathBuf,
    /// The version of cgroups: 1 or 2.
    pub version: u8,
}

impl LimitedCgroup {
    /// The error is `Unsupported` if this machine has no cgroup in which groups can be created.
    pub fn new(memory: u64, cpu_percent: u64) -> io::Result<Self> {
        let quota = CPU_PERIOD / 100 * cpu_percent;
        Self::version_1(memory, quota).or_else(|first| {
            Self::version_2(memory, quota).map_err(|second| {
                let kind = match is_unsupported(&first) && is_unsupported(&second) {
                    true => io::ErrorKind::Unsupported,
                    false => io::ErrorKind::Other,
                };
                let reason = format!("cgroup v1: {first}; cgroup v2: {second}");
                io::Error::new(kind, reason)
            })
        })
    }

    fn version_1(memory: u64, quota: u64) -> io::Result<Self> {
        let memory_group = create_group(&own_cgroup("memory")?)?;
        // The group is complete from here on, so that an error removes what was created.
        let mut group = Self {
            cpu: memory_group.clone(),
            memory: memory_group,
            version: 1,
        };
        group.cpu = create_group(&own_cgroup("cpu")?)?;
        write(&group.memory, "memory.limit_in_bytes", memory)?;
        write(&group.cpu, "cpu.cfs_period_us", CPU_PERIOD)?;
        write(&group.cpu, "cpu.cfs_quota_us", quota)?;
        Ok(group)
    }

    /// A group with processes cannot enable controllers for child groups, but the root group can.
    fn version_2(memory: u64, quota: u64) -> io::Result<Self> {
        let directory =
            create_group(&own_cgroup("").or_else(|_| Ok::<_, io::Error>(CGROUP_ROOT.into()))?)
                .or_else(|_| create_group(Path::new(CGROUP_ROOT)))?;
        let group = Self {
            memory: directory.clone(),
            cpu: directory,
            version: 2,
        };
        write(&group.memory, "memory.max", memory)?;
        write(&group.cpu, "cpu.max", format!("{quota} {CPU_PERIOD}"))?;
        Ok(group)
    }

    /// A command that runs a program in the group from its first instruction on.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        let script = "echo $$ > \"$1\" && echo $$ > \"$2\" && shift 2 && exec \"$@\"";
        command.args(["-c", script, "sh"]);
        command.arg(self.memory.join("cgroup.procs"));
        command.arg(self.cpu.join("cgroup.procs")).arg(program);
        command
    }

    /// The peak of the memory in use, in bytes.
    pub fn peak(&self) -> String {
        let read = |file| fs::read_to_string(self.memory.join(file));
        let peak = read("memory.max_usage_in_bytes").or_else(|_| read("memory.peak"));
        peak.unwrap_or_else(|_| "unknown".into()).trim().to_owned()
    }

    /// Number of processes that the kernel killed for lack of memory.
    pub fn oom_kills(&self) -> u64 {
        let read = |file| fs::read_to_string(self.memory.join(file));
        let events = read("memory.oom_control").or_else(|_| read("memory.events"));
        let events = events.unwrap();
        let killed = events
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "));
        killed.unwrap().parse().unwrap()
    }
}

impl Drop for LimitedCgroup {
    fn drop(&mut self) {
        for directory in [&self.memory, &self.cpu] {
            // A process that has just ended stays in the cgroup for a moment.
            for _ in 0..100 {
                match fs::remove_dir(directory) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        thread::sleep(Duration::from_millis(10));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// Whether the reason is a missing controller or permission.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotFound
            | io::ErrorKind::ReadOnlyFilesystem
    )
}

/// The group of this process in a hierarchy.
fn own_cgroup(controller: &str) -> io::Result<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let line = groups
        .lines()
        .map(|line| line.splitn(3, ':').collect::<Vec<_>>());
    let path = line
        .filter(|parts| parts.len() == 3 && parts[1].split(',').any(|name| name == controller))
        .map(|parts| parts[2].trim_start_matches('/').to_owned())
        .next();
    let path = path.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("no {controller} hierarchy"),
        )
    })?;
    Ok(Path::new(CGROUP_ROOT).join(controller).join(path))
}

fn create_group(parent: &Path) -> io::Result<PathBuf> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let directory = parent.join(format!("virt-hook-test-{}-{serial}", std::process::id()));
    fs::create_dir(&directory).map_err(|error| {
        io::Error::new(error.kind(), format!("{}: {error}", directory.display()))
    })?;
    Ok(directory)
}

/// Writes a file of the group. The file is not created: without its controller it does not exist.
fn write(directory: &Path, file: &str, value: impl ToString) -> io::Result<()> {
    let path = directory.join(file);
    let opened = fs::OpenOptions::new().write(true).open(&path);
    opened
        .and_then(|mut file| file.write_all(value.to_string().as_bytes()))
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

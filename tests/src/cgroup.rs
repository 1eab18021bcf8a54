//! A cgroup of this machine for the processes of one test, of cgroup v1 or v2.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::pod::Process;

/// How long the kernel may take to let go of ended processes.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(10);
const REMOVAL_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What a cgroup controls.
#[derive(Clone, Copy, Debug)]
pub enum Controller {
    /// Limits memory.
    Memory,
    /// Stops processes; not even SIGKILL ends them until they are thawed.
    Freezer,
}

/// A cgroup. Dropping it thaws and removes it.
pub struct Cgroup {
    directory: PathBuf,
    /// Where a container finds its cgroup.
    in_container: PathBuf,
    is_v2: bool,
}

impl Cgroup {
    /// A new cgroup for a test. `None` if this machine does not let this process make one.
    pub fn create(controller: Controller, test: &str) -> Option<Cgroup> {
        let name = format!("test-{}-{test}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let is_v2 = root.join("cgroup.controllers").exists();
        let in_container = match (is_v2, controller) {
            (true, _) => root.to_owned(),
            (false, Controller::Memory) => root.join("memory"),
            (false, Controller::Freezer) => root.join("freezer"),
        };
        let cgroup = Cgroup {
            directory: in_container.join(name),
            in_container,
            is_v2,
        };
        fs::create_dir(&cgroup.directory).ok()?;
        let file = cgroup.file(match controller {
            Controller::Memory => ["memory.limit_in_bytes", "memory.max"],
            Controller::Freezer => ["freezer.state", "cgroup.freeze"],
        });
        file.exists().then_some(cgroup)
    }

    /// The cgroup's directory on this machine.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where a container runtime mounts this directory in the container.
    pub fn in_container(&self) -> &Path {
        &self.in_container
    }

    /// Moves a process into the cgroup.
    pub fn add(&self, process: &Process) -> Result<()> {
        let pid = process.pid.as_raw_nonzero().to_string();
        self.write(["cgroup.procs", "cgroup.procs"], &pid)
    }

    /// Limits the memory that processes of the cgroup take from now on.
    pub fn limit_memory(&self, bytes: u64) -> Result<()> {
        let limit = bytes.to_string();
        self.write(["memory.limit_in_bytes", "memory.max"], &limit)
    }

    /// Stops all processes of the cgroup.
    pub fn freeze(&self) -> Result<()> {
        let value = if self.is_v2 { "1" } else { "FROZEN" };
        self.write(["freezer.state", "cgroup.freeze"], value)
    }

    /// Lets all processes of the cgroup go on.
    pub fn thaw(&self) -> Result<()> {
        let value = if self.is_v2 { "0" } else { "THAWED" };
        self.write(["freezer.state", "cgroup.freeze"], value)
    }

    fn file(&self, [v1, v2]: [&str; 2]) -> PathBuf {
        self.directory.join(if self.is_v2 { v2 } else { v1 })
    }

    fn write(&self, names: [&str; 2], value: &str) -> Result<()> {
        let file = self.file(names);
        fs::write(&file, value).with_context(|| format!("{value} to {}", file.display()))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = self.thaw();
        let deadline = Instant::now() + REMOVAL_TIMEOUT;
        while let Err(error) = fs::remove_dir(&self.directory) {
            if error.kind() == io::ErrorKind::NotFound || Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(REMOVAL_POLL_INTERVAL);
        }
    }
}

//! The process that runs one of libvirt's tools, with less than the user may do, and ends whatever the tool leaves behind.
//!
//! Domains of a stranger's VMI and of a stranger's module pass through these tools. So the process, which is this program
//! again, gives up what they do not need before it starts one: it limits memory, processor time and the size of files, and
//! by Landlock it can write only to a private directory, run only the system's programs, and make no TCP connection. What
//! the kernel's Landlock cannot do is left out, and [`missing_restrictions`] tells it; if Landlock fails, no tool is started.
//! libvirt starts QEMU as a daemon, which leaves the process group: as a subreaper the process finds it nevertheless.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, getppid,
    kill_process, set_child_subreaper, setrlimit, setsid, wait, waitid,
};

/// The first argument of the process.
pub(super) const RUN_TOOL_ARG: &str = "run-confined-tool";
/// The exit codes of the process that are not the tool's, which has none of them. The reasons of [`NOT_CONFINED`] and
/// [`NOT_STARTED`] are on standard error.
///
/// The process could not be confined, and the tool was not started.
pub(super) const NOT_CONFINED: u8 = 123;
/// The tool took too long, as with `timeout`.
pub(super) const TIMED_OUT: u8 = 124;
/// The tool was killed by a signal, or what it left behind does not end.
pub(super) const KILLED: u8 = 125;
/// The tool could not be started, as in a shell.
pub(super) const NOT_STARTED: u8 = 126;
/// Deadline of a tool. At the first call libvirt queries QEMU's capabilities, which takes seconds.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);
/// How long it takes at most to end what a tool left behind.
pub(super) const CLEANUP_DEADLINE: Duration = Duration::from_secs(5);
/// The interval at which children are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The directory with this process's threads.
const THREADS: &str = "/proc/self/task";

/// Most address space of a tool, and of each process that it starts, in bytes. QEMU, of which libvirt queries the
/// capabilities, reserves 1 GiB for translated code.
const MAX_ADDRESS_SPACE: u64 = 4 << 30;
/// Largest file that a tool may write, in bytes.
const MAX_FILE: u64 = 64 << 20;
/// Processor time of a tool, and of each process that it starts, in seconds.
const MAX_CPU_SECONDS: u64 = 60;

/// Where programs and libraries are.
const PROGRAM_DIRECTORIES: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
];
/// What programs read besides.
const READ_DIRECTORIES: [&str; 3] = ["/etc", "/proc", "/sys"];
/// Devices that programs use. QEMU reports other capabilities without `/dev/kvm`.
const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/kvm",
];

/// A tool and what it may do.
#[derive(Debug)]
pub(super) struct ConfinedTool {
    /// The program's absolute path.
    pub(super) program: PathBuf,
    /// The directory with the tool's input, which is its current directory; it can read all in it.
    pub(super) input_dir: PathBuf,
    /// The only directory that the tool can write to: its home.
    pub(super) private_dir: PathBuf,
    /// The user and group that the tool runs as, if that is another.
    pub(super) uid: Option<u32>,
    /// The tool's arguments.
    pub(super) arguments: Vec<OsString>,
}

impl ConfinedTool {
    /// The arguments of the process.
    pub(super) fn encode(self) -> Vec<OsString> {
        let uid = self.uid.map(|uid| uid.to_string()).unwrap_or_default();
        let head = [
            RUN_TOOL_ARG.into(),
            uid.into(),
            self.input_dir.into(),
            self.private_dir.into(),
            self.program.into(),
        ];
        head.into_iter().chain(self.arguments).collect()
    }

    fn decode(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let uid = arguments.next()?;
        Some(Self {
            uid: match uid.is_empty() {
                true => None,
                false => Some(uid.to_str()?.parse().ok()?),
            },
            input_dir: arguments.next()?.into(),
            private_dir: arguments.next()?.into(),
            program: arguments.next()?.into(),
            arguments: arguments.collect(),
        })
    }

    /// Confines this process, and runs the tool in it. Returns the tool's exit code.
    fn run(&self) -> Result<u8, RunError> {
        // A process of its own session gets no signals of the terminal, and ends with its parent.
        let parent = getppid();
        setsid().map_err(RunError::not_confined)?;
        set_child_subreaper(Some(getpid())).map_err(RunError::not_confined)?;
        limit_resources().map_err(RunError::not_confined)?;
        self.restrict().map_err(RunError::not_confined)?;
        // What the tool leaves behind has to be found.
        children().map_err(RunError::not_confined)?;
        let tool = self.start().map_err(RunError::Start)?;
        self.wait(tool, parent).map_err(RunError::End)
    }

    fn start(&self) -> io::Result<Pid> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null());
        command.current_dir(&self.input_dir);
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        let tool = command.spawn()?;
        let pid = i32::try_from(tool.id()).ok().and_then(Pid::from_raw);
        Ok(pid.ok_or(io::ErrorKind::InvalidData)?)
    }

    /// Waits for the tool, unless this process's parent ends first, and ends what the tool leaves behind.
    fn wait(&self, pid: Pid, parent: Option<Pid>) -> io::Result<u8> {
        let deadline = Instant::now() + DEADLINE;
        let code = loop {
            // The tool is not reaped: no other process gets its number.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            if let Some(status) = waitid(WaitId::Pid(pid), options)? {
                let code = status
                    .exit_status()
                    .and_then(|code| u8::try_from(code).ok());
                break code.unwrap_or(KILLED);
            }
            if Instant::now() >= deadline || getppid() != parent {
                break TIMED_OUT;
            }
            reap_orphans(pid)?;
            thread::sleep(POLL_INTERVAL);
        };
        end_descendants()?;
        Ok(code)
    }

    fn restrict(&self) -> Result<(), RulesetError> {
        let all = AccessFs::from_all(ABI::V6);
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        Ruleset::default()
            .handle_access(all)?
            .handle_access(AccessNet::from_all(ABI::V6))?
            .scope(Scope::from_all(ABI::V6))?
            .create()?
            .add_rules(path_beneath_rules(
                PROGRAM_DIRECTORIES,
                read | AccessFs::Execute,
            ))?
            .add_rules(path_beneath_rules(
                [&self.program],
                read | AccessFs::Execute,
            ))?
            .add_rules(path_beneath_rules(READ_DIRECTORIES, read))?
            .add_rules(path_beneath_rules(DEVICES, device))?
            .add_rules(path_beneath_rules([&self.input_dir], read))?
            .add_rules(path_beneath_rules(
                [&self.private_dir],
                all & !AccessFs::Execute,
            ))?
            .restrict_self()?;
        Ok(())
    }
}

/// Why there is no exit code of the tool.
#[derive(Debug, thiserror::Error)]
enum RunError {
    /// This process is not confined, and did not start the tool.
    #[error("{0}")]
    Confinement(String),
    /// The tool could not be started.
    #[error("{0}")]
    Start(io::Error),
    /// The tool, or what it left behind, does not end.
    #[error("{0}")]
    End(io::Error),
}

impl RunError {
    fn not_confined(error: impl ToString) -> Self {
        Self::Confinement(error.to_string())
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Confinement(_) => NOT_CONFINED,
            Self::Start(_) => NOT_STARTED,
            Self::End(_) => KILLED,
        }
    }
}

/// What the kernel's Landlock does not keep the tools from. None of it without Landlock is kept from them.
pub(super) fn missing_restrictions() -> Vec<&'static str> {
    let ruleset = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let has_access = |access| {
        ruleset()
            .handle_access(access)
            .and_then(Ruleset::create)
            .is_ok()
    };
    let tcp = ruleset().handle_access(AccessNet::from_all(ABI::V4));
    let scope = ruleset().scope(Scope::from_all(ABI::V6));
    let restrictions = [
        (
            "read, write and run any file",
            has_access(AccessFs::Execute),
        ),
        ("empty files by their path", has_access(AccessFs::Truncate)),
        (
            "make TCP connections",
            tcp.and_then(Ruleset::create).is_ok(),
        ),
        ("control devices", has_access(AccessFs::IoctlDev)),
        (
            "signal other processes and connect to abstract UNIX sockets",
            scope.and_then(Ruleset::create).is_ok(),
        ),
    ];
    let missing = restrictions.into_iter().filter(|(_, exists)| !exists);
    missing.map(|(what, _)| what).collect()
}

/// Runs a tool if this process was started with [`RUN_TOOL_ARG`], and returns the exit code; `None` in any other process.
pub(crate) fn confined_tool() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != RUN_TOOL_ARG {
        return None;
    }
    let Some(tool) = ConfinedTool::decode(arguments) else {
        return Some(ExitCode::from(NOT_STARTED));
    };
    let code = tool.run().unwrap_or_else(|error| {
        // The parent reads it, unless it has ended.
        let _ = writeln!(io::stderr(), "{error}");
        error.exit_code()
    });
    Some(ExitCode::from(code))
}

fn limit_resources() -> rustix::io::Result<()> {
    for (resource, limit) in [
        (Resource::As, MAX_ADDRESS_SPACE),
        (Resource::Fsize, MAX_FILE),
        (Resource::Cpu, MAX_CPU_SECONDS),
        (Resource::Core, 0),
    ] {
        let limit = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        setrlimit(resource, limit)?;
    }
    Ok(())
}

/// Reaps the processes whose parent has ended, and which have ended too. libvirt kills a QEMU that it has asked for its
/// capabilities, and waits for seconds if nobody reaps it.
fn reap_orphans(tool: Pid) -> io::Result<()> {
    for child in children()?.into_iter().filter(|child| *child != tool) {
        waitid(
            WaitId::Pid(child),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
        )?;
    }
    Ok(())
}

/// Kills and reaps all processes that descend from this one. Those whose parent has ended are children of this process,
/// because it is their subreaper.
fn end_descendants() -> io::Result<()> {
    let deadline = Instant::now() + CLEANUP_DEADLINE;
    loop {
        for child in children()? {
            // A child that has just ended is reaped below.
            let _ = kill_process(child, Signal::KILL);
        }
        match wait(WaitOptions::NOHANG) {
            Err(rustix::io::Errno::CHILD) => return Ok(()),
            Err(error) => return Err(error.into()),
            Ok(Some(_)) => {}
            Ok(None) if Instant::now() >= deadline => return Err(io::ErrorKind::TimedOut.into()),
            Ok(None) => thread::sleep(POLL_INTERVAL),
        }
    }
}

/// The children of this process: those that each of its threads has started or inherited.
fn children() -> io::Result<Vec<Pid>> {
    let mut pids = Vec::new();
    for thread in fs::read_dir(THREADS)? {
        let path = thread?.path().join("children");
        let children = fs::read_to_string(&path);
        let children = children.map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        let numbers = children.split_ascii_whitespace();
        pids.extend(numbers.filter_map(|number| Pid::from_raw(number.parse().ok()?)));
    }
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_decoded_as_they_were_encoded() {
        for uid in [None, Some(65534)] {
            let tool = ConfinedTool {
                program: "/usr/bin/virsh".into(),
                input_dir: "/tmp/a b".into(),
                private_dir: "/tmp/a b/root".into(),
                uid,
                arguments: vec!["".into(), "--version".into()],
            };
            let text = format!("{tool:?}");
            let decoded = ConfinedTool::decode(tool.encode().into_iter().skip(1));
            assert_eq!(decoded.map(|tool| format!("{tool:?}")), Some(text));
        }
        assert!(ConfinedTool::decode(std::iter::empty()).is_none());
        let invalid = ["nobody", "/", "/", "/bin/true"].map(OsString::from);
        assert!(ConfinedTool::decode(invalid.into_iter()).is_none());
    }

    #[test]
    fn children_of_this_process_are_found() {
        let Ok(mut child) = Command::new("sleep").arg("60").spawn() else {
            panic!("sleep does not start");
        };
        let found = children().unwrap_or_default();
        let is_found = found
            .iter()
            .any(|pid| u32::try_from(pid.as_raw_nonzero().get()) == Ok(child.id()));
        let _ = child.kill();
        let _ = child.wait();
        assert!(is_found);
    }
}

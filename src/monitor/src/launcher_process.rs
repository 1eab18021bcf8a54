//! The child process virt-launcher: starts and ends it.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities,
};

use crate::{json_log_lines, signal_wait};

const PROGRAM: &str = "virt-launcher";

/// virt-launcher's exit code when another virt-launcher uses its directories.
pub(crate) const DIRECTORIES_IN_USE: u8 = 75;

/// The running virt-launcher. [`crate::child_processes`] reaps it with all other children.
pub(crate) struct Launcher {
    pid: Pid,
}

impl Launcher {
    /// Starts virt-launcher: the program in the monitor's own directory, otherwise the one in `PATH`.
    pub(crate) fn start(arguments: &[OsString]) -> io::Result<Self> {
        if let Err(error) = pass_on_net_bind_service() {
            json_log_lines::error(&format!(
                "passing CAP_NET_BIND_SERVICE on: {error}; virt-launcher will not serve DHCP to the guest"
            ));
        }
        let program = program();
        let with_path = |error| io::Error::other(format!("{}: {error}", program.display()));
        let mut command = Command::new(&program);
        command.args(arguments).stdin(Stdio::null());
        let child = signal_wait::with_blocked(|| command.spawn()).map_err(with_path)?;
        let pid = Pid::from_raw(child.id().cast_signed())
            .ok_or_else(|| io::Error::other("its pid is 0"))?;
        Ok(Self { pid })
    }

    /// The process id.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends SIGTERM, also if the monitor received another termination signal: virt-launcher treats them alike.
    pub(crate) fn terminate(&self) -> io::Result<()> {
        Ok(kill_process(self.pid, Signal::TERM)?)
    }
}

fn program() -> PathBuf {
    let sibling = env::current_exe()
        .ok()
        .map(|monitor| monitor.with_file_name(PROGRAM));
    sibling
        .filter(|path| path.is_file())
        .unwrap_or_else(|| PROGRAM.into())
}

/// Puts CAP_NET_BIND_SERVICE into the ambient set, so that a child that is not root keeps it over exec. It must be
/// inheritable for this.
fn pass_on_net_bind_service() -> io::Result<()> {
    let capability = CapabilitySet::NET_BIND_SERVICE;
    let mut sets = capabilities(None)?;
    sets.inheritable |= capability;
    set_capabilities(None, sets)?;
    Ok(configure_capability_in_ambient_set(capability, true)?)
}

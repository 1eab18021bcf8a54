//! The child that everything is about.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities,
};

use crate::log;

const PROGRAM: &str = "virt-launcher";

/// virt-launcher, running. It is reaped with all other children, by [`crate::process`].
pub(crate) struct Launcher {
    pid: Pid,
}

impl Launcher {
    /// Starts virt-launcher: the one beside this program, else the one in PATH.
    pub(crate) fn start(arguments: &[OsString]) -> io::Result<Self> {
        if let Err(error) = let_bind_service() {
            log::error(&format!(
                "passing CAP_NET_BIND_SERVICE on: {error}; virt-launcher will not serve DHCP to the guest"
            ));
        }
        let program = program();
        let named = |error| io::Error::other(format!("{}: {error}", program.display()));
        let child = Command::new(&program)
            .args(arguments)
            .stdin(Stdio::null())
            .spawn()
            .map_err(named)?;
        let pid = Pid::from_raw(child.id().cast_signed())
            .ok_or_else(|| io::Error::other("its pid is 0"))?;
        Ok(Self { pid })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Asks it to end, whichever signal the monitor got: they all mean the same to it.
    pub(crate) fn ask_to_end(&self) -> io::Result<()> {
        Ok(kill_process(self.pid, Signal::TERM)?)
    }
}

fn program() -> PathBuf {
    let beside = env::current_exe()
        .ok()
        .map(|own| own.with_file_name(PROGRAM));
    beside
        .filter(|path| path.is_file())
        .unwrap_or_else(|| PROGRAM.into())
}

/// An ambient capability survives the execution of a program by whoever is not root. It has to be
/// inheritable first.
fn let_bind_service() -> io::Result<()> {
    let capability = CapabilitySet::NET_BIND_SERVICE;
    let mut sets = capabilities(None)?;
    sets.inheritable |= capability;
    set_capabilities(None, sets)?;
    Ok(configure_capability_in_ambient_set(capability, true)?)
}

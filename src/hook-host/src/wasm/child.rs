//! The compile child's own side: one module in, one artifact out, within limits.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::COMPILE_ARG;
use super::artifact::hex;
use super::engine::{Machine, Role, engine};

/// What a child may use, handed over as arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowance {
    /// Bytes of memory.
    pub(super) memory: u64,
    /// Seconds of processor time, of all threads together.
    pub(super) seconds: u64,
    /// Bytes of the module.
    pub(super) module: u64,
    /// For which machines it compiles.
    pub(super) machine: Machine,
}

/// What a child says when it is done, on its standard error.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Report {
    /// It is done.
    Compiled {
        /// The sha256 of what it compiled.
        digest: String,
        /// The most memory that it had at a time, in bytes, where the system tells.
        peak_memory: Option<u64>,
    },
    /// Why it did not.
    Refused(String),
}

/// Compiles one module if this process was started to do so, and says how it ended; `None` in any
/// other process. Must come first in the main of every program that is its own compiler.
#[must_use]
pub fn compile_child() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != COMPILE_ARG {
        return None;
    }
    let report = match work(arguments) {
        Ok(digest) => Report::Compiled {
            digest,
            peak_memory: peak_memory(),
        },
        Err(error) => Report::Refused(error),
    };
    let done = matches!(report, Report::Compiled { .. });
    let text = serde_json::to_string(&report).unwrap_or_default();
    let told = writeln!(io::stderr(), "{text}").is_ok();
    Some(if done && told {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn work(arguments: impl Iterator<Item = OsString>) -> Result<String, String> {
    let allowance = Allowance::decode(arguments)
        .ok_or_else(|| "compiling is not a command for people: wrong arguments".to_owned())?;
    confine(allowance).map_err(|error| format!("its limits could not be set: {error}"))?;
    let module =
        read(allowance.module).map_err(|error| format!("it could not be read: {error}"))?;
    let artifact = compile(&module, allowance.machine)?;
    io::stdout()
        .write_all(&artifact)
        .and_then(|()| io::stdout().flush())
        .map_err(|error| format!("its code could not be written: {error}"))?;
    Ok(hex(&Sha256::digest(&module)))
}

/// Compiles a module to machine code; the error is what the compiler says.
pub(super) fn compile(module: &[u8], machine: Machine) -> Result<Vec<u8>, String> {
    let engine = engine(Role::Compile(machine)).map_err(|error| format!("{error:#}"))?;
    engine
        .precompile_component(module)
        .map_err(|error| format!("{error:#}"))
}

fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

fn read(limit: u64) -> io::Result<Vec<u8>> {
    let mut module = Vec::new();
    io::stdin()
        .lock()
        .take(limit.saturating_add(1))
        .read_to_end(&mut module)?;
    if module.len() as u64 > limit {
        return Err(io::Error::other(format!("it has more than {limit} bytes")));
    }
    Ok(module)
}

/// Limits on data rather than on addresses: threads reserve far more than they use.
fn confine(allowance: Allowance) -> rustix::io::Result<()> {
    let at_most = |limit| Rlimit {
        current: Some(limit),
        maximum: Some(limit),
    };
    setrlimit(Resource::Data, at_most(allowance.memory))?;
    // The second one is for the signal that says why, before the one that cannot be caught.
    setrlimit(
        Resource::Cpu,
        Rlimit {
            current: Some(allowance.seconds),
            maximum: Some(allowance.seconds.saturating_add(1)),
        },
    )?;
    setrlimit(Resource::Core, at_most(0))?;
    rustix::thread::set_no_new_privs(true)?;
    // Kernels without ambient capabilities have none to give up.
    let _ = rustix::thread::clear_ambient_capability_set();
    Ok(())
}

impl Allowance {
    pub(super) fn encode(self) -> [String; 4] {
        let portable = u64::from(self.machine == Machine::Any);
        [self.memory, self.seconds, self.module, portable].map(|number| number.to_string())
    }

    fn decode(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut next = || arguments.next()?.to_str()?.parse::<u64>().ok();
        Some(Self {
            memory: next()?,
            seconds: next()?,
            module: next()?,
            machine: match next()? {
                0 => Machine::This,
                _ => Machine::Any,
            },
        })
    }
}

//! The compile child: reads one module from stdin and writes its artifact to stdout, within limits.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use wasmtime::Engine;

use super::COMPILE_ARG;
use super::compile_child_confinement::{Missing, confine};
use super::engine_config::{EngineRole, TargetMachine, engine, engine_with};
use super::function_code_cache::{FunctionCodes, FunctionFiles};

/// The limits of a compile child, passed as command-line arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChildLimits {
    /// Memory in bytes.
    pub(super) memory: u64,
    /// Processor time of all threads together, in seconds.
    pub(super) seconds: u64,
    /// Size of the module in bytes.
    pub(super) module: u64,
    /// The machines that the code is for.
    pub(super) machine: TargetMachine,
}

/// The result that the child writes to its standard error as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ChildReport {
    /// The artifact was written.
    Compiled {
        /// Peak memory of the child in bytes, if the system reports it.
        peak_memory: Option<u64>,
        /// The number of functions whose code was known and not compiled.
        reused_functions: usize,
        /// What the kernel lacks to confine the child.
        unconfined: Missing,
    },
    /// Why there is no artifact.
    Refused(String),
    /// The module was compiled, and why its artifact could not be written.
    NotWritten(String),
}

/// Compiles one module if this process was started with [`COMPILE_ARG`] and returns its exit code;
/// `None` in any other process. A program that is its own compiler calls this first in `main`.
#[must_use]
pub fn compile_child() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != COMPILE_ARG {
        return None;
    }
    let report = match run(arguments) {
        Ok(report) => report,
        Err(error) => ChildReport::Refused(error),
    };
    let done = matches!(report, ChildReport::Compiled { .. });
    let text = serde_json::to_string(&report).unwrap_or_default();
    let is_written = writeln!(io::stderr(), "{text}").is_ok();
    Some(if done && is_written {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run(mut arguments: impl Iterator<Item = OsString>) -> Result<ChildReport, String> {
    let limits = ChildLimits::decode(&mut arguments)
        .ok_or_else(|| "compiling is not a command for people: wrong arguments".to_owned())?;
    apply_limits(limits).map_err(|error| format!("its limits could not be set: {error}"))?;
    // Nothing can be opened later.
    let status = File::open("/proc/self/status").ok();
    let functions = FunctionFiles::decode(arguments).and_then(|files| files.open().ok());
    let unconfined = confine();
    let module = read(limits.module).map_err(|error| format!("it could not be read: {error}"))?;
    let codes = functions.as_ref().map(|files| Arc::new(files.read()));
    let artifact = match &codes {
        Some(codes) => compile_with(Arc::clone(codes), &module, limits.machine)?,
        None => compile(&module, limits.machine)?,
    };
    let written = io::stdout().write_all(&artifact);
    if let Err(error) = written.and_then(|()| io::stdout().flush()) {
        return Ok(ChildReport::NotWritten(error.to_string()));
    }
    if let (Some(files), Some(codes)) = (&functions, &codes) {
        files.write(codes);
    }
    Ok(ChildReport::Compiled {
        peak_memory: status.and_then(peak_memory),
        reused_functions: codes.map_or(0, |codes| codes.reused()),
        unconfined,
    })
}

/// Compiles a module to machine code. The error is the compiler's message.
pub(super) fn compile(module: &[u8], machine: TargetMachine) -> Result<Vec<u8>, String> {
    precompile(engine(EngineRole::Compile(machine)), module)
}

/// The same, with the code of functions that are known.
fn compile_with(
    codes: Arc<FunctionCodes>,
    module: &[u8],
    machine: TargetMachine,
) -> Result<Vec<u8>, String> {
    precompile(engine_with(codes, machine), module)
}

fn precompile(engine: wasmtime::Result<Engine>, module: &[u8]) -> Result<Vec<u8>, String> {
    let compiled = engine.and_then(|engine| engine.precompile_component(module));
    compiled.map_err(|error| format!("{error:#}"))
}

fn peak_memory(mut file: File) -> Option<u64> {
    let mut status = String::new();
    file.read_to_string(&mut status).ok()?;
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

/// Limits the data segment rather than the address space: threads reserve far more than they use.
fn apply_limits(limits: ChildLimits) -> rustix::io::Result<()> {
    let at_most = |limit| Rlimit {
        current: Some(limit),
        maximum: Some(limit),
    };
    setrlimit(Resource::Data, at_most(limits.memory))?;
    // The soft limit raises SIGXCPU, which tells the reason; SIGKILL follows one second later.
    setrlimit(
        Resource::Cpu,
        Rlimit {
            current: Some(limits.seconds),
            maximum: Some(limits.seconds.saturating_add(1)),
        },
    )?;
    setrlimit(Resource::Core, at_most(0))?;
    // The artifact is in memory before it is written.
    setrlimit(Resource::Fsize, at_most(limits.memory))?;
    rustix::thread::set_no_new_privs(true)?;
    // This fails only on kernels without ambient capabilities.
    let _ = rustix::thread::clear_ambient_capability_set();
    Ok(())
}

impl ChildLimits {
    pub(super) fn encode(self) -> [String; 4] {
        let portable = u64::from(self.machine == TargetMachine::Any);
        [self.memory, self.seconds, self.module, portable].map(|number| number.to_string())
    }

    fn decode(arguments: &mut impl Iterator<Item = OsString>) -> Option<Self> {
        let mut next = || arguments.next()?.to_str()?.parse::<u64>().ok();
        Some(Self {
            memory: next()?,
            seconds: next()?,
            module: next()?,
            machine: match next()? {
                0 => TargetMachine::This,
                _ => TargetMachine::Any,
            },
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A module with this many functions, and some data.
    fn module(data: &str, functions: u32) -> Vec<u8> {
        let function = |number| {
            format!("(func (param i32) (result i32) local.get 0 i32.const {number} i32.mul)")
        };
        let functions: String = (0..functions).map(function).collect();
        let module = format!("(memory 1) (data (i32.const 0) \"{data}\") {functions}");
        wat::parse_str(format!("(component (core module {module}))")).unwrap()
    }

    /// What the next compilation knows, and how many functions were known and how many were compiled.
    fn compiled(codes: FunctionCodes, module: &[u8]) -> (FunctionCodes, usize, usize) {
        let codes = Arc::new(codes);
        let artifact = compile_with(Arc::clone(&codes), module, TargetMachine::This).unwrap();
        assert!(artifact == compile(module, TargetMachine::This).unwrap());
        let (known, new) = codes.known_and_new();
        (codes.reread(), known, new)
    }

    /// Cranelift does not name every function alike each time, which costs a compilation of it.
    #[test]
    fn of_another_build_mostly_what_changed_is_compiled() {
        let (codes, known, new) = compiled(FunctionCodes::default(), &module("a", 100));
        assert!(known == 0 && new >= 100, "{known} {new}");
        let (codes, known, new) = compiled(codes, &module("other data", 100));
        assert!(known > new, "{known} {new}");
        let (_, known, new) = compiled(codes, &module("a", 150));
        assert!(known > new && new >= 50, "{known} {new}");
    }
}

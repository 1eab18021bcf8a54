//! The compile child's side: reads one module from stdin and writes its artifact to stdout, within limits.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use wasmtime::Engine;

use super::COMPILE_ARG;
use super::compile_child_confinement::{Confinement, confine};
use super::core_module_memories;
use super::engine_config::{EngineRole, TargetMachine, engine, engine_with_known_functions};
use super::function_code_cache::{FunctionCodes, FunctionFiles};

/// The limits and the target of a compile child, which are passed as command-line arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChildLimits {
    /// Maximum memory in bytes.
    pub(super) memory: u64,
    /// Maximum CPU time of all threads together, in seconds.
    pub(super) cpu_seconds: u64,
    /// Maximum size of the module in bytes.
    pub(super) module: u64,
    /// The machines that the code is compiled for.
    pub(super) machine: TargetMachine,
    /// Whether the child compiles if it cannot be confined.
    pub(super) may_be_unconfined: bool,
}

/// The report that the child writes to its standard error as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ChildReport {
    /// The artifact was written.
    Compiled {
        /// Peak memory of the child in bytes; `None` if the system does not report it.
        peak_memory: Option<u64>,
        /// The number of functions whose code was known from an earlier compilation.
        reused_functions: usize,
        /// What is missing of the confinement, with the reasons.
        missing_confinement: Vec<String>,
    },
    /// Nothing was read or compiled, because the child cannot be confined, for this reason.
    NotConfined(String),
    /// There is no artifact, for this reason.
    Refused(String),
    /// The module was compiled, but its artifact could not be written, for this reason.
    NotWritten(String),
}

/// Compiles one module if this process was started with [`COMPILE_ARG`], and returns the exit code;
/// `None` in any other process. A program that starts itself as compile child calls this first in `main`.
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
    let is_compiled = matches!(report, ChildReport::Compiled { .. });
    let text = serde_json::to_string(&report).unwrap_or_default();
    let is_written = writeln!(io::stderr(), "{text}").is_ok();
    Some(if is_compiled && is_written {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run(mut arguments: impl Iterator<Item = OsString>) -> Result<ChildReport, String> {
    let limits = ChildLimits::decode(&mut arguments)
        .ok_or_else(|| "compiling is not a command for people: wrong arguments".to_owned())?;
    apply_limits(limits).map_err(|error| format!("its limits could not be set: {error}"))?;
    // These files are opened now, because `confine` forbids to open files.
    let status = File::open("/proc/self/status").ok();
    let functions = FunctionFiles::decode(arguments).and_then(|files| files.open().ok());
    let confinement = confine();
    if let Some(reason) = &confinement.missing_seccomp
        && !limits.may_be_unconfined
    {
        return Ok(ChildReport::NotConfined(reason.clone()));
    }
    let module =
        read_module(limits.module).map_err(|error| format!("it could not be read: {error}"))?;
    let codes = functions.as_ref().map(|files| Arc::new(files.read()));
    let artifact = match &codes {
        Some(codes) => compile_with_known_functions(Arc::clone(codes), &module, limits.machine)?,
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
        missing_confinement: missing_confinement(confinement),
    })
}

/// What is missing, as `NAME (REASON)`.
fn missing_confinement(confinement: Confinement) -> Vec<String> {
    let landlock = confinement
        .missing_landlock
        .map(|reason| ("Landlock", reason));
    let seccomp = confinement
        .missing_seccomp
        .map(|reason| ("seccomp", reason));
    let missing = landlock.into_iter().chain(seccomp);
    missing
        .map(|(name, reason)| format!("{name} ({reason})"))
        .collect()
}

/// Compiles a module to machine code. The error is the compiler's message.
pub(super) fn compile(module: &[u8], machine: TargetMachine) -> Result<Vec<u8>, String> {
    precompile(engine(EngineRole::Compile(machine)), module)
}

/// Like [`compile`]; the code of known functions is taken from `codes`.
fn compile_with_known_functions(
    codes: Arc<FunctionCodes>,
    module: &[u8],
    machine: TargetMachine,
) -> Result<Vec<u8>, String> {
    precompile(engine_with_known_functions(codes, machine), module)
}

fn precompile(engine: wasmtime::Result<Engine>, module: &[u8]) -> Result<Vec<u8>, String> {
    core_module_memories::check(module).map_err(|error| error.to_string())?;
    let compiled = engine.and_then(|engine| engine.precompile_component(module));
    compiled.map_err(|error| format!("{error:#}"))
}

/// The peak memory from the open `/proc/self/status`.
fn peak_memory(mut file: File) -> Option<u64> {
    let mut status = String::new();
    file.read_to_string(&mut status).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

fn read_module(limit: u64) -> io::Result<Vec<u8>> {
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

/// Sets resource limits. The data segment is limited rather than the address space, because threads reserve far more
/// address space than they use.
fn apply_limits(limits: ChildLimits) -> rustix::io::Result<()> {
    let at_most = |limit| Rlimit {
        current: Some(limit),
        maximum: Some(limit),
    };
    setrlimit(Resource::Data, at_most(limits.memory))?;
    // The soft limit raises SIGXCPU, which identifies the reason. SIGKILL follows one second later.
    setrlimit(
        Resource::Cpu,
        Rlimit {
            current: Some(limits.cpu_seconds),
            maximum: Some(limits.cpu_seconds.saturating_add(1)),
        },
    )?;
    setrlimit(Resource::Core, at_most(0))?;
    // An artifact larger than the memory limit cannot exist, because it is in memory before it is written.
    setrlimit(Resource::Fsize, at_most(limits.memory))?;
    rustix::thread::set_no_new_privs(true)?;
    // This call fails only on kernels without ambient capabilities.
    let _ = rustix::thread::clear_ambient_capability_set();
    Ok(())
}

impl ChildLimits {
    pub(super) fn encode(self) -> [String; 5] {
        let is_portable = u64::from(self.machine == TargetMachine::Any);
        let may_be_unconfined = u64::from(self.may_be_unconfined);
        [
            self.memory,
            self.cpu_seconds,
            self.module,
            is_portable,
            may_be_unconfined,
        ]
        .map(|number| number.to_string())
    }

    fn decode(arguments: &mut impl Iterator<Item = OsString>) -> Option<Self> {
        let mut next = || arguments.next()?.to_str()?.parse::<u64>().ok();
        Some(Self {
            memory: next()?,
            cpu_seconds: next()?,
            module: next()?,
            machine: match next()? {
                0 => TargetMachine::This,
                _ => TargetMachine::Any,
            },
            may_be_unconfined: next()? == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module with `functions` functions and some data.
    fn module(data: &str, functions: u32) -> Vec<u8> {
        let function = |number| {
            format!("(func (param i32) (result i32) local.get 0 i32.const {number} i32.mul)")
        };
        let functions: String = (0..functions).map(function).collect();
        let module = format!("(memory 1) (data (i32.const 0) \"{data}\") {functions}");
        wat::parse_str(format!("(component (core module {module}))")).unwrap()
    }

    /// Compiles a module. Returns the codes for the next compilation, and the numbers of known and of compiled
    /// functions.
    fn compiled(codes: FunctionCodes, module: &[u8]) -> (FunctionCodes, usize, usize) {
        let codes = Arc::new(codes);
        let artifact =
            compile_with_known_functions(Arc::clone(&codes), module, TargetMachine::This).unwrap();
        assert!(artifact == compile(module, TargetMachine::This).unwrap());
        let (known, new) = codes.known_and_new();
        (codes.reread(), known, new)
    }

    /// Cranelift's key of a function is not always the same, so some unchanged functions are compiled again.
    #[test]
    fn most_unchanged_functions_of_another_build_are_not_compiled() {
        let (codes, known, new) = compiled(FunctionCodes::default(), &module("a", 100));
        assert!(known == 0 && new >= 100, "{known} {new}");
        let (codes, known, new) = compiled(codes, &module("other data", 100));
        assert!(known > new, "{known} {new}");
        let (_, known, new) = compiled(codes, &module("a", 150));
        assert!(known > new && new >= 50, "{known} {new}");
    }
}

//! Compiling modules on a developer's machine: higher limits than in a launcher, because no virtual
//! machine waits, and a progress line on a terminal.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io};

use anyhow::{Context, Error, Result, anyhow, bail};
use hook_host::wasm::{CodeOrigin, CompileError, LoadError, LoadOptions, Module};
use hook_host::{Compiler, Limits};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::compiled_module_cache::{CompileCost, CompiledModuleCache, SmallestSidecarResult};
use crate::hook_limits_from_cgroup::smallest_limits;
use crate::inputs::hint_of_missing;
use crate::output;
use crate::temporary_directory::TemporaryDirectory;
use crate::verb_failure::Failure;

/// Name and version of this program, for hooks that query their host.
pub(crate) const HOST_NAME: &str = concat!("virt-hook/", env!("CARGO_PKG_VERSION"));
/// Limit of wall-clock time that only an endless compilation reaches.
const COMPILE_DEADLINE: Duration = Duration::from_secs(600);
/// Limit of processor time that only an endless compilation reaches.
const COMPILE_PROCESSOR_TIME: Duration = Duration::from_secs(120);
/// The time after which progress is shown, and the interval at which it is updated.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// After longer compilations the user is warned if compiled modules are not kept.
const LONG_COMPILATION: Duration = Duration::from_secs(5);
/// The environment variable that permits to compile without confinement. Options cannot: most verbs compile.
const UNCONFINED_VARIABLE: &str = "VIRT_HOOK_COMPILE_UNCONFINED";
/// What is permitted when compiling without confinement is.
pub(crate) const UNCONFINED_WARNING: &str = "modules are compiled even if the kernel or the container does not let their \
    compiler be confined";

/// The largest module in bytes, as in a launcher.
pub(crate) fn max_module() -> usize {
    Limits::default().module
}

/// A launcher's limits, with more time to compile. The error is about [`UNCONFINED_VARIABLE`].
pub(crate) fn limits() -> Result<Limits, Failure> {
    Ok(Limits {
        compile_unconfined: is_unconfined_permitted(env::var_os(UNCONFINED_VARIABLE))?,
        compile_deadline: COMPILE_DEADLINE,
        compile_cpu_time: COMPILE_PROCESSOR_TIME,
        ..Limits::default()
    })
}

/// As `virt-hook serve` reads the variable, so that one value has one meaning.
fn is_unconfined_permitted(value: Option<OsString>) -> Result<bool, Failure> {
    match value.as_deref().map(OsStr::as_encoded_bytes) {
        None | Some(b"false") => Ok(false),
        Some(b"true") => Ok(true),
        Some(_) => Err(Failure::usage(anyhow!(
            "{UNCONFINED_VARIABLE} is {:?}: it can be true or false",
            value.unwrap_or_default()
        ))),
    }
}

/// Options to load modules. Compiled code is stored in `compiled_dir`, if given.
pub(crate) fn options(compiled_dir: Option<PathBuf>) -> Result<LoadOptions, Failure> {
    let program = env::current_exe().context("finding this program");
    Ok(LoadOptions {
        limits: limits()?,
        compiler: Compiler::Child {
            program: program.map_err(Failure::Internal)?,
        },
        artifacts_dir: compiled_dir,
        host_name: HOST_NAME.to_owned(),
        ..LoadOptions::default()
    })
}

/// The options with the limits of the smallest sidecar, which are limits of memory and time alone.
fn in_smallest_sidecar(options: LoadOptions) -> LoadOptions {
    LoadOptions {
        limits: Limits {
            compile_unconfined: options.limits.compile_unconfined,
            ..smallest_limits()
        },
        ..options
    }
}

/// Loads one module, compiled by a child process as in a launcher. Its code is stored in `compiled_dir`.
pub(crate) async fn load(
    path: &Path,
    compiled_dir: &Path,
) -> Result<Result<Module, LoadError>, Failure> {
    Ok(load_with(path, options(Some(compiled_dir.to_owned()))?).await)
}

/// Loads a module, compiled within the limits of the smallest sidecar.
pub(crate) async fn load_in_smallest_sidecar(
    path: &Path,
) -> Result<Result<Module, LoadError>, Failure> {
    let temp_dir = TemporaryDirectory::new()
        .context("making a temporary directory")
        .map_err(Failure::Internal)?;
    let options = options(Some(temp_dir.path().join("compiled")))?;
    Ok(load_with(path, in_smallest_sidecar(options)).await)
}

/// Loads a module with these options, and shows progress.
pub(crate) async fn load_with(path: &Path, options: LoadOptions) -> Result<Module, LoadError> {
    let limits = options.limits.clone();
    let loaded = with_progress(path, Module::load(path, options)).await?;
    if let CodeOrigin::Compiled { .. } = loaded.code_origin() {
        warn_of_compiling(&limits);
    }
    Ok(loaded)
}

/// Warns, after modules were compiled with these limits, if their compiler may have been unconfined.
pub(crate) fn warn_of_compiling(limits: &Limits) {
    if limits.compile_unconfined {
        output::warn(&format!("{UNCONFINED_VARIABLE}: {UNCONFINED_WARNING}"));
    }
}

/// Runs `work`, which compiles a module, and shows progress on a terminal. Warns after a long compilation if the next
/// run has to repeat it.
pub(crate) async fn with_progress<T>(module: &Path, work: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let output = with_progress_line(module, work).await;
    if started.elapsed() > LONG_COMPILATION
        && let Err(reason) = CompiledModuleCache::open_for_user()
    {
        output::warn(&format!(
            "compiled modules are not kept, so that each run compiles them again: {reason}"
        ));
    }
    output
}

async fn with_progress_line<T>(module: &Path, work: impl Future<Output = T>) -> T {
    if !io::stderr().is_terminal() {
        return work.await;
    }
    let name = module.file_name().unwrap_or(module.as_os_str());
    let mut line = ProgressLine::new(format!("compiling {}", name.to_string_lossy()));
    let started = Instant::now();
    let mut ticks = interval_at(started + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    tokio::pin!(work);
    loop {
        tokio::select! {
            output = &mut work => return output,
            _ = ticks.tick() => line.show(started.elapsed()),
        }
    }
}

/// A progress line on standard error. Erased on drop.
struct ProgressLine {
    text: String,
    /// Number of characters of the line that is shown.
    width: usize,
}

impl ProgressLine {
    fn new(text: String) -> Self {
        Self { text, width: 0 }
    }

    fn show(&mut self, elapsed: Duration) {
        let text = format!("{}: {} s", self.text, elapsed.as_secs());
        self.width = text.chars().count();
        write(&format!("\r{text}"));
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.width > 0 {
            write(&format!("\r{}\r", " ".repeat(self.width)));
        }
    }
}

fn write(text: &str) {
    let mut terminal = io::stderr();
    let _ = terminal.write_all(text.as_bytes());
    let _ = terminal.flush();
}

/// Replaces the remedy of an error, which is meant for a launcher, by one for a developer.
pub(crate) fn explain(error: LoadError) -> Error {
    match error {
        LoadError::Compile {
            path,
            size,
            source: CompileError::LimitExceeded(limit),
        } => anyhow!(
            "{} ({size} bytes): compiling it takes more than {limit}: end other programs here and \
             try again, or take a larger machine or a smaller module",
            path.display()
        ),
        error => error.into(),
    }
}

/// [`explain`], if the error is about loading a module.
pub(crate) fn explain_any(error: Error) -> Error {
    match error.downcast() {
        Ok(error) => explain(error),
        Err(error) => error,
    }
}

/// The failure of loading a module, with a developer's remedy.
pub(crate) fn unusable(error: LoadError) -> Failure {
    Failure::from_load_error(error).map(explain_any)
}

/// The text about the limit that a compilation exceeded; for any other error its whole text.
pub(crate) fn exceeded_limit(error: &LoadError) -> String {
    match error {
        LoadError::Compile {
            source: CompileError::LimitExceeded(limit),
            ..
        } => format!("it takes more than {limit}"),
        error => error.to_string(),
    }
}

/// The largest difference of size, in percent, between builds of a file whose compile costs count as equal.
const MAX_SIZE_DIFFERENCE: u64 = 10;

/// The cost of compiling a whole module. The cache keeps it beside the compiled code, so that an unchanged module is
/// not compiled again to measure it.
pub(crate) struct ModuleCompileCost {
    cache: Option<CompiledModuleCache>,
    digest: String,
    file: PathBuf,
    is_measured_in_this_run: bool,
    /// `None` if the cost is not known: the code is from a directory without costs, or only some functions were
    /// compiled.
    pub(crate) cost: Option<CompileCost>,
}

impl ModuleCompileCost {
    /// The cost of the compilation in this load, of the one whose code was loaded, or of the last full compilation of an
    /// earlier build of the module file.
    pub(crate) fn for_module(
        module: &Module,
        file: &Path,
        cache: Option<CompiledModuleCache>,
    ) -> Self {
        let digest = module.digest().to_owned();
        let module_bytes = module_file_size(file).unwrap_or_default();
        let is_comparable = |cost: &CompileCost| is_similar(cost.module_bytes, module_bytes);
        let (cost, is_measured_in_this_run) = match module.code_origin() {
            CodeOrigin::Compiled {
                took,
                peak_memory,
                reused_functions: 0,
            } => {
                let cost = CompileCost {
                    millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                    peak_memory: *peak_memory,
                    in_smallest_sidecar: SmallestSidecarResult::NotTried,
                    module_bytes,
                    is_of_earlier_build: false,
                };
                (Some(cost), true)
            }
            CodeOrigin::Compiled { .. } => {
                let full_build = cache.as_ref().and_then(|cache| cache.full_build_cost(file));
                let cost = full_build.filter(is_comparable).map(|cost| CompileCost {
                    is_of_earlier_build: true,
                    // Other code may need more memory, or less.
                    in_smallest_sidecar: SmallestSidecarResult::NotTried,
                    ..cost
                });
                (cost, false)
            }
            CodeOrigin::Cached | CodeOrigin::Precompiled { .. } => {
                let cost = cache.as_ref().and_then(|cache| cache.cost(&digest));
                (cost, false)
            }
        };
        let compile_cost = Self {
            cost,
            is_measured_in_this_run,
            cache,
            digest,
            file: file.to_owned(),
        };
        if let CodeOrigin::Compiled { .. } = module.code_origin() {
            compile_cost.store();
        }
        compile_cost
    }

    /// A note for reports on when the cost was measured; empty if it was measured in this run.
    pub(crate) fn measured_note(&self) -> &'static str {
        let is_of_earlier_build = |cost: &CompileCost| cost.is_of_earlier_build;
        if self.is_measured_in_this_run {
            ""
        } else if self.cost.as_ref().is_some_and(is_of_earlier_build) {
            " (measured at the last full compilation of this file)"
        } else {
            " (measured at the first compilation)"
        }
    }

    /// Adds the result of a compilation within the limits of the smallest sidecar.
    pub(crate) fn set_smallest_sidecar(&mut self, result: SmallestSidecarResult) {
        if let Some(cost) = &mut self.cost {
            cost.in_smallest_sidecar = result;
        }
        self.store();
    }

    fn store(&self) {
        if let (Some(cache), Some(cost)) = (&self.cache, &self.cost) {
            cache.store_cost(&self.digest, cost);
            cache.store_full_build_cost(&self.file, cost);
        }
    }
}

fn is_similar(first: u64, second: u64) -> bool {
    first.abs_diff(second) <= first / 100 * MAX_SIZE_DIFFERENCE
}

/// The size of a module file in bytes. The file must be a regular file that can be read.
pub(crate) fn module_file_size(path: &Path) -> Result<u64> {
    let path_text = || path.display().to_string();
    let metadata = match (fs::metadata(path), hint_of_missing(path, false)) {
        (Err(_), Some(hint)) => bail!("{}: there is no such file: {hint}", path_text()),
        (metadata, _) => metadata.with_context(path_text)?,
    };
    if metadata.is_dir() {
        bail!(
            "{}: it is a directory: name the module in it",
            path.display()
        );
    }
    if !metadata.is_file() {
        bail!("{}: it is not a regular file", path.display());
    }
    File::open(path).with_context(path_text)?;
    Ok(metadata.len())
}

#[cfg(test)]
mod tests {
    use hook_host::wasm::CompileLimit;

    use super::*;

    #[test]
    fn remedy_for_a_compile_timeout_is_not_compiling_ahead() {
        let error = LoadError::Compile {
            path: "ticket.wasm".into(),
            size: 7,
            source: CompileError::LimitExceeded(CompileLimit::Time("600s".to_owned())),
        };
        let text = explain(error).to_string();
        assert!(
            text.starts_with(
                "ticket.wasm (7 bytes): compiling it takes more than 600s: end other programs"
            ),
            "{text}"
        );
        assert!(!text.contains("virt-hook compile"), "{text}");
    }

    #[test]
    fn calls_have_a_launchers_limits() {
        let limits = limits().unwrap();
        assert!(limits.compile_deadline > Limits::default().compile_deadline);
        assert_eq!(limits.call_deadline, Limits::default().call_deadline);
        assert_eq!(limits.memory, Limits::default().memory);
        assert_eq!(limits.compile_memory, Limits::default().compile_memory);
    }

    #[test]
    fn the_smallest_sidecar_permits_what_the_options_permit() {
        for compile_unconfined in [false, true] {
            let limits = Limits {
                compile_unconfined,
                ..Limits::default()
            };
            let options = in_smallest_sidecar(LoadOptions {
                limits,
                ..LoadOptions::default()
            });
            assert_eq!(options.limits.compile_unconfined, compile_unconfined);
            let memory = options.limits.compile_memory;
            assert_eq!(memory, smallest_limits().compile_memory);
        }
    }

    #[test]
    fn compiling_without_confinement_is_permitted_by_true_alone() {
        let permitted = |value: &str| is_unconfined_permitted(Some(value.into()));
        assert!(!is_unconfined_permitted(None).unwrap());
        assert!(!permitted("false").unwrap());
        assert!(permitted("true").unwrap());
        for value in ["", "1", "yes", "True", "true ", "on"] {
            let error = permitted(value).unwrap_err();
            assert_eq!(error.kind(), "usage");
            let text = error.to_string();
            assert!(text.starts_with(UNCONFINED_VARIABLE), "{text}");
            assert!(text.contains(&format!("{value:?}")), "{text}");
        }
    }

    #[test]
    fn builds_of_similar_size_are_comparable() {
        assert!(is_similar(1000, 1100) && is_similar(1000, 900));
        assert!(!is_similar(1000, 1101) && !is_similar(1000, 0));
        assert!(!is_similar(0, 1000));
    }
}

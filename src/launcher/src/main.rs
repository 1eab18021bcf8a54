//! The binary: reads the configuration, starts logging and the async runtime, and runs the launcher.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use hook_host::error_chain;
use virt_launcher::{
    Config, ConfigError, DIRECTORIES_IN_USE, EarlySignals, InstanceLockError, MAX_BLOCKING_THREADS,
    NamedVm, VERSION, logging, process_lifecycle, termination_message,
};

/// Number of async worker threads. Two suffice, because a launcher mostly waits.
const WORKER_THREADS: usize = 2;
/// Number of malloc arenas: one for the worker threads, one for all other threads.
const MALLOC_ARENAS: u8 = 2;
/// How long an idle blocking thread is kept.
const BLOCKING_THREAD_IDLE_TIME: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    // A child process that compiles one hook does nothing else.
    if let Some(code) = hook_host::compile_child() {
        return code;
    }
    libvirt::limit_malloc_arenas(MALLOC_ARENAS);
    let early = match EarlySignals::register() {
        Ok(early) => early,
        Err(error) => {
            // Logging starts only after the flags are read.
            let message = format!("registering for signals: {error}\n");
            clap::Error::raw(ErrorKind::Io, message).exit()
        }
    };
    match Config::read() {
        Ok(config) => exit_without_handlers(start(config, early)),
        Err(ConfigError::CommandLine(error)) if error.kind() == ErrorKind::DisplayVersion => {
            print_version(&error)
        }
        Err(ConfigError::CommandLine(error)) if !error.use_stderr() => error.exit(),
        Err(error) => refuse(error, early),
    }
}

/// Ends with an error of the configuration, about which virt-handler is told.
fn refuse(error: ConfigError, early: EarlySignals) -> ! {
    termination_message::write(&error.to_string());
    if let Some(vm) = NamedVm::of_process() {
        // The other lines of an error of the command line show its usage.
        let text = error.to_string();
        let reason = text.lines().next().unwrap_or_default();
        let error = anyhow::anyhow!("the launcher's configuration: {reason}");
        let vmi = logging::LoggedVmi {
            name: vm.name.clone(),
            namespace: vm.namespace.clone(),
            uid: vm.uid.clone(),
        };
        let told = logging::start(0, vmi)
            .map_err(anyhow::Error::from)
            .and_then(|()| on_runtime(process_lifecycle::refuse_configuration(&vm, &error, early)));
        if let Err(error) = told {
            tracing::error!("virt-handler cannot be told: {error:#}");
        }
        logging::flush();
    }
    match error {
        ConfigError::CommandLine(error) => error.exit(),
        error => clap::Error::raw(ErrorKind::ValueValidation, format!("{error}\n")).exit(),
    }
}

/// `--version`, or `--version --json`.
fn print_version(text: &clap::Error) -> ! {
    if std::env::args().any(|argument| argument == "--json") {
        let kubevirt = virt_launcher::KubeVirtRelease::of_image();
        let found = kubevirt.as_ref().ok();
        let version = serde_json::json!({
            "version": VERSION,
            "kubevirt": found.map(|release| release.version.to_string()),
            "warnings": Vec::from_iter(found.and_then(|release| release.warning())),
            "reason": kubevirt.map_or_else(|error| error.to_string(), |release| release.to_string()),
        });
        // A pipe that nobody reads is no failure of the launcher.
        let _ = writeln!(std::io::stdout(), "{version}");
        std::process::exit(0)
    }
    text.exit()
}

/// Starts logging and runs the launcher. Returns the exit code.
fn start(config: Config, early: EarlySignals) -> u8 {
    let vmi = logging::LoggedVmi {
        name: config.flags.name.clone(),
        namespace: config.flags.namespace.clone(),
        uid: config.flags.uid.clone(),
    };
    if let Err(error) = logging::start(config.verbosity, vmi) {
        let message = format!("starting the log's thread: {error}\n");
        clap::Error::raw(ErrorKind::Io, message).exit()
    }
    tracing::info!(
        version = VERSION,
        "virt-launcher stands in for that of {}",
        config.kubevirt
    );
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    match on_runtime(process_lifecycle::run(config, early)) {
        Ok(()) => 0,
        Err(error) => {
            let reason = error_chain(error.as_ref());
            tracing::error!("{reason}");
            termination_message::write(&reason);
            match error.downcast_ref() {
                Some(InstanceLockError::Refused { .. }) => DIRECTORIES_IN_USE,
                _ => 1,
            }
        }
    }
}

/// Writes the last log lines and exits without libc's exit handlers. The handlers of libvirt and libcrypto free memory
/// that threads in calls of libvirt still use; and if the launcher crashes at its end, KubeVirt counts the VM as failed.
fn exit_without_handlers(code: u8) -> ! {
    logging::flush();
    signal_hook::low_level::exit(code.into())
}

/// Runs a launcher's work on an async runtime.
fn on_runtime(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .thread_keep_alive(BLOCKING_THREAD_IDLE_TIME)
        .enable_all()
        .build()?;
    let result = runtime.block_on(work);
    // Threads are not awaited, because a call that hangs in libvirt must not keep the process.
    runtime.shutdown_background();
    result
}

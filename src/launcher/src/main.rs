//! The binary.

use std::process::ExitCode;
use std::time::Duration;

use virt_launcher::{
    Config, ConfigError, DIRECTORIES_IN_USE, EarlySignals, InstanceLockError, MAX_BLOCKING_THREADS,
    launcher, logging,
};

/// A launcher mostly waits.
const WORKERS: usize = 2;
/// A heap for the workers, one for the rest.
const HEAPS: u8 = 2;
const BLOCKING_IDLE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    // As a child that compiles one hook, this program is nothing else.
    if let Some(code) = hook_host::compile_child() {
        return code;
    }
    libvirt::limit_malloc_arenas(HEAPS);
    let early = match EarlySignals::register() {
        Ok(early) => early,
        Err(error) => {
            // Before the flags are read, there is no log.
            let message = format!("registering for signals: {error}\n");
            clap::Error::raw(clap::error::ErrorKind::Io, message).exit()
        }
    };
    match Config::read() {
        Ok(config) => end(start(config, early)),
        Err(ConfigError::CommandLine(error)) => error.exit(),
        Err(error) => clap::Error::raw(
            clap::error::ErrorKind::ValueValidation,
            format!("{error}\n"),
        )
        .exit(),
    }
}

fn start(config: Config, early: EarlySignals) -> u8 {
    logging::start(
        config.verbosity,
        logging::About {
            name: config.flags.name.clone(),
            namespace: config.flags.namespace.clone(),
            uid: config.flags.uid.clone(),
        },
    );
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    match live(config, early) {
        Ok(()) => 0,
        Err(error) => {
            tracing::error!("{error:#}");
            match error.downcast_ref() {
                Some(InstanceLockError::Refused { .. }) => DIRECTORIES_IN_USE,
                _ => 1,
            }
        }
    }
}

/// Ends the process without libc's exit handlers. Those of libvirt and libcrypto free what threads still use whose
/// calls into libvirt are under way, and a launcher that crashes in its last moment makes a VM a failed one.
fn end(code: u8) -> ! {
    signal_hook::low_level::exit(code.into())
}

fn live(config: Config, early: EarlySignals) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .thread_keep_alive(BLOCKING_IDLE)
        .enable_all()
        .build()?;
    let result = runtime.block_on(launcher::run(config, early));
    // A call that is stuck in libvirt must not keep the process.
    runtime.shutdown_background();
    result
}

//! The binary.

use std::process::ExitCode;
use std::time::Duration;

use virt_launcher::config::{Config, ConfigError};
use virt_launcher::{launcher, logging};

/// A launcher mostly waits.
const WORKERS: usize = 2;
/// libvirt calls that may be stuck at the same time; threads come on demand and leave soon.
const BLOCKING: usize = 16;
const BLOCKING_IDLE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    // As a child that compiles one hook, this program is nothing else.
    if let Some(code) = hook_host::compile_child() {
        return code;
    }
    match Config::read() {
        Ok(config) => start(config),
        Err(ConfigError::CommandLine(error)) => error.exit(),
        Err(error) => clap::Error::raw(
            clap::error::ErrorKind::ValueValidation,
            format!("{error}\n"),
        )
        .exit(),
    }
}

fn start(config: Config) -> ExitCode {
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
    match live(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn live(config: Config) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING)
        .thread_keep_alive(BLOCKING_IDLE)
        .enable_all()
        .build()?;
    let result = runtime.block_on(launcher::run(config));
    // A call that is stuck in libvirt must not keep the process.
    runtime.shutdown_background();
    result
}

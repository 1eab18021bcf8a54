//! The count protocol: waits until the expected number of hooks of the Pod is ready.
//!
//! In the hooks directory, every hook has a sub-directory. Every socket and every `*.wasm` file
//! in it counts as one hook, and other files are ignored. A sidecar is ready when it has answered Info;
//! a module is ready when it is compiled and linked and has described itself. Writers of modules must
//! rename them into place.
//!
//! Standing hooks are modules in a directory of the same layout that are not counted: they are part of the
//! image, or were mounted before this process started. They are loaded at once, and a standing hook that
//! cannot be used is an error.
//!
//! inotify reports changes, sockets are dialled again with exponential backoff, and a periodic scan
//! finds what inotify missed. Watches and retries end with the collection; afterwards the chain
//! scans the directory once more, at its first call, and logs hooks that arrived late.

mod collect_config;
mod compile_slot_count;
mod counted_hooks_collection;
mod directory_watch;
mod error;
mod hook_file;
mod hook_from_sidecar_or_module;
mod hook_probe;
mod hooks_directory_listing;
mod late_arrivals;
mod module_admission_and_loading;
mod plugin_module_loader;
mod readiness;
mod standing_hooks;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::time::timeout_at;

use crate::hook::Hook;
use crate::invoke::ChainConfig;
use crate::pod_facts::{DownwardApiFiles, PodFactSource};
use crate::policy::OperatorPolicy;
use crate::record::RecordWriter;
use crate::wasm::Loader;
use crate::{Chain, blocking_work};
pub use collect_config::{CollectConfig, StandingHooks};
use counted_hooks_collection::collect_counted;
pub use error::CollectError;
use hook_file::{HookFileKind, HookId};
use hook_probe::{Probe, ProbeResult};
use hooks_directory_listing::ScanError;
use plugin_module_loader::PluginModuleLoader;
pub use readiness::WRITE_GRACE;

/// Waits until all hooks are ready and returns them as a chain. If no hook is expected, the hooks
/// directory is not read.
pub async fn collect(config: CollectConfig) -> Result<Chain, CollectError> {
    let end = tokio::time::Instant::now() + config.deadline;
    let operator = read_until(&config, end, "the operator's policy", {
        let policy = config.policy.clone();
        move || OperatorPolicy::read(&policy)
    });
    let operator = operator.await??;
    let plugin_modules = PluginModuleLoader {
        config: config.clone(),
        operator: operator.clone(),
    };
    let recorder = match &config.record {
        Some(record) => Some(RecordWriter::open(record).await?),
        None => None,
    };
    let chain_config = ChainConfig {
        limits: config.limits.clone(),
        recorder,
        operator: operator.clone(),
        plugins_dir: config.plugins_dir.clone(),
        plugin_modules: Some(Box::new(plugin_modules)),
        pod: PodFactSource::Files(Arc::new(DownwardApiFiles::new(config.pod.clone()))),
    };
    let standing = read_until(&config, end, "the directory of standing hooks", {
        let standing = config.standing.clone();
        move || standing_hooks::StandingModules::read(&standing)
    });
    let standing = standing.await??;
    if config.expected == 0 && standing.is_empty() {
        // The chain is needed nevertheless: a Sync may bring plugins.
        return Ok(Chain::new(Vec::new(), chain_config, None));
    }
    let probe = Probe::new(&config, config.loader(operator.as_ref()), operator);
    let (standing, counted) = tokio::try_join!(
        standing.load(&probe, end, config.deadline),
        collect_counted(&config, &probe, end)
    )?;
    let Some((mut hooks, late_arrivals)) = counted else {
        return Ok(Chain::new(standing, chain_config, None));
    };
    for hook in standing {
        if hooks.iter().any(|other| other.info.hook == hook.info.hook) {
            return Err(CollectError::SameName {
                hook: hook.info.hook,
                standing: config.standing.directory(),
                hooks_dir: config.hooks_dir,
            });
        }
        hooks.push(hook);
    }
    let late_arrivals = Arc::new(late_arrivals);
    let log_late_arrivals = move || {
        let late_arrivals = Arc::clone(&late_arrivals);
        let log = tracing::dispatcher::get_default(Clone::clone);
        // The hooks do not wait for the scan.
        tokio::task::spawn_blocking(move || {
            tracing::dispatcher::with_default(&log, || late_arrivals.log_once());
        });
    };
    Ok(Chain::new(
        hooks,
        chain_config,
        Some(Box::new(log_late_arrivals)),
    ))
}

/// Checks whether the operator's policy and each `hook.yaml` permit to compile the modules in the hooks directory,
/// without compiling them. The returned loader can load the modules. For callers that compile modules before they
/// collect them.
pub async fn admit_modules(config: &CollectConfig) -> Result<Loader, CollectError> {
    let end = tokio::time::Instant::now() + config.deadline;
    let read = {
        let (policy, hooks_dir) = (config.policy.clone(), config.hooks_dir.clone());
        move || {
            let operator = OperatorPolicy::read(&policy)?;
            let listing = hooks_directory_listing::scan(&hooks_dir).map_err(scan_error)?;
            Ok::<_, CollectError>((operator, listing))
        }
    };
    let (operator, listing) = read_until(config, end, "the hooks directory", read).await??;
    let loader = config.loader(operator.as_ref());
    let probe = Probe::new(config, loader.clone(), operator);
    let modules = listing.hooks.iter();
    for module in modules.filter(|file| file.kind == HookFileKind::Module) {
        match probe.admit(&module.id).await {
            Ok(()) | Err(ProbeResult::Ready(_)) => {}
            Err(ProbeResult::Refused(reason)) => return Err(CollectError::Refused(reason)),
            Err(
                ProbeResult::NotReady(reason)
                | ProbeResult::Flawed(reason)
                | ProbeResult::Fatal(reason),
            ) => return Err(CollectError::Unusable(reason)),
        }
    }
    Ok(loader)
}

/// Reads files off the async workers. The error after `end` names `what`.
async fn read_until<T: Send + 'static>(
    config: &CollectConfig,
    end: tokio::time::Instant,
    what: &'static str,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CollectError> {
    match timeout_at(end, blocking_work::run(read)).await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => Err(CollectError::Scan(format!("{what}: {error}"))),
        Err(_) => Err(CollectError::FilesDeadline {
            what,
            deadline: config.deadline,
        }),
    }
}

fn log_ready(hook: &Hook, standing: bool) {
    let info = &hook.info;
    let points: Vec<_> = info
        .hook_points
        .iter()
        .map(|subscription| format!("{}={}", subscription.point, subscription.priority))
        .collect();
    tracing::info!(
        hook = info.hook,
        name = info.name,
        version = info.version,
        kind = %info.kind,
        standing,
        hook_points = points.join(","),
        failure_policy = ?hook.settings.failure_policy,
        ready_after_ms = u64::try_from(info.ready_after.as_millis()).unwrap_or(u64::MAX),
        "hook is ready"
    );
}

fn scan_error(error: ScanError) -> CollectError {
    CollectError::Scan(error.to_string())
}

/// The path of a hook's file.
fn hook_path(hooks_dir: &Path, id: &HookId) -> PathBuf {
    hooks_dir.join(&id.directory).join(&id.file)
}

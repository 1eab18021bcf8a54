//! `virt-hook serve`: serves modules as one hook sidecar of a stock KubeVirt.

mod arguments;
mod metrics_server;
mod policy_option;
mod socket_path;

use std::future::Future;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use hook_host::policy::UnknownVersion;
use hook_host::serve::{FrontEnd, ServeConfig, ServeError, SocketStaging};
use hook_host::wasm::precompiled_dirs;
use hook_host::{Chain, Limits, PodConfig};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::hook_limits_from_cgroup::CgroupLimits;
use crate::hook_module::HookModule;
use crate::inputs::PodFactsInput;
use crate::interactive_compile::UNCONFINED_WARNING;
use crate::module_chain::{self, HookOptions, ModuleCode};
use crate::module_discovery;
use crate::tokio_runtime::runtime;
use crate::verb_failure::{Failure, error_text};
pub(crate) use arguments::{Arguments, HELP};
use metrics_server::MetricsListener;

/// The default directory of precompiled modules in an image.
pub(crate) const PRECOMPILED_DIR: &str = "/usr/share/virt-hook/hook-artifacts";
/// How long calls in flight may take when the server ends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves until a signal or the launcher's Shutdown.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    // A single-threaded runtime suffices: a sidecar may have a fifth of a processor.
    runtime()?.block_on(async {
        let stop = stop_signal()
            .context("listening for signals")
            .map_err(Failure::Internal)?;
        let modules = with_position_prefix(
            module_discovery::find(&arguments.modules).map_err(Failure::Usage)?,
        );
        let socket = socket_path::socket_path(arguments).map_err(Failure::Usage)?;
        let staging =
            SocketStaging::prepare(&socket.directory, &socket.file).map_err(staging_failure)?;
        let metrics = match arguments.metrics {
            Some(address) => {
                let listener = MetricsListener::bind(address).await;
                Some(listener.map_err(Failure::Usage)?)
            }
            None => None,
        };
        collect_and_serve(&modules, staging, metrics, arguments, stop).await
    })
}

/// Collects the modules and serves them until a signal or the launcher's Shutdown.
async fn collect_and_serve(
    modules: &[HookModule],
    staging: SocketStaging,
    metrics: Option<MetricsListener>,
    arguments: &Arguments,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    tokio::pin!(stop);
    let started = Instant::now();
    let cgroup = CgroupLimits::read();
    let limits = Limits {
        compile_unconfined: arguments.compile_unconfined,
        ..cgroup.limits()
    };
    if limits.compile_unconfined {
        tracing::warn!("--compile-unconfined: {UNCONFINED_WARNING}");
    }
    let private = staging.private().to_owned();
    let policy = policy_option::source(arguments.policy.as_deref(), &private);
    let policy = policy.map_err(Failure::Internal)?;
    policy_option::require_namespace(&policy, &arguments.namespace, &private)
        .map_err(Failure::Usage)?;
    let options = HookOptions {
        limits: Some(limits.clone()),
        policy,
        namespace: arguments.namespace.clone(),
        record: arguments.hook_record.clone(),
        precompiled_dirs: precompiled_dirs(
            arguments.hook_artifacts.as_deref(),
            Path::new(PRECOMPILED_DIR),
        ),
        pod: PodFactsInput::Mounted(PodConfig {
            dir: Some(arguments.pod_info_dir.clone()),
            ..PodConfig::default()
        }),
        versions: arguments.versions.to_host_versions(UnknownVersion::Refuse),
        code: ModuleCode::Compile,
        ..HookOptions::default()
    };
    let chain = tokio::select! {
        chain = module_chain::collect(modules, staging.private(), options) => chain,
        () = &mut stop => {
            tracing::info!("stopped before the hooks were ready");
            return Ok(());
        }
    };
    let to_failure = |error| {
        let text = error_text(&cgroup.explain(error));
        anyhow!(policy_option::with_option_as_path(&text, &private))
    };
    let chain = chain.map_err(|failure| match failure.map(to_failure) {
        // Whoever runs the sidecar has to correct the policy or the module before the sidecar can start.
        Failure::Refused(error) => Failure::Usage(error),
        failure => failure,
    })?;
    for warning in chain.wishes_without_mount() {
        tracing::warn!("{warning}");
    }
    tracing::info!(hooks = modules.len(), ready_after = ?started.elapsed(), cgroup_limits = %cgroup, "hooks are ready");
    let counts = Arc::clone(chain.metrics());
    let _metrics = metrics.map(|listener| listener.serve(Arc::clone(&counts)));
    let config = ServeConfig {
        front_end: front_end(arguments, &chain),
        namespace: Some(arguments.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        limits,
        drain: DRAIN_TIMEOUT,
    };
    let stop_reason = hook_host::serve::serve(chain, staging, config, stop).await;
    // The metrics of most VMs cannot be scraped: their pods pass every port to the guest.
    counts.log("ended");
    let stop_reason = stop_reason.map_err(Failure::refused)?;
    tracing::info!(ending = ?stop_reason, "hooks are no longer served");
    Ok(())
}

fn staging_failure(error: ServeError) -> Failure {
    match error {
        ServeError::Io { ref source, .. } if source.kind() != ErrorKind::PermissionDenied => {
            Failure::internal(error)
        }
        _ => Failure::usage(error),
    }
}

fn front_end(arguments: &Arguments, chain: &Chain) -> FrontEnd {
    if arguments.plugin.is_some() {
        return FrontEnd::Plugin;
    }
    let names: Vec<_> = chain.hooks().into_iter().map(|hook| hook.name).collect();
    FrontEnd::Sidecar {
        name: names.join("+").chars().take(253).collect(),
    }
}

/// Prefixes the hooks' names with their positions: a chain orders hooks of equal priority by name.
fn with_position_prefix(mut modules: Vec<HookModule>) -> Vec<HookModule> {
    if modules.len() > 1 {
        for (index, hook) in modules.iter_mut().enumerate() {
            hook.directory = format!("{}-{}", index + 1, hook.directory);
        }
    }
    modules
}

/// A future that waits for the signals that end KubeVirt's own sidecars. The handlers are installed at once: as a
/// container's PID 1, this process would not get the signals otherwise.
fn stop_signal() -> Result<impl Future<Output = ()>> {
    let kinds = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::quit(),
    ];
    let signals: std::io::Result<Vec<Signal>> = kinds.into_iter().map(signal).collect();
    let [mut term, mut int, mut hup, mut quit] = signals?
        .try_into()
        .map_err(|_| anyhow!("a signal is missing"))?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            _ = hup.recv() => {}
            _ = quit.recv() => {}
        }
        tracing::info!("ended by a signal");
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_of_equal_priority_keep_the_order_of_the_command_line() {
        let hook = |name: &str| HookModule {
            module: name.into(),
            directory: name.to_owned(),
            settings: None,
        };
        let names = |modules: Vec<HookModule>| -> Vec<_> {
            let modules = with_position_prefix(modules).into_iter();
            modules.map(|hook| hook.directory).collect()
        };
        assert_eq!(names(vec![hook("b"), hook("a")]), ["1-b", "2-a"]);
        assert_eq!(names(vec![hook("b")]), ["b"]);
    }
}

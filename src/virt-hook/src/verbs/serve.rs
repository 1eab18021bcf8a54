//! `virt-hook serve`: serves modules as one hook sidecar of a stock KubeVirt.

mod metrics_server;
mod socket_path;

use std::fs;
use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use hook_host::policy::{OperatorPolicy, UnknownVersion};
use hook_host::serve::{FrontEnd, ServeConfig, ServeError, SocketStaging};
use hook_host::wasm::precompiled_dirs;
use hook_host::{Chain, Limits, PodConfig, PolicySource};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::hook_limits_from_cgroup::CgroupLimits;
use crate::hook_module::HookModule;
use crate::host_version_options::HostVersionOptions;
use crate::inputs::PodFactsInput;
use crate::interactive_compile::UNCONFINED_WARNING;
use crate::module_chain::{HookOptions, ModuleCode};
use crate::tokio_runtime::runtime;
use crate::verb_failure::{Failure, error_text};
use crate::{module_chain, module_discovery};
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
    let policy = policy_source(arguments.policy.as_deref(), &private);
    let policy = policy.map_err(Failure::Internal)?;
    require_namespace(&policy, &arguments.namespace, &private).map_err(Failure::Usage)?;
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
        anyhow!(with_option_as_path(&text, &private))
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

pub(crate) const HELP: &str = "\
Examples:
  virt-hook serve --module /hooks/smbios.wasm
  virt-hook serve --module /hooks/first.wasm --module /hooks/second.wasm
  virt-hook serve --plugin smbios --module /hooks/smbios.wasm

KubeVirt calls OnDefineDomain two or three times per boot: hooks must be idempotent.
The socket appears when all modules are ready. It is removed when this program ends: after the
launcher's Shutdown call, or on SIGTERM.

Exit codes:
  0  ended by the launcher's Shutdown call or by a signal
  1  serving failed; standard error says why
  2  invalid command line, or an unusable module
  3  error of this machine";

/// Arguments of `virt-hook serve`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A WASM hook: a module, or a directory that holds modules. May be repeated. Hooks run by priority,
    /// and those of the same priority in the order given here
    #[arg(long = "module", value_name = "PATH", required = true)]
    pub(crate) modules: Vec<PathBuf>,
    /// Serve as the sidecar of this Plugin (its metadata.name), instead of as a hook sidecar
    #[arg(long, value_name = "NAME")]
    pub(crate) plugin: Option<String>,
    /// Directory of the socket [default: /var/run/kubevirt-hooks, with --plugin
    /// /var/run/kubevirt-plugin/NAME]
    #[arg(long, value_name = "DIR")]
    pub(crate) hooks_dir: Option<PathBuf>,
    /// The socket's file name [default: virt-hook-$CONTAINER_NAME.sock, with --plugin
    /// hook.sock]
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<String>,
    /// The operator's policy: a file, or the policy itself if the value begins with `{` or has several
    /// lines [default: /etc/virt-hook/policy.yaml, if it exists]
    #[arg(long, value_name = "FILE_OR_YAML", env = "VIRT_HOOK_POLICY")]
    pub(crate) policy: Option<String>,
    /// The VM's namespace; required if rules of the policy name namespaces. VMIs of other namespaces are refused
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) namespace: String,
    /// Compile modules also where the kernel or the container does not let their compiler be confined
    #[arg(long, env = "VIRT_HOOK_COMPILE_UNCONFINED")]
    pub(crate) compile_unconfined: bool,
    /// Write a record of every run into this directory, for `replay`; without cloud-init data
    #[arg(long, value_name = "DIR", env = "VIRT_HOOK_RECORD")]
    pub(crate) hook_record: Option<PathBuf>,
    /// Directory with the pod's annotations and labels, files of the downward API, for hooks that read them
    #[arg(
        long,
        value_name = "DIR",
        env = "VIRT_HOOK_POD_INFO_DIR",
        default_value = "/etc/virt-hook/pod-info"
    )]
    pub(crate) pod_info_dir: PathBuf,
    /// Directory of this image with the artifacts of `virt-hook compile`
    /// [default: /usr/share/virt-hook/hook-artifacts, if it exists]
    #[arg(long, value_name = "DIR", env = "VIRT_HOOK_ARTIFACTS")]
    pub(crate) hook_artifacts: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) versions: HostVersionOptions,
    /// Serve metrics for Prometheus at http://ADDRESS/metrics, without encryption and authentication;
    /// ADDRESS is such as 0.0.0.0:9464
    #[arg(long, value_name = "ADDRESS", env = "VIRT_HOOK_METRICS")]
    pub(crate) metrics: Option<SocketAddr>,
}

/// The policy file without the option, if the image has one.
const DEFAULT_POLICY: &str = "/etc/virt-hook/policy.yaml";
/// The name of the file for a policy from the command line, and its path in errors.
const INLINE_POLICY_NAME: &str = "--policy";

/// The text of an error, with `--policy` in place of the path of the file for a policy from the command line.
fn with_option_as_path(text: &str, directory: &Path) -> String {
    text.replace(
        &directory.join(INLINE_POLICY_NAME).display().to_string(),
        INLINE_POLICY_NAME,
    )
}

/// The policy's source. A policy from the command line is written into `directory`.
fn policy_source(argument: Option<&str>, directory: &Path) -> Result<PolicySource> {
    let Some(argument) = argument else {
        return Ok(PolicySource::IfPresent(DEFAULT_POLICY.into()));
    };
    if !is_inline(argument) {
        return Ok(PolicySource::File(PathBuf::from(argument)));
    }
    let file = directory.join(INLINE_POLICY_NAME);
    fs::write(&file, argument).with_context(|| file.display().to_string())?;
    Ok(PolicySource::File(file))
}

/// Refuses a policy with rules for namespaces if the namespace is not known: rules that restrict hooks would not apply.
fn require_namespace(
    policy_source: &PolicySource,
    namespace: &str,
    directory: &Path,
) -> Result<()> {
    // Errors are reported when the hooks are collected.
    let policy = OperatorPolicy::read(policy_source).ok().flatten();
    if !namespace.is_empty() || !policy.is_some_and(|policy| policy.has_namespace_rules()) {
        return Ok(());
    }
    let path = match policy_source {
        PolicySource::File(path) | PolicySource::IfPresent(path) => path.display().to_string(),
        PolicySource::None => String::new(),
    };
    bail!(
        "{}: it has rules for namespaces, and a sidecar does not know its own: give it with --namespace NAME",
        with_option_as_path(&path, directory)
    )
}

fn is_inline(argument: &str) -> bool {
    argument.trim_start().starts_with('{') || argument.contains('\n')
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

    #[test]
    fn an_inline_policy_is_written_to_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let policy_source = |argument| policy_source(argument, directory.path()).unwrap();
        assert_eq!(
            policy_source(None),
            PolicySource::IfPresent(DEFAULT_POLICY.into())
        );
        assert_eq!(
            policy_source(Some("/p.yaml")),
            PolicySource::File("/p.yaml".into())
        );
        let inline = directory.path().join(INLINE_POLICY_NAME);
        for text in ["{digests: Pinned}", "digests: Pinned\nsidecars: Forbid"] {
            assert_eq!(
                policy_source(Some(text)),
                PolicySource::File(inline.clone())
            );
            assert_eq!(fs::read_to_string(&inline).unwrap(), text);
        }
        let error = format!("{}:1:3: unknown key", inline.display());
        assert_eq!(
            with_option_as_path(&error, directory.path()),
            "--policy:1:3: unknown key"
        );
    }
}

//! The launcher's configuration, from flags, environment and the defaults in its image.

mod flags;
mod kubevirt_release;
mod named_vm;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::kubevirt_version::{Behaviour, UnsupportedRelease};
use hook_host::{Limits, PodConfig, PolicySource, StandingHooks};
use quantity::go_duration;
use quantity::go_duration::DurationError;

use crate::paths::Paths;
pub(crate) use flags::Flags;
pub use flags::VERSION;
pub use kubevirt_release::KubeVirtRelease;
use kubevirt_release::VERSION_FILE;
pub use named_vm::NamedVm;

/// The URI scheme of libvirt's in-process test driver, whose domains end with the launcher.
const TEST_DRIVER_SCHEME: &str = "test:";
/// The warning of each start that permits to compile without confinement.
const UNCONFINED_WARNING: &str = "--hook-compile-unconfined: modules are compiled even if the kernel or the container \
    does not let their compiler be confined";

/// A setting is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The command line is invalid.
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    /// A time limit for hooks is not a duration.
    #[error("--{flag} (or its environment variable or file) is {value:?}: {source}")]
    Duration {
        /// The flag.
        flag: &'static str,
        /// The value of the flag.
        value: String,
        /// The parse error.
        source: DurationError,
    },
    /// A size is not a number of bytes.
    #[error("--{flag} (or its environment variable or file) is {value:?}: not a number of bytes")]
    Bytes {
        /// The flag.
        flag: &'static str,
        /// The value of the flag.
        value: String,
    },
    /// The cluster's KubeVirt is none that the launcher can stand in for.
    #[error("{0}; --kubevirt-version (or its environment variable or file) can name another")]
    KubeVirtVersion(#[from] UnsupportedRelease),
    /// A setting is neither true nor false.
    #[error("--{flag} (or its environment variable or file): {reason}")]
    Boolean {
        /// The flag.
        flag: &'static str,
        /// The value, and what is wrong with it.
        reason: String,
    },
}

/// The launcher's configuration, validated.
#[derive(Debug, Clone)]
pub struct Config {
    /// The command line's flags.
    pub flags: Flags,
    /// The version of KubeVirt that the launcher stands in for.
    pub kubevirt: KubeVirtRelease,
    /// The launcher's files and directories.
    pub paths: Paths,
    /// The directory of the hooks that `--hook-sidecars` counts.
    pub hooks_dir: PathBuf,
    /// The directory of standing hooks, which `--hook-sidecars` does not count.
    pub standing_hooks: StandingHooks,
    /// Limits of memory and time for hooks.
    pub hook_limits: Limits,
    /// The operator's policy for hooks.
    pub hook_policy: PolicySource,
    /// Where hooks get facts about the pod.
    pub pod: PodConfig,
    /// The URI of a libvirt to connect to instead of starting daemons.
    pub libvirt_uri: Option<String>,
    /// The VM to run without virt-handler: the text of `STANDALONE_VMI`.
    pub standalone_vmi: Option<String>,
    /// Log verbosity.
    pub verbosity: u8,
    /// Warnings about the environment, which are logged once logging works.
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads the command line and the environment of this process, and the defaults in its image.
    pub fn read() -> Result<Config, ConfigError> {
        let environment = |name: &str| std::env::var(name).ok();
        Config::from_parts(
            &std::env::args_os().collect::<Vec<_>>(),
            environment,
            Path::new(DEFAULTS_DIRECTORY),
            Path::new(VERSION_FILE),
        )
    }

    /// Makes the configuration from its sources: `defaults` and `version` are files of the image. The launcher's own flags
    /// still read the environment of this process.
    pub fn from_parts(
        arguments: &[OsString],
        environment: impl Fn(&str) -> Option<String>,
        defaults: &Path,
        version: &Path,
    ) -> Result<Config, ConfigError> {
        let mut warnings = Vec::new();
        let (flags, newer_flags) = Flags::read_known(arguments)?;
        let flags = flags.with_defaults_from(defaults);
        let kubevirt = KubeVirtRelease::find(flags.kubevirt_version.as_deref(), version)?;
        let standalone_vmi = environment("STANDALONE_VMI");
        if standalone_vmi.is_none() {
            warnings.extend(kubevirt.warnings(&flags));
        }
        if !newer_flags.is_empty() {
            if !kubevirt.is_newer {
                // An error, which names the first of them.
                Flags::read(arguments)?;
            }
            warnings.push(format!(
                "flags that are not known are skipped: {}",
                newer_flags.join(", ")
            ));
        }
        let verbosity = verbosity(&flags, &environment, &mut warnings);
        let hook_limits = hook_limits(&flags)?;
        if hook_limits.compile_unconfined {
            warnings.push(UNCONFINED_WARNING.to_owned());
        }
        Ok(Config {
            paths: paths(&flags),
            hooks_dir: flags
                .hooks_dir
                .clone()
                .unwrap_or_else(|| "/var/run/kubevirt-hooks".into()),
            standing_hooks: match &flags.standing_hooks_dir {
                Some(directory) => StandingHooks::In(directory.clone()),
                None => StandingHooks::IfPresent(defaults.join("hooks")),
            },
            hook_limits,
            hook_policy: match &flags.hook_policy {
                Some(file) => PolicySource::File(file.clone()),
                None => PolicySource::IfPresent(defaults.join("hook-policy.yaml")),
            },
            pod: pod(&flags, defaults)?,
            libvirt_uri: flags.libvirt_uri.clone(),
            standalone_vmi,
            verbosity,
            warnings,
            kubevirt,
            flags,
        })
    }

    /// Why the version of KubeVirt is not certain: for whoever owns the VM, who sees no log. That virt-controller's flags are
    /// another version's is a matter of the operator, and only logged.
    pub(crate) fn kubevirt_warning(&self) -> Option<String> {
        // A standalone launcher has no cluster whose version could differ.
        let in_cluster = self.standalone_vmi.is_none();
        self.kubevirt.warning().filter(|_| in_cluster)
    }

    /// Whether domains that arrive by migration are edited.
    pub fn serves_migration_hook(&self) -> bool {
        self.flags.libvirt_hook_server_and_client
            || Behaviour::of(self.kubevirt.version).always_serves_migration_hook
    }

    /// libvirt's name of the domain: `NAMESPACE_NAME`.
    pub fn domain_name(&self) -> String {
        format!("{}_{}", self.flags.namespace, self.flags.name)
    }

    /// Whether libvirt's test driver is used instead of QEMU.
    pub fn is_test_driver(&self) -> bool {
        self.libvirt_uri
            .as_deref()
            .is_some_and(|uri| uri.starts_with(TEST_DRIVER_SCHEME))
    }
}

fn paths(flags: &Flags) -> Paths {
    Paths {
        share: flags.kubevirt_share_dir.clone(),
        ephemeral_disks: flags.ephemeral_disk_dir.clone(),
        container_disks: flags.container_disk_dir.clone(),
        hotplug_disks: flags.hotplug_disk_dir.clone(),
        ..Paths::kubevirt(flags.run_as_nonroot, &flags.uid)
    }
}

fn verbosity(
    flags: &Flags,
    environment: &impl Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> u8 {
    let Some(text) = environment("VIRT_LAUNCHER_LOG_VERBOSITY") else {
        return flags.verbosity;
    };
    text.trim().parse().unwrap_or_else(|_| {
        warnings.push(format!(
            "VIRT_LAUNCHER_LOG_VERBOSITY is {text:?}, not a number from 0 to 255; using {}",
            flags.verbosity
        ));
        flags.verbosity
    })
}

fn pod(flags: &Flags, defaults: &Path) -> Result<PodConfig, ConfigError> {
    let dir = flags.pod_info_dir.clone();
    let mut pod = PodConfig {
        dir: Some(dir.unwrap_or_else(|| defaults.join("pod-info"))),
        ..PodConfig::default()
    };
    if let Some(value) = &flags.pod_info_wait {
        pod.wait = duration("pod-info-wait", value)?;
    }
    Ok(pod)
}

fn hook_limits(flags: &Flags) -> Result<Limits, ConfigError> {
    let mut limits = Limits::default();
    let durations = [
        (
            "hook-call-deadline",
            &flags.hook_call_deadline,
            &mut limits.call_deadline,
        ),
        (
            "hook-chain-deadline",
            &flags.hook_chain_deadline,
            &mut limits.chain_deadline,
        ),
        (
            "hook-sidecar-deadline",
            &flags.hook_sidecar_deadline,
            &mut limits.sidecar_deadline,
        ),
    ];
    for (flag, value, limit) in durations {
        if let Some(value) = value {
            *limit = duration(flag, value)?;
        }
    }
    if let Some(value) = &flags.hook_memory {
        limits.memory = value.parse().map_err(|_| ConfigError::Bytes {
            flag: "hook-memory",
            value: value.clone(),
        })?;
    }
    if let Some(value) = &flags.hook_compile_unconfined {
        limits.compile_unconfined =
            flags::go_bool(value).map_err(|reason| ConfigError::Boolean {
                flag: "hook-compile-unconfined",
                reason,
            })?;
    }
    Ok(limits)
}

fn duration(flag: &'static str, value: &str) -> Result<Duration, ConfigError> {
    go_duration::parse(value).map_err(|source| ConfigError::Duration {
        flag,
        value: value.to_owned(),
        source,
    })
}

/// The directory of the defaults: a file of the flag's name contains the value.
const DEFAULTS_DIRECTORY: &str = "/etc/virt-launcher";

impl Flags {
    /// Sets the launcher's own flags from the files in `directory`, unless the command line or the environment has set
    /// them. A file that cannot be read is ignored. `--hook-policy` is not among them: its default is a file in the
    /// directory.
    pub fn with_defaults_from(mut self, directory: &Path) -> Flags {
        let read = |name: &str| {
            let text = std::fs::read_to_string(directory.join(name)).ok()?;
            let text = text.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        self.hooks_dir = self
            .hooks_dir
            .or_else(|| read("hooks-dir").map(PathBuf::from));
        self.standing_hooks_dir = self
            .standing_hooks_dir
            .or_else(|| read("standing-hooks-dir").map(PathBuf::from));
        self.libvirt_uri = self.libvirt_uri.or_else(|| read("libvirt-uri"));
        self.hook_call_deadline = self
            .hook_call_deadline
            .or_else(|| read("hook-call-deadline"));
        self.hook_chain_deadline = self
            .hook_chain_deadline
            .or_else(|| read("hook-chain-deadline"));
        self.hook_sidecar_deadline = self
            .hook_sidecar_deadline
            .or_else(|| read("hook-sidecar-deadline"));
        self.hook_memory = self.hook_memory.or_else(|| read("hook-memory"));
        self.hook_compile_unconfined = self
            .hook_compile_unconfined
            .or_else(|| read("hook-compile-unconfined"));
        self.hook_record = self
            .hook_record
            .or_else(|| read("hook-record").map(PathBuf::from));
        self.hook_artifacts = self
            .hook_artifacts
            .or_else(|| read("hook-artifacts").map(PathBuf::from));
        self.kubevirt_version = self.kubevirt_version.or_else(|| read("kubevirt-version"));
        self.pod_info_dir = self
            .pod_info_dir
            .or_else(|| read("pod-info-dir").map(PathBuf::from));
        self.pod_info_wait = self.pod_info_wait.or_else(|| read("pod-info-wait"));
        self
    }
}

#[cfg(test)]
mod tests;

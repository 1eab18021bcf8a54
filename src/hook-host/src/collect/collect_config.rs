//! The configuration of a collection.

use std::path::PathBuf;
use std::time::Duration;

use crate::pod_facts::PodConfig;
use crate::policy::{HostVersions, OperatorPolicy, PolicySource};
use crate::record::RecordConfig;
use crate::wasm::{LoadOptions, Loader};
use crate::{Compiler, Limits};

/// Configuration of [`collect`](super::collect()).
#[derive(Debug, Clone)]
pub struct CollectConfig {
    /// The hooks directory, with one sub-directory per hook. It need not exist if no hook is expected.
    pub hooks_dir: PathBuf,
    /// The number of counted hooks to wait for (`--hook-sidecars`).
    pub expected: usize,
    /// The directory of standing hooks: those of the image, or mounted before the start. `expected` does not include them.
    pub standing: StandingHooks,
    /// How long the hooks may take to become ready.
    pub deadline: Duration,
    /// The directory of compiled modules. It is created with mode 0700, and refused if other users can write to it.
    pub artifacts_dir: PathBuf,
    /// Directories of the image with artifacts that [`precompile`](crate::wasm::precompile()) wrote.
    pub precompiled_dirs: Vec<PathBuf>,
    /// Which process compiles modules.
    pub compiler: Compiler,
    /// Limits of hooks.
    pub limits: Limits,
    /// Name and version of the host for hooks that query it, such as `virt-launcher/0.1.0`.
    pub host_name: String,
    /// Where the operator's policy is read from.
    pub policy: PolicySource,
    /// The virtual machine's namespace, which rules of the operator's policy may depend on; empty if unknown.
    pub namespace: String,
    /// The versions that `requires` in a `hook.yaml` is compared with.
    pub versions: HostVersions,
    /// The directory with one sub-directory of sockets per plugin.
    pub plugins_dir: PathBuf,
    /// Where runs are recorded; `None` if they are not.
    pub record: Option<RecordConfig>,
    /// Where facts about the pod are read from.
    pub pod: PodConfig,
}

/// The defaults expect no hooks, have no policy and no record, and compile modules in this process.
impl Default for CollectConfig {
    fn default() -> Self {
        Self {
            hooks_dir: PathBuf::from("/var/run/kubevirt-hooks"),
            expected: 0,
            standing: StandingHooks::None,
            deadline: Duration::from_secs(60),
            artifacts_dir: PathBuf::from("/var/run/kubevirt-private/hook-artifacts"),
            precompiled_dirs: Vec::new(),
            compiler: Compiler::InProcess,
            limits: Limits::default(),
            host_name: concat!("hook-host/", env!("CARGO_PKG_VERSION")).to_owned(),
            policy: PolicySource::None,
            namespace: String::new(),
            versions: HostVersions::default(),
            plugins_dir: PathBuf::from("/var/run/kubevirt-plugin"),
            record: None,
            pod: PodConfig::default(),
        }
    }
}

impl CollectConfig {
    /// The loader of modules. The operator's limits apply to it, because compiling and `describe` run before a module's
    /// settings are resolved.
    pub(super) fn loader(&self, operator: Option<&OperatorPolicy>) -> Loader {
        let limits =
            operator.map_or_else(|| self.limits.clone(), |policy| policy.cap(&self.limits));
        Loader::new(LoadOptions {
            limits,
            compiler: self.compiler.clone(),
            artifacts_dir: Some(self.artifacts_dir.clone()),
            functions_dir: None,
            precompiled_dirs: self.precompiled_dirs.clone(),
            host_name: self.host_name.clone(),
        })
    }
}

/// The directory of standing hooks, with one sub-directory per hook, as in the hooks directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StandingHooks {
    /// There are no standing hooks.
    None,
    /// This directory, if it exists.
    IfPresent(PathBuf),
    /// This directory, which must exist.
    In(PathBuf),
}

impl StandingHooks {
    /// The directory; the empty path for `None`.
    pub(super) fn directory(&self) -> PathBuf {
        match self {
            Self::None => PathBuf::new(),
            Self::IfPresent(directory) | Self::In(directory) => directory.clone(),
        }
    }
}

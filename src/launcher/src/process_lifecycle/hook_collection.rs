//! Collects the hooks that flags and environment configure.

use std::path::Path;

use anyhow::Context;
use domain::kubevirt_version::KubeVirtVersion;
use hook_host::policy::HostVersions;
use hook_host::record::RecordConfig;
use hook_host::wasm::precompiled_dirs;
use hook_host::{Chain, CollectConfig, Compiler, Version};

use crate::config::Config;

/// The directory of precompiled hooks in the launcher's image.
const PRECOMPILED_HOOKS_DIRECTORY: &str = "/usr/share/virt-launcher/hook-artifacts";

/// Waits for the expected number of hooks.
pub(super) async fn collect(config: &Config, namespace: &str) -> anyhow::Result<Chain> {
    let collected = hook_host::collect(CollectConfig {
        hooks_dir: config.hooks_dir.clone(),
        expected: config.flags.hook_sidecars,
        standing: config.standing_hooks.clone(),
        deadline: config.flags.qemu_timeout,
        artifacts_dir: config.paths.hook_artifacts(),
        precompiled_dirs: precompiled_dirs(
            config.flags.hook_artifacts.as_deref(),
            Path::new(PRECOMPILED_HOOKS_DIRECTORY),
        ),
        compiler: Compiler::Child {
            program: std::env::current_exe().context("finding this program")?,
        },
        limits: config.hook_limits.clone(),
        host_name: concat!("virt-launcher/", env!("CARGO_PKG_VERSION")).to_owned(),
        policy: config.hook_policy.clone(),
        namespace: namespace.to_owned(),
        versions: versions(config.kubevirt.version),
        record: config.flags.hook_record.clone().map(|dir| RecordConfig {
            dir,
            secrets: false,
        }),
        pod: config.pod.clone(),
        ..CollectConfig::default()
    });
    let chain = collected.await.context("collecting hooks")?;
    for unseen in chain.wishes_without_mount() {
        tracing::warn!("{unseen}");
    }
    Ok(chain)
}

/// The versions that are compared with `requires` of hooks. libvirt's is that of the library, because the daemons
/// start meanwhile.
fn versions(kubevirt: KubeVirtVersion) -> HostVersions {
    let libvirt = libvirt::library_version();
    let libvirt =
        libvirt.inspect_err(|error| tracing::warn!(%error, "libvirt's version is not known"));
    HostVersions {
        libvirt: libvirt.ok().map(|version| {
            let (major, minor, release) = version.parts();
            Version::new(major, minor, release)
        }),
        kubevirt: Some(Version::new(1, kubevirt.minor(), 0)),
        ..HostVersions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_known_before_a_daemon_runs() {
        let versions = versions(KubeVirtVersion::V1_10);
        assert!(versions.libvirt.unwrap() >= Version::new(9, 0, 0));
        assert_eq!(versions.kubevirt.unwrap().to_string(), "1.10.0");
    }
}

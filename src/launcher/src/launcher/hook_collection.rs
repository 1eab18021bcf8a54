//! Collects the hooks, as flags and environment configure them.

use std::path::Path;

use anyhow::Context;
use hook_host::record::RecordConfig;
use hook_host::wasm::precompiled_dirs;
use hook_host::{Chain, CollectConfig, Compiler};

use crate::config::Config;

/// Hooks that were compiled into the launcher's image.
const PRECOMPILED_HOOKS: &str = "/usr/share/virt-launcher/hook-artifacts";

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
            Path::new(PRECOMPILED_HOOKS),
        ),
        compiler: Compiler::Child {
            program: std::env::current_exe().context("finding this program")?,
        },
        limits: config.hook_limits.clone(),
        host_name: concat!("virt-launcher/", env!("CARGO_PKG_VERSION")).to_owned(),
        policy: config.hook_policy.clone(),
        namespace: namespace.to_owned(),
        record: config.flags.hook_record.clone().map(|dir| RecordConfig {
            dir,
            secrets: false,
        }),
        pod: config.pod.clone(),
        ..CollectConfig::default()
    });
    let chain = collected.await.context("collecting hooks")?;
    for unseen in chain.unseen_facts() {
        tracing::warn!("{unseen}");
    }
    Ok(chain)
}

//! Collecting.
use crate::{Chain, Compiler, Limits};
use std::path::PathBuf;
use std::time::Duration;

/// What is collected, and how.
#[derive(Debug, Clone)]
pub struct CollectConfig {
    /// One sub-directory per hook.
    pub hooks_dir: PathBuf,
    /// How many hooks there will be (`--hook-sidecars`).
    pub expected: usize,
    /// How long they may take to get ready.
    pub deadline: Duration,
    /// Where compiled modules are kept; created with mode 0700.
    pub artifacts_dir: PathBuf,
    /// Who compiles.
    pub compiler: Compiler,
    /// What hooks may use.
    pub limits: Limits,
    /// What hooks are told of the host, as `virt-launcher/0.1.0`.
    pub host_name: String,
}

/// Hooks that did not get ready.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// No hook is collected yet.
    #[error("no hook was collected")]
    None,
}

/// Blocks until all hooks are ready.
pub async fn collect(config: CollectConfig) -> Result<Chain, CollectError> {
    if config.expected == 0 {
        Ok(Chain::default())
    } else {
        Err(CollectError::None)
    }
}

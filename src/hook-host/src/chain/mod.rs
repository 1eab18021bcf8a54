//! Chain.
use crate::wasm::Subscription;
use crate::*;
use std::time::Duration;

/// Collected hooks.
#[derive(Default)]
pub struct Chain {}

/// What a hook is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookKind {
    /// A WASM component.
    Wasm {
        /// The sha256 of the module in hexadecimal.
        digest: String,
    },
    /// A gRPC sidecar.
    Sidecar {
        /// The version it is spoken to in (`v1alpha3`).
        version: String,
    },
}

/// A collected hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookInfo {
    /// What it is called in runs and errors: its directory, and its file when there are several.
    pub hook: String,
    /// What it calls itself.
    pub name: String,
    /// Its own version, empty when it does not say.
    pub version: String,
    /// Its directory below the hooks directory.
    pub directory: String,
    /// Its socket or module in that directory.
    pub file: String,
    /// What it is.
    pub kind: HookKind,
    /// Where it is called.
    pub hook_points: Vec<Subscription>,
    /// How long after the start of collection it was ready.
    pub ready_after: Duration,
}

impl Chain {
    /// All hooks, by directory.
    #[must_use]
    pub fn hooks(&self) -> Vec<HookInfo> {
        Vec::new()
    }

    /// Before anything is prepared; a veto stops the chain.
    pub async fn pre_start(&self, _: &Invocation, _vmi: &str) -> Result<Vec<Run>, HookError> {
        Ok(Vec::new())
    }

    /// Cloud-init data through all hooks.
    pub async fn pre_cloud_init_iso(
        &self,
        _: &Invocation,
        _vmi: &str,
        documents: CloudInitDocuments,
    ) -> Result<(CloudInitDocuments, Vec<Run>), HookError> {
        Ok((documents, Vec::new()))
    }

    /// The domain XML through all hooks.
    pub async fn on_define_domain(
        &self,
        _: &Invocation,
        _vmi: &str,
        xml: String,
    ) -> Result<(String, Vec<Run>), HookError> {
        Ok((xml, Vec::new()))
    }

    /// All hooks in parallel.
    pub async fn shutdown(&self, _: &Invocation) -> Vec<Run> {
        Vec::new()
    }
}

//! A loaded module: compiled, linked and described.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::Engine;

use super::call_types::{Call, CallContext, CallReport};
use super::component_interfaces::ComponentInterfaces;
use super::engine_host::EngineHost;
use super::guest_call;
use super::wit_versions::HookBinding;
use crate::module_description::Description;

/// A module that is compiled, linked and described. Cheap to clone.
#[derive(Clone)]
pub struct Module {
    pub(super) host: Arc<EngineHost>,
    pub(super) hook: HookBinding,
    pub(super) info: Arc<ModuleInfo>,
}

/// The origin of a module's machine code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeOrigin {
    /// From an artifact of the image.
    Precompiled {
        /// The artifact.
        artifact: PathBuf,
    },
    /// From the private directory of compiled modules.
    Cached,
    /// Compiled when the module was loaded.
    Compiled {
        /// Duration of the compilation, the start of the child included.
        took: Duration,
        /// Peak memory of the child in bytes; `None` for
        /// [`Compiler::InProcess`](super::Compiler::InProcess), and where the system does not report it.
        peak_memory: Option<u64>,
        /// The number of functions whose code came from
        /// [`LoadOptions::functions_dir`](super::LoadOptions::functions_dir).
        reused_functions: usize,
    },
}

/// The properties of a loaded module.
pub(super) struct ModuleInfo {
    pub(super) name: String,
    pub(super) digest: String,
    pub(super) code: CodeOrigin,
    pub(super) description: Description,
}

impl Module {
    /// The module's description.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.info.description
    }

    /// The sha256 of the module in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.info.digest
    }

    /// The origin of the machine code, and the cost of a compilation.
    #[must_use]
    pub fn code_origin(&self) -> &CodeOrigin {
        &self.info.code
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.host.engine
    }

    /// The interfaces that the module imports and exports.
    #[must_use]
    pub fn interfaces(&self) -> ComponentInterfaces {
        ComponentInterfaces::from_component(&self.host.engine, self.hook.component())
    }

    /// The name that the hook can query as its own.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Calls a hook point on a fresh instance, even if the module does not subscribe to the hook point.
    /// Needs a tokio runtime with time.
    pub async fn call(&self, context: &CallContext, call: &Call<'_>) -> CallReport {
        guest_call::call(&self.host, &self.hook, &self.info.name, context, call).await
    }
}

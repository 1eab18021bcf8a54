//! Errors of linking a component as a hook.

use super::HANDLER;
use super::interface_name::{FORMER_PACKAGE, PACKAGE};

/// Why a component cannot be linked as a hook.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The component does not export the interface `handler`.
    #[error(
        "it is not a {PACKAGE}@{supported} component: the export {PACKAGE}/{HANDLER}@{supported} is \
         missing; it exports {exports}: build it with the SDK, or from the WIT, of \
         {PACKAGE}@{supported} (in Rust, hooks_sdk::export!(YourHook) may be missing)"
    )]
    NoHandler {
        /// The exports of the component.
        exports: String,
        /// The first version of the newest line that this host supports.
        supported: &'static str,
    },
    /// The component is built for the name that the package had before its first release.
    #[error(
        "it is built for {FORMER_PACKAGE}@{found}, which is called {PACKAGE}@{supported} now: build it \
         again with the SDK, or from the WIT, of {PACKAGE}@{supported} (`virt-hook new` writes it \
         into the directory sdk/ of a project; docs/sdk.md describes how to update that directory)"
    )]
    FormerPackage {
        /// The version of the package that the component is built for.
        found: String,
        /// The first version of the newest line that this host supports.
        supported: &'static str,
    },
    /// The component is built for a line that this host does not support.
    #[error(
        "it is built for {PACKAGE}@{found}, and this host runs {PACKAGE}@{supported} and what is \
         compatible with it: build it for {PACKAGE}@{supported}, or take a version of this program \
         that runs {PACKAGE}@{found}"
    )]
    UnsupportedVersion {
        /// The version that the component exports.
        found: String,
        /// The version that this host supports.
        supported: String,
    },
    /// The component imports an interface of the package that this host does not have.
    #[error(
        "it needs the interface {name}, which this host of {PACKAGE}@{supported} does not have: \
         build it without, or take a version of this program that has it"
    )]
    MissingInterface {
        /// The interface with its version.
        name: String,
        /// The version that this host supports.
        supported: String,
    },
    /// An import or export has other types than the host's, or an import is of another package.
    #[error("it is not a {PACKAGE}@{supported} component: {error}")]
    Mismatch {
        /// The first version of the line that the component is built for.
        supported: &'static str,
        /// wasmtime's error, with its causes.
        error: String,
    },
}

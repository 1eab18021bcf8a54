//! Errors of wrapping a module.

use crate::{MAX_MODULE_BYTES, WORLD};

/// Why a file cannot be wrapped.
#[derive(Debug, thiserror::Error)]
pub enum WrapError {
    /// The file is a component already.
    #[error("it is a component already: use it as it is")]
    Component,
    /// The file is a truncated or damaged component.
    #[error("it is a damaged component ({0}): build it, or copy it, again")]
    DamagedComponent(String),
    /// The file is not WebAssembly, or damaged.
    #[error("it is not a core WebAssembly module: {0}")]
    NotAModule(String),
    /// The file exceeds the size limit.
    #[error("it has {size} bytes, more than the {MAX_MODULE_BYTES} a hook may have")]
    TooLarge {
        /// The size of the file in bytes.
        size: usize,
    },
    /// The module is built for the name that the WIT package had before its first release.
    #[error(
        "it is built for kubevirt:hooks, which is called virt-hook:hooks@0.1.0 now: build it again \
         with the SDK, or from the WIT, of virt-hook:hooks@0.1.0 (`virt-hook new` writes it into the \
         directory sdk/ of a project)"
    )]
    FormerPackage,
    /// Go's compiler made the module, and it does not contain the SDK.
    #[error(
        "Go's compiler made it without the SDK's package hooks, which holds the memory that WASI needs \
         while Go starts: import it (`virt-hook new --lang go` writes it into the directory sdk/ of a project)"
    )]
    GoWithoutSdk,
    /// The SDK's variable for WASI's memory is in use, or there are several.
    #[error(
        "{0}: WASI's memory would overwrite other data; use the SDK of `virt-hook new --lang go` unchanged, and the text \
         \"virt-hook: memory for WASI here.\" nowhere else"
    )]
    GoMemory(String),
    /// The module needs an interface that the WIT of this program does not have.
    #[error(
        "it needs the interface {0}, which this program does not have: build it without, or take a \
         version of this program that has it"
    )]
    MissingInterface(String),
    /// The module exports no function of the interfaces of hooks.
    #[error(
        "it is no hook: it exports no function of virt-hook:hooks, such as `describe` of the interface handler: build it \
         with the SDK that `virt-hook new` writes"
    )]
    NotAHook,
    /// The exports or imports do not fit the world of hooks.
    #[error("it does not fit the world `{WORLD}` of virt-hook:hooks@0.1.0: {0}")]
    DoesNotFit(String),
}

impl WrapError {
    /// Whether the file is not a core module or too large, rather than a module that is not a hook.
    #[must_use]
    pub fn is_not_a_core_module(&self) -> bool {
        match self {
            Self::Component
            | Self::DamagedComponent(_)
            | Self::NotAModule(_)
            | Self::TooLarge { .. } => true,
            Self::FormerPackage
            | Self::GoWithoutSdk
            | Self::GoMemory(_)
            | Self::MissingInterface(_)
            | Self::NotAHook
            | Self::DoesNotFit(_) => false,
        }
    }
}

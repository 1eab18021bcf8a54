//! Wraps a core WebAssembly module, as clang and `wasm32-unknown-unknown` produce it, into a hook
//! component.
//!
//! A component declares typed imports and exports; a core module has only numbers. For languages
//! whose compiler stops at the core module, this crate adds the types of the world in
//! `hooks-sdk/wit` to the module's exports, and translates WASI preview 1 (which Go's runtime and C's
//! `printf` need, for example) to the WASI that the host links and grants nothing of.

mod go_adapter_memory;

use std::collections::BTreeSet;

use go_adapter_memory::GoAdapterMemoryError;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as PREVIEW1,
    WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER,
};
use wasmparser::{Encoding, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

/// The boundary between hooks and their host, `virt-hook:hooks@0.1.0`, as WIT text.
pub const WIT: &str = include_str!("../../../hooks-sdk/wit/v0.1/hooks.wit");

/// The optional interfaces of `virt-hook:hooks@0.1.1`, as WIT text.
pub const OPTIONAL_WIT: &str = include_str!("../../../hooks-sdk/wit/v0.1.1/optional.wit");

/// The world in [`WIT`] that hooks are written for.
pub const WORLD: &str = "hook";

/// The interfaces of [`WIT`].
const BASE: [&str; 3] = ["handler", "host", "types"];

/// The name of the package before its first release.
const FORMER_PACKAGE: &str = "kubevirt:hooks/";

/// The largest core module in bytes, which is the host's limit of a module.
pub const MAX_MODULE_BYTES: usize = 32 << 20;

/// The start of WebAssembly.
const MAGIC: &[u8] = b"\0asm";

/// What Go's compiler writes into the section `producers`.
const GO_COMPILER: &[u8] = b"Go cmd/compile";

/// The custom section in which bindings generators store the world; some add a suffix.
const TYPE_SECTION: &str = "component-type";

/// Why a file was not wrapped.
#[derive(Debug, thiserror::Error)]
pub enum WrapError {
    /// The file is a component already.
    #[error("it is a component already: use it as it is")]
    Component,
    /// The file is a component, and not a whole one.
    #[error("it is a damaged component ({0}): build it, or copy it, again")]
    DamagedComponent(String),
    /// The file is not WebAssembly, or damaged.
    #[error("it is not a core WebAssembly module: {0}")]
    NotAModule(String),
    /// The file exceeds the size limit.
    #[error("it has {size} bytes, more than the {MAX_MODULE_BYTES} a hook may have")]
    TooLarge {
        /// Its bytes.
        size: usize,
    },
    /// The module is built for the package's name before its first release.
    #[error(
        "it is built for kubevirt:hooks, which is called virt-hook:hooks@0.1.0 now: build it again \
         with the SDK, or from the WIT, of virt-hook:hooks@0.1.0 (`virt-hook new` writes it into the \
         directory sdk/ of a project)"
    )]
    FormerPackage,
    /// The module is of Go's compiler, and does not contain the SDK.
    #[error(
        "Go's compiler made it without the SDK's package hooks, which holds the memory that WASI needs \
         while Go starts: import it (`virt-hook new --lang go` writes it into the directory sdk/ of a project)"
    )]
    GoWithoutSdk,
    /// The SDK's variable cannot be distinguished from other data.
    #[error(
        "{0}: WASI's memory would overwrite other data; use the SDK of `virt-hook new --lang go` unchanged, and the text \
         \"virt-hook: memory for WASI here.\" nowhere else"
    )]
    GoMemory(String),
    /// The exports or imports are not those of a hook.
    #[error("it does not fit the world `{WORLD}` of virt-hook:hooks@0.1: {0}")]
    DoesNotFit(String),
}

impl WrapError {
    /// Whether the file is not a core module, whatever is in it.
    #[must_use]
    pub fn is_about_the_file(&self) -> bool {
        match self {
            Self::Component
            | Self::DamagedComponent(_)
            | Self::NotAModule(_)
            | Self::TooLarge { .. } => true,
            Self::FormerPackage | Self::GoWithoutSdk | Self::GoMemory(_) | Self::DoesNotFit(_) => {
                false
            }
        }
    }
}

/// The properties of a core module that wrapping depends on.
#[derive(Default)]
struct CoreModule {
    /// It contains the world that it was written for.
    has_world: bool,
    /// It imports WASI preview 1.
    wants_preview1: bool,
    /// Go's compiler made it.
    is_go: bool,
    /// The optional interfaces that it imports or exports, as items of a world.
    optional: BTreeSet<String>,
}

/// Wraps a core module into a component.
///
/// A module that contains its own world (wit-bindgen for Rust stores it) keeps it; any other is
/// assumed to be written for [`WORLD`] with those optional interfaces that it imports and exports. The result is deterministic.
pub fn wrap(core: &[u8]) -> Result<Vec<u8>, WrapError> {
    if core.len() > MAX_MODULE_BYTES {
        return Err(WrapError::TooLarge { size: core.len() });
    }
    if !core.starts_with(MAGIC) {
        let start = core[..core.len().min(8)].escape_ascii();
        return Err(WrapError::NotAModule(match core.is_empty() {
            true => "it is empty".to_owned(),
            false => format!("it starts with \"{start}\""),
        }));
    }
    let found = inspect(core)?;
    let mut module = match found.is_go && found.wants_preview1 {
        true => go_adapter_memory::with_adapter_memory(core)
            .map_err(unusable_go_module)?
            .ok_or(WrapError::GoWithoutSdk)?,
        false => core.to_vec(),
    };
    if !found.has_world {
        let (resolve, world) = world_with(&found.optional)?;
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
            .map_err(does_not_fit)?;
    }
    let mut encoder = ComponentEncoder::default();
    if found.wants_preview1 {
        encoder.adapter(PREVIEW1, ADAPTER).map_err(does_not_fit)?;
    }
    encoder
        .module(&module)
        .and_then(|encoder| encoder.validate(true).encode())
        .map_err(does_not_fit)
}

/// The resolved world of hooks. An error would be in this crate's own WIT, which its tests rule out.
pub fn world() -> Result<(Resolve, WorldId), WrapError> {
    world_with(&BTreeSet::new())
}

/// The world of hooks with these items.
fn world_with(items: &BTreeSet<String>) -> Result<(Resolve, WorldId), WrapError> {
    let mut resolve = Resolve::default();
    let mut push = |name, text: &str| resolve.push_source(name, text).map_err(does_not_fit);
    let mut package = push("hooks.wit", WIT)?;
    if !items.is_empty() {
        push("optional.wit", OPTIONAL_WIT)?;
        let items: String = items.iter().map(|item| format!("{item}; ")).collect();
        let world = format!(
            "package virt-hook:module; world {WORLD} {{ include virt-hook:hooks/hook@0.1.0; {items}}}"
        );
        package = push("module.wit", &world)?;
    }
    let world = resolve
        .select_world(&[package], Some(WORLD))
        .map_err(does_not_fit)?;
    Ok((resolve, world))
}

fn inspect(core: &[u8]) -> Result<CoreModule, WrapError> {
    let mut found = CoreModule::default();
    for payload in Parser::new(0).parse_all(core) {
        match payload.map_err(not_a_module)? {
            Payload::Version {
                encoding: Encoding::Component,
                ..
            } => return Err(component(core)),
            Payload::CustomSection(section) if section.name().starts_with(TYPE_SECTION) => {
                found.has_world = true;
            }
            Payload::CustomSection(section) if section.name() == "producers" => {
                let mut parts = section.data().windows(GO_COMPILER.len());
                found.is_go = parts.any(|part| part == GO_COMPILER);
            }
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import.map_err(not_a_module)?;
                    found.wants_preview1 |= import.module == PREVIEW1;
                    check_package(import.module)?;
                    found.optional.extend(optional("import", import.module));
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    let export = export.map_err(not_a_module)?;
                    check_package(export.name)?;
                    let interface = export.name.split_once('#').map(|(name, _)| name);
                    found
                        .optional
                        .extend(interface.and_then(|name| optional("export", name)));
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The item of a world for an optional interface, such as `export virt-hook:hooks/attach-device@0.1.1`.
fn optional(direction: &str, interface: &str) -> Option<String> {
    let (name, version) = interface
        .strip_prefix("virt-hook:hooks/")?
        .split_once('@')?;
    let is_name = |text: &str| {
        let mut bytes = text.bytes();
        bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
    };
    let is_optional = !BASE.contains(&name) && is_name(name) && is_name(version);
    is_optional.then(|| format!("{direction} {interface}"))
}

fn check_package(name: &str) -> Result<(), WrapError> {
    if name.starts_with(FORMER_PACKAGE) {
        return Err(WrapError::FormerPackage);
    }
    Ok(())
}

/// The error for a component, whole or not.
fn component(bytes: &[u8]) -> WrapError {
    let damage = Parser::new(0).parse_all(bytes).find_map(Result::err);
    damage.map_or(WrapError::Component, |damage| {
        WrapError::DamagedComponent(damage.to_string())
    })
}

fn not_a_module(error: wasmparser::BinaryReaderError) -> WrapError {
    WrapError::NotAModule(error.to_string())
}

fn unusable_go_module(error: GoAdapterMemoryError) -> WrapError {
    match error {
        GoAdapterMemoryError::Damaged(error) => not_a_module(error),
        other => WrapError::GoMemory(other.to_string()),
    }
}

/// The whole error chain of wit-component; its last part is the mistake.
fn does_not_fit(error: impl std::fmt::Display) -> WrapError {
    WrapError::DoesNotFit(format!("{error:#}"))
}

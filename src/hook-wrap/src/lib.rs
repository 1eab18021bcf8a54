//! Wraps a core WebAssembly module, as clang and `wasm32-unknown-unknown` produce it, into a hook
//! component.
//!
//! A component declares typed imports and exports; a core module has only numbers. For languages
//! whose compiler emits only a core module, this crate adds the types of the world in
//! `hooks-sdk/wit` to the module's exports, and translates WASI preview 1 (which Go's runtime and C's
//! `printf` need, for example) to the WASI that the host links without granting any access.

mod core_module;
mod error;
mod go_adapter_memory;

use std::collections::BTreeSet;

use go_adapter_memory::GoAdapterMemoryError;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as PREVIEW1,
    WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

use crate::core_module::{CoreModule, not_a_module};

pub use crate::error::WrapError;

/// The interfaces between hooks and their host, `virt-hook:hooks@0.1.0`, as WIT text.
pub const WIT: &str = include_str!("../../../hooks-sdk/wit/v0.1/hooks.wit");

/// The optional interfaces of `virt-hook:hooks@0.1.1`, as WIT text.
pub const OPTIONAL_WIT: &str = include_str!("../../../hooks-sdk/wit/v0.1.1/optional.wit");

/// The world in [`WIT`] that hooks are written for.
pub const WORLD: &str = "hook";

/// The maximum size of a core module in bytes, which is also the host's limit for a module.
pub const MAX_MODULE_BYTES: usize = 32 << 20;

/// The first bytes of every WebAssembly file.
const MAGIC: &[u8] = b"\0asm";

/// Wraps a core module into a component.
///
/// A module that contains its own world (wit-bindgen for Rust stores it) keeps it; any other is
/// assumed to be written for [`WORLD`] with those optional interfaces that it imports and exports.
/// The result is deterministic.
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
    let properties = CoreModule::inspect(core)?;
    let mut module = match properties.is_go && properties.imports_preview1 {
        true => go_adapter_memory::with_adapter_memory(core)
            .map_err(go_memory_error)?
            .ok_or(WrapError::GoWithoutSdk)?,
        false => core.to_vec(),
    };
    if !properties.exports_hook {
        return Err(WrapError::NotAHook);
    }
    if !properties.has_world {
        let (resolve, world) = world_with(&properties.optional_items)?;
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
            .map_err(does_not_fit)?;
    }
    let mut encoder = ComponentEncoder::default();
    if properties.imports_preview1 {
        encoder.adapter(PREVIEW1, ADAPTER).map_err(does_not_fit)?;
    }
    encoder
        .module(&module)
        .and_then(|encoder| encoder.validate(true).encode())
        // What comes before says that the module is not valid.
        .map_err(|error| does_not_fit(error.root_cause()))
}

/// The resolved world of hooks. An error would be a mistake in this crate's own WIT, which its tests rule out.
pub fn world() -> Result<(Resolve, WorldId), WrapError> {
    world_with(&BTreeSet::new())
}

/// The resolved world of hooks with these additional imports and exports.
fn world_with(items: &BTreeSet<String>) -> Result<(Resolve, WorldId), WrapError> {
    let mut resolve = Resolve::default();
    let mut push = |name, text: &str| resolve.push_source(name, text).map_err(does_not_fit);
    let mut package = push("hooks.wit", WIT)?;
    if !items.is_empty() {
        push("optional.wit", OPTIONAL_WIT)?;
        if let Some(item) = items.iter().find(|item| !has_interface(&resolve, item)) {
            let name = item.split_once(' ').map_or(item.as_str(), |(_, name)| name);
            return Err(WrapError::MissingInterface(name.to_owned()));
        }
        let mut push = |name, text: &str| resolve.push_source(name, text).map_err(does_not_fit);
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

/// Whether the WIT has the interface of an item of a world, such as `import virt-hook:hooks/pod@0.1.1`.
fn has_interface(resolve: &Resolve, item: &str) -> bool {
    resolve.interfaces.iter().any(|(id, _)| {
        let name = resolve.id_of(id);
        name.is_some_and(|name| item.ends_with(&format!(" {name}")))
    })
}

fn go_memory_error(error: GoAdapterMemoryError) -> WrapError {
    match error {
        GoAdapterMemoryError::Damaged(error) => not_a_module(error),
        other => WrapError::GoMemory(other.to_string()),
    }
}

/// The error with all causes, because the last one names the mistake.
fn does_not_fit(error: impl std::fmt::Display) -> WrapError {
    WrapError::DoesNotFit(format!("{error:#}"))
}

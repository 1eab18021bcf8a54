//! From a core WebAssembly module, as clang and `wasm32-unknown-unknown` make them, to the component
//! that a hook is.
//!
//! A component says in types what it imports and exports; a core module only has numbers. Languages
//! whose compiler ends at the core module are taken the rest of the way here: the world of
//! `hooks-sdk/wit` is laid over the module's exports, and what it asks of WASI's first version (C's
//! `printf`, say) is translated to what the host links, where nothing is granted.

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as PREVIEW1,
    WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER,
};
use wasmparser::{Encoding, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

/// The boundary between hooks and their host, `kubevirt:hooks@0.1.0`, as WIT text.
pub const WIT: &str = include_str!("../../../hooks-sdk/wit/v0.1/hooks.wit");

/// The world in [`WIT`] that hooks are written for.
pub const WORLD: &str = "hook";

/// The most bytes of a core module that are looked at: what the host takes of a whole hook.
pub const LARGEST: usize = 32 << 20;

/// Bindings generators leave the world in a section of this name, and some add a suffix.
const TYPE_SECTION: &str = "component-type";

/// Why a file was not made a component.
#[derive(Debug, thiserror::Error)]
pub enum WrapError {
    /// There is nothing to do.
    #[error("it is a component already: use it as it is")]
    Component,
    /// Not WebAssembly, or damaged.
    #[error("it is not a core WebAssembly module: {0}")]
    NotAModule(String),
    /// More than a hook may have.
    #[error("it has {size} bytes, more than the {LARGEST} a hook may have")]
    TooLarge {
        /// Its bytes.
        size: usize,
    },
    /// Its exports or imports are not those of a hook.
    #[error("it does not fit the world `{WORLD}` of kubevirt:hooks@0.1: {0}")]
    DoesNotFit(String),
}

/// What a core module says of itself, as far as wrapping must know.
#[derive(Default)]
struct Core {
    /// It brings the world that it was written for.
    has_world: bool,
    /// It calls WASI's first version.
    wants_preview1: bool,
}

/// Makes a component of a core module.
///
/// A module that brings its own world (wit-bindgen for Rust leaves it there) keeps it; any other is
/// taken to be written for [`WORLD`]. The same bytes give the same component.
pub fn wrap(core: &[u8]) -> Result<Vec<u8>, WrapError> {
    if core.len() > LARGEST {
        return Err(WrapError::TooLarge { size: core.len() });
    }
    let found = look(core)?;
    let mut module = core.to_vec();
    if !found.has_world {
        let (resolve, world) = world()?;
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

/// The world of hooks, resolved. A failure would be one of this crate's own text, which its tests rule out.
pub fn world() -> Result<(Resolve, WorldId), WrapError> {
    let mut resolve = Resolve::default();
    let package = resolve
        .push_source("hooks.wit", WIT)
        .map_err(does_not_fit)?;
    let world = resolve
        .select_world(&[package], Some(WORLD))
        .map_err(does_not_fit)?;
    Ok((resolve, world))
}

fn look(core: &[u8]) -> Result<Core, WrapError> {
    let mut found = Core::default();
    for payload in Parser::new(0).parse_all(core) {
        match payload.map_err(not_a_module)? {
            Payload::Version {
                encoding: Encoding::Component,
                ..
            } => return Err(WrapError::Component),
            Payload::CustomSection(section) if section.name().starts_with(TYPE_SECTION) => {
                found.has_world = true;
            }
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import.map_err(not_a_module)?;
                    found.wants_preview1 |= import.module == PREVIEW1;
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

fn not_a_module(error: wasmparser::BinaryReaderError) -> WrapError {
    WrapError::NotAModule(error.to_string())
}

/// wit-component tells in several lines what contains what; the last is what is wrong.
fn does_not_fit(error: impl std::fmt::Display) -> WrapError {
    WrapError::DoesNotFit(format!("{error:#}"))
}

//! Reads the properties of a core module that wrapping depends on.

use std::collections::BTreeSet;

use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as PREVIEW1;
use wasmparser::{Encoding, Parser, Payload};

use crate::WrapError;

/// The interfaces of [`WIT`](crate::WIT), which every hook has: they are not optional.
const BASE_INTERFACES: [&str; 3] = ["handler", "host", "types"];

/// How the names of interfaces of hooks begin.
const PACKAGE: &str = "virt-hook:hooks/";
/// The name of the package before its first release.
const FORMER_PACKAGE: &str = "kubevirt:hooks/";

/// The name of Go's compiler in the custom section `producers`.
const GO_COMPILER: &[u8] = b"Go cmd/compile";

/// The custom section in which bindings generators store the world; some add a suffix.
const WORLD_SECTION: &str = "component-type";

/// The properties of a core module that wrapping depends on.
#[derive(Default)]
pub(crate) struct CoreModule {
    /// Whether the module contains the world that it was written for.
    pub(crate) has_world: bool,
    /// Whether the module imports WASI preview 1.
    pub(crate) imports_preview1: bool,
    /// Whether Go's compiler made the module.
    pub(crate) is_go: bool,
    /// Whether the module exports a function of an interface of hooks.
    pub(crate) exports_hook: bool,
    /// The optional interfaces that the module imports or exports, as items of a world.
    pub(crate) optional_items: BTreeSet<String>,
}

impl CoreModule {
    /// Reads the properties of a module, or says why the file is not a core module of a hook.
    pub(crate) fn inspect(core: &[u8]) -> Result<Self, WrapError> {
        let mut module = Self::default();
        for payload in Parser::new(0).parse_all(core) {
            match payload.map_err(not_a_module)? {
                Payload::Version {
                    encoding: Encoding::Component,
                    ..
                } => return Err(component_error(core)),
                Payload::CustomSection(section) if section.name().starts_with(WORLD_SECTION) => {
                    module.has_world = true;
                }
                Payload::CustomSection(section) if section.name() == "producers" => {
                    let mut parts = section.data().windows(GO_COMPILER.len());
                    module.is_go = parts.any(|part| part == GO_COMPILER);
                }
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        let import = import.map_err(not_a_module)?;
                        module.imports_preview1 |= import.module == PREVIEW1;
                        check_package(import.module)?;
                        module
                            .optional_items
                            .extend(optional_item("import", import.module));
                    }
                }
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let export = export.map_err(not_a_module)?;
                        check_package(export.name)?;
                        module.exports_hook |= export.name.contains(PACKAGE);
                        let interface = export.name.split_once('#').map(|(name, _)| name);
                        module
                            .optional_items
                            .extend(interface.and_then(|name| optional_item("export", name)));
                    }
                }
                _ => {}
            }
        }
        Ok(module)
    }
}

/// The item of a world for an optional interface, such as `export virt-hook:hooks/attach-device@0.1.1`.
fn optional_item(direction: &str, interface: &str) -> Option<String> {
    let (name, version) = interface.strip_prefix(PACKAGE)?.split_once('@')?;
    let is_name = |text: &str| {
        let mut bytes = text.bytes();
        bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
    };
    let is_optional = !BASE_INTERFACES.contains(&name) && is_name(name) && is_name(version);
    is_optional.then(|| format!("{direction} {interface}"))
}

fn check_package(name: &str) -> Result<(), WrapError> {
    if name.starts_with(FORMER_PACKAGE) {
        return Err(WrapError::FormerPackage);
    }
    Ok(())
}

/// The error for a component, complete or damaged.
fn component_error(bytes: &[u8]) -> WrapError {
    let parse_error = Parser::new(0).parse_all(bytes).find_map(Result::err);
    parse_error.map_or(WrapError::Component, |error| {
        WrapError::DamagedComponent(error.to_string())
    })
}

pub(crate) fn not_a_module(error: wasmparser::BinaryReaderError) -> WrapError {
    WrapError::NotAModule(error.to_string())
}

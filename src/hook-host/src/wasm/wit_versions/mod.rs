//! Links a component against the version of the WIT that it is built for, through the adapter of that version's line.
//!
//! A line is a semver range of versions; below 1.0 it is `0.MINOR`. Within a line, additions are
//! functions of new optional interfaces ([`optional_imports`]), and names in the description. So a module that is built
//! for 0.1.1 runs on a host of 0.1.0 unless it imports an interface that only 0.1.1 has, or its description names a hook
//! point, a migration parameter or a fact about the pod that only 0.1.1 has ([`crate::DescriptionError::UnknownName`]).

mod interface_name;
mod limited_wasi_files;
mod link_error;
mod optional_exports;
mod optional_imports;
mod pod_interface;
mod supported_version_lines;
#[cfg(test)]
#[path = "optional_interface_tests.rs"]
mod tests;
mod v0_1;
mod wasi_stubs;

use semver::Version;
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Store};

use super::call_types::{Answer, Call, CallError};
use super::component_interfaces::{ComponentInterfaces, Interface};
use super::store_state::StoreState;
use crate::HookPoint;
use interface_name::{FORMER_PACKAGE, InterfaceName};
pub use link_error::LinkError;
pub(super) use pod_interface::NAME as POD_INTERFACE;
use supported_version_lines::Line;

/// The interface that a component must export to be a hook.
const HANDLER: &str = "handler";
/// Maximum number of exports in an error.
const MAX_EXPORTS: usize = 8;

/// A component that is linked against the line that it is built for.
#[derive(Clone)]
pub(super) enum HookBinding {
    V0_1(BindingsByAccess<v0_1::Binding>),
}

/// What exists twice: without and with access to directories.
#[derive(Clone)]
pub(super) struct BindingsByAccess<B> {
    /// Files and sockets are stubs.
    without_dirs: B,
    /// Files are wasmtime's, for granted directories; sockets are stubs.
    with_dirs: B,
}

impl<B> BindingsByAccess<B> {
    fn binding(&self, store: &Store<StoreState>) -> &B {
        match store.data().has_dirs() {
            true => &self.with_dirs,
            false => &self.without_dirs,
        }
    }

    fn try_map<T>(
        &self,
        map: impl Fn(&B) -> wasmtime::Result<T>,
    ) -> wasmtime::Result<BindingsByAccess<T>> {
        Ok(BindingsByAccess {
            without_dirs: map(&self.without_dirs)?,
            with_dirs: map(&self.with_dirs)?,
        })
    }
}

/// The newest version of the WIT package `virt-hook:hooks` that this host implements.
#[must_use]
pub fn package_version() -> Version {
    Line::NEWEST.newest_version()
}

/// A linker with all interfaces that a component may import: those of all lines, and those of WASI. [`link`] replaces
/// the parts of WASI with access to the outside by stubs.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<StoreState>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    limited_wasi_files::replace(&mut linker)?;
    for line in Line::ALL {
        line.add_to_linker(&mut linker)?;
    }
    Ok(linker)
}

/// Links a component against the line that it is built for.
pub(super) fn link(
    engine: &Engine,
    linker: &Linker<StoreState>,
    component: &Component,
) -> Result<HookBinding, LinkError> {
    let interfaces = ComponentInterfaces::from_component(engine, component);
    check_package(&interfaces)?;
    let line = line_of_handler(&interfaces.exports)?;
    check_imports(line, &interfaces.imports)?;
    let bind = || -> wasmtime::Result<_> {
        // Stubs accept all types that the component declares. So this checks first that the linker has each import.
        linker.instantiate_pre(component)?;
        let with_stubs =
            |packages: &[&str]| wasi_stubs::linker_with_stubs(packages, linker, engine, component);
        let linkers = BindingsByAccess {
            without_dirs: with_stubs(&[wasi_stubs::SOCKETS_PREFIX, wasi_stubs::FILES_PREFIX])?,
            with_dirs: with_stubs(&[wasi_stubs::SOCKETS_PREFIX])?,
        };
        line.bind(&linkers, component)
    };
    bind().map_err(|error| LinkError::Mismatch {
        supported: line.first_version(),
        error: format!("{error:#}"),
    })
}

fn check_package(interfaces: &ComponentInterfaces) -> Result<(), LinkError> {
    let mut all = interfaces.exports.iter().chain(&interfaces.imports);
    let former =
        all.find_map(|interface| InterfaceName::of_package(&interface.name, FORMER_PACKAGE));
    former.map_or(Ok(()), |former| {
        Err(LinkError::FormerPackage {
            found: former.version.to_string(),
            supported: Line::NEWEST.first_version(),
        })
    })
}

/// The newest line that the component exports the handler of.
fn line_of_handler(exports: &[Interface]) -> Result<Line, LinkError> {
    let names = exports
        .iter()
        .filter_map(|export| InterfaceName::parse(&export.name));
    let handlers: Vec<_> = names.filter(|name| name.interface == HANDLER).collect();
    let lines = || handlers.iter().filter_map(Line::of);
    if let Some(line) = Line::ALL
        .into_iter()
        .rfind(|line| lines().any(|of| of == *line))
    {
        return Ok(line);
    }
    Err(match handlers.first() {
        Some(handler) => LinkError::UnsupportedVersion {
            found: handler.version.to_string(),
            supported: package_version().to_string(),
        },
        None => LinkError::NoHandler {
            exports: export_list(exports),
            supported: Line::NEWEST.first_version(),
        },
    })
}

fn export_list(exports: &[Interface]) -> String {
    let names: Vec<&str> = exports
        .iter()
        .map(|export| export.name.as_str())
        .take(MAX_EXPORTS)
        .collect();
    if names.is_empty() {
        return "nothing".to_owned();
    }
    names.join(", ")
}

/// Checks that the host has each imported interface of the package. wasmtime reports a missing interface too, but
/// without a remedy.
fn check_imports(line: Line, imports: &[Interface]) -> Result<(), LinkError> {
    for import in imports {
        let Some(name) = InterfaceName::parse(&import.name) else {
            continue;
        };
        if !line.has_import(&name) {
            return Err(LinkError::MissingInterface {
                name: import.name.clone(),
                supported: line.newest_version().to_string(),
            });
        }
    }
    Ok(())
}

impl HookBinding {
    /// The compiled component.
    pub(super) fn component(&self) -> &Component {
        match self {
            Self::V0_1(bindings) => bindings.without_dirs.component(),
        }
    }

    /// The interface that the component would have to export to be called at the hook point, if it does not.
    pub(super) fn missing_interface(&self, point: HookPoint) -> Option<&'static str> {
        match self {
            Self::V0_1(bindings) => bindings.without_dirs.missing_interface(point),
        }
    }

    /// Calls `describe` on a fresh instance.
    pub(super) async fn describe(&self, store: &mut Store<StoreState>) -> wasmtime::Result<String> {
        match self {
            Self::V0_1(bindings) => bindings.without_dirs.describe(store).await,
        }
    }

    /// Calls a hook point on a fresh instance. The outer error is a trap, the inner error is a veto or failure of the
    /// hook.
    pub(super) async fn call(
        &self,
        store: &mut Store<StoreState>,
        call: &Call<'_>,
    ) -> wasmtime::Result<Result<Answer, CallError>> {
        match self {
            Self::V0_1(bindings) => bindings.binding(store).call(store, call).await,
        }
    }
}

//! The versions of the WIT: which line a component is built for, and the adapter of that line.
//!
//! Interfaces are looked up by semver range. Below 1.0 a line is `0.MINOR`: within it, additions are
//! functions of new optional interfaces ([`optional_imports`]), so a module that is built for 0.1.1
//! runs on a host of 0.1.0 unless it imports an interface that only 0.1.1 has.

mod closed_wasi;
mod interface_name;
mod limited_wasi_files;
mod optional_exports;
mod optional_imports;
mod pod_interface;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "optional_interface_tests.rs"]
mod tests;
mod v0_1;

use semver::Version;
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Store};

use super::call_and_answer::{Answer, Call, CallError};
use super::component_interfaces::{ComponentInterfaces, Interface};
use super::store_state::StoreState;
use crate::HookPoint;
use interface_name::{FORMER_PACKAGE, InterfaceName, PACKAGE};
pub(super) use pod_interface::NAME as POD_INTERFACE;

/// The interface that makes a component a hook.
const HANDLER: &str = "handler";
/// The most exports that an error lists.
const MAX_EXPORTS: usize = 8;

/// A component that is linked against the line that it is built for.
#[derive(Clone)]
pub(super) enum HookBinding {
    V0_1(Access<v0_1::Binding>),
}

/// A component, linked once for each reach that a call may have.
#[derive(Clone)]
pub(super) struct Access<B> {
    /// Without files and sockets.
    closed: B,
    /// With the directories that are granted; also without sockets.
    with_dirs: B,
}

impl<B> Access<B> {
    fn binding(&self, store: &Store<StoreState>) -> &B {
        match store.data().has_dirs() {
            true => &self.with_dirs,
            false => &self.closed,
        }
    }
}

/// Why a component is not a hook that this host can call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// It exports no handler.
    #[error(
        "it is not a {PACKAGE}@0.1 component: the export {PACKAGE}/{HANDLER}@{} is missing; it \
         exports {exports}: build it with the SDK, or from the WIT, of {PACKAGE}@0.1 (in Rust, \
         hooks_sdk::export!(YourHook) may be missing)",
        v0_1::VERSION
    )]
    NoHandler {
        /// What it exports instead.
        exports: String,
    },
    /// It is built for the package's name before its first release.
    #[error(
        "it is built for {FORMER_PACKAGE}@{found}, which is called {PACKAGE}@{supported} now: build it \
         again with the SDK, or from the WIT, of {PACKAGE}@{supported} (`virt-hook new` writes it \
         into the directory sdk/ of a project)"
    )]
    FormerPackage {
        /// The version that the component is built for.
        found: String,
        /// The version of this host.
        supported: String,
    },
    /// It is built for a line that this host does not have.
    #[error(
        "it is built for {PACKAGE}@{found}, and this host runs {PACKAGE}@{supported} and what is \
         compatible with it: build it for {PACKAGE}@{supported}, or take a version of this program \
         that runs {PACKAGE}@{found}"
    )]
    UnsupportedVersion {
        /// The version that the component exports.
        found: String,
        /// The version of this host.
        supported: String,
    },
    /// It imports an interface of the package that this host does not have.
    #[error(
        "it needs the interface {name}, which this host of {PACKAGE}@{supported} does not have: \
         build it without, or take a version of this program that has it"
    )]
    MissingInterface {
        /// The interface with its version.
        name: String,
        /// The version of this host.
        supported: String,
    },
    /// An import or export has other types than the host's, or an import is of another package.
    #[error("it is not a {PACKAGE}@0.1 component: {0}")]
    Mismatch(String),
}

/// The newest version of the WIT package `virt-hook:hooks` that this host implements.
#[must_use]
pub fn package_version() -> Version {
    // The constant is checked by a test.
    Version::parse(v0_1::NEWEST).unwrap_or(Version::new(0, 1, 0))
}

/// A linker with every interface that a component may import: those of all lines, and WASI. [`link`] replaces the parts of
/// WASI that reach outside.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<StoreState>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    limited_wasi_files::replace(&mut linker)?;
    v0_1::add_to_linker(&mut linker)?;
    for interface in optional_imports::INTERFACES {
        (interface.add_to_linker)(&mut linker)?;
    }
    Ok(linker)
}

/// Links a component against the line that it is built for.
pub(super) fn link(
    engine: &Engine,
    linker: &Linker<StoreState>,
    component: &Component,
) -> Result<HookBinding, LinkError> {
    let interfaces = ComponentInterfaces::of(engine, component);
    check_package(&interfaces)?;
    check_handler(&interfaces.exports)?;
    check_imports(&interfaces.imports)?;
    let bind = |closed: &[&str]| -> wasmtime::Result<_> {
        let linker = closed_wasi::without(closed, linker, engine, component)?;
        v0_1::Binding::new(&linker, component)
    };
    let access = || -> wasmtime::Result<_> {
        // A stub takes whatever types the component declares, so each import must first be one that wasmtime has.
        linker.instantiate_pre(component)?;
        Ok(Access {
            closed: bind(&[closed_wasi::SOCKETS, closed_wasi::FILES])?,
            with_dirs: bind(&[closed_wasi::SOCKETS])?,
        })
    };
    access()
        .map(HookBinding::V0_1)
        .map_err(|error| LinkError::Mismatch(format!("{error:#}")))
}

fn check_package(interfaces: &ComponentInterfaces) -> Result<(), LinkError> {
    let mut all = interfaces.exports.iter().chain(&interfaces.imports);
    let former = all.find_map(|each| InterfaceName::of_package(&each.name, FORMER_PACKAGE));
    former.map_or(Ok(()), |former| {
        Err(LinkError::FormerPackage {
            found: former.version.to_string(),
            supported: v0_1::VERSION.to_owned(),
        })
    })
}

fn check_handler(exports: &[Interface]) -> Result<(), LinkError> {
    let names = exports
        .iter()
        .filter_map(|export| InterfaceName::parse(&export.name));
    let handlers: Vec<_> = names.filter(|name| name.interface == HANDLER).collect();
    let host = package_version();
    if handlers.iter().any(|handler| handler.is_of_line(&host)) {
        return Ok(());
    }
    match handlers.first() {
        Some(handler) => Err(LinkError::UnsupportedVersion {
            found: handler.version.to_string(),
            supported: host.to_string(),
        }),
        None => Err(LinkError::NoHandler {
            exports: listed(exports),
        }),
    }
}

fn listed(exports: &[Interface]) -> String {
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

/// wasmtime names a missing interface too, but not what to do about it.
fn check_imports(imports: &[Interface]) -> Result<(), LinkError> {
    let host = package_version();
    for import in imports {
        let Some(name) = InterfaceName::parse(&import.name) else {
            continue;
        };
        let is_known = v0_1::IMPORTS.contains(&name.interface) && name.is_of_line(&host);
        if !is_known && !optional_imports::has(&name) {
            return Err(LinkError::MissingInterface {
                name: import.name.clone(),
                supported: host.to_string(),
            });
        }
    }
    Ok(())
}

impl HookBinding {
    /// The component itself.
    pub(super) fn component(&self) -> &Component {
        match self {
            Self::V0_1(access) => access.closed.component(),
        }
    }

    /// The interface that the component lacks to be called at a hook point.
    pub(super) fn missing(&self, point: HookPoint) -> Option<&'static str> {
        match self {
            Self::V0_1(access) => access.closed.missing(point),
        }
    }

    /// Calls `describe` on a fresh instance.
    pub(super) async fn describe(&self, store: &mut Store<StoreState>) -> wasmtime::Result<String> {
        match self {
            Self::V0_1(access) => access.closed.describe(store).await,
        }
    }

    /// Calls a hook point on a fresh instance. The outer error is a trap, the inner one the hook's
    /// own.
    pub(super) async fn call(
        &self,
        store: &mut Store<StoreState>,
        call: &Call<'_>,
    ) -> wasmtime::Result<Result<Answer, CallError>> {
        match self {
            Self::V0_1(access) => access.binding(store).call(store, call).await,
        }
    }
}

//! Interfaces of the host that a later patch version of the same semver range (0.1.x) adds, for modules to import.
//!
//! Bindings generators for C, Go and Python import every interface of a world, used or not. So an
//! optional interface is linked for every module, granted or not, and a call that is not granted
//! answers "denied". A module that imports an interface which this host does not have is refused.

use wasmtime::component::Linker;

use super::{InterfaceName, pod_interface};
use crate::wasm::store_state::StoreState;

/// An interface that modules may import without being granted its use.
pub(super) struct OptionalInterface {
    /// Name and version.
    pub(super) name: &'static str,
    /// Links its functions. Each of them asks [`StoreState::require`] first.
    pub(super) add_to_linker: fn(&mut Linker<StoreState>) -> wasmtime::Result<()>,
}

/// All optional interfaces.
pub(super) const INTERFACES: &[OptionalInterface] = &[
    OptionalInterface {
        name: pod_interface::INTERFACE,
        add_to_linker: pod_interface::add_to_linker,
    },
    #[cfg(test)]
    super::tests::NODE,
];

/// Whether the host has a compatible version of an optional interface.
pub(super) fn has(wanted: &InterfaceName<'_>) -> bool {
    let mut names = INTERFACES
        .iter()
        .filter_map(|known| InterfaceName::parse(known.name));
    names.any(|known| {
        known.interface == wanted.interface
            && wanted.is_of_line(&known.version)
            && wanted.version <= known.version
    })
}

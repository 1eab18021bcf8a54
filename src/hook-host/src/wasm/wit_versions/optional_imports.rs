//! The interfaces of the host that later patch versions of a line (0.1.x) add, for modules to import.
//!
//! Bindings generators for C, Go and Python import every interface of a world, even unused ones. So an optional
//! interface is linked for every module, and a call that is not granted returns "denied". A module that imports an
//! interface which this host does not have is refused.

use wasmtime::component::Linker;

use super::{InterfaceName, pod_interface};
use crate::wasm::store_state::StoreState;

/// An interface that modules may import without being granted its use.
pub(super) struct OptionalInterface {
    /// The name of the interface with its version.
    pub(super) name: &'static str,
    /// Adds the functions to a linker. Each function calls [`StoreState::require_interface`] first.
    pub(super) add_to_linker: fn(&mut Linker<StoreState>) -> wasmtime::Result<()>,
}

/// The optional interfaces of the line 0.1.
pub(super) const INTERFACES: &[OptionalInterface] = &[
    OptionalInterface {
        name: pod_interface::INTERFACE,
        add_to_linker: pod_interface::add_to_linker,
    },
    #[cfg(test)]
    super::tests::NODE,
];

/// Whether one of the interfaces has a version that is compatible with `imported`.
pub(super) fn is_supported(interfaces: &[OptionalInterface], imported: &InterfaceName<'_>) -> bool {
    let mut names = interfaces
        .iter()
        .filter_map(|interface| InterfaceName::parse(interface.name));
    names.any(|name| {
        name.interface == imported.interface
            && imported.is_in_range_of(&name.version)
            && imported.version <= name.version
    })
}

//! Interfaces that later versions of a line add.
//!
//! A module exports the interface of a hook point that is not in its line's first version. The host calls it only if
//! the description subscribes to the hook point.
//!
//! Bindings generators for C, Go and Python import every interface of a world, used or not. So an
//! optional interface is linked for every module, granted or not, and a call that is not granted
//! answers "denied". A module that imports an interface which this host does not have is refused.

use std::collections::BTreeMap;

use wasmtime::component::{Component, ComponentExportIndex, Linker};

use super::{InterfaceName, pod_interface};
use crate::HookPoint;
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

/// The interface of a hook point.
struct HookPointInterface {
    point: HookPoint,
    /// Name and version.
    name: &'static str,
    function: &'static str,
}

/// The hook points that have an interface of their own.
const HOOK_POINTS: &[HookPointInterface] = &[
    HookPointInterface {
        point: HookPoint::OnAttachDevice,
        name: "virt-hook:hooks/attach-device@0.1.1",
        function: "on-attach-device",
    },
    HookPointInterface {
        point: HookPoint::PreMigrationSource,
        name: "virt-hook:hooks/migration-source@0.1.1",
        function: "pre-migration-source",
    },
];

/// The functions of optional hook points that a module exports.
#[derive(Clone, Default)]
pub(super) struct ExportedHookPoints(BTreeMap<HookPoint, ComponentExportIndex>);

impl ExportedHookPoints {
    pub(super) fn of(component: &Component) -> Self {
        let exported = HOOK_POINTS.iter().filter_map(|known| {
            let interface = component.get_export_index(None, known.name)?;
            let function = component.get_export_index(Some(&interface), known.function)?;
            Some((known.point, function))
        });
        Self(exported.collect())
    }

    pub(super) fn function(&self, point: HookPoint) -> wasmtime::Result<&ComponentExportIndex> {
        let function = self.0.get(&point);
        function.ok_or_else(|| wasmtime::format_err!("the module does not export {point}"))
    }

    /// The interface that the module lacks to be called at a hook point.
    pub(super) fn missing(&self, point: HookPoint) -> Option<&'static str> {
        let mut known = HOOK_POINTS.iter();
        let known = known.find(|known| known.point == point)?;
        (!self.0.contains_key(&point)).then_some(known.name)
    }
}

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

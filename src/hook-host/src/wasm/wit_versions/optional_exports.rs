//! Hook points that later patch versions of a line (0.1.x) add, and which of them a module exports.
//!
//! Each of them has its own interface, which a module need not export. The host calls it only if the module subscribes to
//! the hook point.

use std::collections::BTreeMap;

use wasmtime::component::{Component, ComponentExportIndex};

use crate::HookPoint;

/// The interface of a hook point.
struct HookPointInterface {
    point: HookPoint,
    /// The name of the interface with its version.
    name: &'static str,
    function: &'static str,
}

/// The hook points that have their own interface.
const HOOK_POINT_INTERFACES: &[HookPointInterface] = &[
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

/// The functions that a module exports, by hook point.
#[derive(Clone, Default)]
pub(super) struct OptionalExports(BTreeMap<HookPoint, ComponentExportIndex>);

impl OptionalExports {
    pub(super) fn from_component(component: &Component) -> Self {
        let exported = HOOK_POINT_INTERFACES.iter().filter_map(|interface| {
            let instance = component.get_export_index(None, interface.name)?;
            let function = component.get_export_index(Some(&instance), interface.function)?;
            Some((interface.point, function))
        });
        Self(exported.collect())
    }

    pub(super) fn function(&self, point: HookPoint) -> wasmtime::Result<&ComponentExportIndex> {
        let function = self.0.get(&point);
        function.ok_or_else(|| wasmtime::format_err!("the module does not export {point}"))
    }

    /// The interface that the module would have to export to be called at the hook point, if it does not.
    pub(super) fn missing_interface(&self, point: HookPoint) -> Option<&'static str> {
        let mut interfaces = HOOK_POINT_INTERFACES.iter();
        let interface = interfaces.find(|interface| interface.point == point)?;
        (!self.0.contains_key(&point)).then_some(interface.name)
    }
}

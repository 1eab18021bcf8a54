//! The hook points that a later patch version of the same semver range (0.1.x) adds, and which of them a module exports.
//!
//! Each has an interface of its own. The host calls it only if the module's description subscribes to the hook point.

use std::collections::BTreeMap;

use wasmtime::component::{Component, ComponentExportIndex};

use crate::HookPoint;

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
pub(super) struct OptionalExports(BTreeMap<HookPoint, ComponentExportIndex>);

impl OptionalExports {
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

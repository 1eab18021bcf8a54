//! The six moments at which hooks are called, with their names.

use std::fmt;

/// A moment in a virtual machine's lifecycle at which hooks are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HookPoint {
    /// Before anything is prepared; see [`Hook::pre_start`](crate::Hook::pre_start).
    PreStart,
    /// See [`Hook::pre_cloud_init_iso`](crate::Hook::pre_cloud_init_iso).
    PreCloudInitIso,
    /// See [`Hook::on_define_domain`](crate::Hook::on_define_domain).
    OnDefineDomain,
    /// Before a device is attached to the running virtual machine; see
    /// [`Hook::on_attach_device`](crate::Hook::on_attach_device).
    OnAttachDevice,
    /// Before the virtual machine migrates to another node; see
    /// [`Hook::pre_migration_source`](crate::Hook::pre_migration_source).
    PreMigrationSource,
    /// See [`Hook::shutdown`](crate::Hook::shutdown).
    Shutdown,
}

impl HookPoint {
    /// All hook points of this version of the SDK, in the order of a virtual machine's life.
    pub const ALL: &'static [HookPoint] = &[
        HookPoint::PreStart,
        HookPoint::PreCloudInitIso,
        HookPoint::OnDefineDomain,
        HookPoint::OnAttachDevice,
        HookPoint::PreMigrationSource,
        HookPoint::Shutdown,
    ];

    /// The name of the hook point: KubeVirt's, where KubeVirt has one.
    pub fn name(self) -> &'static str {
        match self {
            HookPoint::PreStart => "PreStart",
            HookPoint::PreCloudInitIso => "PreCloudInitIso",
            HookPoint::OnDefineDomain => "OnDefineDomain",
            HookPoint::OnAttachDevice => "OnAttachDevice",
            HookPoint::PreMigrationSource => "PreMigrationSource",
            HookPoint::Shutdown => "Shutdown",
        }
    }
}

/// The name of the hook point: KubeVirt's, where KubeVirt has one.
impl fmt::Display for HookPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

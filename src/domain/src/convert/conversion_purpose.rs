//! The purpose of a conversion: a boot or the target of a migration.

/// The purpose of a conversion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose {
    /// The domain is started in this pod.
    #[default]
    Boot,
    /// The domain arrives by a migration, and its XML comes from the source. The converted domain only says which files
    /// and taps have to exist. Devices that are attached after the migration (host devices, hotplugged disks) are left
    /// out.
    MigrationTarget,
}

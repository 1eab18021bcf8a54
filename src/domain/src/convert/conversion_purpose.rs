//! What a converted domain is for.

/// What the converted domain is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose {
    /// It is defined here.
    #[default]
    Boot,
    /// It arrives here by a migration, from the source's description. The converted domain tells which files and
    /// taps have to be there: devices that are attached after the arrival (host devices, hotplugged disks) are left
    /// out.
    MigrationTarget,
}

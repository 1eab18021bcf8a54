//! Live migration of a running domain, on the side of the source.

use std::ops::BitOr;

use virt_sys as sys;

use crate::error::Result;

/// Migrates the domain to another host.
///
/// A migration is a job (see [`Jobs`](crate::Jobs)): [`abort_job`](crate::Jobs::abort_job) ends it, and
/// [`job_stats`](crate::Jobs::job_stats) has its progress. [`suspend`](crate::Power::suspend) works while the
/// migration runs; the domain is then [`Paused`](crate::DomainState::Paused) for
/// [`Migration`](crate::Reason::Migration).
pub trait Migration {
    /// Migrates the domain to the daemon at `destination`, a connection URI that this host's daemon connects to.
    ///
    /// The call lasts as long as the migration. After success the domain is shut off
    /// ([`Migrated`](crate::Reason::Migrated)) and its definition stays; after a failure the guest runs on here.
    fn migrate(&self, destination: &str, request: &MigrationRequest) -> Result<()>;

    /// Sets the maximum downtime of the running migration, in milliseconds.
    /// QEMU accepts 2,000,000 at most.
    fn set_max_downtime(&self, milliseconds: u64) -> Result<()>;

    /// Lets the guest continue on the target before all of its memory is there. Only for migrations with
    /// [`MigrationFlags::POST_COPY`]; from then on the migration cannot be aborted.
    fn start_post_copy(&self) -> Result<()>;
}

/// The flags and typed parameters of `virDomainMigrateToURI3`. A parameter that is `None` or an empty list is not
/// passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationRequest {
    /// The flags.
    pub flags: MigrationFlags,
    /// `migrate_uri`: where QEMU sends the guest's memory.
    pub uri: Option<String>,
    /// `destination_name`: the domain's name on the target.
    pub destination_name: Option<String>,
    /// `destination_xml`: the running domain on the target.
    pub destination_xml: Option<String>,
    /// `persistent_xml`: the definition on the target.
    pub persistent_xml: Option<String>,
    /// `bandwidth`, in MiB/s.
    pub bandwidth: Option<u64>,
    /// `parallel.connections`.
    pub parallel_connections: Option<i32>,
    /// `compression`, such as `zstd`.
    pub compression: Option<String>,
    /// `migrate_disks` and `migrate_disks_detect_zeroes`: the target names (`vda`) of the disks to copy.
    pub disks: Vec<String>,
    /// `disks_uri`: where QEMU sends the disks.
    pub disks_uri: Option<String>,
}

/// `virDomainMigrateFlags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigrationFlags(u32);

impl MigrationFlags {
    /// The guest runs during the migration.
    pub const LIVE: MigrationFlags = MigrationFlags(sys::VIR_MIGRATE_LIVE);
    /// This host's daemon talks to the target's.
    pub const PEER2PEER: MigrationFlags = MigrationFlags(sys::VIR_MIGRATE_PEER2PEER);
    /// The target keeps a definition.
    pub const PERSIST_DEST: MigrationFlags = MigrationFlags(sys::VIR_MIGRATE_PERSIST_DEST);
    /// The guest stays paused on the target.
    pub const PAUSED: MigrationFlags = MigrationFlags(sys::VIR_MIGRATE_PAUSED);
    /// Disks that are not shared are copied.
    pub const NON_SHARED_INC: MigrationFlags = MigrationFlags(sys::VIR_MIGRATE_NON_SHARED_INC);
    /// libvirt skips its safety checks.
    pub const UNSAFE: MigrationFlags = MigrationFlags(sys::VIR_MIGRATE_UNSAFE);
    /// Memory is compressed.
    pub const COMPRESSED: MigrationFlags = MigrationFlags(sys::VIR_MIGRATE_COMPRESSED);
    /// The guest is slowed down when it writes faster than memory is sent.
    pub const AUTO_CONVERGE: MigrationFlags = MigrationFlags(sys::VIR_MIGRATE_AUTO_CONVERGE);
    /// [`Migration::start_post_copy`] may follow.
    pub const POST_COPY: MigrationFlags = MigrationFlags(sys::VIR_MIGRATE_POSTCOPY);
    /// Memory is sent over several connections.
    pub const PARALLEL: MigrationFlags = MigrationFlags(sys::VIR_MIGRATE_PARALLEL);

    /// libvirt's bit mask.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of `flags` are set.
    pub fn contains(self, flags: MigrationFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// These flags if `condition` holds, none otherwise.
    pub fn when(self, condition: bool) -> MigrationFlags {
        if condition {
            self
        } else {
            MigrationFlags::default()
        }
    }
}

impl BitOr for MigrationFlags {
    type Output = MigrationFlags;

    fn bitor(self, other: MigrationFlags) -> MigrationFlags {
        MigrationFlags(self.0 | other.0)
    }
}

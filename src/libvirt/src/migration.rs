//! Live migration of a running domain, as its source sees it.

use std::ops::BitOr;

use crate::error::Result;

/// Sends the domain to another host.
///
/// A migration is a job (see [`Jobs`](crate::Jobs)): [`abort_job`](crate::Jobs::abort_job) ends it, and
/// [`job_stats`](crate::Jobs::job_stats) has its progress. [`suspend`](crate::Power::suspend) is answered while it
/// runs; the domain is then [`Paused`](crate::DomainState::Paused) for
/// [`Migration`](crate::Reason::Migration).
pub trait Migration {
    /// Migrates the domain to the daemon at `destination`, a connection URI as this host's daemon reaches it.
    ///
    /// The call lasts as long as the migration. After success the domain is shut off
    /// ([`Migrated`](crate::Reason::Migrated)) and its definition stays; after a failure it runs on.
    fn migrate(&self, destination: &str, request: &MigrationRequest) -> Result<()>;

    /// Sets the maximum downtime of the running migration, in milliseconds.
    /// QEMU accepts 2,000,000 at most.
    fn set_max_downtime(&self, milliseconds: u64) -> Result<()>;

    /// Lets the guest continue on the target before all of its memory is there. Only for migrations with
    /// [`MigrationFlags::POST_COPY`]; from then on the migration cannot be aborted.
    fn start_post_copy(&self) -> Result<()>;
}

/// What is migrated, and how: the typed parameters of `virDomainMigrateToURI3`. An empty list, `None` and no text are
/// left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationRequest {
    /// How.
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
    /// The guest runs meanwhile.
    pub const LIVE: MigrationFlags = MigrationFlags(1);
    /// This host's daemon talks to the target's.
    pub const PEER2PEER: MigrationFlags = MigrationFlags(2);
    /// The target keeps a definition.
    pub const PERSIST_DEST: MigrationFlags = MigrationFlags(8);
    /// The guest stays paused on the target.
    pub const PAUSED: MigrationFlags = MigrationFlags(32);
    /// Disks are copied.
    pub const NON_SHARED_INC: MigrationFlags = MigrationFlags(128);
    /// libvirt's safety checks are left out.
    pub const UNSAFE: MigrationFlags = MigrationFlags(512);
    /// Memory is compressed.
    pub const COMPRESSED: MigrationFlags = MigrationFlags(2048);
    /// The guest is slowed down when it writes faster than memory is sent.
    pub const AUTO_CONVERGE: MigrationFlags = MigrationFlags(8192);
    /// [`Migration::start_post_copy`] may follow.
    pub const POST_COPY: MigrationFlags = MigrationFlags(32_768);
    /// Memory is sent over several connections.
    pub const PARALLEL: MigrationFlags = MigrationFlags(131_072);

    /// libvirt's number.
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

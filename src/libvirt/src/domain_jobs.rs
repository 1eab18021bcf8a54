//! Jobs of a domain: long-running operations (`virDomainJob`), such as a memory dump or a migration.
//!
//! libvirt runs one job of a domain at a time. Calls that change the domain wait at most 30 s for the end of the job,
//! and then fail with [`OPERATION_TIMEOUT`](crate::error::code::OPERATION_TIMEOUT). Queries,
//! [`abort_job`](Jobs::abort_job) and [`destroy`](crate::Power::destroy) work during a job.

use std::ops::BitOr;

use virt_sys as sys;

use crate::error::Result;
use crate::typed_params::{ParamValue, find};

/// The jobs of a running domain.
pub trait Jobs {
    /// Writes the guest's memory and registers to a new file, an ELF core.
    ///
    /// The call lasts as long as the dump. A running guest is paused for the dump
    /// ([`Reason::Dump`](crate::Reason::Dump)) and resumed afterwards, also when the dump fails; an incomplete file is
    /// removed. If QEMU ends, the call fails with [`OPERATION_FAILED`](crate::error::code::OPERATION_FAILED).
    fn core_dump_memory(&self, path: &str) -> Result<()>;

    /// Aborts the running job. Fails with [`OPERATION_INVALID`](crate::error::code::OPERATION_INVALID) when no job
    /// runs, and during a memory dump, which QEMU cannot abort.
    fn abort_job(&self) -> Result<()>;

    /// The running job's progress.
    fn job_stats(&self) -> Result<JobStats>;

    /// The job that ended last. The daemon remembers it until another job ends, or the daemon itself.
    fn completed_job(&self) -> Result<CompletedJob>;
}

/// A job that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletedJob {
    /// How the job ended ([`JobType::None`] when the daemon remembers none), and its last statistics.
    pub stats: JobStats,
    /// libvirt's message, if the job failed.
    pub error: Option<String>,
}

/// Progress of a job. Values that libvirt does not report are `None`; sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobStats {
    /// Whether a job runs, or how it ended.
    pub job_type: JobType,
    /// What the job does.
    pub operation: JobOperation,
    /// Milliseconds since the job's start.
    pub time_elapsed: Option<u64>,
    /// Memory to transfer in total.
    pub memory_total: Option<u64>,
    /// Memory that has been transferred.
    pub memory_processed: Option<u64>,
    /// Memory that remains to be transferred.
    pub memory_remaining: Option<u64>,
    /// Memory and disks to transfer in total.
    pub data_total: Option<u64>,
    /// Memory and disks that have been transferred.
    pub data_processed: Option<u64>,
    /// Memory and disks that remain to be transferred.
    pub data_remaining: Option<u64>,
    /// Transfer rate of memory, in bytes per second.
    pub memory_bps: Option<u64>,
    /// Pages per second that the guest writes.
    pub memory_dirty_rate: Option<u64>,
    /// Size of a page.
    pub memory_page_size: Option<u64>,
    /// The number of the pass over the guest's memory, from 1.
    pub memory_iteration: Option<u64>,
}

/// `virDomainJobType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are libvirt's")]
pub enum JobType {
    #[default]
    None,
    Bounded,
    Unbounded,
    Completed,
    Failed,
    Cancelled,
    /// A type of a newer libvirt.
    Other,
}

/// `virDomainJobOperation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are libvirt's")]
pub enum JobOperation {
    #[default]
    Unknown,
    Start,
    Save,
    Restore,
    MigrationIn,
    MigrationOut,
    Snapshot,
    SnapshotRevert,
    Dump,
    Backup,
    SnapshotDelete,
}

impl JobType {
    fn decode(raw: i32) -> JobType {
        match raw.cast_unsigned() {
            sys::VIR_DOMAIN_JOB_NONE => JobType::None,
            sys::VIR_DOMAIN_JOB_BOUNDED => JobType::Bounded,
            sys::VIR_DOMAIN_JOB_UNBOUNDED => JobType::Unbounded,
            sys::VIR_DOMAIN_JOB_COMPLETED => JobType::Completed,
            sys::VIR_DOMAIN_JOB_FAILED => JobType::Failed,
            sys::VIR_DOMAIN_JOB_CANCELLED => JobType::Cancelled,
            _ => JobType::Other,
        }
    }
}

impl JobOperation {
    /// The operation of the job whose parameters these are, such as those of an [event](crate::Event::JobCompleted).
    pub fn of_params(params: &[(String, ParamValue)]) -> JobOperation {
        let number = find(params, sys::VIR_DOMAIN_JOB_OPERATION).and_then(ParamValue::as_u64);
        let number = number.and_then(|number| u32::try_from(number).ok());
        number.map(JobOperation::decode).unwrap_or_default()
    }

    fn decode(number: sys::virDomainJobOperation) -> JobOperation {
        match number {
            sys::VIR_DOMAIN_JOB_OPERATION_START => JobOperation::Start,
            sys::VIR_DOMAIN_JOB_OPERATION_SAVE => JobOperation::Save,
            sys::VIR_DOMAIN_JOB_OPERATION_RESTORE => JobOperation::Restore,
            sys::VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN => JobOperation::MigrationIn,
            sys::VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT => JobOperation::MigrationOut,
            sys::VIR_DOMAIN_JOB_OPERATION_SNAPSHOT => JobOperation::Snapshot,
            sys::VIR_DOMAIN_JOB_OPERATION_SNAPSHOT_REVERT => JobOperation::SnapshotRevert,
            sys::VIR_DOMAIN_JOB_OPERATION_DUMP => JobOperation::Dump,
            sys::VIR_DOMAIN_JOB_OPERATION_BACKUP => JobOperation::Backup,
            sys::VIR_DOMAIN_JOB_OPERATION_SNAPSHOT_DELETE => JobOperation::SnapshotDelete,
            _ => JobOperation::Unknown,
        }
    }
}

impl JobStats {
    /// The progress from the results of `virDomainGetJobStats`. Parameters with other names are ignored.
    pub fn from_typed_params(job_type: i32, params: &[(String, ParamValue)]) -> Self {
        let number = |name| find(params, name).and_then(ParamValue::as_u64);
        // The parameters of a backup have no sum of memory and disks.
        let sum = |name, disk_name| number(name).or_else(|| number(disk_name));
        JobStats {
            job_type: JobType::decode(job_type),
            operation: JobOperation::of_params(params),
            time_elapsed: number(sys::VIR_DOMAIN_JOB_TIME_ELAPSED),
            memory_total: number(sys::VIR_DOMAIN_JOB_MEMORY_TOTAL),
            memory_processed: number(sys::VIR_DOMAIN_JOB_MEMORY_PROCESSED),
            memory_remaining: number(sys::VIR_DOMAIN_JOB_MEMORY_REMAINING),
            data_total: sum(
                sys::VIR_DOMAIN_JOB_DATA_TOTAL,
                sys::VIR_DOMAIN_JOB_DISK_TOTAL,
            ),
            data_processed: sum(
                sys::VIR_DOMAIN_JOB_DATA_PROCESSED,
                sys::VIR_DOMAIN_JOB_DISK_PROCESSED,
            ),
            data_remaining: number(sys::VIR_DOMAIN_JOB_DATA_REMAINING),
            memory_bps: number(sys::VIR_DOMAIN_JOB_MEMORY_BPS),
            memory_dirty_rate: number(sys::VIR_DOMAIN_JOB_MEMORY_DIRTY_RATE),
            memory_page_size: number(sys::VIR_DOMAIN_JOB_MEMORY_PAGE_SIZE),
            memory_iteration: number(sys::VIR_DOMAIN_JOB_MEMORY_ITERATION),
        }
    }

    /// The transferred share of the memory, in percent.
    pub fn memory_percent(&self) -> Option<u8> {
        let (total, processed) = (self.memory_total?, self.memory_processed?);
        let percent = u128::from(processed.min(total)) * 100 / u128::from(total.max(1));
        u8::try_from(percent).ok()
    }
}

impl CompletedJob {
    /// The ended job from the results of `virDomainGetJobStats`.
    pub fn from_typed_params(job_type: i32, params: &[(String, ParamValue)]) -> Self {
        let error = find(params, sys::VIR_DOMAIN_JOB_ERRMSG).and_then(ParamValue::as_str);
        CompletedJob {
            stats: JobStats::from_typed_params(job_type, params),
            error: error.map(str::to_owned),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Statistics of a memory dump, with the numbers that libvirt sends.
    fn dump_stats(total: u64, processed: u64) -> JobStats {
        let params = [
            ("operation".to_owned(), ParamValue::Signed(8)),
            ("time_elapsed".to_owned(), ParamValue::Unsigned(572)),
            ("memory_total".to_owned(), ParamValue::Unsigned(total)),
            (
                "memory_processed".to_owned(),
                ParamValue::Unsigned(processed),
            ),
            ("memory_iteration".to_owned(), ParamValue::Unsigned(1)),
        ];
        JobStats::from_typed_params(2, &params)
    }

    #[test]
    fn running_dump_is_decoded() {
        let stats = dump_stats(3_145_990_144, 501_579_776);
        assert_eq!(stats.job_type, JobType::Unbounded);
        assert_eq!(stats.operation, JobOperation::Dump);
        assert_eq!(stats.time_elapsed, Some(572));
        assert_eq!(stats.memory_remaining, None);
        assert_eq!(stats.memory_percent(), Some(15));
    }

    #[test]
    fn memory_percent_is_at_most_100_and_never_divides_by_zero() {
        assert_eq!(dump_stats(10, 20).memory_percent(), Some(100));
        assert_eq!(dump_stats(0, 0).memory_percent(), Some(0));
        assert_eq!(dump_stats(u64::MAX, u64::MAX).memory_percent(), Some(100));
        assert_eq!(JobStats::default().memory_percent(), None);
    }

    #[test]
    fn unknown_numbers_of_a_newer_libvirt_are_decoded() {
        let newer = [("operation".to_owned(), ParamValue::Signed(99))];
        let stats = JobStats::from_typed_params(99, &newer);
        assert_eq!(stats.job_type, JobType::Other);
        assert_eq!(stats.operation, JobOperation::Unknown);
        assert_eq!(
            JobStats::from_typed_params(-1, &[]).job_type,
            JobType::Other
        );
        assert_eq!(JobStats::from_typed_params(0, &[]), JobStats::default());
    }
}

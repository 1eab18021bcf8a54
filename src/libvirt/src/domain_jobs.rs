//! Jobs of a domain: long-running operations (`virDomainJob`), such as a memory dump or a migration.
//!
//! libvirt runs one job of a domain at a time. Calls that change the domain wait for its end, 30 s at
//! most, and then fail with [`OPERATION_TIMEOUT`](crate::error::code::OPERATION_TIMEOUT); queries,
//! [`abort_job`](Jobs::abort_job) and [`destroy`](crate::Power::destroy) are answered meanwhile.

use crate::error::Result;
use crate::typed_params::ParamValue;

/// The jobs of a running domain.
pub trait Jobs {
    /// Writes the guest's memory and registers to a new file, an ELF core.
    ///
    /// The call lasts as long as the dump. A running guest is paused for it
    /// ([`Reason::Dump`](crate::Reason::Dump)) and resumed after it, also when it fails; a file that
    /// is not complete is removed. The end of QEMU ends it with
    /// [`OPERATION_FAILED`](crate::error::code::OPERATION_FAILED).
    fn core_dump_memory(&self, path: &str) -> Result<()>;

    /// Ends the running job. Fails with
    /// [`OPERATION_INVALID`](crate::error::code::OPERATION_INVALID) when there is none, and for a
    /// dump of memory: QEMU has no command to abort that.
    fn abort_job(&self) -> Result<()>;

    /// The running job's progress.
    fn job_stats(&self) -> Result<JobStats>;

    /// The end of the job that ended last, which the daemon remembers until it ends itself or another job ends.
    fn completed_job(&self) -> Result<CompletedJob>;
}

/// A job that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletedJob {
    /// How it ended ([`JobType::None`] when no job is remembered), and its last statistics.
    pub stats: JobStats,
    /// libvirt's reason for a failure.
    pub error: Option<String>,
}

/// Progress of a job. What libvirt does not report is `None`; sizes are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobStats {
    /// Whether a job runs.
    pub job_type: JobType,
    /// What the job does.
    pub operation: JobOperation,
    /// Milliseconds since the job's start.
    pub time_elapsed: Option<u64>,
    /// How much memory there is to transfer.
    pub memory_total: Option<u64>,
    /// How much memory is transferred.
    pub memory_processed: Option<u64>,
    /// How much memory is left.
    pub memory_remaining: Option<u64>,
    /// How much memory and how much of the disks there is to transfer.
    pub data_total: Option<u64>,
    /// How much of both is transferred.
    pub data_processed: Option<u64>,
    /// How much of both is left.
    pub data_remaining: Option<u64>,
    /// How many bytes of memory are transferred in a second.
    pub memory_bps: Option<u64>,
    /// How many pages the guest writes in a second.
    pub memory_dirty_rate: Option<u64>,
    /// Bytes of a page.
    pub memory_page_size: Option<u64>,
    /// The pass over the guest's memory, from 1.
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
    /// Of a newer libvirt.
    Other,
}

impl JobOperation {
    /// The job that the parameters of an [event](crate::Event::JobCompleted) are about.
    pub fn of_params(params: &[(String, ParamValue)]) -> JobOperation {
        JobStats::from_typed_params(0, params).operation
    }
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

// In the order of libvirt's enum: the index is the number on the wire.
const TYPES: [JobType; 6] = [
    JobType::None,
    JobType::Bounded,
    JobType::Unbounded,
    JobType::Completed,
    JobType::Failed,
    JobType::Cancelled,
];
const OPERATIONS: [JobOperation; 11] = [
    JobOperation::Unknown,
    JobOperation::Start,
    JobOperation::Save,
    JobOperation::Restore,
    JobOperation::MigrationIn,
    JobOperation::MigrationOut,
    JobOperation::Snapshot,
    JobOperation::SnapshotRevert,
    JobOperation::Dump,
    JobOperation::Backup,
    JobOperation::SnapshotDelete,
];

impl JobStats {
    /// From what `virDomainGetJobStats` returns; unknown names are left out.
    pub fn from_typed_params(job_type: i32, params: &[(String, ParamValue)]) -> Self {
        let mut stats = JobStats {
            job_type: from_number(&TYPES, i64::from(job_type)).unwrap_or(JobType::Other),
            ..JobStats::default()
        };
        for (name, value) in params {
            let value = value.as_u64();
            match name.as_str() {
                "operation" => stats.operation = operation(value),
                "time_elapsed" => stats.time_elapsed = value,
                "memory_total" => stats.memory_total = value,
                "memory_processed" => stats.memory_processed = value,
                "memory_remaining" => stats.memory_remaining = value,
                "data_total" => stats.data_total = value,
                "data_processed" => stats.data_processed = value,
                "data_remaining" => stats.data_remaining = value,
                "memory_bps" => stats.memory_bps = value,
                "memory_dirty_rate" => stats.memory_dirty_rate = value,
                "memory_page_size" => stats.memory_page_size = value,
                "memory_iteration" => stats.memory_iteration = value,
                // Of a backup, which has no sum of both.
                "disk_total" => stats.data_total = stats.data_total.or(value),
                "disk_processed" => stats.data_processed = stats.data_processed.or(value),
                _ => {}
            }
        }
        stats
    }

    /// How much of the memory is transferred, in percent.
    pub fn memory_percent(&self) -> Option<u8> {
        let (total, processed) = (self.memory_total?, self.memory_processed?);
        let percent = u128::from(processed.min(total)) * 100 / u128::from(total.max(1));
        u8::try_from(percent).ok()
    }
}

impl CompletedJob {
    /// From what `virDomainGetJobStats` returns of a job that has ended.
    pub fn from_typed_params(job_type: i32, params: &[(String, ParamValue)]) -> Self {
        let error = params.iter().find(|(name, _)| name == "errmsg");
        CompletedJob {
            stats: JobStats::from_typed_params(job_type, params),
            error: error.and_then(|(_, text)| text.as_str()).map(str::to_owned),
        }
    }
}

fn operation(value: Option<u64>) -> JobOperation {
    value
        .and_then(|value| from_number(&OPERATIONS, i64::try_from(value).ok()?))
        .unwrap_or_default()
}

fn from_number<T: Copy>(list: &[T], number: i64) -> Option<T> {
    list.get(usize::try_from(number).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(total: u64, processed: u64) -> JobStats {
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
        let stats = stats(3_145_990_144, 501_579_776);
        assert_eq!(stats.job_type, JobType::Unbounded);
        assert_eq!(stats.operation, JobOperation::Dump);
        assert_eq!(stats.time_elapsed, Some(572));
        assert_eq!(stats.memory_remaining, None);
        assert_eq!(stats.memory_percent(), Some(15));
    }

    #[test]
    fn memory_percent_is_at_most_100_and_never_divides_by_zero() {
        assert_eq!(stats(10, 20).memory_percent(), Some(100));
        assert_eq!(stats(0, 0).memory_percent(), Some(0));
        assert_eq!(stats(u64::MAX, u64::MAX).memory_percent(), Some(100));
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

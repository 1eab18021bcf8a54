//! The limits of one migration.

use kubevirt_api::migration_options::{MigrationOptions, StallDetectorOptions};

use super::downtime_ramp::DowntimeRamp;

/// The limits of one migration.
#[derive(Debug, Clone, Copy)]
pub(in crate::jobs::migration_source) struct MigrationLimits {
    /// Seconds without progress after which the migration is aborted.
    pub(super) progress_timeout: Option<u64>,
    /// The timeout of the whole migration, in seconds.
    pub(super) completion_timeout: Option<u64>,
    pub(super) allow_workload_disruption: bool,
    pub(super) allow_post_copy: bool,
    /// The maximum downtime in milliseconds.
    pub(super) max_downtime: u64,
    /// The maximum downtimes of a migration without a stall detector; `None` for QEMU's default.
    pub(super) downtimes: Option<DowntimeRamp>,
    /// The options of the stall detector, which replaces the timeouts.
    pub(super) stall: Option<StallDetectorOptions>,
    /// Whether host devices are assigned to the guest: post-copy cannot move them, and they continue to write when only
    /// the vCPUs are paused.
    pub(super) has_host_devices: bool,
}

impl MigrationLimits {
    /// The limits of a migration of this size, in gigabytes of 10⁹ bytes.
    pub(in crate::jobs::migration_source) fn new(
        options: &MigrationOptions,
        gigabytes: u64,
        has_host_devices: bool,
    ) -> MigrationLimits {
        let positive = |seconds: i64| u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
        let per_gigabyte = positive(options.completion_timeout_per_gib);
        MigrationLimits {
            progress_timeout: positive(options.progress_timeout),
            completion_timeout: per_gigabyte
                .map(|seconds| seconds.saturating_mul(gigabytes))
                .filter(|timeout| *timeout > 0),
            allow_workload_disruption: options.allow_workload_disruption,
            allow_post_copy: options.allow_post_copy,
            max_downtime: options.max_downtime_ms,
            downtimes: options
                .downtime_tuning
                .map(|tuning| DowntimeRamp::tuned(tuning, options.max_downtime_ms)),
            stall: options.stall_detector_options,
            has_host_devices,
        }
    }

    /// The limits with the maximum downtime that a hook has set, if any, in place of the cluster's.
    pub(in crate::jobs::migration_source) fn with_hooked_downtime(
        self,
        hooked: Option<u64>,
    ) -> MigrationLimits {
        MigrationLimits {
            downtimes: hooked.map(DowntimeRamp::constant).or(self.downtimes),
            ..self
        }
    }

    /// Whether the rules need libvirt's events of iterations.
    pub(in crate::jobs::migration_source) fn watches_iterations(&self) -> bool {
        self.stall.is_some()
    }

    /// The limits without a stall detector, for when libvirt sends no events of iterations.
    pub(in crate::jobs::migration_source) fn without_iterations(self) -> MigrationLimits {
        MigrationLimits {
            stall: None,
            ..self
        }
    }

    /// Whether the guest may be continued on the target before all its memory is there.
    pub(super) fn may_post_copy(&self) -> bool {
        self.allow_post_copy && !self.has_host_devices
    }
}

//! What has become of the changes of a sync.

use std::time::Duration;

use domain::reconcile::{DeviceChange, HeldVolume, HoldReason};
use libvirt::origin;

use crate::manager::DeviceChangeError;
use crate::manager::command_error::CommandError;
use crate::manager::reported_conditions::Condition;

/// How long a volume may wait for the target of another volume before that is reported. The target is free as soon as
/// the guest has released the other volume, or virt-handler has recorded the targets.
const OTHER_VOLUME_PATIENCE: Duration = Duration::from_secs(10);

/// The patience with a change that was put off, or that libvirt did not answer: an event of that device would mislead.
/// An earlier report of the change still holds.
const NOT_REPORTED: Duration = Duration::MAX;

/// The result of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChangeResult {
    /// libvirt has made the change.
    Applied,
    /// A later sync makes the change.
    Waits(Wait),
    /// A hook refuses the device.
    HeldByHook,
}

/// Why a change waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) reason: String,
    /// How long the change may wait before that is reported.
    pub(super) patience: Duration,
}

impl Wait {
    /// A disk waits for a disk that has its target or its alias.
    pub(super) fn for_other_disk(occupant: &str) -> Wait {
        Wait {
            reason: format!("the guest has not released {occupant}, which has its place"),
            patience: OTHER_VOLUME_PATIENCE,
        }
    }
}

/// What has become of the changes of a sync. The changes are independent: one that fails or waits holds up no other.
#[derive(Debug, Default)]
pub(super) struct ChangeResults {
    /// The number of changes that libvirt has made.
    pub(super) changed_count: usize,
    /// The volumes that are not attached.
    pub(super) absent: Vec<String>,
    /// The volumes and media that wait.
    pub(super) waiting: Vec<Condition>,
    /// The changes that failed or were put off.
    pub(super) failures: Vec<DeviceChangeError>,
    /// The same changes, to be reported if they failed because of their device.
    pub(super) failed: Vec<Condition>,
}

impl ChangeResults {
    /// Results with the volumes that cannot be attached.
    pub(super) fn with_held(held: &[HeldVolume]) -> ChangeResults {
        let waiting = held.iter().map(|held| Condition {
            key: held.volume.clone(),
            text: held.to_string(),
            patience: match held.reason {
                HoldReason::OtherVolume { .. } => OTHER_VOLUME_PATIENCE,
                HoldReason::HookDisk(_) | HoldReason::NoScsiController => Duration::ZERO,
            },
        });
        ChangeResults {
            absent: held.iter().map(|held| held.volume.clone()).collect(),
            waiting: waiting.collect(),
            ..ChangeResults::default()
        }
    }

    /// Adds a change that waits.
    pub(super) fn add_wait(&mut self, change: &DeviceChange, wait: Wait) {
        let Wait { reason, patience } = wait;
        tracing::info!(device = change.name(), reason, "{change}: not ready yet");
        self.absent.push(change.name().to_owned());
        self.waiting.push(Condition {
            key: change.to_string(),
            text: format!("{change} waits: {reason}; each further sync tries again"),
            patience,
        });
    }

    /// Adds a change that failed with this error.
    pub(super) fn add_failure(&mut self, failure: DeviceChangeError, is_of_device: bool) {
        self.failed.push(Condition {
            key: failure.change().to_owned(),
            text: failure.to_string(),
            patience: match is_of_device {
                true => Duration::ZERO,
                false => NOT_REPORTED,
            },
        });
        self.failures.push(failure);
    }
}

/// Whether an error is about the device that was to be changed. Without an answer of libvirt all changes fail.
pub(super) fn is_of_device(error: &CommandError) -> bool {
    match error {
        CommandError::NoAnswer(_) => false,
        CommandError::Libvirt(error) => !matches!(error.domain, origin::RPC | origin::NONE),
        _ => true,
    }
}

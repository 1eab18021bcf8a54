//! The policy of alerts to the VM's owner: about a guest that panicked or hangs, a disk error that paused the VM, or a
//! device that the guest does not release. Pure.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use domain::libvirt_spec::Alias;
use libvirt::{Detail, DiskFault, Event, LifecycleEvent, WatchdogAction};

use super::Warning;

/// libvirt's name of the error if a disk's storage is full.
const NO_SPACE: &str = "enospc";

/// An alert for the VM's owner.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Alert {
    /// The guest panicked. QEMU's log has the details; see [`super::panic_warning`].
    Panic,
    /// Disk errors paused the VM.
    Disks(Vec<Warning>),
    /// The guest refused to release a device.
    Device(Warning),
    /// The guest's watchdog expired.
    Watchdog(Warning),
}

/// Decides which events cause an alert. Remembers disk errors and a panic between events.
#[derive(Debug, Default)]
pub(crate) struct AlertPolicy {
    /// The errors for which QEMU stops the guest: libvirt's name of the error, by the disk's alias.
    disk_errors: BTreeMap<String, String>,
    /// Whether the guest has panicked.
    panicked: bool,
    /// Whether the VM is paused by disk errors, and the alert was sent.
    is_pause_reported: bool,
    /// Aliases of devices of which an alert says that the guest did not release them.
    refused_devices: BTreeSet<String>,
}

impl AlertPolicy {
    /// The alert that follows from an event of the domain. A panic causes only one alert, unless the guest's own crash
    /// kernel takes over: then the guest runs again.
    pub(crate) fn observe(&mut self, event: &Event) -> Option<Alert> {
        match event {
            Event::IoError {
                pauses_guest: true,
                alias,
                reason,
                ..
            } => self.observe_error(alias, reason),
            Event::DeviceRemovalFailed { alias, .. } => self
                .refused_devices
                .insert(alias.clone())
                .then(|| Alert::Device(refused_device(alias))),
            Event::DeviceRemoved { alias, .. } | Event::DeviceAdded { alias, .. } => {
                self.refused_devices.remove(alias);
                None
            }
            Event::Watchdog { action, .. } => Some(Alert::Watchdog(expired_watchdog(*action))),
            Event::Lifecycle { event, detail, .. } => self.observe_lifecycle(*event, *detail),
            _ => None,
        }
    }

    /// The alert of a VM that is paused by these disk errors; `None` if libvirt's event of the pause caused it before.
    pub(crate) fn observe_pause(&mut self, errors: BTreeMap<String, DiskFault>) -> Option<Alert> {
        let is_reported = std::mem::replace(&mut self.is_pause_reported, true);
        let named = errors.into_iter().map(|(alias, error)| match error {
            DiskFault::NoSpace => (alias, NO_SPACE.to_owned()),
            DiskFault::Other => (alias, String::new()),
        });
        if is_reported {
            return None;
        }
        self.disk_errors = named.collect();
        Some(disks_alert(&self.disk_errors))
    }

    /// Records a disk error. libvirt sends the event of the pause after that of the first error; errors of other disks
    /// that come later cause an alert of their own.
    fn observe_error(&mut self, alias: &str, error_name: &str) -> Option<Alert> {
        let is_new = self
            .disk_errors
            .insert(alias.to_owned(), error_name.to_owned())
            .is_none();
        (self.is_pause_reported && is_new)
            .then(|| Alert::Disks(vec![disk_warning(alias, error_name)]))
    }

    fn observe_lifecycle(&mut self, event: LifecycleEvent, detail: Detail) -> Option<Alert> {
        match (event, detail) {
            (LifecycleEvent::Suspended, Detail::IoError) => {
                let is_reported = std::mem::replace(&mut self.is_pause_reported, true);
                (!is_reported).then(|| disks_alert(&self.disk_errors))
            }
            (LifecycleEvent::Resumed | LifecycleEvent::Started, _) => {
                self.disk_errors.clear();
                self.is_pause_reported = false;
                None
            }
            (LifecycleEvent::Crashed, _) if self.panicked => None,
            (LifecycleEvent::Crashed, detail) => {
                self.panicked = detail == Detail::Panicked;
                Some(Alert::Panic)
            }
            _ => None,
        }
    }
}

fn expired_watchdog(action: WatchdogAction) -> Warning {
    let follows = match action {
        WatchdogAction::Pause => "the VM is paused",
        WatchdogAction::Reset => "the VM is reset",
        WatchdogAction::PowerOff => "the VM is powered off",
        WatchdogAction::Shutdown => "the guest is asked to shut down",
        WatchdogAction::InjectNmi => "the guest gets a non-maskable interrupt",
        _ => "nothing follows",
    };
    Warning {
        reason: "GuestWatchdog",
        message: format!("The guest has not reset its watchdog in time: {follows}"),
    }
}

fn refused_device(alias: &str) -> Warning {
    let device = Alias::name_in(alias);
    Warning {
        reason: "DeviceDetachRefused",
        message: format!("The guest refused to release {device}; it stays attached"),
    }
}

/// An alert with a warning for each disk; `errors` has libvirt's names of the errors by the disks' aliases.
fn disks_alert(errors: &BTreeMap<String, String>) -> Alert {
    let warnings = errors
        .iter()
        .map(|(alias, error_name)| disk_warning(alias, error_name));
    Alert::Disks(warnings.collect())
}

fn disk_warning(alias: &str, error_name: &str) -> Warning {
    let volume = Alias::name_in(alias);
    let message = match error_name {
        NO_SPACE => format!("VM Paused due to not enough space on volume: {volume}"),
        _ => format!("VM Paused due to IO error at the volume: {volume}"),
    };
    Warning {
        reason: "IOerror",
        message,
    }
}

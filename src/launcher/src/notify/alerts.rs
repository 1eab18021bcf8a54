//! Which alerts the VM's owner gets: a guest that panicked or hangs, a disk error that paused the VM. Pure.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use domain::libvirt_spec::Alias;
use kubevirt_api::domain_json::GuestPanicInfo;
use libvirt::{Detail, DiskFault, Event, LifecycleEvent, WatchdogAction};

use super::Warning;

/// libvirt's name of the error of a disk whose storage is full.
const NO_SPACE: &str = "enospc";

/// An alert for the VM's owner.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Alert {
    /// The guest panicked; QEMU's log has the details.
    Panic,
    /// Disk errors paused the VM.
    Disks(Vec<Warning>),
    /// The guest refused to release a device.
    Device(Warning),
    /// The guest's watchdog expired.
    Watchdog(Warning),
}

/// Decides about alerts; remembers disk errors and a panic between events.
#[derive(Debug, Default)]
pub(crate) struct AlertPolicy {
    /// Errors for which QEMU stops the guest: libvirt's name of the error, by the disk's alias.
    failing: BTreeMap<String, String>,
    panicked: bool,
    /// The VM is paused by disk errors, and the alert was sent.
    paused: bool,
    /// Aliases of devices whose refusal was reported.
    refused: BTreeSet<String>,
}

impl AlertPolicy {
    /// The alert that follows from an event of the domain. A panic counts once, unless the guest's own crash
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
                .refused
                .insert(alias.clone())
                .then(|| Alert::Device(refused_device(alias))),
            Event::DeviceRemoved { alias, .. } | Event::DeviceAdded { alias, .. } => {
                self.refused.remove(alias);
                None
            }
            Event::Watchdog { action, .. } => Some(Alert::Watchdog(expired_watchdog(*action))),
            Event::Lifecycle { event, detail, .. } => self.observe_lifecycle(*event, *detail),
            _ => None,
        }
    }

    /// The alert of a VM that is paused by these disk errors; `None` if it was reported when the event came.
    pub(crate) fn observe_pause(&mut self, errors: BTreeMap<String, DiskFault>) -> Option<Alert> {
        let is_told = std::mem::replace(&mut self.paused, true);
        let named = errors.into_iter().map(|(alias, error)| match error {
            DiskFault::NoSpace => (alias, NO_SPACE.to_owned()),
            DiskFault::Other => (alias, String::new()),
        });
        if is_told {
            return None;
        }
        self.failing = named.collect();
        Some(disks(&self.failing))
    }

    /// libvirt tells of the pause after the first of the errors, and of other disks' errors after that.
    fn observe_error(&mut self, alias: &str, why: &str) -> Option<Alert> {
        let is_new = self
            .failing
            .insert(alias.to_owned(), why.to_owned())
            .is_none();
        (self.paused && is_new).then(|| Alert::Disks(vec![disk(alias, why)]))
    }

    fn observe_lifecycle(&mut self, event: LifecycleEvent, detail: Detail) -> Option<Alert> {
        match (event, detail) {
            (LifecycleEvent::Suspended, Detail::IoError) => {
                let is_told = std::mem::replace(&mut self.paused, true);
                (!is_told).then(|| disks(&self.failing))
            }
            (LifecycleEvent::Resumed | LifecycleEvent::Started, _) => {
                self.failing.clear();
                self.paused = false;
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

/// A warning for each disk's alias and libvirt's name of the error.
fn disks(errors: &BTreeMap<String, String>) -> Alert {
    let warnings = errors.iter().map(|(alias, why)| disk(alias, why));
    Alert::Disks(warnings.collect())
}

fn disk(alias: &str, why: &str) -> Warning {
    let volume = Alias::name_in(alias);
    let message = match why {
        NO_SPACE => format!("VM Paused due to not enough space on volume: {volume}"),
        _ => format!("VM Paused due to IO error at the volume: {volume}"),
    };
    Warning {
        reason: "IOerror",
        message,
    }
}

/// The warning of a panic and its details for virt-handler, from QEMU's log.
pub(crate) fn panic_warning(log: &str) -> (Warning, GuestPanicInfo) {
    let (message, info) = match log.lines().rev().find_map(panic_info) {
        Some(info) => (describe(&info), info),
        None => (
            "GuestPanicked (details unavailable)".to_owned(),
            GuestPanicInfo {
                kind: "unknown".into(),
                ..GuestPanicInfo::default()
            },
        ),
    };
    let warning = Warning {
        reason: "GuestPanicked",
        message,
    };
    (warning, info)
}

fn describe(info: &GuestPanicInfo) -> String {
    if info.kind != "hyper-v" {
        return format!("GuestPanicked: type={}", info.kind);
    }
    let arguments = [info.arg1, info.arg2, info.arg3, info.arg4, info.arg5];
    let arguments = arguments.map(|argument| format!("'{argument:#x}'"));
    format!("GuestPanicked: {}", arguments.join(", "))
}

/// A line as libvirt writes it: `<time>: panic hyper-v: arg1='0x5a', arg2='0x1'...`.
fn panic_info(line: &str) -> Option<GuestPanicInfo> {
    let (_, panic) = line.split_once("panic ")?;
    let (kind, arguments) = panic.trim_start().split_once(':')?;
    if kind.is_empty() || kind.contains(char::is_whitespace) {
        return None;
    }
    let argument = |name: &str| -> u64 {
        let fields = arguments.split(',').map(str::trim);
        let mut values = fields.filter_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        let value = values.next().unwrap_or_default();
        let digits = value.trim_matches(['\'', '"']).trim_start_matches("0x");
        u64::from_str_radix(digits, 16).unwrap_or(0)
    };
    Some(GuestPanicInfo {
        kind: kind.to_owned(),
        arg1: argument("arg1"),
        arg2: argument("arg2"),
        arg3: argument("arg3"),
        arg4: argument("arg4"),
        arg5: argument("arg5"),
    })
}

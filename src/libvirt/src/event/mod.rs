//! Events that libvirt sends unasked: those of domains, and the end of a connection.

mod lifecycle;

use std::fmt;

pub use lifecycle::{Detail, LifecycleEvent};

use crate::typed_params::ParamValue;

/// One thing that happened. `domain` is always the domain's name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The domain was defined, started, stopped...
    Lifecycle {
        /// The domain's name.
        domain: String,
        /// What happened.
        event: LifecycleEvent,
        /// How it came about.
        detail: Detail,
    },
    /// The guest rebooted. libvirt sends two per reboot.
    Reboot {
        /// The domain's name.
        domain: String,
    },
    /// The guest agent connected or went away.
    AgentLifecycle {
        /// The domain's name.
        domain: String,
        /// Whether an agent is there now.
        connected: bool,
    },
    /// A device was plugged in.
    DeviceAdded {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
    },
    /// The guest let go of a device.
    DeviceRemoved {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
    },
    /// The guest refused to let go of a device.
    DeviceRemovalFailed {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
    },
    /// A migration, backup or dump ended.
    JobCompleted {
        /// The domain's name.
        domain: String,
        /// The job's typed parameters, under libvirt's names.
        params: Vec<(String, ParamValue)>,
    },
    /// A migration begins another pass over the guest's memory.
    MigrationIteration {
        /// The domain's name.
        domain: String,
        /// The number of the pass, from 1.
        iteration: i32,
    },
    /// An error of a disk.
    IoError {
        /// The domain's name.
        domain: String,
        /// QEMU stops the guest; else the guest gets the error, or nobody does.
        pauses_guest: bool,
        /// The disk's alias.
        alias: String,
        /// The source's path.
        path: String,
        /// libvirt's word for it, e.g. `enospc`.
        reason: String,
    },
    /// The guest did not reset its watchdog in time.
    Watchdog {
        /// The domain's name.
        domain: String,
        /// What QEMU does.
        action: WatchdogAction,
    },
    /// A memory device was resized by the guest.
    MemoryDeviceSize {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
        /// The new size, in KiB.
        kib: u64,
    },
    /// The connection to the daemon is over; no event follows on it.
    ConnectionClosed {
        /// Why.
        reason: CloseReason,
    },
}

impl Event {
    /// The domain the event is about; none when it is about the connection.
    pub fn domain(&self) -> Option<&str> {
        match self {
            Event::Lifecycle { domain, .. }
            | Event::Reboot { domain }
            | Event::AgentLifecycle { domain, .. }
            | Event::DeviceAdded { domain, .. }
            | Event::DeviceRemoved { domain, .. }
            | Event::DeviceRemovalFailed { domain, .. }
            | Event::JobCompleted { domain, .. }
            | Event::MigrationIteration { domain, .. }
            | Event::IoError { domain, .. }
            | Event::Watchdog { domain, .. }
            | Event::MemoryDeviceSize { domain, .. } => Some(domain),
            Event::ConnectionClosed { .. } => None,
        }
    }
}

/// What QEMU does when the guest's watchdog expires (`virDomainEventWatchdogAction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WatchdogAction {
    /// Nothing.
    None,
    /// It pauses the guest.
    Pause,
    /// It resets the guest.
    Reset,
    /// It ends, without asking the guest.
    PowerOff,
    /// It asks the guest to shut down.
    Shutdown,
    /// It prints a message.
    Debug,
    /// It sends the guest a non-maskable interrupt.
    InjectNmi,
    /// An action that this version does not know.
    Other(i32),
}

impl WatchdogAction {
    /// libvirt's number.
    pub(crate) fn decode(raw: i32) -> WatchdogAction {
        const ACTIONS: [WatchdogAction; 7] = [
            WatchdogAction::None,
            WatchdogAction::Pause,
            WatchdogAction::Reset,
            WatchdogAction::PowerOff,
            WatchdogAction::Shutdown,
            WatchdogAction::Debug,
            WatchdogAction::InjectNmi,
        ];
        let known = usize::try_from(raw)
            .ok()
            .and_then(|index| ACTIONS.get(index));
        known.copied().unwrap_or(WatchdogAction::Other(raw))
    }
}

/// Why a connection ended (`virConnectCloseReason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// An I/O error.
    Error,
    /// The daemon went away.
    Eof,
    /// The daemon did not answer keepalive messages.
    Keepalive,
    /// This side closed it.
    Client,
}

impl CloseReason {
    pub(crate) fn decode(raw: i32) -> Self {
        match raw {
            1 => CloseReason::Eof,
            2 => CloseReason::Keepalive,
            3 => CloseReason::Client,
            _ => CloseReason::Error,
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CloseReason::Error => "I/O error",
            CloseReason::Eof => "the daemon closed it or ended",
            CloseReason::Keepalive => "the daemon stopped answering",
            CloseReason::Client => "closed by this side",
        })
    }
}

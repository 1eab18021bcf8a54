//! Events that libvirt sends: those of domains, and the end of a connection.

mod lifecycle;

use std::fmt;

pub use lifecycle::{Detail, LifecycleEvent};
use virt_sys as sys;

use crate::typed_params::ParamValue;

/// An event. `domain` is always the domain's name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The domain was defined, started, stopped, and so on.
    Lifecycle {
        /// The domain's name.
        domain: String,
        /// What happened.
        event: LifecycleEvent,
        /// The cause.
        detail: Detail,
    },
    /// The guest rebooted. libvirt sends two events per reboot.
    Reboot {
        /// The domain's name.
        domain: String,
    },
    /// The guest agent connected or disconnected.
    AgentLifecycle {
        /// The domain's name.
        domain: String,
        /// Whether an agent is connected now.
        connected: bool,
    },
    /// A device was attached.
    DeviceAdded {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
    },
    /// The guest released a device, which is detached now.
    DeviceRemoved {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
    },
    /// The guest refused to release a device.
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
    /// A migration began another pass over the guest's memory.
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
        /// Whether QEMU pauses the guest. Otherwise QEMU reports the error to the guest, or ignores it.
        pauses_guest: bool,
        /// The disk's alias.
        alias: String,
        /// The source's path.
        path: String,
        /// libvirt's name of the error, e.g. `enospc`.
        reason: String,
    },
    /// The guest did not reset its watchdog in time.
    Watchdog {
        /// The domain's name.
        domain: String,
        /// What QEMU does about it.
        action: WatchdogAction,
    },
    /// The guest resized a memory device.
    MemoryDeviceSize {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
        /// The new size, in KiB.
        kib: u64,
    },
    /// The connection to the daemon has ended; no further event arrives on it.
    ConnectionClosed {
        /// Why the connection ended.
        reason: CloseReason,
    },
}

impl Event {
    /// The name of the event's domain; `None` for an event of the connection.
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
    /// QEMU pauses the guest.
    Pause,
    /// QEMU resets the guest.
    Reset,
    /// QEMU ends without a shutdown of the guest.
    PowerOff,
    /// QEMU asks the guest to shut down.
    Shutdown,
    /// QEMU prints a message.
    Debug,
    /// QEMU sends the guest a non-maskable interrupt.
    InjectNmi,
    /// An action of a newer libvirt.
    Other(i32),
}

impl WatchdogAction {
    /// The action for libvirt's number.
    pub(crate) fn decode(raw: i32) -> WatchdogAction {
        match raw.cast_unsigned() {
            sys::VIR_DOMAIN_EVENT_WATCHDOG_NONE => WatchdogAction::None,
            sys::VIR_DOMAIN_EVENT_WATCHDOG_PAUSE => WatchdogAction::Pause,
            sys::VIR_DOMAIN_EVENT_WATCHDOG_RESET => WatchdogAction::Reset,
            sys::VIR_DOMAIN_EVENT_WATCHDOG_POWEROFF => WatchdogAction::PowerOff,
            sys::VIR_DOMAIN_EVENT_WATCHDOG_SHUTDOWN => WatchdogAction::Shutdown,
            sys::VIR_DOMAIN_EVENT_WATCHDOG_DEBUG => WatchdogAction::Debug,
            sys::VIR_DOMAIN_EVENT_WATCHDOG_INJECTNMI => WatchdogAction::InjectNmi,
            _ => WatchdogAction::Other(raw),
        }
    }
}

/// Why a connection ended (`virConnectCloseReason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// An I/O error.
    Error,
    /// The daemon closed the connection or ended.
    Eof,
    /// The daemon did not answer keepalive messages.
    Keepalive,
    /// This process closed the connection.
    Client,
}

impl CloseReason {
    /// The reason for libvirt's number.
    pub(crate) fn decode(raw: i32) -> Self {
        match raw.cast_unsigned() {
            sys::VIR_CONNECT_CLOSE_REASON_EOF => CloseReason::Eof,
            sys::VIR_CONNECT_CLOSE_REASON_KEEPALIVE => CloseReason::Keepalive,
            sys::VIR_CONNECT_CLOSE_REASON_CLIENT => CloseReason::Client,
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

//! The configuration, the inputs and the timers of the lifetime policy.

use std::time::Duration;

use crate::manager::Phase;

/// The limits and the mode that the policy follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LifetimeConfig {
    /// How long to wait for a domain, and for its QEMU process: `--qemu-timeout`.
    pub qemu_timeout: Duration,
    /// How long the guest may take to power off before QEMU is killed: `--grace-period-seconds`.
    pub grace_period: Duration,
    /// Whether there is no virt-handler.
    pub standalone: bool,
}

/// An input of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// The VM's phase.
    Phase(Phase),
    /// The launcher received a termination signal.
    Signal {
        /// Whether the guest is here: it has arrived, or booted here.
        is_guest_here: bool,
    },
    /// A command has asked the guest to power off.
    PowerOffRequested,
    /// virt-handler has deleted a VM of which a start has failed before its domain was defined.
    DeletedBeforeDefinition,
    /// virt-handler gives up the migration to this pod.
    CleanUpTarget {
        /// Whether the guest is here: it has arrived, or booted here.
        is_guest_here: bool,
    },
    /// A timer ran out.
    Expired(Timer),
}

/// The timers. There is one of each kind; arming it again replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Timer {
    /// Limits the wait for a domain to be defined.
    DomainDefined,
    /// Limits the wait for a defined domain to get a QEMU process.
    QemuStart,
    /// Limits the wait for virt-handler to request the shutdown.
    HandlerShutdown,
    /// Limits the wait for the guest to power off.
    GracePeriod,
    /// Limits the wait for virt-handler to delete the domain.
    HandlerDelete,
}

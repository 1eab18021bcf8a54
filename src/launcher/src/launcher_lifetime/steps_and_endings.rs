//! What the lifetime policy lets the launcher do.

use std::time::Duration;

use super::inputs_and_timers::Timer;

/// What the launcher has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Start a timer.
    Arm(Timer, Duration),
    /// Mark the VM for graceful shutdown in KubeVirt's metadata, which asks virt-handler to shut it down.
    MarkGracefulShutdown,
    /// Ask the guest to power off.
    RequestPowerOff,
    /// Kill QEMU.
    Kill,
    /// Run the shutdown hooks, concurrently with everything else, unless they run already or have run.
    RunShutdownHooks,
    /// Exit.
    Exit(Ending),
}

/// How the launcher ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The VM has ended or was never started: exit code 0.
    Clean,
    /// The migration to this pod did not take place: exit code 0.
    UnusedTarget,
    /// No domain was defined within this time: exit code 1.
    NoDomain(Duration),
}

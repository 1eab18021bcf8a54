//! The trait of a domain: its identity, state and statistics, and one supertrait per group of calls.

use crate::backups_and_checkpoints::Checkpoints;
use crate::devices::Devices;
use crate::dirty_rate::DirtyRate;
use crate::disk_sizes_and_errors::Blocks;
use crate::domain_definition::Definition;
use crate::domain_jobs::Jobs;
use crate::domain_state::State;
use crate::error::Result;
use crate::guest_agent::Agent;
use crate::io_threads::IoThreads;
use crate::launch_security::LaunchSecurity;
use crate::migration::Migration;
use crate::qemu_monitor::QemuMonitor;
use crate::screenshot::Screen;
use crate::start_pause_stop::Power;
use crate::stats::DomainStats;
use crate::vcpus_and_cpu_pinning::Vcpus;

/// One domain. A handle stays valid when the domain ends or is undefined; calls then fail with
/// [`NO_DOMAIN`](crate::error::code::NO_DOMAIN) or
/// [`OPERATION_INVALID`](crate::error::code::OPERATION_INVALID).
pub trait Domain:
    Power
    + Definition
    + Devices
    + Vcpus
    + IoThreads
    + Blocks
    + Jobs
    + Migration
    + Checkpoints
    + Agent
    + Screen
    + DirtyRate
    + LaunchSecurity
    + QemuMonitor
    + Send
    + Sync
{
    /// The domain's name.
    fn name(&self) -> &str;

    /// The domain's UUID, lower case with dashes.
    fn uuid(&self) -> &str;

    /// Whether the domain's connection still works, as far as is known without a call to the daemon.
    fn is_connected(&self) -> bool;

    /// The domain's state, and the reason for it.
    fn state(&self) -> Result<State>;

    /// The domain's statistics. `None` while it has no QEMU process.
    fn stats(&self) -> Result<Option<DomainStats>>;
}

//! The operations, one file per command. Each is a function of the VM; the driver decides when it runs.

mod attach_device;
mod attach_host_devices;
mod backup;
mod command_result_of_job_start;
mod delete;
mod finalize_migration;
mod freeze;
mod hook_events;
mod hotplug_cpus;
mod hotplug_memory;
mod kill;
mod migrate;
mod migration_target;
mod pause;
mod prepare_domain;
mod read_domain;
mod remove_failed_attaches;
mod reset;
mod shutdown;
mod soft_reboot;
mod start_memory_dump;
mod sync;
mod unpause;

pub(super) use attach_host_devices::attach_host_devices;
pub(super) use backup::{abort_backup, export_backup, redefine_checkpoint, start_backup};
pub(super) use delete::delete;
pub(super) use finalize_migration::finalize_migration;
pub(super) use freeze::{freeze, unfreeze};
pub(super) use hotplug_cpus::set_cpus;
pub(super) use hotplug_memory::set_memory;
pub(super) use kill::kill;
pub(super) use migrate::{cancel_migration, migrate};
pub(super) use migration_target::sync_migration_target;
pub(super) use pause::pause;
pub(super) use reset::reset;
pub(super) use shutdown::shutdown;
pub(super) use soft_reboot::soft_reboot;
pub(super) use start_memory_dump::start_memory_dump;
pub(super) use sync::sync;
pub(super) use unpause::unpause;

use kubevirt_api::vmi::Vmi;
use tokio_util::sync::CancellationToken;

use super::command_refusal::CommandRefusal;
use super::error::OpError;
use super::vm_context::VmContext;

/// Requires that a request is about this launcher's VM.
fn require_own_vm(vm: &VmContext, vmi: &Vmi) -> Result<(), OpError> {
    if vmi.domain_name() == vm.identity.domain {
        return Ok(());
    }
    Err(OpError::OtherVm {
        ours: vm.identity.domain.clone(),
        theirs: vmi.domain_name(),
    })
}

/// Work that can be dropped at any point.
async fn until<T>(
    interrupted: &CancellationToken,
    work: impl Future<Output = Result<T, OpError>>,
) -> Result<T, OpError> {
    tokio::select! {
        biased;
        () = interrupted.cancelled() => Err(CommandRefusal::Ending.into()),
        result = work => result,
    }
}

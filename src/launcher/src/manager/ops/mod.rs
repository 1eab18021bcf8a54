//! The operations of commands. Each is a function of the VM; the driver decides when it runs.

mod attach_device;
mod attach_sriov_interfaces;
mod delete;
mod finalize_migration;
mod freeze;
mod hook_applied_events;
mod hotplug_cpus;
mod hotplug_memory;
mod kill;
mod pause;
mod prepare_domain;
mod read_domain_xml;
mod remove_failed_attaches;
mod reset;
mod shutdown;
mod soft_reboot;
mod start_and_end_jobs;
mod sync;
mod sync_migration_target;
mod unpause;

pub(super) use attach_sriov_interfaces::attach_sriov_interfaces;
pub(super) use delete::delete;
pub(super) use finalize_migration::finalize_migration;
pub(super) use freeze::{freeze, unfreeze};
pub(super) use hotplug_cpus::set_cpus;
pub(super) use hotplug_memory::set_memory;
pub(super) use kill::kill;
pub(super) use pause::pause;
pub(super) use reset::reset;
pub(super) use shutdown::shutdown;
pub(super) use soft_reboot::soft_reboot;
pub(super) use start_and_end_jobs::{
    abort_backup, cancel_migration, export_backup, migrate, redefine_checkpoint, start_backup,
    start_memory_dump,
};
pub(super) use sync::sync;
pub(super) use sync_migration_target::sync_migration_target;
pub(super) use unpause::unpause;

use kubevirt_api::vmi::Vmi;
use tokio_util::sync::CancellationToken;

use super::command_error::CommandError;
use super::command_refusal::CommandRefusal;
use super::vm_context::VmContext;

/// Returns an error if a request is about another VM than this launcher's.
pub(super) fn require_own_vm(vm: &VmContext, vmi: &Vmi) -> Result<(), CommandError> {
    if vmi.domain_name() == vm.identity.domain {
        return Ok(());
    }
    Err(CommandError::OtherVm {
        own_domain: vm.identity.domain.clone(),
        requested_domain: vmi.domain_name(),
    })
}

/// Runs work that can be dropped at any point, until a kill, a delete or the launcher's exit interrupts the command.
async fn unless_interrupted<T>(
    interrupted: &CancellationToken,
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    tokio::select! {
        biased;
        () = interrupted.cancelled() => Err(CommandRefusal::Ending.into()),
        result = work => result,
    }
}

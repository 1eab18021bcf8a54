//! Sync: starts the VM, or changes the running VM to match its VMI.
//!
//! ```text
//!   ConvertedVm ──prepare──▶ PreparedDomain ──define──▶ (a domain) ──start_or_resume──▶ running
//!     │ VMI converted          │ hooks ran, images exist                   │ cloud-init image written
//! ```
//! After a failure before `define` there is no domain, and the next sync starts from the beginning, including the
//! hooks. After `define`, a repeated sync only starts the domain: hooks run once per boot.

mod define_prepared_domain;
mod expand_disks;
mod qemu_start_poll;
mod reconcile;
mod start_or_resume;
mod unapplied_changes;

use std::sync::Arc;

use domain::convert::{Purpose, has_attached_sriov};
use domain::libvirt_spec::DomainSpec;
use kubevirt_api::vmi::Vmi;
use libvirt::{Domain, State};
use reconcile::reconcile;
use tokio_util::sync::CancellationToken;

use super::prepare_domain;
use super::{require_own_vm, unless_interrupted};
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::command_refusal::CommandRefusal;
use crate::manager::sync_request::SyncRequest;
use crate::manager::vm_context::VmContext;
use crate::vm_boot::host_facts::wait_for_network_info;

pub(super) use unapplied_changes::report_failed_changes;

/// The domain that the VMI of a request converts to, before hooks.
pub(super) async fn convert(
    vm: &VmContext,
    request: &SyncRequest,
) -> Result<DomainSpec, CommandError> {
    let converted = prepare_domain::ConvertedVm::convert(vm, request, Purpose::Boot).await?;
    Ok(converted.into_spec())
}

/// Starts the VM, or changes the running VM to match its VMI. `interrupted` stops the sync at its next safe point.
pub(in crate::manager) async fn sync(
    vm: &VmContext,
    request: &SyncRequest,
    interrupted: &CancellationToken,
) -> Result<CommandSuccess, CommandError> {
    require_own_vm(vm, &request.vmi)?;
    if vm.jobs.migrates_away() {
        // While the VM migrates to another pod it is not changed, and not started here again.
        return Ok(CommandSuccess::Unchanged);
    }
    vm.driver_state().start_was_tried = true;
    let is_first = !vm.driver_state().defined;
    if is_first && has_attached_sriov(&request.vmi) {
        wait_for_network_info(&vm.boot_resources.network_info).await?;
    }
    let converted = prepare_domain::ConvertedVm::convert(vm, request, Purpose::Boot).await?;
    let (domain, state) = match defined_domain(vm, request).await? {
        Some(defined) => defined,
        None => {
            let prepared = unless_interrupted(interrupted, converted.prepare(vm)).await?;
            return boot(vm, request, prepared, interrupted).await;
        }
    };
    let start_result =
        start_or_resume::start_or_resume(vm, request, &domain, state, interrupted).await?;
    let changed = reconcile(vm, request, converted.spec(), &domain, interrupted).await;
    // Also if a device could not be changed.
    apply_settings(vm, request);
    Ok(start_result.or(changed?))
}

/// Defines and starts the VM. virt-handler would delete the domain between the notification that it is off and the one
/// that it is alive, so the start counts as unreported from here on.
async fn boot(
    vm: &VmContext,
    request: &SyncRequest,
    prepared: prepare_domain::PreparedDomain<'_>,
    interrupted: &CancellationToken,
) -> Result<CommandSuccess, CommandError> {
    let start = vm.start_notification.begin();
    let domain = prepared.define(vm).await?;
    let state = vm.client.state_of(&domain).await?;
    let answer = start_or_resume::start_or_resume(vm, request, &domain, state, interrupted).await?;
    if answer == CommandSuccess::Changed {
        start.succeeded();
    }
    apply_settings(vm, request);
    Ok(answer)
}

/// Applies the settings of the VMI that do not concern libvirt.
fn apply_settings(vm: &VmContext, request: &SyncRequest) {
    unapplied_changes::report(vm, &request.vmi);
    vm.metadata
        .set_grace_period(request.vmi.grace_period_seconds());
    vm.driver_state().agent_probe_paused = pauses_probes(&request.vmi);
}

/// The domain with its state, if libvirt knows it and its resources are prepared. A domain that an earlier launcher
/// defined and did not start may lack images, and is defined again.
async fn defined_domain(
    vm: &VmContext,
    request: &SyncRequest,
) -> Result<Option<(Arc<dyn Domain>, State)>, CommandError> {
    let Some((domain, state)) = vm.client.lookup_with_state().await? else {
        return Ok(None);
    };
    let is_ready =
        vm.driver_state().defined || !state.is_down() || start_or_resume::has_run(&request.vmi);
    if !is_ready {
        tracing::info!("a launcher before this one defined the domain and did not start it");
    }
    Ok(is_ready.then_some((domain, state)))
}

/// Whether the VMI's annotation pauses guest agent probes. Its values are those of Go's `strconv.ParseBool`, as for
/// KubeVirt.
fn pauses_probes(vmi: &Vmi) -> bool {
    let value = vmi.annotation("kubevirt.io/pause-guest-agent-probes");
    matches!(value, Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
}

/// Ends an interrupted sync. Called where the sync leaves no partial change.
fn safe_point(interrupted: &CancellationToken) -> Result<(), CommandError> {
    if interrupted.is_cancelled() {
        return Err(CommandRefusal::Ending.into());
    }
    Ok(())
}

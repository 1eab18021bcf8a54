use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use kubevirt_api::vmi::Vmi;
use libvirt::{Domain, DomainState, StartOptions, State, XmlKind};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::hook_events::report_applied;
use super::poll_starting_up::StartingUpPoll;
use super::safe_point;
use crate::jobs::JobKind;
use crate::libvirt_client::{COMMAND, QUICK, START};
use crate::manager::CommandSuccess;
use crate::manager::error::OpError;
use crate::manager::sync_request::SyncRequest;
use crate::manager::vm_context::VmContext;
use crate::vm_events::VmEvent;

/// A QEMU that is being shut down has this long to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
const SHUTDOWN_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The observer has this long to publish a failed start; libvirt's daemon may have ended too.
const FAILURE_PUBLISH_TIMEOUT: Duration = Duration::from_secs(3);

/// Starts a defined domain that is off (`state`), and resumes one that is paused, unless its owner, a job or a migration
/// paused it: a migration's target may run the guest.
pub(super) async fn start_or_resume(
    vm: &VmContext,
    request: &SyncRequest,
    domain: &Arc<dyn Domain>,
    state: State,
    interrupted: &CancellationToken,
) -> Result<CommandSuccess, OpError> {
    safe_point(interrupted)?;
    let state = state_after_shutdown(vm, domain, state).await?;
    let paused_by_user = vm.driver_state().paused_by_user;
    if state.is_down() && !has_run(&request.vmi) {
        write_cloud_init(vm, &request.vmi, domain).await?;
        safe_point(interrupted)?;
        start(vm, &request.vmi, domain).await?;
        return Ok(CommandSuccess::Changed);
    }
    // The job that paused the guest resumes it.
    let paused_by_job = vm
        .jobs
        .running()
        .borrow()
        .is_some_and(JobKind::pauses_guest);
    if state.may_run_on_target() {
        tracing::warn!(
            %state,
            "the domain stays paused: a migration has stopped it, and its target may run it"
        );
        return Ok(CommandSuccess::AlreadySo);
    }
    if state.state == DomainState::Paused && !paused_by_user && !paused_by_job {
        vm.client
            .on(domain, "resuming the domain", COMMAND, |domain| {
                domain.resume()
            })
            .await?;
        tracing::info!("domain resumed");
        return Ok(CommandSuccess::Changed);
    }
    Ok(CommandSuccess::AlreadySo)
}

/// The domain's state, after waiting for a QEMU that is being shut down: a daemon that died during a start shuts that
/// QEMU down when it is back.
async fn state_after_shutdown(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    mut state: State,
) -> Result<State, OpError> {
    let give_up = Instant::now() + SHUTDOWN_TIMEOUT;
    while state.state == DomainState::Shutdown && Instant::now() < give_up {
        tokio::time::sleep(SHUTDOWN_POLL_INTERVAL).await;
        state = vm.client.state_of(domain).await?;
    }
    Ok(state)
}

/// Publishes that the start has failed, before virt-handler gets the response: the start may have been published.
async fn report_failure(vm: &VmContext) {
    // Fails only when the observer is gone.
    let _ = vm.events.send(VmEvent::StartFailed);
    let _ = tokio::time::timeout(FAILURE_PUBLISH_TIMEOUT, vm.start_report.ended()).await;
}

/// A VMI in one of these phases is not started again: it ran, and ended.
pub(super) fn has_run(vmi: &Vmi) -> bool {
    let phase = vmi
        .value()
        .pointer("/status/phase")
        .and_then(|phase| phase.as_str());
    matches!(phase, Some("Running" | "Succeeded" | "Failed"))
}

async fn start(vm: &VmContext, vmi: &Vmi, domain: &Arc<dyn Domain>) -> Result<(), OpError> {
    let by_owner = vmi.starts_paused();
    let how = StartOptions {
        paused: (by_owner || isolates_emulator(vmi)) && !vm.boot_resources.test_driver,
        ..StartOptions::RUNNING
    };
    vm.driver_state().disk_capacities.forget();
    associate_iommufd(vm, domain).await?;
    let start = vm.start_report.begin();
    let startup_watch = StartingUpPoll::start(vm, domain);
    let started = vm
        .client
        .on(domain, "starting the domain", START, move |domain| {
            domain.start(how)
        });
    if let Err(error) = started.await {
        report_failure(vm).await;
        return Err(OpError::from(error).naming_hook(|text| vm.hooks.named_in(text)));
    }
    drop(startup_watch);
    start.succeeded();
    if by_owner && vm.boot_resources.test_driver {
        vm.client
            .on(domain, "pausing the domain", COMMAND, |domain| {
                domain.suspend()
            })
            .await?;
    }
    vm.driver_state().paused_by_user = by_owner;
    tracing::info!(paused = by_owner, "domain started");
    report_applied(vm);
    if !vm.start_report.accepted().await {
        tracing::warn!("virt-handler has not accepted the notification of the start");
    }
    Ok(())
}

/// libvirt opens host devices through the iommufd if they name the group.
async fn associate_iommufd(vm: &VmContext, domain: &Arc<dyn Domain>) -> Result<(), OpError> {
    const GROUP: &str = "iommu";
    let Some(device) = vm.boot_resources.iommufd.get() else {
        return Ok(());
    };
    vm.client
        .on(domain, "lending the iommufd", QUICK, move |domain| {
            domain.associate_fds(GROUP, &[device.as_fd()])
        })
        .await?;
    Ok(())
}

/// The emulator's threads are moved to their own processor before the guest's first instruction.
fn isolates_emulator(vmi: &Vmi) -> bool {
    let cpu = vmi.value().pointer("/spec/domain/cpu");
    cpu.is_some_and(|cpu| {
        cpu["dedicatedCpuPlacement"] == true && cpu["isolateEmulatorThread"] == true
    })
}

async fn write_cloud_init(
    vm: &VmContext,
    vmi: &Vmi,
    domain: &Arc<dyn Domain>,
) -> Result<(), OpError> {
    let Some(image) = vm.driver_state().cloud_init.clone() else {
        return Ok(());
    };
    let xml = vm.client.xml(domain, XmlKind::Inactive).await?;
    Ok(vm
        .boot_resources
        .write_cloud_init(vmi, Some(&xml), image)
        .await?)
}

//! Starts a defined domain, or resumes one that was started paused.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use kubevirt_api::vmi::Vmi;
use libvirt::{Domain, DomainState, StartOptions, State, XmlKind};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::hook_applied_events::report_applied;
use super::qemu_start_poll::QemuStartPoll;
use super::safe_point;
use crate::jobs::JobKind;
use crate::libvirt_client::{COMMAND, QUICK, START};
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::sync_request::SyncRequest;
use crate::manager::vm_context::VmContext;
use crate::vm_events::VmEvent;

/// How long to wait for a QEMU that is being shut down.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
const SHUTDOWN_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long to wait until the observer has published a failed start. libvirt's daemon may be down, too.
const FAILURE_PUBLISH_TIMEOUT: Duration = Duration::from_secs(3);

/// Starts a defined domain that is off, and resumes a paused one, unless its owner, a job or a migration paused it:
/// after a migration, the guest may run on the target. `state` is the domain's state.
pub(super) async fn start_or_resume(
    vm: &VmContext,
    request: &SyncRequest,
    domain: &Arc<dyn Domain>,
    state: State,
    interrupted: &CancellationToken,
) -> Result<CommandSuccess, CommandError> {
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
        return Ok(CommandSuccess::Unchanged);
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
    Ok(CommandSuccess::Unchanged)
}

/// Waits for a QEMU that is being shut down, and returns the domain's state: if libvirt's daemon dies during a start,
/// the next daemon shuts that QEMU down.
async fn state_after_shutdown(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    mut state: State,
) -> Result<State, CommandError> {
    let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
    while state.state == DomainState::Shutdown && Instant::now() < deadline {
        tokio::time::sleep(SHUTDOWN_POLL_INTERVAL).await;
        state = vm.client.state_of(domain).await?;
    }
    Ok(state)
}

/// Publishes that the start has failed, and waits for that: the start may have been published, and virt-handler must
/// know of the failure before it gets the response.
async fn publish_failure(vm: &VmContext) {
    // Fails only when the observer is gone.
    let _ = vm.events.send(VmEvent::StartFailed);
    let _ = tokio::time::timeout(
        FAILURE_PUBLISH_TIMEOUT,
        vm.start_notification.wait_until_ended(),
    )
    .await;
}

/// Whether the VMI's phase says that the VM has run. Such a VM is not started again.
pub(super) fn has_run(vmi: &Vmi) -> bool {
    matches!(
        vmi.status.phase.as_str(),
        "Running" | "Succeeded" | "Failed"
    )
}

async fn start(vm: &VmContext, vmi: &Vmi, domain: &Arc<dyn Domain>) -> Result<(), CommandError> {
    let is_paused_by_owner = vmi.starts_paused();
    let options = StartOptions {
        paused: (is_paused_by_owner || isolates_emulator(vmi)) && !vm.boot_resources.test_driver,
        ..StartOptions::RUNNING
    };
    vm.driver_state().disk_capacities.forget();
    associate_iommufd(vm, domain).await?;
    let start = vm.start_notification.begin();
    let create_call = Arc::new(());
    vm.driver_state().create_call = Arc::downgrade(&create_call);
    let poll = QemuStartPoll::start(vm, domain);
    let started = vm
        .client
        .on(domain, "starting the domain", START, move |domain| {
            let _running = &create_call;
            domain.start(options)
        });
    if let Err(error) = started.await {
        publish_failure(vm).await;
        return Err(CommandError::from(error).with_hook(|text| vm.hooks.hook_of_refusal(text)));
    }
    drop(poll);
    start.succeeded();
    if is_paused_by_owner && vm.boot_resources.test_driver {
        vm.client
            .on(domain, "pausing the domain", COMMAND, |domain| {
                domain.suspend()
            })
            .await?;
    }
    vm.driver_state().paused_by_user = is_paused_by_owner;
    tracing::info!(paused = is_paused_by_owner, "domain started");
    report_applied(vm);
    if !vm.start_notification.wait_until_accepted().await {
        tracing::warn!("virt-handler has not accepted the notification of the start");
    }
    Ok(())
}

/// Passes libvirt the iommufd, through which it opens host devices that name this group.
async fn associate_iommufd(vm: &VmContext, domain: &Arc<dyn Domain>) -> Result<(), CommandError> {
    const IOMMUFD_GROUP: &str = "iommu";
    let Some(device) = vm.boot_resources.iommufd.get() else {
        return Ok(());
    };
    vm.client
        .on(domain, "lending the iommufd", QUICK, move |domain| {
            domain.associate_fds(IOMMUFD_GROUP, &[device.as_fd()])
        })
        .await?;
    Ok(())
}

/// Whether QEMU's emulator threads get a CPU of their own. Such a domain is started paused, so that they are moved
/// there before the guest's first instruction.
fn isolates_emulator(vmi: &Vmi) -> bool {
    let cpu = vmi.spec.domain.cpu.as_ref();
    cpu.is_some_and(|cpu| cpu.dedicated_cpu_placement && cpu.isolate_emulator_thread)
}

async fn write_cloud_init(
    vm: &VmContext,
    vmi: &Vmi,
    domain: &Arc<dyn Domain>,
) -> Result<(), CommandError> {
    let Some(image) = vm.driver_state().cloud_init.clone() else {
        return Ok(());
    };
    let xml = vm.client.xml(domain, XmlKind::Inactive).await?;
    Ok(vm
        .boot_resources
        .write_cloud_init(vmi, Some(&xml), image)
        .await?)
}

//! Sync: starts the VM, or changes the running VM to match its VMI.
//!
//! ```text
//!   ConvertedVm ──prepare──▶ PreparedDomain ──define──▶ (a domain) ──start_or_resume──▶ running
//!     │ VMI converted          │ hooks ran, images exist                   │ cloud-init image written
//! ```
//! After a failure before `define` there is no domain, and the next sync starts from the beginning, including the
//! hooks. After `define`, a repeated sync only starts the domain: hooks run once per boot.

mod expand_disks;
mod reconcile;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use domain::convert::{Purpose, has_attached_sriov};
use domain::hotplug_ports::{DefinitionPlan, HotplugPorts, free_root_ports};
use domain::libvirt_spec::DomainSpec;
use kubevirt_api::vmi::Vmi;
use libvirt::{Domain, DomainState, Reason, StartOptions, State, UndefineOptions, XmlKind};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::prepare_domain::PreparedDomain;
use super::{prepare_domain, report_applied, require_own_vm, unless_interrupted};
use crate::jobs::JobKind;
use crate::libvirt_client::{COMMAND, Client, QUICK, START};
use crate::manager::CommandSuccess;
use crate::manager::command_error::{CommandError, CommandRefusal};
use crate::manager::sync_request::SyncRequest;
use crate::manager::vm_context::VmContext;
use crate::manager::vm_phase::Phase;
use crate::vm_boot::host_facts::wait_for_network_info;
use crate::vm_events::{VmEvent, VmEventSender};
use reconcile::reconcile;
pub(super) use reconcile::report_failed_changes;

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
    let start_result = start_or_resume(vm, request, &domain, state, interrupted).await?;
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
    prepared: PreparedDomain<'_>,
    interrupted: &CancellationToken,
) -> Result<CommandSuccess, CommandError> {
    let start = vm.start_notification.begin();
    let domain = prepared.define(vm).await?;
    let state = vm.client.state_of(&domain).await?;
    let answer = start_or_resume(vm, request, &domain, state, interrupted).await?;
    if answer == CommandSuccess::Changed {
        start.succeeded();
    }
    apply_settings(vm, request);
    Ok(answer)
}

/// Applies the settings of the VMI that do not concern libvirt.
fn apply_settings(vm: &VmContext, request: &SyncRequest) {
    reconcile::report_unapplied_changes(vm, &request.vmi);
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
    let is_ready = vm.driver_state().defined || !state.is_down() || has_run(&request.vmi);
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

/// How long to wait for a QEMU that is being shut down.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
const SHUTDOWN_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long to wait until the observer has published a failed start. libvirt's daemon may be down, too.
const FAILURE_PUBLISH_TIMEOUT: Duration = Duration::from_secs(3);

/// Starts a defined domain that is off, and resumes a paused one, unless its owner, a job or a migration paused it:
/// after a migration, the guest may run on the target. `state` is the domain's state.
async fn start_or_resume(
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
fn has_run(vmi: &Vmi) -> bool {
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

/// How long to wait for each notification of the definition. They have to be sent before the start, because a
/// notification contains the domain as it is when it is sent. That takes milliseconds; after the timeout the domain is
/// started anyway.
const PUBLISH_TIMEOUT: Duration = Duration::from_millis(500);

impl PreparedDomain<'_> {
    /// Defines the domain, with free root ports for hotplug.
    async fn define(self, vm: &VmContext) -> Result<Arc<dyn Domain>, CommandError> {
        let kubevirt = vm.boot_resources.facts.kubevirt_version;
        let definition = DefinitionPlan::plan_for(kubevirt, self.vmi, self.xml)?;
        // Nothing is published until the definition is complete.
        let defining = vm.defining.lock().await;
        let domain = define(vm, definition.first().to_owned()).await?;
        if definition.has_second()
            && let Err(error) = define_again(vm, &domain, &definition).await
        {
            undefine(vm, &domain).await;
            return Err(error);
        }
        drop(defining);
        {
            let mut state = vm.driver_state();
            state.defined = true;
            state.cloud_init = self.cloud_init;
            state.applied_hooks = self.applied_hooks;
        }
        vm.credentials.send_replace(self.credentials);
        let mut phase = vm.phase.clone();
        let defined = phase.wait_for(|phase| *phase != Phase::Absent);
        wait_for_publication("definition", defined).await;
        vm.metadata
            .set_identity(self.vmi.uid(), self.vmi.grace_period_seconds());
        wait_for_publication("metadata", vm.metadata.all_published()).await;
        tracing::info!("domain defined");
        Ok(domain)
    }
}

async fn define(vm: &VmContext, xml: String) -> Result<Arc<dyn Domain>, CommandError> {
    tracing::debug!(xml, "defining the domain");
    vm.client
        .libvirt("defining the domain", COMMAND, move |hypervisor| {
            hypervisor.define(&xml)
        })
        .await
        .map_err(|error| CommandError::from(error).with_hook(|text| vm.hooks.hook_of_refusal(text)))
}

/// Defines the domain a second time, after libvirt has assigned addresses. libvirt's XML is edited, so that nothing of
/// it is lost.
async fn define_again(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    definition: &DefinitionPlan,
) -> Result<(), CommandError> {
    let defined = vm.client.xml(domain, XmlKind::Inactive).await?;
    if let Some(xml) = definition.second(&defined)? {
        define(vm, xml).await?;
        report_missing_ports(vm, domain, definition.ports()).await;
    }
    Ok(())
}

/// Logs if libvirt's domain has fewer free root ports than were reserved. The VM starts with them all the same.
async fn report_missing_ports(vm: &VmContext, domain: &Arc<dyn Domain>, reserved: HotplugPorts) {
    let reserved = reserved.placeholders.saturating_add(reserved.spare_ports);
    let free = match vm.client.xml(domain, XmlKind::Inactive).await {
        Ok(defined) => free_root_ports(&defined).map_err(CommandError::from),
        Err(error) => Err(error.into()),
    };
    match free {
        Ok(free) if free >= reserved => {
            tracing::debug!(free, reserved, "PCIe root ports for hotplug");
        }
        Ok(free) => tracing::warn!(
            free,
            reserved,
            "fewer PCIe root ports are free for hotplug than were reserved"
        ),
        Err(error) => {
            let reason = error.message();
            tracing::warn!(reason, "the free PCIe root ports cannot be counted");
        }
    }
}

/// Undefines the domain after a failure, so that the next sync starts from the beginning.
async fn undefine(vm: &VmContext, domain: &Arc<dyn Domain>) {
    let undefined = vm
        .client
        .on(domain, "undefining the domain", COMMAND, |domain| {
            domain.undefine(UndefineOptions::KEEP)
        });
    if let Err(error) = undefined.await {
        tracing::error!(reason = %error, "a domain that is half defined stays");
    }
}

async fn wait_for_publication<T>(what: &str, published: impl Future<Output = T>) {
    if tokio::time::timeout(PUBLISH_TIMEOUT, published)
        .await
        .is_err()
    {
        tracing::warn!(
            "virt-handler could not be notified of the {what} within {PUBLISH_TIMEOUT:?}"
        );
    }
}

// Polls for the moment during a start when the domain has a QEMU process and its vCPUs do not run yet. virt-handler is
// notified of that moment, and libvirt sends no event for it.

/// The pause between two polls. The moment lasts tens of milliseconds, and the daemon can answer whenever it waits for
/// QEMU.
const POLL_INTERVAL: Duration = Duration::from_millis(3);

/// What to do after a poll of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextStep {
    PollAgain,
    Report,
    Stop,
}

/// A task that polls until the moment has come or has passed. Dropping it ends the task.
struct QemuStartPoll(
    #[expect(dead_code, reason = "ends the task when it is dropped")] AbortOnDropHandle<()>,
);

impl QemuStartPoll {
    fn start(vm: &VmContext, domain: &Arc<dyn Domain>) -> QemuStartPoll {
        let watch = watch(vm.client.clone(), Arc::clone(domain), vm.events.clone());
        QemuStartPoll(AbortOnDropHandle::new(tokio::spawn(watch)))
    }
}

/// Polls the state, and sends [`VmEvent::StartingUp`] if the moment comes.
async fn watch(client: Client, domain: Arc<dyn Domain>, events: VmEventSender) {
    loop {
        match client
            .state_of(&domain)
            .await
            .map_or(NextStep::Stop, next_step)
        {
            NextStep::PollAgain => tokio::time::sleep(POLL_INTERVAL).await,
            NextStep::Report => {
                // Fails only when the observer is gone.
                let _ = events.send(VmEvent::StartingUp);
                return;
            }
            NextStep::Stop => return,
        }
    }
}

fn next_step(state: State) -> NextStep {
    match (state.state, state.reason) {
        (DomainState::Paused, Reason::StartingUp) => NextStep::Report,
        _ if state.is_down() => NextStep::PollAgain,
        _ => NextStep::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_until_the_domain_is_no_longer_off() {
        let after = |state, reason| next_step(State::new(state, reason));
        assert_eq!(
            after(DomainState::Shutoff, Reason::Unknown),
            NextStep::PollAgain
        );
        assert_eq!(
            after(DomainState::Paused, Reason::StartingUp),
            NextStep::Report
        );
        assert_eq!(after(DomainState::Paused, Reason::User), NextStep::Stop);
        assert_eq!(after(DomainState::Running, Reason::Booted), NextStep::Stop);
    }
}

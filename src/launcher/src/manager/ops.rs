//! The operations of commands. Each is a function of the VM; the driver decides when it runs.

mod attach_device;
mod finalize_migration;
mod hotplug;
mod prepare_domain;
mod remove_failed_attaches;
mod sync;
mod sync_migration_target;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use domain::reconcile::LiveDomain;
use futures_util::future::poll_immediate;
use kubevirt_api::vmi::Vmi;
use libvirt::{
    Domain, DomainState, Reason, RebootMode, ShutdownMode, State, UndefineOptions, XmlKind,
};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::command_error::{CommandError, CommandRefusal};
use super::vm_context::VmContext;
use crate::guest_agent;
use crate::guest_agent::guest_clock_sync::GuestClockSync;
use crate::guest_agent::{AGENT_TIMEOUT, Change, FreezeError, FreezeRequest, shorten};
use crate::jobs::{
    AbortReason, BackupError, BackupId, BackupRequest, Checkpoint, ExportRequest, JobStart,
    MemoryDumpRequest, MigrationJob,
};
use crate::libvirt_client::{
    AGENT, AGENT_REBOOT, COMMAND, CallClass, CallError, DomainEnd, POWER_BUTTON,
};
use crate::manager::vm_phase::Role;
use crate::manager::{CommandSuccess, Phase, hook_applied_event_messages};
use crate::notify::Warning;
use crate::vm_events::VmEvent;
pub(super) use finalize_migration::finalize_migration;
pub(super) use hotplug::{attach_sriov_interfaces, set_cpus, set_memory};
pub(super) use sync::sync;
pub(super) use sync_migration_target::sync_migration_target;

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

/// Pauses the vCPUs. A VM that is not running stays as it is.
///
/// `paused_by_user` is set before the call, because libvirt may still pause the domain after the call has timed out.
pub(super) async fn pause(vm: &VmContext) -> Result<CommandSuccess, CommandError> {
    vm.driver_state().guest_clock = None;
    let domain = vm.client.lookup().await?.ok_or(CommandError::NotFound)?;
    if vm.client.state_of(&domain).await?.state != DomainState::Running {
        return Ok(CommandSuccess::Unchanged);
    }
    vm.driver_state().paused_by_user = true;
    let paused = vm
        .client
        .on(&domain, "pausing the domain", COMMAND, |domain| {
            domain.suspend()
        });
    if let Err(error) = paused.await {
        if error.is_definite() {
            vm.driver_state().paused_by_user = false;
        }
        return Err(error.into());
    }
    Ok(CommandSuccess::Changed)
}

/// Resumes the vCPUs, and starts the task that sets the guest's clock. A VM that is not paused stays as it is.
pub(super) async fn unpause(vm: &VmContext) -> Result<CommandSuccess, CommandError> {
    let domain = vm.client.lookup().await?.ok_or(CommandError::NotFound)?;
    let state = vm.client.state_of(&domain).await?.state;
    // Also for a running VM, because libvirt may still carry out a pause that has timed out.
    vm.driver_state().paused_by_user = false;
    if state != DomainState::Paused {
        return Ok(CommandSuccess::Unchanged);
    }
    let unpaused = vm
        .client
        .on(&domain, "unpausing the domain", COMMAND, |domain| {
            domain.resume()
        });
    if let Err(error) = unpaused.await {
        if error.is_definite() {
            vm.driver_state().paused_by_user = true;
        }
        return Err(error.into());
    }
    vm.driver_state().guest_clock = Some(GuestClockSync::start(vm.client.clone(), domain));
    Ok(CommandSuccess::Changed)
}

// Admits a freeze only if the VM does not migrate, and passes freeze and thaw to the
// [`Freezer`](crate::guest_agent::Freezer).

/// Freezes the guest's file systems, unless the VM migrates: the guest would arrive frozen, and the timer that thaws it
/// would not be on the target.
pub(super) async fn freeze(
    vm: &VmContext,
    request: FreezeRequest,
) -> Result<CommandSuccess, CommandError> {
    if vm.role() != Role::NoMigration {
        return Err(CommandError::FreezeDuringMigration);
    }
    freeze_result(vm.freezer.freeze(request).await)
}

/// Thaws the guest's file systems.
pub(super) async fn unfreeze(vm: &VmContext) -> Result<CommandSuccess, CommandError> {
    freeze_result(vm.freezer.thaw().await)
}

fn freeze_result(change: Result<Change, FreezeError>) -> Result<CommandSuccess, CommandError> {
    match change {
        Ok(Change::Done) => Ok(CommandSuccess::Changed),
        Ok(Change::None | Change::NothingToFreeze) => Ok(CommandSuccess::Unchanged),
        Err(FreezeError::Agent(error)) => Err(error.into()),
        Err(error) => Err(CommandError::Freeze(error)),
    }
}

/// Resets the VM without the guest's cooperation.
pub(super) async fn reset(vm: &VmContext) -> Result<CommandSuccess, CommandError> {
    let domain = vm
        .client
        .lookup()
        .await?
        .ok_or_else(|| CommandError::no_domain(&vm.identity.domain))?;
    vm.client
        .on(&domain, "resetting the domain", COMMAND, |domain| {
            domain.reset()
        })
        .await?;
    Ok(CommandSuccess::Changed)
}

// Soft reboot. If the agent gives no answer to the request itself, the reboot counts as accepted, because the agent
// stops when the guest reboots.

/// How the guest is asked to reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RebootMethod {
    Agent,
    AgentOrPowerButton,
    PowerButton,
}

/// Asks the guest to reboot: through its agent if the VMI reports one as connected and the agent answers a ping,
/// otherwise by the power button. A frozen guest is thawed first, since it could do neither.
pub(super) async fn soft_reboot(vm: &VmContext, vmi: &Vmi) -> Result<CommandSuccess, CommandError> {
    let method = reboot_method(vmi)?;
    let domain = vm
        .client
        .lookup()
        .await?
        .ok_or_else(|| CommandError::no_domain(&vm.identity.domain))?;
    let is_agent_silent = !vm.freezer.thaw_if_frozen(AGENT_TIMEOUT).await;
    let has_button = method == RebootMethod::AgentOrPowerButton;
    if method == RebootMethod::PowerButton || (is_agent_silent && has_button) {
        press_power_button(vm, &domain).await?;
        return Ok(CommandSuccess::Changed);
    }
    match guest_agent::expect_answer(&vm.client, &domain).await {
        Ok(()) => ask_agent(vm, &domain).await?,
        Err(error) if has_button => {
            tracing::debug!(reason = %error, "the guest agent does not answer, pressing the power button");
            press_power_button(vm, &domain).await?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(CommandSuccess::Changed)
}

async fn ask_agent(vm: &VmContext, domain: &Arc<dyn Domain>) -> Result<(), CallError> {
    match reboot(vm, domain, AGENT_REBOOT, RebootMode::Agent).await {
        // The agent stops answering while the guest reboots.
        Err(CallError::Libvirt(error)) if error.is_agent_unresponsive() => Ok(()),
        Err(CallError::NoAnswer(error)) => {
            tracing::info!(reason = %error, "the guest accepted the reboot, and has not rebooted yet");
            Ok(())
        }
        other => other,
    }
}

async fn press_power_button(vm: &VmContext, domain: &Arc<dyn Domain>) -> Result<(), CallError> {
    reboot(vm, domain, POWER_BUTTON, RebootMode::Acpi).await
}

async fn reboot(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    class: CallClass,
    mode: RebootMode,
) -> Result<(), CallError> {
    let reboot = move |domain: &dyn Domain| domain.reboot(mode).map_err(shorten);
    let what = "asking the guest to reboot";
    vm.client.on(domain, what, class, reboot).await
}

fn reboot_method(vmi: &Vmi) -> Result<RebootMethod, CommandError> {
    let features = vmi.spec.domain.features.as_ref();
    let acpi = features.is_none_or(|features| features.acpi.is_enabled());
    match (is_agent_connected(vmi), acpi) {
        (true, true) => Ok(RebootMethod::AgentOrPowerButton),
        (true, false) => Ok(RebootMethod::Agent),
        (false, true) => Ok(RebootMethod::PowerButton),
        (false, false) => Err(CommandError::NoWayToReboot),
    }
}

fn is_agent_connected(vmi: &Vmi) -> bool {
    let mut conditions = vmi.status.conditions.iter();
    conditions.any(|condition| condition.kind == "AgentConnected" && condition.status == "True")
}

/// Asks the guest to power off: through its agent if that answers, otherwise by the power button. Does nothing if the
/// VM does not run.
///
/// A VM that its user has paused is resumed first, and a frozen guest is thawed: neither can power off, and both would
/// be destroyed at the end of the grace period while their file systems are in use.
pub(super) async fn shutdown(vm: &VmContext) -> Result<CommandSuccess, CommandError> {
    vm.power_off_requested.notify_one();
    vm.driver_state().guest_clock = None;
    // A guest that is paused for a job cannot react, and libvirt refuses the call while the job runs.
    vm.jobs.end(AbortReason::Shutdown).await;
    let Some(domain) = vm.client.lookup().await? else {
        return Ok(CommandSuccess::Unchanged);
    };
    let state = vm.client.state_of(&domain).await?;
    if !is_up(state) {
        return Ok(CommandSuccess::Unchanged);
    }
    if state.state == DomainState::Paused && state.reason == Reason::User {
        resume(vm, &domain).await?;
    }
    if let Err(error) = power_off(vm, &domain).await {
        // The guest may have powered off by itself meanwhile.
        return match vm.client.state_of(&domain).await {
            Ok(state) if is_up(state) => Err(error.into()),
            Ok(_) => Ok(CommandSuccess::Unchanged),
            Err(other) if other.is_no_domain() => Ok(CommandSuccess::Unchanged),
            Err(_) => Err(error.into()),
        };
    }
    vm.metadata.set_deletion_timestamp();
    // Fails only when the observer is gone.
    let _ = vm.events.send(VmEvent::PowerOffRequested);
    Ok(CommandSuccess::Changed)
}

fn is_up(state: State) -> bool {
    matches!(state.state, DomainState::Running | DomainState::Paused)
}

async fn resume(vm: &VmContext, domain: &Arc<dyn Domain>) -> Result<(), CallError> {
    tracing::info!(
        "the VM is paused and is to end: it is resumed, so that its guest can power off"
    );
    vm.driver_state().paused_by_user = false;
    vm.client
        .on(domain, "resuming the domain", COMMAND, |domain| {
            domain.resume()
        })
        .await
}

async fn power_off(vm: &VmContext, domain: &Arc<dyn Domain>) -> Result<(), CallError> {
    const CALL_NAME: &str = "asking the guest to power off";
    // The agent has this time for both, so that the power button is pressed before virt-handler gives up.
    let deadline = Instant::now() + AGENT_TIMEOUT;
    if vm.freezer.thaw_if_frozen(AGENT_TIMEOUT).await {
        let class = AGENT.within(deadline.saturating_duration_since(Instant::now()));
        let through_agent =
            |domain: &dyn Domain| domain.shutdown(ShutdownMode::Agent).map_err(shorten);
        let Err(error) = vm.client.on(domain, CALL_NAME, class, through_agent).await else {
            return Ok(());
        };
        tracing::debug!(reason = %error, "the guest agent does not answer, pressing the power button");
    }
    let by_button = |domain: &dyn Domain| domain.shutdown(ShutdownMode::Acpi);
    vm.client
        .on(domain, CALL_NAME, POWER_BUTTON, by_button)
        .await
}

/// How long to wait for interrupted commands.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for a job after its QEMU has ended.
const JOB_END_TIMEOUT: Duration = Duration::from_secs(2);
/// When the response says that the VM has not ended, if a command that starts it goes on. virt-handler waits 20 s for
/// the response, and then repeats the kill.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(19);

/// Kills QEMU. Does nothing if the VM does not exist or does not run.
///
/// `others_ended` resolves when no other command runs. A command that starts the VM may be past its last safe point, so
/// QEMU is ended again after that command.
pub(super) async fn kill(
    vm: &VmContext,
    others_ended: impl Future<Output = ()>,
) -> Result<CommandSuccess, CommandError> {
    vm.driver_state().guest_clock = None;
    // Fails only when the observer is gone.
    let _ = vm.events.send(VmEvent::Destroying);
    // Before QEMU ends, so that the job records a kill and not a crash.
    let runs_job = vm.jobs.running().borrow().is_some();
    vm.jobs.abort(AbortReason::Kill);
    let deadline = Instant::now() + RESPONSE_TIMEOUT;
    let end = timeout_at(deadline, end_qemu(vm, others_ended)).await;
    let end = end.map_err(|_| CommandError::KillGoesOn)??;
    if end == DomainEnd::Killed {
        report_sigkill(vm);
    }
    // A delete may follow, after which nothing is published: the job's result must be published before.
    if runs_job
        && timeout(JOB_END_TIMEOUT, vm.jobs.all_published())
            .await
            .is_err()
    {
        tracing::warn!("a job goes on after QEMU has ended");
    }
    if end == DomainEnd::WasDown {
        let _ = vm.events.send(VmEvent::QemuMissing);
        return Ok(CommandSuccess::Unchanged);
    }
    Ok(CommandSuccess::Changed)
}

/// Ends QEMU, and once more after the other commands if there are any.
async fn end_qemu(
    vm: &VmContext,
    others_ended: impl Future<Output = ()>,
) -> Result<DomainEnd, CommandError> {
    let mut others_ended = pin!(others_ended);
    let is_alone = poll_immediate(&mut others_ended).await.is_some();
    let end = vm.client.destroy().await?;
    if is_alone {
        return Ok(end);
    }
    if timeout(INTERRUPT_TIMEOUT, others_ended).await.is_err() {
        tracing::warn!("an interrupted command goes on longer than {INTERRUPT_TIMEOUT:?}");
    }
    match vm.client.destroy().await {
        Err(CallError::NoAnswer(error)) if end != DomainEnd::WasDown => {
            tracing::warn!(reason = %error, "QEMU has ended, and libvirt's daemon hangs");
            Ok(end)
        }
        second => Ok(end.max(second?)),
    }
}

/// Tells the VM's owner what a SIGKILL has lost.
fn report_sigkill(vm: &VmContext) {
    let warning = Warning {
        reason: "QemuKilled",
        message: "QEMU has not ended by SIGTERM in time, and was killed: what it had yet to write to its storage is lost. \
                  The next incremental backup of its disks may have to be a full one, and the TPM may have an older state"
            .to_owned(),
    };
    tracing::warn!("{}", warning.message);
    vm.notifier.warning(&warning);
}

/// How long the response waits for virt-handler to accept the last notification.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Undefines the domain. UEFI variables are kept: they are on a volume of their own.
///
/// `others_ended` resolves when no other command runs. It is awaited because a command that is defining the domain
/// would leave it defined. A domain that libvirt is starting is not undefined: it would run without a definition, and
/// changes of its devices would be refused.
pub(super) async fn delete(
    vm: &VmContext,
    others_ended: impl Future<Output = ()>,
) -> Result<CommandSuccess, CommandError> {
    let _ = timeout(INTERRUPT_TIMEOUT, others_ended).await;
    if vm.driver_state().create_call.strong_count() > 0 {
        return Err(CommandError::DeleteDuringStart);
    }
    // libvirt undefines no domain while a job changes it.
    vm.jobs.end(AbortReason::Kill).await;
    let undefine = |domain: &dyn Domain| domain.undefine(UndefineOptions::KEEP);
    let undefined = vm.client.end("undefining the domain", undefine).await?;
    let start_was_tried = {
        let mut state = vm.driver_state();
        state.deleted = true;
        state.start_was_tried
    };
    let Some(()) = undefined else {
        if start_was_tried && *vm.phase.borrow() == Phase::Absent {
            vm.deleted_before_definition.notify_one();
        }
        return Ok(CommandSuccess::Unchanged);
    };
    // A domain that still runs has only become transient; it is gone when it ends.
    if *vm.phase.borrow() != Phase::Active {
        let accepted = timeout(ACCEPT_TIMEOUT, final_notification_accepted(vm)).await;
        if accepted.is_err() {
            tracing::debug!("virt-handler has not accepted that the domain is gone");
        }
    }
    Ok(CommandSuccess::Changed)
}

/// Waits until virt-handler has accepted the notification that the domain is gone. This comes before the response,
/// after which virt-handler closes its notification socket.
async fn final_notification_accepted(vm: &VmContext) {
    let mut phases = vm.phase.clone();
    // Cannot fail: the observer holds the sender and outlives the commands.
    let _ = phases.wait_for(|phase| *phase == Phase::Gone).await;
    vm.notifier.flush(ACCEPT_TIMEOUT).await;
}

/// Starts a memory dump, unless a dump is running or the last one had the same file. virt-handler reads its result in
/// the domain's metadata.
pub(super) fn start_memory_dump(
    vm: &VmContext,
    request: MemoryDumpRequest,
) -> Result<CommandSuccess, CommandError> {
    job_start_result(vm.jobs.start_memory_dump(request))
}

/// Starts a migration to another pod, unless it is running already. virt-handler reads its result in the domain's
/// metadata.
///
/// A frozen guest is not migrated: it would arrive frozen, and the timer that thaws it would not be on the target. The
/// guest is not thawed either, since a snapshot may rely on the freeze.
pub(super) async fn migrate(
    vm: &VmContext,
    job: MigrationJob,
) -> Result<CommandSuccess, CommandError> {
    require_own_vm(vm, job.vmi())?;
    if vm.role() == Role::NoMigration && vm.freezer.keeps_frozen().await {
        return Err(CommandError::MigrationOfFrozenGuest);
    }
    vm.driver_state().guest_clock = None;
    job_start_result(vm.jobs.start_migration(job))
}

/// Cancels the running migration, if there is one; returns at once.
pub(super) fn cancel_migration(vm: &VmContext) -> Result<CommandSuccess, CommandError> {
    vm.jobs.cancel_migration();
    Ok(CommandSuccess::Changed)
}

/// Starts a backup, unless it is running already. virt-handler reads its result in the domain's metadata.
pub(super) async fn start_backup(
    vm: &VmContext,
    request: BackupRequest,
) -> Result<CommandSuccess, CommandError> {
    // The migration may still fail, and the source take the VM back.
    if vm.role() == Role::Target {
        return Err(BackupError::MigrationRuns.into());
    }
    job_start_result(vm.jobs.start_backup(request).await?)
}

/// Serves the running backup to the export server.
pub(super) async fn export_backup(
    vm: &VmContext,
    request: ExportRequest,
) -> Result<CommandSuccess, CommandError> {
    vm.jobs.export_backup(request).await?;
    Ok(CommandSuccess::Changed)
}

/// Ends the running backup.
pub(super) async fn abort_backup(
    vm: &VmContext,
    id: &BackupId,
) -> Result<CommandSuccess, CommandError> {
    vm.jobs.abort_backup(id).await?;
    Ok(CommandSuccess::Changed)
}

/// Makes the checkpoint of an earlier backup known to libvirt.
pub(super) async fn redefine_checkpoint(
    vm: &VmContext,
    checkpoint: &Checkpoint,
) -> Result<CommandSuccess, CommandError> {
    vm.jobs.redefine_checkpoint(checkpoint).await?;
    Ok(CommandSuccess::Changed)
}

/// Converts the result of a job's start to that of its command.
fn job_start_result(start: JobStart) -> Result<CommandSuccess, CommandError> {
    match start {
        JobStart::Started => Ok(CommandSuccess::Changed),
        JobStart::AlreadyRunning | JobStart::AlreadyDone => Ok(CommandSuccess::Unchanged),
        JobStart::AlreadyExecuted(record) => Err(CommandError::MigrationExecuted {
            uid: record.uid,
            end: record.end_timestamp.unwrap_or_default(),
            failed: record.failed,
            abort_status: record.abort_status,
        }),
        JobStart::Busy(running) => Err(CommandError::OtherJobRuns(running)),
    }
}

/// The reason of the events.
const HOOK_APPLIED_REASON: &str = "HookApplied";

/// Logs the hooks' calls, and sends one Kubernetes event per hook of the boot that has just succeeded, unless the
/// operator's policy turns the events off.
fn report_applied(vm: &VmContext) {
    vm.hooks.log_calls("started");
    let applied = std::mem::take(&mut vm.driver_state().applied_hooks);
    if vm.hooks.publishes_applied_events() {
        for message in hook_applied_event_messages::messages(&applied) {
            vm.notifier.normal_event(HOOK_APPLIED_REASON, &message);
        }
    }
}

/// The running domain, as libvirt describes it.
async fn read_live_domain(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
) -> Result<LiveDomain, CommandError> {
    read(vm, domain, XmlKind::Active).await
}

/// The domain's definition, as libvirt describes it.
async fn read_definition(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
) -> Result<LiveDomain, CommandError> {
    read(vm, domain, XmlKind::Inactive).await
}

async fn read(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    kind: XmlKind,
) -> Result<LiveDomain, CommandError> {
    let xml = vm.client.xml(domain, kind).await?;
    LiveDomain::parse(xml).map_err(|error| {
        CommandError::DomainDescription(format!(
            "reading libvirt's description of the running domain: {error}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method_of(rest: &str) -> Result<RebootMethod, CommandError> {
        let vmi = format!(r#"{{"metadata":{{"name":"vm1"}}{rest}}}"#);
        reboot_method(&Vmi::from_json(vmi.as_bytes()).unwrap())
    }

    #[test]
    fn reboot_method_follows_from_agent_and_acpi() {
        let agent = r#","status":{"conditions":[{"type":"AgentConnected","status":"True"}]}"#;
        let disconnected =
            r#","status":{"conditions":[{"type":"AgentConnected","status":"False"}]}"#;
        let no_acpi = r#","spec":{"domain":{"features":{"acpi":{"enabled":false}}}}"#;
        assert_eq!(method_of("").unwrap(), RebootMethod::PowerButton);
        assert_eq!(method_of(agent).unwrap(), RebootMethod::AgentOrPowerButton);
        assert_eq!(method_of(disconnected).unwrap(), RebootMethod::PowerButton);
        assert!(matches!(
            method_of(no_acpi),
            Err(CommandError::NoWayToReboot)
        ));
        assert_eq!(
            method_of(&format!("{agent}{no_acpi}")).unwrap(),
            RebootMethod::Agent
        );
    }
}

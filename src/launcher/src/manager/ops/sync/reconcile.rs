//! Changes the running domain to match its VMI: [`domain::reconcile`] plans the changes, this module applies them one
//! after the other. The changes are independent: a change that fails holds up no other. The sync's error names all that
//! failed, one Kubernetes event reports each, and the next sync tries again. A device that a hook refuses is left out.
//! Devices that the guest has not released before come last, because libvirt waits for each.
//!
//! ```text
//! live XML ─ plan ─▶ detach disks, attach disks, change media ─ expand disks ─ interfaces ─ kept devices
//! ```

mod hotplugged_image_check;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::driver_modes::set_disk_modes;
use domain::libvirt_spec::{Disk, DomainSpec, Interface};
use domain::reconcile::{
    DeviceChange, DiskAttachment, HeldVolume, HoldReason, LiveDevice, LiveDomain, MediumChange,
    Plan, RunningSettings, data_path, device_xml, plan,
};
use hook_host::AttachTime;
use kubevirt_api::vmi::Vmi;
use libvirt::{Affect, Domain, origin};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{expand_disks, safe_point};
use crate::blocking;
use crate::libvirt_client::{COMMAND, request_detach};
use crate::manager::alert_reporter::{Condition, Subject};
use crate::manager::command_error::CommandError;
use crate::manager::ops::attach_device::{AttachResult, Attachment, forget_unwanted};
use crate::manager::ops::read_live_domain;
use crate::manager::ops::remove_failed_attaches::remove_failed_attaches;
use crate::manager::sync_request::SyncRequest;
use crate::manager::tracked_devices::DeviceKind;
use crate::manager::vm_context::VmContext;
use crate::manager::{CommandSuccess, DeviceChangeError};
use crate::notify::Warning;
use crate::vm_boot::boot_resources::{BootResourceError, FILE_TIMEOUT};
use crate::vm_boot::disk_images::DriverModeProbe;
use hotplugged_image_check::{Access, why_not_ready};

/// One sync of a running domain.
struct Reconciliation<'a> {
    vm: &'a VmContext,
    request: &'a SyncRequest,
    desired: &'a DomainSpec,
    domain: &'a Arc<dyn Domain>,
    interrupted: &'a CancellationToken,
    changes_deadline: ChangesDeadline,
    /// The time that the hooks of all attached devices have together; it starts with the first device.
    hook_time: OnceLock<AttachTime>,
}

/// Changes the running domain to match `request`. `desired` is the domain that its VMI converts to.
pub(super) async fn reconcile(
    vm: &VmContext,
    request: &SyncRequest,
    desired: &DomainSpec,
    domain: &Arc<dyn Domain>,
    interrupted: &CancellationToken,
) -> Result<CommandSuccess, CommandError> {
    if vm.boot_resources.test_driver {
        return Ok(CommandSuccess::Unchanged);
    }
    remove_failed_attaches(vm, domain).await;
    let live = read_live_domain(vm, domain).await?;
    if !live.has_qemu_process() {
        return Ok(CommandSuccess::Unchanged);
    }
    finish_detach(vm, &live).await;
    let changes_deadline = ChangesDeadline::start();
    let reconciliation = Reconciliation {
        vm,
        request,
        desired,
        domain,
        interrupted,
        hook_time: OnceLock::new(),
        changes_deadline,
    };
    let Plan { changes, held } = plan(&request.vmi, desired, &live);
    let (mut volumes, mut interfaces) = (Vec::new(), Vec::new());
    for change in &changes {
        match change {
            DeviceChange::AttachDisk(_) => volumes.push(change.name()),
            DeviceChange::AttachInterface(_) => interfaces.push(change.name()),
            _ => {}
        }
    }
    forget_unwanted(vm, DeviceKind::Volume, &volumes);
    forget_unwanted(vm, DeviceKind::Interface, &interfaces);
    let mut results = ChangeResults::with_held(&held);
    reconciliation
        .apply_all(changes, live, &mut results)
        .await?;
    report_waiting_volumes(vm, results.waiting);
    report_failed_changes(vm, Subject::FailedChanges, results.failed);
    match DeviceChangeError::of_all(results.failures) {
        Some(error) => Err(error.into()),
        None if results.changed_count > 0 => Ok(CommandSuccess::Changed),
        None => Ok(CommandSuccess::Unchanged),
    }
}

impl Reconciliation<'_> {
    /// Makes a change. Fails only when the VM is being ended. A failure of the change is logged with the sync's answer.
    async fn apply(
        &self,
        change: &DeviceChange,
        results: &mut ChangeResults,
    ) -> Result<(), CommandError> {
        safe_point(self.interrupted)?;
        let text = change.to_string();
        if !self.changes_deadline.may_start_change() {
            let failure = DeviceChangeError::OutOfTime { change: text };
            results.add_failure(failure, false);
            results.absent.push(change.name().to_owned());
            return Ok(());
        }
        match self.make(change).await {
            Ok(ChangeResult::Applied) => {
                tracing::info!(device = change.name(), "{change}: done");
                results.changed_count += 1;
                return Ok(());
            }
            Ok(ChangeResult::Waits(wait)) => {
                results.add_wait(change, wait);
                return Ok(());
            }
            // Logged where the hook is called.
            Ok(ChangeResult::HeldByHook) => {}
            Err(error) if error.is_refusal() => return Err(error),
            Err(CommandError::DeviceChange(failure)) => {
                tracing::debug!(device = change.name(), "{failure}");
                results.add_failure(failure, false);
            }
            Err(error) => {
                let is_of_device = is_of_device(&error);
                let vmi = &self.request.vmi;
                let failure = DeviceChangeError::failed(text, error.message(), vmi);
                tracing::debug!(device = change.name(), "{failure}");
                results.add_failure(failure, is_of_device);
            }
        }
        results.absent.push(change.name().to_owned());
        Ok(())
    }

    async fn make(&self, change: &DeviceChange) -> Result<ChangeResult, CommandError> {
        match change {
            DeviceChange::AttachDisk(attachment) => self.attach_disk(change, attachment).await,
            DeviceChange::DetachDisk(device) | DeviceChange::DetachInterface(device) => {
                self.detach(device).await
            }
            DeviceChange::ChangeMedium(medium) => self.change_medium(medium).await,
            DeviceChange::AttachInterface(interface) => {
                self.attach_interface(change, interface).await
            }
            DeviceChange::SetLink(device) => self.set_link(device).await,
        }
    }

    /// Calls the hooks of a device, and attaches it.
    async fn attach(
        &self,
        change: &DeviceChange,
        device: Attachment,
    ) -> Result<ChangeResult, CommandError> {
        let (vm, vmi) = (self.vm, &self.request.vmi);
        let start_hook_time = || {
            vm.hooks
                .attach_time()
                .until(self.changes_deadline.hooks_deadline())
        };
        let time = self.hook_time.get_or_init(start_hook_time);
        let attached = device.attach(vm, vmi, self.domain, time).await?;
        Ok(match attached {
            AttachResult::Attached => ChangeResult::Applied,
            AttachResult::RefusedByHook => ChangeResult::HeldByHook,
            AttachResult::HooksOutOfTime(reason) => {
                let out_of_time = DeviceChangeError::HooksOutOfTime {
                    change: change.to_string(),
                    request: "sync",
                    reason,
                };
                return Err(out_of_time.into());
            }
        })
    }

    /// Updates a device of the running domain and of its definition, or only of the running domain if the definition
    /// lacks the device.
    async fn update_device(
        &self,
        what: &'static str,
        xml: String,
    ) -> Result<ChangeResult, CommandError> {
        let update =
            move |domain: &dyn Domain| match domain.update_device(&xml, Affect::LiveAndConfig) {
                Err(error) if error.is_device_missing() => domain.update_device(&xml, Affect::Live),
                result => result,
            };
        self.vm
            .client
            .on(self.domain, what, COMMAND, update)
            .await?;
        Ok(ChangeResult::Applied)
    }

    /// Applies the changes of disks, expands disks, applies the changes of interfaces, and at last detaches the devices
    /// that the guest has kept before. `live` is the domain before the changes. Fails only when the VM is being ended.
    async fn apply_all(
        &self,
        changes: Vec<DeviceChange>,
        mut live: LiveDomain,
        results: &mut ChangeResults,
    ) -> Result<(), CommandError> {
        let (kept, changes): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| self.is_kept(change));
        let (disks, interfaces): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(DeviceChange::is_of_disk);
        let (detached_disks, disks): (Vec<_>, Vec<_>) =
            disks.into_iter().partition(DeviceChange::is_detach);
        self.apply_each(&detached_disks, results).await?;
        if !detached_disks.is_empty()
            && let Some(now) = self.finish_detaches(results).await
        {
            live = now;
        }
        for change in &disks {
            match occupant(change, &live) {
                Some(occupant) => {
                    results.add_wait(change, Wait::for_other_disk(&occupant));
                }
                None => self.apply(change, results).await?,
            }
        }
        if results.changed_count > 0 {
            self.vm.driver_state().disk_capacities.forget();
        }
        expand_disks::expand_disks(
            self.vm,
            &self.request.vmi,
            self.desired,
            self.domain,
            &results.absent,
        )
        .await;
        self.apply_each(&interfaces, results).await?;
        if interfaces.iter().any(DeviceChange::is_detach) {
            self.finish_detaches(results).await;
        }
        self.detach_again(&kept, results).await
    }

    async fn apply_each(
        &self,
        changes: &[DeviceChange],
        results: &mut ChangeResults,
    ) -> Result<(), CommandError> {
        for change in changes {
            self.apply(change, results).await?;
        }
        Ok(())
    }

    /// Whether the change detaches a device that the guest did not release when it was asked before.
    fn is_kept(&self, change: &DeviceChange) -> bool {
        match change {
            DeviceChange::DetachDisk(device) | DeviceChange::DetachInterface(device) => {
                self.vm.driver_state().detaching.is_kept(&device.alias)
            }
            _ => false,
        }
    }

    /// Detaches devices that the guest has kept before, as far as time allows.
    async fn detach_again(
        &self,
        kept: &[DeviceChange],
        results: &mut ChangeResults,
    ) -> Result<(), CommandError> {
        let before = results.changed_count;
        for change in kept {
            if !self.changes_deadline.may_start_change() {
                tracing::debug!("{change}: the guest keeps it; the next sync asks again");
            } else {
                self.apply(change, results).await?;
            }
        }
        if results.changed_count > before {
            self.finish_detaches(results).await;
            self.vm.driver_state().disk_capacities.forget();
        }
        Ok(())
    }

    /// Removes the overlays of devices that are gone, and reports devices that the guest keeps. Returns the running
    /// domain, if it can be read.
    async fn finish_detaches(&self, results: &mut ChangeResults) -> Option<LiveDomain> {
        match read_live_domain(self.vm, self.domain).await {
            Ok(live) => {
                finish_detach(self.vm, &live).await;
                Some(live)
            }
            Err(error) => {
                let change = "looking for devices that the guest has released".to_owned();
                let vmi = &self.request.vmi;
                let failure = DeviceChangeError::failed(change, error.message(), vmi);
                results.add_failure(failure, false);
                None
            }
        }
    }
}

/// The disk of the running domain that has the place of the disk to attach.
fn occupant(change: &DeviceChange, live: &LiveDomain) -> Option<String> {
    match change {
        DeviceChange::AttachDisk(attachment) => live.occupant(&attachment.disk),
        _ => None,
    }
}

impl Reconciliation<'_> {
    async fn attach_disk(
        &self,
        change: &DeviceChange,
        attachment: &DiskAttachment,
    ) -> Result<ChangeResult, CommandError> {
        let disk = &attachment.disk;
        let access = match disk.read_only {
            Some(_) => Access::Read,
            None => Access::ReadWrite,
        };
        if let Some(wait) = why_not_ready(&data_path(disk), access).await? {
            return Ok(ChangeResult::Waits(wait));
        }
        self.vm
            .boot_resources
            .changed_blocks(&self.request.vmi, disk)
            .await?;
        let disk = with_modes(disk.clone()).await?;
        let device = Attachment::volume(change.name(), device_xml("disk", &disk));
        for id in &attachment.new_io_threads {
            self.add_io_thread(*id).await?;
        }
        self.attach(change, device).await
    }

    /// Adds an IO thread that the disk to attach uses. If the disk is not attached, the thread stays, and serves the
    /// next one.
    async fn add_io_thread(&self, id: u32) -> Result<(), CommandError> {
        let add = move |domain: &dyn Domain| domain.add_io_thread(id, Affect::LiveAndConfig);
        let what = "adding an IO thread";
        self.vm.client.on(self.domain, what, COMMAND, add).await?;
        tracing::info!(id, "IO thread added to the running domain");
        Ok(())
    }
}

/// Sets the disk's cache and IO mode, which depend on its file system.
async fn with_modes(mut disk: Disk) -> Result<Disk, BootResourceError> {
    let probe = move || set_disk_modes(&mut disk, &DriverModeProbe).map(|()| disk);
    Ok(blocking::file_call("probing a disk's file system", FILE_TIMEOUT, probe).await??)
}

// Detaches devices. libvirt asks the guest to release the device, which may take long or never happen. Until the
// device is gone, its overlay is kept, and every sync asks again.

impl Reconciliation<'_> {
    async fn detach(&self, device: &LiveDevice) -> Result<ChangeResult, CommandError> {
        self.vm.driver_state().detaching.request(device);
        let xml = device.xml.clone();
        let detach = move |domain: &dyn Domain| request_detach(domain, &xml);
        self.vm
            .client
            .on(self.domain, "detaching a device", COMMAND, detach)
            .await?;
        Ok(ChangeResult::Applied)
    }
}

/// Removes the overlays of devices that the guest has released, and reports each device that it keeps once.
async fn finish_detach(vm: &VmContext, live: &LiveDomain) {
    let progress = vm
        .driver_state()
        .detaching
        .observe(|alias| live.has_alias(alias));
    for device in progress.kept {
        let warning = Warning {
            reason: "DeviceDetachPending",
            message: format!(
                "The guest has not released {device} yet; it stays attached until the guest does"
            ),
        };
        tracing::warn!("{}", warning.message);
        vm.notifier.warning(&warning);
    }
    for overlay in progress.overlays {
        remove_overlay(overlay).await;
    }
}

/// Removes an overlay. A failure is only logged, because the next disk of the volume uses an overlay that stays.
async fn remove_overlay(overlay: String) {
    let path = overlay.clone();
    let remove = move || std::fs::remove_file(Path::new(&path));
    let removed = blocking::file_call("removing an overlay", FILE_TIMEOUT, remove).await;
    let reason = match removed {
        Ok(Ok(())) => return,
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::warn!(overlay, reason, "the overlay of a detached disk stays");
}

impl Reconciliation<'_> {
    async fn change_medium(&self, change: &MediumChange) -> Result<ChangeResult, CommandError> {
        if let Some(medium) = &change.medium
            && let Some(wait) = why_not_ready(medium, Access::Read).await?
        {
            return Ok(ChangeResult::Waits(wait));
        }
        self.update_device("changing the medium of a drive", change.xml.clone())
            .await
    }

    async fn attach_interface(
        &self,
        change: &DeviceChange,
        interface: &Interface,
    ) -> Result<ChangeResult, CommandError> {
        let resources = &self.vm.boot_resources;
        let connected =
            resources.hotplug_network(&self.request.vmi, &self.request.options, interface.clone());
        let xml = device_xml("interface", &connected.await?);
        let device = Attachment::interface(change.name(), xml);
        self.attach(change, device).await
    }

    async fn set_link(&self, device: &LiveDevice) -> Result<ChangeResult, CommandError> {
        self.update_device("setting an interface's link", device.xml.clone())
            .await
    }
}

/// How long a volume may wait for the target of another volume before that is reported. The target is free as soon as
/// the guest has released the other volume, or virt-handler has recorded the targets.
const OTHER_VOLUME_PATIENCE: Duration = Duration::from_secs(10);
/// The patience with a change that was put off, or that libvirt did not answer: an event of that device would mislead.
/// An earlier report of the change still holds.
const NOT_REPORTED: Duration = Duration::MAX;

/// The result of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ChangeResult {
    /// libvirt has made the change.
    Applied,
    /// A later sync makes the change.
    Waits(Wait),
    /// A hook refuses the device.
    HeldByHook,
}

/// Why a change waits.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wait {
    reason: String,
    /// How long the change may wait before that is reported.
    patience: Duration,
}

impl Wait {
    /// A disk waits for a disk that has its target or its alias.
    fn for_other_disk(occupant: &str) -> Wait {
        Wait {
            reason: format!("the guest has not released {occupant}, which has its place"),
            patience: OTHER_VOLUME_PATIENCE,
        }
    }
}

/// What has become of the changes of a sync. The changes are independent: one that fails or waits holds up no other.
#[derive(Debug, Default)]
struct ChangeResults {
    /// The number of changes that libvirt has made.
    changed_count: usize,
    /// The volumes that are not attached.
    absent: Vec<String>,
    /// The volumes and media that wait.
    waiting: Vec<Condition>,
    /// The changes that failed or were put off.
    failures: Vec<DeviceChangeError>,
    /// The same changes, to be reported if they failed because of their device.
    failed: Vec<Condition>,
}

impl ChangeResults {
    /// Results with the volumes that cannot be attached.
    fn with_held(held: &[HeldVolume]) -> ChangeResults {
        let waiting = held.iter().map(|held| Condition {
            key: held.volume.clone(),
            text: held.to_string(),
            patience: match held.reason {
                HoldReason::OtherVolume { .. } => OTHER_VOLUME_PATIENCE,
                HoldReason::HookDisk(_) | HoldReason::NoScsiController => Duration::ZERO,
            },
        });
        ChangeResults {
            absent: held.iter().map(|held| held.volume.clone()).collect(),
            waiting: waiting.collect(),
            ..ChangeResults::default()
        }
    }

    /// Adds a change that waits.
    fn add_wait(&mut self, change: &DeviceChange, wait: Wait) {
        let Wait { reason, patience } = wait;
        tracing::info!(device = change.name(), reason, "{change}: not ready yet");
        self.absent.push(change.name().to_owned());
        self.waiting.push(Condition {
            key: change.to_string(),
            text: format!("{change} waits: {reason}; each further sync tries again"),
            patience,
        });
    }

    /// Adds a change that failed with this error.
    fn add_failure(&mut self, failure: DeviceChangeError, is_of_device: bool) {
        self.failed.push(Condition {
            key: failure.change().to_owned(),
            text: failure.to_string(),
            patience: match is_of_device {
                true => Duration::ZERO,
                false => NOT_REPORTED,
            },
        });
        self.failures.push(failure);
    }
}

/// Whether an error is about the device that was to be changed. Without an answer of libvirt all changes fail.
fn is_of_device(error: &CommandError) -> bool {
    match error {
        CommandError::NoAnswer(_) => false,
        CommandError::Libvirt(error) => !matches!(error.domain, origin::RPC | origin::NONE),
        _ => true,
    }
}

// Reports of what a sync does not change in the running VM, or cannot change now: each as a Kubernetes event, once
// while it lasts.

/// Reports the settings in which `vmi` differs from the running VM. As with KubeVirt's launcher, they are not applied.
pub(super) fn report_unapplied_changes(vm: &VmContext, vmi: &Vmi) {
    let requested = RunningSettings::of(vmi);
    let unapplied = {
        let mut state = vm.driver_state();
        let running = state.settings.get_or_insert_with(|| requested.clone());
        running.unapplied(&requested)
    };
    let unapplied = unapplied.into_iter().map(|setting| Condition {
        key: setting.clone(),
        text: setting,
        patience: Duration::ZERO,
    });
    let new = observe(vm, Subject::UnappliedSettings, unapplied);
    if !new.is_empty() {
        let new = new.join(", ");
        let message = format!(
            "The running VM keeps its settings until it is migrated or restarted; the VMI asks for {new}"
        );
        warn(vm, "ChangeNotApplied", message);
    }
}

/// Reports volumes that are not attached and media that are not inserted, although the VMI asks for them.
pub(super) fn report_waiting_volumes(vm: &VmContext, waiting: Vec<Condition>) {
    for message in observe(vm, Subject::WaitingVolumes, waiting) {
        warn(vm, "ChangeNotApplied", message);
    }
}

/// Reports changes of devices that failed.
pub(in crate::manager::ops) fn report_failed_changes(
    vm: &VmContext,
    subject: Subject,
    failed: Vec<Condition>,
) {
    for message in observe(vm, subject, failed) {
        warn(vm, "DeviceChangeFailed", message);
    }
}

fn observe(
    vm: &VmContext,
    subject: Subject,
    current: impl IntoIterator<Item = Condition>,
) -> Vec<String> {
    let mut state = vm.driver_state();
    state
        .reported_conditions
        .observe(subject, Instant::now(), current)
}

fn warn(vm: &VmContext, reason: &'static str, message: String) {
    let warning = Warning { reason, message };
    tracing::warn!("{}", warning.message);
    vm.notifier.warning(&warning);
}

/// How long after the first change the last one may start: virt-handler waits 20 s for a sync, and a change may take 11
/// s.
const MAX_START_DELAY: Duration = Duration::from_secs(7);
/// How long the hooks of all devices may take together. They end before the last change may start, so that the other
/// changes are made even if the hooks run out of time.
const HOOKS_TIMEOUT: Duration = Duration::from_secs(5);

/// The deadlines of a sync's changes, counted from the first change. What comes before (conversion, resume, removal of
/// failed attaches) does not count: a VM for which that always takes long would never be changed.
struct ChangesDeadline {
    begin: Instant,
}

impl ChangesDeadline {
    /// The deadlines of changes of which the first starts now.
    fn start() -> ChangesDeadline {
        ChangesDeadline {
            begin: Instant::now(),
        }
    }

    /// Whether another change may start.
    fn may_start_change(&self) -> bool {
        Instant::now() <= self.begin + MAX_START_DELAY
    }

    /// The deadline of the hooks of all devices, if the first device is attached now.
    fn hooks_deadline(&self) -> std::time::Instant {
        let end = (Instant::now() + HOOKS_TIMEOUT).min(self.begin + MAX_START_DELAY);
        end.into_std()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libvirt_client::COMMAND;

    #[test]
    fn last_change_ends_before_virt_handler_gives_up() {
        assert!(MAX_START_DELAY + COMMAND.deadline < Duration::from_secs(20));
    }

    #[test]
    fn changes_may_start_after_the_deadline_of_hooks_until_their_own_deadline() {
        let time = ChangesDeadline::start();
        let last_begin = (time.begin + MAX_START_DELAY).into_std();
        assert!(time.hooks_deadline() + Duration::from_secs(1) < last_begin);
        let late = ChangesDeadline {
            begin: time.begin.checked_sub(HOOKS_TIMEOUT).unwrap_or(time.begin),
        };
        assert!(late.hooks_deadline() > Instant::now().into_std());
        let long_ago = Instant::now().checked_sub(MAX_START_DELAY * 2);
        let late = long_ago.map(|begin| ChangesDeadline { begin }.may_start_change());
        assert!(time.may_start_change() && late != Some(true));
    }
}

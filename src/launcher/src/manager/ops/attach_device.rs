//! Attaches one device: calls its hooks first, then libvirt.
//!
//! If a hook refuses the device, or libvirt refuses the hook's XML, only this device is not attached. One Kubernetes
//! event reports the refusal, and the hooks are called again only after the device's XML has changed. If the hooks use
//! up the time that they have together, the next request tries again.

use std::sync::Arc;

use domain::reconcile::DeviceParts;
use hook_host::{AttachTime, HookError, Provenance, Reason};
use kubevirt_api::vmi::Vmi;
use libvirt::{Affect, Domain};

use super::remove_failed_attaches::remove_failed_attaches;
use crate::libvirt_client::{COMMAND, CallError};
use crate::manager::command_error::CommandError;
use crate::manager::tracked_devices::{DeviceKey, DeviceKind};
use crate::manager::vm_context::VmContext;
use crate::notify::Warning;

/// A device to attach.
pub(super) struct Attachment {
    key: DeviceKey,
    xml: String,
}

/// The result of an attach.
#[derive(Debug)]
pub(super) enum AttachResult {
    /// libvirt has attached the device.
    Attached,
    /// A hook, or libvirt because of a hook's change, refuses the device; this was reported.
    RefusedByHook,
    /// The hooks used up the time that they have together. The next request calls them again.
    HooksOutOfTime(Box<HookError>),
}

impl Attachment {
    pub(super) fn volume(name: &str, xml: String) -> Attachment {
        Attachment::new(DeviceKind::Volume, name, xml)
    }

    pub(super) fn interface(name: &str, xml: String) -> Attachment {
        Attachment::new(DeviceKind::Interface, name, xml)
    }

    pub(super) fn host_device(name: &str, xml: String) -> Attachment {
        Attachment::new(DeviceKind::HostDevice, name, xml)
    }

    fn new(kind: DeviceKind, name: &str, xml: String) -> Attachment {
        let name = name.to_owned();
        Attachment {
            key: DeviceKey { kind, name },
            xml,
        }
    }

    /// Attaches the device. `time` limits the hooks of all devices of the request together.
    pub(super) async fn attach(
        self,
        vm: &VmContext,
        vmi: &Vmi,
        domain: &Arc<dyn Domain>,
        time: &AttachTime,
    ) -> Result<AttachResult, CommandError> {
        let kind = self.key.kind;
        let name = self.key.name.clone();
        if vm
            .driver_state()
            .refused_devices
            .contains(&self.key, &self.xml)
        {
            tracing::debug!(%kind, device = name, "a hook has refused this device before");
            return Ok(AttachResult::RefusedByHook);
        }
        let invocation = vm.identity.invocation(Reason::Hotplug);
        let hooked = vm
            .hooks
            .on_attach_device(&invocation, vmi.raw_json(), self.xml.clone(), time);
        let (xml, provenance) = match hooked.await {
            Ok(hooked) => hooked,
            Err(error) if error.is_chain_deadline() => {
                return Ok(AttachResult::HooksOutOfTime(Box::new(error)));
            }
            Err(error) => {
                self.refuse(vm, error.event_reason(), &error.to_string());
                return Ok(AttachResult::RefusedByHook);
            }
        };
        tracing::debug!(%kind, device = name, xml, "attaching a device");
        let attached = call_libvirt(vm, domain, kind, xml).await;
        match attached.map_err(|error| with_hook(error.into(), &provenance)) {
            Ok(()) => Ok(AttachResult::Attached),
            Err(error @ CommandError::RefusedHookChange(_)) => {
                self.refuse(vm, "HookFailed", &error.message());
                Ok(AttachResult::RefusedByHook)
            }
            Err(error) => Err(error),
        }
    }

    fn refuse(self, vm: &VmContext, reason: &'static str, error: &str) {
        let DeviceKey { kind, name } = &self.key;
        let message = format!(
            "{kind} {name} is not attached: {error}; hooks are asked again when the device has been removed and added \
             again, or is another"
        );
        tracing::warn!(
            %kind,
            device = name,
            reason = error,
            "a device is not attached"
        );
        vm.notifier.warning(&Warning { reason, message });
        vm.driver_state().refused_devices.insert(self.key, self.xml);
    }
}

/// Attaches the device. If QEMU still has it from an attach during which libvirt's daemon died, it is removed first and
/// then attached again.
async fn call_libvirt(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    kind: DeviceKind,
    xml: String,
) -> Result<(), CallError> {
    let parts = DeviceParts::parse(&xml);
    vm.driver_state().failed_attaches.extend(parts.clone());
    let what = match kind {
        DeviceKind::Volume => "attaching a disk",
        DeviceKind::Interface => "attaching an interface",
        DeviceKind::HostDevice => "attaching a host device",
    };
    let xml: Arc<str> = xml.into();
    let attach = async || {
        let xml = Arc::clone(&xml);
        let attach = move |domain: &dyn Domain| domain.attach_device(&xml, Affect::LiveAndConfig);
        vm.client.on(domain, what, COMMAND, attach).await
    };
    let attached = attach().await;
    if let Err(error) = &attached
        && error.is_definite()
        && remove_failed_attaches(vm, domain).await
    {
        // Tracked again until the second attach has succeeded.
        vm.driver_state().failed_attaches.extend(parts);
        return attach().await;
    }
    if let (Ok(()), Some(parts)) = (&attached, parts) {
        vm.driver_state().failed_attaches.remove(parts.alias());
    }
    attached
}

/// Adds the hook that has changed the element that libvirt refuses.
fn with_hook(error: CommandError, provenance: &Provenance) -> CommandError {
    error.with_hook(|text| {
        let (hook, path) = provenance.hook_of_refusal(text)?;
        Some((hook.to_owned(), path.to_owned()))
    })
}

/// Forgets refused devices of this kind that the VMI no longer asks for.
pub(super) fn forget_unwanted(vm: &VmContext, kind: DeviceKind, desired: &[&str]) {
    let mut state = vm.driver_state();
    state
        .refused_devices
        .retain(kind, |name| desired.contains(&name));
}

//! Attaches one device: its hooks first, then libvirt.
//!
//! A hook that refuses the device, or writes something that libvirt refuses, keeps this device away and nothing else:
//! one event tells of it, and the hooks are not called again until the device is another.

use std::sync::Arc;

use domain::reconcile::{DeviceChange, DeviceParts};
use hook_host::{AttachTime, Provenance, Reason};
use kubevirt_api::vmi::Vmi;
use libvirt::{Affect, Domain};

use super::stray_devices::remove_stray_devices;
use crate::libvirt_client::{COMMAND, CallError};
use crate::manager::error::OpError;
use crate::manager::refused_devices::DeviceKey;
use crate::manager::vm_context::VmContext;
use crate::notify::Warning;

const VOLUME: &str = "volume";
const INTERFACE: &str = "interface";
const HOST_DEVICE: &str = "SR-IOV interface";

/// A device to attach.
pub(super) struct Attachment {
    key: DeviceKey,
    xml: String,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attached {
    /// libvirt has attached the device.
    Yes,
    /// Not because of a hook; this was reported.
    RefusedByHook,
}

impl Attachment {
    pub(super) fn volume(name: &str, xml: String) -> Attachment {
        Attachment::of(VOLUME, name, xml)
    }

    pub(super) fn interface(name: &str, xml: String) -> Attachment {
        Attachment::of(INTERFACE, name, xml)
    }

    pub(super) fn host_device(name: &str, xml: String) -> Attachment {
        Attachment::of(HOST_DEVICE, name, xml)
    }

    fn of(kind: &'static str, name: &str, xml: String) -> Attachment {
        let name = name.to_owned();
        Attachment {
            key: DeviceKey { kind, name },
            xml,
        }
    }

    /// Attaches the device. `time` is what hooks have for all devices of the request.
    pub(super) async fn attach(
        self,
        vm: &VmContext,
        vmi: &Vmi,
        domain: &Arc<dyn Domain>,
        time: &AttachTime,
    ) -> Result<Attached, OpError> {
        let DeviceKey { kind, name } = &self.key;
        if vm
            .driver_state()
            .refused_devices
            .contains(&self.key, &self.xml)
        {
            tracing::debug!(kind, device = name, "a hook has refused this device before");
            return Ok(Attached::RefusedByHook);
        }
        let invocation = vm.identity.invocation(Reason::Hotplug);
        let hooked = vm
            .hooks
            .on_attach_device(&invocation, vmi.raw_json(), self.xml.clone(), time);
        let (xml, provenance) = match hooked.await {
            Ok(hooked) => hooked,
            Err(error) => {
                self.refuse(vm, error.event_reason(), &error.to_string());
                return Ok(Attached::RefusedByHook);
            }
        };
        tracing::debug!(kind, device = name, xml, "attaching a device");
        let attached = call_libvirt(vm, domain, kind, xml).await;
        match attached.map_err(|error| naming_hook(error.into(), &provenance)) {
            Ok(()) => Ok(Attached::Yes),
            Err(error @ OpError::RefusedHookChange(_)) => {
                self.refuse(vm, "HookFailed", &error.message());
                Ok(Attached::RefusedByHook)
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
            kind,
            device = name,
            reason = error,
            "a device is not attached"
        );
        vm.notifier.warning(&Warning { reason, message });
        vm.driver_state().refused_devices.insert(self.key, self.xml);
    }
}

/// Attaches the device. If QEMU has it already, left over from a daemon that died, it is removed and attached again.
async fn call_libvirt(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    kind: &'static str,
    xml: String,
) -> Result<(), CallError> {
    let parts = DeviceParts::of(&xml);
    vm.driver_state().failed_attaches.extend(parts.clone());
    let what = match kind {
        VOLUME => "attaching a disk",
        INTERFACE => "attaching an interface",
        _ => "attaching a host device",
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
        && remove_stray_devices(vm, domain).await
    {
        // The next sync looks whether libvirt still knows the device.
        vm.driver_state().failed_attaches.extend(parts);
        return attach().await;
    }
    if let (Ok(()), Some(parts)) = (&attached, parts) {
        vm.driver_state().failed_attaches.remove(parts.alias());
    }
    attached
}

fn naming_hook(error: OpError, provenance: &Provenance) -> OpError {
    error.naming_hook(|text| {
        let (hook, path) = provenance.named_in(text)?;
        Some((hook.to_owned(), path.to_owned()))
    })
}

/// Forgets refused disks and interfaces that the VMI does not ask for any more.
pub(super) fn forget_unwanted(vm: &VmContext, changes: &[DeviceChange]) {
    let is_wanted = |key: &DeviceKey| {
        changes.iter().any(|change| {
            let kind = match change {
                DeviceChange::AttachDisk(_) => VOLUME,
                DeviceChange::AttachInterface(_) => INTERFACE,
                _ => return false,
            };
            kind == key.kind && change.name() == key.name
        })
    };
    let mut state = vm.driver_state();
    state
        .refused_devices
        .retain(&[VOLUME, INTERFACE], is_wanted);
}

/// The same for host devices.
pub(super) fn forget_unwanted_host_devices(vm: &VmContext, wanted: &[&str]) {
    let is_wanted = |key: &DeviceKey| wanted.contains(&key.name.as_str());
    let mut state = vm.driver_state();
    state.refused_devices.retain(&[HOST_DEVICE], is_wanted);
}

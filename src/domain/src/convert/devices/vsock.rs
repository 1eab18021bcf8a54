//! The vsock device.

use crate::convert::arch::pci_virtio_model;
use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{Cid, DomainSpec, Vsock, yes_no};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    // As in KubeVirt, also if the VMI asks for transitional devices: vsock has no drivers from before virtio 1.0.
    // Without PCI this model does not start: `qemu_limits` changes it.
    let is_transitional = false;
    let is_local = context.host.vsock_ns_mode.as_deref() == Some("local");
    let local_cid = context.behaviour().cid_in_local_vsock.filter(|_| is_local);
    spec.devices.vsock = context.vmi.status.vsock_cid.map(|address| Vsock {
        model: pci_virtio_model(is_transitional).into(),
        cid: Cid {
            auto: yes_no(false),
            address: local_cid.unwrap_or(address),
        },
    });
    Ok(())
}

//! Network interfaces.

use std::collections::HashSet;

use kubevirt_api::vmi;

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::convert::network::passt;
use crate::convert::pci_address;
use crate::libvirt_spec::{
    Acpi, Alias, BootOrder, DomainSpec, Interface, InterfaceDriver, LinkState, Mac, Model, Rom,
};
use crate::pod_network_and_dhcp::has_tap;

/// The maximum number of queues of a tap device.
const MAX_QUEUES: u32 = 256;

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let networks = context.vmi.spec.networks.iter();
    let networks: HashSet<_> = networks.map(|network| network.name.as_str()).collect();
    for interface in context
        .devices()
        .interfaces
        .iter()
        .filter(|interface| interface.state != "absent")
    {
        if !networks.contains(interface.name.as_str()) {
            return Err(ConvertError::invalid(format!(
                "failed to find network {}",
                interface.name
            )));
        }
        // Other binding plugins add their interface themselves; an SR-IOV interface is a host device.
        if interface.sriov.is_none()
            && (interface.binding.is_none() || has_tap(context.options, interface))
        {
            spec.devices.interfaces.push(convert(context, interface)?);
        }
    }
    Ok(())
}

fn convert(context: &Context<'_>, source: &vmi::Interface) -> Result<Interface, ConvertError> {
    let is_virtio = matches!(source.model.as_str(), "" | "virtio");
    let model = if is_virtio {
        context.virtio_model
    } else {
        &source.model
    };
    let mut interface = Interface {
        alias: Some(Alias::user(&source.name)),
        model: Some(Model { kind: model.into() }),
        driver: if is_virtio { queues(context) } else { None },
        acpi: (source.acpi_index > 0).then_some(Acpi {
            index: source.acpi_index,
        }),
        mac: (!source.mac_address.is_empty()).then(|| Mac {
            mac: source.mac_address.clone(),
        }),
        ..Interface::default()
    };
    if !source.pci_address.is_empty() {
        let address = pci_address::parse(&source.pci_address).map_err(|error| {
            ConvertError::invalid(format!(
                "failed to configure interface {}: {error}",
                source.name
            ))
        })?;
        interface.address = Some(address);
    }
    if has_tap(context.options, source) {
        attach_tap(context, source, &mut interface);
    } else if source.passt_binding.is_some() {
        passt::attach(context, source, &mut interface)?;
    } else {
        return Err(ConvertError::invalid(format!(
            "interface {}: no domain attachment was given for it (interfaceDomainAttachment)",
            source.name
        )));
    }
    Ok(interface)
}

fn queues(context: &Context<'_>) -> Option<InterfaceDriver> {
    let is_multiqueue = context.devices().network_interface_multiqueue == Some(true);
    let queues = is_multiqueue
        .then(|| context.vcpus.min(MAX_QUEUES).into())
        .filter(|queues| *queues > 0);
    let iommu = context.iommu();
    (queues.is_some() || !iommu.is_empty()).then(|| InterfaceDriver {
        name: "vhost".into(),
        queues,
        iommu,
    })
}

fn attach_tap(context: &Context<'_>, source: &vmi::Interface, interface: &mut Interface) {
    interface.kind = "ethernet".into();
    interface.boot_order = source.boot_order.map(|order| BootOrder { order });
    // Without network boot the option ROM only delays the boot; from hidden memory it is not possible.
    let is_rom_useless = source.boot_order.is_none() || context.protection.hides_memory();
    if is_rom_useless && context.architecture.has_option_rom() {
        interface.rom = Some(Rom {
            enabled: "no".into(),
        });
    }
    if source.state == "down" {
        interface.link_state = Some(LinkState {
            state: "down".into(),
        });
    }
}

//! SR-IOV interfaces: virtual functions as host devices, by the addresses that the cluster reports per network.

use std::collections::BTreeMap;

use kubevirt_api::vmi::{Interface, Vmi};

use crate::convert::conversion_inputs::Context;
use crate::convert::devices::{hostdev_element::pci_device, resource_claim_devices};
use crate::convert::error::ConvertError;
use crate::convert::pci_address;
use crate::host_facts::NetworkInfo;
use crate::libvirt_spec::{BootOrder, HostDevice, SRIOV_ALIAS};

/// The info source in an interface's status after Multus has attached the interface.
const MULTUS_STATUS: &str = "multus-status";

pub(crate) fn devices(context: &Context<'_>) -> Result<Vec<HostDevice>, ConvertError> {
    let mut devices = multus_devices(context)?;
    devices.extend(dra_devices(context)?);
    Ok(devices)
}

/// Whether Multus has attached an SR-IOV interface to the pod. Its address is then in
/// [`crate::host_facts::HostFacts::network_info`], which the kubelet writes slightly later.
pub fn has_attached_sriov(vmi: &Vmi) -> bool {
    sriov_interfaces(vmi).any(|interface| is_attached(vmi, interface))
}

fn sriov_interfaces(vmi: &Vmi) -> impl Iterator<Item = &Interface> {
    let interfaces = vmi.spec.domain.devices.interfaces.iter();
    interfaces.filter(|interface| interface.sriov.is_some())
}

fn multus_devices(context: &Context<'_>) -> Result<Vec<HostDevice>, ConvertError> {
    let attached: Vec<_> = sriov_interfaces(context.vmi)
        .filter(|interface| is_attached(context.vmi, interface))
        .collect();
    if attached.is_empty() {
        return Ok(Vec::new());
    }
    let info = context.host.network_info.as_ref();
    let mut addresses = info.map(addresses).unwrap_or_default();
    if addresses.is_empty() {
        return Err(ConvertError::invalid(
            "found no SR-IOV networks to PCI-Address mapping",
        ));
    }
    let device = |interface: &Interface| {
        let device_error = |error: String| {
            let name = &interface.name;
            ConvertError::invalid(format!("failed to create hostdevice for {name}: {error}"))
        };
        let address = addresses.remove(interface.name.as_str()).ok_or_else(|| {
            device_error(format!(
                "PCI-Address for SR-IOV network {:?} not found",
                interface.name
            ))
        })?;
        let device =
            pci_device(format!("{SRIOV_ALIAS}{}", interface.name), address).map_err(|error| {
                device_error(format!(
                    "failed to create PCI device for {}: {error}",
                    interface.name
                ))
            })?;
        set_address_and_boot_order(interface, device, "").map_err(device_error)
    };
    attached.into_iter().map(device).collect()
}

fn is_attached(vmi: &Vmi, interface: &Interface) -> bool {
    let mut statuses = vmi.status.interfaces.iter();
    let status = statuses.find(|status| status.name == interface.name);
    status.is_some_and(|status| {
        let mut sources = status.info_source.split(", ");
        sources.any(|source| source == MULTUS_STATUS)
    })
}

/// The PCI addresses by network.
fn addresses(info: &NetworkInfo) -> BTreeMap<&str, &str> {
    let interfaces = info.interfaces.iter();
    interfaces
        .filter_map(|interface| {
            let device = interface.device_info.as_ref()?.pci.as_ref()?;
            let address = device.address.as_str();
            (!address.is_empty()).then_some((interface.network.as_str(), address))
        })
        .collect()
}

/// Sets the guest's PCI address and the boot order.
fn set_address_and_boot_order(
    interface: &Interface,
    mut device: HostDevice,
    error_suffix: &str,
) -> Result<HostDevice, String> {
    if !interface.pci_address.is_empty() {
        let address = pci_address::parse(&interface.pci_address).map_err(|error| {
            format!("failed to interpret the guest PCI address{error_suffix}: {error}")
        })?;
        device.address = Some(address);
    }
    device.boot_order = interface.boot_order.map(|order| BootOrder { order });
    Ok(device)
}

fn dra_devices(context: &Context<'_>) -> Result<Vec<HostDevice>, ConvertError> {
    let mut devices = Vec::new();
    for interface in sriov_interfaces(context.vmi) {
        let mut networks = context.vmi.spec.networks.iter();
        let network = networks.rfind(|network| network.name == interface.name);
        let Some(request) = network.and_then(|network| network.resource_claim.as_ref()) else {
            continue;
        };
        let device_error = |error: String| ConvertError::invalid(error);
        let (claim, name) = (&request.claim_name, &request.request_name);
        let address = resource_claim_devices::pci_address(context, claim, name).map_err(|error| {
            device_error(format!(
                "failed to resolve PCI address for SR-IOV DRA interface {} (claim {claim} request {name}): {error}",
                interface.name
            ))
        })?;
        let device =
            pci_device(format!("{SRIOV_ALIAS}{}", interface.name), address).map_err(|error| {
                device_error(format!(
                    "failed to create PCI address for SR-IOV DRA interface {}: {error}",
                    interface.name
                ))
            })?;
        let device = set_address_and_boot_order(
            interface,
            device,
            &format!(" for interface {}", interface.name),
        );
        devices.push(device.map_err(device_error)?);
    }
    Ok(devices)
}

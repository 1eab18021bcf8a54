//! Interfaces to attach and to detach, and changes of their link state.

use domain_xml::Element;
use kubevirt_api::vmi::{self, Vmi};

use super::device_change::DeviceChange;
use super::live_domain::{TypedDevice, is_named};
use super::pci_addresses;
use crate::libvirt_spec::Interface;
use crate::pod_network_and_dhcp::hotplug_tap;

/// The info source in the status of an interface that Multus has attached to the pod.
const MULTUS_STATUS: &str = "multus-status";

pub(super) fn changes(
    vmi: &Vmi,
    wanted: &[Interface],
    live: &[TypedDevice<'_, Interface>],
) -> Vec<DeviceChange> {
    let in_vmi = || vmi.spec.domain.devices.interfaces.iter();
    let attached = in_vmi().filter_map(|interface| attach(vmi, interface, wanted, live));
    let detached = in_vmi().filter_map(|interface| detach(vmi, interface, live));
    let links = wanted
        .iter()
        .filter_map(|interface| set_link(interface, live));
    attached.chain(detached).chain(links).collect()
}

/// Attaches an interface that is in the pod and not in the domain. SR-IOV interfaces are host devices, and bindings
/// without an `<interface>` in the converted domain need no attach.
fn attach(
    vmi: &Vmi,
    interface: &vmi::Interface,
    wanted: &[Interface],
    live: &[TypedDevice<'_, Interface>],
) -> Option<DeviceChange> {
    let name = &interface.name;
    let needs_attach = interface.state != "absent"
        && interface.sriov.is_none()
        && is_in_pod(vmi, name)
        && find(live, name).is_none();
    let mut wanted = wanted.iter().filter(|_| needs_attach);
    let wanted = wanted.find(|interface| is_named(interface.alias.as_ref(), name))?;
    let mut attached = wanted.clone();
    pci_addresses::keep_requested_of_interface(vmi, name, &mut attached);
    Some(DeviceChange::AttachInterface(Box::new(attached)))
}

/// Detaches an absent interface whose tap device is named after the network's hash. Interfaces with numbered tap
/// devices cannot be unplugged from the pod.
fn detach(
    vmi: &Vmi,
    interface: &vmi::Interface,
    live: &[TypedDevice<'_, Interface>],
) -> Option<DeviceChange> {
    let current = find(live, &interface.name).filter(|_| interface.state == "absent")?;
    let tap = &current.spec.target.as_ref()?.device;
    let device = || current.device(tap, None);
    (*tap == hotplug_tap(vmi, &interface.name)).then(|| DeviceChange::DetachInterface(device()))
}

/// Sets the link state if it differs. A missing `<link>` means that the link is up.
fn set_link(wanted: &Interface, live: &[TypedDevice<'_, Interface>]) -> Option<DeviceChange> {
    let name = &wanted.alias.as_ref()?.name;
    let current = find(live, name)?;
    if is_down(&current.spec) == is_down(wanted) {
        return None;
    }
    let mut element = current.element.clone();
    element.remove_child("link");
    if is_down(wanted) {
        element.append(Element::new("link").with_attr("state", "down"));
    }
    let mut device = current.device(name, None);
    device.xml = element.render();
    Some(DeviceChange::SetLink(device))
}

fn find<'a>(
    live: &'a [TypedDevice<'a, Interface>],
    name: &str,
) -> Option<&'a TypedDevice<'a, Interface>> {
    live.iter()
        .find(|device| is_named(device.spec.alias.as_ref(), name))
}

fn is_down(interface: &Interface) -> bool {
    let link = interface.link_state.as_ref();
    link.is_some_and(|link| link.state == "down")
}

fn is_in_pod(vmi: &Vmi, name: &str) -> bool {
    let mut statuses = vmi.status.interfaces.iter();
    statuses.any(|status| status.name == name && status.info_source.contains(MULTUS_STATUS))
}

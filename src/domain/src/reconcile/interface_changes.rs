//! Interfaces to attach and to detach, and their link state.

use domain_xml::Element;
use kubevirt_api::vmi::{self, Vmi};

use super::device_change::DeviceChange;
use super::live_domain::{Live, is_named};
use crate::libvirt_spec::Interface;
use crate::pod_network_and_dhcp::hotplug_tap;

/// The source in the status of an interface that Multus has attached to the pod.
const MULTUS_STATUS: &str = "multus-status";

pub(super) fn changes(
    vmi: &Vmi,
    wanted: &[Interface],
    live: &[Live<'_, Interface>],
) -> Vec<DeviceChange> {
    let in_vmi = || vmi.spec.domain.devices.interfaces.iter();
    let attached = in_vmi().filter_map(|interface| attach(vmi, interface, wanted, live));
    let detached = in_vmi().filter_map(|interface| detach(vmi, interface, live));
    let links = wanted
        .iter()
        .filter_map(|interface| set_link(interface, live));
    attached.chain(detached).chain(links).collect()
}

/// An interface that is in the pod and not in the domain. SR-IOV interfaces are host devices; a binding for which the
/// conversion makes no `<interface>` needs no attach.
fn attach(
    vmi: &Vmi,
    interface: &vmi::Interface,
    wanted: &[Interface],
    live: &[Live<'_, Interface>],
) -> Option<DeviceChange> {
    let name = &interface.name;
    let is_due = interface.state != "absent"
        && interface.sriov.is_none()
        && is_in_pod(vmi, name)
        && find(live, name).is_none();
    let mut wanted = wanted.iter().filter(|_| is_due);
    let wanted = wanted.find(|one| is_named(one.alias.as_ref(), name))?;
    Some(DeviceChange::AttachInterface(Box::new(wanted.clone())))
}

/// An interface whose tap device has a name of the network's hash; the others cannot be unplugged from the pod.
fn detach(
    vmi: &Vmi,
    interface: &vmi::Interface,
    live: &[Live<'_, Interface>],
) -> Option<DeviceChange> {
    let now = find(live, &interface.name).filter(|_| interface.state == "absent")?;
    let tap = &now.spec.target.as_ref()?.device;
    let device = || now.device(tap, None);
    (*tap == hotplug_tap(vmi, &interface.name)).then(|| DeviceChange::DetachInterface(device()))
}

/// A missing `<link>` is the same as one that is up.
fn set_link(wanted: &Interface, live: &[Live<'_, Interface>]) -> Option<DeviceChange> {
    let name = &wanted.alias.as_ref()?.name;
    let now = find(live, name)?;
    if is_down(&now.spec) == is_down(wanted) {
        return None;
    }
    let mut element = now.element.clone();
    element.remove_child("link");
    if is_down(wanted) {
        element.append(Element::new("link").with_attr("state", "down"));
    }
    let mut device = now.device(name, None);
    device.xml = element.render();
    Some(DeviceChange::SetLink(device))
}

fn find<'a>(live: &'a [Live<'a, Interface>], name: &str) -> Option<&'a Live<'a, Interface>> {
    live.iter()
        .find(|one| is_named(one.spec.alias.as_ref(), name))
}

fn is_down(interface: &Interface) -> bool {
    let link = interface.link_state.as_ref();
    link.is_some_and(|link| link.state == "down")
}

fn is_in_pod(vmi: &Vmi, name: &str) -> bool {
    let mut statuses = vmi.status.interfaces.iter();
    statuses.any(|status| status.name == name && status.info_source.contains(MULTUS_STATUS))
}

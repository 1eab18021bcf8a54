//! Tap devices of the VMI's interfaces, and the domain's interfaces on them.

use core::net::Ipv4Addr;

use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::{Interface, Vmi};

use crate::libvirt_spec::{self, DomainSpec, InterfaceTarget, Mtu};
use crate::pod_network_and_dhcp::error::PodNetworkError;
use crate::pod_network_and_dhcp::link_names;
use crate::pod_network_and_dhcp::mac_address::Mac;
use crate::pod_network_and_dhcp::masquerade_subnet::MasqueradeSubnets;
use crate::pod_network_and_dhcp::vmi_dhcp_options::DhcpOptions;

/// virt-handler's name of an attachment through a tap device.
const TAP_ATTACHMENT: &str = "tap";

/// A network link in the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The link's name.
    pub name: String,
    /// The MAC address, if it is an Ethernet link.
    pub mac: Option<Mac>,
    /// The MTU in bytes.
    pub mtu: u32,
}

/// KubeVirt's binding of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binding {
    /// The guest takes over the pod's address. The DHCP server has the given address.
    Bridge(Ipv4Addr),
    /// The guest has its own subnet behind NAT.
    Masquerade(MasqueradeSubnets),
    /// A binding plugin connects the guest.
    Plugin,
}

/// An interface of the VMI that has a tap device in the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tap {
    /// The interface's name.
    pub interface: String,
    /// The interface's binding.
    pub binding: Binding,
    /// Possible names of the pod's interface, the likely name first. Never empty.
    pub pod_interfaces: Vec<String>,
    /// DHCP options from the VMI.
    pub dhcp_options: DhcpOptions,
    mac: Option<Mac>,
    is_secondary: bool,
}

/// Whether the domain gets a tap device. virt-handler sends the attachment of each interface; if it is missing, bridge
/// and masquerade use a tap.
pub(crate) fn has_tap(options: &Options, interface: &Interface) -> bool {
    match options.interface_domain_attachment.get(&interface.name) {
        Some(attachment) => attachment == TAP_ATTACHMENT,
        None => interface.bridge.is_some() || interface.masquerade.is_some(),
    }
}

/// The interfaces that have a tap device, in the VMI's order.
///
/// # Errors
/// [`PodNetworkError`], which names the interface and the field.
pub fn taps(vmi: &Vmi, options: &Options) -> Result<Vec<Tap>, PodNetworkError> {
    let interfaces = vmi.spec.domain.devices.interfaces.iter().enumerate();
    interfaces
        .filter(|(_, interface)| interface.state != "absent" && has_tap(options, interface))
        .map(|(index, interface)| tap(vmi, interface, index))
        .collect()
}

fn tap(vmi: &Vmi, interface: &Interface, index: usize) -> Result<Tap, PodNetworkError> {
    let name = &interface.name;
    let no_network = || PodNetworkError::NoPodNetwork {
        interface: name.clone(),
    };
    let mut networks = vmi.spec.networks.iter();
    let network = networks
        .find(|network| network.name == *name)
        .ok_or_else(no_network)?;
    let pod_interfaces = link_names::pod_interfaces(vmi, network);
    if pod_interfaces.is_empty() {
        return Err(no_network());
    }
    let binding = if interface.bridge.is_some() {
        Binding::Bridge(bridge_address(index))
    } else if interface.masquerade.is_some() {
        let pod = network.pod.clone().unwrap_or_default();
        Binding::Masquerade(MasqueradeSubnets::from_network(name, &pod)?)
    } else {
        Binding::Plugin
    };
    let dhcp_options = interface.dhcp_options.as_ref();
    let dhcp_options = dhcp_options
        .map(|options| DhcpOptions::from_vmi(name, options))
        .transpose()?;
    Ok(Tap {
        interface: name.clone(),
        binding,
        pod_interfaces,
        dhcp_options: dhcp_options.unwrap_or_default(),
        mac: vmi_mac(interface)?,
        is_secondary: link_names::is_secondary(network),
    })
}

/// The bridge's address. As in virt-handler, its last number is `1` followed by the interface's index in the VMI, or
/// the last possible number if this is too large.
fn bridge_address(index: usize) -> Ipv4Addr {
    let host = format!("1{index}").parse().unwrap_or(u8::MAX - 1);
    Ipv4Addr::new(169, 254, 75, host)
}

fn vmi_mac(interface: &Interface) -> Result<Option<Mac>, PodNetworkError> {
    let text = &interface.mac_address;
    if text.is_empty() {
        return Ok(None);
    }
    let mac = Mac::parse(text).ok_or_else(|| PodNetworkError::Field {
        interface: interface.name.clone(),
        field: "macAddress",
        value: text.clone(),
        allowed: "an Ethernet address such as 02:00:00:00:00:01",
    })?;
    Ok(Some(mac))
}

impl Tap {
    /// The name of the tap device for an interface of the pod. If there is no such link, a binding plugin uses the
    /// interface itself as the tap.
    pub fn device(&self, pod_interface: &str) -> String {
        link_names::tap(pod_interface, self.is_secondary)
    }

    /// The name of the bridge that connects guest and launcher.
    pub fn bridge(&self, pod_interface: &str) -> String {
        link_names::bridge(pod_interface)
    }

    /// The new name of the pod's interface under the bridge binding.
    pub fn renamed_interface(&self, pod_interface: &str) -> String {
        link_names::renamed(pod_interface)
    }

    /// Attaches the domain's interface to `device`, with the MTU of the pod's link, and with the link's MAC address
    /// unless the VMI has one.
    ///
    /// # Errors
    /// [`PodNetworkError::NoMac`] if neither has a MAC address.
    pub fn attach(
        &self,
        spec: &mut DomainSpec,
        pod: &Link,
        device: &str,
    ) -> Result<(), PodNetworkError> {
        let mac = self.mac.or(pod.mac).ok_or_else(|| PodNetworkError::NoMac {
            interface: self.interface.clone(),
            link: pod.name.clone(),
        })?;
        let is_interface = |interface: &&mut libvirt_spec::Interface| {
            let alias = interface.alias.as_ref();
            alias.is_some_and(|alias| *alias == libvirt_spec::Alias::user(&self.interface))
        };
        if let Some(interface) = spec.devices.interfaces.iter_mut().find(is_interface) {
            interface.mac = Some(libvirt_spec::Mac {
                mac: mac.to_string(),
            });
            interface.mtu = Some(Mtu {
                size: pod.mtu.to_string(),
            });
            interface.target = Some(InterfaceTarget {
                device: device.to_owned(),
                managed: "no".into(),
            });
        }
        Ok(())
    }
}

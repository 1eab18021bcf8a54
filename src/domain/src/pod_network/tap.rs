//! The tap device of an interface, and what the domain is told of it.

use core::net::Ipv4Addr;

use super::dhcp_options::DhcpOptions;
use super::mac::Mac;
use super::subnet::Subnets;
use super::{PodNetworkError, is_tap, names};
use crate::options::Options;
use crate::spec::{self, DomainSpec, InterfaceTarget, Mtu};
use crate::vmi::{Interface, Vmi};

/// A link in the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its address, if it is an Ethernet link.
    pub mac: Option<Mac>,
    /// The largest packet, in bytes.
    pub mtu: u32,
}

/// How guest and pod are connected behind the bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binding {
    /// The guest takes over the pod's address, and is told so by a server with this address.
    Bridge(Ipv4Addr),
    /// The guest is in a subnet of its own.
    Masquerade(Subnets),
    /// A plugin sees to it.
    Plugin,
}

/// An interface of the VMI that has a tap device in the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tap {
    /// The interface's name.
    pub interface: String,
    /// How it is connected.
    pub binding: Binding,
    /// What the pod's interface may be called, the likely name first. Never empty.
    pub pod_interfaces: Vec<String>,
    /// What its owner adds to the lease.
    pub dhcp_options: DhcpOptions,
    mac: Option<Mac>,
    secondary: bool,
}

/// The interfaces that have a tap device, in the VMI's order.
///
/// # Errors
/// [`PodNetworkError`] naming the interface and the field.
pub fn taps(vmi: &Vmi, options: &Options) -> Result<Vec<Tap>, PodNetworkError> {
    let interfaces = vmi.spec.domain.devices.interfaces.iter().enumerate();
    interfaces
        .filter(|(_, interface)| interface.state != "absent" && is_tap(options, interface))
        .map(|(place, interface)| tap(vmi, interface, place))
        .collect()
}

fn tap(vmi: &Vmi, interface: &Interface, place: usize) -> Result<Tap, PodNetworkError> {
    let name = &interface.name;
    let no_network = || PodNetworkError::NoPodNetwork {
        interface: name.clone(),
    };
    let mut networks = vmi.spec.networks.iter();
    let network = networks
        .find(|network| network.name == *name)
        .ok_or_else(no_network)?;
    let pod_interfaces = names::pod_interfaces(vmi, network);
    if pod_interfaces.is_empty() {
        return Err(no_network());
    }
    let binding = if interface.bridge.is_some() {
        Binding::Bridge(bridge_address(place))
    } else if interface.masquerade.is_some() {
        let pod = network.pod.clone().unwrap_or_default();
        Binding::Masquerade(Subnets::of(name, &pod)?)
    } else {
        Binding::Plugin
    };
    let dhcp_options = interface.dhcp_options.as_ref();
    let dhcp_options = dhcp_options
        .map(|options| DhcpOptions::of(name, options))
        .transpose()?;
    Ok(Tap {
        interface: name.clone(),
        binding,
        pod_interfaces,
        dhcp_options: dhcp_options.unwrap_or_default(),
        mac: mac(interface)?,
        secondary: names::is_secondary(network),
    })
}

/// What virt-handler gives the bridge of the interface at this place of the VMI. It counts beyond 9
/// by appending digits, so that there are places without a valid address; the last one stands in there.
fn bridge_address(place: usize) -> Ipv4Addr {
    let host = format!("1{place}").parse().unwrap_or(u8::MAX - 1);
    Ipv4Addr::new(169, 254, 75, host)
}

fn mac(interface: &Interface) -> Result<Option<Mac>, PodNetworkError> {
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
    /// The tap device beside an interface of the pod. Where there is none, a plugin made the
    /// interface itself the tap.
    pub fn device(&self, pod_interface: &str) -> String {
        names::tap(pod_interface, self.secondary)
    }

    /// The bridge that guest and launcher are on.
    pub fn bridge(&self, pod_interface: &str) -> String {
        names::bridge(pod_interface)
    }

    /// The pod's own interface under the bridge binding.
    pub fn renamed(&self, pod_interface: &str) -> String {
        names::renamed(pod_interface)
    }

    /// Attaches the domain's interface to `device`: with the pod's MTU, and its address unless the VMI
    /// names one.
    ///
    /// # Errors
    /// [`PodNetworkError::NoMac`].
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
        let is_ours = |interface: &&mut spec::Interface| {
            let alias = interface.alias.as_ref();
            alias.is_some_and(|alias| *alias == spec::Alias::user(&self.interface))
        };
        if let Some(interface) = spec.devices.interfaces.iter_mut().find(is_ours) {
            interface.mac = Some(spec::Mac {
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

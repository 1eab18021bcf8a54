//! Decodes the answer to `guest-network-get-interfaces`.

use kubevirt_api::domain_json::InterfaceStatus;
use serde::Deserialize;

use super::bounded_values::{List, Text};
use super::polled_answers::Name;
use super::{AnswerError, decode};

const MAX_INTERFACES: usize = 128;
const MAX_ADDRESSES: usize = 64;

/// The name of the loopback interface, which KubeVirt leaves out.
const LOOPBACK_INTERFACE: &str = "lo";

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Interface {
    name: Name,
    #[serde(default)]
    hardware_address: Name,
    #[serde(default)]
    ip_addresses: List<Address, MAX_ADDRESSES>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Address {
    ip_address: Name,
    #[serde(default)]
    ip_address_type: Name,
}

/// Decodes the answer to `guest-network-get-interfaces`. As in libvirt, an alias (`eth0:1`) belongs to its interface.
pub(crate) fn interfaces(answer: &str) -> Result<Vec<InterfaceStatus>, AnswerError> {
    let list: List<Interface, MAX_INTERFACES> = decode(answer)?;
    let mut interfaces: Vec<(InterfaceStatus, bool)> = Vec::new();
    for Interface {
        name: Text(name),
        hardware_address: Text(mac),
        ip_addresses: List(addresses),
    } in list.0
    {
        let name = name.split(':').next().unwrap_or_default();
        if name == LOOPBACK_INTERFACE {
            continue;
        }
        let existing = interfaces
            .iter()
            .position(|(interface, _)| interface.interface_name == name);
        let index = existing.unwrap_or_else(|| {
            let interface = InterfaceStatus {
                mac,
                interface_name: name.to_owned(),
                ..InterfaceStatus::default()
            };
            interfaces.push((interface, false));
            interfaces.len() - 1
        });
        if let Some((interface, has_ipv4)) = interfaces.get_mut(index) {
            add_addresses(interface, has_ipv4, addresses);
        }
    }
    Ok(interfaces
        .into_iter()
        .map(|(interface, _)| interface)
        .collect())
}

/// Adds addresses to the interface. Its main address is the first IPv4 address, else the first address.
fn add_addresses(interface: &mut InterfaceStatus, has_ipv4: &mut bool, addresses: Vec<Address>) {
    for address in addresses {
        if interface.ips.len() == MAX_ADDRESSES {
            return;
        }
        let Text(ip) = address.ip_address;
        let is_ipv4 = address.ip_address_type.0 == "ipv4";
        if interface.ips.is_empty() || (is_ipv4 && !*has_ipv4) {
            interface.ip.clone_from(&ip);
            *has_ipv4 |= is_ipv4;
        }
        interface.ips.push(ip);
    }
}

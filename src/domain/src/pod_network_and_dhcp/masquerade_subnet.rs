//! The subnets of a guest behind masquerade. The first address is the gateway's, the second one the guest's.

use core::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use kubevirt_api::vmi::PodNetwork;

use crate::pod_network_and_dhcp::error::PodNetworkError;

const DEFAULT_V4: &str = "10.0.2.0/24";
const DEFAULT_V6: &str = "fd10:0:2::/120";

/// The subnets of a guest behind masquerade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MasqueradeSubnets {
    /// The IPv4 subnet.
    pub(super) v4: Ipv4Net,
    /// The IPv6 subnet.
    pub(super) v6: Ipv6Net,
}

impl MasqueradeSubnets {
    pub(super) fn from_network(
        interface: &str,
        network: &PodNetwork,
    ) -> Result<Self, PodNetworkError> {
        let field_error = |field, value: &str, allowed| PodNetworkError::Field {
            interface: interface.to_owned(),
            field,
            value: value.to_owned(),
            allowed,
        };
        let v4 = non_empty_or(&network.vm_network_cidr, DEFAULT_V4);
        let v6 = non_empty_or(&network.vm_ipv6_network_cidr, DEFAULT_V6);
        Ok(Self {
            v4: (v4.parse().ok())
                .filter(|net: &Ipv4Net| net.prefix_len() <= 30)
                .ok_or_else(|| {
                    field_error(
                        "pod.vmNetworkCIDR",
                        v4,
                        "an IPv4 subnet of four addresses or more",
                    )
                })?,
            v6: (v6.parse().ok())
                .filter(|net: &Ipv6Net| net.prefix_len() <= 126)
                .ok_or_else(|| {
                    field_error(
                        "pod.vmIPv6NetworkCIDR",
                        v6,
                        "an IPv6 subnet of four addresses or more",
                    )
                })?,
        })
    }

    /// The IPv4 addresses of gateway and guest.
    pub(super) fn addresses_v4(&self) -> (Ipv4Addr, Ipv4Addr) {
        let network = self.v4.network().to_bits();
        (
            Ipv4Addr::from_bits(network + 1),
            Ipv4Addr::from_bits(network + 2),
        )
    }

    /// The guest's IPv6 address.
    pub(super) fn guest_v6(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.v6.network().to_bits() + 2)
    }
}

fn non_empty_or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnets(v4: &str, v6: &str) -> Result<MasqueradeSubnets, String> {
        let network = PodNetwork {
            vm_network_cidr: v4.into(),
            vm_ipv6_network_cidr: v6.into(),
        };
        MasqueradeSubnets::from_network("n", &network).map_err(|error| error.to_string())
    }

    #[test]
    fn guest_gets_the_address_after_the_gateway() {
        let default = subnets("", "").unwrap();
        let [gateway, guest] = [[10, 0, 2, 1], [10, 0, 2, 2]].map(Ipv4Addr::from);
        assert_eq!(default.addresses_v4(), (gateway, guest));
        assert_eq!(default.guest_v6().to_string(), "fd10:0:2::2");
        let last = subnets("255.255.255.254/30", "ffff::/126").unwrap();
        assert_eq!(last.addresses_v4().1.to_string(), "255.255.255.254");
        assert_eq!(last.guest_v6().to_string(), "ffff::2");
    }

    #[test]
    fn invalid_and_too_small_subnets_are_errors() {
        assert_eq!(
            subnets("10.0.0.0/31", "").unwrap_err(),
            "interface n: pod.vmNetworkCIDR is \"10.0.0.0/31\"; it can be an IPv4 subnet of four addresses or more"
        );
        assert!(
            subnets("fd10::/64", "")
                .unwrap_err()
                .contains("vmNetworkCIDR")
        );
        assert!(
            subnets("", "fd10::/127")
                .unwrap_err()
                .contains("vmIPv6NetworkCIDR")
        );
    }
}

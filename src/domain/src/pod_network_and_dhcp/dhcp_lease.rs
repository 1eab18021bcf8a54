//! A guest's DHCP leases.

use core::net::{Ipv4Addr, Ipv6Addr};

use ipnet::Ipv4Net;

use crate::pod_network_and_dhcp::mac_address::Mac;
use crate::pod_network_and_dhcp::masquerade_subnet::MasqueradeSubnets;

/// A guest's addresses on one network; none if the pod has no IP address on the network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lease {
    /// The IPv4 lease, which DHCP assigns.
    pub v4: Option<Lease4>,
    /// The IPv6 address, which DHCPv6 assigns.
    pub v6: Option<Ipv6Addr>,
}

/// An IPv4 lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease4 {
    /// The client to which the server answers; `None` for any client, if the guest is the only one on the bridge.
    pub client: Option<Mac>,
    /// The guest's address and its prefix length.
    pub address: Ipv4Net,
    /// The DHCP server's address.
    pub server: Ipv4Addr,
    /// The default gateway.
    pub router: Option<Ipv4Addr>,
    /// Other routes. A default route comes last, because its gateway may be reachable only through another route.
    pub routes: Vec<Route>,
}

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The destination; `0.0.0.0/0` for the default route.
    pub destination: Ipv4Net,
    /// The gateway; unspecified if the destination is on the link.
    pub gateway: Ipv4Addr,
}

impl Lease {
    /// The lease of a guest behind masquerade, with the IP versions that the pod has.
    pub fn masquerade(subnets: &MasqueradeSubnets, pod_has_v4: bool, pod_has_v6: bool) -> Lease {
        let (gateway, guest) = subnets.addresses_v4();
        let v4 = || {
            Some(Lease4 {
                client: None,
                address: Ipv4Net::new(guest, subnets.v4.prefix_len()).ok()?,
                server: gateway,
                router: Some(gateway),
                routes: Vec::new(),
            })
        };
        Lease {
            v4: if pod_has_v4 { v4() } else { None },
            v6: pod_has_v6.then(|| subnets.guest_v6()),
        }
    }
}

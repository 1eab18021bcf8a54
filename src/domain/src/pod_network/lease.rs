//! What a guest is given by DHCP.

use core::net::{Ipv4Addr, Ipv6Addr};

use ipnet::Ipv4Net;

use super::mac::Mac;
use super::subnet::Subnets;

/// A guest's addresses on one network; of neither kind for a network that is not IP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lease {
    /// By DHCP.
    pub v4: Option<Lease4>,
    /// By DHCPv6.
    pub v6: Option<Ipv6Addr>,
}

/// An IPv4 address, and what goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease4 {
    /// The only client that is answered; anyone on the bridge when there is no other than the guest.
    pub client: Option<Mac>,
    /// The guest's address with its mask.
    pub address: Ipv4Net,
    /// The server's own address.
    pub server: Ipv4Addr,
    /// The way out.
    pub router: Option<Ipv4Addr>,
    /// Further routes, the default one last: it may need another one to reach its gateway.
    pub routes: Vec<Route>,
}

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Where to; everywhere is `0.0.0.0/0`.
    pub destination: Ipv4Net,
    /// By way of; on the link when unspecified.
    pub gateway: Ipv4Addr,
}

impl Lease {
    /// Of a masqueraded guest: an address of each kind that the pod itself has.
    pub fn masquerade(subnets: &Subnets, pod_has_v4: bool, pod_has_v6: bool) -> Lease {
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

//! DHCP for IPv4 (RFC 2131, options of RFC 2132, 3397 and 3442).

use std::net::{Ipv4Addr, SocketAddr};

use domain::pod_network_and_dhcp::{DhcpOptions, DnsConfig, Lease4, Mac, Route};

use super::{LEASE_DURATION, Responder};

pub(super) const SERVER_PORT: u16 = 67;

/// Size of the header before the options, including the magic cookie.
const HEADER_BYTES: usize = 240;
const MAGIC_COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Minimum size of a reply, for BOOTP clients.
const MIN_REPLY_BYTES: usize = 300;
/// Maximum length of a hardware address, in bytes.
const MAX_HARDWARE_ADDRESS_BYTES: u8 = 16;
const BROADCAST_FLAG: u8 = 0x80;

// The values of BOOTP's field `op`.
const BOOTREQUEST: u8 = 1;
const BOOTREPLY: u8 = 2;

// The codes of the options.
const PAD: u8 = 0;
const SUBNET_MASK: u8 = 1;
const ROUTER: u8 = 3;
const DOMAIN_NAME_SERVER: u8 = 6;
const HOST_NAME: u8 = 12;
const DOMAIN_NAME: u8 = 15;
const INTERFACE_MTU: u8 = 26;
const NTP_SERVERS: u8 = 42;
const LEASE_TIME: u8 = 51;
const MESSAGE_TYPE: u8 = 53;
const SERVER_IDENTIFIER: u8 = 54;
const TFTP_SERVER_NAME: u8 = 66;
const BOOT_FILE_NAME: u8 = 67;
const DOMAIN_SEARCH: u8 = 119;
const CLASSLESS_ROUTES: u8 = 121;
const END: u8 = 255;

// The values of the option `MESSAGE_TYPE`.
const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const DHCP_REQUEST: u8 = 3;
const ACK: u8 = 5;

/// Maximum size of an option. A longer value is sent in parts, of which some clients use only the first.
const MAX_OPTION_BYTES: usize = 255;

/// Answers the DHCP requests of one guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::vm_boot::network) struct Dhcpv4Responder {
    /// If set, only this MAC address gets answers.
    client: Option<Mac>,
    address: Ipv4Addr,
    /// All encoded options except the message type.
    options: Vec<u8>,
}

impl Dhcpv4Responder {
    pub(super) fn new(
        lease: &Lease4,
        mtu: u32,
        hostname: &str,
        dns: &DnsConfig,
        custom: &DhcpOptions,
    ) -> Dhcpv4Responder {
        let mut options = Options::default();
        options.put(SERVER_IDENTIFIER, lease.server.octets());
        options.put(LEASE_TIME, (LEASE_DURATION.as_secs() as u32).to_be_bytes());
        options.put(SUBNET_MASK, lease.address.netmask().octets());
        options.put(ROUTER, encode_addresses(lease.router.as_slice()));
        options.put(DOMAIN_NAME_SERVER, encode_addresses(&dns.v4));
        options.put(HOST_NAME, hostname);
        options.put(DOMAIN_NAME, dns.domain_name().unwrap_or_default());
        options.put(
            INTERFACE_MTU,
            u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes(),
        );
        options.put(DOMAIN_SEARCH, encode_search_list(&dns.search));
        options.put(CLASSLESS_ROUTES, encode_classless_routes(&lease.routes));
        options.put(TFTP_SERVER_NAME, &custom.tftp_server_name);
        options.put(BOOT_FILE_NAME, &custom.boot_file_name);
        options.put(NTP_SERVERS, encode_addresses(&custom.ntp_servers));
        for (code, value) in &custom.private {
            options.put(*code, value);
        }
        Dhcpv4Responder {
            client: lease.client,
            address: lease.address.addr(),
            options: options.0,
        }
    }

    pub(super) fn address(&self) -> Ipv4Addr {
        self.address
    }

    fn answer(&self, request: &[u8]) -> Option<Vec<u8>> {
        let header: &[u8; HEADER_BYTES] = request.first_chunk()?;
        let is_request = header[0] == BOOTREQUEST && header[236..] == MAGIC_COOKIE;
        if !is_request || header[2] > MAX_HARDWARE_ADDRESS_BYTES || !self.is_client(header) {
            return None;
        }
        let reply_type = match message_type(&request[HEADER_BYTES..])? {
            DISCOVER => OFFER,
            DHCP_REQUEST => ACK,
            _ => return None,
        };
        let mut reply = vec![0; HEADER_BYTES];
        reply[0] = BOOTREPLY;
        // Type and length of the hardware address; transaction id; flags; relay; hardware address.
        for field in [1..3, 4..8, 10..12, 24..28, 28..44] {
            reply[field.clone()].copy_from_slice(&header[field]);
        }
        reply[16..20].copy_from_slice(&self.address.octets());
        reply[236..].copy_from_slice(&MAGIC_COOKIE);
        reply.extend([MESSAGE_TYPE, 1, reply_type]);
        reply.extend(&self.options);
        reply.push(END);
        reply.resize(reply.len().max(MIN_REPLY_BYTES), PAD);
        Some(reply)
    }

    fn is_client(&self, header: &[u8; HEADER_BYTES]) -> bool {
        let length = usize::from(header[2]);
        self.client
            .is_none_or(|mac| header[28..28 + length] == mac.0)
    }
}

impl Responder for Dhcpv4Responder {
    /// As in KubeVirt, the answer is a broadcast for a client without an address and for one that asks for a broadcast.
    fn respond(&self, packet: &[u8], from: SocketAddr) -> Option<(Vec<u8>, SocketAddr)> {
        let answer = self.answer(packet)?;
        let by_broadcast = from.ip().is_unspecified() || packet[10] & BROADCAST_FLAG != 0;
        let to = if by_broadcast {
            (Ipv4Addr::BROADCAST, from.port()).into()
        } else {
            from
        };
        Some((answer, to))
    }
}

/// The first message type in the options.
fn message_type(mut options: &[u8]) -> Option<u8> {
    loop {
        let (code, rest) = options.split_first()?;
        match *code {
            PAD => options = rest,
            END => return None,
            code => {
                let (length, rest) = rest.split_first()?;
                let (value, rest) = rest.split_at_checked(usize::from(*length))?;
                match (code, value) {
                    (MESSAGE_TYPE, [kind]) => return Some(*kind),
                    _ => options = rest,
                }
            }
        }
    }
}

#[derive(Default)]
struct Options(Vec<u8>);

impl Options {
    /// Adds an option unless its value is empty, in parts if it is long (RFC 3396).
    fn put(&mut self, code: u8, value: impl AsRef<[u8]>) {
        for part in value.as_ref().chunks(MAX_OPTION_BYTES) {
            self.0.extend([code, part.len() as u8]);
            self.0.extend(part);
        }
    }
}

fn encode_addresses(addresses: &[Ipv4Addr]) -> Vec<u8> {
    addresses.iter().flat_map(Ipv4Addr::octets).collect()
}

/// Encodes as many search domains as one option can hold.
fn encode_search_list(domains: &[String]) -> Vec<u8> {
    let mut list = Vec::new();
    for domain in domains {
        let mut name = Vec::new();
        for label in domain.split('.') {
            name.push(label.len() as u8);
            name.extend(label.as_bytes());
        }
        name.push(0);
        if list.len() + name.len() > MAX_OPTION_BYTES {
            tracing::warn!(
                domain,
                "the guest's lease has no room for this search domain and those after it"
            );
            break;
        }
        list.extend(name);
    }
    list
}

fn encode_classless_routes(routes: &[Route]) -> Vec<u8> {
    let encode = |route: &Route| {
        let width = route.destination.prefix_len();
        let significant = usize::from(width.div_ceil(8));
        let mut bytes = vec![width];
        bytes.extend(&route.destination.addr().octets()[..significant]);
        bytes.extend(route.gateway.octets());
        bytes
    };
    routes.iter().flat_map(encode).collect()
}

#[cfg(test)]
mod tests;

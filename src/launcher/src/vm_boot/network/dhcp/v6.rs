//! DHCP for IPv6 (RFC 8415), for a guest that is alone on its bridge.

use std::net::{Ipv6Addr, SocketAddr};

use domain::pod_network_and_dhcp::Mac;

use super::{LEASE_DURATION, Responder};

pub(super) const SERVER_PORT: u16 = 547;
/// The multicast address of all relay agents and servers of a link.
pub(super) const ALL_RELAY_AGENTS_AND_SERVERS: Ipv6Addr =
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);

const SOLICIT: u8 = 1;
const ADVERTISE: u8 = 2;
const REQUEST: u8 = 3;
const CONFIRM: u8 = 4;
const RENEW: u8 = 5;
const REBIND: u8 = 6;
const REPLY: u8 = 7;
const RELEASE: u8 = 8;
const INFORMATION_REQUEST: u8 = 11;

const CLIENT_ID: u16 = 1;
const SERVER_ID: u16 = 2;
const IA_NA: u16 = 3;
const IA_ADDRESS: u16 = 5;
const STATUS_CODE: u16 = 13;
const RAPID_COMMIT: u16 = 14;
const DNS_SERVERS: u16 = 23;

const SUCCESS: [u8; 2] = [0, 0];
/// The beginning of a DUID that is made of an Ethernet address (DUID-LL).
const DUID_LL_HEADER: [u8; 4] = [0, 3, 0, 1];
/// Size of IAID, T1 and T2 in bytes.
const IA_HEADER_BYTES: usize = 12;
const MAX_CLIENT_ID_BYTES: usize = 130;

/// Answers the DHCP requests of one guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::vm_boot::network) struct Dhcpv6Responder {
    guest: Ipv6Addr,
    server_duid: Vec<u8>,
    /// The encoded addresses of DNS servers.
    dns: Vec<u8>,
}

/// The used options of a request.
#[derive(Default)]
struct Request<'a> {
    client_duid: Option<&'a [u8]>,
    iaid: Option<[u8; 4]>,
    rapid_commit: bool,
}

impl Dhcpv6Responder {
    pub(super) fn new(guest: Ipv6Addr, bridge: Option<Mac>, dns: &[Ipv6Addr]) -> Dhcpv6Responder {
        let mut server_duid = DUID_LL_HEADER.to_vec();
        server_duid.extend(bridge.map_or([0; 6], |mac| mac.0));
        Dhcpv6Responder {
            guest,
            server_duid,
            dns: dns.iter().flat_map(Ipv6Addr::octets).collect(),
        }
    }

    pub(super) fn address(&self) -> Ipv6Addr {
        self.guest
    }

    fn answer(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let (&[kind, a, b, c], options) = packet.split_first_chunk()?;
        let request = Request::decode(options)?;
        if request.client_duid.is_none() && kind != INFORMATION_REQUEST {
            return None;
        }
        let rapid = kind == SOLICIT && request.rapid_commit;
        let answer = match kind {
            SOLICIT if !rapid => ADVERTISE,
            SOLICIT | REQUEST | CONFIRM | RENEW | REBIND | RELEASE | INFORMATION_REQUEST => REPLY,
            _ => return None,
        };
        let mut reply = vec![answer, a, b, c];
        put(&mut reply, SERVER_ID, &self.server_duid);
        if let Some(client_duid) = request.client_duid {
            put(&mut reply, CLIENT_ID, client_duid);
        }
        match kind {
            CONFIRM | RELEASE => put(&mut reply, STATUS_CODE, &SUCCESS),
            INFORMATION_REQUEST => {}
            _ => {
                if let Some(iaid) = request.iaid {
                    put(&mut reply, IA_NA, &self.ia_na(iaid));
                }
            }
        }
        if rapid {
            put(&mut reply, RAPID_COMMIT, &[]);
        }
        if !self.dns.is_empty() {
            put(&mut reply, DNS_SERVERS, &self.dns);
        }
        Some(reply)
    }

    /// The value of the IA_NA option with the guest's address. T1 and T2 are 0: the guest chooses when to renew the
    /// lease.
    fn ia_na(&self, iaid: [u8; 4]) -> Vec<u8> {
        let lifetime = (LEASE_DURATION.as_secs() as u32).to_be_bytes();
        let mut address = self.guest.octets().to_vec();
        address.extend(lifetime);
        address.extend(lifetime);
        let mut ia_na = iaid.to_vec();
        ia_na.resize(IA_HEADER_BYTES, 0);
        put(&mut ia_na, IA_ADDRESS, &address);
        ia_na
    }
}

impl<'a> Request<'a> {
    fn decode(mut options: &'a [u8]) -> Option<Request<'a>> {
        let mut request = Request::default();
        while !options.is_empty() {
            let (&[a, b, c, d], rest) = options.split_first_chunk()?;
            let length = u16::from_be_bytes([c, d]);
            let (value, rest) = rest.split_at_checked(usize::from(length))?;
            match u16::from_be_bytes([a, b]) {
                CLIENT_ID if (1..=MAX_CLIENT_ID_BYTES).contains(&value.len()) => {
                    request.client_duid = Some(value)
                }
                // Only the first identity association gets an address.
                IA_NA if value.len() >= IA_HEADER_BYTES && request.iaid.is_none() => {
                    request.iaid = value.first_chunk().copied();
                }
                RAPID_COMMIT => request.rapid_commit = true,
                _ => {}
            }
            options = rest;
        }
        Some(request)
    }
}

impl Responder for Dhcpv6Responder {
    fn respond(&self, packet: &[u8], from: SocketAddr) -> Option<(Vec<u8>, SocketAddr)> {
        Some((self.answer(packet)?, from))
    }
}

fn put(message: &mut Vec<u8>, code: u16, value: &[u8]) {
    message.extend(code.to_be_bytes());
    message.extend((value.len() as u16).to_be_bytes());
    message.extend(value);
}

#[cfg(test)]
mod tests;

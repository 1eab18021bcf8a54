//! DHCP for IPv6 (RFC 8415), for a guest that is alone on its bridge.

use std::net::{Ipv6Addr, SocketAddr};

use domain::pod_network_and_dhcp::Mac;

use super::{LEASE, Responder};

pub(super) const PORT: u16 = 547;
/// All servers and relays of a link.
pub(super) const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);

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
/// A server's name made of an Ethernet address (DUID-LL).
const LINK_LAYER: [u8; 4] = [0, 3, 0, 1];
/// Identifier and two times.
const IA_HEADER: usize = 12;
const MAX_CLIENT_ID: usize = 130;

/// Tells one guest its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::boot::network) struct Responder6 {
    guest: Ipv6Addr,
    server: Vec<u8>,
    dns: Vec<u8>,
}

/// What of a request matters.
#[derive(Default)]
struct Request<'a> {
    client: Option<&'a [u8]>,
    association: Option<[u8; 4]>,
    rapid: bool,
}

impl Responder6 {
    pub(super) fn new(guest: Ipv6Addr, bridge: Option<Mac>, dns: &[Ipv6Addr]) -> Responder6 {
        let mut server = LINK_LAYER.to_vec();
        server.extend(bridge.map_or([0; 6], |mac| mac.0));
        Responder6 {
            guest,
            server,
            dns: dns.iter().flat_map(Ipv6Addr::octets).collect(),
        }
    }

    pub(super) fn address(&self) -> Ipv6Addr {
        self.guest
    }

    fn answer(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let (&[kind, a, b, c], options) = packet.split_first_chunk()?;
        let request = Request::read(options)?;
        if request.client.is_none() && kind != INFORMATION_REQUEST {
            return None;
        }
        let rapid = kind == SOLICIT && request.rapid;
        let answer = match kind {
            SOLICIT if !rapid => ADVERTISE,
            SOLICIT | REQUEST | CONFIRM | RENEW | REBIND | RELEASE | INFORMATION_REQUEST => REPLY,
            _ => return None,
        };
        let mut reply = vec![answer, a, b, c];
        put(&mut reply, SERVER_ID, &self.server);
        if let Some(client) = request.client {
            put(&mut reply, CLIENT_ID, client);
        }
        match kind {
            CONFIRM | RELEASE => put(&mut reply, STATUS_CODE, &SUCCESS),
            INFORMATION_REQUEST => {}
            _ => {
                if let Some(association) = request.association {
                    put(&mut reply, IA_NA, &self.association(association));
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

    /// The guest's address; when to renew it is the guest's choice.
    fn association(&self, identifier: [u8; 4]) -> Vec<u8> {
        let lifetime = (LEASE.as_secs() as u32).to_be_bytes();
        let mut address = self.guest.octets().to_vec();
        address.extend(lifetime);
        address.extend(lifetime);
        let mut association = identifier.to_vec();
        association.resize(IA_HEADER, 0);
        put(&mut association, IA_ADDRESS, &address);
        association
    }
}

impl<'a> Request<'a> {
    fn read(mut options: &'a [u8]) -> Option<Request<'a>> {
        let mut request = Request::default();
        while !options.is_empty() {
            let (&[a, b, c, d], rest) = options.split_first_chunk()?;
            let length = u16::from_be_bytes([c, d]);
            let (value, rest) = rest.split_at_checked(usize::from(length))?;
            match u16::from_be_bytes([a, b]) {
                CLIENT_ID if (1..=MAX_CLIENT_ID).contains(&value.len()) => {
                    request.client = Some(value)
                }
                // One address, for the first that asks.
                IA_NA if value.len() >= IA_HEADER && request.association.is_none() => {
                    request.association = value.first_chunk().copied();
                }
                RAPID_COMMIT => request.rapid = true,
                _ => {}
            }
            options = rest;
        }
        Some(request)
    }
}

impl Responder for Responder6 {
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
#[allow(clippy::unwrap_used)]
#[path = "v6_tests.rs"]
mod tests;

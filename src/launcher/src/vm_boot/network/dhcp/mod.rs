//! A DHCP server for one guest: it answers requests on the guest's bridge with a fixed configuration.
//!
//! The packets are encoded and decoded here, a handful of fields each, since they come from the guest, which is not
//! trusted: nothing is decoded that is not needed, and nothing recurses.

mod v4;
mod v6;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::pod_network_and_dhcp::{DhcpOptions, DnsConfig, Lease, Mac};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio_util::task::AbortOnDropHandle;

use super::NetworkError;
use super::pod_links::PodLink;

pub(super) use v4::Dhcpv4Responder;
pub(super) use v6::Dhcpv6Responder;

/// KubeVirt's lease time, which is practically unlimited.
const LEASE_DURATION: Duration = Duration::from_secs(999 * 24 * 60 * 60);
/// Maximum size of a request: that of an Ethernet frame.
const MAX_REQUEST_BYTES: usize = 1500;
/// The pause after a failure of the socket, for example while the bridge is down.
const SOCKET_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The network configuration that DHCP gives to the guest.
#[derive(Debug, Clone)]
pub(super) struct DhcpConfig {
    pub(super) lease: Lease,
    pub(super) mtu: u32,
    pub(super) hostname: String,
    pub(super) dns: DnsConfig,
}

/// The responders of one bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DhcpResponders {
    pub(super) v4: Option<Dhcpv4Responder>,
    pub(super) v6: Option<Dhcpv6Responder>,
}

impl DhcpResponders {
    pub(super) fn new(
        config: &DhcpConfig,
        options: &DhcpOptions,
        bridge: Option<Mac>,
    ) -> DhcpResponders {
        let DhcpConfig {
            lease,
            mtu,
            hostname,
            dns,
        } = config;
        let v4 = lease.v4.as_ref();
        DhcpResponders {
            v4: v4.map(|lease| Dhcpv4Responder::new(lease, *mtu, hostname, dns, options)),
            v6: (lease.v6).map(|guest| Dhcpv6Responder::new(guest, bridge, &dns.v6)),
        }
    }
}

/// Answers the packets of a protocol version.
trait Responder: Send + Sync + 'static {
    /// The answer to a packet and its destination; `None` for a packet that is not answered.
    fn respond(&self, packet: &[u8], from: SocketAddr) -> Option<(Vec<u8>, SocketAddr)>;
}

/// The DHCP servers of a pod, by bridge.
#[derive(Default)]
pub(super) struct DhcpServers(Mutex<BTreeMap<String, DhcpServer>>);

struct DhcpServer {
    responders: DhcpResponders,
    /// The kernel's index of the bridge, to which the sockets are bound. A bridge that is created again has another
    /// index.
    bridge_index: u32,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl DhcpServers {
    /// Starts the responders of a bridge. A server with the same responders keeps running.
    pub(super) fn serve(
        &self,
        interface: &str,
        bridge: &PodLink,
        responders: DhcpResponders,
    ) -> Result<(), NetworkError> {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &bridge.link.name;
        if servers.get(name).is_some_and(|server| {
            server.responders == responders && server.bridge_index == bridge.index
        }) {
            return Ok(());
        }
        servers.remove(name);
        let mut tasks = Vec::new();
        if let Some(responder) = responders.v4.clone() {
            let socket = listen(interface, bridge, v4::SERVER_PORT, open_v4)?;
            tasks.push(start(socket, responder));
        }
        if let Some(responder) = responders.v6.clone() {
            let socket = listen(interface, bridge, v6::SERVER_PORT, open_v6)?;
            tasks.push(start(socket, responder));
        }
        tracing::info!(
            interface,
            bridge = name,
            ipv4 = responders.v4.as_ref().map(|v4| v4.address().to_string()),
            ipv6 = responders.v6.as_ref().map(|v6| v6.address().to_string()),
            "serving DHCP"
        );
        let server = DhcpServer {
            responders,
            bridge_index: bridge.index,
            _tasks: tasks,
        };
        servers.insert(name.clone(), server);
        Ok(())
    }
}

fn listen(
    interface: &str,
    bridge: &PodLink,
    port: u16,
    open: fn(&PodLink) -> io::Result<Socket>,
) -> Result<UdpSocket, NetworkError> {
    let socket = open(bridge).and_then(|socket| {
        socket.set_nonblocking(true)?;
        UdpSocket::from_std(socket.into())
    });
    socket.map_err(|source| NetworkError::Listen {
        interface: interface.to_owned(),
        port,
        bridge: bridge.link.name.clone(),
        source,
    })
}

fn open_v4(bridge: &PodLink) -> io::Result<Socket> {
    let socket = open_on_bridge(bridge, Domain::IPV4)?;
    socket.set_broadcast(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, v4::SERVER_PORT)).into())?;
    Ok(socket)
}

fn open_v6(bridge: &PodLink) -> io::Result<Socket> {
    let socket = open_on_bridge(bridge, Domain::IPV6)?;
    socket.set_only_v6(true)?;
    socket.join_multicast_v6(&v6::ALL_RELAY_AGENTS_AND_SERVERS, bridge.index)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, v6::SERVER_PORT)).into())?;
    Ok(socket)
}

/// A socket that receives packets of one bridge only.
fn open_on_bridge(bridge: &PodLink, domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.bind_device(Some(bridge.link.name.as_bytes()))?;
    Ok(socket)
}

fn start(socket: UdpSocket, responder: impl Responder) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(serve(socket, responder)))
}

async fn serve(socket: UdpSocket, responder: impl Responder) {
    let mut buffer = [0; MAX_REQUEST_BYTES];
    loop {
        let served = async {
            let (length, from) = socket.recv_from(&mut buffer).await?;
            if let Some((answer, to)) = responder.respond(&buffer[..length], from) {
                tracing::debug!(%from, %to, bytes = answer.len(), "answering a DHCP request");
                socket.send_to(&answer, to).await?;
            }
            io::Result::Ok(())
        };
        if let Err(error) = served.await {
            tracing::warn!(%error, "serving DHCP");
            tokio::time::sleep(SOCKET_RETRY_INTERVAL).await;
        }
    }
}

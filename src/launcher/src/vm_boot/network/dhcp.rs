//! A DHCP server for one guest: it answers requests on the guest's bridge with a fixed configuration.
//!
//! The packets are encoded and decoded here, a handful of fields each, since they come from the guest, which is not
//! trusted: nothing is decoded that is not needed, and nothing recurses.

mod v4;
mod v6;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::pod_network_and_dhcp::{
    DhcpOptions, DnsConfig, Lease, MAX_RESOLV_CONF_BYTES, MAX_VIF_CACHE_BYTES, Mac,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio_util::task::AbortOnDropHandle;

use super::{NetworkError, PodLink};
use crate::blocking;
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

// Reads the sources of the guest's DHCP configuration: virt-handler's VIF cache, and the pod's `resolv.conf` and host
// name.

/// Maximum size of the host name in bytes. Linux allows only shorter host names.
const MAX_HOSTNAME_BYTES: usize = 255;
/// How long reading a file may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The lease in virt-handler's VIF cache at `path`, which contains the pod's address.
pub(super) async fn read_lease(
    interface: &str,
    path: &Path,
    server: Ipv4Addr,
) -> Result<Lease, NetworkError> {
    let read = read_file("reading the VIF cache", path, MAX_VIF_CACHE_BYTES).await?;
    let vif_cache_bytes = read.map_err(|source| NetworkError::ReadVifCache {
        interface: interface.to_owned(),
        path: path.to_owned(),
        source,
    })?;
    Lease::bridge(&vif_cache_bytes, server).map_err(|source| NetworkError::InvalidVifCache {
        interface: interface.to_owned(),
        path: path.to_owned(),
        source,
    })
}

/// The DNS servers and search domains in the pod's `resolv.conf`.
pub(super) async fn read_dns(path: &Path) -> Result<DnsConfig, NetworkError> {
    let settings = "the VMI's dnsConfig or the node's resolv.conf";
    let resolv_conf = read_text(path, MAX_RESOLV_CONF_BYTES, settings).await?;
    Ok(DnsConfig::parse(&resolv_conf))
}

/// The pod's host name.
pub(super) async fn read_hostname(path: &Path) -> Result<String, NetworkError> {
    let hostname = read_text(path, MAX_HOSTNAME_BYTES, "the VMI's hostname").await?;
    Ok(hostname.trim_end().to_owned())
}

/// The text of a file that is made from `settings`. A larger file is an error: a part of it could end in the middle of
/// an address or a name.
async fn read_text(
    path: &Path,
    max_bytes: usize,
    settings: &'static str,
) -> Result<String, NetworkError> {
    let read = read_file("reading the source of DHCP options", path, max_bytes).await?;
    let bytes = read.map_err(|source| NetworkError::ReadPodFile {
        path: path.to_owned(),
        source,
    })?;
    if bytes.len() > max_bytes {
        return Err(NetworkError::PodFileTooLarge {
            path: path.to_owned(),
            max_bytes,
            settings,
        });
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The content of a file. Of a larger file `max_bytes + 1` bytes are read, so that the caller can refuse it.
async fn read_file(
    what: &'static str,
    path: &Path,
    max_bytes: usize,
) -> Result<io::Result<Vec<u8>>, NetworkError> {
    let path = path.to_owned();
    let read = move || {
        let mut bytes = Vec::new();
        File::open(path)?
            .take(max_bytes as u64 + 1)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    Ok(blocking::file_call(what, READ_TIMEOUT, read).await?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn oversized_resolv_conf_and_host_name_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path();
        let resolv_conf = |bytes: usize| {
            let server = "\nnameserver 10.96.0.10";
            format!("{}{server}", "#".repeat(bytes - server.len()))
        };
        fs::write(path, resolv_conf(MAX_RESOLV_CONF_BYTES)).unwrap();
        let dns = read_dns(path).await.unwrap();
        assert_eq!(dns.v4, [Ipv4Addr::new(10, 96, 0, 10)]);
        fs::write(path, resolv_conf(MAX_RESOLV_CONF_BYTES + 1)).unwrap();
        let error = read_dns(path).await.unwrap_err().to_string();
        let too_large = |max_bytes: usize, settings: &str| {
            let path = path.display();
            format!(
                "{path}, a source of DHCP options, has more than {max_bytes} bytes; shorten {settings}"
            )
        };
        assert_eq!(
            error,
            too_large(
                MAX_RESOLV_CONF_BYTES,
                "the VMI's dnsConfig or the node's resolv.conf"
            )
        );

        fs::write(path, "h".repeat(MAX_HOSTNAME_BYTES)).unwrap();
        let hostname = read_hostname(path).await.unwrap();
        assert_eq!(hostname.len(), MAX_HOSTNAME_BYTES);
        fs::write(path, "h".repeat(MAX_HOSTNAME_BYTES + 1)).unwrap();
        let error = read_hostname(path).await.unwrap_err().to_string();
        assert_eq!(error, too_large(MAX_HOSTNAME_BYTES, "the VMI's hostname"));
    }
}

//! Sets up the guest's network: attaches its interfaces to the tap devices that virt-handler made, and serves DHCP.
//!
//! This is KubeVirt's phase 2 of the network setup. [`domain::pod_network_and_dhcp`] decides; this module reads the
//! files, looks up the links and opens the sockets. It runs before the hooks see the domain.

mod dhcp;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::libvirt_spec::{DomainSpec, Interface};
use domain::pod_network_and_dhcp::{
    Binding, Lease, Link, Mac, PodNetworkError, Tap, VifCacheError, taps,
};
use futures_util::TryStreamExt;
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;
use rtnetlink::packet_route::address::AddressAttribute;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rtnetlink::{Error, Handle};
use rustix::io::Errno;

use crate::blocking::NoAnswer;
use dhcp::{DhcpConfig, DhcpResponders, DhcpServers};

/// Sets up the network of one pod's guest.
pub struct PodNetworkSetup {
    /// The directory in which virt-handler leaves the pod's addresses.
    private: PathBuf,
    resolv_conf: PathBuf,
    hostname: PathBuf,
    servers: DhcpServers,
}

impl PodNetworkSetup {
    /// KubeVirt's directories; `private` is `/var/run/kubevirt-private`.
    pub fn kubevirt(private: &Path) -> PodNetworkSetup {
        PodNetworkSetup {
            private: private.to_owned(),
            resolv_conf: "/etc/resolv.conf".into(),
            hostname: "/proc/sys/kernel/hostname".into(),
            servers: DhcpServers::default(),
        }
    }

    /// Attaches the domain's interfaces, and serves their DHCP until this is dropped. May be repeated.
    ///
    /// # Errors
    /// [`NetworkError`] naming the interface, and the link or the file.
    pub async fn connect(
        &self,
        vmi: &Vmi,
        options: &Options,
        spec: &mut DomainSpec,
    ) -> Result<(), NetworkError> {
        let taps = taps(vmi, options)?;
        if taps.is_empty() {
            return Ok(());
        }
        let links = Links::open().map_err(NetworkError::Netlink)?;
        for tap in &taps {
            self.connect_one(vmi, tap, &links, spec).await?;
        }
        Ok(())
    }

    /// Attaches one interface of a running VM, for which virt-handler has made the links, and serves its DHCP.
    ///
    /// # Errors
    /// As [`PodNetworkSetup::connect`].
    pub async fn connect_hotplugged(
        &self,
        vmi: &Vmi,
        options: &Options,
        interface: Interface,
    ) -> Result<Interface, NetworkError> {
        let mut taps = taps(vmi, options)?.into_iter();
        let name = interface.alias.as_ref().map(|alias| alias.name.clone());
        let Some(tap) = taps.find(|tap| Some(&tap.interface) == name.as_ref()) else {
            return Ok(interface);
        };
        let links = Links::open().map_err(NetworkError::Netlink)?;
        let mut spec = DomainSpec::default();
        spec.devices.interfaces.push(interface.clone());
        self.connect_one(vmi, &tap, &links, &mut spec).await?;
        Ok(spec.devices.interfaces.pop().unwrap_or(interface))
    }

    async fn connect_one(
        &self,
        vmi: &Vmi,
        tap: &Tap,
        links: &Links,
        spec: &mut DomainSpec,
    ) -> Result<(), NetworkError> {
        let pod = links.first_of(&tap.pod_interfaces).await?;
        let pod = pod.ok_or_else(|| no_link(tap, &tap.pod_interfaces.join(" or ")))?;
        let device = tap.device(&pod.link.name);
        let device = match links.by_name(&device).await? {
            Some(_) => device,
            None => pod.link.name.clone(),
        };
        tap.attach(spec, &pod.link, &device)?;
        if let Some((lease, mtu)) = self.lease(tap, &pod, links).await? {
            let config = DhcpConfig {
                lease,
                mtu,
                hostname: dhcp::read_hostname(&self.hostname).await?,
                dns: (dhcp::read_dns(&self.resolv_conf).await?).with_subdomain(&vmi.spec.subdomain),
            };
            self.serve(tap, &pod, &config, links).await?;
        }
        Ok(())
    }

    /// The guest's lease and MTU; `None` if a network binding plugin or another server answers DHCP.
    async fn lease(
        &self,
        tap: &Tap,
        pod: &PodLink,
        links: &Links,
    ) -> Result<Option<(Lease, u32)>, NetworkError> {
        match &tap.binding {
            Binding::Plugin => Ok(None),
            Binding::Masquerade(subnets) => {
                let (v4, v6) = links.has_global_addresses(pod).await?;
                Ok(Some((Lease::masquerade(subnets, v4, v6), pod.link.mtu)))
            }
            Binding::Bridge(server) => {
                let file = self
                    .private
                    .join(format!("vif-cache-{}.json", pod.link.name));
                let lease = dhcp::read_lease(&tap.interface, &file, *server).await?;
                if lease == Lease::default() {
                    return Ok(None);
                }
                let renamed = tap.renamed_interface(&pod.link.name);
                let interface = links.by_name(&renamed).await?;
                let interface = interface.ok_or_else(|| no_link(tap, &renamed))?;
                Ok(Some((lease, interface.link.mtu)))
            }
        }
    }

    async fn serve(
        &self,
        tap: &Tap,
        pod: &PodLink,
        config: &DhcpConfig,
        links: &Links,
    ) -> Result<(), NetworkError> {
        let name = tap.bridge(&pod.link.name);
        let bridge = links.by_name(&name).await?;
        let bridge = bridge.ok_or_else(|| no_link(tap, &name))?;
        let responders = DhcpResponders::new(config, &tap.dhcp_options, bridge.link.mac);
        self.servers.serve(&tap.interface, &bridge, responders)
    }
}

fn no_link(tap: &Tap, links: &str) -> NetworkError {
    NetworkError::NoLink {
        interface: tap.interface.clone(),
        links: links.to_owned(),
    }
}

/// How long the kernel may take to answer.
const NETLINK_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a link's name (`IFNAMSIZ` without the NUL). The kernel returns an error for a longer one.
const MAX_LINK_NAME_BYTES: usize = 15;

/// A link and its index in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PodLink {
    index: u32,
    link: Link,
}

/// A netlink socket.
struct Links(Handle);

impl Links {
    fn open() -> io::Result<Links> {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        // The task ends when the handle is dropped.
        tokio::spawn(connection);
        Ok(Links(handle))
    }

    /// The first of these links that exists.
    async fn first_of(&self, names: &[String]) -> Result<Option<PodLink>, NetworkError> {
        for name in names {
            if let Some(link) = self.by_name(name).await? {
                return Ok(Some(link));
            }
        }
        Ok(None)
    }

    /// The link of this name; `None` if there is none.
    async fn by_name(&self, name: &str) -> Result<Option<PodLink>, NetworkError> {
        if name.len() > MAX_LINK_NAME_BYTES {
            return Ok(None);
        }
        let mut answers = Box::pin(self.0.link().get().match_name(name).execute());
        match with_timeout(answers.try_next()).await? {
            Ok(message) => Ok(message.map(|message| pod_link(name, &message))),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(link_error(name, &error)),
        }
    }

    /// Whether a link has an IPv4 address, and whether it has an IPv6 address, that is valid beyond the link.
    async fn has_global_addresses(&self, link: &PodLink) -> Result<(bool, bool), NetworkError> {
        let answers = self
            .0
            .address()
            .get()
            .set_link_index_filter(link.index)
            .execute();
        let addresses: Vec<_> = with_timeout(answers.try_collect())
            .await?
            .map_err(|error| link_error(&link.link.name, &error))?;
        let (mut has_v4, mut has_v6) = (false, false);
        for attribute in addresses.iter().flat_map(|address| &address.attributes) {
            match attribute {
                AddressAttribute::Address(IpAddr::V4(address)) => {
                    has_v4 |= !(address.is_link_local() || is_special(IpAddr::V4(*address)));
                }
                AddressAttribute::Address(IpAddr::V6(address)) => {
                    has_v6 |=
                        !(address.is_unicast_link_local() || is_special(IpAddr::V6(*address)));
                }
                _ => {}
            }
        }
        Ok((has_v4, has_v6))
    }
}

fn is_special(address: IpAddr) -> bool {
    address.is_unspecified() || address.is_loopback() || address.is_multicast()
}

async fn with_timeout<T>(request: impl Future<Output = T>) -> Result<T, NoAnswer> {
    let answer = tokio::time::timeout(NETLINK_TIMEOUT, request).await;
    answer.map_err(|_| NoAnswer::Timeout {
        what: "asking the kernel for the pod's links",
        deadline: NETLINK_TIMEOUT,
    })
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::NetlinkError(message) if message.raw_code() == -Errno::NODEV.raw_os_error())
}

fn link_error(link: &str, error: &Error) -> NetworkError {
    NetworkError::Link {
        link: link.to_owned(),
        reason: error.to_string(),
    }
}

fn pod_link(name: &str, message: &LinkMessage) -> PodLink {
    let mut link = Link {
        name: name.to_owned(),
        mac: None,
        mtu: 0,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Address(bytes) => link.mac = bytes.as_slice().try_into().ok().map(Mac),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            _ => {}
        }
    }
    PodLink {
        index: message.header.index,
        link,
    }
}

/// The guest's network could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The VMI's network configuration is not supported.
    #[error(transparent)]
    Unsupported(#[from] PodNetworkError),
    /// The netlink socket could not be opened.
    #[error("asking the kernel for the pod's links: {0}")]
    Netlink(io::Error),
    /// The kernel returned an error about a link.
    #[error("asking the kernel about the link {link}: {reason}")]
    Link {
        /// The link.
        link: String,
        /// The kernel's error.
        reason: String,
    },
    /// A link that virt-handler makes does not exist.
    #[error(
        "interface {interface}: the pod has no link {links}; virt-handler prepares it before it asks for the VM, \
         so its log or the pod's network (CNI) should tell why not"
    )]
    NoLink {
        /// The interface.
        interface: String,
        /// The possible names of the link.
        links: String,
    },
    /// The file with the pod's address could not be read.
    #[error(
        "interface {interface}: reading {path}, where virt-handler leaves the pod's address for the guest: {source}"
    )]
    ReadVifCache {
        /// The interface.
        interface: String,
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The file with the pod's address is invalid.
    #[error(
        "interface {interface}: {path}, where virt-handler leaves the pod's address for the guest: {source}; a new \
         pod (restart the VM) gets a new file"
    )]
    InvalidVifCache {
        /// The interface.
        interface: String,
        /// The file.
        path: PathBuf,
        /// What is invalid.
        source: VifCacheError,
    },
    /// A file with the pod's host name or DNS configuration could not be read.
    #[error("reading {path}, a source of DHCP options: {source}")]
    ReadPodFile {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// A file with the pod's host name or DNS configuration is too large.
    #[error(
        "{path}, a source of DHCP options, has more than {max_bytes} bytes; shorten {settings}"
    )]
    PodFileTooLarge {
        /// The file.
        path: PathBuf,
        /// Maximum size in bytes.
        max_bytes: usize,
        /// The settings from which the file is made.
        settings: &'static str,
    },
    /// Listening for DHCP requests failed.
    #[error(
        "interface {interface}: listening for DHCP on UDP port {port} of {bridge}: {source} (it takes \
         CAP_NET_BIND_SERVICE, and Linux 5.7 where the launcher is not root)"
    )]
    Listen {
        /// The interface.
        interface: String,
        /// The port.
        port: u16,
        /// The bridge.
        bridge: String,
        /// The error of the socket.
        source: io::Error,
    },
    /// A call to the file system or the kernel timed out.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}

#[cfg(test)]
mod tests;

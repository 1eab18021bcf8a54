//! Reads the pod's network links and their addresses from the kernel (netlink).

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use domain::pod_network_and_dhcp::{Link, Mac};
use futures_util::TryStreamExt;
use rtnetlink::packet_route::address::AddressAttribute;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rtnetlink::{Error, Handle};
use rustix::io::Errno;

use super::NetworkError;
use crate::blocking::NoAnswer;

/// How long the kernel may take to answer.
const NETLINK_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a link's name (`IFNAMSIZ` without the NUL). The kernel returns an error for a longer one.
const MAX_LINK_NAME_BYTES: usize = 15;

/// A link and its index in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodLink {
    pub(super) index: u32,
    pub(super) link: Link,
}

/// A netlink socket.
pub(super) struct Links(Handle);

impl Links {
    pub(super) fn open() -> io::Result<Links> {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        // The task ends when the handle is dropped.
        tokio::spawn(connection);
        Ok(Links(handle))
    }

    /// The first of these links that exists.
    pub(super) async fn first_of(&self, names: &[String]) -> Result<Option<PodLink>, NetworkError> {
        for name in names {
            if let Some(link) = self.by_name(name).await? {
                return Ok(Some(link));
            }
        }
        Ok(None)
    }

    /// The link of this name; `None` if there is none.
    pub(super) async fn by_name(&self, name: &str) -> Result<Option<PodLink>, NetworkError> {
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
    pub(super) async fn has_global_addresses(
        &self,
        link: &PodLink,
    ) -> Result<(bool, bool), NetworkError> {
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

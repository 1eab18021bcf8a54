//! The files from which the guest's DHCP configuration comes.

use std::fs::File;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use domain::pod_network_and_dhcp::{DnsConfig, Lease, MAX_RESOLV_CONF_BYTES, MAX_VIF_CACHE_BYTES};

use super::NetworkError;
use crate::blocking;

/// Linux has shorter names only.
const MAX_HOSTNAME: usize = 255;
const QUICK: Duration = Duration::from_secs(10);

/// The lease that virt-handler left in `path`.
pub(super) async fn lease(
    interface: &str,
    path: &Path,
    server: Ipv4Addr,
) -> Result<Lease, NetworkError> {
    let file = read("reading the pod's address", path, MAX_VIF_CACHE_BYTES).await?;
    let file = file.map_err(|source| NetworkError::Unreadable {
        interface: interface.to_owned(),
        path: path.to_owned(),
        source,
    })?;
    Lease::bridge(&file, server).map_err(|source| NetworkError::Cache {
        interface: interface.to_owned(),
        path: path.to_owned(),
        source,
    })
}

/// The DNS servers and search domains of the pod's `resolv.conf`. Content beyond the size limit is ignored.
pub(super) async fn dns(path: &Path) -> Result<DnsConfig, NetworkError> {
    Ok(DnsConfig::parse(&text(path, MAX_RESOLV_CONF_BYTES).await?))
}

/// The pod's name.
pub(super) async fn hostname(path: &Path) -> Result<String, NetworkError> {
    Ok(text(path, MAX_HOSTNAME).await?.trim_end().to_owned())
}

async fn text(path: &Path, limit: usize) -> Result<String, NetworkError> {
    let file = read("reading the source of DHCP options", path, limit).await?;
    let file = file.map_err(|source| NetworkError::Pod {
        path: path.to_owned(),
        source,
    })?;
    Ok(String::from_utf8_lossy(&file).into_owned())
}

/// A file, or one byte more of it than the limit.
async fn read(
    what: &'static str,
    path: &Path,
    limit: usize,
) -> Result<io::Result<Vec<u8>>, NetworkError> {
    let path = path.to_owned();
    let read = move || {
        let mut bytes = Vec::new();
        File::open(path)?
            .take(limit as u64 + 1)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    Ok(blocking::file_call(what, QUICK, read).await?)
}

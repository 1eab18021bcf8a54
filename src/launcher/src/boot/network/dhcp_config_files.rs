//! Reads the files that determine the guest's DHCP configuration.

use std::fs::File;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use domain::pod_network_and_dhcp::{DnsConfig, Lease, MAX_RESOLV_CONF_BYTES, MAX_VIF_CACHE_BYTES};

use super::NetworkError;
use crate::blocking;

/// Maximum size of the host name. Linux allows only shorter ones.
const MAX_HOSTNAME_BYTES: usize = 255;
/// How long reading a file may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The lease in the file `path`, which virt-handler wrote.
pub(super) async fn read_lease(
    interface: &str,
    path: &Path,
    server: Ipv4Addr,
) -> Result<Lease, NetworkError> {
    let file = read_file("reading the pod's address", path, MAX_VIF_CACHE_BYTES).await?;
    let file = file.map_err(|source| NetworkError::ReadVifCache {
        interface: interface.to_owned(),
        path: path.to_owned(),
        source,
    })?;
    Lease::bridge(&file, server).map_err(|source| NetworkError::InvalidVifCache {
        interface: interface.to_owned(),
        path: path.to_owned(),
        source,
    })
}

/// The DNS servers and search domains in the pod's `resolv.conf`. Content beyond the size limit is ignored.
pub(super) async fn read_dns(path: &Path) -> Result<DnsConfig, NetworkError> {
    Ok(DnsConfig::parse(
        &read_text(path, MAX_RESOLV_CONF_BYTES).await?,
    ))
}

/// The pod's host name.
pub(super) async fn read_hostname(path: &Path) -> Result<String, NetworkError> {
    Ok(read_text(path, MAX_HOSTNAME_BYTES)
        .await?
        .trim_end()
        .to_owned())
}

async fn read_text(path: &Path, limit: usize) -> Result<String, NetworkError> {
    let file = read_file("reading the source of DHCP options", path, limit).await?;
    let file = file.map_err(|source| NetworkError::ReadPodFile {
        path: path.to_owned(),
        source,
    })?;
    Ok(String::from_utf8_lossy(&file).into_owned())
}

/// The content of a file. Of a larger file one byte more than `limit` is read, so that the caller can notice this.
async fn read_file(
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
    Ok(blocking::file_call(what, READ_TIMEOUT, read).await?)
}

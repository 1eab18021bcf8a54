//! Reads the sources of the guest's DHCP configuration: virt-handler's VIF cache, and the pod's `resolv.conf` and host
//! name.

use std::fs::File;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use domain::pod_network_and_dhcp::{DnsConfig, Lease, MAX_RESOLV_CONF_BYTES, MAX_VIF_CACHE_BYTES};

use super::NetworkError;
use crate::blocking;

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

//! Reads virt-handler's `vif-cache-*.json` of the bridge binding: the pod's address, which the guest takes over.

use core::net::Ipv4Addr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ipnet::Ipv4Net;
use serde::Deserialize;

use crate::pod_network_and_dhcp::dhcp_lease::{Lease, Lease4, Route};
use crate::pod_network_and_dhcp::mac_address::Mac;

/// The maximum size of the file in bytes. A thousand routes need 600 KB.
pub const MAX_VIF_CACHE_BYTES: usize = 1024 * 1024;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum VifCacheError {
    /// The file exceeds [`MAX_VIF_CACHE_BYTES`].
    #[error("it has more than the {MAX_VIF_CACHE_BYTES} bytes that are read")]
    TooLarge,
    /// The file is not the JSON that virt-handler writes.
    #[error("it is not virt-handler's JSON: {0}")]
    Json(String),
    /// A field has an invalid value.
    #[error("its field {field} is {value:?}, which is not an {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// The value.
        value: String,
        /// The expected kind of value.
        expected: &'static str,
    },
}

/// The fields of KubeVirt's `DHCPConfig` that are used. Go writes addresses as text, but masks and hardware addresses
/// in base64.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct DhcpConfig {
    #[serde(rename = "IP")]
    ip: Net,
    #[serde(rename = "MAC")]
    mac: Option<String>,
    routes: Option<Vec<CachedRoute>>,
    #[serde(rename = "IPAMDisabled")]
    ipam_disabled: bool,
    gateway: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct Net {
    #[serde(rename = "IP")]
    ip: String,
    mask: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct CachedRoute {
    dst: Option<Net>,
    gw: String,
}

impl Lease {
    /// Parses the file. `server` is the bridge's address. The lease is empty if the pod has no IPv4 address.
    ///
    /// # Errors
    /// [`VifCacheError`], without the file's name.
    pub fn bridge(file: &[u8], server: Ipv4Addr) -> Result<Lease, VifCacheError> {
        if file.len() > MAX_VIF_CACHE_BYTES {
            return Err(VifCacheError::TooLarge);
        }
        let config: DhcpConfig =
            serde_json::from_slice(file).map_err(|error| VifCacheError::Json(error.to_string()))?;
        if config.ipam_disabled || config.ip.ip.is_empty() {
            return Ok(Lease::default());
        }
        Ok(Lease {
            v4: Some(Lease4 {
                client: config.mac.as_deref().map(parse_mac).transpose()?,
                address: parse_net("IP", &config.ip)?,
                server,
                router: parse_address("Gateway", &config.gateway)?,
                routes: parse_routes(&config.routes.unwrap_or_default())?,
            }),
            v6: None,
        })
    }
}

fn parse_mac(text: &str) -> Result<Mac, VifCacheError> {
    let bytes = STANDARD.decode(text).ok();
    let mac = bytes.and_then(|bytes| bytes.try_into().ok()).map(Mac);
    mac.ok_or_else(|| field_error("MAC", text, "Ethernet address in base64"))
}

fn parse_net(field: &'static str, net: &Net) -> Result<Ipv4Net, VifCacheError> {
    let mask = net.mask.as_deref().unwrap_or_default();
    let bytes: Option<[u8; 4]> = STANDARD
        .decode(mask)
        .ok()
        .and_then(|bytes| bytes.try_into().ok());
    let ip_and_mask = bytes.zip(parse_ipv4(&net.ip));
    let parsed = ip_and_mask.and_then(|(mask, ip)| Ipv4Net::with_netmask(ip, mask.into()).ok());
    parsed.ok_or_else(|| {
        field_error(
            field,
            &format!("{} {mask}", net.ip),
            "IPv4 address with a mask in base64",
        )
    })
}

/// Parses an address. Go writes an empty string for no address.
fn parse_address(field: &'static str, text: &str) -> Result<Option<Ipv4Addr>, VifCacheError> {
    if text.is_empty() {
        return Ok(None);
    }
    let address = parse_ipv4(text).ok_or_else(|| field_error(field, text, "IPv4 address"))?;
    Ok(Some(address).filter(|address| !address.is_unspecified()))
}

/// Parses an IPv4 address, also in the notation of an IPv4-mapped IPv6 address.
fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    text.strip_prefix("::ffff:").unwrap_or(text).parse().ok()
}

/// The routes, with default routes at the end.
fn parse_routes(cached: &[CachedRoute]) -> Result<Vec<Route>, VifCacheError> {
    let route = |cached: &CachedRoute| {
        let destination = cached.dst.as_ref().map(|dst| parse_net("Routes.Dst", dst));
        Ok(Route {
            destination: destination.transpose()?.unwrap_or_default(),
            gateway: parse_address("Routes.Gw", &cached.gw)?.unwrap_or(Ipv4Addr::UNSPECIFIED),
        })
    };
    let mut routes = cached.iter().map(route).collect::<Result<Vec<_>, _>>()?;
    routes.sort_by_key(|route| route.destination.prefix_len() == 0);
    Ok(routes)
}

fn field_error(field: &'static str, value: &str, expected: &'static str) -> VifCacheError {
    VifCacheError::Field {
        field,
        value: value.to_owned(),
        expected,
    }
}

#[cfg(test)]
mod tests;

//! DHCP options from the VMI (`dhcpOptions`).

use core::net::Ipv4Addr;
use core::ops::RangeInclusive;

use kubevirt_api::vmi;

use crate::pod_network_and_dhcp::error::PodNetworkError;

/// The codes for private use (RFC 3942).
const PRIVATE: RangeInclusive<u64> = 224..=254;

/// Valid `dhcpOptions` of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DhcpOptions {
    /// Option 67.
    pub boot_file_name: String,
    /// Option 66.
    pub tftp_server_name: String,
    /// Option 42.
    pub ntp_servers: Vec<Ipv4Addr>,
    /// Options of private codes.
    pub private: Vec<(u8, String)>,
}

impl DhcpOptions {
    pub(super) fn of(interface: &str, options: &vmi::DhcpOptions) -> Result<Self, PodNetworkError> {
        let refuse = |field, value: String, allowed| PodNetworkError::Field {
            interface: interface.to_owned(),
            field,
            value,
            allowed,
        };
        let ntp_server = |server: &String| {
            let refused = || refuse("dhcpOptions.ntpServers", server.clone(), "IPv4 addresses");
            server.parse().map_err(|_| refused())
        };
        let private = |option: &vmi::DhcpPrivateOption| {
            let refused = || {
                refuse(
                    "dhcpOptions.privateOptions.option",
                    option.option.to_string(),
                    "224 to 254",
                )
            };
            let code = u8::try_from(option.option)
                .ok()
                .filter(|_| PRIVATE.contains(&option.option));
            Ok((code.ok_or_else(refused)?, option.value.clone()))
        };
        Ok(Self {
            boot_file_name: options.boot_file_name.clone(),
            tftp_server_name: options.tftp_server_name.clone(),
            ntp_servers: options
                .ntp_servers
                .iter()
                .map(ntp_server)
                .collect::<Result<_, _>>()?,
            private: options
                .private_options
                .iter()
                .map(private)
                .collect::<Result<_, _>>()?,
        })
    }
}

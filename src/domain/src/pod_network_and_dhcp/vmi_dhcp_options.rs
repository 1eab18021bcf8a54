//! Validates the DHCP options in the VMI (`dhcpOptions`).

use core::net::Ipv4Addr;
use core::ops::RangeInclusive;

use kubevirt_api::vmi;

use crate::pod_network_and_dhcp::error::PodNetworkError;

/// The codes for private use (RFC 3942).
const PRIVATE_CODES: RangeInclusive<u64> = 224..=254;

/// The validated `dhcpOptions` of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DhcpOptions {
    /// Boot file name (option 67).
    pub boot_file_name: String,
    /// TFTP server name (option 66).
    pub tftp_server_name: String,
    /// NTP servers (option 42).
    pub ntp_servers: Vec<Ipv4Addr>,
    /// Options with codes for private use.
    pub private: Vec<(u8, String)>,
}

impl DhcpOptions {
    pub(super) fn from_vmi(
        interface: &str,
        options: &vmi::DhcpOptions,
    ) -> Result<Self, PodNetworkError> {
        let field_error = |field, value: String, allowed| PodNetworkError::Field {
            interface: interface.to_owned(),
            field,
            value,
            allowed,
        };
        let ntp_server = |server: &String| {
            let invalid =
                || field_error("dhcpOptions.ntpServers", server.clone(), "IPv4 addresses");
            server.parse().map_err(|_| invalid())
        };
        let private_option = |option: &vmi::DhcpPrivateOption| {
            let invalid = || {
                field_error(
                    "dhcpOptions.privateOptions.option",
                    option.option.to_string(),
                    "224 to 254",
                )
            };
            let code = u8::try_from(option.option)
                .ok()
                .filter(|_| PRIVATE_CODES.contains(&option.option));
            Ok((code.ok_or_else(invalid)?, option.value.clone()))
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
                .map(private_option)
                .collect::<Result<_, _>>()?,
        })
    }
}

//! The answers that the polls ask for. Field names are those of QEMU's `qga/qapi-schema.json`.

use kubevirt_api::domain_json::{GuestOsInfo, InterfaceStatus};
use serde::Deserialize;

use super::bounded_values::{List, Text, Whole};
use super::{AnswerError, decode};
use crate::agent::guest_info::{
    AgentCommand, AgentVersion, Filesystem, FilesystemDisk, FreezeStatus, Timezone, User,
};
use crate::stats::Load;

/// Names, versions, serial numbers.
type Name = Text<256>;
/// Paths.
type Path = Text<4096>;

const MOST_COMMANDS: usize = 512;
const MOST_INTERFACES: usize = 128;
const MOST_ADDRESSES: usize = 64;
const MOST_USERS: usize = 512;
const MOST_FILESYSTEMS: usize = 512;
const MOST_DISKS: usize = 32;

/// The name of the loopback interface, which KubeVirt leaves out.
const LOOPBACK: &str = "lo";

#[derive(Deserialize)]
struct Info {
    version: Name,
    #[serde(default)]
    supported_commands: List<Command, MOST_COMMANDS>,
}

#[derive(Deserialize)]
struct Command {
    name: Name,
    #[serde(default)]
    enabled: bool,
}

/// Of `guest-info`.
pub(crate) fn agent_version(answer: &str) -> Result<AgentVersion, AnswerError> {
    let info: Info = decode(answer)?;
    let command = |command: Command| AgentCommand {
        name: command.name.0,
        enabled: command.enabled,
    };
    Ok(AgentVersion {
        version: info.version.0,
        commands: info.supported_commands.0.into_iter().map(command).collect(),
    })
}

/// Of `guest-fsfreeze-status`.
pub(crate) fn freeze_status(answer: &str) -> Result<FreezeStatus, AnswerError> {
    let status: Name = decode(answer)?;
    match status.0.as_str() {
        "thawed" => Ok(FreezeStatus::Thawed),
        "frozen" => Ok(FreezeStatus::Frozen),
        other => Err(AnswerError::content(&format!(
            "freeze status {other:?} is neither thawed nor frozen"
        ))),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Interface {
    name: Name,
    #[serde(default)]
    hardware_address: Name,
    #[serde(default)]
    ip_addresses: List<Address, MOST_ADDRESSES>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Address {
    ip_address: Name,
    #[serde(default)]
    ip_address_type: Name,
}

/// Of `guest-network-get-interfaces`. As in libvirt, an alias (`eth0:1`) belongs to its interface.
pub(crate) fn interfaces(answer: &str) -> Result<Vec<InterfaceStatus>, AnswerError> {
    let list: List<Interface, MOST_INTERFACES> = decode(answer)?;
    let mut interfaces: Vec<(InterfaceStatus, bool)> = Vec::new();
    for Interface {
        name: Text(name),
        hardware_address: Text(mac),
        ip_addresses: List(addresses),
    } in list.0
    {
        let name = name.split(':').next().unwrap_or_default();
        if name == LOOPBACK {
            continue;
        }
        let known = interfaces
            .iter()
            .position(|(one, _)| one.interface_name == name);
        let index = known.unwrap_or_else(|| {
            let interface = InterfaceStatus {
                mac,
                interface_name: name.to_owned(),
                ..InterfaceStatus::default()
            };
            interfaces.push((interface, false));
            interfaces.len() - 1
        });
        if let Some((interface, has_ipv4)) = interfaces.get_mut(index) {
            add_addresses(interface, has_ipv4, addresses);
        }
    }
    Ok(interfaces.into_iter().map(|(one, _)| one).collect())
}

/// The first IPv4 address is the interface's own, else its first address.
fn add_addresses(interface: &mut InterfaceStatus, has_ipv4: &mut bool, addresses: Vec<Address>) {
    for address in addresses {
        if interface.ips.len() == MOST_ADDRESSES {
            return;
        }
        let Text(ip) = address.ip_address;
        let is_ipv4 = address.ip_address_type.0 == "ipv4";
        if interface.ips.is_empty() || (is_ipv4 && !*has_ipv4) {
            interface.ip.clone_from(&ip);
            *has_ipv4 |= is_ipv4;
        }
        interface.ips.push(ip);
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[derive(Default)]
struct OsInfo {
    name: Name,
    kernel_release: Name,
    version: Name,
    pretty_name: Name,
    version_id: Name,
    kernel_version: Name,
    machine: Name,
    id: Name,
}

/// Of `guest-get-osinfo`.
pub(crate) fn os_info(answer: &str) -> Result<GuestOsInfo, AnswerError> {
    let info: OsInfo = decode(answer)?;
    Ok(GuestOsInfo {
        name: info.name.0,
        kernel_release: info.kernel_release.0,
        version: info.version.0,
        pretty_name: info.pretty_name.0,
        version_id: info.version_id.0,
        kernel_version: info.kernel_version.0,
        machine: info.machine.0,
        id: info.id.0,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct HostName {
    host_name: Name,
}

/// Of `guest-get-host-name`.
pub(crate) fn hostname(answer: &str) -> Result<String, AnswerError> {
    Ok(decode::<HostName>(answer)?.host_name.0)
}

#[derive(Deserialize)]
struct Zone {
    #[serde(default)]
    zone: Name,
    #[serde(default)]
    offset: Whole,
}

/// Of `guest-get-timezone`.
pub(crate) fn timezone(answer: &str) -> Result<Timezone, AnswerError> {
    let Zone { zone, offset } = decode(answer)?;
    Ok(Timezone {
        zone: zone.0,
        offset: i32::try_from(offset.0).unwrap_or(0),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct LoggedIn {
    user: Name,
    #[serde(default)]
    domain: Name,
    #[serde(default)]
    login_time: f64,
}

/// Of `guest-get-users`.
pub(crate) fn users(answer: &str) -> Result<Vec<User>, AnswerError> {
    let list: List<LoggedIn, MOST_USERS> = decode(answer)?;
    let user = |logged_in: LoggedIn| User {
        name: logged_in.user.0,
        domain: logged_in.domain.0,
        login_time: milliseconds(logged_in.login_time),
    };
    Ok(list.0.into_iter().map(user).collect())
}

/// Seconds to the millisecond, as libvirt hands them on; a time before the epoch counts as none.
fn milliseconds(seconds: f64) -> f64 {
    let exact = (seconds * 1000.0).floor() / 1000.0;
    if exact.is_finite() {
        exact.max(0.0)
    } else {
        0.0
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct FilesystemAnswer {
    name: Name,
    #[serde(default)]
    mountpoint: Path,
    #[serde(default, rename = "type")]
    kind: Name,
    #[serde(default)]
    used_bytes: Whole,
    #[serde(default)]
    total_bytes: Whole,
    #[serde(default)]
    disk: List<Disk, MOST_DISKS>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Disk {
    #[serde(default)]
    serial: Name,
    #[serde(default)]
    bus_type: Name,
}

/// Of `guest-get-fsinfo`.
pub(crate) fn filesystems(answer: &str) -> Result<Vec<Filesystem>, AnswerError> {
    let list: List<FilesystemAnswer, MOST_FILESYSTEMS> = decode(answer)?;
    let disk = |disk: Disk| FilesystemDisk {
        serial: disk.serial.0,
        bus: disk.bus_type.0,
    };
    let filesystem = |mounted: FilesystemAnswer| Filesystem {
        disk_name: mounted.name.0,
        mount_point: mounted.mountpoint.0,
        kind: mounted.kind.0,
        used_bytes: mounted.used_bytes.0,
        total_bytes: mounted.total_bytes.0,
        disks: mounted.disk.0.into_iter().map(disk).collect(),
    };
    Ok(list.0.into_iter().map(filesystem).collect())
}

#[derive(Deserialize)]
struct LoadAverages {
    #[serde(rename = "load1m")]
    one: Option<f64>,
    #[serde(rename = "load5m")]
    five: Option<f64>,
    #[serde(rename = "load15m")]
    fifteen: Option<f64>,
}

/// Of `guest-get-load`.
pub(crate) fn load(answer: &str) -> Result<Load, AnswerError> {
    let LoadAverages { one, five, fifteen } = decode(answer)?;
    Ok(Load { one, five, fifteen })
}

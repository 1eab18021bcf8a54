//! Decodes the answers to the polled commands. Field names are those of QEMU's `qga/qapi-schema.json`.

use kubevirt_api::domain_json::GuestOsInfo;
use serde::Deserialize;

use super::bounded_values::{Integer, List, Text};
use super::{AnswerError, decode};
use crate::domain_stats_json::Load;
use crate::guest_agent::guest_info_cache::{
    AgentCommand, AgentVersion, Filesystem, FilesystemDisk, FreezeStatus, Timezone, User,
};

/// A name, version or serial number.
pub(super) type Name = Text<256>;
/// A path in the guest.
type Path = Text<4096>;

const MAX_COMMANDS: usize = 512;
const MAX_USERS: usize = 512;
const MAX_FILESYSTEMS: usize = 512;
const MAX_DISKS: usize = 32;

#[derive(Deserialize)]
struct Info {
    version: Name,
    #[serde(default)]
    supported_commands: List<Command, MAX_COMMANDS>,
}

#[derive(Deserialize)]
struct Command {
    name: Name,
    #[serde(default)]
    enabled: bool,
}

/// Decodes the answer to `guest-info`.
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

/// Decodes the answer to `guest-fsfreeze-status`.
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

/// Decodes the answer to `guest-get-osinfo`.
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

/// Decodes the answer to `guest-get-host-name`.
pub(crate) fn hostname(answer: &str) -> Result<String, AnswerError> {
    Ok(decode::<HostName>(answer)?.host_name.0)
}

#[derive(Deserialize)]
struct Zone {
    #[serde(default)]
    zone: Name,
    #[serde(default)]
    offset: Integer,
}

/// Decodes the answer to `guest-get-timezone`.
pub(crate) fn timezone(answer: &str) -> Result<Timezone, AnswerError> {
    let Zone { zone, offset } = decode(answer)?;
    Ok(Timezone {
        zone: zone.0,
        offset: i32::try_from(offset.0).unwrap_or(0),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct LoggedInUser {
    user: Name,
    #[serde(default)]
    domain: Name,
    #[serde(default)]
    login_time: f64,
}

/// Decodes the answer to `guest-get-users`.
pub(crate) fn users(answer: &str) -> Result<Vec<User>, AnswerError> {
    let list: List<LoggedInUser, MAX_USERS> = decode(answer)?;
    let user = |logged_in: LoggedInUser| User {
        name: logged_in.user.0,
        domain: logged_in.domain.0,
        login_time: round_to_milliseconds(logged_in.login_time),
    };
    Ok(list.0.into_iter().map(user).collect())
}

/// Rounds seconds down to milliseconds, as libvirt does. A time before the epoch becomes 0.
fn round_to_milliseconds(seconds: f64) -> f64 {
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
    used_bytes: Integer,
    #[serde(default)]
    total_bytes: Integer,
    #[serde(default)]
    disk: List<Disk, MAX_DISKS>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Disk {
    #[serde(default)]
    serial: Name,
    #[serde(default)]
    bus_type: Name,
}

/// Decodes the answer to `guest-get-fsinfo`.
pub(crate) fn filesystems(answer: &str) -> Result<Vec<Filesystem>, AnswerError> {
    let list: List<FilesystemAnswer, MAX_FILESYSTEMS> = decode(answer)?;
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

/// Decodes the answer to `guest-get-load`.
pub(crate) fn load(answer: &str) -> Result<Load, AnswerError> {
    let LoadAverages { one, five, fifteen } = decode(answer)?;
    Ok(Load { one, five, fifteen })
}

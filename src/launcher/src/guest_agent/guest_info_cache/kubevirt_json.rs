//! Renders the cached guest information as KubeVirt's JSON (`core/v1` types), for GetGuestInfo, GetUsers and
//! GetFilesystems.

use kubevirt_api::domain_json::GuestOsInfo;
use serde::{Serialize, Serializer};

use super::{AgentCommand, Filesystem, FreezeStatus, GuestInfo, GuestInfoCache, Timezone, User};

/// Maximum number of users and of file systems that GetGuestInfo lists.
const MAX_LISTED: usize = 10;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GuestAgentInfo<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    guest_agent_version: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    supported_commands: Vec<Command<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    hostname: &'a str,
    os: OsInfo<'a>,
    timezone: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    user_list: Vec<OsUser<'a>>,
    fs_info: FsInfo<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    fs_freeze_status: &'a str,
}

#[derive(Serialize)]
struct Command<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "is_false")]
    enabled: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OsInfo<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kernel_release: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pretty_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kernel_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    machine: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OsUser<'a> {
    user_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    domain: &'a str,
    #[serde(skip_serializing_if = "is_zero", serialize_with = "go_float")]
    login_time: f64,
}

/// The file systems; `disks` is `null` for an empty list.
#[derive(Serialize)]
struct FsInfo<'a> {
    disks: Option<Vec<Fs<'a>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fs<'a> {
    disk_name: &'a str,
    mount_point: &'a str,
    file_system_type: &'a str,
    used_bytes: i64,
    total_bytes: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disk: Vec<FsDisk<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FsDisk<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    serial: &'a str,
    bus_type: &'a str,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(value: &bool) -> bool {
    !value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// Serializes a float as Go does: a whole number has no fraction.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn go_float<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    // 2^53: whole numbers below it are exact in both types.
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < MAX_EXACT_INTEGER {
        #[allow(clippy::cast_possible_truncation, reason = "whole and in bounds")]
        return serializer.serialize_i64(*value as i64);
    }
    serializer.serialize_f64(*value)
}

impl GuestInfoCache {
    /// GetGuestInfo's answer.
    pub(crate) fn guest_info_json(&self) -> serde_json::Result<String> {
        let info = self.lock();
        let none = GuestOsInfo::default();
        let GuestInfo {
            agent,
            freeze_status,
            interfaces: _,
            os_info,
            hostname,
            timezone: Timezone { zone, offset },
            users,
            filesystems,
            load: _,
            is_unpublished: _,
        } = &*info;
        let filesystems: Vec<_> = filesystems.iter().take(MAX_LISTED).map(fs).collect();
        serde_json::to_string(&GuestAgentInfo {
            guest_agent_version: &agent.version,
            supported_commands: agent.commands.iter().map(command).collect(),
            hostname,
            os: os(os_info.as_ref().unwrap_or(&none)),
            timezone: format!("{zone}, {offset}"),
            user_list: users.iter().take(MAX_LISTED).map(user).collect(),
            fs_info: FsInfo {
                disks: (!filesystems.is_empty()).then_some(filesystems),
            },
            fs_freeze_status: freeze_status.map(FreezeStatus::as_str).unwrap_or_default(),
        })
    }

    /// GetUsers' answer.
    pub(crate) fn users_json(&self) -> serde_json::Result<String> {
        let info = self.lock();
        serde_json::to_string(&info.users.iter().map(user).collect::<Vec<_>>())
    }

    /// GetFilesystems' answer.
    pub(crate) fn filesystems_json(&self) -> serde_json::Result<String> {
        let info = self.lock();
        serde_json::to_string(&info.filesystems.iter().map(fs).collect::<Vec<_>>())
    }
}

fn command(command: &AgentCommand) -> Command<'_> {
    Command {
        name: &command.name,
        enabled: command.enabled,
    }
}

fn os(info: &GuestOsInfo) -> OsInfo<'_> {
    let GuestOsInfo {
        name,
        kernel_release,
        version,
        pretty_name,
        version_id,
        kernel_version,
        machine,
        id,
    } = info;
    OsInfo {
        name,
        kernel_release,
        version,
        pretty_name,
        version_id,
        kernel_version,
        machine,
        id,
    }
}

fn user(user: &User) -> OsUser<'_> {
    OsUser {
        user_name: &user.name,
        domain: &user.domain,
        login_time: user.login_time,
    }
}

fn fs(filesystem: &Filesystem) -> Fs<'_> {
    Fs {
        disk_name: &filesystem.disk_name,
        mount_point: &filesystem.mount_point,
        file_system_type: &filesystem.kind,
        used_bytes: filesystem.used_bytes,
        total_bytes: filesystem.total_bytes,
        disk: filesystem
            .disks
            .iter()
            .map(|disk| FsDisk {
                serial: &disk.serial,
                bus_type: &disk.bus,
            })
            .collect(),
    }
}

//! Caches the guest agent's latest answers, for queries, statistics and notifications.
//!
//! A failed poll or a disconnected agent does not clear the cache, as in KubeVirt. Queries read only this cache, so
//! that more clients do not cause more commands to the agent.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kubevirt_api::domain_json::{DomainStatus, FsFreeze, GuestOsInfo, InterfaceStatus};
use serde::{Serialize, Serializer};
use tokio::sync::watch;

use crate::domain_stats_json::Load;
use crate::vm_events::{VmEvent, VmEventSender};

#[derive(Debug, Clone, Default)]
struct GuestInfo {
    agent: AgentVersion,
    freeze_status: Option<FreezeStatus>,
    interfaces: Option<Vec<InterfaceStatus>>,
    os_info: Option<GuestOsInfo>,
    hostname: String,
    timezone: Timezone,
    users: Vec<User>,
    filesystems: Vec<Filesystem>,
    load: Load,
    /// Whether a change has not been part of a notification yet.
    is_unpublished: bool,
}

impl GuestInfo {
    fn add_to(&self, status: &mut DomainStatus) {
        status.interfaces = self.interfaces.clone().unwrap_or_default();
        status.os_info = self.os_info.clone().unwrap_or_default();
    }

    /// Stores a fact; true if the fact is part of notifications and has changed.
    fn update(&mut self, fact: AgentFact) -> bool {
        match fact {
            AgentFact::FreezeStatus(status) => replace(&mut self.freeze_status, status),
            AgentFact::Interfaces(interfaces) => replace(&mut self.interfaces, interfaces),
            AgentFact::OsInfo(os_info) => replace(&mut self.os_info, os_info),
            AgentFact::Agent(agent) => {
                self.agent = agent;
                false
            }
            AgentFact::Hostname(hostname) => {
                self.hostname = hostname;
                false
            }
            AgentFact::Timezone(timezone) => {
                self.timezone = timezone;
                false
            }
            AgentFact::Users(users) => {
                self.users = users;
                false
            }
            AgentFact::Filesystems(filesystems) => {
                self.filesystems = filesystems;
                false
            }
            AgentFact::Load(load) => {
                self.load = load;
                false
            }
        }
    }
}

/// Stores `value`; true if it differs from the stored one.
fn replace<T: PartialEq>(stored: &mut Option<T>, value: T) -> bool {
    let is_changed = stored.as_ref() != Some(&value);
    *stored = Some(value);
    is_changed
}

/// The cache. It sends an event to the observer when a value that is part of notifications changes.
pub struct GuestInfoCache {
    info: Mutex<GuestInfo>,
    frozen: watch::Sender<bool>,
    events: VmEventSender,
}

impl GuestInfoCache {
    /// An empty cache, which sends its events to `events`.
    pub fn new(events: VmEventSender) -> GuestInfoCache {
        GuestInfoCache {
            info: Mutex::default(),
            frozen: watch::Sender::new(false),
            events,
        }
    }

    /// Stores facts, and sends at most one event.
    pub(crate) fn update(&self, facts: Vec<AgentFact>) {
        let mut info = self.lock();
        let mut is_changed = false;
        for fact in facts {
            is_changed |= info.update(fact);
        }
        let frozen = info.freeze_status == Some(FreezeStatus::Frozen);
        info.is_unpublished |= is_changed;
        drop(info);
        self.frozen
            .send_if_modified(|known| std::mem::replace(known, frozen) != frozen);
        if is_changed {
            // Fails only when the observer has ended.
            let _ = self.events.send(VmEvent::GuestInfo);
        }
    }

    /// A receiver that changes with whether the guest's file systems are frozen.
    pub(crate) fn frozen(&self) -> watch::Receiver<bool> {
        self.frozen.subscribe()
    }

    /// The agent's version; empty until the agent has reported it.
    pub(crate) fn agent_version(&self) -> String {
        self.lock().agent.version.clone()
    }

    /// The guest's load averages.
    pub(crate) fn load(&self) -> Load {
        self.lock().load
    }

    /// Whether a change has not been part of a notification yet. The event of a change may be obsolete: a notification
    /// that was sent for another reason contains the change too.
    pub(crate) fn is_unpublished(&self) -> bool {
        self.lock().is_unpublished
    }

    /// Adds the cached information to the status in a notification.
    pub(crate) fn add_to_notification(&self, status: &mut DomainStatus) {
        let mut info = self.lock();
        info.is_unpublished = false;
        info.add_to(status);
        let frozen = info.freeze_status.map(FreezeStatus::as_str);
        status.fs_freeze_status = FsFreeze {
            status: frozen.unwrap_or_default().into(),
        };
    }

    /// Adds the cached information to the status in GetDomain's answer, which has no freeze status in KubeVirt.
    pub(crate) fn add_to_domain(&self, status: &mut DomainStatus) {
        self.lock().add_to(status);
    }

    fn lock(&self) -> MutexGuard<'_, GuestInfo> {
        self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the guest's file systems are frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FreezeStatus {
    /// The file systems can be written to.
    Thawed,
    /// The file systems are frozen: writes wait for the thaw.
    Frozen,
}

impl FreezeStatus {
    /// The status as the agent and KubeVirt write it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            FreezeStatus::Thawed => "thawed",
            FreezeStatus::Frozen => "frozen",
        }
    }
}

/// The agent's version and commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AgentVersion {
    /// The version, such as `7.2.22`.
    pub(crate) version: String,
    /// The commands that the agent supports, in its order.
    pub(crate) commands: Vec<AgentCommand>,
}

/// A command that the agent supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentCommand {
    /// The name, such as `guest-ping`.
    pub(crate) name: String,
    /// Whether the command is enabled.
    pub(crate) enabled: bool,
}

/// The guest's time zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Timezone {
    /// The name of the time zone, such as `UTC`.
    pub(crate) zone: String,
    /// The offset from UTC in seconds, positive in the east.
    pub(crate) offset: i32,
}

/// A user who is logged in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct User {
    /// The user's name.
    pub(crate) name: String,
    /// The domain of the account, on Windows.
    pub(crate) domain: String,
    /// When the user logged in, in seconds since the Unix epoch, with a precision of milliseconds.
    pub(crate) login_time: f64,
}

/// A mounted file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filesystem {
    /// Name of the device in the guest, such as `vda1`.
    pub(crate) disk_name: String,
    /// Mount point.
    pub(crate) mount_point: String,
    /// Type, such as `ext4`.
    pub(crate) kind: String,
    /// Used space in bytes.
    pub(crate) used_bytes: i64,
    /// Size in bytes.
    pub(crate) total_bytes: i64,
    /// The disks that hold the file system.
    pub(crate) disks: Vec<FilesystemDisk>,
}

/// A disk that holds a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilesystemDisk {
    /// Serial number; may be empty.
    pub(crate) serial: String,
    /// Bus, such as `virtio`.
    pub(crate) bus: String,
}

/// The information in one answer of the agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AgentFact {
    /// The agent's version and commands.
    Agent(AgentVersion),
    /// Whether file systems are frozen.
    FreezeStatus(FreezeStatus),
    /// Network interfaces without the loopback interface.
    Interfaces(Vec<InterfaceStatus>),
    /// The operating system.
    OsInfo(GuestOsInfo),
    /// Host name.
    Hostname(String),
    /// Time zone.
    Timezone(Timezone),
    /// Users who are logged in.
    Users(Vec<User>),
    /// Mounted file systems.
    Filesystems(Vec<Filesystem>),
    /// Load averages.
    Load(Load),
}

// Renders the cached guest information as KubeVirt's JSON (`core/v1` types), for GetGuestInfo, GetUsers and
// GetFilesystems.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm_events::{VmEventReceiver, vm_event_queue};

    fn cache() -> (GuestInfoCache, VmEventReceiver) {
        let (events, received) = vm_event_queue();
        (GuestInfoCache::new(events), received)
    }

    fn eth0(ip: &str) -> AgentFact {
        AgentFact::Interfaces(vec![InterfaceStatus {
            mac: "02:00:00:00:00:01".into(),
            ip: ip.into(),
            ips: vec![ip.into()],
            interface_name: "eth0".into(),
        }])
    }

    #[test]
    fn only_a_changed_value_in_notifications_sends_an_event() {
        let (cache, mut events) = cache();
        cache.update(vec![
            AgentFact::Hostname("guest".into()),
            AgentFact::Users(vec![]),
        ]);
        assert!(
            events.try_recv().is_none(),
            "notifications have no host name"
        );
        cache.update(vec![
            eth0("10.0.0.1"),
            AgentFact::OsInfo(GuestOsInfo::default()),
        ]);
        assert_eq!(events.try_recv(), Some(VmEvent::GuestInfo));
        assert!(events.try_recv().is_none(), "one event for all changes");
        cache.update(vec![
            eth0("10.0.0.1"),
            AgentFact::OsInfo(GuestOsInfo::default()),
        ]);
        assert!(events.try_recv().is_none());
        cache.update(vec![eth0("10.0.0.2")]);
        assert_eq!(events.try_recv(), Some(VmEvent::GuestInfo));
    }

    #[test]
    fn getdomain_lacks_the_freeze_status() {
        let (cache, _events) = cache();
        cache.update(vec![
            AgentFact::FreezeStatus(FreezeStatus::Frozen),
            eth0("::1"),
        ]);
        assert!(*cache.frozen().borrow());
        assert!(cache.is_unpublished());
        let (mut notified, mut answered) = (DomainStatus::default(), DomainStatus::default());
        cache.add_to_notification(&mut notified);
        cache.add_to_domain(&mut answered);
        assert!(!cache.is_unpublished());
        assert_eq!(notified.fs_freeze_status.status, "frozen");
        assert_eq!(answered.fs_freeze_status.status, "");
        assert_eq!(notified.interfaces, answered.interfaces);
    }
}

//! What the guest agent reported, as it was last heard: for queries, statistics and notifications.
//!
//! A failed poll and a disconnected agent clear nothing, as in KubeVirt. Queries read only this cache, so that any
//! number of clients causes no further command to the agent.

mod json;

use std::sync::{Mutex, MutexGuard, PoisonError};

use kubevirt_api::domain_json::{DomainStatus, FsFreeze, GuestOsInfo, InterfaceStatus};
use tokio::sync::{mpsc, watch};

use crate::stats::Load;
use crate::vm_events::VmEvent;

/// Whether the guest's file systems are frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FreezeStatus {
    /// They can be written to.
    Thawed,
    /// Writes wait for the thaw.
    Frozen,
}

impl FreezeStatus {
    /// The agent's and KubeVirt's word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            FreezeStatus::Thawed => "thawed",
            FreezeStatus::Frozen => "frozen",
        }
    }
}

/// The agent itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AgentVersion {
    /// Like `7.2.22`.
    pub(crate) version: String,
    /// The commands that it knows, in its order.
    pub(crate) commands: Vec<AgentCommand>,
}

/// A command that the agent knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentCommand {
    /// Like `guest-ping`.
    pub(crate) name: String,
    /// Whether it may be used.
    pub(crate) enabled: bool,
}

/// The guest's time zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Timezone {
    /// Its name, like `UTC`.
    pub(crate) zone: String,
    /// Seconds east of UTC.
    pub(crate) offset: i32,
}

/// A user who is logged in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct User {
    /// Name.
    pub(crate) name: String,
    /// Domain of the account, on Windows.
    pub(crate) domain: String,
    /// Seconds since the Unix epoch, to the millisecond.
    pub(crate) login_time: f64,
}

/// A mounted file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filesystem {
    /// Name of the device in the guest, like `vda1`.
    pub(crate) disk_name: String,
    /// Mount point.
    pub(crate) mount_point: String,
    /// Type, like `ext4`.
    pub(crate) kind: String,
    /// Bytes in use.
    pub(crate) used_bytes: i64,
    /// Bytes in all.
    pub(crate) total_bytes: i64,
    /// The disks below it.
    pub(crate) disks: Vec<FilesystemDisk>,
}

/// A disk below a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilesystemDisk {
    /// Serial number; may be empty.
    pub(crate) serial: String,
    /// Bus, like `virtio`.
    pub(crate) bus: String,
}

/// One thing that the agent reported.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fact {
    /// The agent itself.
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
    /// There is news that no notification has.
    is_unpublished: bool,
}

impl GuestInfo {
    fn add_to(&self, status: &mut DomainStatus) {
        status.interfaces = self.interfaces.clone().unwrap_or_default();
        status.os_info = self.os_info.clone().unwrap_or_default();
    }

    /// Takes a fact over; true if notifications contain it and it is new.
    fn update(&mut self, fact: Fact) -> bool {
        match fact {
            Fact::FreezeStatus(status) => replace(&mut self.freeze_status, status),
            Fact::Interfaces(interfaces) => replace(&mut self.interfaces, interfaces),
            Fact::OsInfo(os_info) => replace(&mut self.os_info, os_info),
            Fact::Agent(agent) => {
                self.agent = agent;
                false
            }
            Fact::Hostname(hostname) => {
                self.hostname = hostname;
                false
            }
            Fact::Timezone(timezone) => {
                self.timezone = timezone;
                false
            }
            Fact::Users(users) => {
                self.users = users;
                false
            }
            Fact::Filesystems(filesystems) => {
                self.filesystems = filesystems;
                false
            }
            Fact::Load(load) => {
                self.load = load;
                false
            }
        }
    }
}

fn replace<T: PartialEq>(known: &mut Option<T>, heard: T) -> bool {
    let is_new = known.as_ref() != Some(&heard);
    *known = Some(heard);
    is_new
}

/// The cache; changes that notifications contain are sent to the observer.
pub struct GuestInfoCache {
    info: Mutex<GuestInfo>,
    frozen: watch::Sender<bool>,
    events: mpsc::UnboundedSender<VmEvent>,
}

impl GuestInfoCache {
    /// Nothing is known of the guest yet.
    pub fn new(events: mpsc::UnboundedSender<VmEvent>) -> GuestInfoCache {
        GuestInfoCache {
            info: Mutex::default(),
            frozen: watch::Sender::new(false),
            events,
        }
    }

    /// Takes over what was heard at once; at most one notification follows.
    pub(crate) fn update(&self, facts: Vec<Fact>) {
        let mut info = self.lock();
        let mut is_news = false;
        for fact in facts {
            is_news |= info.update(fact);
        }
        let frozen = info.freeze_status == Some(FreezeStatus::Frozen);
        info.is_unpublished |= is_news;
        drop(info);
        self.frozen
            .send_if_modified(|known| std::mem::replace(known, frozen) != frozen);
        if is_news {
            // Fails only when the observer is gone.
            let _ = self.events.send(VmEvent::GuestInfo);
        }
    }

    /// Whether the guest's file systems are frozen, as it changes.
    pub(crate) fn frozen(&self) -> watch::Receiver<bool> {
        self.frozen.subscribe()
    }

    /// The agent's version; empty before it was heard.
    pub(crate) fn agent_version(&self) -> String {
        self.lock().agent.version.clone()
    }

    /// The guest's load averages.
    pub(crate) fn load(&self) -> Load {
        self.lock().load
    }

    /// Whether there is news that no notification has. A notification for another reason may have had it.
    pub(crate) fn is_unpublished(&self) -> bool {
        self.lock().is_unpublished
    }

    /// Completes the status of a notification.
    pub(crate) fn add_to_notification(&self, status: &mut DomainStatus) {
        let mut info = self.lock();
        info.is_unpublished = false;
        info.add_to(status);
        let frozen = info.freeze_status.map(FreezeStatus::as_str);
        status.fs_freeze_status = FsFreeze {
            status: frozen.unwrap_or_default().into(),
        };
    }

    /// Completes the status in GetDomain's answer, which lacks the freeze status in KubeVirt.
    pub(crate) fn add_to_domain(&self, status: &mut DomainStatus) {
        self.lock().add_to(status);
    }

    fn lock(&self) -> MutexGuard<'_, GuestInfo> {
        self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (GuestInfoCache, mpsc::UnboundedReceiver<VmEvent>) {
        let (events, received) = mpsc::unbounded_channel();
        (GuestInfoCache::new(events), received)
    }

    fn eth0(ip: &str) -> Fact {
        Fact::Interfaces(vec![InterfaceStatus {
            mac: "02:00:00:00:00:01".into(),
            ip: ip.into(),
            ips: vec![ip.into()],
            interface_name: "eth0".into(),
        }])
    }

    #[test]
    fn only_changes_of_what_notifications_contain_send_an_event() {
        let (cache, mut events) = cache();
        cache.update(vec![Fact::Hostname("guest".into()), Fact::Users(vec![])]);
        assert!(
            events.try_recv().is_err(),
            "notifications have no host name"
        );
        cache.update(vec![eth0("10.0.0.1"), Fact::OsInfo(GuestOsInfo::default())]);
        assert_eq!(events.try_recv().ok(), Some(VmEvent::GuestInfo));
        assert!(events.try_recv().is_err(), "one event for all that is new");
        cache.update(vec![eth0("10.0.0.1"), Fact::OsInfo(GuestOsInfo::default())]);
        assert!(events.try_recv().is_err());
        cache.update(vec![eth0("10.0.0.2")]);
        assert_eq!(events.try_recv().ok(), Some(VmEvent::GuestInfo));
    }

    #[test]
    fn getdomain_lacks_the_freeze_status() {
        let (cache, _events) = cache();
        cache.update(vec![Fact::FreezeStatus(FreezeStatus::Frozen), eth0("::1")]);
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

//! Caches the guest agent's latest answers, for queries, statistics and notifications.
//!
//! A failed poll or a disconnected agent does not clear the cache, as in KubeVirt. Queries read only this cache, so
//! that more clients do not cause more commands to the agent.

mod agent_fact;
mod kubevirt_json;

pub(crate) use agent_fact::{
    AgentCommand, AgentFact, AgentVersion, Filesystem, FilesystemDisk, FreezeStatus, Timezone, User,
};

use std::sync::{Mutex, MutexGuard, PoisonError};

use kubevirt_api::domain_json::{DomainStatus, FsFreeze, GuestOsInfo, InterfaceStatus};
use tokio::sync::watch;

use crate::domain_stats_json::Load;
use crate::vm_event_queue::VmEventSender;
use crate::vm_events::VmEvent;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm_event_queue::{VmEventReceiver, vm_event_queue};

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

//! A snapshot of the domain: its state and spec, in KubeVirt's terms.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use domain::libvirt_spec::DomainJson;
use domain::libvirt_spec::DomainSpec;
use kubevirt_api::domain_metadata::KubeVirtMetadata;
use kubevirt_api::domain_state::{LifeCycle, reason};
use libvirt::{DomainState, Reason, State, XmlKind};

use super::connection::{DomainHandleCache, Session};
use crate::blocking::NoAnswer;

/// The name of the guest agent's channel.
const GUEST_AGENT: &str = "org.qemu.guest_agent.0";

/// Whether the domain exists and is active, in libvirt's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// No domain: neither defined nor running.
    Absent,
    /// A domain without a QEMU process.
    Inactive,
    /// A domain with a QEMU process.
    Active,
}

/// The domain at one moment.
#[derive(Debug, Clone)]
pub struct DomainSnapshot {
    /// The state.
    pub status: LifeCycle,
    /// The reason of the state.
    pub reason: &'static str,
    /// The parsed XML, which snapshots share; `None` when libvirt returns no XML.
    pub spec: Option<Arc<DomainSpec>>,
}

/// The snapshot could not be taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SnapshotError {
    /// libvirt returned an error.
    #[error(transparent)]
    Libvirt(#[from] libvirt::Error),
    /// libvirt gave no answer in time.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// libvirt's XML of the domain could not be parsed.
    #[error("reading libvirt's description of domain {domain}: {message}")]
    Spec {
        /// The domain.
        domain: String,
        /// The parse error.
        message: String,
    },
}

/// Reads the domain's XML, and parses it only when it has changed.
#[derive(Default)]
pub(super) struct SpecReader(Mutex<Option<(String, Arc<DomainSpec>)>>);

impl SpecReader {
    /// The domain's spec; `None` when libvirt returns no XML. Blocking.
    pub(super) fn read(
        &self,
        handle: &DomainHandleCache,
        session: &Session,
        domain: &str,
    ) -> Result<Option<Arc<DomainSpec>>, SnapshotError> {
        match handle.read(session, domain, |domain| domain.xml(XmlKind::Active)) {
            Ok(Some(xml)) => self.parse(xml, domain).map(Some),
            Ok(None) => Ok(None),
            Err(error) if error.is_operation_invalid() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores the spec of a domain whose XML libvirt does not return yet.
    pub(super) fn expect(&self, spec: DomainSpec) {
        let mut parsed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *parsed = Some((String::new(), Arc::new(spec)));
    }

    /// The spec that was read or stored last.
    pub(super) fn last(&self) -> Option<Arc<DomainSpec>> {
        let parsed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parsed.as_ref().map(|(_, spec)| Arc::clone(spec))
    }

    fn parse(&self, xml: String, domain: &str) -> Result<Arc<DomainSpec>, SnapshotError> {
        let mut parsed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, spec)) = parsed.as_ref().filter(|(known, _)| *known == xml) {
            return Ok(Arc::clone(spec));
        }
        let spec =
            domain::domain_spec_from_xml::parse(&xml).map_err(|error| SnapshotError::Spec {
                domain: domain.to_owned(),
                message: error.to_string(),
            })?;
        let spec = Arc::new(spec);
        *parsed = Some((xml, Arc::clone(&spec)));
        Ok(spec)
    }
}

impl DomainSnapshot {
    /// The snapshot of a domain that does not exist.
    pub(super) const GONE: DomainSnapshot = DomainSnapshot {
        status: LifeCycle::NoState,
        reason: reason::NON_EXISTENT,
        spec: None,
    };

    pub(super) fn new(state: State, spec: Arc<DomainSpec>) -> DomainSnapshot {
        DomainSnapshot {
            status: life_cycle(state.state),
            reason: lifecycle_reason(state),
            spec: Some(spec),
        }
    }

    /// Whether the domain does not exist.
    pub fn is_gone(&self) -> bool {
        self.status == LifeCycle::NoState && self.reason == reason::NON_EXISTENT
    }

    /// Whether the domain exists and is active, in libvirt's terms.
    pub fn presence(&self) -> Presence {
        match self.status {
            LifeCycle::NoState if self.is_gone() => Presence::Absent,
            LifeCycle::NoState | LifeCycle::Shutoff | LifeCycle::Crashed => Presence::Inactive,
            _ => Presence::Active,
        }
    }

    /// Whether the guest agent has opened its channel.
    pub fn is_agent_connected(&self) -> bool {
        let channels = self.spec.iter().flat_map(|spec| &spec.devices.channels);
        let mut targets = channels.filter_map(|channel| channel.target.as_ref());
        targets.any(|target| target.name == GUEST_AGENT && target.state == "connected")
    }

    /// The snapshot of a domain whose QEMU process was started, and whose CPUs do not run yet.
    pub fn starting_up(spec: Arc<DomainSpec>) -> DomainSnapshot {
        DomainSnapshot {
            status: LifeCycle::Paused,
            reason: reason::STARTING_UP,
            spec: Some(spec),
        }
    }

    /// The snapshot of a domain whose QEMU process has ended.
    pub fn shut_off(spec: Arc<DomainSpec>, reason: &'static str) -> DomainSnapshot {
        DomainSnapshot {
            status: LifeCycle::Shutoff,
            reason,
            spec: Some(spec),
        }
    }

    /// Makes the domain for a notification. A domain that is gone has only its name and UID.
    pub fn domain(
        self,
        namespace: &str,
        name: &str,
        uid: &str,
        metadata: KubeVirtMetadata,
    ) -> DomainJson {
        match self.spec {
            Some(spec) => {
                // A copy, since the metadata are added to it.
                let spec = Arc::unwrap_or_clone(spec);
                DomainJson::new(namespace, name, spec, metadata, self.status, self.reason)
            }
            None => {
                let mut domain =
                    DomainJson::reference(namespace, name).with_status(self.status, self.reason);
                uid.clone_into(&mut domain.metadata.uid);
                uid.clone_into(&mut domain.spec.metadata.kubevirt.uid);
                domain
            }
        }
    }
}

fn life_cycle(state: DomainState) -> LifeCycle {
    match state {
        DomainState::NoState => LifeCycle::NoState,
        DomainState::Running => LifeCycle::Running,
        DomainState::Blocked => LifeCycle::Blocked,
        DomainState::Paused => LifeCycle::Paused,
        DomainState::Shutdown => LifeCycle::Shutdown,
        DomainState::Shutoff => LifeCycle::Shutoff,
        DomainState::Crashed => LifeCycle::Crashed,
        DomainState::PmSuspended => LifeCycle::PmSuspended,
    }
}

/// KubeVirt's reason for a state. KubeVirt has reasons only for these four states.
fn lifecycle_reason(state: State) -> &'static str {
    match state.state {
        DomainState::Paused
        | DomainState::Shutoff
        | DomainState::Shutdown
        | DomainState::Crashed => reason_name(state.reason),
        _ => reason::UNKNOWN,
    }
}

fn reason_name(reason: Reason) -> &'static str {
    match reason {
        Reason::User => reason::USER,
        Reason::Migration => reason::MIGRATION,
        Reason::Save => "Save",
        Reason::Dump => reason::DUMP,
        Reason::IOError => reason::IO_ERROR,
        Reason::Watchdog => "Watchdog",
        Reason::FromSnapshot => "FromSnapshot",
        Reason::ShuttingDown => "ShuttingDown",
        Reason::Snapshot => "Snapshot",
        Reason::Crashed => reason::CRASHED,
        Reason::StartingUp => reason::STARTING_UP,
        Reason::Postcopy => "Postcopy",
        Reason::PostcopyFailed => "PostcopyFailed",
        Reason::Shutdown => reason::SHUTDOWN,
        Reason::Destroyed => reason::DESTROYED,
        Reason::Migrated => reason::MIGRATED,
        Reason::Saved => "Saved",
        Reason::Failed => "Failed",
        Reason::Panicked => "Panicked",
        // KubeVirt has no name for these newer reasons of libvirt.
        Reason::ApiError | Reason::Daemon => "",
        _ => reason::UNKNOWN,
    }
}
